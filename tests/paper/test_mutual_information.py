"""Krause's gain against the mutual informations themselves."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import NOISE, make, random_covariances
from paper.mutual_information import mutual_information_gains


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("d", [2, 3])
def test_mutual_information_is_its_definition(d: int, isotropic: bool) -> None:
    model, rng = make(d, "wendland", True, "affine"), np.random.default_rng(3)
    candidates, fixed = rng.uniform(0, 60, (7, d)), rng.uniform(0, 60, (3, d))
    covariances, expected = random_covariances(3, d, isotropic, rng), random_covariances(1, d, isotropic, rng)[0]
    everywhere = np.broadcast_to(expected, (7, d, d))
    gains = mutual_information_gains(model.prior, wg.Annotations(fixed, fixed, covariances), candidates, expected)
    none = np.zeros((0, d, d))
    wanted = oracle.krause_gains(model.k, candidates, None, [], fixed, covariances, everywhere, none, extra_noise=NOISE)
    np.testing.assert_allclose(gains, wanted, atol=1e-8)
