"""Landmarks and alignments through SpatialData itself."""

from __future__ import annotations

import numpy as np
import pytest
import spatialdata as sd
from spatialdata.models import Image2DModel, ShapesModel
from spatialdata.transformations import Affine, Scale, align_elements_using_landmarks, get_transformation

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.io.spatialdata import landmarks_from_spatialdata, spatialdata_alignment, spatialdata_points
from warpgauge.io.transforms import AffineTransform

RNG = np.random.default_rng(2)
FIXED = RNG.uniform(0, 80, (8, 2))
# A similarity, which is what SpatialData fits to landmarks.
MATRIX, OFFSET = 1.1 * np.array([[0.96, -0.28], [0.28, 0.96]]), np.array([5.0, -3.0])
MOVING = FIXED @ MATRIX.T + OFFSET


def test_landmarks_go_there_and_back_by_name() -> None:
    """Through an object with both sides as shapes, whose rows are in another order, in a scaled coordinate system."""
    given = wg.Landmarks(FIXED, MOVING, names=tuple("abcdefgh"))
    moving = spatialdata_points(given, "moving")
    sdata = sd.SpatialData(shapes={"f": spatialdata_points(given, "fixed"), "m": moving.iloc[::-1]})
    back = landmarks_from_spatialdata(sdata, "f", "m", units="um")
    assert back.names == given.names
    assert back.fixed_points == pytest.approx(FIXED)
    assert back.moving_points == pytest.approx(MOVING)
    assert "by their index" in back.assumptions[0]
    for name in ("f", "m"):
        sd.transformations.set_transformation(sdata[name], Scale([2.0, 2.0], axes=("x", "y")), "um")
    assert landmarks_from_spatialdata(sdata, "f", "m", coordinate_system="um").fixed_points == pytest.approx(2 * FIXED)


def test_an_alignment_is_that_of_spatialdatas_own_landmarks() -> None:
    """SpatialData's alignment by these landmarks, and ours by the transform that made them, are one matrix."""
    given = wg.Landmarks(FIXED, MOVING)
    images = {name: Image2DModel.parse(np.zeros((1, 100, 100)), dims="cyx") for name in ("fixed", "moving")}
    sdata = sd.SpatialData(images=images)
    align_elements_using_landmarks(
        references_coords=spatialdata_points(given, "fixed"),
        moving_coords=spatialdata_points(given, "moving"),
        reference_element=sdata["fixed"],
        moving_element=sdata["moving"],
        reference_coordinate_system="global",
        moving_coordinate_system="global",
        new_coordinate_system="aligned",
    )
    found = get_transformation(sdata["moving"], "aligned").to_affine_matrix(("x", "y"), ("x", "y"))
    ours = spatialdata_alignment(AffineTransform(MATRIX, OFFSET))
    assert isinstance(ours, Affine)
    assert ours.to_affine_matrix(("x", "y"), ("x", "y")) == pytest.approx(found, abs=1e-6)


def test_what_is_not_points_is_one_sentence() -> None:
    given = wg.Landmarks(FIXED, MOVING)
    sdata = sd.SpatialData(shapes={"f": spatialdata_points(given, "fixed")})
    with pytest.raises(InvalidInputError, match="no element 'g'; it has 'f'"):
        landmarks_from_spatialdata(sdata, "f", "g")
    sdata["short"] = ShapesModel.parse(FIXED[:3], geometry=0, radius=1.0)
    with pytest.raises(InvalidInputError, match="has 8 points, but 'short' has 3"):
        landmarks_from_spatialdata(sdata, "f", "short")
    with pytest.raises(InvalidInputError, match="linear transformations"):
        spatialdata_alignment(wg.read_transform(lambda x: x, d=2))
