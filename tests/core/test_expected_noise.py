"""What is expected of an annotation: learned from ellipses and the image's structure tensors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import inv, sqrtm

from warpgauge.core.noise_model import fit_noise_model
from warpgauge.errors import InvalidInputError


def tensors(count: int, d: int, seed: int = 0) -> np.ndarray:
    factors = np.random.default_rng([seed, d]).normal(size=(count, d, d)) * np.logspace(0, 1, d)
    return factors @ factors.transpose(0, 2, 1)


@pytest.mark.parametrize("d", [2, 3])
def test_before_any_annotation_the_default_ellipse_is_expected_everywhere(d: int) -> None:
    """An anisotropic default counts with the size of its determinant, as the image says nothing about its direction."""
    default = np.diag(np.arange(1.0, d + 1))
    model = fit_noise_model(tensors(20, d), default)
    expected = np.linalg.det(default) ** (1 / d) * np.eye(d)
    np.testing.assert_allclose(
        model.predict(tensors(5, d, 1)), np.broadcast_to(expected, (5, d, d)), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("d", [2, 3])
def test_a_power_of_the_tensor_is_recovered_from_many_ellipses(d: int) -> None:
    """Ellipses that are 3 (S + floor)^-0.5 by matrix functions: the prior's pull is small beside 1,000 of them."""
    shown, new = tensors(1000, d), tensors(6, d, 1)
    floor = 1e-3 * np.trace(shown, axis1=1, axis2=2).mean() / d
    root = lambda S: 3.0 * inv(sqrtm(S + floor * np.eye(d)))  # noqa: E731
    model = fit_noise_model(shown, np.eye(d), shown, np.array([root(S) for S in shown]))
    found, wanted = model.predict(new), np.array([root(S) for S in new])
    assert model.power == pytest.approx(-0.5, abs=0.005)
    ratios = np.linalg.eigvals(np.linalg.solve(wanted, found)).real
    assert np.abs(np.log(ratios)).max() < 0.02


def test_one_ellipse_moves_the_level_by_the_ratio_of_the_variances() -> None:
    """By hand: with the typical tensor everywhere the two components' mean is drawn from 0 to log 5 by n / (n + r)."""
    typical = np.broadcast_to(np.eye(2), (4, 2, 2))
    model = fit_noise_model(typical, np.eye(2), np.eye(2)[None], 5 * np.eye(2)[None])
    ratio = 0.83**2 / 2.0**2
    assert model.level == pytest.approx(np.log(5) * 2 / (2 + ratio), rel=1e-10)
    assert model.power == pytest.approx(0.0, abs=1e-12)


def test_bad_tensors_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="all zero"):
        fit_noise_model(np.zeros((3, 2, 2)), np.eye(2))
    with pytest.raises(InvalidInputError, match="shape"):
        fit_noise_model(np.eye(2), np.eye(2))
