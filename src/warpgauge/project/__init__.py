"""A project on disk: a folder that can be resumed, moved and shared.

`Project` holds images, points and settings, and an append-only log of every action; its `State` is a replay of that
log.
"""

from warpgauge.project.errors import ConflictError, NotAllowedError, ProjectError, StorageError
from warpgauge.project.integrity import VerifyReport, verify_project
from warpgauge.project.kinds import replay
from warpgauge.project.project import Project
from warpgauge.project.records import (
    ROLES,
    SKIP_REASONS,
    AuditRound,
    Cell,
    Draft,
    Ellipse,
    Event,
    Flag,
    Placement,
    QueryRecord,
    Skipped,
)
from warpgauge.project.settings import Settings
from warpgauge.project.state import State

__all__ = [
    "ROLES",
    "SKIP_REASONS",
    "AuditRound",
    "Cell",
    "ConflictError",
    "Draft",
    "Ellipse",
    "Event",
    "Flag",
    "NotAllowedError",
    "Placement",
    "Project",
    "ProjectError",
    "QueryRecord",
    "Settings",
    "Skipped",
    "State",
    "StorageError",
    "VerifyReport",
    "replay",
    "verify_project",
]
