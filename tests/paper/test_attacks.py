from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from paper import attacks
from paper.experiment import Run
from paper.registration_sets import RegistrationSet


def bent(points: np.ndarray) -> np.ndarray:
    return points + 5 * np.sin(points[:, ::-1] / 40)


def contest(*_: object) -> RegistrationSet:
    """Four transforms of a known deformation with smooth errors of 1 to 6 px, 24 answers, 40 targets."""
    rng = np.random.default_rng(4)
    fixed, targets = rng.uniform(0, 200, (24, 2)), rng.uniform(0, 200, (40, 2))
    answers = wg.Annotations.isotropic(fixed, bent(fixed) + rng.normal(0, 0.5, fixed.shape), 0.5)
    sizes = (1.0, 2.0, 4.0, 6.0)
    mapped = [
        np.stack([bent(at) + size * np.sin(at / 50 + size) for size in sizes]) for at in (answers.fixed_points, targets)
    ]
    names = ["a", "b", "c", "d"]
    return RegistrationSet(
        names, answers, mapped[0], targets, mapped[1], bent(targets), 1.0, np.array([200.0, 200.0]), "px"
    )


def test_attackers_and_gross_errors_are_flagged_and_the_report_counts_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(attacks, "contest", contest)
    monkeypatch.setattr(attacks, "SAMPLES", 100)
    runs = [Run(attack, {"dataset": "x", "seed": 1, "attack": attack}) for attack in attacks.ATTACKS]
    results = [(run, attacks.compute(tmp_path, run)) for run in runs]
    by = {run.parameters["attack"]: found for run, found in results}
    assert by["none"]["attacker"] is None
    assert by["none"]["honest_flagged"] == by["large ellipses"]["honest_flagged"] == 0
    for attack in ("spline", "posterior mean", "bent worst"):
        assert by[attack]["attacker"]["flagged"]
    # Moved by a tenth of the diagonal, 28 px, where the best transform is 1 px off.
    assert (by["two gross errors"]["wrong"], by["two gross errors"]["wrong_flagged"]) == (2, 2)
    assert by["two gross errors"]["held_after_a_look"] >= 3
    assert abs(by["copies"]["family_best"] - by["none"]["family_best"]) <= 0.03
    found = attacks.report(results)
    assert found.numbers["two gross errors"]["wrong_flagged"] == 2
    assert found.numbers["spline"]["attacker_flagged"] == 1
    assert len(found.sentences) == len(attacks.ATTACKS) + 1
