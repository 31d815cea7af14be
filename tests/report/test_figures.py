"""``report --figures`` and maps that are hatched where the annotations say little, at the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

import warpgauge as wg
from command_tools import ask, call


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with landmarks in one corner and two results, one named with what LaTeX takes for its own."""
    folder = tmp_path_factory.mktemp("paper")
    rng = np.random.default_rng(2)
    picture = gaussian_filter(rng.normal(0, 1, (150, 200)), 3)
    picture = (255 * (picture - picture.min()) / np.ptp(picture)).astype(np.uint8)
    for side in ("fixed", "moving"):
        Image.fromarray(picture).save(folder / f"{side}.png")
    points = rng.uniform(5, 145, (60, 2))
    wg.Project.create(
        folder / "p", fixed=folder / "fixed.png", moving=folder / "moving.png", candidates=points, targets=points
    ).close()
    fixed = rng.uniform(5, 60, (14, 2))
    rows = [",".join(map(str, [*a, *(a + rng.normal(0, 0.3, 2))])) for a in fixed]
    (folder / "pairs.csv").write_text("\n".join(["fixed_x,fixed_y,moving_x,moving_y", *rows]) + "\n")
    call("import", folder / "p", folder / "pairs.csv", "--rater", "ann", "--force")
    for name, shift in (("b_spline 50%", 0.2), ("far", 6)):
        (folder / "m.txt").write_text(f"1 0 {shift}\n0 1 0\n")
        call("add-transform", folder / "p", name, folder / "m.txt")
    return folder / "p"


def test_figures_of_a_paper(project: Path, tmp_path: Path) -> None:
    """One map per method and kind as PDF and SVG at column width, intervals, a LaTeX table and a paragraph."""
    out = tmp_path / "figures"
    said = ask("report", project, "--out", tmp_path / "r.html", "--figures", out, "--tolerance", 2)
    assert said["figures"] == str(out)
    stems = {"error-b_spline_50", "error-far", "exceedance-b_spline_50", "exceedance-far", "sd", "scores"}
    found = {path.name for path in out.iterdir()}
    assert {f"{stem}.{kind}" for stem in stems for kind in ("pdf", "svg")} <= found
    assert (out / "error-far.pdf").read_bytes().startswith(b"%PDF")
    for stem in stems:
        width = re.search(r'<svg[^>]* width="([0-9.]+)pt"', (out / f"{stem}.svg").read_text())
        assert width is not None
        assert abs(float(width[1]) / 72 - 3.46) < 0.01
    assert "<pattern" in (out / "error-far.svg").read_text()  # hatched where unknown
    table = (out / "table.tex").read_text()
    assert r"b\_spline 50\% &" in table
    assert table.index("spline") < table.index("far")
    text = (out / "methods.txt").read_text()
    for part in (wg.__version__, "seed 0", "L. Peter", "fixed image: ", "14 annotations"):
        assert part in text
    errors = re.findall(r"& ([0-9.]+) & [0-9.]+ to", table)
    assert sorted(re.findall(r"about ([0-9.]+) px \(90", text)) == errors[:2]  # table and paragraph have the same
    assert r"far & 5.89 & 5.8 to 6.07 & $<$0.01 \\" in table
    assert "All figures are over the 15 % of the targets" in text
    call("report", project, "--out", tmp_path / "r.html", "--figures", tmp_path / "again", "--tolerance", 2)
    assert (tmp_path / "again/error-far.pdf").read_bytes() == (out / "error-far.pdf").read_bytes()


def test_exceedance_is_hatched_where_nothing_is_known(project: Path, tmp_path: Path) -> None:
    """Corners without an annotation are not painted as certain."""
    call("map", project, "exceedance", tmp_path / "map.svg", "--transform", "far", "--tolerance", 2)
    assert "<pattern" in (tmp_path / "map.svg").read_text()
