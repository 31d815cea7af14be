"""The columns of a table of methods over a study, each written down once.

The terminal, the report, the leaderboard and the CSV show the columns of `COLUMNS` that name them, in this order. A new
column is one more entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpgauge.study.challenges import CHALLENGES

if TYPE_CHECKING:
    from warpgauge.study.result import MethodResult, StudyResult

TERMINAL = "terminal"
REPORT = "report"
LEADERBOARD = "leaderboard"
CSV = "csv"
_PAGES = (REPORT, LEADERBOARD)


def _none(_: Mapping[str, Any]) -> None:
    """Return nothing: most columns say nothing of the identity."""


@dataclass(frozen=True)
class StudyColumn:
    """A column of the table of methods.

    ``key`` is its name in the CSV. ``unit`` says how a value is written: "text", "count", "number", "length",
    "probability", "range" (the two ends of an interval as a tuple), or "figure", one that a challenge publishes.
    ``value`` takes a `MethodResult`, and ``baseline`` does the same of `StudyResult.baseline`, for the row of the
    identity. ``heads`` says where it is shown, and its heading there, into which ``{score}`` is filled.
    """

    key: str
    unit: str
    value: Callable[[MethodResult], Any]
    heads: Mapping[str, str]
    baseline: Callable[[Mapping[str, Any]], Any] = _none


def shown(result: StudyResult, place: str) -> list[StudyColumn]:
    """Return the columns that a place shows of a result, in order."""
    return [one for one in (*COLUMNS, *_figures(result)) if place in one.heads]


def cells(result: StudyResult, place: str) -> list[list[Any]]:
    """Return the values of the columns that a place shows: a row per method, best first, and one of the identity."""
    columns = shown(result, place)
    rows = [[one.value(method) for one in columns] for method in result.methods]
    before = result.baseline
    return rows if before is None else [*rows, [one.baseline(before) for one in columns]]


def headings(result: StudyResult, place: str, score: str) -> list[str]:
    """Return the headings of the columns that a place shows; ``score`` is that of the score that ranks."""
    return [one.heads[place].format(score=score) for one in shown(result, place)]


def _figures(result: StudyResult) -> list[StudyColumn]:
    """Return the columns of the official figures of the challenge that the study names; they do not rank."""
    challenge = result.study.settings.challenge
    main = () if challenge is None else CHALLENGES[challenge].main
    found = []
    for name in dict.fromkeys(name for one in result.methods for name in one.official):
        places = {LEADERBOARD: name, CSV: ""}
        if name in main:
            places[TERMINAL] = name
        found.append(StudyColumn(name, "figure", _entry(name), places))
    return found


def _entry(name: str) -> Callable[[MethodResult], Any]:
    return lambda one: one.official.get(name)


def _everywhere(head: str) -> dict[str, str]:
    return {TERMINAL: head, REPORT: head, LEADERBOARD: head, CSV: ""}


COLUMNS: tuple[StudyColumn, ...] = (
    StudyColumn("method", "text", lambda one: one.name, _everywhere("method"), lambda before: before["method"]),
    StudyColumn("rank", "number", lambda one: one.rank, _everywhere("rank"), lambda _: "baseline"),
    StudyColumn("rank_low", "count", lambda one: one.rank_range[0], {LEADERBOARD: "rank from"}),
    StudyColumn("rank_high", "count", lambda one: one.rank_range[1], {LEADERBOARD: "rank to"}),
    StudyColumn("mean_rank", "number", lambda one: one.mean_rank, _everywhere("mean rank")),
    StudyColumn("mean_rank_low", "number", lambda one: one.rank_interval.low, {REPORT: "from", CSV: ""}),
    StudyColumn("mean_rank_high", "number", lambda one: one.rank_interval.high, {REPORT: "to", CSV: ""}),
    StudyColumn("mean_rank_interval", "range", lambda one: (one.rank_interval.low, one.rank_interval.high),
                {TERMINAL: "90 % interval"}),
    StudyColumn("probability_first", "probability", lambda one: one.probability_first,
                {TERMINAL: "P(first)", CSV: "", **dict.fromkeys(_PAGES, "probability of being first")}),
    StudyColumn("mean_score", "length", lambda one: one.mean_score,
                {TERMINAL: "mean {score}", CSV: "", **dict.fromkeys(_PAGES, "{score}")},
                lambda before: before["mean_score"]),
    StudyColumn("mean_score_low", "length", lambda one: one.score_interval.low,
                {CSV: "", **dict.fromkeys(_PAGES, "from")}),
    StudyColumn("mean_score_high", "length", lambda one: one.score_interval.high,
                {CSV: "", **dict.fromkeys(_PAGES, "to")}),
    StudyColumn("cases", "count", lambda one: one.cases, _everywhere("cases"), lambda before: before["cases"]),
    StudyColumn("missing", "count", lambda one: one.missing, _everywhere("missing"), lambda _: 0),
)  # fmt: skip
