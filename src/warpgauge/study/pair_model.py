"""The default model of a pair that is not a project, with weights learned on it or on all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.power_law import SMALLEST, default_posterior, default_prior, fit_power_law
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.study.description import ModelSettings
from warpgauge.study.pair_files import LoadedPair

_SHARE_OF_EXTENT = 64.0


@dataclass(frozen=True, eq=False)
class Box:
    """Where the fixed image of a pair lies, or its points where there is no image: what the default model needs."""

    extent: Floats
    centre: Floats
    smallest: float


def pair_box(loaded: LoadedPair, model: ModelSettings) -> Box:
    """Return the frame of a pair and its smallest scale."""
    if loaded.fixed is not None:
        smallest = SMALLEST * loaded.fixed.pixel if model.smallest_scale is None else model.smallest_scale
        return Box(loaded.fixed.extent, loaded.fixed.centre, smallest)
    points = np.concatenate([loaded.targets, loaded.annotations.fixed_points])
    low, high = points.min(axis=0), points.max(axis=0)
    longest = float(np.linalg.norm(high - low))
    if longest == 0:
        raise InvalidInputError("All landmarks and targets of a pair lie at one point; check its files.")
    # A flat set of points still has a frame: no side is shorter than the smallest scale.
    smallest = longest / _SHARE_OF_EXTENT if model.smallest_scale is None else model.smallest_scale
    return Box(np.maximum(high - low, smallest), (low + high) / 2, smallest)


@dataclass(frozen=True)
class Learned:
    """Weights and noise learned on all pairs together, for the scales of the largest image."""

    extent: tuple[float, ...]
    smallest: float
    weights: tuple[float, ...]
    noise: float


def pair_posterior(
    loaded: LoadedPair, model: ModelSettings, learned: Learned | None = None, kept: dict[str, Floats] | None = None
) -> Posterior:
    """Condition the default model on a pair's annotations, with weights learned here, or on all pairs.

    What is learned here is added to ``kept``; where it is there already, it is not learned again.
    """
    box = pair_box(loaded, model)
    if learned is not None:
        prior = default_prior(learned.extent, center=box.centre, smallest=learned.smallest, family=model.family)
        fitted = prior.with_kernel(prior.kernel.with_weights(learned.weights), learned.noise)
        return fitted.condition(loaded.annotations, calibrate=True)
    if kept is not None and "prior" in kept:
        noise, linear, translation, *weights = kept["prior"].tolist()
        plain = default_prior(box.extent, center=box.centre, smallest=box.smallest, family=model.family)
        sds = {"linear_sd": linear, "translation_sd": None if np.isnan(translation) else translation}
        fitted = replace(plain.with_kernel(plain.kernel.with_weights(weights), noise), **sds)
        return fitted.condition(loaded.annotations, calibrate=True)
    found = default_posterior(
        loaded.annotations, box.extent, box.smallest, center=box.centre, family=model.family, noise=model.noise
    )
    if kept is not None:
        prior, wide = found.prior, found.prior.translation_sd
        sizes = [prior.noise, prior.linear_sd, np.nan if wide is None else wide]
        kept["prior"] = np.array([*sizes, *prior.kernel.weights])
    return found


def fit_together(loaded: Sequence[LoadedPair], model: ModelSettings) -> Learned:
    """Weights (and noise) learned on all pairs at once, each about its own middle."""
    boxes = [pair_box(one, model) for one in loaded]
    smallest, centre = boxes[0].smallest, boxes[0].centre
    if any(not np.isclose(box.smallest, smallest, rtol=1e-6) for box in boxes):
        raise InvalidInputError(
            "fit = 'together' needs the same scales in all pairs, but the pixels of their images differ; give "
            "smallest_scale, or use fit = 'pair'."
        )
    extent = np.max([box.extent for box in boxes], axis=0)
    sets = []
    for one, box in zip(loaded, boxes, strict=True):
        given, shift = one.annotations, centre - box.centre
        sets.append(Annotations(given.fixed_points + shift, given.moving_points + shift, given.covariances))
    prior = default_prior(extent, center=centre, smallest=smallest, family=model.family)
    fitted = fit_power_law(prior, sets, extent, model.noise)
    return Learned(tuple(extent.tolist()), smallest, tuple(fitted.kernel.weights.tolist()), float(fitted.noise))
