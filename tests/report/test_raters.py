"""Raters who differ stand in the report: beside each other, and by name where a mark is far from the others'."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_tools import call
from page_parser import Page
from session.tools import lattice, make, true_map

pytest.importorskip("matplotlib")


def write(path: Path, points: np.ndarray) -> Path:
    lines = [f"{at},{x:.3f},{y:.3f}" for at, (x, y) in enumerate(points)]
    path.write_text("\n".join([",X,Y", *lines, ""]))
    return path


def test_a_rater_who_is_offset_and_one_mark_far_off_are_named(tmp_path: Path) -> None:
    """Three raters mark the same 20 landmarks: one is 6 px off everywhere, another 30 px at one of them."""
    rng = np.random.default_rng(2)
    fixed = lattice(5, 4)
    with make(tmp_path / "p", targets=60) as project:
        file = tmp_path / "shift.txt"
        file.write_text("1.01 0 4\n0.02 1 -3\n0 0 1\n")
        project.add_transform("shift", file)
    fixed_csv = write(tmp_path / "fixed.csv", fixed)
    for rater, offset in (("ann", 0.0), ("ben", 0.0), ("cem", 6.0)):
        moving = true_map(fixed) + rng.normal(0, 0.5, fixed.shape) + [offset, 0.0]
        if rater == "ben":
            moving[7] += [0.0, 30.0]
        moving_csv = write(tmp_path / f"{rater}.csv", moving)
        call("import", tmp_path / "p", fixed_csv, moving_csv, "--rater", rater, "--radius", "1.5")
    call("report", tmp_path / "p", "--no-maps")
    path = tmp_path / "p" / "report" / "report.html"
    page, numbers = Page(path.read_text("utf-8")), json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert "Do the raters agree?" in [said for _, said in page.headings]
    rows = {row[0][1]: row for row in page.tables["raters"][1:]}
    assert set(rows) == {"ann", "ben", "cem"}
    for name, row in rows.items():
        assert row[1][1] == "20"
        assert float(row[3][0]["data-value"] or "nan") == np.linalg.norm(numbers["raters"][name]["bias"])
    assert np.linalg.norm(numbers["raters"]["cem"]["bias"]) > 4
    assert "rater cem" in page.text.lower() or "cem places" in page.text
    assert "ben" in page.text[: page.text.index("Which method is best?", 500)]
