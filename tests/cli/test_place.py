"""``suggest`` and ``undo``: budgets, and what an undo brings back."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from command_tools import ask, call, place, skip

WARPGAUGE = Path(sys.executable).with_name("warpgauge")
SHIFT = np.array([4.0, -3.0])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A textured picture and the same shifted by (4, -3) pixels."""
    texture = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(140, 160)), 2)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(texture[10:110, 10:130]).save(tmp_path / "fixed.png")
    Image.fromarray(texture[13:113, 6:126]).save(tmp_path / "moving.png")
    images = ("--fixed", tmp_path / "fixed.png", "--moving", tmp_path / "moving.png")
    ask("new", tmp_path / "p", *images, "--candidates", 60, "--set", "budget=8")
    return tmp_path / "p"


def answer(project: Path, rater: str, count: int) -> None:
    for _ in range(count):
        query = ask("suggest", project, "--rater", rater)
        place(project, query["query"], np.add(query["point"], SHIFT).tolist(), rater=rater)


def test_skips_use_up_nothing_of_the_budget(project: Path) -> None:
    """Two raters, budget 8: after ten skips each there is a next question; after eight placements there is none."""
    for rater in ("ann", "bob"):
        for _ in range(10):
            query = ask("suggest", project, "--rater", rater)
            assert not query["done"]
            skip(project, query["query"], rater=rater)
        answer(project, rater, 8)
        done = ask("suggest", project, "--rater", rater)
        assert done == {"done": True, "reasons": ["8 of the budget of 8 landmarks are placed."], "audit": None}


def test_undo_brings_back_the_uncertainty(project: Path) -> None:
    """A slip as the 5th mark, at which the weights are refitted, then undo: they are learned anew without it."""
    answer(project, "ann", 4)
    before = query = ask("suggest", project, "--rater", "ann")
    place(project, query["query"], np.add(query["point"], [40.0, 10.0]).tolist(), rater="ann")
    ask("suggest", project, "--rater", "ann")
    call("undo", project, "--rater", "ann")
    after = ask("suggest", project, "--rater", "ann")
    assert (after["query"], after["point"], after["position"]) == (before["query"], before["point"], before["position"])
    assert after["predicted"] == pytest.approx(before["predicted"], rel=0.01)
