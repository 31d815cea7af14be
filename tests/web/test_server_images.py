"""Tiles and the description of the images, over a real connection, against other readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import nibabel as nib
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813  (its own documentation's name)
import tifffile
from PIL import Image

from warpgauge.project import Project
from web.server_tools import Served, served


def get_tile(client: httpx.Client, side: str, kind: str, **where: int) -> np.ndarray:
    """Read a tile as the page does."""
    answer = client.get(f"/api/images/{side}/tile", params=where)
    assert answer.status_code == 200, answer.text
    shape = [int(answer.headers[name]) for name in ("X-Height", "X-Width", "X-Channels")]
    return np.frombuffer(answer.content, kind).reshape(shape)


def info_of(client: httpx.Client, side: str) -> dict[str, Any]:
    info: dict[str, Any] = client.get("/api/project").json()["images"][side]
    return info


@pytest.mark.parametrize("side", ["fixed", "moving"])
def test_tiles_of_a_picture_put_together_are_the_file(flat_server: Served, side: str) -> None:
    """The four tiles of a 300 x 280 picture, grey or colour, are exactly the samples that Pillow reads, in place."""
    client = flat_server.client()
    info = info_of(client, side)
    assert (info["size"], info["dtype"], info["tile"]) == ([300, 280], "uint8", 256)
    rows = [np.hstack([get_tile(client, side, "u1", row=r, column=c) for c in (0, 1)]) for r in (0, 1)]
    expected = np.asarray(Image.open(flat_server.folder.parent / "pictures" / f"{side}.png"))
    assert np.array_equal(np.vstack(rows), expected.reshape(280, 300, -1))


@pytest.mark.parametrize("side", ["fixed", "moving"])
def test_planes_of_an_oblique_volume_are_those_of_simpleitk(solid_server: Served, side: str) -> None:
    """All planes of a signed and of a float volume are those that SimpleITK reads, to half a step of the rescale."""
    client = solid_server.client()
    info = info_of(client, side)
    image = sitk.ReadImage(str(solid_server.folder.parent / "volumes" / f"{side}.nii.gz"))
    volume = sitk.GetArrayFromImage(image).astype(float)
    assert info["dtype"] == "uint16"
    assert (info["scale"], info["offset"]) == (1.0, -32768.0) or side == "moving"
    for axis in (0, 1, 2):
        samples = get_tile(client, side, "<u2", axis=axis, index=7)[..., 0]
        values = info["scale"] * samples + info["offset"]
        expected = np.take(volume, 7, axis=2 - axis)
        assert np.abs(values - expected).max() <= (0 if side == "fixed" else 0.5001 * info["scale"])


def test_the_frame_of_an_oblique_volume_is_that_of_simpleitk(solid_server: Served) -> None:
    """Size, spacing, origin and direction place voxels where SimpleITK does, levels included."""
    info = info_of(solid_server.client(), "moving")
    image = sitk.ReadImage(str(solid_server.folder.parent / "volumes" / "moving.nii.gz"))
    assert info["size"] == list(image.GetSize())
    index = np.array([3.0, 5.0, 7.0])
    point = np.asarray(info["origin"]) + np.asarray(info["direction"]) @ (np.asarray(info["spacing"]) * index)
    np.testing.assert_allclose(point, image.TransformContinuousIndexToPhysicalPoint(index.tolist()), atol=1e-4)
    assert info["units"] == "mm"
    assert info["levels"][0] == {key: info[key] for key in ("size", "spacing", "origin")}


def test_a_coarser_level_holds_means_of_two(flat_server: Served) -> None:
    """Level 1 of the picture is the mean of blocks of two by two, and its frame says where their middles are."""
    client = flat_server.client()
    info = info_of(client, "fixed")
    coarse = get_tile(client, "fixed", "u1", level=1)[..., 0]
    full = np.asarray(Image.open(flat_server.folder.parent / "pictures" / "fixed.png")).astype(float)
    means = full.reshape(140, 2, 150, 2).mean(axis=(1, 3))
    assert np.abs(coarse - means).max() <= 0.5
    assert info["levels"][1] == {"size": [150, 140], "spacing": [2.0, 2.0], "origin": [0.5, 0.5]}


def test_a_tile_has_a_tag_and_is_not_sent_twice(flat_server: Served) -> None:
    """Asked with its tag it is answered 304 before it is read, even if it is nowhere; each tile has its own tag."""
    client = flat_server.client()
    first = client.get("/api/images/fixed/tile", params={"row": 0})
    other = client.get("/api/images/fixed/tile", params={"row": 1})
    assert first.headers["etag"] != other.headers["etag"]
    again = client.get("/api/images/fixed/tile", params={"row": 0}, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "no-cache" in first.headers["cache-control"]
    version = info_of(client, "fixed")["version"]
    lasting = client.get("/api/images/fixed/tile", params={"v": version})
    assert "immutable" in lasting.headers["cache-control"]
    nowhere = other.headers["etag"].replace("-1-0-", "-999-0-")
    assert nowhere != other.headers["etag"]
    params, headers = {"row": 999}, {"If-None-Match": nowhere}
    assert client.get("/api/images/fixed/tile", params=params).status_code == 422
    assert client.get("/api/images/fixed/tile", params=params, headers=headers).status_code == 304


@pytest.mark.parametrize(
    "where",
    [{"row": 2}, {"column": 99}, {"level": 9}, {"axis": 0}, {"index": 1}, {"axis": 3}, {"row": -1}, {"row": "x"},
     {"level": 10**30}],
)  # fmt: skip
def test_a_tile_that_is_not_there_is_refused_in_a_sentence(flat_server: Served, where: dict[str, Any]) -> None:
    """Numbers beyond the image, or no numbers, get 422 and a sentence."""
    answer = flat_server.client().get("/api/images/fixed/tile", params=where)
    assert answer.status_code == 422
    assert answer.json()["error"].endswith(".")


def test_values_that_are_not_finite_are_served_as_nothing(tmp_path: Path) -> None:
    """NaN becomes sample 0, and a wild outlier does not flatten the rest of the image."""
    values = np.random.default_rng(4).normal(5.0, 1.0, (30, 20, 10)).astype(np.float32)
    values[3, 4, 5], values[6, 7, 8] = np.nan, 1e30
    for name in ("fixed", "moving"):
        nib.save(nib.Nifti1Image(values, np.diag([1.0, 2.0, 3.0, 1.0])), tmp_path / f"{name}.nii")
    points = np.random.default_rng(0).uniform(-4, -1, (12, 3)) * [1, 1, -1]
    paths = {name: tmp_path / f"{name}.nii" for name in ("fixed", "moving")}
    Project.create(tmp_path / "p", **paths, candidates=points, targets=points).close()
    with served(tmp_path / "p") as server:
        client = server.client()
        info = info_of(client, "fixed")
        plane = get_tile(client, "fixed", "<u2", axis=2, index=5)[..., 0]
        wild = get_tile(client, "fixed", "<u2", axis=2, index=8)[..., 0]
    image = values.transpose(2, 1, 0)
    there = np.isfinite(image[5])
    assert np.all(plane[~there] == 0)
    assert np.abs(info["scale"] * plane[there] + info["offset"] - image[5][there]).max() < 0.01
    assert wild.max() == 65535


def test_the_overview_of_a_large_file_is_there_before_anybody_looks(tmp_path: Path) -> None:
    """A file of more than 64 MB without coarse levels: its overview is kept by `new`, and a server reads it there."""
    rows, columns = np.indices((8300, 8200), dtype=np.uint16) // 100
    full = ((rows * 7 + columns * 13) % 200 + 30).astype(np.uint8)
    tifffile.imwrite(tmp_path / "fixed.tif", full)
    tifffile.imwrite(tmp_path / "moving.tif", full[::20, ::20])
    points = np.random.default_rng(0).uniform(500, 7500, (12, 2))
    paths = {name: tmp_path / f"{name}.tif" for name in ("fixed", "moving")}
    spacing = {"fixed": 1.0, "moving": 20.0}
    Project.create(tmp_path / "p", **paths, candidates=points, targets=points, spacing=spacing, units="px").close()
    (kept,) = (tmp_path / "p" / "cache").glob("overview-*.npy")
    written = kept.stat().st_mtime_ns
    with served(tmp_path / "p") as server:
        client = server.client()
        coarsest = info_of(client, "fixed")["levels"][-1]
        shown = get_tile(client, "fixed", "u1", level=len(info_of(client, "fixed")["levels"]) - 1)[..., 0]
    assert shown.shape == (coarsest["size"][1], coarsest["size"][0])
    blocks = np.array(full[50::100, 50::100], dtype=float)  # of one value each
    at = np.ix_(*(((np.arange(n) * 100 + 50) / coarsest["spacing"][0]).astype(int) for n in blocks.shape))
    assert np.corrcoef(shown[at].ravel(), blocks.ravel())[0, 1] > 0.9
    assert kept.stat().st_mtime_ns == written
