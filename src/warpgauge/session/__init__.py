"""The loop of suggesting, annotating and refitting on a project, without HTTP or a terminal."""

from warpgauge.session.agreement import Agreement, IntraRater, LocationAgreement, RaterSummary
from warpgauge.session.answering import Start
from warpgauge.session.doubts import Doubt
from warpgauge.session.gather import Mark
from warpgauge.session.listing import ListRow
from warpgauge.session.placements import Saved
from warpgauge.session.predictions import Prediction
from warpgauge.session.progress import Curve, Progress, StopRule
from warpgauge.session.queries import Query
from warpgauge.session.session import Session

__all__ = [
    "Agreement",
    "Curve",
    "Doubt",
    "IntraRater",
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
]
