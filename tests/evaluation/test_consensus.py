from __future__ import annotations

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.consensus import MedianTransform, consensus_posterior


class Shift:
    """Shifts by a vector; undefined where x < edge."""

    def __init__(self, by: tuple[float, float], edge: float = -np.inf) -> None:
        self.by, self.edge = np.array(by), edge

    def map(self, points: np.ndarray) -> np.ndarray:
        mapped = points + self.by
        mapped[points[:, 0] < self.edge] = np.nan
        return mapped


def bent(points: np.ndarray, size: float = 10.0) -> np.ndarray:
    """A deformation that 15 annotations cannot follow: its wave is shorter than their distance."""
    return points + size * np.sin(points[:, ::-1] / 25)


def annotated(seed: int, count: int = 25, sd: float = 0.5) -> wg.Annotations:
    rng = np.random.default_rng(seed)
    fixed = rng.uniform(0, 400, (count, 2))
    return wg.Annotations.isotropic(fixed, bent(fixed) + rng.normal(0, sd, fixed.shape), sd)


def prior() -> wg.TransformationPrior:
    return wg.TransformationPrior(wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=6, weight=10.0))


def near_truth(seed: int, size: float) -> object:
    """The truth plus a smooth error of its own, as a registration has."""
    phase = np.random.default_rng(seed).uniform(0, 6, 2)
    return lambda points: bent(points) + size * np.sin(points / 70 + phase)


def test_the_median_is_taken_over_the_transforms_that_are_defined() -> None:
    posterior = prior().condition(annotated(0))
    median = MedianTransform(
        {"a": Shift((1.0, 0.0)), "b": Shift((2.0, 5.0)), "c": Shift((9.0, 1.0), edge=100.0)}, posterior
    )
    got = median(np.array([[200.0, 50.0], [50.0, 60.0]]))
    np.testing.assert_allclose(got, [[202.0, 51.0], [51.5, 62.5]])


def test_where_no_transform_is_defined_the_posterior_stands_in() -> None:
    posterior = prior().condition(annotated(0))
    median = MedianTransform({"a": Shift((1.0, 0.0), edge=100.0)}, posterior)
    point = np.array([[50.0, 60.0]])
    np.testing.assert_array_equal(median(point), posterior.mean(point))


@pytest.mark.parametrize("seed", range(5))
def test_detailed_registrations_are_judged_better_than_from_the_prior_alone(seed: int) -> None:
    """Truth known: the centred posterior is nearer to it, and its scores are nearer to the true errors."""
    annotations = annotated(seed)
    transforms = {f"t{k}": near_truth(10 * seed + k, size) for k, size in enumerate((1.0, 2.0, 4.0, 6.0))}
    targets = np.random.default_rng(99).uniform(20, 380, (300, 2))
    plain = wg.fit_kernel(prior(), annotations).condition(annotations, calibrate=True)
    centred = consensus_posterior(plain, transforms)
    truth = bent(targets)
    errors = [wg.displacement_norm(one.mean(targets) - truth, 2) for one in (plain, centred)]
    assert errors[1] < 0.5 * errors[0]
    true_scores = {name: wg.displacement_norm(one(targets) - truth, 2) for name, one in transforms.items()}  # type: ignore[operator]
    scores = [wg.evaluate(one, transforms, targets, samples=200, further=0) for one in (plain, centred)]
    gaps = [
        np.mean([abs(one.scores[name].posterior["2"] - true_scores[name]) for name in transforms]) for one in scores
    ]
    assert gaps[1] < 0.5 * gaps[0]
    assert scores[1].ranking("2") == sorted(true_scores, key=lambda name: true_scores[name])


def test_intervals_hold_the_true_error_more_often_than_those_about_the_prior_alone() -> None:
    """20 cases of 4 transforms: 90 % intervals about the consensus hold the true RMS in most, the others in few."""
    inside = {"plain": 0, "centred": 0}
    targets = np.random.default_rng(98).uniform(20, 380, (150, 2))
    truth = bent(targets)
    for seed in range(20):
        annotations = annotated(seed, count=40)
        transforms = {f"t{k}": near_truth(100 + 10 * seed + k, size) for k, size in enumerate((2.0, 3.0, 4.0, 6.0))}
        plain = wg.fit_kernel(prior(), annotations).condition(annotations, calibrate=True)
        for kind, posterior in (("plain", plain), ("centred", consensus_posterior(plain, transforms))):
            result = wg.evaluate(posterior, transforms, targets, samples=300, further=0, regularity_over=False)
            for name, one in transforms.items():
                low, high = result.scores[name].interval["2"]
                inside[kind] += bool(low <= wg.displacement_norm(one(targets) - truth, 2) <= high)  # type: ignore[operator]
    assert inside["centred"] / 80 > 0.6
    assert inside["plain"] / 80 < 0.3


def test_few_annotations_keep_the_given_weights() -> None:
    posterior = prior().condition(annotated(0, count=9))
    centred = consensus_posterior(posterior, {"a": Shift((1.0, 0.0))})
    np.testing.assert_array_equal(centred.prior.kernel.weights, posterior.prior.kernel.weights)


def test_mapped_targets_alone_have_no_consensus() -> None:
    posterior = prior().condition(annotated(0))
    with pytest.raises(InvalidInputError, match="evaluated anywhere"):
        consensus_posterior(posterior, {"a": np.zeros((4, 2))})
