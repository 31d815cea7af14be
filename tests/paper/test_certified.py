"""The study of certified verdicts: known audits give known answers."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from paper import certified
from paper.certified import Trial, audit, beginning, drawn, placed
from paper.certified_report import report
from paper.experiment import Run
from warpgauge.core.estimators import Draws


def made(sd: float = 0.1) -> Trial:
    """Three transforms on a lattice: right, off by 1 and off by 3."""
    x, y = np.meshgrid(np.arange(15.0), np.arange(12.0))
    targets = np.stack([x.ravel(), y.ravel()], axis=1)
    mapped = np.stack([targets + np.array([0.0, off]) for off in (0.2, 1.0, 3.0, 2.0)])
    return Trial(mapped, targets, targets, sd, targets, np.broadcast_to(np.eye(2), (180, 2, 2)), False)


def test_the_beginning_of_the_rounds_has_the_probability_of_its_part():
    """Of the second round of 16, four questions have a quarter of their probability; weights add up to about 1."""
    trial = made()
    found = drawn(trial, trial.mapped, 40, np.random.default_rng(1))
    draws = beginning(found, 20, 180)
    np.testing.assert_allclose(draws.probabilities[:16], found[1][:16])
    np.testing.assert_allclose(draws.probabilities[16:], found[1][16:20] / 4)
    assert isinstance(draws, Draws)
    assert draws.weights.sum() == pytest.approx(1, abs=0.3)


def test_an_audit_finds_the_errors_of_constant_transforms():
    """Where errors are the same everywhere, every interval is short and right, and every pair is decided."""
    trial, rng = made(), np.random.default_rng(2)
    found = certified.intervals(trial, rng)
    for row in found["disagreement 40"]:
        assert row[1]
        assert abs(row[3]) < 0.1
    assert all(row[4] and not row[5] for row in found["disagreement 40"] if row[0] == "difference")
    draws = beginning(drawn(trial, None, 20, rng), 20, 180)
    data = audit(trial, trial.mapped, draws, placed(trial, draws.rows, rng))
    np.testing.assert_allclose(data.squares().mean(axis=1), [0.04, 1, 9, 4], rtol=0.5)


def test_gates_pass_what_is_as_good_and_catch_what_is_worse():
    """With constant errors both builds are told apart at every number of answers."""
    codes = certified.gates(made(0.01), np.random.default_rng(3))
    assert {codes[f"as good {n}"] for n in certified.GATE_COUNTS} == {0}
    assert {codes[f"20 % larger {n}"] for n in certified.GATE_COUNTS} == {1}


@pytest.mark.skipif("WARPGAUGE_DATA" not in os.environ, reason="needs the public data sets")
def test_elastix_lung_is_audited_and_reported():
    """Real registrations of elastix-lung: intervals and decisions are summed up in sentences."""
    data = Path(os.environ["WARPGAUGE_DATA"])
    runs = [
        Run(kind, {"dataset": "elastix-lung", "seed": 0, "audits": 3, "kind": kind})
        for kind in ("intervals", "decisions")
    ]
    found = report([(run, certified.compute(data, run)) for run in runs])
    assert found.numbers["elastix-lung"]["intervals"]["rms, disagreement 20"]["intervals"] == 9
    assert any("95 % intervals hold" in sentence for sentence in found.sentences)
    again = certified.compute(data, runs[0])
    assert again == certified.compute(data, runs[0])
