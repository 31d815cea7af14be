"""The study of questions that decide: it asks as a project does, and counts what is named and whether it is right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import warpgauge as wg
from paper import deciding
from paper.deciding import DECIDING_ROUND, FIRST, best_information
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


def test_questions_that_decide_are_asked_where_the_methods_differ(met: RegistrationSet) -> None:
    entropy, decide = (deciding.questions(met, way, 20, 0) for way in ("entropy", "decide"))
    assert entropy[:FIRST] == decide[:FIRST]
    assert len(set(decide)) == len(set(entropy)) == 20
    right = [np.mean(met.answers.fixed_points[rows[FIRST:], 0] > 70) for rows in (entropy, decide)]
    assert right[1] > right[0] + 0.25
    assert len(deciding.drawn_questions(met, decide[:10], np.random.default_rng(0))) == DECIDING_ROUND


def test_the_best_is_named_and_counted(met: RegistrationSet) -> None:
    look = deciding.looked_at(met, deciding.questions(met, "decide", 14, 0), best=0)
    assert all(look[call][1] for call in deciding.CALLS)
    assert look["one model"][0] > 0.9
    assert 0 < look["map"] < 5


def test_the_t_test_is_the_paired_one(met: RegistrationSet) -> None:
    rows = list(range(30))
    bad, good = (np.square(met.at_answers[k, rows] - met.answers.moving_points[rows]).sum(axis=1) for k in (1, 0))
    expected = stats.ttest_rel(bad, good, alternative="greater").pvalue
    np.testing.assert_allclose(deciding.t_test(met, rows), [1 - expected, 0.0], rtol=1e-9)


def test_the_report_counts_a_wrong_name_as_wrong() -> None:
    def look(n: int, sure: float, right: bool) -> dict[str, object]:
        return {"n": n, "map": 2.0 * n, **{call: [sure, right] for call in deciding.CALLS}}

    cases = [
        {way: [look(8, 0.5, True), look(11, 0.99, right)] for way in deciding.ASKING} for right in (True, True, False)
    ]
    results = [(Run(str(k), {"dataset": "confirmation"}), {"looks": one}) for k, one in enumerate(cases)]
    found = deciding.report(results).numbers["confirmation"]["named"]["both, one model"]
    assert found["by"][:2] == [(8, 0, 0), (11, 3, 2)]
    assert found["mean"] == pytest.approx((11 + 11 + 30) / 3)


def test_information_is_what_a_slow_loop_says() -> None:
    """H(P_best) less the mean entropy after answers at a place: scores moved by regression, one by one."""
    rng = np.random.default_rng(1)
    samples, mapped = rng.normal(size=(40, 5, 2)), rng.normal(size=(3, 5, 2))
    noise = np.array([[0.2, 0.05], [0.05, 0.1]])
    found = best_information(samples, mapped, noise, answers=6, seed=3)
    scores = np.array([[np.square(one - each).sum() for one in mapped] for each in samples])
    scores -= scores.mean(axis=1)[:, None]

    def entropy(best: list[int]) -> float:
        chances = np.bincount(best, minlength=3) / len(best)
        return float(-sum(chance * np.log(chance) for chance in chances if chance > 0))

    before = entropy([int(one.argmin()) for one in scores])
    drawn = np.random.default_rng(3).standard_normal((46, 2)) @ np.linalg.cholesky(noise).T
    for place in range(5):
        joint = np.cov(np.column_stack([samples[:, place], scores]).T, bias=True)
        slope = np.linalg.inv(joint[:2, :2] + noise) @ joint[:2, 2:]
        after = []
        for at, error in zip(np.linspace(0, 39, 6).astype(int), drawn[40:], strict=True):
            answer = samples[at, place] + error
            moved = [
                score + (answer - one - own) @ slope
                for score, one, own in zip(scores, samples[:, place], drawn[:40], strict=True)
            ]
            after.append(entropy([int(one.argmin()) for one in moved]))
        assert found[place] == pytest.approx(max(0.0, before - np.mean(after)), rel=1e-9)


def test_information_is_where_the_transforms_differ() -> None:
    """And nowhere else, however sharp the placements are."""
    rng = np.random.default_rng(2)
    samples = rng.normal(size=(300, 6, 2))
    mapped = np.zeros((2, 6, 2))
    mapped[0, 4], mapped[1, 4] = [1.0, 0.0], [-1.0, 0.0]
    found = best_information(samples, mapped, 1e-4 * np.eye(2))
    assert found.argmax() == 4
    assert found[4] > 0.6
    assert np.delete(found, 4).max() < 0.03 * found[4]
