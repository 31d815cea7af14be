"""Report sections with the results and what they rest on.

Results are the verdict, scores, win probabilities, errors at the landmarks, and the certificate of random questions.
They rest on annotations, transforms, settings and versions. A glossary explains the terms.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.display import counted
from warpgauge.evaluation import Certificate, columns
from warpgauge.evaluation.sentences import count, joined, judged_share
from warpgauge.report import charts
from warpgauge.report.content import Content, annotation_rows, description, model, versions
from warpgauge.report.html import (
    Cell,
    box,
    chart,
    download,
    facts,
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
from warpgauge.report.map_section import MOST_SHOWN

_MOST_LISTED = 6


def verdict(content: Content) -> str:
    """Return the boxes at the top: warnings first, then which method is best, then how far that can be trusted."""
    found, trust = content.evaluation, content.trust
    first = box("warning", *found.notices) if found.flags else ""
    sentence = found.verdict
    if trust is None:
        return first + box("warning", "There are no annotations, so this report cannot say how good a registration is.")
    if trust.verdict == "overconfident":
        first += box("warning", trust.diagnostics.sentence)
        sentence = f"The model's verdict, which may be wrong: {sentence}"
    last = "" if trust.verdict == "overconfident" else trust.diagnostics.sentence
    share = "" if content.judged is None else judged_share(content.judged)
    return first + box("verdict", sentence) + box("notice", f"{last} {share}".strip())


def compared(content: Content) -> str:
    """Return a paragraph on the compared methods, the targets and the annotations."""
    found = content.evaluation
    methods = joined(content.methods) if len(content.methods) <= _MOST_LISTED else f"{len(content.methods)} methods"
    before = f", and no registration ({found.baseline})" if found.baseline is not None else ""
    over = f" in {content.region}" if content.region else ""
    left = (
        f" ({found.excluded_targets} more are left out: they lie outside a method's domain)"
        if found.excluded_targets
        else ""
    )
    return paragraph(
        f"Compared: {methods}{before}. The error is the {columns.score_words(content.norm)} in {content.units} "
        f"over {found.targets} targets{over}{left}, estimated from {count(found.annotations, 'annotation')}. "
        f"Differences below {number(found.margin)} {content.units} count as a tie."
    )


def results_section(content: Content) -> str:
    """Return the table, the intervals, the ranks and the box plots."""
    found, norm, units = content.evaluation, content.norm, content.units
    names = found.ranking(norm)
    parts = [score_table(content)]
    best = columns.standing(found)[0]
    low, high = best.scores.interval[norm]
    parts += [
        heading("Errors with their uncertainty"),
        chart(
            charts.intervals(found, norm, columns.score_head(norm, units)),
            f"Errors of {len(names)} methods with 90 % intervals. Best: {names[0]} with "
            f"{number(best.true_score)} {units}, interval {number(low)} to {number(high)}.",
            "Bars: 90 % interval of the true error over all targets; dots: its median. Diamonds: the classical error, "
            "at the annotated points only. Methods on the same shade are tied: they cannot be distinguished.",
        ),
    ]
    if len(content.methods) > 1:
        parts += [
            heading("Pairwise comparison"),
            chart(
                charts.wins(found, norm),
                "Probability in percent that the method of the row has a smaller error than that of the column.",
                "Probability, in percent, that the method in the row has a smaller root mean square error than the "
                "method in the column. Blue: the row is better; white: undecided; red: the column is better.",
            ),
        ]
    if content.errors:
        words = "; ".join(f"{name}: {number(float(np.median(values)))}" for name, values in content.errors.items())
        parts += [
            heading("Errors over the targets"),
            chart(
                charts.boxes(content.errors, f"expected distance from the true match ({units})", found.tolerance),
                f"Box plots of the errors of each method over {found.targets} targets. Medians in {units}: {words}.",
                "Box: the middle half of the targets; line: median; whiskers: 5th to 95th percentile.",
            ),
        ]
    return "".join(parts)


def _with_interval(value: tuple[float, float, float] | None, write: Callable[[float], str]) -> Cell:
    if value is None:
        return Cell("–")
    middle, low, high = map(write, value)
    return Cell(f"{middle} ({low}\u00a0to\u00a0{high})", value[0])


def _cell(unit: str, value: Any, samples: int) -> Cell:
    """Return the cell of a value, written by what it is."""
    if unit == "interval":
        return _with_interval(value, number)
    if unit == "share interval":
        return _with_interval(value, percent)
    if unit == "probability":
        return sampled_cell(value, samples)
    if unit == "text":
        return text_cell(value)
    return percent_cell(value) if unit == "share" else figure_cell(value)


def score_table(content: Content) -> str:
    """Return the table of scores, best method first."""
    found = content.evaluation
    shown = columns.shown(found, columns.REPORT)
    rows = [
        (row.name, [_cell(one.unit, one.value(row), found.samples) for one in shown]) for row in columns.standing(found)
    ]
    caption = (
        f"Errors over {found.targets} targets, estimated from {count(found.annotations, 'annotation')}; best first. "
        f"90 % intervals in brackets ({found.samples} samples, seed {found.seed})."
    )
    flagged = frozenset(flag.transform for flag in found.flags if flag.transform is not None)
    heads = ["method", *columns.headings(found, columns.REPORT, content.units)]
    return table(caption, heads, rows, flagged=flagged, baseline=found.baseline, name="scores")


def landmark_section(content: Content) -> str:
    """Return the table of distances between each annotated match and where each method puts it."""
    errors = content.landmark_errors
    rows = annotation_rows(content)
    if not errors or not rows:
        return paragraph("There are no annotations, or no transform can be evaluated at the annotated points.")
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
        f"Distance in {units} between the expert's match and where a method maps the point; best method first. Last "
        f"column: the standard deviation that the expert stated.{more}",
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


def certificate_section(found: Certificate) -> str:
    """Return both verdicts, where they contradict each other, and what the certificate rests on."""
    about, heads_and_rows = found.content["audit"], found.table()
    heads, rows = heads_and_rows
    parts = [
        box("verdict", found.content["verdict"]),
        paragraph(
            f"This verdict rests on {about['usable']} answers at places drawn at random from {about['population']} "
            "targets, each with a known probability. It does not depend on the model of the true transformation. The "
            "model's verdict is shown beside it."
        ),
        *(box("warning", sentence) for sentence in found.contradictions),
        table(
            "Both verdicts. Mean error and 90th percentile include the raters' placement errors.",
            heads,
            [(str(row[0]), [text_cell(cell) for cell in row[1:]]) for row in rows],
            name="certificate-methods",
        ),
        paragraph(_skips(found)),
        facts("Certificate", _facts(found)),
    ]
    return "".join(parts)


def _skips(found: Certificate) -> str:
    about = found.content["audit"]
    if not about["not_answered"]:
        return "All random questions asked so far are answered."
    bounds = "; ".join(
        f"{one.name} {one.rms.low_with_skips:.3g} to {one.rms.high_with_skips:.3g}"
        for one in found.verdict.methods
        if one.rms.low_with_skips is not None and one.rms.high_with_skips is not None
    )
    return (
        f"{about['not_answered']} of {about['reached']} random questions were not answered. The intervals hold for "
        f"places that can be answered. If every skipped place were as good as the best answered one, or as bad as the "
        f"worst, the RMS errors would be: {bounds}."
    )


def _facts(found: Certificate) -> dict[str, object]:
    content = found.content
    late = [name for name, one in content["transforms"].items() if one["after_opening"]]
    sealed = content["audit"]["sealed"]
    return {
        "random questions": f"{content['audit']['reached']} asked, {content['audit']['usable']} used",
        "sealed answers": f"{sealed}, unknown to the model and to all exports" if sealed else "none",
        "added after the answers were opened": ", ".join(late) or "no transform",
        "estimates assisted by predictions": "yes" if found.verdict.assisted else "no",
        "log": f"generation {content['project']['log']['generation']}, {content['project']['log']['digest']}",
        "seeds of the draws": ", ".join(map(str, content["seeds"]["rounds"])),
        "hash of the answers": content["commitment"],
        "digest": content["digest"],
        "software": ", ".join(f"{name} {version}" for name, version in content["software"].items()),
    }


def annotation_list(content: Content) -> str:
    """Return the list of annotations with how well the others predict each."""
    rows = annotation_rows(content)
    if not rows:
        return paragraph("There are no annotations.")
    units = content.units
    listed = [
        (str(one["label"]), [
            text_cell(", ".join(number(x, 5) for x in one["fixed"])),
            text_cell(", ".join(number(x, 5) for x in one["moving"])),
            figure_cell(one["sd"]), figure_cell(one["residual"]), figure_cell(one["mahalanobis"]),
            figure_cell(one["p"]),
            text_cell(_remark(one)),
        ])
        for one in rows
    ]  # fmt: skip
    return table(
        f"{counted(len(rows), 'annotation')}; points are x, y[, z] in {units}. Residual: distance from the prediction "
        f"by all other annotations; standardised: divided by its expected size.",
        ("annotation", "fixed point", "moving point", f"stated sd ({units})", f"residual ({units})", "standardised",
         "p", "remark"),
        listed,
        flagged=frozenset(str(one["label"]) for one in rows if one["outlier"] or one["flagged"]),
        name="annotation-list",
    )  # fmt: skip


def _remark(row: dict[str, Any]) -> str:
    if row["flagged"]:
        return "far from all good methods"
    return "contradicts the others" if row["outlier"] else ""


def provenance(content: Content) -> str:
    """Return settings, model, images, hashes, versions, seeds, and how each transform was read."""
    found = content.evaluation
    parts = [heading("How each transform was read")]
    for name, transform in content.transforms.items():
        about = description(transform)
        shown = about or {"kind": "given as mapped points or as a function", "direction": "fixed_to_moving"}
        parts.append(
            facts(f"Transform {name}", {key: value for key, value in shown.items() if value not in ("", [], ())})
        )
    if not content.transforms:
        parts.append(paragraph("The transforms were not given to the report."))
    if content.project:
        parts += [heading("Project"), facts("Project settings and content", content.project)]
    seeds = {"posterior samples": found.samples, "seed": found.seed, "targets": found.targets,
             "tolerance": found.tolerance, "norms": list(found.norms)}  # fmt: skip
    parts += [
        heading("Model and settings"),
        facts("Model of the true transformation", model(content.posterior)),
        facts("Settings of the evaluation", {**seeds, **content.settings}),
    ]
    for name, one in content.images.items():
        parts.append(facts(f"The {name} image", {**one.summary(), "levels": one.levels}))
    if content.hashes:
        parts += [heading("Hashes"), facts("SHA-256 of the input files", content.hashes)]
    parts += [heading("Versions"), facts("Programs and libraries", versions())]
    return "".join(parts)


def reading_aid(content: Content) -> str:
    """Return the terms explained for readers without statistics, and how to cite."""
    lines = {
        "Annotation": "A point of the fixed image, its match in the moving image as marked by an expert, and the "
        "uncertainty that the expert stated.",
        "Target": "A point of the fixed image where the error is measured. Errors are averaged over all targets.",
        "Error": f"The {columns.score_words(content.norm)} over the targets: how far a method's matches are from "
        "the true ones. The true matches are not known; the error shown is the median estimate, given the "
        "annotations and the methods.",
        "Identity": "No registration: the moving image as it is. A useful method has a smaller error.",
        "90 % interval": "If the model is right, the true error lies in this interval with a probability of 90 %.",
        "Standard deviation": "How far the true match of a point typically lies from the match predicted by the "
        "annotations alone. It is small near annotations and large far from them.",
        "Tied group": "Methods that cannot be distinguished: none of them beats another with a probability of at least "
        "95 % and by a difference that matters.",
        "Outside its domain": "Share of the targets at which the transform is not defined.",
        "Folded": "Share of the points where the transform folds the image over (Jacobian determinant of 0 or less).",
    }
    rows = [(name, [text_cell(text)]) for name, text in lines.items()]
    return table("Words used in this report.", ("word", "meaning"), rows) + paragraph(
        "Method: L. Peter, D. C. Alexander, C. Magnain, J. E. Iglesias, Uncertainty-Aware Annotation Protocol to "
        f"Evaluate Deformable Registration Algorithms. Computed with warpgauge {versions()['warpgauge']}."
    )
