"""Report sections with the results: verdict, scores, win probabilities, and errors at the landmarks."""

from __future__ import annotations

import csv
import io

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.evaluation import Interval
from warpgauge.evaluation.sentences import count, joined, judged_share
from warpgauge.report import charts
from warpgauge.report.content import Content, annotation_rows
from warpgauge.report.html import (
    Cell,
    box,
    chart,
    download,
    figure_cell,
    heading,
    number,
    paragraph,
    percent,
    percent_cell,
    sampled_cell,
    table,
    text_cell,
)
from warpgauge.report.method_maps import MOST_SHOWN

_MOST_LISTED = 6
_SCORES = {"1": "mean error", "2": "root mean square error", "inf": "largest error"}


def score_name(norm: str) -> str:
    """Return the words for a norm."""
    return _SCORES.get(norm, f"{norm}-norm of the error")


def verdict(content: Content) -> str:
    """Return the boxes on top: what spoils everything first, then who is best, then how far that can be trusted."""
    found, trust = content.evaluation, content.trust
    first = box("warning", *found.notices) if found.flags else ""
    sentence = found.verdict
    if trust is None:
        return first + box("warning", "There is no annotation, so nothing below says how good a registration is.")
    if trust.verdict == "overconfident":
        first += box("warning", trust.diagnostics.sentence)
        sentence = f"What the model says all the same: {sentence}"
    last = "" if trust.verdict == "overconfident" else trust.diagnostics.sentence
    share = "" if content.judged is None else judged_share(content.judged)
    return first + box("verdict", sentence) + box("notice", f"{last} {share}".strip())


def compared(content: Content) -> str:
    """Return a paragraph on the compared methods, the targets and the annotations."""
    found = content.evaluation
    methods = joined(content.methods) if len(content.methods) <= _MOST_LISTED else f"{len(content.methods)} methods"
    before = f", and the moving image as it lies ({found.baseline})" if found.baseline is not None else ""
    over = f" in {content.region}" if content.region else ""
    left = f" ({found.excluded_targets} more lie outside some method's domain)" if found.excluded_targets else ""
    return paragraph(
        f"Compared: {methods}{before}. The error is the {score_name(content.norm)} in {content.units} "
        f"over {found.targets} targets{over}{left}, known from {count(found.annotations, 'annotation')}. "
        f"Differences below {number(found.margin)} {content.units} do not count."
    )


def results_section(content: Content) -> str:
    """Return the table, the intervals, the ranks and the box plots."""
    found, norm, units = content.evaluation, content.norm, content.units
    names = found.ranking(norm)
    parts = [score_table(content)]
    best = found.scores[names[0]]
    low, high = best.interval[norm]
    parts += [
        heading("Errors with their uncertainty"),
        chart(
            charts.intervals(found, norm, f"{score_name(norm)} ({units})"),
            f"Errors of {len(names)} methods with 90 % intervals. Best: {names[0]} with "
            f"{number(charts.true_score(best, norm))} {units}, interval {number(low)} to {number(high)}.",
            "Bars: where the true error over all targets lies with probability 90 %; dots: its median. Diamonds: error "
            "at the annotated points alone, as is usual. Methods on the same shade cannot be distinguished from the "
            "first of them.",
        ),
    ]
    if len(content.methods) > 1:
        parts += [
            heading("Pairwise comparison"),
            chart(
                charts.wins(found, norm),
                "Probability in percent that the method of the row has a smaller error than that of the column.",
                "Probability in percent that the method of the row has a smaller root mean square error than that of "
                "the column. Dark blue: certain; white: undecided; dark red: certainly not.",
            ),
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


def score_table(content: Content) -> str:
    """Return the table of scores, best method first."""
    found, norm, units = content.evaluation, content.norm, content.units
    heads = ["method", "rank", f"{score_name(norm)} ({units})", "90 % interval from", "to", "best with probability",
             "tied group", f"at landmarks ({units})", f"90th percentile ({units})"]  # fmt: skip
    # By the paper's posterior the order is that of the distance from its mean, which is not the expected error.
    by_mean = any(one.score[norm] != charts.true_score(one, norm) for one in found.scores.values())
    if by_mean:
        heads.insert(5, f"against posterior mean ({units})")
    if found.tolerance is not None:
        heads.append(f"targets above {found.tolerance:g} {units}")
    heads += ["outside its domain", "folded"]
    rows = []
    for place, name in enumerate(found.ranking(norm), 1):
        one = found.scores[name]
        group = next((at for at, members in enumerate(found.tied, 1) if name in members), None)
        cells = [
            Cell(str(place), place),
            figure_cell(charts.true_score(one, norm)),
            figure_cell(one.interval[norm][0]),
            figure_cell(one.interval[norm][1]),
            *([figure_cell(one.score[norm])] if by_mean else []),
            sampled_cell(one.probability_best[norm], found.samples),
            Cell("–" if group is None else str(group), group),
            figure_cell(one.landmark[norm]),
            _with_interval(one.statistics.get("p90")),
        ]
        if found.tolerance is not None:
            cells.append(_with_interval(one.statistics.get("above_tolerance"), share=True))
        folded = None if one.regularity is None else one.regularity.folding
        rows.append((name, [*cells, percent_cell(one.outside), percent_cell(folded)]))
    caption = (
        f"Errors over {found.targets} targets from {count(found.annotations, 'annotation')}, best first; in brackets "
        f"90 % intervals ({found.samples} samples, seed {found.seed})."
    )
    flagged = frozenset(flag.transform for flag in found.flags if flag.transform is not None)
    return table(caption, heads, rows, flagged=flagged, baseline=found.baseline, name="scores")


def landmark_section(content: Content) -> str:
    """Return the table of distances between each annotated match and where each method puts it."""
    errors = content.landmark_errors
    rows = annotation_rows(content)
    if not errors or not rows:
        return paragraph("There is no annotation, or no transform that can be evaluated at the annotated points.")
    shown, units = list(errors)[:MOST_SHOWN], content.units
    before = content.evaluation.baseline
    if before in errors and before not in shown:
        shown = [*shown[:-1], before]
    listed = [
        (
            str(row["label"]),
            [
                text_cell(", ".join(f"{x:.5g}" for x in row["fixed"])),
                *[figure_cell(_value(errors[name], at)) for name in shown],
                figure_cell(row["sd"]),
            ],
        )
        for at, row in enumerate(rows)
    ]
    middle = [
        ("median", [text_cell(""), *[figure_cell(_median(errors[name])) for name in shown], figure_cell(None)]),
        ("root mean square", [text_cell(""), *[figure_cell(_rms(errors[name])) for name in shown], figure_cell(None)]),
    ]
    left = len(errors) - len(shown)
    more = f" {left} further methods are in the CSV." if left else ""
    flagged = frozenset(str(row["label"]) for row in rows if row["outlier"] or row["flagged"])
    return table(
        f"Distance in {units} between the expert's match and where a method puts the point, best method first; the "
        f"expert's own standard deviation last.{more}",
        ("annotation", f"fixed point ({units})", *shown, "stated sd"),
        [*middle, *listed],
        flagged=flagged,
        name="landmark-errors",
    ) + download("landmarks.csv", landmark_csv(content), "text/csv", "All methods at all annotations as CSV")


def landmark_csv(content: Content) -> str:
    """Return a row for each annotation: its label, points, and the error of each method there."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    axes = "xyz"[: content.posterior.d]
    names = list(content.landmark_errors)
    heads = [*(f"fixed_{axis}" for axis in axes), *(f"moving_{axis}" for axis in axes)]
    writer.writerow(["annotation", *heads, "stated_sd", *names])
    for at, row in enumerate(annotation_rows(content)):
        values = [_value(content.landmark_errors[name], at) for name in names]
        numbers = [repr(float(x)) for x in (*row["fixed"], *row["moving"], row["sd"])]
        writer.writerow([row["label"], *numbers, *("" if one is None else repr(one) for one in values)])
    return stream.getvalue()


def _value(errors: Floats, at: int) -> float | None:
    return float(errors[at]) if np.isfinite(errors[at]) else None


def _median(errors: Floats) -> float | None:
    known = errors[np.isfinite(errors)]
    return float(np.median(known)) if known.size else None


def _rms(errors: Floats) -> float | None:
    known = errors[np.isfinite(errors)]
    return float(np.sqrt(np.mean(np.square(known)))) if known.size else None
