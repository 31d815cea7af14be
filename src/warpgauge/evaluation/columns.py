"""The columns of a table of transforms, and the scores behind them, each written down once.

The terminal, the report, the page, the CSV and the JSON show the columns of `COLUMNS` that name them, in this order.
A new column is one more entry here; `docs/evaluation.md` describes those of the CSV.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpgauge.evaluation.result import Evaluation, Interval, TransformScores

# Name of the norm that ranks, decides and is shown: the root mean square.
PRIMARY = "2"
TERMINAL, REPORT, PAGE, CSV, JSON = "terminal", "report", "page", "csv", "json"
FILES = (CSV, JSON)  # for programs: all numbers, with their keys


@dataclass(frozen=True)
class Score:
    """A norm of the error that has a name: what people call it, and the statistic that equals it."""

    norm: str
    words: str
    head: str
    statistic: str


SCORES = {
    one.norm: one
    for one in (
        Score("1", "mean error", "mean error", "mean"),
        Score(PRIMARY, "root mean square (RMS) error", "RMS error", "rms"),
        Score("inf", "largest error", "largest error", "max"),
    )
}


def draws_of(norm: str) -> str:
    """Return the key of the draws of a norm, beside those of the statistics."""
    return f"norm {norm}"


def shown_norm(norms: Sequence[str]) -> str:
    """Return the norm to show of those that there are: the primary one, otherwise the first."""
    return PRIMARY if PRIMARY in norms else norms[0]


def score_words(norm: str) -> str:
    """Return the words for a norm."""
    return SCORES[norm].words if norm in SCORES else f"{norm}-norm of the error"


def score_head(norm: str, units: str) -> str:
    """Return the heading of a column or axis with scores of a norm."""
    return f"{SCORES[norm].head if norm in SCORES else score_words(norm)} ({units})"


@dataclass(frozen=True, eq=False)
class Row:
    """A transform in a table.

    Attributes
    ----------
    scores : TransformScores
        All its numbers.
    place, group : int or None
        Its position by the score, and the number of its tied group, both from 1.
    best : float
        Probability that its RMS error is the smallest.
    norm, statistic : str
        The norm that is shown, and the statistic at hand.
    """

    scores: TransformScores
    place: int | None = None
    group: int | None = None
    best: float = 0.0
    norm: str = PRIMARY
    statistic: str = SCORES[PRIMARY].statistic

    @property
    def name(self) -> str:
        """Name of the transform."""
        return self.scores.name

    @property
    def rms(self) -> Interval:
        """Median and interval of the true RMS error."""
        return self.scores.statistics[SCORES[PRIMARY].statistic]

    @property
    def summary(self) -> Interval:
        """Median and interval of the statistic at hand."""
        return self.scores.statistics[self.statistic]

    @property
    def classical(self) -> float | None:
        """The statistic at the annotated points alone; None where the transform is not known there."""
        return (self.scores.landmark_statistics or {}).get(self.statistic)

    @property
    def true_score(self) -> float:
        """Median of the true score; the score against the posterior mean where there is none."""
        found = self.scores.statistics.get(SCORES[self.norm].statistic) if self.norm in SCORES else None
        return self.scores.score[self.norm] if found is None else found.median

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the interval of the true score; those of the RMS error leave out the score against the mean."""
        found = self.scores.statistics.get(SCORES[PRIMARY].statistic) if self.norm == PRIMARY else None
        return self.scores.interval[self.norm] if found is None else (found.low, found.high)

    @property
    def with_interval(self) -> tuple[float, float, float]:
        """The score, and the ends of its interval."""
        return (self.scores.score[self.norm], *self.scores.interval[self.norm])


def _always(_: Evaluation) -> bool:
    return True


@dataclass(frozen=True)
class Column:
    """A column of the table of transforms.

    Attributes
    ----------
    key : str
        Name in CSV and JSON; ``{norm}`` and ``{statistic}`` stand for each of them there.
    unit : {"text", "count", "length", "rank", "share", "probability", "range", "interval", "share interval"}
        What a value is, which says how it is written. A range is the two ends of an interval as a tuple, an interval
        has its middle before them.
    value : callable
        From a `Row` to the value; None where there is none.
    heads : mapping of str
        Where it is shown, and its heading there; ``{units}``, ``{score}`` and ``{tolerance}`` are filled in. CSV and
        JSON have the key instead.
    needed : callable
        Whether an evaluation has it.
    """

    key: str
    unit: str
    value: Callable[[Row], Any]
    heads: Mapping[str, str]
    needed: Callable[[Evaluation], bool] = _always

    @property
    def places(self) -> frozenset[str]:
        """Where it is shown."""
        return frozenset(self.heads)

    @property
    def each(self) -> str:
        """What it is repeated for in CSV and JSON: ``"norm"``, ``"statistic"`` or nothing."""
        return next((one for one in ("norm", "statistic") if f"{{{one}}}" in self.key), "")

    def of(self, chosen: str) -> Column:
        """Return the column for one norm or one statistic."""
        field: dict[str, Any] = {self.each: chosen}
        return replace(self, key=self.key.format(**field), value=lambda row: self.value(replace(row, **field)))


def shown(evaluation: Evaluation, place: str) -> list[Column]:
    """Return the columns that a place shows of an evaluation, in order.

    CSV and JSON get each column once for every norm or statistic, the other places for the norm that is shown.
    """
    there = [one for one in COLUMNS if place in one.places and one.needed(evaluation)]
    values = {"norm": list(evaluation.norms), "statistic": list(next(iter(evaluation.scores.values())).statistics)}
    if place not in FILES:
        values["norm"] = [evaluation.norm]
    found: list[Column] = []
    for each, part in groupby(there, lambda one: one.each):
        same = list(part)
        found += same if not each else [column.of(value) for value in values[each] for column in same]
    return found


def headings(evaluation: Evaluation, place: str, units: str | None = None) -> list[str]:
    """Return the headings of the columns that a place shows; the evaluation's unit by default."""
    unit = evaluation.units if units is None else units
    tolerance = "" if evaluation.tolerance is None else f"{evaluation.tolerance:g}{f' {unit}' if unit else ''}"
    filled = {"units": unit, "tolerance": tolerance, "score": score_head(evaluation.norm, unit or "")}
    return [one.heads[place].format(**filled) for one in shown(evaluation, place)]


def cells(evaluation: Evaluation, place: str) -> list[dict[str, Any]]:
    """Return the values of the columns that a place shows, by key, one row per transform in the order given."""
    columns = shown(evaluation, place)
    rows = {row.name: row for row in standing(evaluation)}
    return [{one.key: one.value(rows[name]) for one in columns} for name in evaluation.scores]


def written(unit: str, value: Any) -> Any:
    """Return a value as the terminal shows it: text, or a number that the table itself writes."""
    write = _WRITERS.get(unit)
    return value if write is None or value is None else write(value)


_WRITERS: dict[str, Callable[[Any], str]] = {
    "rank": lambda value: f"{value:.1f}",
    "share": lambda value: f"{value:.1%}",
    "probability": lambda value: f"{value:.3f}",
    "range": lambda value: f"{value[0]:.3g} to {value[1]:.3g}",
    "interval": lambda value: f"{value[0]:.3g} ({value[1]:.3g} to {value[2]:.3g})",
    "share interval": lambda value: f"{value[0]:.1%}",
}


def standing(evaluation: Evaluation) -> list[Row]:
    """Return the rows of an evaluation, the best transform first."""
    places = {name: place for place, name in enumerate(evaluation.ranking(evaluation.norm), 1)}
    rows = [replace(row, place=places.get(row.name), norm=evaluation.norm) for row in evaluation.verdict.rows]
    return sorted(rows, key=lambda row: places.get(row.name, len(rows) + 1))  # disqualified ones last


def _by_mean(evaluation: Evaluation) -> bool:
    """Whether scores are distances from a posterior's mean, which orders them but is not the expected error."""
    return any(row.scores.score[row.norm] != row.true_score for row in standing(evaluation))


def _with_tolerance(evaluation: Evaluation) -> bool:
    return evaluation.tolerance is not None


def _with_panel(evaluation: Evaluation) -> bool:
    """Whether some transform is vetted besides the one that does nothing."""
    return any(one.vetted for name, one in evaluation.scores.items() if name != evaluation.baseline)


def _with_jacobians(evaluation: Evaluation) -> bool:
    return any(one.regularity is not None for one in evaluation.scores.values())


def _jacobian(name: str) -> Callable[[Row], float | None]:
    return lambda row: None if row.scores.regularity is None else getattr(row.scores.regularity, name)


def _triple(one: Interval | None) -> tuple[float, float, float] | None:
    return None if one is None else (one.median, one.low, one.high)


_IN_FILES = {CSV: "", JSON: ""}

COLUMNS: tuple[Column, ...] = (
    Column("transform", "text", lambda row: row.name, {TERMINAL: "transform", **_IN_FILES}),
    Column("place", "count", lambda row: row.place, {REPORT: "rank"}),
    Column("landmark_{norm}", "length", lambda row: row.scores.landmark[row.norm],
           {TERMINAL: "landmarks", REPORT: "at landmarks ({units})", **_IN_FILES}),
    Column("score_{norm}", "length", lambda row: row.scores.score[row.norm], {TERMINAL: "error", **_IN_FILES}),
    Column("error", "length", lambda row: row.true_score, {REPORT: "{score}"}),
    Column("low_{norm}", "length", lambda row: row.scores.interval[row.norm][0],
           {REPORT: "90 % interval from", **_IN_FILES}),
    Column("high_{norm}", "length", lambda row: row.scores.interval[row.norm][1], {REPORT: "to", **_IN_FILES}),
    Column("interval", "range", lambda row: row.ends, {TERMINAL: "90 % interval"}),
    Column("score_with_interval", "interval", lambda row: row.with_interval, {PAGE: "Error, {units}"}),
    Column("against_mean", "length", lambda row: row.scores.score[row.norm],
           {REPORT: "against posterior mean ({units})"}, _by_mean),
    Column("probability_best_{norm}", "probability", lambda row: row.scores.probability_best[row.norm],
           {TERMINAL: "P(best)", REPORT: "probability of being best", PAGE: "Best", **_IN_FILES}),
    Column("expected_rank_{norm}", "rank", lambda row: row.scores.expected_rank[row.norm],
           {TERMINAL: "rank", **_IN_FILES}),
    Column("group", "count", lambda row: row.group, {TERMINAL: "group", REPORT: "tied group", **_IN_FILES}),
    Column("p90", "interval", lambda row: _triple(row.scores.statistics.get("p90")),
           {REPORT: "90th percentile ({units})"}),
    Column("outside", "share", lambda row: row.scores.outside,
           {TERMINAL: "outside", REPORT: "outside its domain", **_IN_FILES}),
    Column("vetted", "text", lambda row: "yes" if row.scores.vetted else "no", _IN_FILES),
    Column("seen", "text", lambda row: "yes" if row.scores.vetted else "no", {TERMINAL: "vetted"}, _with_panel),
    Column("expected_squared_error", "square", lambda row: row.scores.expected_squared_error, _IN_FILES),
    Column("root_expected_squared_error", "length", lambda row: row.scores.root_expected_squared_error, _IN_FILES),
    Column("landmark_{statistic}", "length", lambda row: row.classical, _IN_FILES),
    Column("{statistic}", "length", lambda row: row.summary.median, _IN_FILES),
    Column("{statistic}_low", "length", lambda row: row.summary.low, _IN_FILES),
    Column("{statistic}_high", "length", lambda row: row.summary.high, _IN_FILES),
    Column("above", "share interval", lambda row: _triple(row.scores.statistics.get("above_tolerance")),
           {TERMINAL: "> {tolerance}", REPORT: "targets above {tolerance}"}, _with_tolerance),
    Column("folding", "share", _jacobian("folding"), {REPORT: "folded", **_IN_FILES}, _with_jacobians),
    Column("sd_log_jacobian", "number", _jacobian("sd_log_jacobian"), _IN_FILES, _with_jacobians),
    Column("flags", "text", lambda row: ", ".join(flag.kind for flag in row.scores.flags), _IN_FILES),
)  # fmt: skip
