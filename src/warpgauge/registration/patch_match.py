"""Refine one match by the images around it: self-similarity descriptors, compared over small shifts.

The descriptor is that of MIND (Heinrich et al., 2012): how alike each sample's surroundings are to those of its
neighbours. It says what is where, not how bright it is, so that it can be compared between stains and modalities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import ndimage

from warpgauge.candidates import to_gray
from warpgauge.geometry import Floats
from warpgauge.io.images import Image

STEPS = (1.0, 2.0)  # pixels between the samples of each scale
PATCH = {2: 12, 3: 6}  # samples on each side of the point
REACH = 8.0  # pixels: no match is looked for farther away
NEARBY = 3.0  # pixels: another minimum within this is the same one
DISTINCT = 1.15  # the next best minimum costs at least this many times as much
ROUNDING = 1e-9  # costs below this are those of equal patches

Sampler = Callable[[Floats], Floats]
"""Return the image's values at (n, d) world points."""


@dataclass(frozen=True, eq=False)
class PatchMatch:
    """A proposed match.

    Attributes
    ----------
    point : (d,) array
        In the moving image's world.
    curvature : (d, d) array
        Second derivative of the relative cost at the minimum, per squared world unit.
    ratio : float
        Cost of the next best minimum over that of the best.
    at_border : bool
        Whether the best one lies at the border of what was searched.
    """

    point: Floats
    curvature: Floats
    ratio: float
    at_border: bool

    @property
    def distinctive(self) -> bool:
        """Whether the match stands out."""
        flat = np.linalg.eigvalsh(self.curvature)[0] <= 0
        return not self.at_border and not flat and self.ratio >= DISTINCT


def match_patch(fixed: Sampler, moving: Sampler, at: Floats, start: Floats, linear: Floats, pixel: float) -> PatchMatch:
    """Find where, near a mark, the moving image looks like the fixed image about a point.

    Parameters
    ----------
    fixed, moving : callable
        Give values at world points, NaN outside the image.
    at : (d,) array
        Point of the fixed image.
    start : (d,) array
        Mark in the moving image.
    linear : (d, d) array
        How the moving image is turned and scaled there: moving offsets from fixed offsets.
    pixel : float
        Size of a fixed pixel, world units.
    """
    d = len(at)
    shifts = int(REACH)
    total = np.zeros((2 * shifts + 1,) * d)
    for step in STEPS:
        size = PATCH[d]
        wide = int(np.ceil(shifts / step))
        here = _descriptors(_sampled(fixed, at, np.eye(d), step * pixel, size + 2))
        there = _descriptors(_sampled(moving, start, linear, step * pixel, size + wide + 2))
        cost = _costs(_trimmed(here, 2, d), _trimmed(there, 2, d))
        # Onto shifts of single pixels, so that the scales can be added.
        places = [np.arange(-shifts, shifts + 1) / step + wide] * d
        grid = np.meshgrid(*places, indexing="ij")
        total += ndimage.map_coordinates(cost, grid, order=3, mode="nearest") / len(STEPS)
    return _minimum(total, start, linear * pixel, d)


def gray_sampler(image: Image, level: int = 0, corners: Floats | None = None) -> Sampler:
    """Return a function that gives an image's grey values at world points, NaN outside.

    Parameters
    ----------
    image : Image
    level : int
        Of the pyramid.
    corners : (n, d) array, optional
        World points. Only the box of the image that holds them is read, and outside it there are no values. The box
        must have a part within the image.
    """
    grid = image.level_grid(level)
    region = tuple(slice(0, n) for n in grid.shape)
    if corners is not None:
        at = grid.array_coordinates(corners)
        low, high = np.floor(at.min(axis=1)).astype(int), np.ceil(at.max(axis=1)).astype(int) + 1
        region = tuple(slice(max(a, 0), min(b, n)) for a, b, n in zip(low, high, grid.shape, strict=True))
    gray = np.asarray(to_gray(image.block(region, level), grid.d)[0], dtype=np.float64)
    first = np.array([[part.start] for part in region])

    def values(points: Floats) -> Floats:
        at = grid.array_coordinates(points) - first
        return np.asarray(ndimage.map_coordinates(gray, at, order=1, cval=np.nan))

    return values


def patch_corners(centre: Floats, linear: Floats, pixel: float) -> Floats:
    """Return the corners of all that `match_patch` samples of an image about a point."""
    d = len(centre)
    half = max(step * (PATCH[d] + np.ceil(REACH / step) + 2) for step in STEPS) * pixel
    return np.asarray(centre + half * np.array(list(product((-1, 1), repeat=d))) @ linear.T)


def local_map(points: Floats, matches: Floats, at: Floats) -> Floats:
    """Return the linear part, at a point, of the affine map fitted to landmarks, with most weight on the near ones."""
    offsets = points - at
    reach = 0.25 * float(np.ptp(np.vstack([points, at]), axis=0).max())
    weight = np.exp(-0.25 * np.square(np.linalg.norm(offsets, axis=1) / reach))[:, None]
    design = np.column_stack([offsets, np.ones(len(offsets))])
    solution = np.linalg.lstsq(design * weight, matches * weight, rcond=None)[0]
    return np.asarray(solution[:-1].T)


def _sampled(image: Sampler, centre: Floats, linear: Floats, step: float, size: int) -> Floats:
    d = len(centre)
    axes = np.arange(-size, size + 1) * step
    # Array axes run the other way round than world axes: the first array axis is the last world axis.
    offsets = np.stack(np.meshgrid(*[axes] * d, indexing="ij")[::-1], axis=-1)
    values = image(centre + offsets.reshape(-1, d) @ linear.T).reshape(offsets.shape[:-1])
    return np.where(np.isfinite(values), values, np.nanmedian(values) if np.isfinite(values).any() else 0.0)


def _descriptors(values: Floats) -> Floats:
    """Return (k, ...) similarities of each sample's surroundings to those of its neighbours."""
    d = values.ndim
    smooth = ndimage.gaussian_filter(values, 0.7)
    steps = [step for step in product((-1, 0, 1), repeat=d) if 0 < np.abs(step).sum() <= 2 and step > (0,) * d]
    distances = []
    for step in steps:
        shifted = np.roll(smooth, step, axis=tuple(range(d)))
        distances.append(ndimage.gaussian_filter((smooth - shifted) ** 2, 1.0))
    stacked = np.stack(distances)
    variance = stacked.mean(axis=0)
    floor = max(1e-3 * float(variance.mean()), 1e-12)
    similar: Floats = np.exp(-stacked / np.maximum(variance, floor))
    return similar


def _trimmed(values: Floats, by: int, d: int) -> Floats:
    inner = (slice(None), *(slice(by, -by),) * d)
    return values[inner]


def _costs(here: Floats, there: Floats) -> Floats:
    """Return the weighted mean squared difference of descriptors, for each shift."""
    from scipy import signal  # takes longer to load than all of the core

    d, size = here.ndim - 1, here.shape[1] // 2
    axis = np.exp(-0.5 * (np.arange(-size, size + 1) / (size / 2)) ** 2)
    weight = axis
    for _ in range(d - 1):
        weight = np.multiply.outer(weight, axis)
    weight /= weight.sum() * len(here)
    flip = (slice(None, None, -1),) * d
    total = np.zeros(())
    for f, m in zip(here, there, strict=True):
        cross = signal.fftconvolve(m, (f * weight)[flip], mode="valid")
        square = signal.fftconvolve(m**2, weight[flip], mode="valid")
        total = total + (f**2 * weight).sum() - 2 * cross + square
    return np.asarray(total)


def _minimum(cost: Floats, start: Floats, to_world: Floats, d: int) -> PatchMatch:
    shifts = cost.shape[0] // 2
    cost = np.maximum(cost, ROUNDING)
    low = ndimage.minimum_filter(cost, 3) == cost
    places = np.argwhere(low)
    values = cost[tuple(places.T)]
    order = np.argsort(values)
    best = places[order[0]]
    far = [k for k in order[1:] if np.linalg.norm(places[k] - best) > NEARBY]
    ratio = float(values[far[0]] / values[order[0]]) if far else np.inf
    at_border = bool(np.any((best == 0) | (best == 2 * shifts)))
    if at_border:
        return PatchMatch(start + to_world @ (best - shifts)[::-1], np.zeros((d, d)), ratio, True)
    block = cost[tuple(slice(k - 1, k + 2) for k in best)]
    gradient = np.array([(_at(block, i, 1) - _at(block, i, -1)) / 2 for i in range(d)])
    hessian = np.array([[_second(block, i, j) for j in range(d)] for i in range(d)])
    shift = np.zeros(d)
    if np.linalg.eigvalsh(hessian)[0] > 0:
        shift = np.clip(-np.linalg.solve(hessian, gradient), -1, 1)
    inverse = np.linalg.inv(to_world)
    relative = hessian[::-1, ::-1] / values[order[0]]
    return PatchMatch(start + to_world @ (best - shifts + shift)[::-1], inverse.T @ relative @ inverse, ratio, False)


def _at(block: Floats, axis: int, side: int) -> float:
    index = [1] * block.ndim
    index[axis] += side
    return float(block[tuple(index)])


def _second(block: Floats, i: int, j: int) -> float:
    if i == j:
        return _at(block, i, 1) - 2 * float(block[(1,) * block.ndim]) + _at(block, i, -1)
    corners = 0.0
    for a, b in product((-1, 1), repeat=2):
        index = [1] * block.ndim
        index[i] += a
        index[j] += b
        corners += a * b * float(block[tuple(index)])
    return corners / 4
