"""One thread for what nobody waits for, of all projects that a process serves: one piece of work after the other."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

logger = logging.getLogger("warpgauge.web")
GATHERED = 0.2  # seconds from an answer to what follows from it: answers of many raters are looked at together


class Beside:
    """Does work soon, each piece once however often it was asked for meanwhile."""

    def __init__(self) -> None:
        self._waiting: dict[Callable[[], None], float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def soon(self, work: Callable[[], None]) -> None:
        """Do a piece of work soon, unless it waits already."""
        with self._changed:
            self._waiting.setdefault(work, time.monotonic() + GATHERED)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="warpgauge-beside", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        if sys.platform == "linux":  # only there a single thread can have a lower priority: answers come first
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while True:
            work = self._next()
            try:
                work()
            except Exception:
                logger.exception("Work beside the requests has failed")

    def _next(self) -> Callable[[], None]:
        """Return the piece of work that waits longest, when it is due."""
        with self._changed:
            while True:
                work, due = next(iter(self._waiting.items()), (None, float("inf")))
                left = due - time.monotonic()
                if work is not None and left <= 0:
                    del self._waiting[work]
                    return work
                self._changed.wait(None if work is None else left)


BESIDE = Beside()
"""That of this process."""
