from __future__ import annotations

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import evaluate, residual_posterior, residual_samples, summaries

KERNEL = wg.KernelBundle.pyramid("wendland", smallest=20.0, levels=5, weight=1.0)


class Table:
    """A transform known at some points only."""

    def __init__(self, points: np.ndarray, values: np.ndarray) -> None:
        self.rows = {point.tobytes(): value for point, value in zip(points, values, strict=True)}

    def map(self, points: np.ndarray) -> np.ndarray:
        return np.array([self.rows[point.tobytes()] for point in points]).reshape(points.shape)


def drawn(weights: list[float], points: np.ndarray, seed: int) -> np.ndarray:
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", KERNEL.scales, weights))
    return prior.condition(wg.Annotations.empty(2)).sample(points, 1, seed=seed)[0] - points


def case(seed: int, size: float) -> tuple[wg.Posterior, Table, np.ndarray, np.ndarray]:
    """A true map, a registration that misses it by a field of the given size, and 40 annotations."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 300, (140, 2))
    truth = points + 2 * drawn([0.5, 1.0, 2.0, 4.0, 8.0], points, seed)
    error = size * drawn([0.5, 1.0, 1.0, 1.0, 1.0], points, seed + 500)
    moving = truth[:40] + rng.normal(0, 0.3, (40, 2))
    annotations = wg.Annotations.isotropic(points[:40], moving, 0.3)
    posterior = wg.fit_kernel(wg.TransformationPrior(KERNEL), annotations).condition(annotations, calibrate=True)
    return posterior, Table(points, truth + error), points[40:], np.linalg.norm(error[40:], axis=1)


def test_intervals_hold_the_true_error_of_a_registration_that_knows_more_than_the_annotations() -> None:
    """The residual posterior's 90 % interval holds the true error in about 90 % of 40 cases; the paper's in hardly any.

    The bounds allow for the binomial spread of 40 cases.
    """
    inside = {"residual": 0, "posterior": 0}
    for seed in range(40):
        posterior, transform, targets, lengths = case(seed, 0.4)
        result = evaluate(
            posterior, {"a": transform}, targets, samples=300, regularity_over=False, residual=True
        ).scores["a"]
        truth = float(np.sqrt(np.mean(lengths**2)))
        assert result.residual is not None
        for name, found in (("residual", result.residual["rms"]), ("posterior", result.statistics["rms"])):
            inside[name] += bool(found.low <= truth <= found.high)
    assert inside["residual"] >= 32
    assert inside["posterior"] <= 4


def test_it_equals_the_posterior_with_that_mean() -> None:
    """Without fitting, conditioning a prior whose mean is the registration, by the library itself."""
    posterior, transform, targets, _ = case(3, 1.0)
    own = residual_posterior(posterior, transform, fit=False)
    prior = wg.TransformationPrior(posterior.prior.kernel, mean=transform.map)
    expected = prior.condition(posterior.annotations, calibrate=True)
    assert own.mean(targets) == pytest.approx(expected.mean(targets))
    assert own.scale == pytest.approx(expected.scale)


def test_a_perfect_registration_has_hardly_any_error() -> None:
    """Its error is found to be below the noise of the annotations, though the posterior mean is far from it."""
    posterior, transform, targets, _ = case(5, 0.0)
    found = np.median(summaries(residual_samples(posterior, transform, targets, 200))["rms"])
    assert found < 0.3
    far = np.linalg.norm(transform.map(targets) - posterior.mean(targets), axis=1)
    assert np.sqrt(np.mean(far**2)) > 1.5


def test_what_it_cannot_do_is_refused() -> None:
    posterior, transform, targets, _ = case(0, 1.0)
    with pytest.raises(InvalidInputError, match="not mapped points"):
        residual_posterior(posterior, targets)
    few = posterior.prior.condition(posterior.annotations[:7])
    with pytest.raises(InvalidInputError, match="at least 8 annotations"):
        residual_samples(few, transform, targets)
