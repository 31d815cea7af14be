from __future__ import annotations

import json

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import make
from warpgauge.core.error_scores import landmark_score
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError


class Shift:
    """A transform with ``map``, undefined left of x = ``edge``."""

    def __init__(self, by: float, edge: float = -np.inf) -> None:
        self.by, self.edge = by, edge

    def map(self, points: np.ndarray) -> np.ndarray:
        mapped = points + self.by
        mapped[points[:, 0] < self.edge] = np.nan
        return mapped


def setting() -> tuple[Posterior, np.ndarray]:
    model = make(2, "wendland", False, "identity", count=12)
    posterior = model.prior.condition(model.annotations)
    return posterior, np.random.default_rng(0).uniform(0, 60, (40, 2))


def test_scores_ranks_and_probabilities_of_three_kinds_of_transform() -> None:
    """An object with map, a callable and an array of mapped targets, against the oracle's scores."""
    posterior, targets = setting()
    mean, joint = oracle_of(posterior, targets)
    shifted = mean + np.array([0.5, -0.3])
    result = wg.evaluate(
        posterior,
        {"far": Shift(9.0), "near": lambda points: posterior.mean(points) + 0.1, "array": shifted},
        targets,
        samples=4000,
        seed=1,
    )
    far, near, array = (result.scores[name] for name in ("far", "near", "array"))
    for norm, p in (("1", 1), ("2", 2), ("inf", np.inf)):
        assert far.score[norm] == pytest.approx(oracle.posterior_score(mean, targets + 9.0, p), rel=1e-9)
        annotated = posterior.annotations
        expected = oracle.landmark_score(annotated.fixed_points + 9.0, annotated.moving_points, p)
        assert far.landmark[norm] == pytest.approx(expected, rel=1e-9)
        assert array.landmark[norm] is None
        assert far.interval[norm][0] < far.interval[norm][1]
    blocks = oracle.block_diagonal(joint, 2)
    assert near.expected_squared_error == pytest.approx(
        oracle.expected_squared_error(mean, blocks, mean + 0.1), rel=1e-9
    )
    assert result.ranking("2") == ["near", "array", "far"]
    assert result.ranking(np.inf)[-1] == "far"
    win = oracle.probability_smaller_mse(mean, joint, mean + 0.1, shifted)
    assert result.win_probability[1, 2] == pytest.approx(win, abs=1e-9)
    total = sum(one.probability_best["2"] for one in result.scores.values())
    assert total == pytest.approx(1.0)
    assert near.probability_best["2"] == pytest.approx(win, abs=0.05)
    assert far.rank_probabilities["2"][-1] > 0.99


def oracle_of(posterior: Posterior, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    model = make(2, "wendland", False, "identity", count=12)
    return model.oracle_posterior(targets)


def test_intervals_hold_the_true_score_as_often_as_stated() -> None:
    """Truths drawn from the posterior itself: 90 % intervals hold 90 % of them; a score's own also holds the score."""
    posterior, targets = setting()
    result = wg.evaluate(posterior, {"shift": Shift(3.0)}, targets, samples=4000, seed=2)
    truths = posterior.sample(targets, 2000, seed=77)
    shift = result.scores["shift"]
    for norm, statistic, p in (("1", "mean", 1), ("2", "rms", 2), ("inf", "max", np.inf)):
        scores = np.array([wg.displacement_norm(targets + 3.0 - truth, p) for truth in truths])
        interval = shift.statistics[statistic]
        assert np.mean((scores >= interval.low) & (scores <= interval.high)) == pytest.approx(0.9, abs=0.03)
        low, high = shift.interval[norm]
        # The paper's score leaves the posterior's own uncertainty out, so that it can lie below all draws.
        assert low == min(interval.low, shift.score[norm])
        assert high == max(interval.high, shift.score[norm])


def test_a_target_outside_a_domain_counts_as_no_registration_and_is_said() -> None:
    """Expected: the same transform with the identity where it is not defined."""
    posterior, targets = setting()
    cut, filled = Shift(1.0, edge=20.0), lambda at: np.where(at[:, :1] < 20, at, at + 1.0)
    result = wg.evaluate(posterior, {"whole": Shift(1.0), "cut": cut, "filled": filled}, targets, samples=200)
    outside = targets[:, 0] < 20
    assert outside.any()
    assert result.scores["cut"].outside == pytest.approx(outside.mean())
    assert result.scores["whole"].outside == 0
    assert result.scores["cut"].score == result.scores["filled"].score
    alone = wg.evaluate(posterior, {"whole": Shift(1.0)}, targets, samples=200)
    assert alone.scores["whole"].score == result.scores["whole"].score
    assert any("cut is not defined at" in flag.sentence for flag in result.verdict.flags)


def test_a_transform_that_is_defined_nowhere_is_named_and_does_not_block_the_others() -> None:
    posterior, targets = setting()
    result = wg.evaluate(posterior, {"good": Shift(1.0), "nowhere": Shift(1.0, edge=np.inf)}, targets, samples=100)
    assert result.scores["nowhere"].outside == 1
    assert [flag.code for flag in result.scores["nowhere"].flags] == ["undefined"]
    assert "nowhere is not defined at 100 % of the targets" in result.verdict.flags[0].sentence
    assert np.isfinite(result.scores["good"].score["2"])


def test_an_array_over_the_annotated_points_has_a_landmark_score() -> None:
    posterior, targets = setting()
    fixed = posterior.annotations.fixed_points
    both = np.concatenate([targets, fixed])
    result = wg.evaluate(posterior, {"array": both + 2.0}, both, samples=50)
    expected = landmark_score(posterior.annotations, fixed + 2.0, 2)
    assert result.scores["array"].landmark["2"] == pytest.approx(expected)


def test_json_and_table_hold_the_same_numbers() -> None:
    posterior, targets = setting()
    result = wg.evaluate(posterior, {"a": Shift(1.0), "b": Shift(2.0)}, targets, samples=100)
    data = json.loads(result.to_json())
    frame = result.to_dataframe()
    for name in ("a", "b"):
        one = data["transforms"][name]
        assert frame.loc[name, "score_2"] == one["score"]["2"]
        assert frame.loc[name, "low_inf"] == one["interval"]["inf"][0]
        assert frame.loc[name, "probability_best_1"] == one["probability_best"]["1"]
    assert data["ranking"]["2"] == result.ranking()
    assert data["annotations"] == 12
    assert data["win_probability"]["a"]["b"] == result.win_probability[0, 1]


def test_the_seed_decides_the_samples() -> None:
    posterior, targets = setting()

    def low(seed: int) -> float:
        found = wg.evaluate(posterior, {"a": Shift(1.0)}, targets, samples=100, seed=seed)
        return found.scores["a"].statistics["rms"].low

    assert low(1) == low(1)
    assert low(1) != low(2)


@pytest.mark.parametrize(
    ("transforms", "word"),
    [
        ({}, "at least one transform"),
        ({"short": np.zeros((3, 2))}, "'short' must give an array of shape"),
    ],
)
def test_bad_transforms_are_refused(transforms: dict[str, object], word: str) -> None:
    posterior, targets = setting()
    with pytest.raises(InvalidInputError, match=word):
        wg.evaluate(posterior, transforms, targets)
