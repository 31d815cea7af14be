"""Brains of the studies: deformed by known fields, with corners for candidates and labelled structures for targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from paper.datasets import Floats, LandmarkPair
from warpgauge.candidates import find_candidates, targets_from_labels, targets_from_mask, to_gray
from warpgauge.demo import template_file
from warpgauge.errors import InvalidInputError, MissingExtraError, install_advice
from warpgauge.simulate import random_deformation

# Control velocities of the brain (SD in mm) and the distance of the control points: about 6 mm of displacement on
# average and 20 at most, without folds.
BRAIN_AMPLITUDE = 8.0
BRAIN_SPACING = 60.0
BRAIN_STEP = 2
BRAIN_CORNERS = 400
BRAIN_SIGMA = 2.5
BRAIN_DENSE = 2000
# As many points as the paper's Nissl/OCM pair has.
DENSE_CORNERS = 957
# Control velocities (SD in px) and their distance: a bend of the whole section, and smaller distortions in it.
DENSE_FIELDS = ((25.0, 400.0), (5.0, 120.0))


@dataclass(frozen=True, eq=False)
class Brain:
    """A brain to deform, in LPS mm.

    ``inside`` is true in the brain, on the grid. ``corners`` (n, 3) are salient points of the image inside, the
    strongest first, ``pixel`` is the voxel size of the original image, and ``labels`` are those of structures.
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
    gray = template_image("gm")[1]
    white = template_image("wm")[1]
    inside = gray / gray.max() + white / white.max() > 0.5
    return Brain("template", grid, inside, corners_of(t1, grid, inside), 1.0)


def deformation(brain: Brain, seed: int) -> Any:
    """Draw a deformation of a brain as the paper does: velocities at control points, then scaling and squaring."""
    # The flow is kept at half the resolution: it is the truth by definition, and smooth over 60 mm.
    return random_deformation(brain.grid.coarsened(2), BRAIN_AMPLITUDE, BRAIN_SPACING, seed)


def brain(seed: int, *, dense: int = BRAIN_DENSE) -> LandmarkPair:
    """Return a synthetic brain pair: corners of T1 as landmarks, random points of the tissue for evaluation, mm."""
    source = template()
    truth = deformation(source, seed)
    points = targets_from_mask(source.inside, source.grid, dense, seed=seed)
    return brain_pair(source, truth, f"deformation{seed}", points)


def brain_pair(source: Brain, truth: Any, name: str, points: Floats) -> LandmarkPair:
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


SMALLEST_EDGE = 200  # voxels of its edge that a structure must have to be a target
# T1-like grey values of FreeSurfer's labels, of which no T1 volume is at hand: white matter, fluid, deep nuclei; all
# other labels (cortex, hippocampus and its parts, amygdala) are cortical grey, and what has no label is dark.
_WHITE = (2, 41, 7, 46, 16, 28, 60, 85, 251, 252, 253, 254, 255)
_FLUID = (4, 43, 5, 44, 14, 15, 24, 31, 63, 30, 62)
_DEEP = (10, 49, 11, 50, 12, 51, 13, 52, 26, 58)
_GRAY_VALUES = {"white": 110.0, "deep": 92.0, "cortex": 75.0, "fluid": 30.0, "outside": 10.0}


def _read(data: Path, *names: str, step: int) -> tuple[wg.Grid, Any]:
    image = wg.read_image(data.joinpath(*names))
    return every(image.grid, np.asarray(image.read()), step)


def _aal(data: Path) -> Brain:
    grid, t1 = _read(data, "afids", "mni152_6asym_T1.nii.gz", step=2)
    _, labels = _read(data, "afids", "mni152_6asym_aal.nii.gz", step=2)
    whole = np.round(labels).astype(np.int64)
    inside = t1 > 0.3 * np.percentile(t1[whole > 0], 99)
    return Brain("aal", grid, inside, corners_of(np.asarray(t1, dtype=np.float64), grid, inside), 1.0, whole)


def _cobra(data: Path) -> Brain:
    grid, labels = _read(data, "cobralab", "brain0-labels.nii.gz", step=3)
    whole = np.round(labels).astype(np.int64)
    inside = whole > 0
    return Brain("cobra", grid, inside, corners_of(t1_like(whole), grid, inside), 0.6, whole)


def t1_like(labels: Any) -> Floats:
    """Grey values that a T1 volume would about have, by label."""
    values = np.where(labels > 0, _GRAY_VALUES["cortex"], _GRAY_VALUES["outside"])
    for kind, members in (("white", _WHITE), ("deep", _DEEP), ("fluid", _FLUID)):
        values = np.where(np.isin(labels, members), _GRAY_VALUES[kind], values)
    return values


def _tissue(_: Path) -> Brain:
    grid, t1 = template_image("t1")
    gray = template_image("gm")[1]
    white = template_image("wm")[1]
    gray = gray / gray.max()
    white = white / white.max()
    labels = np.where(white > np.maximum(gray, 0.5), 2, np.where(gray > 0.5, 1, 0)).astype(np.int64)
    inside = gray + white > 0.5
    return Brain("tissue", grid, inside, corners_of(t1, grid, inside), 1.0, labels)


@dataclass(frozen=True)
class LabelledBrain:
    """How a brain with labels is shown and made; ``folder`` is that of the data directory, if it needs one."""

    title: str
    make: Callable[[Path], Brain]
    folder: str | None


# To add a brain, write how it is made and its entry here.
BRAINS = {
    "cobra": LabelledBrain("CoBrA labels", _cobra, "cobralab"),
    "aal": LabelledBrain("AAL labels", _aal, "afids"),
    "tissue": LabelledBrain("Grey and white matter", _tissue, None),
}


@lru_cache(maxsize=3)
def labelled_brain(data: Path, name: str) -> Brain:
    """Return one of the brains with labels."""
    if name not in BRAINS:
        raise InvalidInputError(f"There is no labelled brain {name!r}; there are {', '.join(BRAINS)}.")
    return BRAINS[name].make(data)


@lru_cache(maxsize=3)
def structures(data: Path, name: str) -> tuple[int, ...]:
    """Labels whose edge is large enough to be a target."""
    brain = labelled_brain(data, name)
    labels, sizes = np.unique(brain.labels[brain.labels > 0], return_counts=True)
    return tuple(
        int(label)
        for label, size in zip(labels, sizes, strict=True)
        if size >= SMALLEST_EDGE and len(targets_from_labels(brain.labels, brain.grid, int(label))) >= SMALLEST_EDGE
    )
