"""Exceptions and warnings of the public interface, and advice on how to install what an optional part needs.

Every message is one sentence that says what is wrong, where, what was expected and what to do.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Self

_REQUIREMENT = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[([^\]]*)\])?([^;]*);.*extra\s*==\s*['\"]([\w-]+)['\"]")


class Wording:
    """How a message names the arguments of a function: as Python writes them. The command line has its own wording."""

    def argument(self, name: str, value: Any) -> str:
        """Return an argument: ``units=`` without a value, ``units='um'`` with one; ``...`` stands for any value."""
        if value is None or value == ANY:
            return f"{name}=" if value is None else f"{name}=..."
        return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value!r}"

    def relink(self, role: str, accept: bool) -> str:
        """Return the call that links an image of a project again, one with another content if that is accepted."""
        return f"relink({role}=PATH{', accept_changed=True' if accept else ''})"


ANY = "..."
_MARK = "\0"  # around an argument; quoted text cannot hold it


def say(name: str, value: Any = None) -> str:
    """Return what stands for an argument in the text of an error or of a `Message`.

    Each door then names it in its own words: ``units='um'`` in Python, ``--units um`` on the command line.
    ``say("relink", (role, accept))`` stands for a call.
    """
    return f"{_MARK}{json.dumps([name, value])}{_MARK}"


class Message(str):
    """A sentence that may name arguments by `say`; as a string it names them as Python does.

    Errors and warnings of warpgauge make their text a message themselves. `told` gives it in another wording, for which
    nothing is looked for in the sentence.
    """

    _pieces: tuple[str, ...]

    def __new__(cls, text: str) -> Self:
        """Cut the text at the marks: every second piece is an argument."""
        pieces = text._pieces if isinstance(text, Message) else tuple(str(text).split(_MARK))
        made = super().__new__(cls, _joined(pieces, Wording()))
        made._pieces = pieces
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.marked,)

    @property
    def marked(self) -> str:
        """The text with its arguments as `say` returned them, to be part of another message."""
        return _MARK.join(self._pieces)

    def told(self, wording: Wording) -> str:
        """Return the sentence with its arguments in another wording."""
        return _joined(self._pieces, wording)


def _joined(pieces: Sequence[str], wording: Wording) -> str:
    words = list(pieces)
    for place in range(1, len(words), 2):
        name, value = json.loads(words[place])
        words[place] = wording.relink(*value) if name == "relink" else wording.argument(name, value)
    return "".join(words)


def told(problem: object, wording: Wording) -> str:
    """Return the text of an error, a warning or a note in a wording."""
    text = problem.args[0] if isinstance(problem, Exception) and problem.args else problem
    return text.told(wording) if isinstance(text, Message) else str(problem)


class WarpgaugeError(Exception):
    """Base of all errors that warpgauge raises on purpose."""

    def __init__(self, message: str = "", *more: object) -> None:
        super().__init__(Message(message), *more)


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
        message = Message(message)
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


class JobTimeoutError(WarpgaugeError, TimeoutError):
    """A job took longer than it may, and was ended."""


class WarpgaugeWarning(UserWarning):
    """Base of all warnings that warpgauge gives on purpose."""

    def __init__(self, message: str = "") -> None:
        super().__init__(Message(message))


class NumericalWarning(WarpgaugeWarning):
    """A number was adjusted to go on; the message says by how much."""


class SuspiciousDataWarning(WarpgaugeWarning):
    """The data are legal but probably not what was meant."""


def warn_suspicious(message: str) -> None:
    """Give a `SuspiciousDataWarning` that points at the line which called warpgauge, however deep this is called."""
    depth, caller = 2, sys._getframe(1)
    while caller.f_back is not None and caller.f_globals.get("__name__", "").partition(".")[0] == __package__:
        depth, caller = depth + 1, caller.f_back
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
