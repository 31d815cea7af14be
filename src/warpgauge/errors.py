"""Exceptions and warnings of the public interface, and advice on how to install what an optional part needs.

Every message is one sentence that says what is wrong, where, what was expected and what to do.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[([^\]]*)\])?([^;]*);.*extra\s*==\s*['\"]([\w-]+)['\"]")


ANY = "..."
# Arguments of the library, and the options of the command line that have another name.
_OPTIONS = {"moving_grid": "moving_image", **dict.fromkeys(("fixed_grid", "grid", "reference"), "fixed_image")}
_RENAMED: ContextVar[Mapping[str, str] | None] = ContextVar("renamed", default=None)


@contextmanager
def options_named(**names: str) -> Iterator[None]:
    """Name options of the command line as here, ``frame="field_frame"``, where a command has two of one name."""
    token = _RENAMED.set(names)
    try:
        yield
    finally:
        _RENAMED.reset(token)


def say(name: str, value: Any = None) -> str:
    """Return an argument as a message names it: by its option, as in ``--units um`` for ``units="um"``."""
    named = {**_OPTIONS, **(_RENAMED.get() or {})}.get(name, name)
    option = f"--{named.replace('_', '-')}"
    if value is None or value is True or value == ANY:
        return option
    return f"{option} {value:g}" if isinstance(value, float) else f"{option} {value}"


class WarpgaugeError(Exception):
    """Base of all errors that warpgauge raises on purpose."""


class InvalidInputError(WarpgaugeError, ValueError):
    """An argument has the wrong shape, unit, range or content."""


class SingularModelError(WarpgaugeError, ArithmeticError):
    """A covariance matrix cannot be factored, for instance because two exact annotations coincide."""


class FileFormatError(WarpgaugeError, ValueError):
    """A file is truncated, mislabelled, empty, or not of a format that warpgauge reads.

    What is quoted from the file may be of any length, so that a message of more than `LONGEST` characters loses its
    middle.
    """

    LONGEST = 480

    def __init__(self, message: str = "") -> None:
        if len(message) > self.LONGEST:
            message = f"{message[: self.LONGEST - 160]} ... {message[-150:]}"
        super().__init__(message)


class FileTooLargeError(FileFormatError):
    """Reading a file would take more memory or time than one file may; the message says how to allow it."""


class AmbiguousFileError(FileFormatError):
    """A file can be read in more than one way and does not say which; the caller has to."""


class MissingExtraError(WarpgaugeError, ImportError):
    """An optional dependency is needed; the message names the extra that installs it."""


class WorkerLostError(WarpgaugeError, RuntimeError):
    """The process or the machine that ran a job has ended without a result, each time that it was tried."""


class WarpgaugeWarning(UserWarning):
    """Base of all warnings that warpgauge gives on purpose."""


class NumericalWarning(WarpgaugeWarning):
    """A number was adjusted to go on; the message says by how much."""


class SuspiciousDataWarning(WarpgaugeWarning):
    """The data are legal but probably not what was meant."""


def warn_suspicious(message: str) -> None:
    """Give a `SuspiciousDataWarning` that points at the line which called warpgauge, however deep this is called."""
    depth = 2
    caller = sys._getframe(1)
    while caller.f_back is not None and caller.f_globals.get("__name__", "").partition(".")[0] == __package__:
        depth = depth + 1
        caller = caller.f_back
    warnings.warn(message, SuspiciousDataWarning, stacklevel=depth)


def packages(extra: str) -> list[str]:
    """Return the requirements of an extra (``"images"``), those of extras that it includes among them."""
    from importlib.metadata import PackageNotFoundError, requires  # slow to import, and needed only for advice

    try:
        lines = requires("warpgauge") or []
    except PackageNotFoundError:
        lines = []
    found: list[str] = []
    for line in lines:
        match = _REQUIREMENT.match(line)
        if match is None or match[4] != extra:
            continue
        if match[1].lower() == "warpgauge":
            for inner in (match[2] or "").split(","):
                found += packages(inner.strip())
        else:
            found.append(f"{match[1]}{match[3].strip()}")
    return list(dict.fromkeys(found))


def install_advice(extra: str) -> str:
    """Return the command that installs what an extra needs; it works whether or not warpgauge itself is published."""
    named = packages(extra)
    if not named:
        return f'run: pip install ".[{extra}]" in a clone of warpgauge'
    return "run: pip install " + " ".join(f'"{one}"' for one in named)
