"""Maps written a shard at a time: the same numbers as in memory, the same bytes wherever they are made."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import warpgauge as wg
from compute_tools import open_swirled, swirled
from warpgauge.compute import ProcessPool
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.io.images.pyramid import halve
from warpgauge.maps import mean_map, standard_deviation_map
from warpgauge.maps.sharded import write_sharded_map

GRID = wg.Grid((1100, 7, 5), [0.05, 6.0, 9.0], [1.0, 2.0, 3.0], units="um")  # nine shards along x


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    model = models.make(3, "wendland", isotropic=False, mean="affine")
    return model.prior.condition(model.annotations)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def local(posterior: Posterior, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An error map made in this process."""
    place = tmp_path_factory.mktemp("maps") / "error.ome.zarr"
    written = write_sharded_map("error", posterior, GRID, place, transform=open_swirled)
    assert written.filled == 9 + 5 + 3 + 2 + 1 + 1  # of 128 elements; 1100, 550, 275, 138, 69 and 35 elements along x
    return place


def test_numbers_are_those_in_memory_and_levels_are_means(posterior: Posterior, local: Path) -> None:
    """Level 0 equals `error_map` to the digits of float32, NaN included; each further level is the mean of two."""
    image = wg.read_image(local)
    assert image.grid == GRID
    expected = wg.error_map(posterior, swirled, GRID)
    assert 0 < np.isnan(expected).mean() < 0.5
    np.testing.assert_allclose(image.read(), expected, rtol=1e-5, atol=1e-7)
    assert image.levels == 6
    for level in range(1, image.levels):
        np.testing.assert_array_equal(image.read(level), halve(image.read(level - 1), 3))
    assert image.level_grid(1).size == (550, 4, 3)


def test_a_cluster_that_loses_a_worker_writes_the_same_bytes(
    posterior: Posterior, local: Path, tmp_path: Path, dask_cluster: Any
) -> None:
    """One of two workers is killed when the first shard is there; every file is the same as of the local run."""
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if done and not killed:
            killed.append(dask_cluster.processes()[0])
            os.kill(killed[0], signal.SIGKILL)

    place = tmp_path / "error.ome.zarr"
    write_sharded_map("error", posterior, GRID, place, transform=open_swirled, executor=dask_cluster, progress=kill)
    assert killed
    assert bytes_of(place) == bytes_of(local)


def test_what_is_there_is_kept_and_only_the_rest_is_made(posterior: Posterior, local: Path, tmp_path: Path) -> None:
    """A run that is interrupted midway, and goes on with two processes, ends with the same bytes."""
    place = tmp_path / "error.ome.zarr"

    def interrupt(done: int, total: int) -> None:
        if done > 2 * 128 * 35:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_sharded_map("error", posterior, GRID, place, transform=open_swirled, progress=interrupt)
    with pytest.warns(SuspiciousDataWarning, match="not complete"):
        assert np.isnan(wg.read_image(place).read()[..., 300:]).all()
    there = {name for name in bytes_of(place) if "/c/" in name}
    assert there == {"0/c/0/0/0", "0/c/0/0/1"}
    times = {name: (place / name).stat().st_mtime_ns for name in there}
    seen: list[tuple[int, int]] = []
    with ProcessPool(2) as pool:
        written = write_sharded_map(
            "error", posterior, GRID, place, transform=open_swirled, executor=pool,
            progress=lambda *told: seen.append(told),
        )  # fmt: skip
    assert (written.kept, written.filled) == (2, 19)
    assert {name: (place / name).stat().st_mtime_ns for name in there} == times
    assert seen[0][0] == 2 * 128 * 35
    assert seen[-1][0] == seen[-1][1]
    assert bytes_of(place) == bytes_of(local)
    again = write_sharded_map("error", posterior, GRID, place, transform=open_swirled)
    assert (again.kept, again.filled) == (21, 0)


def test_another_map_at_the_same_place_is_refused_unless_replaced(posterior: Posterior, tmp_path: Path) -> None:
    place = tmp_path / "map.ome.zarr"
    grid = wg.Grid((20, 9, 4), [3.0, 6.0, 9.0])
    write_sharded_map("entropy", posterior, grid, place)
    before = bytes_of(place)
    with pytest.raises(InvalidInputError, match="another posterior"):
        write_sharded_map("sd", posterior, grid, place)
    assert bytes_of(place) == before
    write_sharded_map("sd", posterior, grid, place, fresh=True)
    np.testing.assert_allclose(wg.read_image(place).read(), standard_deviation_map(posterior, grid), rtol=1e-6)
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "notes.txt").write_text("precious")
    with pytest.raises(InvalidInputError, match="not a map"):
        write_sharded_map("sd", posterior, grid, tmp_path / "mine.zarr", fresh=True)
    assert (tmp_path / "mine.zarr" / "notes.txt").read_text() == "precious"


def test_a_mean_map_has_its_components_first(posterior: Posterior, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    grid = wg.Grid((70, 9, 4), [0.8, 6.0, 9.0], units="mm")
    write_sharded_map("mean", posterior, grid, tmp_path / "mean.ome.zarr")
    group = zarr.open_group(tmp_path / "mean.ome.zarr", mode="r")
    np.testing.assert_allclose(group["0"][...], np.moveaxis(mean_map(posterior, grid), -1, 0), rtol=1e-5, atol=1e-6)
    assert [axis["name"] for axis in group.attrs["ome"]["multiscales"][0]["axes"]] == ["c", "z", "y", "x"]
    np.testing.assert_array_equal(group["1"][2], halve(group["0"][2], 3))


def test_the_description_places_every_level(local: Path) -> None:
    """OME-Zarr 0.5: scale and translation of level 1, by hand; shards of 128, chunks of 64, units in full."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(local, mode="r")
    ome = group.attrs["ome"]
    assert ome["version"] == "0.5"
    scale, translation = ome["multiscales"][0]["datasets"][1]["coordinateTransformations"]
    assert scale == {"type": "scale", "scale": [18.0, 12.0, 0.1]}
    assert translation["translation"] == pytest.approx([7.5, 5.0, 1.025])
    assert {axis["unit"] for axis in ome["multiscales"][0]["axes"]} == {"micrometer"}
    assert (group["0"].shards, group["0"].chunks) == ((5, 7, 128), (5, 7, 64))
    assert group.attrs["warpgauge"]["complete"] is True


def test_wrong_requests_write_nothing(posterior: Posterior, tmp_path: Path) -> None:
    turned = wg.Grid((4, 4, 4), direction=np.diag([-1.0, 1.0, 1.0]))
    for kind, grid, place, words in (
        ("sd", GRID, tmp_path / "map.nrrd", r"\.zarr"),
        ("sd", GRID, tmp_path / "none" / "map.zarr", "no folder"),
        ("sd", turned, tmp_path / "map.zarr", "direction"),
        ("sd", wg.Grid((4, 4)), tmp_path / "map.zarr", "2D grid"),
        ("error", GRID, tmp_path / "map.zarr", "needs a transform"),
        ("sd", GRID, "https://127.0.0.1/map.zarr", "not written"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            write_sharded_map(kind, posterior, grid, place)
    assert list(tmp_path.iterdir()) == []
