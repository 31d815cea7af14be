"""Doubts about transforms and imports stay attached: every verdict repeats them until an organiser accepts them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

import warpgauge as wg
from command_tools import ask, call
from warpgauge.io.transforms import as_transform, write_transform

SIZE = 120
AS_DISPLACEMENTS = ("--convention", "displacement", "--frame", "world")  # otherwise some are refused at once


def displacement(points: np.ndarray) -> np.ndarray:
    """A smooth displacement of several pixels that differs in x and y."""
    x, y = np.asarray(points).T / SIZE
    return np.column_stack([7 + 3 * np.sin(3 * y), -2 + 4 * np.cos(2 * x + y)])


WRONG = {
    "swapped": lambda points: points + displacement(points)[:, ::-1],
    "negated": lambda points: points - displacement(points),
    "inverted": lambda points: points - displacement(points - displacement(points)),
    "absolute": lambda points: 2 * points + displacement(points),
    "exchanged nodes": lambda points: points + displacement(points[:, ::-1]),  # better than nothing by far
    "exchanged axes": lambda points: points + displacement(points[:, ::-1])[:, ::-1],
    "normalised": lambda points: points + displacement(points) / (SIZE / 2),
    "still": lambda points: points + 0.004 * displacement(points),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without landmarks or transforms, the fields beside it, and landmarks in a file."""
    place = tmp_path_factory.mktemp("doubts")
    rng = np.random.default_rng(3)
    texture = ndimage.gaussian_filter(rng.normal(size=(SIZE, SIZE)), 2)
    grey = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    y, x = np.mgrid[:SIZE, :SIZE]
    back = np.column_stack([x.ravel(), y.ravel()]).astype(float)
    for _ in range(20):
        back = np.column_stack([x.ravel(), y.ravel()]) - displacement(back)
    moved = ndimage.map_coordinates(grey, back[:, ::-1].T, order=1, mode="reflect").reshape(SIZE, SIZE)
    Image.fromarray(grey).save(place / "fixed.png")
    Image.fromarray(moved).save(place / "moving.png")
    made = place / "pair"
    call("new", made, "--fixed", place / "fixed.png", "--moving", place / "moving.png", "--candidates", 20,
         "--targets", "domain:80", "--foreground", "none")  # fmt: skip
    with wg.Project.open(made) as project:
        every = {"right": lambda points: points + displacement(points), **WRONG}
        for name, function in every.items():
            write_transform(as_transform(function, d=2), place / f"{name}.nrrd", grid=project.fixed_grid)
    points = rng.uniform(20, 95, (14, 2))
    rows = np.hstack([points, points + displacement(points) + 0.2 * rng.normal(size=points.shape)])
    lines = ["fixed_x,fixed_y,moving_x,moving_y", *(",".join(map(str, row)) for row in rows)]
    (place / "pairs.csv").write_text("\n".join(lines) + "\n")
    return made


def copied(folder: Path, place: Path) -> Path:
    made = place / "pair"
    shutil.copytree(folder, made)
    for name in ("fixed.png", "moving.png"):
        shutil.copy(folder.parent / name, place / name)
    return made


def codes(folder: Path) -> dict[str, set[str]]:
    """Codes of the doubts that a verdict repeats, by transform."""
    found: dict[str, set[str]] = {}
    for one in ask("evaluate", folder)["flags"]:
        if one["code"] in ("misread", "worse", "outside", "normalised", "still", "forced"):
            found.setdefault(one["transform"] or "import", set()).add(one["code"])
    return found


@pytest.mark.parametrize("landmarks_first", [True, False])
def test_wrong_fields_are_named_by_every_verdict_whichever_came_first(folder, tmp_path, landmarks_first):
    """Swapped, negated, inverted, absolute, normalised fields and exchanged nodes are doubted, the right one is not."""
    made, source = copied(folder, tmp_path), folder.parent

    def landmarks() -> None:
        call("import", made, source / "pairs.csv")

    if landmarks_first:
        landmarks()
    for name in ("right", *WRONG):
        call("add-transform", made, name, source / f"{name}.nrrd", *AS_DISPLACEMENTS)
    if not landmarks_first:
        landmarks()
    found = codes(made)
    assert set(found) == set(WRONG)
    assert all(
        "misread" in found[name]
        for name in ("swapped", "negated", "inverted", "absolute", "exchanged nodes", "exchanged axes")
    )
    assert found["normalised"] == {"normalised"}
    assert found["still"] == {"still"}
    sentences = " ".join(one["sentence"] for one in ask("evaluate", made)["flags"])
    assert "swapped may be misread: its mean error at the annotations is" in sentences
    assert "normalised moves no target by more than 1 in any direction" in sentences
    assert "may be misread" in call("evaluate", made)
