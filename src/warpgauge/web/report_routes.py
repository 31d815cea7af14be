"""The list of answers and the progress, as each person may see them, and their routes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from warpgauge.project import State
from warpgauge.session import ListRow
from warpgauge.session.queries import number_for
from warpgauge.web.app_state import Desk
from warpgauge.web.auth import Asking, Person
from warpgauge.web.placements import rough
from warpgauge.web.wire_reports import ListAnswer, ProgressAnswer


class Reports:
    """What has been done.

    Parameters
    ----------
    desk : Desk
    """

    def __init__(self, desk: Desk) -> None:
        self.desk, self.session, self.project = desk, desk.session, desk.project

    def listing(self, person: Person) -> dict[str, Any]:
        """Return all answers that a person may see: placements with how well the others predict them, and skips."""
        whose = None if self.desk.sees_all(person) else person.name
        hidden = not self.desk.predicts(person)
        with self.desk.lock:
            state = self.project.state
            marks = self.session.listing(whose, viewer=person.name)
            skips = self.session.skipped(whose, viewer=person.name)
            rows = [_placed(row, number_for(state, row.rater, row.query), hidden) for row in marks]
            for who, number, skip in skips:
                row = _empty(number, state, who)
                row.update(skipped=True, reason=skip.reason, text=skip.text, generation=skip.generation)
                row.update(time=skip.time, duration=skip.duration)
                rows.append(row)
            generation = state.generation
        if whose is not None:
            for row in rows:
                row["rater"] = None
        return {"rows": sorted(rows, key=lambda row: (row["query"], row["rater"] or "")), "generation": generation}

    def progress(self, person: Person) -> dict[str, Any]:
        """Return the progress: a rater's own counts and times, or those of all raters for other roles."""
        whose = person.name if person.role == "rater" else None
        with self.desk.lock:
            found = self.session.progress(whose)
            seconds = _seconds(self.project.state, whose)
        ranking, compares = None, self.desk.compares(person)
        # Who is kept from the transforms is not told what the audit says of them.
        stop = [
            {"rule": rule.name, "met": rule.met, "sentence": rule.sentence}
            for rule in found.stop_rules
            if compares or rule.name != "decided"
        ]
        if compares:
            ranking = self.desk.comparison.ranking()
            audit = self.desk.audit.verdict()
            if audit is not None and not any(rule["rule"] == "decided" for rule in stop):
                stop.append({"rule": "decided", "met": audit.best is not None, "sentence": audit.sentence})
        # The calibration scales every uncertainty by the residuals: its last digits would tell of them.
        shown = float if self.desk.predicts(person) else rough
        curve = zip(found.curve.annotations.tolist(), found.curve.mean_sd.tolist(), strict=True)
        return {
            "annotations": found.annotations,
            "answered": found.answered,
            "placed": found.placed,
            "skipped": found.skipped,
            "deferred": found.deferred,
            "queries": found.queries,
            "targets": found.targets,
            "mean_sd": shown(found.mean_sd),
            "max_sd": shown(found.max_sd),
            "units": found.units,
            "curve": [{"annotations": count, "mean_sd": shown(sd)} for count, sd in curve],
            "next_gain": None if found.expected_gain is None else shown(found.expected_gain),
            "stop": stop,
            "done": found.done,
            "reasons": list(found.reasons),
            "seconds": seconds,
            "median_seconds": found.median_seconds,
            "model": found.weights,
            "ranking": ranking,
        }


def _seconds(state: State, whose: str | None) -> list[float]:
    answers = [cell.answer for (who, _), cell in state.cells.items() if whose in (None, who) and cell.answer]
    told = sorted((one.generation, one.duration) for one in answers if one.duration is not None)
    return [duration for _, duration in told]


def _empty(number: int, state: State, who: str) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(
        ("point", "covariance", "alpha", "residual", "distance", "mahalanobis", "p", "partner", "reason")
    )
    row.update(dict.fromkeys(("outlier", "swapped", "disabled", "excluded", "skipped"), False))
    return {
        **row,
        "query": number,
        "number": number_for(state, who, number),
        "location": list(state.queries[number].point),
        "rater": who,
        "sentence": "",
        "text": "",
        "chosen": _shown_origin(state.queries[number].origin),
        "flagged": False,
    }


def _shown_origin(origin: str) -> str:
    """Return an origin as a rater may see it: repeats are not announced."""
    return origin if origin in ("moved", "volunteered") else "asked"


def _placed(row: ListRow, number: int, hidden: bool) -> dict[str, Any]:
    return {
        "query": row.query,
        "number": number,
        "location": row.fixed_point.tolist(),
        "point": row.moving_point.tolist(),
        "covariance": row.covariance.tolist(),
        "alpha": row.alpha,
        # Each of these would give away where the model expects the match: three distances locate it, and a flag does
        # so by halves.
        "residual": None if hidden else row.residual.tolist(),
        "distance": None if hidden else row.distance,
        "mahalanobis": None if hidden else row.mahalanobis,
        "p": None if hidden else row.p,
        "outlier": not hidden and row.flag == "outlier",
        "swapped": not hidden and row.flag == "swapped",
        "partner": None if hidden else row.partner,
        "sentence": "" if hidden else row.sentence,
        "disabled": row.disabled,
        "excluded": row.excluded,
        "skipped": False,
        "reason": None,
        "text": "",
        "generation": row.generation,
        "time": row.time,
        "duration": row.duration,
        "rater": row.rater,
        "chosen": _shown_origin(row.origin),
        "flagged": not hidden and row.questioned is not None,
    }


def report_router(desk: Desk) -> APIRouter:
    """Return the routes of what has been done."""
    router, reports = APIRouter(), Reports(desk)

    @router.get("/api/list", response_model=ListAnswer)
    def listing(asking: Asking) -> dict[str, Any]:
        """Return all answers that this person may see."""
        return reports.listing(asking)

    @router.get("/api/progress", response_model=ProgressAnswer)
    def progress(asking: Asking) -> dict[str, Any]:
        """Return the progress."""
        return reports.progress(asking)

    return router
