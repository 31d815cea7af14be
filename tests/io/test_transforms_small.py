"""Matrices, functions, mapped points, chains and what all transforms promise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from transform_tools import defined, elastix_text, itk_text, points_within, random_grid
from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import (
    AffineTransform,
    BSplineTransform,
    Chain,
    DisplacementField,
    FunctionTransform,
    LandmarkSpline,
    MappedPoints,
    Transform,
    as_transform,
    read_transform,
)


def _transforms() -> dict[str, Transform]:
    """One of every kind, all in 3D."""
    rng = np.random.default_rng(1)
    grid = random_grid(rng, 3, low=8, high=12)
    bspline = BSplineTransform(rng.normal(size=(3, *grid.shape)), grid)
    field = DisplacementField(rng.normal(size=(3, *grid.shape)).astype(np.float32), grid)
    shift = AffineTransform(np.eye(3), [0.1, 0.2, 0.3])
    source = points_within(rng, grid, 9)
    return {
        "affine": AffineTransform(rng.normal(size=(3, 3)), rng.normal(size=3)),
        "bspline": bspline,
        "field": field,
        "positions": DisplacementField(rng.normal(size=(3, *grid.shape)), grid, absolute=True),
        "chain": Chain([shift, bspline]),
        "function": FunctionTransform(lambda points: np.where(points[:, :1] > 0, points * 2, np.nan), 3),
        "points": MappedPoints(source, source + 1),
        "spline": LandmarkSpline(source, source + rng.normal(size=source.shape)),
        "inverse": bspline.inverse(),
        "inverse chain": Chain([shift, field]).inverse(),
    }


@pytest.mark.parametrize("name", list(_transforms()))
def test_every_transform_keeps_the_contract(name: str) -> None:
    """map gives rows that are NaN whole or not at all, never changes its input, and takes any number of points."""
    transform = _transforms()[name]
    rng = np.random.default_rng(2)
    grid = transform.support or random_grid(rng, 3)
    points = np.vstack(
        [grid.index_to_world(rng.uniform(-3, 12, (300, 3))), [[np.nan, 0, 0], [np.inf, 0, 0], [1e300, -1e300, 0]]]
    )
    before = points.copy()
    mapped = transform.map(points)
    np.testing.assert_array_equal(points, before)
    assert mapped.shape == points.shape
    assert mapped.dtype == np.float64
    inside = np.isfinite(mapped).all(axis=1)
    np.testing.assert_array_equal(~inside, np.isnan(mapped).all(axis=1))  # a row is NaN whole or not at all
    assert not inside[-3:-1].any()
    assert transform.map(np.empty((0, 3))).shape == (0, 3)
    np.testing.assert_array_equal(transform.map(points[:7].astype(np.float32)).shape, (7, 3))
    np.testing.assert_allclose(transform.map(np.asfortranarray(points[:50])), mapped[:50], equal_nan=True)
    for wrong in (np.zeros(3), np.zeros((4, 2)), np.zeros((2, 2, 3))):
        with pytest.raises(InvalidInputError, match="3D transform maps points"):
            transform.map(wrong)
    assert json.loads(json.dumps(transform.description.to_dict()))["direction"] in (
        "fixed_to_moving",
        "moving_to_fixed",
    )
    assert transform.d == 3
    assert str(transform.d) in repr(transform)


@pytest.mark.parametrize(
    ("text", "d"),
    [
        ("2 0 1\n0 3 4\n", 2),
        ("2,0,1\n0,3,4\n0,0,1\n", 2),
        ("# matrix\n2 0 0 1\n0 3 0 4\n0 0 5 6\n", 3),
        ("2 0 0 1\n0 3 0 4\n0 0 5 6\n0 0 0 1\n", 3),
    ],
)
def test_matrices_as_text(tmp_path: Path, text: str, d: int) -> None:
    """d x (d + 1) and (d + 1) x (d + 1), blanks or commas: x -> M x + t."""
    file = tmp_path / "m.txt"
    file.write_text(text)
    transform = read_transform(file)
    assert transform.map(np.ones((1, d))).tolist() == [[3.0, 7.0, 11.0][:d]]
    np.testing.assert_allclose(transform.inverse().map([[3.0, 7.0, 11.0][:d]]), [[1.0] * d], rtol=1e-14)


def test_a_ras_matrix_is_turned_into_lps(tmp_path: Path) -> None:
    """In RAS (x, y, z) -> (x + 1, y + 2, z + 3) with a quarter turn; by hand in LPS."""
    (tmp_path / "m.txt").write_text("0 -1 0 1\n1 0 0 2\n0 0 1 3\n")
    mapped = read_transform(tmp_path / "m.txt", frame="RAS").map([[10.0, 20.0, 30.0]])
    # LPS (10, 20, 30) is RAS (-10, -20, 30), which goes to (20 + 1, -10 + 2, 33), in LPS (-21, 8, 33).
    assert mapped.tolist() == [[-21.0, 8.0, 33.0]]


def test_functions_are_transforms() -> None:
    """A callable needs its dimension, must keep the shape, and may not change the points it is given."""

    def double(points: Floats) -> Floats:
        points *= 2
        return points

    points = np.ones((3, 2))
    transform = as_transform(double, d=2)
    assert transform.map(points).tolist() == [[2.0, 2.0]] * 3
    assert points.tolist() == [[1.0, 1.0]] * 3
    assert as_transform(double, grid=Grid((3, 4, 5))).d == 3
    assert "double" in transform.description.kind
    with pytest.raises(AmbiguousFileError, match="d=2 or d=3"):
        as_transform(double)
    with pytest.raises(InvalidInputError, match=r"gave shape \(3,\)"):
        as_transform(lambda p: p[:, 0], d=2).map(points)


def test_mapped_points_are_known_at_the_listed_points_only(tmp_path: Path) -> None:
    """A CSV of fixed and mapped points maps the listed points in any order, and nothing else."""
    file = tmp_path / "mapped.csv"
    rows = [(1, 2, 1.5, 2.5), (30, 40, 33, 44), (100, 10, 90, 15), (7, 90, 8, 95)]
    file.write_text("fixed_x,fixed_y,moving_x,moving_y\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    transform = read_transform(file)
    points = np.array([[30, 40], [1, 2.00001], [2, 1], [100, 10.5]])
    np.testing.assert_array_equal(transform.map(points), [[33, 44], [1.5, 2.5], [np.nan, np.nan], [np.nan, np.nan]])
    assert int(np.sum(~defined(transform, points))) == 2
    assert transform.inverse().map([[90.0, 15.0]]).tolist() == [[100.0, 10.0]]
    assert "already mapped" in transform.description.kind


def test_contradicting_mapped_points_are_refused() -> None:
    """The same fixed point cannot go to two places; listed twice alike is fine."""
    with pytest.raises(InvalidInputError, match="two different mapped points"):
        MappedPoints([[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]])
    MappedPoints([[1.0, 2.0], [1.0, 2.0]], [[3.0, 4.0], [3.0, 4.0]])


def test_lists_are_in_the_order_of_application(tmp_path: Path) -> None:
    """[shift, scale] gives 2 (x + 1); files, transforms and functions mix."""
    (tmp_path / "shift.txt").write_text(elastix_text(2, "TranslationTransform", [1, 1]))
    (tmp_path / "scale.tfm").write_text(itk_text("ScaleTransform", 2, [2, 2], [0, 0]))
    both = [tmp_path / "shift.txt", str(tmp_path / "scale.tfm")]
    assert read_transform(both).map([[3.0, 5.0]]).tolist() == [[8.0, 12.0]]
    assert read_transform(both[::-1]).map([[3.0, 5.0]]).tolist() == [[7.0, 11.0]]
    assert "first entry is applied first" in read_transform(both).description.assumptions[0]
    mixed = as_transform([*both, read_transform(both[0]).inverse(), lambda p: -p], d=2)
    assert mixed.map([[3.0, 5.0]]).tolist() == [[-7.0, -11.0]]
    assert read_transform([both[0]]).map([[0.0, 0.0]]).tolist() == [[1.0, 1.0]]
    with pytest.raises(InvalidInputError, match="empty list"):
        read_transform([])
    (tmp_path / "three.txt").write_text(elastix_text(3, "TranslationTransform", [1, 1, 1]))
    with pytest.raises(InvalidInputError, match="one dimension"):
        read_transform([both[0], tmp_path / "three.txt"])


def test_wrong_arguments_get_one_sentence(tmp_path: Path) -> None:
    """Unknown formats, directions, kinds of source and paths without a file."""
    for arguments, said in (
        ({"source": tmp_path / "none.txt"}, "There is no transform"),
        ({"source": tmp_path}, "is a folder"),
        ({"source": 3}, "takes a path"),
        ({"source": "x", "format": "nonsense"}, "--format must be one of"),
        ({"source": "x", "direction": "backwards"}, "--direction is"),
        ({"source": "x", "reference": 3}, "--fixed-image must be a Grid"),
    ):
        with pytest.raises((InvalidInputError, FileFormatError), match=said):
            read_transform(**arguments)  # type: ignore[arg-type]


def test_affine_transforms_are_checked() -> None:
    """Shapes, finite numbers and a regular matrix for the inverse."""
    with pytest.raises(InvalidInputError, match="d x d matrix"):
        AffineTransform(np.eye(3), [1, 2])
    with pytest.raises(InvalidInputError, match="finite"):
        AffineTransform(np.eye(2) * np.nan, [1, 2])
    with pytest.raises(InvalidInputError, match="singular"):
        AffineTransform([[1, 2], [2, 4]], [0, 0]).inverse()
