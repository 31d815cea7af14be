"""Overlays on an oblique, anisotropic volume whose true transformation is a known shift."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813

from command_tools import call
from warpgauge.project import Project
from warpgauge.session import Session
from web.server_tools import Served, answer, served, write_shifted

SHIFT = np.array([2, 1, 1])  # voxels along x, y, z of the volume
_PRECISION = 0.02  # mm, of each coordinate of an answer


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A 3D project whose moving volume is the fixed one shifted by whole voxels, answered 16 times to 0.02 mm."""
    folder = tmp_path_factory.mktemp("shifted")
    fixed, moving, shift = write_shifted(folder, SHIFT)
    settings = {"refit": "never", "guided_start": False}
    project = Project.create(folder / "p", fixed=fixed, moving=moving, candidates={"kind": "domain", "count": 60},
                             targets={"kind": "domain", "count": 60}, settings=settings)  # fmt: skip
    project.close()
    for name, offset in (("right", shift), ("wrong", shift + np.array([6.0, 0.0, 0.0]))):
        transform = sitk.TranslationTransform(3, offset.tolist())
        sitk.WriteTransform(transform, str(folder / f"{name}.tfm"))
        call("add-transform", folder / "p", name, folder / f"{name}.tfm")
    with served(folder / "p", "ada") as server:
        client = server.client()
        query = client.get("/api/query").json()
        # As precise as stated: exact answers would make the right transform too good to be true, and it would be
        # flagged and not used as evidence.
        slips = np.random.default_rng(5).normal(0, _PRECISION, (16, 3))
        for slip in slips:
            point = (np.asarray(query["location"]) + shift + slip).tolist()
            reply = answer(client, query, point, covariance=(_PRECISION**2 * np.eye(3)).tolist())
            assert reply.status_code == 200, reply.text
            query = reply.json()["next"]
        server.shift = shift  # type: ignore[attr-defined]
        yield server


def plane(client: httpx.Client, path: str, kind: str = "<f4") -> tuple[np.ndarray, dict[str, Any]]:
    """Read a raw plane and its frame as the page does."""
    found = client.get(path)
    assert found.status_code == 200, found.text
    shape = [int(found.headers[name]) for name in ("X-Height", "X-Width", "X-Channels")]
    return np.frombuffer(found.content, kind, np.prod(shape)).reshape(shape), json.loads(found.headers["X-Frame"])


def mask(client: httpx.Client, path: str) -> np.ndarray:
    """Read where a warped plane has samples: the bytes after them."""
    found = client.get(path)
    height, width = (int(found.headers[name]) for name in ("X-Height", "X-Width"))
    return np.frombuffer(found.content[-height * width :], np.uint8).reshape(height, width)


def world_of(server: Served, axis: int, index: int, row: int, column: int) -> np.ndarray:
    """Where SimpleITK puts a voxel of a plane of the fixed volume."""
    image = sitk.ReadImage(str(server.folder.parent / "fixed.nii.gz"))
    voxel = {2: (column, row, index), 1: (column, index, row), 0: (index, column, row)}[axis]
    return np.asarray(image.TransformIndexToPhysicalPoint(voxel))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_frame_of_a_map_is_that_of_the_plane(shifted: Served, axis: int) -> None:
    """origin + column * c + row * r is the voxel's place in the world, on each plane of an oblique volume."""
    values, frame = plane(shifted.client(), f"/api/map/entropy?axis={axis}&index=5&width=512")
    row, column = values.shape[0] - 2, values.shape[1] - 3
    point = np.asarray(frame["origin"]) + column * np.asarray(frame["column"]) + row * np.asarray(frame["row"])
    np.testing.assert_allclose(point, world_of(shifted, axis, 5, row, column), atol=1e-4)


def test_maps_hold_the_posterior_at_those_points(shifted: Served) -> None:
    """Values at a few voxels are those of the posterior, built anew from the log, at SimpleITK's points."""
    values, _ = plane(shifted.client(), "/api/map/entropy?axis=1&index=7&width=512")
    with Project.open(shifted.folder) as project:
        posterior = Session(project).posterior()
        at = np.array([world_of(shifted, 1, 7, row, column) for row, column in ((0, 0), (3, 11), (15, 20))])
        expected = posterior.entropy(at)
    np.testing.assert_allclose([values[0, 0, 0], values[3, 11, 0], values[15, 20, 0]], expected, rtol=1e-4)


def test_a_coarse_map_covers_the_same_extent(shifted: Served) -> None:
    """With fewer columns the elements are larger and their outer edges stay where they were."""
    fine, one = plane(shifted.client(), "/api/map/entropy?axis=2&index=5&width=512")
    coarse, other = plane(shifted.client(), "/api/map/entropy?axis=2&index=5&width=10")
    assert coarse.shape[1] <= 10 < fine.shape[1]

    def corner(values: np.ndarray, frame: dict[str, Any], sign: int) -> np.ndarray:
        rows, columns = (n / 2 - 0.5 for n in values.shape[:2])
        middle = np.asarray(frame["origin"]) + columns * np.array(frame["column"]) + rows * np.array(frame["row"])
        return middle + sign * ((columns + 0.5) * np.array(frame["column"]) + (rows + 0.5) * np.array(frame["row"]))

    for sign in (-1, 1):
        np.testing.assert_allclose(corner(fine, one, sign), corner(coarse, other, sign), atol=1e-9)


def linked(client: httpx.Client, point: Any) -> list[float]:
    """Map a point as the page does."""
    found: list[float] = client.get("/api/linked", params=dict(zip("xyz", map(float, point), strict=True))).json()[
        "point"
    ]
    return found


def test_a_point_goes_by_the_posterior_mean(shifted: Served) -> None:
    """Fixed to moving adds the known shift, to the posterior's accuracy."""
    client = shifted.client()
    for row, column in ((10, 10), (20, 25), (15, 30)):
        point = world_of(shifted, 2, 9, row, column)
        there = linked(client, point)
        assert np.linalg.norm(there - point - shifted.shift) < 0.15  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text", ["", "x=1", "x=1&y=2", "x=a&y=b&z=c", "x=nan&y=1&z=1", "x=inf&y=1&z=1", "x=&y=1&z=1", "x=1e300&y=1&z=1"]
)
def test_a_point_that_cannot_be_read(shifted: Served, text: str) -> None:
    """Anything but three finite numbers is refused."""
    assert shifted.client().get(f"/api/linked?{text}").status_code == 422


def test_the_warped_volume_is_the_fixed_one(shifted: Served) -> None:
    """The moving volume seen through the model looks like the fixed one it was shifted from."""
    client = shifted.client()
    info = client.get("/api/project").json()["images"]["moving"]
    warped, frame = plane(client, "/api/warped?axis=2&index=9", "<u2")
    values = info["scale"] * warped[..., 0].astype(float) + info["offset"]
    fixed = sitk.GetArrayFromImage(sitk.ReadImage(str(shifted.folder.parent / "fixed.nii.gz")))[9].astype(float)
    inner = (slice(3, -3), slice(3, -3))
    assert np.abs(values - fixed)[inner].mean() < 0.05 * fixed.std()
    unwarped = np.roll(fixed, (1, 2), axis=(0, 1))
    assert np.abs(unwarped - fixed)[inner].mean() > 0.3 * fixed.std()
    np.testing.assert_allclose(frame["origin"], world_of(shifted, 2, 9, 0, 0), atol=1e-4)


def test_where_the_warped_volume_has_no_data_is_told(shifted: Served) -> None:
    """What the shift moves out of the volume is masked: the last columns and rows, all of the last slice."""
    client = shifted.client()
    inner = mask(client, "/api/warped?axis=2&index=9")
    assert set(np.unique(inner).tolist()) == {0, 1}
    # The model is within half a voxel of the shift of 2, 1, 1 voxels; images end half a voxel beyond their last centre.
    assert inner[2:-2, 2:-3].all()
    assert not inner[:, -1].any()
    assert not mask(client, "/api/warped?axis=2&index=19").any()
    samples, _ = plane(client, "/api/warped?axis=2&index=9", "<u2")
    assert not samples[inner == 0].any()


def test_a_part_of_the_warped_image_is_that_part(shifted: Served) -> None:
    """Columns 10 to 29 and rows 5 to 19 of the plane, with a frame of their own."""
    client = shifted.client()
    whole, frame = plane(client, "/api/warped?axis=2&index=9", "<u2")
    part, own = plane(client, "/api/warped?axis=2&index=9&part=10,5,20,15", "<u2")
    near = np.abs(part.astype(int) - whole[5:20, 10:30].astype(int)).mean()
    assert near < 0.05 * whole.std()  # the mean is interpolated between other points
    corner = np.array(frame["origin"]) + 10 * np.array(frame["column"]) + 5 * np.array(frame["row"])
    np.testing.assert_allclose(own["origin"], corner, atol=1e-6)
    for part_text in ("0,0,999,1", "-1,0,4,4", "0,0,0,4", "1,2,3", "a,b,c,d"):
        assert client.get("/api/warped", params={"index": 9, "part": part_text}).status_code == 422


def test_error_maps_tell_right_from_wrong(shifted: Served) -> None:
    """The right transform's error score stays below one half; one 6 mm off is near 1 wherever anything is known."""
    client = shifted.client()
    right, _ = plane(client, "/api/map/blended?transform=right&axis=2&index=9")
    wrong, _ = plane(client, "/api/map/blended?transform=wrong&axis=2&index=9")
    assert np.median(right[..., 0]) < 0.5
    assert np.median(wrong[..., 0]) > 0.99
    assert 0 <= wrong[..., 1].min() <= wrong[..., 1].max() <= 1
    assert client.get("/api/map/blended?axis=2").status_code == 422
    for name in ("nothing", "../../secret", "/etc/passwd", "right/../wrong"):
        assert client.get("/api/map/blended", params={"transform": name}).status_code == 404


def test_transforms_are_ranked(shifted: Served) -> None:
    """The right one leads with certainty, its error near 0 and the other's near 6 mm; progress says so."""
    found = shifted.client().get("/api/transforms").json()
    assert [row["name"] for row in found["transforms"]] == ["right", "identity", "wrong"]
    assert [flag.partition(":")[0] for flag in found["flags"]] == ["wrong makes things worse"]
    # The annotations cannot say more than their precision: 0.02 mm in each of three coordinates.
    errors = [row["error"][0] for row in found["transforms"]]
    assert errors[0] < 3 * _PRECISION
    assert errors[2] == pytest.approx(6.0, abs=0.1)
    assert "right" in shifted.client().get("/api/progress").json()["verdict"]
    assert shifted.client("ada").get("/api/progress").json()["verdict"] is None


def test_a_blind_raters_overlays_rest_on_their_own_answers(shifted: Served) -> None:
    """Ada has answered nothing: her linked points are the identity, although the organiser knows the shift."""
    assert linked(shifted.client("ada"), [1, 2, 3]) == pytest.approx([1, 2, 3])


@pytest.mark.parametrize(
    "path",
    ["/api/map/entropy?axis=2&index=99", "/api/map/entropy?width=4", "/api/map/entropy?width=9999", "/api/map/heat",
     "/api/warped?level=9", "/api/warped?index=-1"],
)  # fmt: skip
def test_planes_that_are_not_there(shifted: Served, path: str) -> None:
    """Refused with a sentence."""
    found = shifted.client().get(path)
    assert found.status_code == 422
    assert set(found.json()) == {"error"}
