"""What can go wrong with a project on disk, beyond wrong arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpgauge.errors import WarpgaugeError

if TYPE_CHECKING:
    from warpgauge.project.events import Event


class ProjectError(WarpgaugeError):
    """A project cannot be opened, or what is in it contradicts itself."""


class StorageError(ProjectError):
    """An action could not be saved: the disk is full, the folder is read-only, or another process holds the log."""


class ConflictError(ProjectError):
    """The same rater changed the same query after the state that this action was based on.

    Attributes
    ----------
    newer : Event
        The rater's newest event on that query, to be shown beside the refused action.
    """

    def __init__(self, message: str, newer: Event) -> None:
        super().__init__(message)
        self.newer = newer


class NotAllowedError(ProjectError):
    """The role of the person who asked does not allow this."""
