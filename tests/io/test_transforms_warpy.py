"""Transforms of QuPath's Warpy: chains of affine and thin-plate spline transforms between pixels of two images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator

import warpgauge as wg
from warpgauge.errors import FileFormatError

RNG = np.random.default_rng(4)
SOURCE = RNG.uniform(0, 2, (9, 2))
TARGET = SOURCE + RNG.normal(0, 0.1, (9, 2))


def affine(matrix: np.ndarray, offset: list[float]) -> dict[str, Any]:
    rows = np.eye(3, 4)
    rows[:2, :2], rows[:2, 3] = matrix, offset
    return {"type": "AffineTransform3D", "affinetransform3d": rows.ravel().tolist()}


def warpy(*parts: dict[str, Any]) -> str:
    members = {f"realTransform_{n}": part for n, part in enumerate(parts)}
    return json.dumps({"type": "RealTransformSequence", "size": len(parts), **members})


def spline() -> dict[str, Any]:
    inner = {"type": "ThinplateSplineTransform", "srcPts": SOURCE.T.tolist(), "tgtPts": TARGET.T.tolist()}
    wrapped = {"type": "WrappedIterativeInvertibleRealTransform", "wrappedTransform": inner}
    return {"type": "Wrapped2DTransformAs3D", "wrappedTransform": wrapped}


def test_a_chain_is_that_of_its_parts_between_pixel_corners(tmp_path: Path) -> None:
    """Pixels to mm, a thin-plate spline (as scipy fits it), mm to pixels; 0.5 is the centre of QuPath's first pixel."""
    (tmp_path / "transform_1_2.json").write_text(
        warpy(affine(np.diag([0.002, 0.002]), [0.1, 0.0]), spline(), affine(np.diag([500.0, 400.0]), [3.0, 0.0]))
    )
    points = RNG.uniform(100, 900, (20, 2))
    read = wg.read_transform(tmp_path / "transform_1_2.json")
    assert read.description.format == "Warpy"
    middle = RBFInterpolator(SOURCE, TARGET, kernel="thin_plate_spline", degree=1)(0.002 * (points + 0.5) + [0.1, 0.0])
    assert read.map(points) == pytest.approx(middle * [500.0, 400.0] + [3.0, 0.0] - 0.5, rel=1e-6)
    fixed = wg.Grid((1000, 1000), [0.25, 0.25], units="um")
    moving = wg.Grid((800, 800), [0.5, 0.5], [7.0, 0.0], units="um")
    world = wg.read_transform(tmp_path / "transform_1_2.json", reference=fixed, moving=moving)
    expected = moving.index_to_world(read.map(points))
    assert world.map(fixed.index_to_world(points)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"type": "RealTransformSequence", "realTransform_0": 1}', "does not say its size"),
        (warpy({"type": "AffineTransform3D", "affinetransform3d": [1.0]}), "must be 12 numbers, but are 1"),
        (warpy({"type": "InverseRealTransform", "affinetransform3d": []}), "of type 'InverseRealTransform'"),
        (warpy({"type": "ThinplateSplineTransform", "srcPts": [[1.0]], "tgtPts": [[1.0]]}), "srcPts and tgtPts"),
        (warpy({"type": "AffineTransform3D", "affinetransform3d": [0, 0, 1, 0] * 3}), "mixes z into x"),
        ('{"affinetransform3d": ', "not valid JSON"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(FileFormatError, match=words):
        wg.read_transform(tmp_path / "t.json")
