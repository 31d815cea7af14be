"""Errors of a project on disk, other than wrong arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import one_line

if TYPE_CHECKING:
    from warpgauge.project.events import Event

_LONGEST = 300  # characters of a sentence


class ProjectError(WarpgaugeError):
    """A project cannot be opened, or what is in it contradicts itself."""


class UntrustedProjectError(ProjectError):
    """A project that was not made here reaches outside its folder, and nobody has trusted it yet."""


class StorageError(ProjectError):
    """An action could not be saved: the disk is full, the folder is read-only, or another process holds the log."""


class ConflictError(ProjectError):
    """The same rater changed the same query after the state that this action was based on, by the event ``newer``."""

    def __init__(self, message: str, newer: Event) -> None:
        super().__init__(message)
        self.newer = newer


class NotAllowedError(ProjectError):
    """The role of the person who asked does not allow this."""


@contextmanager
def project_content(what: str, advice: str = "put back a copy of it") -> Iterator[None]:
    """Turn any error caused by a damaged or hostile project file into one sentence.

    Project files come from anywhere: JSON nested a million times, ragged arrays, numbers that overflow. The net has to
    be wide, and this is the only one. Errors of warpgauge pass, shortened where they repeat what stood in the file.
    """
    try:
        yield
    except WarpgaugeError as error:
        # Here a wrong argument came from the file.
        if len(str(error)) <= _LONGEST and not isinstance(error, InvalidInputError):
            raise
        raise ProjectError(f"{what} cannot be understood: {one_line(error, _LONGEST)}; {advice}.") from error
    except Exception as error:
        told = f"{type(error).__name__}: {one_line(error)}"
        raise ProjectError(f"{what} cannot be understood ({told}); {advice}.") from error
