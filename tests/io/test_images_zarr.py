"""OME-Zarr of both versions, 2D and 3D: levels, scales, units, axes; and what a tile costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from warpgauge.errors import FileFormatError
from warpgauge.io.images import read_image

RNG = np.random.default_rng(0)
PLANE = RNG.integers(0, 65536, (300, 401)).astype(np.uint16)
VOLUME = RNG.integers(0, 256, (20, 30, 40)).astype(np.uint8)


def write_zarr(
    folder: Path,
    levels: list[np.ndarray],
    axes: str = "yx",
    version: str = "0.4",
    unit: str | None = "micrometer",
    transforms: list[list[dict[str, Any]]] | None = None,
    common: list[dict[str, Any]] | None = None,
    chunk: int = 64,
) -> Path:
    """Write the arrays with zarr and the description by hand, as the specification has it."""
    group = zarr.open_group(folder, mode="w", zarr_format=2 if version == "0.4" else 3)
    kinds = {"t": "time", "c": "channel"}
    items: list[dict[str, Any]] = [{"name": a, "type": kinds.get(a, "space")} for a in axes]
    for item in items:
        if item["type"] == "space" and unit:
            item["unit"] = unit
    datasets = []
    for i, level in enumerate(levels):
        chunks = tuple(min(chunk, n) for n in level.shape)
        group.create_array(f"s{i}", data=level, chunks=chunks)
        scale = [0.5 * 2**i if a in "zyx" else 1.0 for a in axes]
        own = transforms[i] if transforms else [{"type": "scale", "scale": scale}]
        datasets.append({"path": f"s{i}", "coordinateTransformations": own})
    multiscale: dict[str, Any] = {"axes": items, "datasets": datasets}
    if common:
        multiscale["coordinateTransformations"] = common
    if version == "0.4":
        multiscale["version"] = "0.4"
        group.attrs["multiscales"] = [multiscale]
    else:
        group.attrs["ome"] = {"version": version, "multiscales": [multiscale]}
    return folder


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_plane_with_levels(tmp_path: Path, version: str):
    """Samples and levels of a 2D image are those written, in micrometres, and made levels follow."""
    levels = [PLANE, PLANE[::2, ::2]]
    image = read_image(write_zarr(tmp_path / "x.ome.zarr", levels, version=version))
    assert image.format == "OME-Zarr"
    assert (image.grid.size, image.grid.units, image.dtype) == ((401, 300), "um", np.uint16)
    np.testing.assert_array_equal(image.grid.spacing, [0.5, 0.5])
    np.testing.assert_array_equal(image.read(), PLANE)
    np.testing.assert_array_equal(image.read(1), PLANE[::2, ::2])
    np.testing.assert_array_equal(image.tile(2, 0, 0, 60, 100, 10, 200), PLANE[60:70, 100:300])
    np.testing.assert_array_equal(image.level_grid(1).spacing, [1, 1])
    np.testing.assert_array_equal(image.level_grid(1).origin, [0, 0])  # as the file says: centres of pixel 0 coincide


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_volume_with_translation(tmp_path: Path, version: str):
    """Scale and translation of each level, then those of all, are applied in array order and come out as x, y, z."""
    transforms = [
        [{"type": "scale", "scale": [4.0, 2.0, 1.0]}, {"type": "translation", "translation": [40.0, 20.0, 10.0]}],
        [{"type": "scale", "scale": [8.0, 4.0, 2.0]}, {"type": "translation", "translation": [42.0, 21.0, 10.5]}],
    ]
    common = [{"type": "scale", "scale": [10.0, 10.0, 10.0]}]
    folder = write_zarr(
        tmp_path / "v.zarr", [VOLUME, VOLUME[::2, ::2, ::2]], "zyx", version, "micrometer", transforms, common
    )
    image = read_image(folder)
    np.testing.assert_array_equal(image.grid.spacing, [10, 20, 40])
    np.testing.assert_array_equal(image.grid.origin, [100, 200, 400])
    coarse = image.level_grid(1)
    np.testing.assert_allclose(coarse.spacing, [20, 40, 80])
    np.testing.assert_allclose(coarse.origin, [105, 210, 420])
    np.testing.assert_array_equal(image.read(), VOLUME)
    np.testing.assert_array_equal(image.plane(0, 7), VOLUME[:, :, 7])
    np.testing.assert_array_equal(image.plane(1, 3, level=1), VOLUME[::2, 6, ::2])


@pytest.mark.parametrize(
    ("unit", "units", "spacing"),
    [("micrometer", "um", 0.5), ("millimeter", "mm", 0.5), ("nanometer", "um", 0.5e-3), ("meter", "mm", 500.0)],
)
def test_units(tmp_path: Path, unit: str, units: str, spacing: float):
    """UDUNITS names of lengths are converted to um or mm."""
    grid = read_image(write_zarr(tmp_path / "x.zarr", [PLANE], unit=unit)).grid
    assert grid.units == units
    np.testing.assert_allclose(grid.spacing, spacing)


def test_scale_without_unit_is_pixels_unless_the_caller_says(tmp_path: Path):
    """A number without a unit is no length: px and a sentence; with units= it is used."""
    transforms = [[{"type": "scale", "scale": [2.0, 0.5]}, {"type": "translation", "translation": [8.0, 3.0]}]]
    folder = write_zarr(tmp_path / "x.zarr", [PLANE], unit=None, transforms=transforms)
    image = read_image(folder)
    assert image.grid.units == "px"
    np.testing.assert_array_equal(image.grid.spacing, [1, 1])
    np.testing.assert_array_equal(image.grid.origin, [6, 4])  # in pixels
    assert any("has no unit" in s and "give --units" in s for s in image.assumptions)
    given = read_image(folder, units="um").grid
    np.testing.assert_array_equal(given.spacing, [0.5, 2])
    np.testing.assert_array_equal(given.origin, [3, 8])


def test_axes_of_one_are_left_out_and_three_channels_are_colours(tmp_path: Path):
    """t, c and z of 1 vanish, with a sentence for z; c of 3 becomes the last axis of a 2D image."""
    image = read_image(write_zarr(tmp_path / "five.zarr", [PLANE[None, None, None]], "tczyx"))
    np.testing.assert_array_equal(image.read(), PLANE)
    assert any("z axis has one element" in s for s in image.assumptions)
    colour = RNG.integers(0, 256, (3, 30, 40)).astype(np.uint8)
    image = read_image(write_zarr(tmp_path / "rgb.zarr", [colour], "cyx"))
    assert image.channels == 3
    np.testing.assert_array_equal(image.read(), np.moveaxis(colour, 0, -1))
    np.testing.assert_array_equal(image.tile(2, 0, 0, 5, 6, 7, 8), np.moveaxis(colour, 0, -1)[5:12, 6:14])
    image = read_image(write_zarr(tmp_path / "vol.zarr", [VOLUME[None, None]], "tczyx"))
    np.testing.assert_array_equal(image.tile(0, 39, 0, 1, 2, 3, 4), VOLUME[1:4, 2:6, 39])


def test_other_channels_are_joined_to_their_mean_and_kept_apart(tmp_path: Path):
    """Five channels: grey is their mean, said so; apart they are those written, with the names of the description."""
    five = RNG.integers(0, 60000, (5, 30, 40)).astype(np.uint16)
    five[3] //= 100
    folder = write_zarr(tmp_path / "five.zarr", [five], "cyx")
    description = json.loads((folder / ".zattrs").read_text())
    description["omero"] = {"channels": [{"label": name} for name in ("DAPI", "CD3", "", "CD20", "Ki67")]}
    (folder / ".zattrs").write_text(json.dumps(description))
    image = read_image(folder)
    assert image.channels == 1
    np.testing.assert_allclose(image.read(), five.astype(float).sum(axis=0) / 5, rtol=1e-6)
    assert any("5 channels (DAPI, CD3, channel 3, CD20, Ki67); their mean" in s for s in image.assumptions)
    assert image.apart is not None
    assert image.apart.channel_names == ("DAPI", "CD3", "channel 3", "CD20", "Ki67")
    np.testing.assert_array_equal(image.apart.tile(2, 0, 0, 5, 6, 7, 8), np.moveaxis(five, 0, -1)[5:12, 6:14])
    np.testing.assert_array_equal(image.apart.channel_percentiles((0, 100)), [[c.min(), c.max()] for c in five])


def test_a_tile_reads_only_its_chunks(tmp_path: Path):
    """With every other chunk destroyed, a tile within a good one is still read: the others are not touched."""
    folder = write_zarr(tmp_path / "x.zarr", [PLANE])
    image = read_image(folder)
    for chunk in (folder / "s0").iterdir():
        if chunk.name not in ("1.2", ".zarray", ".zattrs"):
            chunk.write_bytes(b"broken")
    np.testing.assert_array_equal(image.tile(2, 0, 0, 64, 128, 64, 64), PLANE[64:128, 128:192])
    with pytest.raises(FileFormatError, match=r"'x\.zarr' cannot be read as OME-Zarr"):
        image.read()


def test_big_endian_and_bool_samples(tmp_path: Path):
    """The other byte order comes in the machine's own, and booleans as 0 and 1."""
    image = read_image(write_zarr(tmp_path / "b.zarr", [PLANE.astype(">u2")]))
    assert image.dtype.isnative
    assert image.read().dtype == image.dtype == np.uint16
    np.testing.assert_array_equal(image.read(), PLANE)
    image = read_image(write_zarr(tmp_path / "m.zarr", [PLANE > 5000]))
    assert image.read().dtype == image.dtype == np.uint8
    np.testing.assert_array_equal(image.read(), (PLANE > 5000).astype(int))


def test_hash_covers_all_files(tmp_path: Path):
    """The hash changes with one chunk, and not with the folder's place."""
    a, b = (read_image(write_zarr(tmp_path / name / "x.zarr", [PLANE])).content_hash for name in ("one", "two"))
    assert a == b
    (tmp_path / "one/x.zarr/s0/0.0").write_bytes(b"other")
    assert read_image(tmp_path / "one/x.zarr").content_hash != a


@pytest.mark.parametrize(
    ("shape", "axes", "reason"),
    [
        ((2, 8, 8), "tyx", "2 time points.*extract one"),
        ((65, 8, 8), "cyx", "65 channels, but at most 64"),
        ((3, 4, 8, 8), "czyx", "3 channels in 3D"),
        ((8, 8), "xy", "spatial axes"),
        ((8, 8), "zy", "spatial axes"),
        ((8, 8), "yq", "t, c, z, y, x are expected"),
        ((8, 8), "zyx", r"shape \(8, 8\) for the axes"),
    ],
)
def test_axes_that_are_refused(tmp_path: Path, shape: tuple[int, ...], axes: str, reason: str):
    """More than one image, or other axes, get a sentence that says what to do."""
    folder = write_zarr(tmp_path / "x.zarr", [np.zeros(shape, np.uint8)], axes)
    with pytest.raises(FileFormatError, match=reason):
        read_image(folder)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        ({"version": "0.3"}, "version '0.3'"),
        ({"datasets": []}, "no proper list of datasets"),
        ({"datasets": [{"path": "../x.zarr/s0"}]}, "not inside its folder"),
        ({"datasets": [{"path": "/etc"}]}, "not inside its folder"),
        ({"datasets": [{"path": "s9"}]}, "'s9', which is missing"),
        ({"axes": ["y", "x"]}, "no proper list of axes"),
        ({"coordinateTransformations": [{"type": "affine"}]}, "a scale or a translation"),
        ({"coordinateTransformations": [{"type": "scale", "scale": [1, -1]}]}, "not positive"),
        ({"coordinateTransformations": [{"type": "scale", "scale": [1]}]}, "2 finite numbers"),
        ({"coordinateTransformations": 7}, "not a list"),
    ],
)
def test_descriptions_that_are_refused(tmp_path: Path, edit: dict[str, Any], reason: str):
    """Damaged descriptions get one sentence."""
    folder = write_zarr(tmp_path / "x.zarr", [PLANE])
    attributes = json.loads((folder / ".zattrs").read_text())
    attributes["multiscales"][0].update(edit)
    (folder / ".zattrs").write_text(json.dumps(attributes))
    with pytest.raises(FileFormatError, match=reason):
        read_image(folder)


def test_bare_arrays_and_plates_are_refused(tmp_path: Path):
    """A Zarr array without a description, and a group of images, are named for what they are."""
    zarr.save_array(tmp_path / "bare.zarr", PLANE, zarr_format=2)
    with pytest.raises(FileFormatError, match="bare Zarr array"):
        read_image(tmp_path / "bare.zarr")
    zarr.open_group(tmp_path / "plate.zarr", mode="w", zarr_format=2).attrs["plate"] = {"wells": []}
    with pytest.raises(FileFormatError, match="give the folder of one image in it"):
        read_image(tmp_path / "plate.zarr")


@pytest.mark.parametrize("shards", [None, (128, 128)])
def test_truncated_blosc_chunks_are_refused(tmp_path: Path, shards: tuple[int, int] | None):
    """Blosc chunks of Zarr 3, alone or in shards, are read, and refused once their header and length disagree."""
    folder = write_zarr(tmp_path / "x.zarr", [PLANE], version="0.5")
    group = zarr.open_group(folder, mode="a")
    blosc = zarr.codecs.BloscCodec(cname="lz4", typesize=2)
    group.create_array("s0", data=PLANE, chunks=(64, 64), shards=shards, compressors=[blosc], overwrite=True)
    np.testing.assert_array_equal(read_image(folder).read(), PLANE)
    chunk = folder / "s0/c/0/0"
    data = bytearray(chunk.read_bytes())
    # The first chunk's header has its own length in bytes 12 to 15.
    length = int.from_bytes(data[12:16], "little")
    data[12:16] = (length + 4096).to_bytes(4, "little")
    chunk.write_bytes(bytes(data))
    with pytest.raises(FileFormatError, match=f"a Blosc chunk has {length} bytes but its header says {length + 4096}"):
        read_image(folder).read()
    description = read_image(folder)
    np.testing.assert_array_equal(description.tile(2, 0, 0, 200, 200, 50, 50), PLANE[200:250, 200:250])


def test_mixed_units_identity_and_no_scale(tmp_path: Path):
    """Axes of different units become um, identity changes nothing, and a scale of 1 without unit is px."""
    folder = write_zarr(
        tmp_path / "x.zarr", [PLANE], transforms=[[{"type": "identity"}, {"type": "scale", "scale": [2, 3]}]]
    )
    attributes = json.loads((folder / ".zattrs").read_text())
    attributes["multiscales"][0]["axes"][0]["unit"] = "millimeter"
    attributes["multiscales"].append({})
    (folder / ".zattrs").write_text(json.dumps(attributes))
    image = read_image(folder)
    assert image.grid.units == "um"
    np.testing.assert_array_equal(image.grid.spacing, [3, 2000])
    assert any("2 multiscale images" in s for s in image.assumptions)
    attributes["multiscales"][0]["axes"][0]["unit"] = "furlong"
    (folder / ".zattrs").write_text(json.dumps(attributes))
    assert any("not lengths" in s for s in read_image(folder).assumptions)
    image = read_image(
        write_zarr(tmp_path / "y.zarr", [PLANE], unit=None, transforms=[[{"type": "scale", "scale": [1, 1]}]])
    )
    assert "The file has no physical spacing: spacing 1 and units px." in image.assumptions


def test_levels_that_do_not_fit(tmp_path: Path):
    """Levels of different type or channels, and samples that are no numbers, are refused."""
    with pytest.raises(FileFormatError, match="levels of different types"):
        read_image(write_zarr(tmp_path / "a.zarr", [PLANE, PLANE.astype(np.float32)]))
    with pytest.raises(FileFormatError, match="different numbers of channels"):
        read_image(write_zarr(tmp_path / "b.zarr", [PLANE[None], np.stack([PLANE] * 3)], "cyx"))
    with pytest.raises(FileFormatError, match="elements of type"):
        read_image(write_zarr(tmp_path / "c.zarr", [PLANE.astype(np.complex64)]))
