"""Report section with the error of every method at every annotated point, also as CSV."""

from __future__ import annotations

import csv
import io

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.report.content import Content, annotation_rows
from warpgauge.report.html import download, figure_cell, paragraph, table, text_cell
from warpgauge.report.method_maps import MOST_SHOWN


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
