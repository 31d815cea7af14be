"""Tables beside a verdict: overlap of labels, and errors at every annotation."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpgauge.cli.output import print_table
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import replace_file


def check_sides(fixed_labels: Path | None, moving_labels: Path | None) -> None:
    """Refuse labels of one image alone."""
    if (fixed_labels is None) != (moving_labels is None):
        raise InvalidInputError("Overlap needs the labels of both images; give --fixed-labels and --moving-labels.")


def overlaps(transforms: Mapping[str, Any], fixed_labels: Path, moving_labels: Path) -> dict[str, Any]:
    """Return the overlap of the labels in two files after each transform."""
    from warpgauge.evaluation.surrogate_metrics import label_overlap
    from warpgauge.io.images import read_image

    fixed, moving = read_image(fixed_labels), read_image(moving_labels)
    pair = (fixed.read(), fixed.grid, moving.read(), moving.grid)
    return {name: label_overlap(one, *pair, name=name) for name, one in transforms.items()}


def show_overlaps(found: Mapping[str, Any], units: str) -> None:
    """Print the means over the labels, best overlap first."""
    columns = ["transform", "Dice", f"HD95 ({units})", f"surface distance ({units})", "labels", "outside"]
    ordered = sorted(found.items(), key=lambda item: -item[1].mean_dice)
    rows = [
        [name, one.mean_dice, one.mean_hd95, one.mean_surface_distance, len(one.labels), f"{one.outside:.1%}"]
        for name, one in ordered
    ]
    print_table(columns, rows, "Overlap of the labels, means over labels; it plays no part in the ranking above")


def write_landmark_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the errors at every annotation as CSV."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: repr(value) if isinstance(value, float) else value for key, value in row.items()} for row in rows
    )
    replace_file(path, stream.getvalue().encode())
