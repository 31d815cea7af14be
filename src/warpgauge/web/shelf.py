"""Projects that are open now, of many: opened when somebody asks for them, closed when nobody has for a while.

At most so many are open, and more only while people work in them; the one that was used least recently makes room. A
project that cannot be opened is refused with its own sentence, and the others go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from warpgauge.errors import WarpgaugeError
from warpgauge.project import ProjectError
from warpgauge.web.app_state import Desk, load_programs
from warpgauge.web.catalogue import Pair

logger = logging.getLogger("warpgauge.web")
IDLE_SECONDS = 15 * 60.0
# Who asked so recently has a question before them: closing that project would mean to open it again for the answer. So
# up to so many times as many stay open.
AT_WORK_SECONDS, MOST_AT_WORK = 60.0, 4
_SWEEP_SECONDS = 15.0
_AGAIN_SECONDS = 3.0  # a project that cannot be opened is not tried again before


_NOBODY = Pair("", "", Path())  # wakes the thread that prepares, to end


@dataclass
class _Place:
    """A project on the shelf; ``opening`` is held while it is opened, so that two requests do not open it twice."""

    opening: threading.Lock = field(default_factory=threading.Lock)
    desk: Desk | None = None
    problem: tuple[float, str] | None = None
    users: int = 0
    used: float = 0.0


class Shelf:
    """Open projects.

    Parameters
    ----------
    open_desk : callable
        Opens a pair; its errors become the sentence about this pair.
    most : int
        Number of projects that are kept open besides those used within the last minute, with these four times as many;
        those that a request is using now are never closed.
    """

    def __init__(self, open_desk: Callable[[Pair], Desk], most: int) -> None:
        self._open_desk, self.most = open_desk, most
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._lock, self._over = threading.Lock(), threading.Event()
        self._expected: SimpleQueue[Pair] = SimpleQueue()
        threading.Thread(target=self._sweep, name="warpgauge-shelf", daemon=True).start()
        threading.Thread(target=self._prepare, name="warpgauge-prepare", daemon=True).start()

    @property
    def open_keys(self) -> list[str]:
        """Keys of the pairs that are open, the least recently used first."""
        with self._lock:
            return [key for key, place in self._places.items() if place.desk is not None]

    @contextmanager
    def use(self, pair: Pair) -> Iterator[Desk]:
        """Yield the desk of a pair, which stays open meanwhile."""
        desk = self.take(pair)
        try:
            yield desk
        finally:
            self.give_back(pair)

    def take(self, pair: Pair) -> Desk:
        """Return the desk of a pair, opened if need be; it stays open until it is given back."""
        with self._lock:
            place = self._places.setdefault(pair.key, _Place())
            place.users += 1
            self._places.move_to_end(pair.key)
        try:
            with place.opening:
                if place.desk is None:
                    place.desk = self._opened(pair, place)
            self._close(self._superfluous())
            return place.desk
        except BaseException:
            self.give_back(pair)
            raise

    def expect(self, pair: Pair) -> None:
        """Open a pair soon, beside the requests, where there is room: somebody will probably ask for it next."""
        self._expected.put(pair)

    def _prepare(self) -> None:
        load_programs()
        while not self._over.is_set():
            pair = self._expected.get()
            with suppress(WarpgaugeError):  # who asks for it is told why
                if not self._over.is_set() and len(self.open_keys) < self.most:
                    self.take(pair).prepare()
                    self.give_back(pair)

    def taken_if_open(self, pair: Pair) -> Desk | None:
        """Return the desk of a pair that is open already, to be given back; None for one that is not."""
        with self._lock:
            place = self._places.get(pair.key)
            if place is None or place.desk is None:
                return None
            place.users += 1
            return place.desk

    def give_back(self, pair: Pair) -> None:
        """Say that a request has ended."""
        with self._lock:
            place = self._places.get(pair.key)
            if place is not None:  # else the server is ending
                place.users -= 1
                place.used = time.monotonic()

    def _opened(self, pair: Pair, place: _Place) -> Desk:
        if place.problem is not None and time.monotonic() - place.problem[0] < _AGAIN_SECONDS:
            raise ProjectError(place.problem[1])
        try:
            desk = self._open_desk(pair)
        except WarpgaugeError as error:
            place.problem = time.monotonic(), str(error)
            raise
        except Exception as error:
            logger.exception("The pair %s cannot be opened", pair.name)
            place.problem = time.monotonic(), f"The pair {pair.name!r} cannot be opened; the server's log says more."
            raise ProjectError(place.problem[1]) from error
        place.problem = None
        return desk

    def _superfluous(self, idle: float | None = None) -> list[Desk]:
        """Take the places off the shelf that are too many or, with a time, idle for so long."""
        now, found = time.monotonic(), list[Desk]()
        with self._lock:
            count = sum(place.desk is not None for place in self._places.values())
            for key, place in list(self._places.items()):
                rested = now - place.used
                too_many = count > self.most * (1 if rested > AT_WORK_SECONDS else MOST_AT_WORK)
                old = idle is not None and (rested > idle or place.desk is None)
                if place.users or not (too_many or old):
                    continue
                del self._places[key]
                if place.desk is not None:
                    found.append(place.desk)
                    count -= 1
        return found

    def _close(self, desks: list[Desk]) -> None:
        # Its background work may take a moment to end, for which no request should wait.
        for desk in desks:
            threading.Thread(target=desk.close, name="warpgauge-close", daemon=True).start()

    def _sweep(self) -> None:
        while not self._over.wait(_SWEEP_SECONDS):
            self._close(self._superfluous(IDLE_SECONDS))

    def close(self) -> None:
        """Close all projects."""
        self._over.set()
        self._expected.put(_NOBODY)
        with self._lock:
            desks = [place.desk for place in self._places.values() if place.desk is not None]
            self._places.clear()
        for desk in desks:
            desk.stop()
        for desk in desks:
            desk.close()
