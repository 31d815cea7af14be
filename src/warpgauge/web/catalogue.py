"""The projects that one server serves: a project, those of a folder or of a study; and which of them are open."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import one_line
from warpgauge.project import Project, ProjectError
from warpgauge.study import read_study
from warpgauge.web.desk import Desk

logger = logging.getLogger("warpgauge.web")
DEEPEST = 3  # folders below the one that was named
MOST = 100_000
_LOOK_SECONDS = 5.0
_DOCUMENT = "project.json"
MOST_BYTES = 4 * 2**30  # of the images and models of all open projects


@dataclass(frozen=True)
class Pair:
    """A project among many."""

    key: str
    """Part of its address, of plain letters, digits and ``_.~-``; stays the same while the project stays there."""
    name: str
    """For people: the path below the folder, or the name in the study."""
    folder: Path

    @property
    def address(self) -> str:
        """Of its annotator, from the page of all pairs."""
        return f"pair/{self.key}/"


class Catalogue:
    """The pairs of a place, by their keys: a project, a folder with projects up to three levels below, or a study."""

    def __init__(self, place: Path) -> None:
        self.place, self._lock = place, threading.Lock()
        self._found: tuple[float, dict[str, Pair]] = 0.0, {}
        if not place.exists():
            raise InvalidInputError(f"There is no folder or study {str(place)!r}.")
        if not self.pairs():
            raise InvalidInputError(
                f"{str(place)!r} holds no project: none of its folders, up to {DEEPEST} levels deep, has a "
                f"{_DOCUMENT}; make projects with warpgauge new {place.name}/NAME."
            )

    @property
    def only(self) -> Pair | None:
        """The pair, where the place is a project itself."""
        return next(iter(self.pairs().values())) if (self.place / _DOCUMENT).exists() else None

    @property
    def people_file(self) -> Path:
        """File with the people: in the folder, or beside the study."""
        return self.place / "people.json" if self.place.is_dir() else self.place.with_suffix(".people.json")

    def pairs(self) -> Mapping[str, Pair]:
        """Return all pairs in the order of their names; projects added since are found within seconds."""
        if not self._lock.acquire(blocking=not self._found[1]):
            return self._found[1]  # another request is looking
        try:
            if not self._found[1] or time.monotonic() - self._found[0] > _LOOK_SECONDS:
                self._found = time.monotonic(), self._look()
            return self._found[1]
        finally:
            self._lock.release()

    def _look(self) -> dict[str, Pair]:
        try:
            named = list(self._of_study() if self.place.is_file() else self._of_folder())
        except (WarpgaugeError, OSError) as error:
            if not self._found[1]:
                raise InvalidInputError(f"{str(self.place)!r} cannot be read: {one_line(error)}.") from error
            # A study that is being edited, or a folder that is away, does not take away what is served.
            logger.error("%s cannot be read now, so its former pairs are served: %s", self.place, one_line(error))
            return self._found[1]
        found = {_key(name): Pair(_key(name), name, folder) for name, folder in named}
        return dict(sorted(found.items(), key=lambda item: _natural(item[1].name)))

    def _of_study(self) -> Iterator[tuple[str, Path]]:
        for pair in read_study(self.place).pairs:
            if pair.project is not None:
                yield pair.name, pair.project

    def _of_folder(self) -> Iterator[tuple[str, Path]]:
        if (self.place / _DOCUMENT).exists():
            yield self.place.resolve().name, self.place
            return
        waiting, count = [(self.place, 0)], 0
        while waiting:
            folder, depth = waiting.pop()
            with os.scandir(folder) as entries:
                below = [entry for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
            for entry in below:
                one = Path(entry.path)
                if (one / _DOCUMENT).exists():
                    count += 1
                    yield one.relative_to(self.place).as_posix(), one
                elif depth + 1 < DEEPEST and not entry.is_symlink() and os.access(one, os.R_OK | os.X_OK):
                    waiting.append((one, depth + 1))
            if count > MOST:
                raise InvalidInputError(f"{str(self.place)!r} holds more than {MOST} projects; serve a part of them.")


def _key(name: str) -> str:
    """Return what stands for a name in an address; two names never share one."""
    plain = re.sub(r"[^A-Za-z0-9_.~-]+", "-", name).strip(".-")[:60]
    if plain == name:
        return name
    return f"{plain}~{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:10]}"


def _natural(name: str) -> list[tuple[int, str]]:
    """Order pair2 before pair10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d{1,15})", name)]


class OpenProjects:
    """Projects that are open now: opened when somebody asks, closed when all together take too much memory.

    The one that was used least recently makes room; those that a request is using stay. A project that cannot be
    opened is refused with its own sentence, and the others go on.
    """

    def __init__(self, open_desk: Callable[[Pair], Desk], most_bytes: int = MOST_BYTES) -> None:
        self._open_desk, self.most_bytes = open_desk, most_bytes
        self._desks: OrderedDict[str, Desk] = OrderedDict()
        self._users: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}

    def take(self, pair: Pair) -> Desk:
        """Return the desk of a pair, opened if need be; it stays open until it is given back."""
        with self._opening.setdefault(pair.key, threading.Lock()):  # two requests do not open it both
            desk = self._used(pair.key)
            if desk is None:
                desk = self._opened(pair)
                with self._lock:
                    self._desks[pair.key] = desk
                    self._users[pair.key] += 1
                self._make_room()
        return desk

    def _used(self, key: str) -> Desk | None:
        """Return the desk of a pair that is open, which is used from now on."""
        with self._lock:
            desk = self._desks.get(key)
            if desk is not None:
                self._users[key] += 1
                self._desks.move_to_end(key)
            return desk

    def _opened(self, pair: Pair) -> Desk:
        try:
            return self._open_desk(pair)
        except WarpgaugeError:
            raise
        except Exception as error:
            logger.exception("The pair %s cannot be opened", pair.name)
            raise ProjectError(f"The pair {pair.name!r} cannot be opened; the server's log says more.") from error

    def give_back(self, key: str) -> None:
        """Say that a request has ended."""
        with self._lock:
            self._users[key] -= 1

    @contextmanager
    def looked_at(self, pair: Pair) -> Iterator[Project]:
        """Yield the project of a pair: that of its desk where it is open, else one of its own without images."""
        desk = self._used(pair.key)
        if desk is None:
            with Project.open(pair.folder, check_images=False) as project:
                yield project
            return
        try:
            yield desk.project
        finally:
            self.give_back(pair.key)

    def _make_room(self) -> None:
        """Close projects that nobody is using until the others take no more than they may."""
        closing: list[Desk] = []
        with self._lock:
            total = sum(desk.nbytes for desk in self._desks.values())
            for key, desk in list(self._desks.items()):
                if total > self.most_bytes and not self._users[key]:
                    del self._desks[key]
                    total -= desk.nbytes
                    closing.append(desk)
        for desk in closing:  # whose background work may take a moment to end, for which no request should wait
            threading.Thread(target=desk.close, name="warpgauge-close", daemon=True).start()

    def latest(self) -> Desk | None:
        """Return the open project that was used last."""
        with self._lock:
            return next(reversed(self._desks.values()), None)

    def close(self) -> None:
        """Close all projects."""
        with self._lock:
            desks = list(self._desks.values())
            self._desks.clear()
        for desk in desks:
            desk.stop()
        for desk in desks:
            desk.close()
