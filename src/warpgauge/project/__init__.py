"""A project on disk: a folder that can be resumed, moved and shared.

`Project` holds images, points and settings, and an append-only log of every action; its `State` is a replay of that
log.
"""

from warpgauge.project.errors import ConflictError, NotAllowedError, ProjectError, StorageError
from warpgauge.project.events import Event, replay
from warpgauge.project.integrity import VerifyReport, verify_project
from warpgauge.project.project import Project
from warpgauge.project.settings import Settings
from warpgauge.project.state import State
from warpgauge.project.values import (
    ORGANISER,
    REVOKED,
    ROLES,
    SKIP_REASONS,
    AuditRound,
    Cell,
    Doubt,
    Ellipse,
    Entry,
    Placed,
    Placement,
    QueryRecord,
    Skipped,
    Stamp,
)

__all__ = [
    "ORGANISER",
    "REVOKED",
    "ROLES",
    "SKIP_REASONS",
    "AuditRound",
    "Cell",
    "ConflictError",
    "Doubt",
    "Ellipse",
    "Entry",
    "Event",
    "NotAllowedError",
    "Placed",
    "Placement",
    "Project",
    "ProjectError",
    "QueryRecord",
    "Settings",
    "Skipped",
    "Stamp",
    "State",
    "StorageError",
    "VerifyReport",
    "replay",
    "verify_project",
]
