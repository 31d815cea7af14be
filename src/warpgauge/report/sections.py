"""Tables and charts of a report, section by section; the templates add the words between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.display import counted, csv_table, joined, length
from warpgauge.evaluation import Interval, Trust
from warpgauge.evaluation.result import score_head, score_words
from warpgauge.maps import map_picture
from warpgauge.report import charts
from warpgauge.report.map_section import MOST_SHOWN, best_method, checkerboards, map_pictures
from warpgauge.report.page import (
    BLANK,
    MOST_OPEN,
    Cell,
    Table,
    chart,
    count_cell,
    download,
    facts,
    figure_cell,
    percent_cell,
    photograph,
    rounded,
    sampled_cell,
    text_cell,
    value_cell,
)
from warpgauge.report.provenance import model, versions
from warpgauge.report.report import Report
from warpgauge.session.control_questions import RaterCertificate

_MOST_LISTED = 6
# Characters of headings that fit the page side by side.
_MOST_LEVEL = 80


def section_titles(report: Report) -> dict[str, str]:
    """Return the sections of a report by name, in order, with their headings."""
    results = {"results": "Which method is best?", "maps": "Where is it wrong?"}
    trust = {"calibration": "Can these numbers be trusted?"}
    overconfident = report.evaluation.trust is None or report.evaluation.trust.verdict == "overconfident"
    return {
        **({"suspects": "Annotations to check"} if report.suspects else {}),
        # Where the model is overconfident, that stands before any ranking.
        **(trust | results if overconfident else results | trust),
        "landmarks": "Errors at the annotated points",
        **({"audit": "What does the audit prove?"} if report.audit else {}),
        **({"raters": "How precise are the raters?"} if report.raters else {}),
        "annotations": "Annotations",
        "provenance": "How it was made",
        "reading": "How to read this report",
    }


def section_values(report: Report) -> dict[str, Any]:
    """Return what the templates of a report show, by the names that they use."""
    methods = report.methods
    return {
        "title": report.title,
        "report": report,
        "found": report.evaluation,
        "trust": report.evaluation.trust,
        "units": report.units,
        "score": score_words(report.evaluation.norm),
        "compared": joined(methods) if len(methods) <= _MOST_LISTED else f"{len(methods)} methods",
        "annotations": counted(report.evaluation.annotations, "annotation"),
        "version": versions()["warpgauge"],
        "suspects": _suspects(report),
        "results": _results(report),
        "maps": None if report.maps is None else map_pictures(report.maps, report.evaluation, report.units),
        "calibration": None if report.evaluation.trust is None else _calibration(report.evaluation.trust),
        "landmarks": _landmarks(report),
        "raters": _raters(report),
        "annotation_list": _annotation_list(report),
        "provenance": _provenance(report),
    }


def _suspects(report: Report) -> dict[str, Any]:
    """Return the flagged annotations, the verdict without them, and both sets of scores."""
    listed = [{"sentence": one.sentence, "away": length(one.distance, report.units)} for one in report.suspects]
    other = report.evaluation.without_flagged if report.suspects else None
    sentence = "" if other is None else other.verdict.lines()["BEST"]
    return {
        "listed": listed,
        "without": None if other is None else {"sentence": sentence, "table": _without_flagged(report)},
    }


def _without_flagged(report: Report) -> Table:
    found, norm = report.evaluation, report.evaluation.norm
    other = found.without_flagged
    assert other is not None
    rows: list[tuple[str, list[Cell]]] = []
    for name in found.ranking(norm):
        cells = []
        for one in (found, other):
            score = one.scores[name]
            low, high = score.interval[norm]
            cells += [
                figure_cell(score.score[norm]),
                Cell(f"{rounded(low)}\u00a0to\u00a0{rounded(high)}"),
                sampled_cell(score.probability_best[norm], one.samples),
            ]
        rows.append((name, cells))
    heads = (f"error ({report.units})", "90 % interval", "probability of being best")
    return Table(
        f"Errors from all {found.annotations} annotations, and from the {other.annotations} that are not flagged.",
        ("method", *heads, *(f"without: {head}" for head in heads)),
        rows,
        baseline=found.baseline,
        name="without-flagged",
    )


def _results(report: Report) -> dict[str, Any]:
    """Return the table, the intervals, the ranks, the box plots and the checkerboards."""
    found, norm, units = report.evaluation, report.evaluation.norm, report.units
    best = found.verdict.rows[0]
    low, high = best.interval[norm]
    label = f"expected distance from the true match ({units})"
    overlaid = best_method(found)
    return {
        "scores": score_table(report),
        "best": best.name,
        "error": best.score[norm],
        "low": low,
        "high": high,
        "intervals": chart(charts.intervals(found, norm, score_head(norm, units))),
        "wins": chart(charts.wins(found, norm)) if len(report.methods) > 1 else None,
        "boxes": chart(charts.boxes(report.errors, label, found.tolerance)) if report.errors else None,
        "medians": "; ".join(f"{name}: {rounded(float(np.median(one)))}" for name, one in report.errors.items()),
        "overlaid": overlaid,
        "overlay": None if overlaid is None else _overlay(report, overlaid),
    }


def _overlay(report: Report, name: str) -> str | None:
    """Return checkerboards of fixed and moving image before and after a method; None where they cannot be drawn."""
    if report.fixed is None or report.moving is None:
        return None
    made = None if report.maps is None else report.maps.checked
    after = report.transforms[name] if made is None else made
    return photograph(map_picture(checkerboards(report.fixed, report.moving, (name, after))), dpi=150)


def score_table(report: Report) -> Table:
    """Return the table of scores, best method first."""
    found = report.evaluation
    norm = found.norm
    rows = []
    for place, one in enumerate(found.verdict.rows, 1):
        cells = [
            count_cell(place),
            figure_cell(one.landmark[norm]),
            figure_cell(one.score[norm]),
            figure_cell(one.interval[norm][0]),
            figure_cell(one.interval[norm][1]),
            text_cell("as its copy") if one.copy_of else sampled_cell(one.probability_best[norm], found.samples),
            value_cell("interval", _triple(one.statistics.get("p90")), found.samples),
            percent_cell(one.outside),
        ]
        if found.tolerance is not None:
            cells.append(value_cell("share interval", _triple(one.statistics["above_tolerance"]), found.samples))
        rows.append((one.name, cells))
    heads = [
        "method", "rank", f"at landmarks ({report.units})", score_head(norm, report.units), "90 % interval from", "to",
        "probability of being best", f"90th percentile ({report.units})", "outside its domain",
    ]  # fmt: skip
    if found.tolerance is not None:
        heads.append(f"targets above {found.tolerance:g} {report.units}")
    caption = (
        f"Errors over {found.targets} targets, estimated from {counted(found.annotations, 'annotation')}; best first. "
        f"90 % intervals in brackets ({found.samples} samples, seed {found.seed})."
    )
    flagged = frozenset(flag.transform for flag in found.flags if flag.transform is not None)
    return Table(caption, heads, rows, flagged=flagged, baseline=found.baseline, name="scores")


def _triple(one: Interval | None) -> tuple[float, float, float] | None:
    return None if one is None else (one.median, one.low, one.high)


def _landmarks(report: Report) -> dict[str, Any] | None:
    """Return the distances between each annotated match and where each method puts it, as a table and as CSV."""
    errors = report.landmark_errors
    rows = report.annotation_rows
    if not errors or not rows:
        return None
    shown, units = list(errors)[:MOST_SHOWN], report.units
    before = report.evaluation.baseline
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
    left = len(errors) - len(shown)
    more = f" {left} further methods are in the CSV." if left else ""
    table = Table(
        f"Distance in {units} between the expert's match and where a method maps the point; best method first. Last "
        f"column: the standard deviation that the expert stated.{more}",
        ("annotation", f"fixed point ({units})", *shown, "stated sd"),
        listed,
        flagged=_doubted(rows),
        name="landmark-errors",
        folded=len(listed) > MOST_OPEN,
        upright=sum(map(len, shown)) > _MOST_LEVEL,
    )
    summary = Table(
        f"Distance in {units} between the experts' matches and where a method maps the points; best method first.",
        ("method", "median", "root mean square", "largest"),
        [(name, _middle(one)) for name, one in errors.items()],
        baseline=before,
        name="landmark-summary",
    )
    return {"summary": summary, "table": table, "csv": download(landmark_csv(report), "text/csv")}


def _doubted(rows: list[dict[str, Any]]) -> frozenset[str]:
    """Return the labels of annotations that contradict the others or all good methods."""
    return frozenset(str(row["label"]) for row in rows if row["outlier"] or row["flagged"])


def landmark_csv(report: Report) -> str:
    """Return a row for each annotation: its label, points, and the error of each method there."""
    axes = "xyz"[: report.evaluation.posterior.d]
    names = list(report.landmark_errors)
    heads = [*(f"fixed_{axis}" for axis in axes), *(f"moving_{axis}" for axis in axes)]
    rows = []
    for at, row in enumerate(report.annotation_rows):
        numbers = [float(x) for x in (*row["fixed"], *row["moving"], row["sd"])]
        rows.append([row["label"], *numbers, *(_value(report.landmark_errors[name], at) for name in names)])
    return csv_table(["annotation", *heads, "stated_sd", *names], rows)


def _value(errors: Floats, at: int) -> float | None:
    return float(errors[at]) if np.isfinite(errors[at]) else None


def _middle(errors: Floats) -> list[Cell]:
    """Return cells with median, root mean square and largest of the errors that are defined."""
    known = errors[np.isfinite(errors)]
    if not known.size:
        return [BLANK] * 3
    return [figure_cell(float(one)) for one in (np.median(known), np.sqrt(np.mean(np.square(known))), known.max())]


def _annotation_list(report: Report) -> Table | None:
    """Return the annotations with how well the others predict each."""
    rows = report.annotation_rows
    if not rows:
        return None
    units = report.units
    listed = [
        (str(one["label"]), [
            text_cell(", ".join(rounded(x, 5) for x in one["fixed"])),
            text_cell(", ".join(rounded(x, 5) for x in one["moving"])),
            figure_cell(one["sd"]), figure_cell(one["residual"]), figure_cell(one["mahalanobis"]),
            figure_cell(one["p"]),
            text_cell(_remark(one)),
        ])
        for one in rows
    ]  # fmt: skip
    return Table(
        f"{counted(len(rows), 'annotation')}; points are x, y[, z] in {units}. Residual: distance from the prediction "
        f"by all other annotations; standardised: divided by its expected size.",
        ("annotation", "fixed point", "moving point", f"stated sd ({units})", f"residual ({units})", "standardised",
         "p", "remark"),
        listed,
        flagged=_doubted(rows),
        name="annotation-list",
        folded=len(listed) > MOST_OPEN,
    )  # fmt: skip


def _remark(row: dict[str, Any]) -> str:
    if row["flagged"]:
        return "far from all good methods"
    return "contradicts the others" if row["outlier"] else ""


def _provenance(report: Report) -> dict[str, Any]:
    """Return settings, model, images, hashes, versions, seeds, and how each transform was read."""
    found = report.evaluation
    read = {name: one.description.to_dict() for name, one in report.transforms.items()}
    seeds = {"posterior samples": found.samples, "seed": found.seed, "targets": found.targets,
             "tolerance": found.tolerance, "norms": list(found.norms)}  # fmt: skip
    return {
        "transforms": [
            facts(f"Transform {name}", {key: value for key, value in shown.items() if value not in ("", [], ())})
            for name, shown in read.items()
        ],
        "project": facts("Project settings and content", report.project) if report.project else None,
        "settings": [
            facts("Model of the true transformation", model(report.evaluation.posterior)),
            facts("Settings of the evaluation", {**seeds, **report.settings}),
            *(facts(f"The {name} image", {**one.summary(), "levels": one.levels})
              for name, one in report.images.items()),
        ],
        "hashes": facts("SHA-256 of the input files", report.hashes) if report.hashes else None,
        "versions": facts("Programs and libraries", versions()),
    }  # fmt: skip


def _calibration(trust: Trust) -> dict[str, Any]:
    """Return coverage, residuals and quantiles."""
    found = trust
    coverage = found.coverage
    rows = [
        (f"{100 * one.level:.0f} %", [Cell(f"{one.inside} of {one.count}", one.inside), percent_cell(one.share),
         percent_cell(one.low), percent_cell(one.high), text_cell("yes" if one.consistent else "no")])
        for one in coverage
    ]  # fmt: skip
    return {
        "coverage": Table(
            "Leave-one-out coverage with 95 % binomial intervals.",
            ("region", "inside", "share", "interval from", "to", "consistent"),
            rows,
            flagged=frozenset(f"{100 * one.level:.0f} %" for one in coverage if not one.consistent),
            name="coverage",
        ),
        "said": "; ".join(f"{one.inside} of {one.count} in the {100 * one.level:.0f} % region" for one in coverage),
        "beyond": int((np.abs(found.standardised) > 1.96).sum()),
        "bars": chart(charts.coverage(found)),
        "residuals": chart(charts.residuals(found)),
    }


def _raters(report: Report) -> Table:
    """Return a certificate for each rater: bias, scatter and repeatability with 95 % intervals."""
    rows = []
    for name, one in report.raters.items():
        spread = [(one.sd, one.sd_low, one.sd_high), (one.repeat_sd, one.repeat_low, one.repeat_high)]
        rows.append(
            (
                name,
                [
                    Cell(f"{one.inside} of {one.controls}" if one.controls else "-", one.inside),
                    text_cell("-" if one.bias is None else "; ".join(_biases(one))),
                    *(cell for value, low, high in spread for cell in (figure_cell(value), _interval(low, high))),
                    count_cell(one.repeats),
                ],
            )
        )
    units = report.units
    heads = ("rater", "known matches in the drawn region", f"bias, {units}", f"SD, {units}", "interval",
             f"repeatability SD, {units}", "interval", "repeats")  # fmt: skip
    return Table("Certificates of the raters, with 95 % intervals.", heads, rows, name="raters")


def _biases(one: RaterCertificate) -> list[str]:
    assert one.bias is not None
    assert one.bias_low is not None
    assert one.bias_high is not None
    parts = zip("xyz", one.bias, one.bias_low, one.bias_high, strict=False)
    return [f"{axis} {rounded(value)} ({rounded(low)} to {rounded(high)})" for axis, value, low, high in parts]


def _interval(low: float | None, high: float | None) -> Cell:
    return text_cell("-" if low is None or high is None else f"{rounded(low)} to {rounded(high)}")
