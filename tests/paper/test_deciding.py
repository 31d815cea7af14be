"""The study of how many answers name the best: it counts what is named and whether it is right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import warpgauge as wg
from paper import deciding
from paper.evaluation import asked
from paper.experiment import Run
from paper.registration_sets import RegistrationSet


@pytest.fixture(scope="module")
def met() -> RegistrationSet:
    """Two methods that differ on the right only, where the second is wrong."""
    rng = np.random.default_rng(1)
    points = rng.uniform(0, 100, (60, 2))
    truth = points + np.array([3.0, -2.0])
    wrong = truth + np.where(points[:, :1] > 70, 6.0, 0.0) + 0.2 * rng.normal(size=(60, 2))
    mapped = np.stack([truth + 0.5 * rng.normal(size=(60, 2)), wrong])
    answers = wg.Annotations.isotropic(points, truth + 0.3 * rng.normal(size=(60, 2)), 0.3)
    return RegistrationSet(
        ["good", "bad"], answers, mapped, points, mapped, truth, 1.0, np.array([100.0, 100.0]), "px"
    )  # fmt: skip


def test_the_best_is_named(met: RegistrationSet) -> None:
    look = deciding.looked_at(met, asked(met, 14, 0), best=0)
    assert all(look[call][1] for call in deciding.CALLS)
    assert look["one model"][0] > 0.9


def test_the_t_test_is_the_paired_one(met: RegistrationSet) -> None:
    rows = list(range(30))
    bad, good = (np.square(met.at_answers[k, rows] - met.answers.moving_points[rows]).sum(axis=1) for k in (1, 0))
    expected = stats.ttest_rel(bad, good, alternative="greater").pvalue
    np.testing.assert_allclose(deciding.t_test(met, rows), [1 - expected, 0.0], rtol=1e-9)


def test_the_report_counts_a_wrong_name_as_wrong() -> None:
    def look(n: int, sure: float, right: bool) -> dict[str, object]:
        return {"n": n, **{call: [sure, right] for call in deciding.CALLS}}

    cases = [[look(8, 0.5, True), look(11, 0.99, right)] for right in (True, True, False)]
    results = [(Run(str(k), {"dataset": "confirmation"}), {"looks": one}) for k, one in enumerate(cases)]
    found = deciding.report(results).numbers["confirmation"]["named"]["one model"]
    assert found["by"][:2] == [(8, 0, 0), (11, 3, 2)]
    assert found["mean"] == pytest.approx((11 + 11 + 30) / 3)
