"""Dense fields as OME-Zarr: what is written is read back, in place and in direction, also block by block."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from command_tools import ask
from warpgauge.errors import AmbiguousFileError, FileFormatError, SuspiciousDataWarning
from warpgauge.io.transforms import DisplacementField, ome_field, write_transform
from warpgauge.io.transforms.ome_field import LargeField

zarr = pytest.importorskip("zarr")


def bent(points: np.ndarray) -> np.ndarray:
    return points + 2 * np.sin(points[:, ::-1] / 11) + 1.5


def grid_of(d: int, turned: bool) -> wg.Grid:
    c, s = np.cos(0.4), np.sin(0.4)
    direction = np.eye(d)
    direction[:2, :2] = [[c, -s], [s, c]]
    size, spacing = ((130, 30, 21)[:d], (0.5, 1.5, 2.0)[:d])
    return wg.Grid(size, spacing, (3.0, -2.0, 9.0)[:d], direction if turned else None, "mm")


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("turned", [False, True])
def test_a_field_is_read_where_it_was_written(d: int, turned: bool, tmp_path: Path) -> None:
    """At the nodes to rounding; between them as linear interpolation; outside NaN."""
    grid = grid_of(d, turned)
    write_transform(wg.read_transform(bent, d=d), tmp_path / "field.ome.zarr", grid=grid)
    found = wg.read_transform(tmp_path / "field.ome.zarr")
    assert isinstance(found, DisplacementField)
    assert found.support == grid
    np.testing.assert_allclose(found.map(grid.points()), bent(grid.points()), atol=1e-9)
    between = grid.index_to_world(np.random.default_rng(0).uniform(0, 1, (50, d)) * (np.array(grid.size) - 1))
    np.testing.assert_allclose(found.map(between), bent(between), atol=0.06)
    assert np.isnan(found.map(grid.index_to_world([[-1.0] * d]))).all()


def test_a_field_in_pixels_keeps_the_distance_of_its_nodes(tmp_path: Path) -> None:
    """OME-Zarr has no name for pixels; nodes that stand 30 of them apart still do."""
    grid = wg.Grid((6, 5), (30.0, 30.0), (14.5, 14.5))
    write_transform(wg.read_transform(bent, d=2), tmp_path / "field.zarr", grid=grid)
    found = wg.read_transform(tmp_path / "field.zarr")
    assert found.support == grid
    np.testing.assert_allclose(found.map(grid.points()), bent(grid.points()), atol=1e-9)


def test_a_large_field_is_read_in_blocks_with_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit, for points all over it and beyond, on block borders, next to NaN; and in another process."""
    grid = grid_of(3, True)

    def holed(points: np.ndarray) -> np.ndarray:
        mapped = bent(points)
        mapped[np.linalg.norm(points - grid.centre, axis=1) < 6] = np.nan
        return mapped

    with pytest.warns(SuspiciousDataWarning, match="outside the transform's domain"):
        write_transform(wg.read_transform(holed, d=3), tmp_path / "field.zarr", grid=grid)
    with pytest.warns(SuspiciousDataWarning):
        whole = wg.read_transform(tmp_path / "field.zarr")
    monkeypatch.setattr(ome_field, "_WHOLE", 1000)
    monkeypatch.setattr(ome_field, "_BLOCK", 16)
    monkeypatch.setattr(ome_field, "_KEPT", 2)
    large = wg.read_transform(tmp_path / "field.zarr")
    assert isinstance(large, LargeField)
    index = np.random.default_rng(1).uniform(-0.1, 1.1, (4000, 3)) * (np.array(grid.size) - 1)
    index[:1000] = np.round(index[:1000])
    index[1000:1500, 0] = 16 * np.round(index[1000:1500, 0] / 16)
    points = grid.index_to_world(index)
    expected = whole.map(points)
    assert 0.1 < np.isnan(expected[:, 0]).mean() < 0.7
    np.testing.assert_allclose(large.map(points), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(np.isnan(large.map(points)), np.isnan(expected))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(large)).map(points), large.map(points))
    assert np.isnan(large.map(np.full((3, 3), 1e6))).all()


def test_a_mean_map_is_a_field(tmp_path: Path) -> None:
    """What `map mean` writes as OME-Zarr is read as a transform: x plus the displacement, to the digits of float32."""
    from warpgauge.maps import write_map

    fixed = np.random.default_rng(0).uniform(0, 60, (8, 2))
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [20.0, 40.0], [4.0, 8.0]), noise=0.1)
    posterior = prior.condition(wg.Annotations(fixed, fixed + np.array([3.0, -2.0]), np.tile(np.eye(2), (8, 1, 1))))
    grid = wg.Grid((60, 50))
    write_map(wg.mean_map(posterior, grid), grid, tmp_path / "mean.ome.zarr")
    found = wg.read_transform(tmp_path / "mean.ome.zarr")
    np.testing.assert_allclose(found.map(grid.points()), posterior.mean(grid.points()), atol=1e-5)


def test_a_field_from_elsewhere_needs_a_word(tmp_path: Path) -> None:
    """Without the note that warpgauge writes, order and frame of the components must be given; RAS flips x and y."""
    grid = wg.Grid((12, 10, 8), [1.0, 2.0, 3.0], units="mm")
    write_transform(wg.read_transform(bent, d=3), tmp_path / "field.zarr", grid=grid)
    group = zarr.open_group(tmp_path / "field.zarr", mode="r+")
    del group.attrs["warpgauge"]
    with pytest.raises(AmbiguousFileError, match="components="):
        wg.read_transform(tmp_path / "field.zarr")
    with pytest.raises(AmbiguousFileError, match="frame="):
        wg.read_transform(tmp_path / "field.zarr", components="xyz")
    found = wg.read_transform(tmp_path / "field.zarr", components="xyz", frame="LPS")
    np.testing.assert_allclose(found.map(grid.points()), bent(grid.points()), atol=1e-9)
    other = wg.read_transform(tmp_path / "field.zarr", components="zyx", frame="RAS")
    shift = (bent(grid.points()) - grid.points())[:, ::-1] * [-1, -1, 1]
    np.testing.assert_allclose(other.map(grid.points()), grid.points() + shift, atol=1e-9)


def test_an_image_is_not_a_field(tmp_path: Path) -> None:
    from warpgauge.maps import write_map

    write_map(np.zeros((4, 5)), wg.Grid((5, 4)), tmp_path / "image.zarr")
    with pytest.raises(FileFormatError, match="a field has the axes"):
        wg.read_transform(tmp_path / "image.zarr")


def test_a_field_is_added_to_a_project(tmp_path: Path) -> None:
    """Its folder is copied with a hash, read back, and a change is noticed."""
    texture = np.random.default_rng(0).integers(0, 255, (60, 80), dtype=np.uint8)
    from PIL import Image

    for name in ("fixed", "moving"):
        Image.fromarray(texture).save(tmp_path / f"{name}.png")
    ask("new", tmp_path / "project", "--fixed", tmp_path / "fixed.png", "--moving", tmp_path / "moving.png",
        "--candidates", 10, "--foreground", "none")  # fmt: skip
    write_transform(wg.read_transform(bent, d=2), tmp_path / "field.ome.zarr", grid=wg.Grid((80, 60)))
    ask("add-transform", tmp_path / "project", "bent", tmp_path / "field.ome.zarr")
    with wg.Project.open(tmp_path / "project") as project:
        points = np.array([[10.0, 20.0], [70.0, 50.0]])
        np.testing.assert_allclose(project.transform("bent").map(points), bent(points), atol=1e-9)
        assert project.verify().ok
        (copy,) = (project.folder / "transforms").rglob("field.ome.zarr")
        shard = next(file for file in copy.rglob("*") if file.is_file() and "/c/" in file.as_posix())
        shard.write_bytes(shard.read_bytes()[:-1] + b"x")
        assert not project.verify().ok
