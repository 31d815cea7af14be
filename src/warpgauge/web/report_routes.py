"""The list of answers and the progress, as each person may see them, and their routes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from warpgauge.project import Skip, State
from warpgauge.session import ListRow
from warpgauge.session.agreement import seconds
from warpgauge.session.queries import number_for
from warpgauge.web.app_state import AtDesk, Desk
from warpgauge.web.auth import Asking, Person
from warpgauge.web.wire import (
    rough,
    same_fields,
)
from warpgauge.web.wire_reports import ListAnswer, ListRowAnswer, ProgressAnswer


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
        whose = None if self.desk.compares(person) else person.name
        hidden = not self.desk.predicts(person)
        with self.desk.lock:
            state = self.project.state
            marks = self.session.listing(whose, viewer=person.name)
            skips = self.session.skipped(whose, viewer=person.name)
            detectable = None if hidden else self.session.detectable(whose, viewer=person.name)
            rows = [_placed(row, state, hidden) for row in marks]
            rows += [_skipped(*skip, state) for skip in skips]
            generation = state.generation
            for row in rows:
                row["snap"] = ""
                for field in ("query", "partner"):
                    if row[field] is not None:
                        row[field] = self.session.blindness.name(state, person.name, row[field])
        if whose is not None:
            for row in rows:
                row["rater"] = None
        rows.sort(key=lambda row: (row["query"], row["rater"] or ""))
        return {"rows": rows, "detectable": detectable, "generation": generation}

    def progress(self, person: Person) -> dict[str, Any]:
        """Return the progress: a rater's own counts and times, or those of all raters for other roles."""
        whose = person.name if person.role == "rater" else None
        with self.desk.lock:
            found = self.session.progress(whose, viewer=person.name)
            times = seconds(self.project.state, whose)
        ranking, compares = None, self.desk.compares(person)
        # Who is kept from the transforms is not told what the audit says of them.
        stop = [
            {"rule": rule.name, "met": rule.met, "sentence": rule.sentence}
            for rule in found.stop_rules
            if compares or rule.name != "decided"
        ]
        if compares:
            ranking = self.desk.ranking.summary()
            audit = self.desk.audit.verdict()
            if audit is not None and not any(rule["rule"] == "decided" for rule in stop):
                stop.append({"rule": "decided", "met": audit.best is not None, "sentence": audit.sentence})
        # The calibration scales every uncertainty by the residuals: its last digits would reveal them.
        shown = float if self.desk.predicts(person) else rough
        curve = zip(found.curve.annotations.tolist(), found.curve.mean_sd.tolist(), strict=True)
        return {
            **same_fields(ProgressAnswer, found),
            "mean_sd": shown(found.mean_sd),
            "max_sd": shown(found.max_sd),
            "curve": [{"annotations": count, "mean_sd": shown(sd)} for count, sd in curve],
            "next_gain": None if found.expected_gain is None else shown(found.expected_gain),
            "stop": stop,
            "seconds": times,
            "model": found.weights,
            "ranking": ranking,
        }


# Values of a row of the list that has none of its own, such as that of a skipped query.
_BLANK: dict[str, Any] = {
    **dict.fromkeys(("point", "covariance", "alpha", "residual", "distance", "mahalanobis", "p", "partner", "reason")),
    **dict.fromkeys(("outlier", "swapped", "disabled", "excluded", "skipped", "flagged"), False),
    **dict.fromkeys(("sentence", "text"), ""),
}
# Each of these would give away where the model expects the match: three distances locate it, and a flag does so by
# halves.
_PREDICTED = ("residual", "distance", "mahalanobis", "p", "outlier", "swapped", "partner", "sentence", "flagged")


def _shown_origin(origin: str) -> str:
    """Return an origin as a rater may see it: repeats are not announced."""
    return origin if origin in ("moved", "volunteered") else "asked"


def _placed(row: ListRow, state: State, hidden: bool) -> dict[str, Any]:
    told = {
        **_BLANK,
        **same_fields(ListRowAnswer, row),
        "number": number_for(state, row.rater, row.query),
        "location": row.fixed_point,
        "point": row.moving_point,
        "outlier": row.flag == "outlier",
        "sentence": row.sentence,
        "chosen": _shown_origin(row.origin),
        "flagged": row.questioned is not None,
    }
    return {**told, **{name: _BLANK[name] for name in _PREDICTED}} if hidden else told


def _skipped(who: str, number: int, skip: Skip, state: State) -> dict[str, Any]:
    return {
        **_BLANK,
        **same_fields(ListRowAnswer, skip),
        "query": number,
        "number": number_for(state, who, number),
        "location": state.queries[number].point,
        "skipped": True,
        "duration": skip.duration,
        "rater": who,
        "chosen": _shown_origin(state.queries[number].origin),
    }


router = APIRouter()


@router.get("/api/list", response_model=ListAnswer)
def listing(desk: AtDesk, asking: Asking) -> dict[str, Any]:
    """Return all answers that this person may see."""
    return Reports(desk).listing(asking)


@router.get("/api/progress", response_model=ProgressAnswer)
def progress(desk: AtDesk, asking: Asking) -> dict[str, Any]:
    """Return the progress."""
    return Reports(desk).progress(asking)
