"""Annotations flagged as gross errors, from the command line to the thumbnails of the report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

import warpgauge as wg
from command_tools import ask, call
from page_parser import Page
from report_tools import assert_consistent
from warpgauge.maps import write_map
from warpgauge.report.suspects import Suspect, thumbnails

pytest.importorskip("matplotlib")

SHIFT = np.array([4.0, -3.0])
SLIP = np.array([18.0, 12.0])
ROW = 5


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A textured pair shifted by (4, -3) px, 20 landmarks of which the sixth is 22 px off, and three registrations."""
    folder = tmp_path_factory.mktemp("suspects")
    texture = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(160, 180)), 2)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(texture[20:140, 20:160]).save(folder / "fixed.png")
    Image.fromarray(texture[23:143, 16:156]).save(folder / "moving.png")
    rng = np.random.default_rng(1)
    fixed = rng.uniform([30, 30], [110, 90], (20, 2)).round(1)
    moving = fixed + SHIFT + rng.normal(0, 0.5, fixed.shape)
    moving[ROW] = fixed[ROW] + SHIFT + SLIP
    for name, points in (("fixed.csv", fixed), ("moving.csv", moving)):
        lines = [f"{at},{x:.2f},{y:.2f}" for at, (x, y) in enumerate(points)]
        (folder / name).write_text("\n".join([",X,Y", *lines, ""]))
    (folder / "good.txt").write_text("1.005 0 3.9\n0 1 -3.1\n0 0 1\n")
    (folder / "fair.txt").write_text("1 0.01 4.3\n0 1 -2.6\n0 0 1\n")
    (folder / "poor.txt").write_text("1 0 2.5\n0.01 1 -1.5\n0 0 1\n")
    made = folder / "project"
    ask(
        "new", made, "--fixed", folder / "fixed.png", "--moving", folder / "moving.png", "--targets", 60,
        "--set", "default-radius=1.5",
    )  # fmt: skip
    ask("import", made, folder / "fixed.csv", folder / "moving.csv", "--rater", "ann")
    for name in ("good", "fair", "poor"):
        ask("add-transform", made, name, folder / f"{name}.txt")
    return made


def test_a_planted_slip_is_named_by_evaluate_with_its_number_from_one(project: Path) -> None:
    result = ask("evaluate", project)
    assert [flag["row"] for flag in result["flags"] if flag["transform"] is None] == [ROW]
    printed = " ".join(call("evaluate", project).split())
    assert "look at this: Annotation 6, at (" in printed
    assert " px from every good transform, where " in printed
    assert "look at this: Without annotation 6: " in printed
    assert " ".join(result["without_flagged"]["verdict"].split()) in printed


def test_benchmark_names_a_planted_slip_before_its_table(project: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    methods = "".join(f'[[method]]\nname = "{name}"\n' for name in ("good", "poor"))
    pair = f'[[pair]]\nname = "it"\nproject = "{project.as_posix()}"\n'
    study.write_text(f"[settings]\nbootstrap = 20\n{pair}{methods}")
    printed = " ".join(call("benchmark", study, "--out", tmp_path / "results").split())
    assert printed.startswith("look at this: it: Annotation 6, at (")
    assert printed.index("look at this") < printed.index("mean rank")


def test_the_report_shows_a_planted_slip_in_both_images(project: Path) -> None:
    """It stands before the ranking, with one picture, where its match is expected, and the verdict without it."""
    call("report", project)
    path = project / "report" / "report.html"
    page, numbers = Page(path.read_text("utf-8")), json.loads(path.with_suffix(".json").read_text("utf-8"))
    (one,) = numbers["flagged_annotations"]
    assert one["number"] == ROW + 1
    np.testing.assert_allclose(one["expected"], np.array(one["fixed"]) + SHIFT, atol=1.0)
    assert one["distance"] == pytest.approx(np.linalg.norm(SLIP), abs=1.5)
    titles = [title for _, title in page.headings]
    assert titles.index("Annotations to check") < titles.index("Which method is best?")
    pictures = [given["alt"] or "" for given in page.of("img") if (given["alt"] or "").startswith("Annotation ")]
    assert len(pictures) == 1
    assert pictures[0].startswith("Annotation 6: the fixed image around the point and the moving image around its mark")
    other = numbers["evaluation"]["without_flagged"]
    assert f"Without annotation 6: {other['verdict']}" in page.text
    rows = {row[0][1]: row for row in page.tables["without-flagged"][1:]}
    assert set(rows) == {"good", "fair", "poor", "identity"}
    assert float(rows["good"][4][0]["data-value"] or "nan") == other["transforms"]["good"]["score"]["2"]
    listed = [row for row in page.tables["annotation-list"][1:] if row[-1][1] == "far from all good methods"]
    assert [row[0][1] for row in listed] == ["6"]
    assert_consistent(path)


def test_the_thumbnails_show_what_lies_at_the_point_and_at_the_mark(project: Path) -> None:
    """At one scale: the moving image looks like the fixed one around the expected match, not around the mark."""
    with wg.Project.open(project) as opened:
        fixed, moving = opened.image("fixed"), opened.image("moving")
        point = np.array([70.0, 60.0])
        figure = thumbnails(fixed, moving, Suspect(ROW, "", point, point + SHIFT + SLIP, point + SHIFT))
    left, right = figure.axes[:2]
    assert left.get_xlim() == right.get_xlim()
    assert left.get_ylim() == right.get_ylim()
    side = left.get_xlim()[1]
    panels = [np.asarray(place.images[0].get_array(), dtype=float) for place in (left, right)]
    assert panels[0].shape == panels[1].shape
    scale = panels[0].shape[0] / side

    def around(panel: np.ndarray, at: np.ndarray) -> np.ndarray:
        column, row = np.round(at * scale).astype(int)
        reach = round(7 * scale)
        return panel[row - reach : row + reach, column - reach : column + reach].ravel()

    drawn = [line.get_xydata()[0] for place in (left, right) for line in place.lines if len(line.get_xydata()) == 1]
    here, mark, expected = drawn
    np.testing.assert_allclose(here, side / 2)
    np.testing.assert_allclose(mark, side / 2)
    np.testing.assert_allclose(expected - mark, -SLIP)
    seen = around(panels[0], here)
    assert np.corrcoef(seen, around(panels[1], expected))[0, 1] > 0.95
    assert abs(np.corrcoef(seen, around(panels[1], mark))[0, 1]) < 0.6


def test_thumbnails_of_volumes_are_cut_where_mark_and_match_differ(tmp_path: Path) -> None:
    """An offset along x and z is shown in the coronal plane; a patch that leaves the volume is blank there."""
    grid = wg.Grid((30, 24, 20), [2.0, 2.0, 3.0], units="mm")
    at = grid.points()
    ball = np.exp(-np.sum((at - [30.0, 24.0, 30.0]) ** 2, axis=1) / 50).reshape(grid.shape)
    volume = wg.read_image(write_map(ball, grid, tmp_path / "ball.nrrd"))
    centre = np.array([30.0, 24.0, 30.0])
    figure = thumbnails(volume, volume, Suspect(0, "", centre, centre + np.array([12.0, 0.0, -9.0]), centre))
    left, right = figure.axes[:2]
    assert "coronal" in left.get_title()
    assert "y = 24" in right.get_title()
    panel = np.asarray(right.images[0].get_array().filled(np.nan), dtype=float)
    assert np.isnan(panel[0, 0])
    row, column = np.argwhere(panel > 0.5).mean(axis=0)
    expected = right.lines[-1].get_xydata()[0]
    np.testing.assert_allclose(np.array([column, row]) / panel.shape[0] * left.get_xlim()[1], expected, atol=1.0)
