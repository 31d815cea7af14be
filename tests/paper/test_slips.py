"""The study of slips: what it leaves out, what it plants, and its sums."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paper import slips
from paper.datasets import DATASETS, LandmarkPair
from paper.experiment import Run


def made(group: str) -> LandmarkPair:
    rng = np.random.default_rng(len(group))
    fixed = rng.uniform(0, 400, (60, 2))
    moving = 1.02 * fixed + 6 + 4 * np.sin(fixed[:, ::-1] / 90) + rng.normal(0, 0.3, (60, 2))
    return LandmarkPair("cima", f"{group}_a_b", group, fixed, moving, "px", 1.0, (400.0, 400.0), (200.0, 200.0))


@pytest.fixture(autouse=True)
def _pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = tuple(made(group) for group in ("lung-lesion_1", "lung-lobes_1", "lung-lesion_3"))
    monkeypatch.setitem(DATASETS, "cima", replace(DATASETS["cima"], pairs=lambda data: pairs))


def test_pairs_on_which_something_was_chosen_are_not_reported() -> None:
    assert [pair.group for pair in slips.reported("cima", Path())] == ["lung-lesion_3"]


def test_planted_slips_are_counted() -> None:
    """On a smooth map a slip of 30 sigma is found and asked about, and nothing is suspected without one."""
    run = Run("one", {"dataset": "cima", "count": 11, "seed": 3})
    found = slips.compute(Path(), run)
    assert found["1 by 30 sigma"] == {"slips": 1, "found": 1, "sound": 10, "suspected": 0, "asked": True}
    assert (found["none"]["slips"], found["none"]["sound"], found["none"]["suspected"]) == (0, 11, 0)
    assert found["4 by 30 sigma"]["slips"] == 4
    told = slips.report([(run, found)])
    assert told.numbers["cima 11"]["1 by 30 sigma"]["found"] == 1.0
    assert told.sentences[-1] == "Of 11 sound marks, 0 (0.00%) are suspected."
