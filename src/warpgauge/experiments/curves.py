"""One annotation curve: a strategy suggests locations, and the error is measured after each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import warpgauge as wg
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import norm_name
from warpgauge.experiments.datasets import Floats, LandmarkPair

# Number of scales of the bundle: the paper's for CIMA and COPDgene, else until they are about the image's size.
LEVELS = {"cima": 9, "copdgene": 6, "dirlab4dct": 5, "brain": 6, "dense": 8, "afids": 5, "elastix-lung": 5}
SMALLEST_PX = 10.0


@dataclass(frozen=True, eq=False)
class Halves:
    """What may be annotated (``rows`` of the pair) and what the error is measured on."""

    rows: NDArray[np.int64]
    fixed: Floats
    moving: Floats
    held_fixed: Floats
    held_moving: Floats


@dataclass(frozen=True)
class Curve:
    """What was asked and what it brought.

    Attributes
    ----------
    order : list of int
        Candidates in the order in which they were asked.
    counts : list of int
        Numbers of annotations after which was measured.
    errors : dict
        For each norm (``"1"``, ``"2"``, ``"inf"``) the error of the posterior mean at the held-out points, world units.
    coverage : dict
        For each level, as text, the share of held-out points inside their region.
    """

    order: list[int]
    counts: list[int]
    errors: dict[str, list[float]]
    coverage: dict[str, list[float]] = field(default_factory=dict)


def rng_for(seed: int, *stream: int) -> np.random.Generator:
    """Return a generator for one part of one run."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=stream))


def halves(pair: LandmarkPair, seed: int) -> Halves:
    """Split at random: half of the landmarks may be annotated, the other half (or dense points) is for evaluation."""
    rows = rng_for(seed, 1).permutation(len(pair))
    ask, rest = np.sort(rows[: len(pair) // 2]), np.sort(rows[len(pair) // 2 :])
    if pair.dense is not None and pair.dense_truth is not None:
        return Halves(ask, pair.fixed[ask], pair.moving[ask], pair.dense, pair.dense_truth)
    return Halves(ask, pair.fixed[ask], pair.moving[ask], pair.fixed[rest], pair.moving[rest])


def disc(pair: LandmarkPair, radius_px: float = 1.0) -> Floats:
    """Covariance of the fixed annotation: the 99 % disc or ball with a radius of (by default) 1 pixel."""
    return wg.covariance_from_ellipse(np.full(pair.d, radius_px * pair.pixel), np.eye(pair.d))


def exact_answers(fixed: Floats, moving: Floats, covariance: Floats) -> wg.Annotations:
    """Annotations at the true matches with one covariance for all."""
    return wg.Annotations(fixed, moving, np.broadcast_to(covariance, (len(fixed), *covariance.shape)))


def paper_scales(pair: LandmarkPair) -> Floats:
    """Scales of the paper's bundle: from 10 pixels, doubling to about the image's size."""
    return np.asarray(SMALLEST_PX * pair.pixel * 2.0 ** np.arange(LEVELS[pair.dataset]))


def paper_prior(
    pair: LandmarkPair,
    training: Sequence[wg.Annotations],
    *,
    family: str = "wendland",
    scales: Floats | None = None,
) -> wg.TransformationPrior:
    """Return the paper's model: identity as mean, the bundle's weights by leave-one-out on the training annotations."""
    rho = paper_scales(pair) if scales is None else scales
    start = wg.TransformationPrior(wg.KernelBundle(family, rho, np.full(len(rho), pair.pixel**2)))
    return wg.fit_kernel(start, training)


def annotation_curve(
    prior: wg.TransformationPrior,
    answers: wg.Annotations,
    held_fixed: Floats,
    held_moving: Floats,
    *,
    strategy: str = "entropy",
    count: int | None = None,
    seed: int = 0,
    first: Sequence[int] = (),
    targets: Floats | None = None,
    assumed: Floats | None = None,
    norms: Sequence[float] = (2,),
    levels: Sequence[float] = (),
    held_covariance: Floats | None = None,
    calibrate: bool = False,
) -> Curve:
    """Let a strategy ask ``count`` locations and measure the posterior after each annotation.

    Parameters
    ----------
    prior : TransformationPrior
        The model; it does not change.
    answers : Annotations
        What the annotator would answer at every candidate: the candidates are its fixed points.
    held_fixed, held_moving : (m, d) arrays
        Points for evaluation and their true matches.
    strategy, seed, targets, assumed
        Of the Suggester. The same seed gives the same first question to all strategies of the paper.
    first : sequence of int
        Candidates that are asked before the strategy begins.
    norms : sequence of float
        Norms of the error.
    levels : sequence of float
        Levels of the regions whose coverage is measured; ``held_covariance`` is that of the held-out matches.
    calibrate : bool
        Scale the covariance by leave-one-out, which the paper does not.

    Returns
    -------
    Curve
    """
    total = len(answers) if count is None else min(count, len(answers))
    if total < 1:
        raise InvalidInputError(f"A curve needs at least one annotation, got count={count!r}.")
    suggester = wg.Suggester(
        prior, answers.fixed_points, targets, strategy=strategy, seed=seed, default_covariance=assumed
    )
    posterior = prior.condition(wg.Annotations.empty(answers.d), calibrate=calibrate)
    errors: dict[str, list[float]] = {norm_name(p): [] for p in norms}
    coverage: dict[str, list[float]] = {str(level): [] for level in levels}
    order: list[int] = []
    for step in range(total):
        asked = first[step] if step < len(first) else suggester.suggest()
        order.append(asked)
        suggester.record(asked, answers.covariances[asked])
        posterior = posterior.append(answers[[asked]])
        misses = posterior.mean(held_fixed) - held_moving
        for p in norms:
            errors[norm_name(p)].append(float(wg.displacement_norm(misses, p)))
        if levels:
            inside = _inside(posterior, held_fixed, misses, levels, held_covariance)
            for level in levels:
                coverage[str(level)].append(inside[level])
    return Curve(order, list(range(1, total + 1)), errors, coverage)


def _inside(
    posterior: Posterior, points: Floats, misses: Floats, levels: Sequence[float], own: Floats | None
) -> dict[float, float]:
    from scipy.stats import chi2

    d = posterior.d
    added = np.zeros((d, d)) if own is None else own
    covariances = posterior.covariance(points) + added + posterior.prior.noise * np.eye(d)
    squares = np.einsum("na,na->n", misses, np.linalg.solve(covariances, misses[..., None])[..., 0])
    return {level: float(np.mean(squares <= chi2.ppf(level, d))) for level in levels}
