"""The loop of suggesting, annotating and refitting on a project, without HTTP or a terminal."""

from warpgauge.session.agreement import Agreement, LocationAgreement, RaterSummary
from warpgauge.session.fused_annotations import Mark
from warpgauge.session.mark_list import ListRow
from warpgauge.session.plausibility import UnconfirmedError
from warpgauge.session.progress import Progress, StopRule
from warpgauge.session.queries import Prediction, Query
from warpgauge.session.session import Saved, Session, Start

__all__ = [
    "Agreement",
    "ListRow",
    "LocationAgreement",
    "Mark",
    "Prediction",
    "Progress",
    "Query",
    "RaterSummary",
    "Saved",
    "Session",
    "Start",
    "StopRule",
    "UnconfirmedError",
]
