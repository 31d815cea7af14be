"""A project on disk: a folder that can be resumed, moved and shared.

`Project` holds images, points and settings, and an append-only log of every action; its `State` is a replay of that
log.
"""

from warpgauge.project.errors import ConflictError, NotAllowedError, ProjectError, StorageError
from warpgauge.project.events import Ask, DrawAudit, Event, Place, Skip, replay
from warpgauge.project.integrity import VerifyReport, verify_project
from warpgauge.project.project import Project
from warpgauge.project.settings import Settings
from warpgauge.project.state import State
from warpgauge.project.values import (
    ORGANISER,
    ROLES,
    SKIP_REASONS,
    Cell,
    Doubt,
    Placement,
)

__all__ = [
    "ORGANISER",
    "ROLES",
    "SKIP_REASONS",
    "Ask",
    "Cell",
    "ConflictError",
    "Doubt",
    "DrawAudit",
    "Event",
    "NotAllowedError",
    "Place",
    "Placement",
    "Project",
    "ProjectError",
    "Settings",
    "Skip",
    "State",
    "StorageError",
    "VerifyReport",
    "replay",
    "verify_project",
]
