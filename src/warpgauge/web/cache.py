"""What a process keeps of all its open projects: tiles, levels, maps; one bound of bytes for everything together."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

import numpy as np

MOST_BYTES = 512 * 2**20
_OTHER = 2**20  # bytes that a value without arrays is taken for


class Cache:
    """Results that took long, kept until others push them out, the least recently used first.

    Each is made by one thread only, and the others wait for it.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most, self.nbytes = most, 0
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of a key, computed now where it is missing."""
        fresh: Future[Any] = Future()
        with self._lock:
            value = self._values.setdefault(key, fresh)
            self._values.move_to_end(key)
        if value is not fresh:
            return value.result()
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                del self._values[key]
            value.set_exception(error)
            raise
        value.set_result(made)
        with self._lock:
            self.nbytes += size_of(made)
            self._shrink(key)
        return made

    def _shrink(self, newest: Hashable) -> None:
        for key, value in list(self._values.items()):
            if self.nbytes <= self.most:
                return
            if value.done() and key != newest:
                del self._values[key]
                self.nbytes -= size_of(value.result())


def size_of(value: Any) -> int:
    """Return the bytes of a value's arrays, or a guess for a value that has none."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, tuple):
        return sum(size_of(one) for one in value)
    return _OTHER


CACHE = Cache()
"""That of this process."""
