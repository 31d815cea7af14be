from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from paper import panel
from paper.experiment import Run
from paper.registration_sets import RegistrationSet


def truth(points: np.ndarray) -> np.ndarray:
    return points + 5 * np.sin(points[:, ::-1] / 40)


def contest(*_: object) -> RegistrationSet:
    """Nine transforms of a known deformation with smooth errors of 1 to 5 px, 28 landmarks."""
    rng = np.random.default_rng(4)
    fixed = targets = rng.uniform(0, 200, (28, 2))
    answers = wg.Annotations.isotropic(fixed, truth(fixed) + rng.normal(0, 0.5, fixed.shape), 0.5)
    sizes = np.linspace(1, 5, 9)
    mapped = [
        np.stack([truth(at) + size * np.sin(at / (9 + size) + size) for size in sizes]) for at in (fixed, targets)
    ]
    names = [f"m{k}" for k in range(9)]
    extent = np.array([200.0, 200.0])
    return RegistrationSet(names, answers, mapped[0], targets, mapped[1], truth(targets), 1.0, extent, "px")


def test_panels_bends_and_leaks_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A wholly bent method fits the open answers only: it does not win beside a panel, and the test finds it."""
    monkeypatch.setattr(panel, "contest", contest)
    monkeypatch.setattr(panel, "SAMPLES", 60)
    monkeypatch.setattr(panel, "COUNTS", (12,))
    run = Run("x", {"dataset": "x", "seed": 1, "tricks": True})
    found = panel.compute(tmp_path, run)
    assert {one["panel"] for one in found["judged"]} == set(panel.PANELS)
    assert sum(one["panel"] == "three worst" for one in found["judged"]) == 12
    assert all(one["best"] < 0.5 for one in found["bent"] if one["panel"])
    assert {one["sealed"] for one in found["leaks"]} == {5}
    told = panel.report([(run, found)])
    assert told.numbers["leaks"]["5 sealed answers, wholly"]["found"] > 0.5
    assert told.numbers["leaks"]["5 sealed answers, honest"]["found"] == 0
    assert told.numbers["bent"]["half, beside six"] == {"cases": 1, "wrong": 0}
    rows = [row for row in told.numbers["intervals"] if row["dataset"] == "x" and row["n"] == 12]
    assert [row["cases"] for row in rows] == [9, 3, 3, 6, 6, 6, 6]
    assert set(told.numbers["pairs"]["x 0"]) >= {"all together", "six vetted", "six unvetted"}


def test_the_plan_has_every_pair(tmp_path: Path) -> None:
    runs = panel.plan(tmp_path, 2, 90, quick=False)
    assert len(runs) == 20 + 2 * (5 + 5 + 5 + 10)
    assert len({run.key for run in runs}) == len(runs)
