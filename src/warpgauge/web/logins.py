"""Log of logins and refusals beside the project, and a limit on wrong tokens."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from warpgauge.io.inside import own_file

FILE = "access.log"
LARGEST = 2 * 2**20
WRONG_TOKENS = 20  # per address and minute
_MINUTE = 60.0
_ADDRESSES = 10_000


class LoginLog:
    """Logins and refusals, one JSON object per line: time, address, what, who; never a token.

    The file stands in the folder of the project; without a folder nothing is written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._lock = threading.Lock()
        self._told: OrderedDict[tuple[str, str, str], float] = OrderedDict()

    def write(self, address: str, what: str, who: str = "") -> None:
        """Add a line; the same one for the same address is written once a minute."""
        key, now = (address, what, who), time.monotonic()
        with self._lock:
            if self._path is None or now - self._told.get(key, -_MINUTE) < _MINUTE:
                return
            self._told[key] = now
            while len(self._told) > _ADDRESSES:
                self._told.popitem(last=False)
            entry = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "address": address, "what": what}
            line = json.dumps({**entry, "who": who} if who else entry) + "\n"
            with suppress(OSError):  # a log that cannot be written does not keep people from working
                if self._path.exists() and self._path.stat().st_size > LARGEST:
                    self._path.replace(self._path.with_suffix(".log.1"))
                handle = own_file(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(handle, line.encode())
                finally:
                    os.close(handle)


class WrongTokens:
    """Counts wrong tokens by address, so that guessing is answered with 429."""

    def __init__(self, most: int = WRONG_TOKENS) -> None:
        self.most = most
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, address: str) -> None:
        """Count one more."""
        began, count = self._seen.pop(address, (time.monotonic(), 0))
        if time.monotonic() - began > _MINUTE:
            began, count = time.monotonic(), 0
        self._seen[address] = began, count + 1
        while len(self._seen) > _ADDRESSES:
            self._seen.popitem(last=False)

    def too_many(self, address: str) -> bool:
        """Return whether this address has to wait."""
        began, count = self._seen.get(address, (0.0, 0))
        return count >= self.most and time.monotonic() - began <= _MINUTE
