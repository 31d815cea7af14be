"""Limit on the memory used to read one file, whatever its header claims.

A small file can promise, and a packed one can unfold to, far more than the machine has. Every reader states the bytes
that it is about to hold *before* it allocates them, and `check_memory` refuses in one sentence what is too much.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from warpgauge.errors import FileFormatError, FileTooLargeError, InvalidInputError

VARIABLE = "WARPGAUGE_MEMORY"
INFLATION = 1032  # the most that one byte of deflate (zip, gzip, PNG) can unfold to
UNFOLDS = 4  # a file that holds at least this share of what it unfolds to is large itself, not a bomb
MOST_PARTS = 1000  # of a composite; real ones have a dozen at most
_LEAST = 2**30
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKmMgGtT]?)([iI]?)[bB]?\s*")
_SHARE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")


def physical_memory() -> int:
    """Return the bytes of memory that this process may use, or 16 GiB where the system does not tell."""
    try:
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):
        limits = [16 * 2**30]
    # The limits of the control group, as a container or a batch queue sets them.
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            limits.append(int((Path("/sys/fs/cgroup") / name).read_text(encoding="ascii")))  # or "max"
    return min(limits)


def chosen_limit() -> int | None:
    """Return the bytes that `WARPGAUGE_MEMORY` allows, or None where it is not set."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    share = _SHARE.fullmatch(text)
    size = _SIZE.fullmatch(text)
    if share is not None and 0 < float(share[1]) <= 100:
        return int(physical_memory() * float(share[1]) / 100)
    if size is not None and float(size[1]) > 0:
        base = 1024 if size[3] else 1000
        return int(float(size[1]) * base ** " kmgt".index(size[2].lower() or " "))
    raise InvalidInputError(f"{VARIABLE} is {text[:40]!r}, but a size such as 4GB or a share such as 25% is expected.")


def memory_limit(on_disk: int = 0, needed: int = 0) -> int:
    """Return the bytes that reading one file may take.

    Half of the memory for a file that is itself large (at least a quarter of what it unfolds to); otherwise a
    sixteenth of the memory, and at least 1 GiB. `WARPGAUGE_MEMORY` replaces both.
    """
    chosen = chosen_limit()
    if chosen is not None:
        return chosen
    memory = physical_memory()
    large_itself = on_disk > 0 and needed <= UNFOLDS * on_disk
    return memory // 2 if large_itself else min(max(memory // 16, _LEAST), memory // 2)


def check_memory(name: str, needed: int, on_disk: int | Callable[[], int] = 0, what: str = "It") -> None:
    """Refuse what would take more memory than one file may, before anything of that size is allocated.

    ``needed`` bytes would be held at once; ``on_disk`` are the bytes of the file, or a function where they are costly
    to find out; ``what`` is the subject of the sentence, for instance ``"One strip of it"``.
    """
    if needed <= min(memory_limit(), _LEAST) and chosen_limit() is None:
        return
    size = on_disk() if callable(on_disk) else on_disk
    limit = memory_limit(size, needed)
    if needed > limit:
        origin = f" from {shown_bytes(size)} on disk" if size else ""
        raise FileTooLargeError(
            f"{name!r} is not read: {what[0].lower()}{what[1:]} would take {shown_bytes(needed)} of memory{origin}, "
            f"more than the {shown_bytes(limit)} that one file may take here; if the file is meant to be so large, set "
            f"{VARIABLE}, for instance to {_suggested(needed)}."
        )


def shown_bytes(count: int) -> str:
    """Write a number of bytes for people."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}" if count < 10**15 else f"{count / size:.0e} {unit}"
    return f"{count} bytes"


def _suggested(needed: int) -> str:
    return f"{max(1, -(-needed // 10**9))}GB" if needed < 10**15 else "100%"


def check_parts(name: str, count: int) -> None:
    """Refuse a composite of absurdly many parts, while its parts are counted and before all of them are read."""
    if count > MOST_PARTS:
        raise FileTooLargeError(f"{name!r} is composed of more than {MOST_PARTS} transforms, which are not read.")


def size_on_disk(*paths: Path) -> int:
    """Return the bytes that files, and all files below folders, take on the disk: holes do not count."""
    total = 0
    for path in paths:
        files = path.rglob("*") if path.is_dir() else [path]
        for status in (file.stat() for file in files if file.is_file()):
            blocks = getattr(status, "st_blocks", None)  # of 512 bytes; not on every system
            total += status.st_size if blocks is None else min(status.st_size, 512 * blocks)
    return total


def check_room(name: str, needed: int, at_hand: int, what: str) -> None:
    """Refuse a header that promises more bytes than the file can hold, before anything of that size is allocated."""
    if needed > at_hand:
        raise FileFormatError(
            f"{name!r} is truncated, or its header is wrong: {what} need {needed} bytes, but at most {at_hand} can be "
            f"there."
        )
