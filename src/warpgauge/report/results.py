"""The verdict, and the part of the page that says which method is best."""

from __future__ import annotations

import numpy as np

from warpgauge.evaluation import Evaluation, Interval
from warpgauge.report import charts
from warpgauge.report.content import Content
from warpgauge.report.html import (
    Cell,
    box,
    chart,
    figure_cell,
    heading,
    number,
    percent,
    percent_cell,
    sampled_cell,
    table,
)

_SCORES = {"1": "mean error", "2": "root mean square error", "inf": "largest error"}


def score_name(norm: str) -> str:
    """Give the words for a norm."""
    return _SCORES.get(norm, f"{norm}-norm of the error")


def verdict(content: Content) -> str:
    """Give the boxes on top: what spoils everything first, then who is best."""
    found, trust = content.evaluation, content.trust
    sentence = found.verdict or f"{found.ranking(content.norm)[0]} has the smallest {score_name(content.norm)}."
    first = ""
    if trust is None:
        first = box("warning", "There is no annotation, so nothing below says how good a registration is.")
    elif trust.verdict == "overconfident":
        first = box("warning", f"Calibration failed. {trust.diagnostics.sentence}")
        sentence = f"What the model says all the same: {sentence}"
    elif not trust.calibrated:
        first = box("notice", trust.sentence)
    last = box("verdict", sentence)
    return first + last + (box("notice", trust.sentence) if trust is not None and trust.calibrated else "")


def results_section(content: Content) -> str:
    """Give the table, the intervals, the ranks and the box plots."""
    found, norm, units = content.evaluation, content.norm, content.units
    names = found.ranking(norm)
    parts = [score_table(content)]
    best = found.scores[names[0]]
    low, high = best.interval[norm]
    parts += [
        heading("Scores with their uncertainty"),
        chart(
            charts.intervals(found, norm, f"{score_name(norm)} ({units})"),
            f"Scores of {len(names)} methods with 90 % intervals. Best: {names[0]} with "
            f"{number(charts.true_score(best, norm))} {units}, interval {number(low)} to {number(high)}.",
            "Bars: where the true score over all targets lies with probability 90 %; dots: its median"
            + _ticks(found)
            + ". Diamonds: error at the annotated points alone, as is usual. Methods on the same shade are not told "
            "apart.",
        ),
    ]
    if len(names) > 1:
        parts += [
            heading("Ranks"),
            '<div class="pair">',
            chart(
                charts.ranks(found, norm),
                f"Probability of each rank for each method, in percent. {names[0]} has rank 1 with probability "
                f"{percent(best.probability_best[norm])}.",
                "Probability in percent that a method has a rank, over the transformations that fit the annotations.",
            ),
            chart(
                charts.wins(found, norm),
                "Probability in percent that the method of the row has a smaller mean squared error than that of the "
                "column.",
                "Probability in percent that the method of the row has the smaller mean squared error.",
            ),
            "</div>",
        ]
    if content.errors:
        words = "; ".join(f"{name}: {number(float(np.median(values)))}" for name, values in content.errors.items())
        parts += [
            heading("Errors over the targets"),
            chart(
                charts.boxes(content.errors, f"expected distance from the true match ({units})", found.tolerance),
                f"Box plots of the errors of each method over {found.targets} targets. Medians in {units}: {words}.",
                "Boxes: half of all targets; line: median; whiskers: 5 to 95 % of the targets.",
            ),
        ]
    return "".join(parts)


def _with_interval(one: Interval | None, share: bool = False) -> Cell:
    if one is None:
        return Cell("–")
    write = percent if share else number
    return Cell(
        f"{write(one.median)} ({write(one.low)} to {write(one.high)})".replace(" to ", "\u00a0to\u00a0"), one.median
    )


# Of what the truth may be nearest to, this much and more is named.
_SHOWN_SHARE = 0.01


def _ticks(found: Evaluation) -> str:
    if found.centre_weights is not None:
        return ", which decides the order"
    return ". Ticks: error against the posterior mean, which leaves the remaining uncertainty out and decides the order"


def nearest(found: Evaluation) -> str:
    """Say which methods the truth may be nearest to, where that was averaged over; a sentence or nothing."""
    if found.centre_weights is None:
        return ""
    ordered = sorted(found.centre_weights.items(), key=lambda one: -one[1])
    likely = [(name, share) for name, share in ordered if share >= _SHOWN_SHARE] or ordered[:1]
    listed = ", ".join(f"{'their median' if name == 'median' else name} ({percent(share)})" for name, share in likely)
    return f" Averaged over what the true transformation may be nearest to: {listed}."


def score_table(content: Content) -> str:
    """Give the table of scores, best method first."""
    found, norm, units = content.evaluation, content.norm, content.units
    heads = ["method", "rank", "tied group", f"{score_name(norm)} ({units})", "90 % interval from", "to",
             f"at landmarks ({units})", "best with probability", "expected rank",
             f"90th percentile ({units})"]  # fmt: skip
    by_posterior = found.centre_weights is None
    if by_posterior:
        heads.insert(6, f"against posterior mean ({units})")
    if found.tolerance is not None:
        heads.append(f"targets above {found.tolerance:g} {units}")
    heads += ["outside its domain", "folded"]
    rows = []
    for place, name in enumerate(found.ranking(norm), 1):
        one = found.scores[name]
        group = next((at for at, members in enumerate(found.tied, 1) if name in members), None)
        cells = [
            Cell(str(place), place),
            Cell("–" if group is None else str(group), group),
            figure_cell(charts.true_score(one, norm)),
            figure_cell(one.interval[norm][0]),
            figure_cell(one.interval[norm][1]),
            *([figure_cell(one.posterior[norm])] if by_posterior else []),
            figure_cell(one.landmark[norm]),
            sampled_cell(one.probability_best[norm], found.samples),
            figure_cell(one.expected_rank[norm]),
            _with_interval(one.statistics.get("p90")),
        ]
        if found.tolerance is not None:
            cells.append(_with_interval(one.statistics.get("above_tolerance"), share=True))
        folded = None if one.regularity is None else one.regularity.folding
        rows.append((name, [*cells, percent_cell(one.outside), percent_cell(folded)]))
    left_out = f" {found.excluded_targets} targets outside some domain are left out." if found.excluded_targets else ""
    caption = (
        f"Scores over {found.targets} targets from {found.annotations} annotations and {found.samples} posterior "
        f"samples (seed {found.seed}); in brackets 90 % intervals.{left_out}{nearest(found)}"
    )
    return table(caption, heads, rows, name="scores")
