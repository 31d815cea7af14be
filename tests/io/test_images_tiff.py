"""TIFF and OME-TIFF against tifffile and Pillow: cuts, colours, pyramids, pixel sizes; and what a tile costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow
from PIL import ImageOps

from warpgauge.errors import AmbiguousFileError, FileFormatError
from warpgauge.io.images import Image, read_image

RNG = np.random.default_rng(0)
GREY8 = RNG.integers(0, 256, (100, 130)).astype(np.uint8)
GREY16 = RNG.integers(0, 65536, (100, 130)).astype(np.uint16)
COLOUR = RNG.integers(0, 256, (100, 130, 3)).astype(np.uint8)
FLOAT = RNG.normal(size=(100, 130)).astype(np.float32)


def said(image: Image, words: str) -> bool:
    return any(words in sentence for sentence in image.assumptions)


CUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "strips": {"rowsperstrip": 7},
    "packed strips": {"rowsperstrip": 7, "compression": "zlib"},
    "tiles": {"tile": (32, 48)},
    "packed tiles": {"tile": (32, 48), "compression": "zlib", "predictor": True},
    "lzw tiles": {"tile": (32, 48), "compression": "lzw"},
    "packbits": {"rowsperstrip": 11, "compression": "packbits"},
    "zstd": {"tile": (16, 16), "compression": "zstd"},
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", ["grey8", "grey16", "colour", "float", "big-endian", "bigtiff"])
def test_every_cut_gives_the_samples_that_were_written(tmp_path: Path, cut: str, kind: str):
    """Whole and in parts that straddle the tiles, the samples are those that were written."""
    array = {"grey8": GREY8, "colour": COLOUR, "float": FLOAT}.get(kind, GREY16)
    file = tmp_path / "x.tif"
    more = {"byteorder": ">"} if kind == "big-endian" else {"bigtiff": True} if kind == "bigtiff" else {}
    photometric = "rgb" if kind == "colour" else "minisblack"
    tifffile.imwrite(file, array, photometric=photometric, **more, **CUTS[cut])
    image = read_image(file)
    assert image.grid.size == (130, 100)
    assert (image.dtype, image.channels) == (array.dtype, 3 if kind == "colour" else 1)
    assert image.read().dtype == array.dtype
    np.testing.assert_array_equal(image.read(), array)
    for y, x, h, w in ((0, 0, 1, 1), (31, 47, 2, 2), (5, 90, 95, 40), (99, 0, 1, 130)):
        np.testing.assert_array_equal(image.tile(2, 0, 0, y, x, h, w), array[y : y + h, x : x + w])


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_separate_planes(tmp_path: Path, compression: str | None):
    """Colours stored plane by plane come as [y, x, c]."""
    file = tmp_path / "x.tif"
    for tile in (None, (32, 48)):
        tifffile.imwrite(
            file,
            np.moveaxis(COLOUR, -1, 0),
            photometric="rgb",
            planarconfig="separate",
            tile=tile,
            compression=compression,
        )
        image = read_image(file)
        np.testing.assert_array_equal(image.read(), COLOUR)
        np.testing.assert_array_equal(image.tile(2, 0, 0, 30, 40, 20, 30), COLOUR[30:50, 40:70])


def test_jpeg_in_tiff_is_rgb(tmp_path: Path):
    """JPEG tiles, stored as YCbCr with shared tables, come as the RGB that tifffile decodes."""
    smooth = np.stack([*np.meshgrid(np.arange(130), np.arange(100)), np.full((100, 130), 77)], axis=-1).astype(np.uint8)
    file = tmp_path / "x.tif"
    tifffile.imwrite(file, smooth, photometric="rgb", tile=(32, 48), compression="jpeg", compressionargs={"level": 95})
    image = read_image(file)
    np.testing.assert_array_equal(image.read(), tifffile.imread(file))
    assert np.mean(np.abs(image.read().astype(int) - smooth)) < 2  # JPEG's loss; YCbCr taken for RGB is off by dozens


def test_alpha_is_dropped(tmp_path: Path):
    """A fourth sample, or the second of grey, is dropped and the image says so."""
    file = tmp_path / "x.tif"
    tifffile.imwrite(file, np.dstack([COLOUR, GREY8]), photometric="rgb", extrasamples=["unassalpha"])
    np.testing.assert_array_equal(read_image(file).read(), COLOUR)
    assert said(read_image(file), "alpha")
    tifffile.imwrite(
        file,
        np.dstack([GREY8, GREY8 // 2]),
        photometric="minisblack",
        extrasamples=["unassalpha"],
        planarconfig="contig",
    )
    np.testing.assert_array_equal(read_image(file).read(), GREY8)
    assert said(read_image(file), "alpha")


def test_palette_bilevel_and_white_is_zero_as_pillow_shows_them(tmp_path: Path):
    """Each is turned into what a viewer shows, with a sentence."""
    file = tmp_path / "x.tif"
    Pillow.fromarray(COLOUR).quantize(16).save(file)
    with Pillow.open(file) as reference:
        np.testing.assert_array_equal(read_image(file).read(), np.asarray(reference.convert("RGB")))
    assert said(read_image(file), "palette")

    Pillow.fromarray(COLOUR).convert("CMYK").save(file)
    with pytest.raises(FileFormatError, match="photometric interpretation 5"):
        read_image(file)

    Pillow.fromarray(GREY8 > 127).save(file)
    np.testing.assert_array_equal(read_image(file).read(), np.where(GREY8 > 127, 255, 0))
    assert read_image(file).dtype == np.uint8

    tifffile.imwrite(file, GREY8, photometric="miniswhite")
    with Pillow.open(file) as reference:
        np.testing.assert_array_equal(read_image(file).read(), np.asarray(reference))
    np.testing.assert_array_equal(read_image(file).read(), 255 - GREY8)
    assert said(read_image(file), "inverted")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_by_tile(tmp_path: Path, orientation: int):
    """All eight orientations show what Pillow shows upright, also in a tile that is read alone."""
    file = tmp_path / "x.tif"
    tifffile.imwrite(file, COLOUR, photometric="rgb", tile=(32, 48), extratags=[(274, "H", 1, orientation, True)])
    exif = Pillow.Exif()
    exif[274] = orientation
    picture = Pillow.fromarray(COLOUR)
    picture.getexif()[274] = orientation
    upright = np.asarray(ImageOps.exif_transpose(picture))
    image = read_image(file)
    assert image.grid.shape == upright.shape[:2]
    np.testing.assert_array_equal(image.read(), upright)
    np.testing.assert_array_equal(image.tile(2, 0, 0, 10, 20, 30, 40), upright[10:40, 20:60])


def pyramid(file: Path, array: np.ndarray, **kwargs: Any) -> list[np.ndarray]:
    """Write a tiled pyramid of two further levels, in SubIFDs."""
    levels = [array, array[: array.shape[0] // 2 * 2 : 2, : array.shape[1] // 2 * 2 : 2]]
    levels.append(levels[1][: levels[1].shape[0] // 2 * 2 : 2, : levels[1].shape[1] // 2 * 2 : 2])
    options = {"photometric": "rgb", "tile": (64, 64), "compression": "zlib"}
    with tifffile.TiffWriter(file) as writer:
        writer.write(levels[0], subifds=2, **options, **kwargs)
        for level in levels[1:]:
            writer.write(level, subfiletype=1, **options)
    return levels


def test_levels_of_the_file_are_used_and_cover_the_same_extent(tmp_path: Path):
    """A pyramid's own levels are read, and made ones follow them; outer corners stay within a pixel of the level."""
    array = RNG.integers(0, 256, (1203, 1401, 3)).astype(np.uint8)
    levels = pyramid(
        tmp_path / "x.ome.tif", array, metadata={"axes": "YXS", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.25}
    )
    image = read_image(tmp_path / "x.ome.tif")
    assert image.format == "OME-TIFF"
    assert [image.level_grid(i).size for i in range(image.levels)] == [(1401, 1203), (700, 601), (350, 300), (175, 150)]
    for i, level in enumerate(levels):
        np.testing.assert_array_equal(image.read(i), level)
        grid = image.level_grid(i)
        np.testing.assert_array_equal(grid.spacing, np.array([0.5, 0.25]) * 2**i)
        # The outer edge of the first pixel is the same at every level.
        np.testing.assert_allclose(grid.index_to_world([-0.5, -0.5]), image.grid.index_to_world([-0.5, -0.5]))
    top = image.level_grid(3)
    np.testing.assert_allclose(top.spacing, [4.0, 2.0])
    expected = levels[2].astype(float).reshape(150, 2, 175, 2, 3).mean(axis=(1, 3))
    np.testing.assert_array_equal(image.read(3), np.rint(expected))


@pytest.mark.parametrize(
    ("metadata", "spacing", "units"),
    [
        ({"X": 0.25, "Y": 0.5}, [0.25, 0.5], "um"),
        ({"X": 0.25, "XUnit": "µm", "Y": 0.5, "YUnit": "µm"}, [0.25, 0.5], "um"),
        ({"X": 250, "XUnit": "nm", "Y": 500, "YUnit": "nm"}, [0.25, 0.5], "um"),
        ({"X": 0.1, "XUnit": "mm", "Y": 0.2, "YUnit": "mm"}, [0.1, 0.2], "mm"),
        ({"X": 0.1, "XUnit": "mm", "Y": 200, "YUnit": "µm"}, [100, 200], "um"),
        ({"X": 2, "XUnit": "pixel", "Y": 2, "YUnit": "pixel"}, [1, 1], "px"),
        ({"X": 2}, [1, 1], "px"),
        ({}, [1, 1], "px"),
    ],
)
def test_ome_pixel_size(tmp_path: Path, metadata: dict[str, Any], spacing: list[float], units: str):
    """OME's physical size and unit become the grid's; what is no length becomes px."""
    physical = {f"PhysicalSize{key}": value for key, value in metadata.items()}
    tifffile.imwrite(tmp_path / "x.ome.tif", GREY8, metadata={"axes": "YX", **physical})
    grid = read_image(tmp_path / "x.ome.tif").grid
    np.testing.assert_allclose(grid.spacing, spacing)
    assert grid.units == units


@pytest.mark.parametrize(
    ("resolution", "unit", "spacing", "units"),
    [
        ((40000, 40000), "CENTIMETER", [0.25, 0.25], "um"),
        ((20000, 10000), "CENTIMETER", [0.5, 1.0], "um"),
        ((50800, 50800), "INCH", [0.5, 0.5], "um"),
        ((72, 72), "INCH", [1, 1], "px"),
        ((96, 96), "INCH", [1, 1], "px"),
        ((300, 300), "INCH", [1, 1], "px"),
        ((40000, 40000), "NONE", [1, 1], "px"),
    ],
)
def test_resolution_tags(tmp_path: Path, resolution: tuple[int, int], unit: str, spacing: list[float], units: str):
    """A scanner's resolution is used and said; that of a print or screen, or without unit, is px."""
    tifffile.imwrite(tmp_path / "x.tif", GREY8, resolution=resolution, resolutionunit=unit, metadata=None)
    image = read_image(tmp_path / "x.tif")
    np.testing.assert_allclose(image.grid.spacing, spacing)
    assert image.grid.units == units
    assert said(image, "resolution tags") == (units == "um")
    assert said(image, "print or a screen") == (resolution[0] < 1000)


def test_imagej_and_aperio_descriptions(tmp_path: Path):
    """ImageJ's unit with its resolution, its slice distance, and Aperio's MPP give the pixel size."""
    volume = RNG.integers(0, 99, (5, 20, 30)).astype(np.uint16)
    file = tmp_path / "ij.tif"
    tifffile.imwrite(
        file, volume, imagej=True, resolution=(4, 2), metadata={"unit": "um", "spacing": 2.0, "axes": "ZYX"}
    )
    image = read_image(file)
    np.testing.assert_allclose(image.grid.spacing, [0.25, 0.5, 2.0])
    assert image.grid.units == "um"
    np.testing.assert_array_equal(image.read(), volume)
    file = tmp_path / "slide.svs"
    tifffile.imwrite(file, COLOUR, photometric="rgb", tile=(64, 64), metadata=None,
                     description="Aperio Image Library v1\r\n130x100|AppMag = 20|MPP = 0.499")  # fmt: skip
    image = read_image(file)
    np.testing.assert_allclose(image.grid.spacing, [0.499, 0.499])
    assert said(image, "MPP")


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_ome_slices_are_a_volume(tmp_path: Path, compression: str | None):
    """Z slices of an OME-TIFF are a volume, by plane and by tile."""
    volume = RNG.integers(0, 99, (5, 20, 30)).astype(np.uint16)
    sizes = {f"PhysicalSize{a}": s for a, s in zip("XYZ", (0.25, 0.5, 2.0), strict=True)}
    tifffile.imwrite(tmp_path / "x.ome.tif", volume, metadata={"axes": "ZYX", **sizes}, compression=compression)
    image = read_image(tmp_path / "x.ome.tif")
    assert image.grid.size == (30, 20, 5)
    np.testing.assert_allclose(image.grid.spacing, [0.25, 0.5, 2.0])
    np.testing.assert_array_equal(image.read(), volume)
    np.testing.assert_array_equal(image.plane(0, 29), volume[:, :, 29])
    np.testing.assert_array_equal(image.tile(2, 4, 0, 3, 5, 7, 9), volume[4, 3:10, 5:14])


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_three_channel_pages_are_colours(tmp_path: Path, compression: str | None):
    """Three channels as pages are read as red, green, blue, and the image says so."""
    planes = np.moveaxis(COLOUR, -1, 0)
    tifffile.imwrite(
        tmp_path / "x.ome.tif", planes, photometric="minisblack", metadata={"axes": "CYX"}, compression=compression
    )
    image = read_image(tmp_path / "x.ome.tif")
    np.testing.assert_array_equal(image.read(), COLOUR)
    assert said(image, "red, green, blue")


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("count", [2, 4, 5])
def test_other_channels_are_joined_to_their_mean_and_kept_apart(tmp_path: Path, compression: str | None, count: int):
    """As pages or as samples of one page: grey is the mean of all, four included; apart they are those written."""
    planes = np.random.default_rng(count).integers(0, 4000, (count, 40, 30)).astype(np.uint16)
    names = ["DAPI", "CD3 &amp; CD4", "CD8", "CD20", "Ki67"][:count]
    told = {"axes": "CYX", "Channel": {"Name": [name.replace("&amp;", "&") for name in names]}}
    tifffile.imwrite(tmp_path / "x.ome.tif", planes, photometric="minisblack", metadata=told, compression=compression)
    tifffile.imwrite(
        tmp_path / "y.tif", np.moveaxis(planes, 0, -1), photometric="minisblack", planarconfig="contig",
        compression=compression, metadata=None,
    )  # fmt: skip
    for name in ("x.ome.tif", "y.tif"):
        image = read_image(tmp_path / name)
        assert (image.channels, image.dtype) == (1, np.float32)
        np.testing.assert_allclose(image.read(), sum(plane.astype(float) for plane in planes) / count, rtol=1e-6)
        assert image.apart is not None
        np.testing.assert_array_equal(image.apart.read(), np.moveaxis(planes, 0, -1))
        assert said(image, f"{count} channels")
    found = read_image(tmp_path / "x.ome.tif").apart
    assert found is not None
    assert found.channel_names == ("DAPI", "CD3 & CD4", "CD8", "CD20", "Ki67")[:count]


def test_stacks_without_meaning_and_too_many_axes_are_refused(tmp_path: Path):
    """Pages that could be anything are ambiguous; time points, channels of volumes are named, with what to do."""
    stack = np.zeros((5, 20, 30), np.uint8)
    tifffile.imwrite(tmp_path / "stack.tif", stack, photometric="minisblack")
    with pytest.raises(AmbiguousFileError, match=r"Q of 5, Y of 20, X of 30.*save it as OME-TIFF with axes ZYX"):
        read_image(tmp_path / "stack.tif")
    for axes, array in (("TYX", stack), ("ZCYX", np.zeros((4, 5, 20, 30), np.uint8))):
        tifffile.imwrite(tmp_path / "x.ome.tif", array, photometric="minisblack", metadata={"axes": axes})
        with pytest.raises(FileFormatError, match=r"[TC] of 5.*save one time point, or one channel"):
            read_image(tmp_path / "x.ome.tif")
    tifffile.imwrite(tmp_path / "complex.tif", np.zeros((20, 30), np.complex64))
    with pytest.raises(FileFormatError, match="integers and floats"):
        read_image(tmp_path / "complex.tif")


def test_further_images_are_named(tmp_path: Path):
    """A label image in the same file is left alone, and the image says that there is one."""
    with tifffile.TiffWriter(tmp_path / "x.tif") as writer:
        writer.write(COLOUR, photometric="rgb", metadata=None)
        writer.write(GREY16[:50, :60], photometric="minisblack", metadata=None)
    image = read_image(tmp_path / "x.tif")
    np.testing.assert_array_equal(image.read(), COLOUR)
    assert said(image, "2 images")


def test_a_tile_reads_only_the_tiles_that_it_meets(tmp_path: Path):
    """With every other segment of the file destroyed, a tile within the good ones is read, in little memory."""
    import tracemalloc

    size, edge = 4096, 256
    array = RNG.integers(0, 256, (size, size)).astype(np.uint8)
    file = tmp_path / "big.tif"
    tifffile.imwrite(file, array, tile=(edge, edge), compression="zlib", photometric="minisblack")
    with tifffile.TiffFile(file) as opened:
        page = opened.pages[0]
    image = read_image(file)
    data = bytearray(file.read_bytes())
    good = [row * (size // edge) + column for row in (2, 3) for column in (3, 4)]
    for index, (offset, count) in enumerate(zip(page.dataoffsets, page.databytecounts, strict=True)):
        if index not in good:
            data[offset : offset + count] = b"\xff" * count
    file.write_bytes(data)
    for y, x in ((512, 768), (600, 900)):
        tracemalloc.start()
        tile = image.tile(2, 0, 0, y, x, edge, edge)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        np.testing.assert_array_equal(tile, array[y : y + edge, x : x + edge])
        assert peak < 16 * edge * edge < array.nbytes / 10
    with pytest.raises(FileFormatError):
        image.tile(2, 0, 0, 0, 0, edge, edge)


def test_a_made_level_is_made_in_bounded_memory(tmp_path: Path):
    """Halving a file of 96 MB holds blocks of it and the half, never the whole; the result is the mean of four."""
    import tracemalloc

    array = np.empty((12288, 8192), np.uint8)
    array[:] = np.add.outer(np.arange(12288) % 251, np.arange(8192) % 3)
    tifffile.imwrite(tmp_path / "x.tif", array, tile=(256, 256), photometric="minisblack")
    image = read_image(tmp_path / "x.tif")
    tracemalloc.start()
    tile = image.tile(2, 0, 1, 1000, 2000, 50, 60)
    coarse = image.tile(2, 0, 2, 500, 1000, 25, 30)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    part = array[2000:2100, 4000:4120].astype(float)
    means = np.rint(part.reshape(50, 2, 60, 2).mean(axis=(1, 3)))
    np.testing.assert_array_equal(tile, means)
    np.testing.assert_array_equal(coarse, np.rint(means.reshape(25, 2, 30, 2).mean(axis=(1, 3))))
    assert peak < array.nbytes


def test_sparse_tiles_are_filled(tmp_path: Path):
    """Tiles that a sparse file leaves out are zero."""
    file = tmp_path / "x.tif"
    tiles = (tile for tile in (GREY8[:32, :48], None, GREY8[:32, 96:130], None))

    def padded() -> Any:
        for tile in tiles:
            yield None if tile is None else np.pad(tile, [(0, 0), (0, 48 - tile.shape[1])])

    tifffile.imwrite(file, padded(), shape=(32, 190), dtype=np.uint8, tile=(32, 48), photometric="minisblack")
    array = read_image(file).read()
    np.testing.assert_array_equal(array[:, :48], GREY8[:32, :48])
    np.testing.assert_array_equal(array[:, 48:96], 0)
    np.testing.assert_array_equal(array[:, 96:130], GREY8[:32, 96:130])


def test_spacing_follows_a_swap_of_axes(tmp_path: Path):
    """Where an orientation exchanges rows and columns, so are the two spacings."""
    tags = [(274, "H", 1, 6, True)]
    tifffile.imwrite(
        tmp_path / "x.tif", GREY8, resolution=(20000, 10000), resolutionunit="CENTIMETER", metadata=None, extratags=tags
    )
    grid = read_image(tmp_path / "x.tif").grid
    assert grid.size == (100, 130)
    np.testing.assert_allclose(grid.spacing, [1.0, 0.5])


def test_descriptions_that_say_too_little_or_nonsense(tmp_path: Path):
    """An ImageJ stack without slice distance and Aperio without MPP are px; nonsense in OME is refused."""
    volume = np.zeros((5, 20, 30), np.uint16)
    file = tmp_path / "ij.tif"
    tifffile.imwrite(file, volume, imagej=True, resolution=(4, 2), metadata={"unit": "um", "axes": "ZYX"})
    assert read_image(file).grid.units == "px"
    assert said(read_image(file), "no distance between slices")
    tifffile.imwrite(file, volume[0], imagej=True, metadata={"unit": "parsec"})
    assert read_image(file).grid.units == "px"
    file = tmp_path / "x.svs"
    tifffile.imwrite(
        file, COLOUR, photometric="rgb", tile=(64, 64), metadata=None, description="Aperio Image Library v1"
    )
    assert read_image(file).grid.units == "px"
    for size in ("-1", "0", "many"):
        tifffile.imwrite(
            tmp_path / "x.ome.tif", GREY8, metadata={"axes": "YX", "PhysicalSizeX": 1.5, "PhysicalSizeY": 1}
        )
        data = (tmp_path / "x.ome.tif").read_bytes()
        assert b'PhysicalSizeX="1.5"' in data
        # The description keeps its length, so that no offset of the file moves.
        patched = data.replace(b'PhysicalSizeX="1.5"', f'PhysicalSizeX="{size}"'.encode().ljust(19)[:19])
        (tmp_path / "x.ome.tif").write_bytes(patched)
        if len(size) <= 3:
            with pytest.raises(FileFormatError, match="which no pixel has"):
                read_image(tmp_path / "x.ome.tif")


def test_levels_and_pages_that_do_not_fit(tmp_path: Path):
    """An OME description that promises more slices than the file has is refused with both numbers."""
    volume = RNG.integers(0, 99, (5, 20, 30)).astype(np.uint16)
    tifffile.imwrite(tmp_path / "x.ome.tif", volume, metadata={"axes": "ZYX"}, compression="zlib")
    data = (tmp_path / "x.ome.tif").read_bytes()
    assert data.count(b'SizeZ="5"') == 1
    (tmp_path / "x.ome.tif").write_bytes(data.replace(b'SizeZ="5"', b'SizeZ="7"'))
    with pytest.raises(FileFormatError, match="5 pages of the 7"):
        read_image(tmp_path / "x.ome.tif")
