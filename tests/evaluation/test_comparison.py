"""A comparison maps each transform once, says where it is undefined by NaN, and shares what it knows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Comparison
from warpgauge.evaluation.comparison import BLOCK, mapped
from warpgauge.io.transforms import AffineTransform, FunctionTransform, MappedPoints


class Counted:
    """A function that counts its calls and their points; undefined where x is below an edge."""

    def __init__(self, shift: float, edge: float = -np.inf) -> None:
        self.shift, self.edge, self.calls, self.points = shift, edge, 0, 0

    def __call__(self, points: np.ndarray) -> np.ndarray:
        self.calls, self.points = self.calls + 1, self.points + len(points)
        moved = points + np.array([self.shift, 2.0])
        moved[points[:, 0] < self.edge, 0] = np.inf
        return moved


def known(count: int = 12) -> Posterior:
    rng = np.random.default_rng(1)
    fixed = rng.uniform(0, 100, (count, 2))
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [30.0, 90.0], [9.0, 9.0]))
    return prior.condition(wg.Annotations.isotropic(fixed, fixed + 2 + rng.normal(0, 0.3, fixed.shape), 0.3))


TARGETS = np.random.default_rng(2).uniform(0, 100, (40, 2))
SHIFT = np.array([1.0, 2.0])


def test_each_transform_is_asked_once_for_all_points() -> None:
    """Targets, annotations and audited points come from one call, and are what the function gives."""
    given = {"a": Counted(1.0), "b": Counted(3.0, edge=30.0)}
    audited = np.random.default_rng(3).uniform(0, 100, (5, 2))
    found = Comparison.of(given, TARGETS, known(), audited=audited)
    assert [one.calls for one in given.values()] == [0, 0]
    values = found.values
    np.testing.assert_array_equal(values.targets[0], TARGETS + SHIFT)
    np.testing.assert_array_equal(values.annotations[0], found.annotations.fixed_points + SHIFT)
    np.testing.assert_array_equal(values.audited[0], audited + SHIFT)
    outside = TARGETS[:, 0] < 30
    assert np.isnan(values.targets[1][outside]).all()
    np.testing.assert_array_equal(found.defined, [np.ones(40, dtype=bool), ~outside])
    np.testing.assert_array_equal(found.counted[0], values.targets[0])
    np.testing.assert_array_equal(found.counted[1][~outside], values.targets[1][~outside])
    np.testing.assert_array_equal(found.counted[1][outside], TARGETS[outside])  # as no registration
    assert [(one.calls, one.points) for one in given.values()] == [(1, 57), (1, 57)]


def test_what_is_derived_asks_for_nothing_again() -> None:
    given = {"a": Counted(1.0), "b": Counted(3.0, edge=30.0), "c": Counted(5.0)}
    found = Comparison.of(given, TARGETS, known(), baseline="b")
    values = found.values
    two = found.among(["c", "a"])
    assert (found.among(["b"]).baseline, two.baseline) == ("b", None)
    np.testing.assert_array_equal(two.values.targets, values.targets[[2, 0]])
    less = found.without([0, 5])
    assert len(less.annotations) == 10
    np.testing.assert_array_equal(less.values.annotations, np.delete(values.annotations, [0, 5], axis=1))
    part = found.part(7, seed=4)
    assert len(part.targets) == 7
    assert np.isfinite(part.counted).all()
    np.testing.assert_array_equal(part.values.targets[0], part.targets + SHIFT)
    assert [one.calls for one in given.values()] == [1, 1, 1]
    other = found.over(TARGETS[:4] + 1)
    np.testing.assert_array_equal(other.values.targets[0], TARGETS[:4] + 1 + SHIFT)
    assert [one.calls for one in given.values()] == [2, 2, 2]


def test_an_evaluation_by_a_judge_keeps_the_values_that_the_judge_knows() -> None:
    """Judged and evaluated: once at the annotations, once at the targets, once for the Jacobians."""
    given = {"a": Counted(1.0), "b": Counted(3.0), "c": Counted(5.0)}
    judge = wg.judge(known(), given)
    evaluation = wg.evaluate(judge, given, TARGETS, samples=20)
    assert [one.calls for one in given.values()] == [3, 3, 3]
    assert evaluation.comparison.posterior is judge.posterior
    assert evaluation.judged_by is judge


def test_an_evaluation_can_be_pickled_with_all_its_numbers() -> None:
    """Functions that cannot be pickled do not keep a result from going to another process."""
    found = wg.evaluate(known(), {"a": lambda points: points + 1.0, "b": Counted(3.0)}, TARGETS, samples=20)
    again = pickle.loads(pickle.dumps(found))
    assert again.to_json() == found.to_json()
    assert str(again) == str(found)
    np.testing.assert_array_equal(again.draws["rms"], found.draws["rms"])


def test_long_arrays_are_asked_in_blocks_of_about_equal_length() -> None:
    """No block has a single point: an affine map of one point may differ in its last bit from that of many."""
    asked: list[int] = []

    def moved(points: np.ndarray) -> np.ndarray:
        asked.append(len(points))
        return points + 1

    points = np.random.default_rng(0).uniform(0, 1, (BLOCK + 1, 2))
    np.testing.assert_array_equal(mapped([FunctionTransform(moved, 2)], points)[0], points + 1)
    assert len(asked) == 2
    assert max(asked) - min(asked) <= 1


def test_mapped_targets_are_known_where_they_are_listed() -> None:
    posterior = known()
    fixed = posterior.annotations.fixed_points
    targets = np.concatenate([TARGETS, fixed[:3], TARGETS[:1]])
    found = Comparison.of({"table": targets + 1.0}, targets, posterior)
    assert isinstance(found.transforms["table"], MappedPoints)
    assert not found.transforms["table"].anywhere
    np.testing.assert_array_equal(found.values.targets[0], targets + 1.0)
    assert np.isfinite(found.landmark_errors[0]).sum() == 3
    scores = wg.evaluate(posterior, {"table": targets + 1.0}, targets, samples=20).scores["table"]
    assert scores.regularity is None
    assert scores.landmark["1"] == pytest.approx(float(np.nanmean(found.landmark_errors[0])))
    with pytest.raises(InvalidInputError, match="Rows 1 and 44 list the same fixed point"):
        Comparison.of({"table": np.arange(88.0).reshape(44, 2)}, targets, posterior)
    with pytest.raises(InvalidInputError, match="evaluated anywhere"):
        Comparison.of({"table": targets + 1.0}, None, posterior)


def test_a_posterior_and_an_object_with_map_are_transforms() -> None:
    """A posterior stands for its mean; a transform of warpgauge stays itself."""
    posterior, affine = known(), AffineTransform(np.eye(2), np.array([1.0, 0.0]))

    class Foreign:
        def map(self, points_world: np.ndarray) -> np.ndarray:
            points_world += 3.0  # in place, which must not reach the caller's points
            return points_world

    found = Comparison.of({"mean": posterior, "foreign": Foreign(), "own": affine}, TARGETS.copy(), posterior)
    assert found.transforms["own"] is affine
    np.testing.assert_array_equal(found.targets, TARGETS)
    np.testing.assert_allclose(found.values.targets[0], posterior.mean(TARGETS), atol=1e-12)
    np.testing.assert_array_equal(found.values.targets[1], TARGETS + 3.0)
