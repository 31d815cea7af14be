"""Pairs with a truth that is known everywhere: images inside installed packages, deformed by velocity fields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import warpgauge as wg
from warpgauge.candidates import find_candidates, targets_from_mask, to_gray
from warpgauge.demo.pairs import template_file
from warpgauge.errors import MissingExtraError
from warpgauge.experiments.datasets import Floats, LandmarkPair
from warpgauge.extras import install_advice
from warpgauge.simulate import SimulatedDeformation, random_deformation

# Control velocities of the brain (SD in mm) and the distance of the control points: about 6 mm of displacement on
# average and 20 at most, without folds.
BRAIN_AMPLITUDE, BRAIN_SPACING = 8.0, 60.0
BRAIN_STEP, BRAIN_CORNERS, BRAIN_SIGMA, BRAIN_DENSE = 2, 400, 2.5, 2000
# As many points as the paper's Nissl/OCM pair has.
DENSE_CORNERS = 957
# Control velocities (SD in px) and their distance: a bend of the whole section, and smaller distortions in it.
DENSE_FIELDS = ((25.0, 400.0), (5.0, 120.0))


@dataclass(frozen=True, eq=False)
class Brain:
    """A brain to deform.

    Attributes
    ----------
    name : str
    grid : Grid
        LPS mm.
    inside : array
        True in the brain, on the grid.
    corners : (n, 3) array
        Salient points of the image inside, strongest first.
    pixel : float
        Voxel size of the original image, mm.
    labels : array, optional
        Labels of structures, on the grid.
    """

    name: str
    grid: wg.Grid
    inside: Any
    corners: Floats
    pixel: float
    labels: Any = None


def template_image(kind: str, step: int = BRAIN_STEP) -> tuple[wg.Grid, Floats]:
    """Read ``"t1"``, ``"gm"`` or ``"wm"`` of nilearn's template, every ``step``-th voxel."""
    image = wg.read_image(template_file(kind))
    return every(image.grid, np.asarray(image.read(), dtype=np.float64), step)


def every(grid: wg.Grid, array: Any, step: int) -> tuple[wg.Grid, Any]:
    """Take every ``step``-th element of an image along each axis, with the grid of what is left."""
    part = np.ascontiguousarray(array[(slice(None, None, step),) * grid.d])
    return wg.Grid(part.shape[::-1], grid.spacing * step, grid.origin, grid.direction, grid.units), part


def corners_of(image: Floats, grid: wg.Grid, inside: Any) -> Floats:
    """Return the salient points of a brain by the 3D Harris detector."""
    return find_candidates(image, grid, mask=inside, count=BRAIN_CORNERS, sigma=BRAIN_SIGMA).points_world


@lru_cache(maxsize=1)
def template() -> Brain:
    """Return nilearn's T1 template at 2 mm, with grey and white matter as its inside."""
    grid, t1 = template_image("t1")
    gray, white = template_image("gm")[1], template_image("wm")[1]
    inside = gray / gray.max() + white / white.max() > 0.5
    return Brain("template", grid, inside, corners_of(t1, grid, inside), 1.0)


def deformation(brain: Brain, seed: int) -> SimulatedDeformation:
    """Draw a deformation of a brain as the paper does: velocities at control points, then scaling and squaring."""
    # The flow is kept at half the resolution: it is the truth by definition, and smooth over 60 mm.
    return random_deformation(brain.grid.coarsened(2), BRAIN_AMPLITUDE, BRAIN_SPACING, seed)


def brain(seed: int, *, dense: int = BRAIN_DENSE) -> LandmarkPair:
    """Return a synthetic brain pair: corners of T1 as landmarks, random points of the tissue for evaluation, mm."""
    source = template()
    truth = deformation(source, seed)
    points = targets_from_mask(source.inside, source.grid, dense, seed=seed)
    return brain_pair(source, truth, f"deformation{seed}", points)


def brain_pair(source: Brain, truth: SimulatedDeformation, name: str, points: Floats) -> LandmarkPair:
    """Return a deformed brain as a pair, with ``points`` for evaluation."""
    size = np.asarray(source.grid.size)
    middle = source.grid.index_to_world([(size - 1) / 2])[0]
    return LandmarkPair(
        "brain", name, name, source.corners, truth.map(source.corners), "mm", source.pixel,
        tuple((size * source.grid.spacing).tolist()), tuple(middle.tolist()), points, truth.map(points),
    )  # fmt: skip


@lru_cache(maxsize=2)
def dense(seed: int = 1) -> LandmarkPair:
    """Return one 2D pair with 957 true correspondences: corners of a retina photograph (1411 x 1411 px), deformed.

    The displacement is the sum of those of a coarse and of a finer velocity field.
    """
    try:
        from skimage.data import retina
    except ImportError as error:
        raise MissingExtraError(
            f"The dense set needs an image inside scikit-image; {install_advice('demo')}."
        ) from error
    gray, _ = to_gray(retina(), 2)
    grid = wg.Grid(gray.shape[::-1])
    disc = gray > 0.1 * gray.max()
    corners = find_candidates(gray, grid, mask=disc, count=DENSE_CORNERS).points_world
    fields = [
        random_deformation(grid, amplitude, spacing, seed + at) for at, (amplitude, spacing) in enumerate(DENSE_FIELDS)
    ]
    moved = corners + np.sum([field.map(corners) - corners for field in fields], axis=0)
    size = np.asarray(grid.size, dtype=np.float64)
    return LandmarkPair(
        "dense", "retina", "retina", corners, moved, "px", 1.0, tuple(size.tolist()),
        tuple(((size - 1) / 2).tolist()),
    )  # fmt: skip
