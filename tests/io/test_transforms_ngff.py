"""OME-NGFF 0.6 coordinate transformations, read and written, against ngff-zarr and ITK."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError
from warpgauge.io.transforms import AffineTransform, write_transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.field import DisplacementField

zarr = pytest.importorskip("zarr")
GRIDS = {
    2: wg.Grid((12, 9), [0.5, 2.0], [3.0, -4.0], units="um"),
    3: wg.Grid((8, 7, 6), [0.5, 2.0, 3.0], [3.0, -4.0, 10.0], units="mm"),
}


def bent(grid: wg.Grid) -> Any:
    """A field that is linear in the coordinates, so that linear interpolation is exact."""
    rng = np.random.default_rng(grid.d)
    matrix, offset = np.eye(grid.d) + rng.normal(0, 0.2, (grid.d, grid.d)), rng.normal(0, 3, grid.d)
    vectors = (grid.points() @ matrix.T + offset - grid.points()).T.reshape(grid.d, *grid.shape)
    field = DisplacementField(vectors, grid)
    return field, matrix, offset


def inner_points(grid: wg.Grid) -> np.ndarray:
    rng = np.random.default_rng(5)
    return grid.index_to_world(rng.uniform(0.1, 0.9, (40, grid.d)) * (np.array(grid.size) - 1))


@pytest.mark.parametrize("d", [2, 3])
def test_what_is_written_is_read_back_exactly(tmp_path: Path, d: int) -> None:
    """Affine, a sequence of affines and a field; a rewrite replaces, and nothing else is overwritten."""
    grid = GRIDS[d]
    points = inner_points(grid)
    field, matrix, offset = bent(grid)
    one, two = AffineTransform(matrix, offset), AffineTransform(np.diag(np.arange(1.0, d + 1)), -offset)
    for transform in (one, Chain([one, two]), field):
        write_transform(transform, tmp_path / "t.ngff.zarr", grid=grid)
        again = wg.read_transform(tmp_path / "t.ngff.zarr")
        assert again.description.format == "OME-NGFF"
        assert again.map(points) == pytest.approx(transform.map(points), rel=1e-12, abs=1e-10)
    assert [path.name for path in tmp_path.iterdir()] == ["t.ngff.zarr"]
    (tmp_path / "mine.ngff.zarr").mkdir()
    (tmp_path / "mine.ngff.zarr" / "x").write_text("kept")
    with pytest.raises(InvalidInputError, match="it is kept"):
        write_transform(one, tmp_path / "mine.ngff.zarr")


@pytest.mark.parametrize("d", [2, 3])
def test_ngff_zarr_reads_what_is_written(tmp_path: Path, d: int) -> None:
    """Its affine, in the order of the axes, and its field, as an ITK transform, map points as ours do."""
    ngff = pytest.importorskip("ngff_zarr")
    sitk = pytest.importorskip("SimpleITK")
    from ngff_zarr.displacement_field_transform import ngff_displacement_field_to_itk_transform

    grid, dims = GRIDS[d], ("z", "y", "x")[3 - d :]
    field, matrix, offset = bent(grid)
    write_transform(AffineTransform(matrix, offset), tmp_path / "a.ngff.zarr")
    read = ngff.from_ome_zarr(str(tmp_path / "a.ngff.zarr"), kind="transformation")
    assert np.array(read.affine) == pytest.approx(np.column_stack([matrix[::-1, ::-1], offset[::-1]]))
    write_transform(field, tmp_path / "f.ngff.zarr", grid=grid)
    read = ngff.from_ome_zarr(str(tmp_path / "f.ngff.zarr"), kind="transformation")
    image = ngff.from_ome_zarr(str(tmp_path / "f.ngff.zarr" / read.path))
    (wasm,) = ngff_displacement_field_to_itk_transform(read, image, dims)
    made = sitk.DisplacementFieldTransform(d)
    made.SetFixedParameters([float(one) for one in wasm.fixedParameters])
    made.SetParameters([float(one) for one in wasm.parameters])
    points = inner_points(grid)
    mapped = [list(made.TransformPoint(point.tolist())) for point in points]
    assert np.array(mapped) == pytest.approx(points @ matrix.T + offset, abs=1e-6)


@pytest.mark.parametrize("d", [2, 3])
def test_what_ngff_zarr_writes_is_read(tmp_path: Path, d: int) -> None:
    """Its own affine and its own declaration of a displacement field from ITK, without coordinate systems."""
    ngff = pytest.importorskip("ngff_zarr")
    from ngff_zarr.v06.zarr_metadata import Affine

    _, matrix, offset = bent(GRIDS[d])
    rows = np.column_stack([matrix[::-1, ::-1], offset[::-1]]).tolist()
    ngff.to_ome_zarr(str(tmp_path / "a.ngff.zarr"), Affine(affine=rows), version="0.6")
    read = wg.read_transform(tmp_path / "a.ngff.zarr")
    points = inner_points(GRIDS[d])
    assert read.map(points) == pytest.approx(points @ matrix.T + offset)
    assert any("no coordinate systems" in one for one in read.description.assumptions)


def document(folder: Path, entry: Any, axes: str = "zyx", **more: Any) -> Path:
    """A transformation as another program may write it."""
    place = folder / "other.zarr"
    root = zarr.create_group(store=str(place), zarr_format=3, overwrite=True)
    system = {"name": "s", "axes": [{"name": one, "type": "space", "unit": "micrometer"} for one in axes]}
    named = {**entry, "input": {"name": "s"}, "output": {"name": "s"}}
    root.attrs["ome"] = {"version": "0.6", "coordinateSystems": [system], "coordinateTransformations": [named], **more}
    return place


def test_the_names_of_the_axes_decide_not_their_order(tmp_path: Path) -> None:
    point = np.array([[1.0, 10.0, 100.0]])
    entry = {"type": "translation", "translation": [5.0, 7.0, 9.0]}
    for axes, moved in (("zyx", [10.0, 17.0, 105.0]), ("xyz", [6.0, 17.0, 109.0]), ("xzy", [6.0, 19.0, 107.0])):
        assert wg.read_transform(document(tmp_path, entry, axes)).map(point)[0] == pytest.approx(moved)
    turn = {"type": "mapAxis", "mapAxis": [2, 1, 0]}
    assert wg.read_transform(document(tmp_path, turn)).map(point) == pytest.approx(np.array([[100.0, 10.0, 1.0]]))


def test_sequences_are_applied_in_their_order_and_lengths_in_their_unit(tmp_path: Path) -> None:
    parts = [{"type": "scale", "scale": [2.0, 3.0]}, {"type": "translation", "translation": [1.0, 2.0]}]
    both = {"type": "sequence", "transformations": parts}
    read = wg.read_transform(document(tmp_path, {"type": "bijection", "forward": both, "inverse": both}, "yx"))
    assert read.map([[1.0, 1.0]]) == pytest.approx(np.array([[5.0, 3.0]]))
    place = document(tmp_path, {"type": "translation", "translation": [1.0, 2.0]}, "yx")
    text = (place / "zarr.json").read_text().replace("micrometer", "nanometer")
    (place / "zarr.json").write_text(text)
    assert wg.read_transform(place).map([[0.0, 0.0]]) == pytest.approx(np.array([[0.002, 0.001]]))


@pytest.mark.parametrize("axes", ["zyx", "xyz"])
@pytest.mark.parametrize("kind", ["displacements", "coordinates"])
def test_fields_of_other_programs_within_a_sequence(tmp_path: Path, kind: str, axes: str) -> None:
    """Displacements and coordinates, components by axis type and last, in either order of axes, after an affine."""
    grid = GRIDS[3]
    field, matrix, offset = bent(grid)
    shift = np.array([0.25, -1.0, 2.0])
    parts = [
        {"type": "translation", "translation": [float(shift["xyz".index(one)]) for one in axes]},
        {"type": kind, "path": "warp"},
    ]
    place = document(tmp_path, {"type": "sequence", "transformations": parts}, axes)
    order = ["xyz".index(one) for one in axes]
    vectors = np.asarray(field.vectors) + (0 if kind == "displacements" else grid.points().T.reshape(3, *grid.shape))
    stored = np.moveaxis(vectors[order], 0, -1)  # (z, y, x, component)
    stored = stored if axes == "zyx" else stored.transpose(2, 1, 0, 3)
    group = zarr.open_group(str(place)).create_group("warp")
    space = [{"name": one, "type": "space", "unit": "micrometer"} for one in axes]
    placed = [
        {"type": "scale", "scale": [*(float(grid.spacing[n]) for n in order), 1.0]},
        {"type": "translation", "translation": [*(float(grid.origin[n]) for n in order), 0.0]},
    ]
    system = {"name": "physical", "axes": [*space, {"name": "c", "type": kind[:-1]}]}
    image = {"coordinateSystems": [system], "datasets": [{"path": "0", "coordinateTransformations": placed}]}
    group.attrs["ome"] = {"version": "0.6", "multiscales": [image]}
    group.create_array("0", data=np.ascontiguousarray(stored))
    points = inner_points(grid)[:20] - shift
    assert wg.read_transform(place).map(points) == pytest.approx((points + shift) @ matrix.T + offset, abs=1e-9)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"type": "displacements", "path": "../elsewhere"}, "leads out of the group"),
        ({"type": "displacements", "path": "none"}, "no 'none' in it"),
        ({"type": "byDimension", "transformations": []}, "'byDimension', which is not read"),
        ({"type": "affine", "affine": [[1, 2], [3, 4]]}, "affine must be 3 x 4 finite numbers"),
        ({"type": "scale", "scale": [1, 2, "x"]}, "scale must be 3 finite numbers"),
        ({"type": "sequence", "transformations": []}, "has no transformations"),
        ({"type": "mapAxis", "mapAxis": [0, 0, 1]}, "each of the 3 axes once"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path: Path, entry: Any, words: str) -> None:
    with pytest.raises(FileFormatError, match=words):
        wg.read_transform(document(tmp_path, entry))


def test_several_transformations_and_other_versions_are_refused(tmp_path: Path) -> None:
    place = document(tmp_path, {"type": "identity"})
    about = json.loads((place / "zarr.json").read_text())
    about["attributes"]["ome"]["coordinateTransformations"] *= 2
    (place / "zarr.json").write_text(json.dumps(about))
    with pytest.raises(AmbiguousFileError, match="holds 2 coordinate transformations"):
        wg.read_transform(place)
    with pytest.raises(FileFormatError, match=r"version '0\.4'"):
        wg.read_transform(document(tmp_path, {"type": "identity"}, version="0.4"))


def test_a_turned_grid_is_refused(tmp_path: Path) -> None:
    turned = wg.Grid((5, 5), direction=[[0.0, -1.0], [1.0, 0.0]])
    with pytest.raises(InvalidInputError, match="the grid is turned"):
        write_transform(wg.read_transform(lambda x: x + 1.0, d=2), tmp_path / "t.ngff.zarr", grid=turned)
