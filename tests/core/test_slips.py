"""Slips are found from the annotations alone, several at once and in the same direction too."""

from __future__ import annotations

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.core.power_law import default_prior, fitted_posterior
from warpgauge.core.process import Posterior
from warpgauge.core.slips import Screening, fewest, limit, screen

SIDE = 300.0


def smooth(points: np.ndarray) -> np.ndarray:
    waves = np.stack([4 * np.sin(points[:, (k + 1) % points.shape[1]] / 70) for k in range(points.shape[1])], axis=1)
    return 1.02 * points + 5 + waves


def screened(d: int, n: int, seed: int, slips: dict[int, float] | None = None) -> tuple[Screening | None, np.ndarray]:
    """Screen n annotations of a smooth map, some of them moved, all in one direction."""
    rng = np.random.default_rng(seed)
    fixed = rng.uniform(0, SIDE, (n, d))
    moving = smooth(fixed) + rng.normal(0, 0.5, (n, d))
    direction = rng.normal(size=d)
    for row, length in (slips or {}).items():
        moving[row] += length * direction / np.linalg.norm(direction)
    extent = np.full(d, SIDE)
    prior = default_prior(extent, center=extent / 2, smallest=10.0)

    def learn(given: wg.Annotations) -> Posterior:
        return fitted_posterior(prior, given, extent)

    return screen(wg.Annotations.isotropic(fixed, moving, 0.5), learn), moving


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("rows", [(3,), (1, 6), (0, 4, 8), (2, 3, 7, 10)])
def test_slips_in_one_direction_are_found_among_eleven(d: int, rows: tuple[int, ...]) -> None:
    """One to four of eleven marks moved the same way by half of the image: these, and no others."""
    found, _ = screened(d, 11, seed=sum(rows) + d, slips=dict.fromkeys(rows, 150.0))
    assert found is not None
    assert set(np.flatnonzero(found.suspect)) == set(rows)


@pytest.mark.parametrize("d", [2, 3])
def test_sound_marks_are_rarely_suspected(d: int) -> None:
    """At most one of fifty."""
    flagged = [screened(d, 12, seed)[0].suspect for seed in range(12)]  # type: ignore[union-attr]
    assert np.mean(flagged) <= 1 / 50


def test_what_is_detectable_is_detected_and_a_tenth_of_it_is_not() -> None:
    """A slip somewhat longer than the stated length is found, none of a tenth of it."""
    clean, _ = screened(2, 14, seed=5)
    assert clean is not None
    for row in (0, 4, 9, 13):
        large, small = (screened(2, 14, seed=5, slips={row: share * clean.detectable})[0] for share in (1.5, 0.1))
        assert large is not None
        assert small is not None
        assert large.suspect[row]
        assert not small.suspect[row]


def test_a_member_of_the_core_is_compared_with_the_others() -> None:
    """Residual and square by conditioning anew without the mark, with the weights and the scale of the core."""
    found, moving = screened(2, 12, seed=1)
    assert found is not None
    assert not found.suspect.any()
    core = found.posterior.annotations
    for row in (0, 5, 11):
        others = np.array([k for k in range(12) if k != row])
        alone = found.posterior.prior.condition(core[others])
        at = core.fixed_points[row][None]
        residual = moving[row] - alone.mean(at)[0]
        covariance = found.posterior.scale * alone.covariance(at)[0] + np.asarray(core.covariances)[row]
        assert found.residuals[row] == pytest.approx(residual, abs=1e-7)
        assert found.squares[row] == pytest.approx(residual @ np.linalg.solve(covariance, residual), rel=1e-6)


def test_too_few_marks_cannot_be_screened() -> None:
    assert screened(2, fewest(2) - 1, seed=0)[0] is None
    assert screened(2, fewest(2), seed=0)[0] is not None
    assert limit(3) > limit(2) > 20
