"""Report sections with the inputs (annotations, transforms, settings, versions), and a glossary."""

from __future__ import annotations

from typing import Any

from warpgauge.display import counted
from warpgauge.report.content import Content, annotation_rows, description, model, versions
from warpgauge.report.html import facts, figure_cell, heading, number, paragraph, table, text_cell
from warpgauge.report.results import score_name


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
        f"by all others.",
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
        parts += [heading("Project"), facts("What the project says of itself", content.project)]
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
        parts += [heading("Hashes"), facts("SHA-256 of what went in", content.hashes)]
    parts += [heading("Versions"), facts("Programs and libraries", versions())]
    return "".join(parts)


def reading_aid(content: Content) -> str:
    """Return the terms explained for readers without statistics, and how to cite."""
    lines = {
        "Annotation": "A point of the fixed image, the place an expert gave for it in the moving image, and how sure "
        "the expert was.",
        "Target": "A point of the fixed image at which the error counts. Errors are averaged over all targets.",
        "Error": f"The {score_name(content.norm)} over the targets: how far a method's matches are from the true ones. "
        "The true ones are not known; the error given is the middle of what it may be, given the annotations and the "
        "methods.",
        "Identity": "The moving image as it lies, without any registration: what a method has to beat.",
        "90 % interval": "The true error lies in it with a probability of 90 %, if the model is right.",
        "Standard deviation": "How far the true match of a point typically lies from where the annotations alone put "
        "it. Small near annotations, large far from them.",
        "Tied": "Methods that the first of their group does not beat with a probability of at least 95 %, or only by a "
        "difference that does not count.",
    }
    rows = [(name, [text_cell(text)]) for name, text in lines.items()]
    return table("Words used in this report.", ("word", "meaning"), rows) + paragraph(
        "Method: L. Peter, D. C. Alexander, C. Magnain, J. E. Iglesias, Uncertainty-Aware Annotation Protocol to "
        f"Evaluate Deformable Registration Algorithms. Computed with warpgauge {versions()['warpgauge']}."
    )
