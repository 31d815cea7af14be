"""Pairs with a truth that is known everywhere: images inside installed packages, deformed by velocity fields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from warpgauge.candidates import find_candidates, targets_from_mask, to_gray
from warpgauge.errors import MissingExtraError
from warpgauge.experiments.datasets import Floats, LandmarkPair
from warpgauge.simulate import SimulatedDeformation, random_deformation

# Velocities of the brain: 3 mm, control points 30 mm apart; no pair of the studies folds.
BRAIN_AMPLITUDE, BRAIN_SPACING, BRAIN_STEP = 6.0, 40.0, 2
BRAIN_CORNERS, BRAIN_DENSE = 300, 2000
# As many points as the paper's Nissl/OCM pair has.
DENSE_CORNERS = 957
DENSE_AMPLITUDE, DENSE_SPACING = 14.0, 96.0
_TEMPLATE = "mni_icbm152_{}_tal_nlin_sym_09a_converted.nii.gz"


@dataclass(frozen=True, eq=False)
class Template:
    """The T1 template: grid in LPS mm, grey values, and where grey or white matter is."""

    grid: wg.Grid
    t1: Floats
    tissue: Any
    corners: Floats


def template_image(kind: str, step: int = BRAIN_STEP) -> tuple[wg.Grid, Floats]:
    """Read ``"t1"``, ``"gm"`` or ``"wm"`` of nilearn's template, every ``step``-th voxel."""
    try:
        folder = resources.files("nilearn") / "datasets" / "data"
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            'The synthetic brain needs the template inside nilearn; install it with: pip install "warpgauge[demo]".'
        ) from error
    image = wg.read_image(Path(str(folder / _TEMPLATE.format(kind))))
    return every(image.grid, np.asarray(image.read(), dtype=np.float64), step)


def every(grid: wg.Grid, array: Any, step: int) -> tuple[wg.Grid, Any]:
    """Take every ``step``-th element of an image along each axis, with the grid of what is left."""
    part = np.ascontiguousarray(array[(slice(None, None, step),) * grid.d])
    return wg.Grid(part.shape[::-1], grid.spacing * step, grid.origin, grid.direction, grid.units), part


@lru_cache(maxsize=1)
def template() -> Template:
    """Give the brain that the studies deform, with its corners (3D Harris detector) in the brain, strongest first."""
    grid, t1 = template_image("t1")
    gray, white = template_image("gm")[1], template_image("wm")[1]
    tissue = gray / gray.max() + white / white.max() > 0.5
    corners = find_candidates(t1, grid, mask=tissue, count=BRAIN_CORNERS).points_world
    return Template(grid, t1, tissue, corners)


def brain_deformation(seed: int) -> SimulatedDeformation:
    """Draw a deformation of the brain: control velocities interpolated linearly, then scaling and squaring."""
    return random_deformation(template().grid, BRAIN_AMPLITUDE, BRAIN_SPACING, seed)


def brain(seed: int, *, dense: int = BRAIN_DENSE) -> LandmarkPair:
    """Give a synthetic brain pair: corners of T1 as landmarks, random points of the tissue for evaluation, mm."""
    source, truth = template(), brain_deformation(seed)
    points = targets_from_mask(source.tissue, source.grid, dense, seed=seed)
    size = np.asarray(source.grid.size) * source.grid.spacing
    middle = source.grid.index_to_world([(np.asarray(source.grid.size) - 1) / 2])[0]
    return LandmarkPair(
        "brain", f"deformation{seed}", f"deformation{seed}", source.corners, truth.map(source.corners), "mm",
        1.0, tuple(size.tolist()), tuple(middle.tolist()), points, truth.map(points),
    )  # fmt: skip


@lru_cache(maxsize=2)
def dense(seed: int = 1) -> LandmarkPair:
    """Give one 2D pair with 957 true correspondences: corners of a retina photograph (1411 x 1411 px), deformed."""
    try:
        from skimage.data import retina
    except ImportError as error:
        raise MissingExtraError(
            'The dense set needs an image inside scikit-image; install it with: pip install "warpgauge[demo]".'
        ) from error
    gray, _ = to_gray(retina(), 2)
    grid = wg.Grid(gray.shape[::-1])
    disc = gray > 0.1 * gray.max()
    corners = find_candidates(gray, grid, mask=disc, count=DENSE_CORNERS).points_world
    truth = random_deformation(grid, DENSE_AMPLITUDE, DENSE_SPACING, seed)
    size = np.asarray(grid.size, dtype=np.float64)
    return LandmarkPair(
        "dense", "retina", "retina", corners, truth.map(corners), "px", 1.0, tuple(size.tolist()),
        tuple(((size - 1) / 2).tolist()),
    )  # fmt: skip
