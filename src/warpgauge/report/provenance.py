"""The parts of the page that say what went in: annotations, transforms, settings, versions; and a reading aid."""

from __future__ import annotations

from warpgauge.report.content import Content, annotation_rows, description, model, versions
from warpgauge.report.html import facts, figure_cell, heading, number, paragraph, table, text_cell
from warpgauge.report.results import score_name


def annotation_list(content: Content) -> str:
    """Give the list of annotations with how well the others predict each."""
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
            text_cell("contradicts the others" if one["outlier"] else ""),
        ])
        for one in rows
    ]  # fmt: skip
    return table(
        f"{len(rows)} annotations; points are x, y[, z] in {units}. Residual: distance from the prediction by all "
        f"others.",
        ("annotation", "fixed point", "moving point", f"stated sd ({units})", f"residual ({units})", "standardised",
         "p", "remark"),
        listed,
        flagged=frozenset(str(one["label"]) for one in rows if one["outlier"]),
        name="annotation-list",
    )  # fmt: skip


def provenance(content: Content) -> str:
    """Give settings, model, images, hashes, versions, seeds, and how each transform was read."""
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
    """Give the words that a reader who is no statistician needs, and how to cite."""
    lines = {
        "Annotation": "A point of the fixed image, the place an expert gave for it in the moving image, and how sure "
        "the expert was.",
        "Posterior": "All transformations that fit the annotations, each with its probability. Where annotations are "
        "near, they agree; far away, they differ, and the standard deviation is large.",
        "Score": f"The {score_name(content.norm)} over the targets between a method and the true transformation: "
        "its median over all that may be true, given the annotations and the methods."
        if content.evaluation.centre_weights is not None
        else f"The {score_name(content.norm)} over the targets between a method and the posterior mean.",
        "90 % interval": "The true score lies in it with a probability of 90 %, if the model is calibrated.",
        "Error score e(x)": "How far out a method's point lies in the posterior: above 0.95, fewer than one of twenty "
        "transformations that fit the annotations are as far away. A low score means agreement or too few annotations.",
        "Calibrated": "Of the regions said to hold a point with 95 %, about 95 % do.",
        "Tied": "Methods whose order the annotations do not decide with a probability of at least 95 %.",
    }
    rows = [(name, [text_cell(text)]) for name, text in lines.items()]
    return table("Words used in this report.", ("word", "meaning"), rows) + paragraph(
        "Method: L. Peter, D. C. Alexander, C. Magnain, J. E. Iglesias, Uncertainty-Aware Annotation Protocol to "
        f"Evaluate Deformable Registration Algorithms. Computed with warpgauge {versions()['warpgauge']}."
    )
