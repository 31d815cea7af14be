"""Exceptions and warnings of the public interface.

Every message is one sentence that says what is wrong, where, what was expected and what to do.
"""

from __future__ import annotations


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


class JobTimeoutError(WarpgaugeError, TimeoutError):
    """A job took longer than it may, and was ended."""


class WarpgaugeWarning(UserWarning):
    """Base of all warnings that warpgauge gives on purpose."""


class NumericalWarning(WarpgaugeWarning):
    """A number was adjusted to go on; the message says by how much."""


class SuspiciousDataWarning(WarpgaugeWarning):
    """The data are legal but probably not what was meant."""
