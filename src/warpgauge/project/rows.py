"""Conversion of a row of the log's table to an event."""

from __future__ import annotations

import json
from typing import Any

from warpgauge.project.errors import ProjectError
from warpgauge.project.events import Event
from warpgauge.project.schema import COLUMNS

SELECT = f"SELECT {COLUMNS}, digest FROM events"  # nosec B608  # constants of this package


def event_of(row: tuple[Any, ...]) -> Event:
    """Read one row; a payload that is no JSON object says that the file was damaged."""
    generation, time, rater, kind, query, duration, base, text, digest = row
    try:
        payload = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise ProjectError(f"Event {generation} of the log cannot be read: its content is damaged.")
    return Event(kind, rater, query, payload, duration, base, generation, time, digest)
