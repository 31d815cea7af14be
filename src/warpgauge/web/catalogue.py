"""The projects that one server serves: those of a folder, or those that a study names; found again while it runs."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import one_line
from warpgauge.study import read_study

logger = logging.getLogger("warpgauge.web")
DEEPEST = 3  # folders below the one that was named
MOST = 100_000
_LOOK_SECONDS = 5.0
_DOCUMENT = "project.json"


@dataclass(frozen=True)
class Pair:
    """A project among many.

    Attributes
    ----------
    key : str
        Part of its address, of plain letters, digits and ``_.~-``; stays the same while the project stays where it is.
    name : str
        For people: the path below the folder, or the name in the study.
    folder : Path
    """

    key: str
    name: str
    folder: Path


class Catalogue:
    """The pairs of a place, by their keys.

    Parameters
    ----------
    place : Path
        Folder with projects up to three levels below it, a project itself, or a study file (TOML).
    """

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
    def roster_file(self) -> Path:
        """File with the people: in the folder, or beside the study."""
        return self.place / "people.jsonl" if self.place.is_dir() else self.place.with_suffix(".people.jsonl")

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
