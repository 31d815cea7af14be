"""What the targets stand for is a code that the project stores; it is not read back from a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import warpgauge as wg
from command_tools import call
from warpgauge.project import Project, ProjectError


@pytest.fixture
def images(tmp_path: Path) -> list[str | Path]:
    """Two images of the same size."""
    pixels = np.random.default_rng(3).integers(0, 255, (60, 80)).astype(np.uint8)
    for name in ("fixed.png", "moving.png"):
        Image.fromarray(pixels).save(tmp_path / name)
    return ["--fixed", tmp_path / "fixed.png", "--moving", tmp_path / "moving.png", "--candidates", "20"]


def _evaluated(folder: Path) -> str:
    with Project.open(folder) as project:
        session = wg.Session(project, rater="ann")
        for x, y in [(10, 10), (60, 12), (30, 40), (65, 50), (40, 20), (20, 50)]:
            session.volunteer((x, y), (x + 1, y - 1), radius=1.0)
    (folder.parent / "shift.txt").write_text("1 0 1\n0 1 -1\n0 0 1\n")
    call("add-transform", folder, "shift", folder.parent / "shift.txt")
    return call("evaluate", folder)


def test_a_file_is_a_file_whatever_its_name(tmp_path: Path, images: list[str | Path]) -> None:
    """A file of targets called "over the left image.csv" is not the region "the left image"."""
    points = tmp_path / "over the left image.csv"
    points.write_text("x,y\n" + "".join(f"{x},{y}\n" for x in range(5, 75, 10) for y in range(5, 55, 10)))
    call("new", tmp_path / "pair", *images, "--targets", points)
    assert "targets in a file of points" in _evaluated(tmp_path / "pair")


def test_the_code_is_stored(tmp_path: Path, images: list[str | Path]) -> None:
    """What the targets were made from stands in the document, and nothing but text is read as it."""
    folder = tmp_path / "pair"
    call("new", folder, *images, "--targets", "domain:90", "--foreground", "none")
    file = folder / "project.json"
    content = json.loads(file.read_text())
    assert content["targets"]["region"] == "domain"
    file.write_text(json.dumps({**content, "targets": {**content["targets"], "region": 7}}))
    with pytest.raises(ProjectError, match="region of a points record is wrong"):
        Project.open(folder)
