"""The study of certified verdicts: its quick looks are those of the verdicts, and its builds are as bad as stated."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from paper import certified
from paper.certified_populations import POPULATIONS
from paper.experiment import Run
from warpgauge.audit import sequential_draw
from warpgauge.evaluation.audit import audit_verdict


@pytest.mark.parametrize("name", ["normal, 1.5 against 3.5", "10 % better, wild in 3 %"])
def test_quick_looks_are_those_of_the_verdict(name: str) -> None:
    """What the study says after n answers is what a certificate says after n answers, one before not yet."""
    errors = POPULATIONS[name](np.random.default_rng(3))
    found = certified.looked_at(errors, np.random.default_rng(4))
    rng = np.random.default_rng(4)
    for design in certified.DESIGNS:
        rows, q = sequential_draw(certified.sizes_of(design, errors), certified.CAP, rng)
        best = [audit_verdict(certified.audit_of(errors, rows[:n], q[:n])).best for n in range(1, 121)]
        at, _ = found[design]
        if at is None:
            assert set(best) == {None}
        else:
            assert set(best[: at - 1]) == {None}
            assert best[at - 1] is not None


@pytest.mark.parametrize("name", certified.BUILDS)
def test_builds_are_as_good_as_stated(name: str) -> None:
    baseline, new = certified.builds(name, np.random.default_rng(4))
    ratio = np.linalg.norm(new, axis=1).sum() / np.linalg.norm(baseline, axis=1).sum()
    worse = 0 if name[0] == "a" else float(name[:2]) / 100
    assert ratio == pytest.approx(0.9 if name == "10 % better" else 1 + worse, abs=0.01)


def test_nulls_are_equal_in_their_measure() -> None:
    for name, maker in POPULATIONS.items():
        errors = maker(np.random.default_rng(5))
        assert errors.shape == (2, 800, 2)
        power = 1 if "equal means" in name else 2
        if "equal" in name:
            sums = (np.linalg.norm(errors, axis=2) ** power).sum(axis=1)
            assert sums[0] == pytest.approx(sums[1])
    assert len(POPULATIONS) >= 24


@pytest.mark.skipif("WARPGAUGE_DATA" not in os.environ, reason="needs the public data sets")
def test_real_registrations_are_audited_and_reported() -> None:
    """Real registrations of elastix-lung, and a gate: the same again, and summed up in sentences."""
    data = Path(os.environ["WARPGAUGE_DATA"])
    runs = [
        Run("lung", {"dataset": "lung", "name": "pairs with failures in 4 %", "seed": 0, "audits": 3}),
        Run("gate", {"dataset": "gate", "name": "10 % better", "seed": 0, "audits": 3}),
    ]
    results = [(run, certified.compute(data, run)) for run in runs]
    assert results[0][1] == certified.compute(data, runs[0])
    found = certified.report(results)
    assert found.numbers["gate: 10 % better"]["by disagreement"]["audits"] == 3
    assert len(found.sentences) == 2
