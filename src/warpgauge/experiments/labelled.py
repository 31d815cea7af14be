"""Brains with labelled structures: AAL on a T1 template, the CoBrA Lab's labels, and grey and white matter."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from warpgauge.candidates import targets_from_labels
from warpgauge.errors import InvalidInputError
from warpgauge.experiments.datasets import Floats
from warpgauge.experiments.synthetic import Brain, corners_of, every, template_image

BRAINS = ("aal", "cobra", "tissue")
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


def _tissue() -> Brain:
    grid, t1 = template_image("t1")
    gray, white = template_image("gm")[1], template_image("wm")[1]
    gray, white = gray / gray.max(), white / white.max()
    labels = np.where(white > np.maximum(gray, 0.5), 2, np.where(gray > 0.5, 1, 0)).astype(np.int64)
    inside = gray + white > 0.5
    return Brain("tissue", grid, inside, corners_of(t1, grid, inside), 1.0, labels)


@lru_cache(maxsize=3)
def labelled_brain(data: Path, name: str) -> Brain:
    """Return one of the brains with labels."""
    if name not in BRAINS:
        raise InvalidInputError(f"There is no labelled brain {name!r}; there are {', '.join(BRAINS)}.")
    return _tissue() if name == "tissue" else _aal(data) if name == "aal" else _cobra(data)


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
