"""What has been done, as each person may see it: the list of answers, the progress, and one's marks as a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from fastapi import APIRouter
from starlette.responses import Response

from warpgauge.io.inside import file_name
from warpgauge.io.landmarks.writer import write_landmarks
from warpgauge.project import NotAllowedError, Skip
from warpgauge.session import ListRow
from warpgauge.session.queries import number_for
from warpgauge.web.desk import Visit, Visiting
from warpgauge.web.ranking import TransformsAnswer
from warpgauge.web.wire import Given, rough

_FILE: dict[str, object] = {
    "description": "A CSV file; the header Content-Disposition has its name.",
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
Chosen = Literal["asked", "moved", "volunteered"]
router = APIRouter()


class ListRowAnswer(Given):
    """An answer and how it fits the others; what follows from a prediction is left out where these are hidden.

    ``number`` counts a rater's answers from 1; ``flagged`` ones lie outside the image or far from a prediction.
    """

    query: int
    number: int
    rater: str | None
    location: list[float]
    chosen: Chosen
    point: list[float] | None = None
    covariance: list[list[float]] | None = None
    alpha: float | None = None
    distance: float | None = None
    mahalanobis: float | None = None
    outlier: bool = False
    flagged: bool = False
    disabled: bool = False
    excluded: bool = False
    skipped: bool = False
    reason: str | None = None
    text: str = ""


class ListAnswer(Given):
    """All answers that this person may see.

    A slip at least as long as ``detectable``, in world units, would have been found at any mark; null where marks are
    too few to compare them, or predictions are hidden.
    """

    rows: list[ListRowAnswer]
    detectable: float | None


class CurvePoint(Given):
    """Uncertainty after so many annotations."""

    annotations: int
    mean_sd: float


class StopAnswer(Given):
    """A stop rule."""

    rule: str
    met: bool
    sentence: str


class ProgressAnswer(Given):
    """Progress of the annotation; a standard deviation times ``region`` is the ± of the page."""

    annotations: int
    placed: int
    targets: int
    mean_sd: float
    max_sd: float
    region: float
    curve: list[CurvePoint]
    next_gain: float | None
    stop: list[StopAnswer]
    median_seconds: float | None
    model: str
    verdict: str | None


def _chosen(origin: str) -> Chosen:
    """Return an origin as a rater may see it: repeats are not announced."""
    return "volunteered" if origin == "volunteered" else "moved" if origin == "moved" else "asked"


def _placed(row: ListRow, visit: Visit) -> ListRowAnswer:
    state = visit.project.state
    mark = row.mark
    answer = ListRowAnswer(
        query=visit.session.blindness.name(state, visit.name, mark.query.number),
        number=number_for(state, mark.rater, mark.query.number),
        rater=mark.rater if visit.compares else None,
        location=list(mark.fixed_point),
        chosen=_chosen(mark.origin),
        point=list(mark.placement.moving),
        covariance=[list(line) for line in mark.placement.covariance],
        alpha=mark.placement.alpha,
        disabled=mark.disabled,
        excluded=mark.excluded,
    )
    if visit.predicts:
        # Each of these gives away where the model expects the match: three distances locate it, a flag does by halves.
        answer.distance = row.distance
        answer.mahalanobis = row.mahalanobis
        answer.outlier = row.outlier
        answer.flagged = mark.placed.doubt is not None
    return answer


def _skipped(rater: str, number: int, skip: Skip, visit: Visit) -> ListRowAnswer:
    state = visit.project.state
    return ListRowAnswer(
        query=visit.session.blindness.name(state, visit.name, number),
        number=number_for(state, rater, number),
        rater=rater if visit.compares else None,
        location=list(state.queries[number].point),
        chosen=_chosen(state.queries[number].origin),
        skipped=True,
        reason=skip.reason,
        text=skip.text,
    )


@router.get("/list")
def listing(visit: Visiting) -> ListAnswer:
    """Return all answers that this person may see: placements with how well the others predict them, and skips."""
    whose = None if visit.compares else visit.name
    session = visit.session
    with visit.desk.lock:
        rows = [_placed(row, visit) for row in session.listing(whose, viewer=visit.name)]
        rows += [_skipped(*skip, visit) for skip in session.skipped(whose, viewer=visit.name)]
        detectable = session.detectable(whose, viewer=visit.name) if visit.predicts else None
    rows.sort(key=lambda row: (row.query, row.rater or ""))
    return ListAnswer(rows=rows, detectable=detectable)


@router.get("/progress")
def progress(visit: Visiting) -> ProgressAnswer:
    """Return the progress: a rater's own counts and times, or those of all raters for organisers."""
    whose = None if visit.person.organises else visit.name
    with visit.desk.lock:
        found = visit.session.progress(whose, viewer=visit.name)
    # Who is kept from the transforms is not told what the audit says of them.
    rules = [rule for rule in found.stop_rules if visit.compares or rule.name != "decided"]
    stop = [StopAnswer(rule=rule.name, met=rule.met, sentence=rule.sentence) for rule in rules]
    verdict = visit.desk.ranking.verdict() if visit.compares else None
    audit = visit.desk.audit.verdict() if visit.compares else None
    if audit is not None and not any(rule.name == "decided" for rule in rules):
        stop.append(StopAnswer(rule="decided", met=audit.best is not None, sentence=audit.sentence))
    # The calibration scales every uncertainty by the residuals: its last digits would reveal them.
    shown = float if visit.predicts else rough
    return ProgressAnswer(
        annotations=found.annotations,
        placed=found.placed,
        targets=found.targets,
        mean_sd=shown(found.mean_sd),
        max_sd=shown(found.max_sd),
        region=found.region,
        curve=[CurvePoint(annotations=count, mean_sd=shown(sd)) for count, sd in enumerate(found.curve.tolist())],
        next_gain=None if found.expected_gain is None else shown(found.expected_gain),
        stop=stop,
        median_seconds=found.median_seconds,
        model=found.weights,
        verdict=verdict,
    )


@router.get("/transforms")
def transforms(visit: Visiting) -> TransformsAnswer:
    """Return the transforms that were added, and their ranking so far."""
    visit.check_compares()
    return visit.desk.ranking.table()


@router.get("/marks/{whose}", response_class=Response, responses={200: _FILE})
def marks(whose: Literal["mine", "all", "fused"], visit: Visiting) -> Response:
    """Return marks as CSV: one's own; for organisers also those of all raters, or one per location.

    What a file may hold is decided where it is decided for ``warpgauge export``: sealed answers are in none.
    """
    project = visit.project
    if whose != "mine" and not visit.person.organises:
        raise NotAllowedError("The marks of all raters are for the organiser.")
    if whose == "mine":
        if project.state.sealed_locations() or (project.settings.audit > 0 and not project.state.unsealed):
            # A file without them would tell which of the questions were drawn, and when the first one was.
            raise NotAllowedError(
                "Some answers of this project are sealed, so marks can be taken from here once the organiser unseals "
                "them."
            )
        landmarks = visit.session.own_landmarks(visit.name)
    else:
        landmarks = visit.session.landmarks(fused=whose == "fused")
    label = visit.name if whose == "mine" else whose
    name = f"{_plain(project.folder.resolve().name)}-{_plain(label)}.csv"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "marks.csv"
        fixed, moving = project.fixed_grid, project.moving_grid
        write_landmarks(landmarks, file, None, format="csv", lossy=True, fixed_grid=fixed, moving_grid=moving)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(file.read_bytes(), media_type="application/octet-stream", headers=headers)


def _plain(label: str) -> str:
    """Return a label as a header can hold it."""
    return file_name(label).encode("ascii", "ignore").decode() or "warpgauge"
