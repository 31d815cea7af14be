"""`check_transform` finds the usual misreadings, and leaves right readings alone."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from transform_tools import points_within
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import (
    AffineTransform,
    Chain,
    DisplacementField,
    FunctionTransform,
    MappedPoints,
    Transform,
    check_transform,
    read_transform,
)

FLIP = np.array([-1.0, -1.0, 1.0])


def _world() -> tuple[Grid, DisplacementField, Floats, Floats]:
    """A smooth field on a grid around the origin, and landmarks that follow it to half a millimetre."""
    rng = np.random.default_rng(0)
    grid = Grid((40, 44, 48), (2.0, 2.5, 1.5), (-45, -50, -40), units="mm")
    vectors = np.stack([gaussian_filter(rng.normal(size=grid.shape), 6) for _ in range(3)])
    vectors *= 9 / np.abs(vectors).max()
    vectors += np.array([4.0, -3.0, 2.0])[:, None, None, None]
    field = DisplacementField(vectors, grid)
    fixed = points_within(rng, grid, 60, 12)
    return grid, field, fixed, field.map(fixed) + rng.normal(0, 0.3, fixed.shape)


def _misread() -> dict[str, tuple[Transform, str]]:
    """Each usual misreading of the same field, and the reading that mends it."""
    grid, field, _, _ = _world()
    scale = grid.spacing
    return {
        "inverse": (field.inverse(), "inverse"),
        "flipped points": (FunctionTransform(lambda p: field.map(p * FLIP) * FLIP, 3), "LPS/RAS flip of points"),
        "flipped vectors": (
            DisplacementField(field.vectors * FLIP[:, None, None, None], grid),
            "LPS/RAS flip of displacements",
        ),
        "swapped axes": (FunctionTransform(lambda p: field.map(p[:, ::-1])[:, ::-1], 3), "axes of points reversed"),
        "swapped vectors": (DisplacementField(field.vectors[::-1].copy(), grid), "axes of displacements reversed"),
        "voxels": (
            DisplacementField(field.vectors / scale[:, None, None, None], grid),
            "displacements in voxels for world units",
        ),
        "backwards nodes": (DisplacementField(field.vectors[..., ::-1, ::-1].copy(), grid), "nodes along -x, -y, z"),
        "turned nodes": (
            DisplacementField(
                field.vectors.transpose(0, 2, 1, 3).copy(), Grid((40, 48, 44), (2.0, 1.5, 2.5), grid.origin, units="mm")
            ),
            "nodes along x, z, y laid over the whole fixed image",
        ),
        "turned field after which comes a translation": (
            Chain([DisplacementField(field.vectors[:, :, ::-1].copy(), grid), AffineTransform(np.eye(3), np.zeros(3))]),
            "nodes along x, -y, z",
        ),
        "positions": (FunctionTransform(lambda p: p + field.map(p), 3), "positions for displacements"),
    }


@pytest.mark.parametrize("name", list(_misread()))
def test_each_misreading_is_found(name: str) -> None:
    """The warning has both numbers and names the reading that is right."""
    grid, _, fixed, moving = _world()
    transform, right = _misread()[name]
    with pytest.warns(SuspiciousDataWarning, match="if read as") as caught:
        report = check_transform(transform, (fixed, moving), reference=grid, moving=grid)
    assert report.suspicious
    assert right in report.better[:2]
    found = next(reading for reading in report.readings if reading.name == right)
    assert found.mean_error < 0.8
    assert f"{report.as_given.mean_error:.3g}" in str(caught[0].message)
    assert report.as_given.mean_error > 2 * found.mean_error


def test_a_lost_mean_and_another_place_are_told_with_their_size() -> None:
    """A field without its constant, and one that starts 4, -2 and 4 nodes late: the message has what mends it."""
    grid, field, fixed, moving = _world()
    constant = np.array([14.0, -13.0, 12.0])
    without = DisplacementField(field.vectors - np.array([4.0, -3.0, 2.0])[:, None, None, None], grid)
    late = DisplacementField(np.roll(field.vectors, (4, -2, 4), axis=(1, 2, 3)), grid)
    for wrong, true, words, right in (
        (without, moving - [4.0, -3.0, 2.0] + constant, "a lost displacement of", constant),
        (late, moving, "the field moved by", [-8.0, 5.0, -6.0]),
    ):
        with pytest.warns(SuspiciousDataWarning, match=f"if read as '{words}"):
            report = check_transform(wrong, (fixed, true), reference=grid, moving=grid)
        told = [float(part) for part in report.better[0].partition("(")[2].rstrip(")").split(",")]
        np.testing.assert_allclose(told, right, atol=1.0)  # half a node: the landmarks are exact to 0.3 mm


def test_swapped_landmarks_are_found() -> None:
    """Fixed and moving given the wrong way round."""
    _, field, fixed, moving = _world()
    with pytest.warns(SuspiciousDataWarning, match="if read as"):
        report = check_transform(field, SimpleNamespace(fixed_points=moving, moving_points=fixed))
    assert set(report.better) == {"inverse", "fixed and moving landmarks swapped"}


def test_a_swapped_chain_is_found() -> None:
    """The order of a list of transforms."""
    _, field, fixed, _ = _world()
    turn = AffineTransform([[0, -1, 0], [1, 0, 0], [0, 0, 1]], [3, 4, 5])
    right = Chain([turn, field])
    with pytest.warns(SuspiciousDataWarning, match="'order of the chain reversed'"):
        report = check_transform(Chain([field, turn]), (fixed, right.map(fixed)))
    assert report.better[0] == "order of the chain reversed"


def test_points_in_voxels_are_found() -> None:
    """A transform between indices, given world landmarks."""
    grid, field, fixed, _ = _world()
    moving_grid = Grid((50, 50, 50), (1.5, 1.5, 3.0), (-10, 20, 5), units="mm")
    in_world = FunctionTransform(lambda p: moving_grid.index_to_world(grid.world_to_index(field.map(p))), 3)
    in_voxels = FunctionTransform(lambda i: grid.world_to_index(field.map(grid.index_to_world(i))), 3)
    with pytest.warns(SuspiciousDataWarning, match="'points in voxels for world units'"):
        check_transform(in_voxels, (fixed, in_world.map(fixed)), reference=grid, moving=moving_grid)


def test_a_right_reading_gives_no_warning() -> None:
    """The field as it is: no warning, and the mean error of the noise."""
    grid, field, fixed, moving = _world()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = check_transform(field, (fixed, moving), reference=grid, moving=grid)
    assert not report.suspicious
    assert report.as_given.mean_error == pytest.approx(np.linalg.norm(field.map(fixed) - moving, axis=1).mean())
    assert report.as_given.count == 60
    plain = json.loads(json.dumps(report.to_dict()))
    assert [reading["name"] for reading in plain["readings"]][:2] == ["as given", "no transform"]


def test_points_outside_are_counted_and_unknown_readings_left_open() -> None:
    """Mapped points are known as given only; all other readings have no points and are no better."""
    _, field, fixed, moving = _world()
    table = MappedPoints(fixed[:50], field.map(fixed)[:50])
    report = check_transform(table, (fixed, moving))
    assert (report.as_given.count, report.as_given.outside) == (50, 10)
    assert "(10 outside its domain)" in report.message
    flipped = next(reading for reading in report.readings if reading.name == "LPS/RAS flip of points")
    assert flipped.count == 0
    assert report.to_dict()["readings"][4]["mean_error"] is None


def test_a_bad_registration_is_not_taken_for_a_misreading() -> None:
    """A transform of noise is bad in every reading; what is said is that it is worse than none."""
    grid, _, fixed, moving = _world()
    noise = DisplacementField(np.random.default_rng(5).normal(0, 9, (3, *grid.shape)), grid)
    with pytest.warns(SuspiciousDataWarning, match="without any transform, so it makes things worse"):
        report = check_transform(noise, (fixed, moving), reference=grid)
    assert not report.suspicious
    assert report.worse_than_nothing


def test_a_transform_of_images_four_times_as_large_is_found_and_can_be_scaled() -> None:
    """With all its coordinates multiplied by 0.25 it is the transform of these images, B-spline or matrix."""
    fixed = np.random.default_rng(2).uniform(0, 200, (30, 2))
    moving = fixed @ np.array([[1.0, 0.05], [-0.05, 1.0]]) + [12.0, -7.0]
    large = AffineTransform([[1.0, -0.05], [0.05, 1.0]], [48.0, -28.0])
    with pytest.warns(SuspiciousDataWarning, match=r"times 0.25 \(scale=0.25\)"):
        check_transform(large, (fixed, moving))
    for source in (large, large.map):
        right = read_transform(source, scale=0.25, **({} if source is large else {"d": 2}))
        np.testing.assert_allclose(right.map(fixed), moving, atol=1e-9)
        np.testing.assert_allclose(right.inverse().map(moving), fixed, atol=1e-5)
    with pytest.raises(InvalidInputError, match="between 1e-09 and"):
        read_transform(large, scale=-1.0)


def test_inactive_landmarks_are_left_out() -> None:
    """Rows that are switched off do not count."""
    _, field, fixed, moving = _world()
    active = np.arange(60) < 40
    wrong = np.where(active[:, None], moving, moving + 500)
    report = check_transform(field, SimpleNamespace(fixed_points=fixed, moving_points=wrong, active=active))
    assert report.as_given.count == 40
    assert report.as_given.mean_error < 1


def test_landmarks_have_to_fit() -> None:
    """Unequal counts, a wrong dimension, a missing side."""
    _, field, fixed, moving = _world()
    for bad, said in (
        ((fixed, moving[:5]), "as many fixed as moving"),
        ((fixed[:, :2], moving[:, :2]), "in 3D"),
        (SimpleNamespace(fixed_points=fixed, moving_points=None), "one side is missing"),
        ("landmarks.csv", "fixed_points and moving_points"),
        ((fixed * np.nan, moving), "at least one"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            check_transform(field, bad)


def test_real_results_are_read_the_right_way(data_dir: Path) -> None:
    """None of the 14 elastix results fits better under another reading; inverted, the good ones do."""
    folder = data_dir / "elastix-lung"
    pair = tuple(
        np.loadtxt(folder / f"CT_3D_lung_{side}_point_set_corrected.txt", skiprows=2) for side in ("fixed", "moving")
    )
    files = sorted((folder / "transforms").glob("TransformParameters_*.txt"))
    assert len(files) == 14
    for file in files:
        assert not check_transform(read_transform(file), pair).suspicious, file.name
    good = read_transform(folder / "transforms" / "TransformParameters_3DCT_lung.example.txt")
    with pytest.warns(SuspiciousDataWarning, match="'inverse'"):
        check_transform(good.inverse(), pair)
