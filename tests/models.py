"""Small random models that the core's tests share, as the package's objects and as the oracle's functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import oracle
import warpgauge as wg

EXTENT = 60.0
SCALES = np.array([8.0, 16.0, 32.0, 64.0])
WEIGHTS = np.array([3.0, 5.0, 2.0, 8.0])
NOISE = 0.3
OWN = np.array([0.0, 1.0, 0.4, 0.7])


@dataclass(frozen=True)
class Model:
    """One prior with annotations drawn at random, and the oracle's kernel and mean for it."""

    prior: wg.TransformationPrior
    annotations: wg.Annotations
    k: Callable[[np.ndarray, np.ndarray], np.ndarray]
    mean: Callable[[np.ndarray], np.ndarray]
    points: np.ndarray

    @property
    def d(self) -> int:
        return self.annotations.d

    def oracle_posterior(self, points: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        a = self.annotations
        at = self.points if points is None else points
        return oracle.posterior(self.k, self.mean, a.fixed_points, a.moving_points, a.covariances, at, NOISE)


def random_covariances(count: int, d: int, isotropic: bool, rng: np.random.Generator) -> np.ndarray:
    if isotropic:
        return rng.uniform(0.2, 3, count)[:, None, None] * np.eye(d)
    factors = rng.normal(size=(count, d, d))
    return factors @ factors.transpose(0, 2, 1) + 0.2 * np.eye(d)


def bent(points: np.ndarray) -> np.ndarray:
    """A mean that is neither the identity nor affine."""
    return points + 3 * np.sin(points / 20)


def halves(points: np.ndarray) -> np.ndarray:
    """Three regions: a half, and the other one cut in two."""
    return np.where(points[:, 0] < EXTENT / 2, 0, np.where(points[:, 1] < EXTENT / 3, 7, 3))


def make(
    d: int,
    family: str,
    isotropic: bool,
    mean: str,
    count: int = 9,
    seed: int = 0,
    divided: bool = False,
) -> Model:
    rng = np.random.default_rng([seed, d, isotropic])
    center = np.full(d, EXTENT / 2)
    regions: dict[str, Any] = {"regions": halves, "own": OWN} if divided else {}
    kernel = wg.KernelBundle(family, SCALES, WEIGHTS, **regions)
    prior = wg.TransformationPrior(
        kernel,
        mean=bent if mean == "callable" else mean,
        noise=NOISE,
        center=center if mean == "affine" else None,
        translation_sd=40.0 if mean == "affine" else None,
        linear_sd=0.5,
    )
    fixed = rng.uniform(0, EXTENT, (count, d))
    moving = fixed + rng.normal(0, 4, (count, d))
    trend = (40.0, 0.5, center) if mean == "affine" else None
    return Model(
        prior,
        wg.Annotations(fixed, moving, random_covariances(count, d, isotropic, rng)),
        lambda x, y: oracle.kernel(family, SCALES, WEIGHTS, x, y, trend=trend, **regions),
        bent if mean == "callable" else lambda points: points,
        rng.uniform(-10, EXTENT + 10, (6, d)),
    )


FAMILIES = ("wendland", "gaussian", "inverse_quadratic")
MEANS = ("identity", "affine", "callable")
GRID = list(product((2, 3), FAMILIES, (True, False), MEANS))


def names(case: tuple[int, str, bool, str]) -> str:
    d, family, isotropic, mean = case
    return f"{d}d-{family}-{'iso' if isotropic else 'aniso'}-{mean}"
