"""Annotations flagged as gross errors, from the command line to the report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from command_tools import ask, call
from page_parser import Page
from report_tools import assert_consistent

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
    assert "annotation 6 may be a wrong match" in printed
    assert result["without_flagged"]["annotations"] == result["annotations"] - 1


def test_benchmark_names_a_planted_slip_before_its_table(project: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    methods = "".join(f'[[method]]\nname = "{name}"\n' for name in ("good", "poor"))
    pair = f'[[pair]]\nname = "it"\nproject = "{project.as_posix()}"\n'
    study.write_text(f"[settings]\nbootstrap = 20\n{pair}{methods}")
    printed = " ".join(call("benchmark", study, "--out", tmp_path / "results").split())
    assert printed.startswith("look at this: it: Look at annotation 6 again: at (")
    assert printed.index("look at this") < printed.index("mean rank")


def test_the_report_shows_a_planted_slip(project: Path) -> None:
    """It stands before the ranking, with where its match is expected, and the verdict without it."""
    call("report", project)
    path = project / "report" / "report.html"
    page, numbers = Page(path.read_text("utf-8")), json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert [one["number"] for one in numbers["annotations"] if one["flagged"]] == [ROW + 1]
    titles = [title for _, title in page.headings]
    assert titles.index("Annotations to check") < titles.index("Which method is best?")
    assert "Look at annotation 6 again: at (" in page.text
    other = numbers["evaluation"]["without_flagged"]
    assert other["lines"]["BEST"] in page.text
    rows = {row[0][1]: row for row in page.tables["without-flagged"][1:]}
    assert set(rows) == {"good", "fair", "poor", "identity"}
    assert float(rows["good"][3][0]["data-value"] or "nan") == other["transforms"]["good"]["score"]["2"]
    listed = [row for row in page.tables["annotation-list"][1:] if row[-1][1] == "far from all good methods"]
    assert [row[0][1] for row in listed] == ["annotation 6"]
    assert_consistent(path)


def test_the_landmark_that_the_verdict_names_is_taken_out_and_brought_back_by_that_name(project: Path) -> None:
    """Also after an earlier one was taken out: numbers stay those of the rows of the file."""
    for landmark in ("2", "6"):
        assert f"The landmark {landmark} of ann is left out" in call("undo", project, "--landmark", landmark)
    assert "may be a wrong match" not in call("evaluate", project)
    assert ask("evaluate", project)["annotations"] == 18
    call("undo", project, "--rater", "ann")
    assert "annotation 6 may be a wrong match" in call("evaluate", project)
    call("undo", project, "--rater", "ann")
    assert ask("evaluate", project)["annotations"] == 20
    assert "There is no landmark '21' of organiser" in call("undo", project, "--landmark", "21", code=1)
