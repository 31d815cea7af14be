"""What has no match in the moving image, by a mask of the fixed one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from command_tools import ask, call
from warpgauge.project import Project
from warpgauge.session import Session

SIZE = 96


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Two speckled images, and a mask of what has no match."""
    speckle = np.random.default_rng(0).integers(0, 255, (SIZE // 4, SIZE // 4)).astype(np.uint8)
    for name in ("fixed", "moving"):
        Picture.fromarray(speckle).resize((SIZE, SIZE)).save(tmp_path / f"{name}.png")
    mask = np.zeros((SIZE, SIZE), dtype=np.uint8)
    mask[20:61, 30:71] = 255
    Picture.fromarray(mask).save(tmp_path / "torn.png")
    return tmp_path


def make(pictures: Path, *options: object, code: int = 0) -> Path:
    call(
        "new", pictures / "p", "--fixed", pictures / "fixed.png", "--moving", pictures / "moving.png",
        "--candidates", 80, "--targets", "domain:400", "--foreground", "none", *options, code=code,
    )  # fmt: skip
    return pictures / "p"


def in_box(points: object) -> np.ndarray:
    at = np.asarray(points)
    return np.all((at >= [30, 20]) & (at <= [70, 60]), axis=-1)


def test_a_mask_of_what_has_no_match_keeps_candidates_and_targets_out(pictures: Path) -> None:
    """It is stored with the project, whose document an older program refuses; ``info`` and ``new`` say it."""
    folder = make(pictures, "--missing", pictures / "torn.png")
    (pictures / "torn.png").unlink()
    with Project.open(folder) as project:
        assert not in_box(project.candidates).any()
        assert not in_box(project.targets).any()
        assert "left out where nothing has a match" in project.document.targets.method
        assert project.missing is not None
        assert project.missing(np.array([[50.0, 40.0], [80.0, 40.0]])).tolist() == [True, False]
    assert json.loads((folder / "project.json").read_text())["version"] == 6


@pytest.mark.parametrize(("foreground", "of"), [(False, "fixed image"), (True, "fixed image's foreground")])
def test_the_verdict_names_the_share_that_a_mask_takes_out(pictures: Path, foreground: bool, of: str) -> None:
    """Of the image, 41 x 41 of 96 x 96 pixels; of a foreground that is its left half, 18 columns of 48."""
    options: tuple[object, ...] = ("--missing", pictures / "torn.png")
    if foreground:
        half = np.zeros((SIZE, SIZE), dtype=np.uint8)
        half[:, :48] = 255
        Picture.fromarray(half).save(pictures / "half.png")
        options += ("--fixed-mask", pictures / "half.png", "--targets", 1500)
    folder = make(pictures, *options)
    share = 41 * 18 / (96 * 48) if foreground else 41 * 41 / 96**2
    with Project.open(folder) as project:
        session = Session(project, rater="ada")
        for _ in range(6):
            query = session.next_query()
            session.place(query, np.add(query.point, [2.0, 0.0]), radius=0.5, confirmed=True)
    np.savetxt(pictures / "shift.txt", np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]]))
    call("add-transform", folder, "shift", pictures / "shift.txt", "--format", "matrix")
    (flag,) = [one for one in ask("evaluate", folder)["flags"] if one["code"] == "masked"]
    assert flag["numbers"]["share"] == pytest.approx(share, abs=0.01)
    assert flag["sentence"].startswith(f"{100 * share:.0f} % of the {of} is not judged: ")
    assert f"{100 * share:.0f} % of the {of} has no match and is not judged" in call("evaluate", folder)
    call("report", folder, "--out", pictures / "report.html")
    assert "is not judged: the mask" in (pictures / "report.html").read_text()
