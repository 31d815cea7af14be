"""PNG and JPEG against Pillow: modes, depth, palettes, orientation."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageOps
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile

from warpgauge.errors import FileFormatError
from warpgauge.io.images import read_image

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (20, 31)).astype(np.uint8)
COLOUR = RNG.integers(0, 256, (20, 31, 3)).astype(np.uint8)


def said(image, words: str) -> bool:
    return any(words in sentence for sentence in image.assumptions)


def test_png_grey_and_colour_are_exact(tmp_path: Path):
    """8-bit grey and RGB come back as they were written, in the order red, green, blue, in pixels."""
    Pillow.fromarray(GREY).save(tmp_path / "g.png")
    Pillow.fromarray(COLOUR).save(tmp_path / "c.png")
    grey, colour = read_image(tmp_path / "g.png"), read_image(tmp_path / "c.png")
    assert (grey.channels, colour.channels, grey.format) == (1, 3, "PNG")
    assert grey.grid.size == (31, 20)
    assert (grey.grid.units, grey.grid.spacing.tolist()) == ("px", [1, 1])
    np.testing.assert_array_equal(grey.read(), GREY)
    np.testing.assert_array_equal(colour.read(), COLOUR)
    np.testing.assert_array_equal(colour.tile(2, 0, 0, 3, 4, 5, 6), COLOUR[3:8, 4:10])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_of_16_bits_keeps_them(tmp_path: Path, channels: int):
    """16-bit samples are not cut to 8, whatever the number of channels; alpha is dropped and said."""
    array = RNG.integers(0, 65536, (20, 31, channels)).astype(np.uint16)
    file = tmp_path / "x.png"
    file.write_bytes(imagecodecs.png_encode(array if channels > 1 else array[..., 0]))
    image = read_image(file)
    assert image.dtype == image.read().dtype == np.uint16
    expected = array[..., 0] if channels < 3 else array[..., :3]
    np.testing.assert_array_equal(image.read(), expected)
    assert said(image, "alpha") == (channels in (2, 4))


def test_png_alpha_palette_bilevel_and_key_colour(tmp_path: Path):
    """Alpha is dropped, palettes become colours, two levels become 0 and 255, each with a sentence."""
    rgba = np.dstack([COLOUR, GREY])
    Pillow.fromarray(rgba).save(tmp_path / "rgba.png")
    image = read_image(tmp_path / "rgba.png")
    np.testing.assert_array_equal(image.read(), COLOUR)
    assert said(image, "alpha channel is dropped")

    Pillow.merge("LA", [Pillow.fromarray(GREY), Pillow.fromarray(255 - GREY)]).save(tmp_path / "la.png")
    np.testing.assert_array_equal(read_image(tmp_path / "la.png").read(), GREY)

    palette = Pillow.fromarray(COLOUR).quantize(16)
    palette.save(tmp_path / "p.png")
    image = read_image(tmp_path / "p.png")
    np.testing.assert_array_equal(image.read(), np.asarray(palette.convert("RGB")))
    assert image.channels == 3
    assert said(image, "palette")

    Pillow.fromarray(GREY > 127).save(tmp_path / "b.png")
    image = read_image(tmp_path / "b.png")
    np.testing.assert_array_equal(image.read(), np.where(GREY > 127, 255, 0))
    assert (image.dtype, image.channels) == (np.uint8, 1)

    Pillow.fromarray(COLOUR).save(tmp_path / "t.png", transparency=(1, 2, 3))
    image = read_image(tmp_path / "t.png")
    np.testing.assert_array_equal(image.read(), COLOUR)
    assert said(image, "transparency is dropped")


def test_print_resolution_is_no_spacing(tmp_path: Path):
    """A dpi value of a PNG or JPEG does not become a physical spacing, and the image says so."""
    for name in ("x.png", "x.jpg"):
        Pillow.fromarray(GREY).save(tmp_path / name, dpi=(300, 300))
        image = read_image(tmp_path / name)
        assert image.grid.units == "px"
        assert said(image, "300")


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_jpeg_modes_decode_like_pillow(tmp_path: Path, mode: str):
    """Grey and colour JPEG equal Pillow's decoding."""
    Pillow.fromarray(COLOUR).resize((62, 40)).convert(mode).save(tmp_path / "x.jpg", quality=95)
    image = read_image(tmp_path / "x.jpg")
    with Pillow.open(tmp_path / "x.jpg") as reference:
        np.testing.assert_array_equal(image.read(), np.asarray(reference))
    assert image.channels == (1 if mode == "L" else 3)


def test_cmyk_is_refused(tmp_path: Path):
    Pillow.fromarray(COLOUR).convert("CMYK").save(tmp_path / "x.jpg")
    with pytest.raises(FileFormatError, match="save it in RGB"):
        read_image(tmp_path / "x.jpg")


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", [".jpg", ".png"])
def test_exif_orientation_is_applied_as_viewers_do(tmp_path: Path, orientation: int, ending: str):
    """All eight orientations equal Pillow's upright image, size and grid included, and the image says so."""
    picture = Pillow.fromarray(COLOUR)
    exif = picture.getexif()
    exif[274] = orientation
    file = tmp_path / f"x{ending}"
    picture.save(file, exif=exif)
    image = read_image(file)
    with Pillow.open(file) as reference:
        upright = ImageOps.exif_transpose(reference)
        np.testing.assert_array_equal(image.read(), np.asarray(upright))
        assert image.grid.size == upright.size
    assert said(image, f"EXIF orientation {orientation} is applied") == (orientation != 1)


def test_large_pictures_are_no_bombs(tmp_path: Path):
    """A slide of 184 million pixels opens, though Pillow's own limit of 179 would refuse it."""
    file = tmp_path / "big.png"
    raw = zlib.compress(b"\0" * (13601 * 13600), 1)  # rows of a filter byte and zeros
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 13600, 13600, 8, 0, 0, 0, 0)), (b"IDAT", raw), (b"IEND", b"")]
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    assert read_image(file).grid.size == (13600, 13600)


def test_profiles_and_frames_are_named(tmp_path: Path):
    """A colour profile that is not applied, and frames that are not read, are said."""
    Pillow.fromarray(COLOUR).save(tmp_path / "x.png", icc_profile=b"0" * 128)
    assert said(read_image(tmp_path / "x.png"), "colour profile is not applied")
    frames = [Pillow.fromarray(COLOUR), Pillow.fromarray(COLOUR // 2)]
    frames[0].save(tmp_path / "a.png", save_all=True, append_images=frames[1:])
    image = read_image(tmp_path / "a.png")
    assert said(image, "Only the first of 2 frames")
    np.testing.assert_array_equal(image.read(), COLOUR)


def test_damaged_exif_does_not_cost_the_picture(tmp_path: Path):
    """A picture with broken EXIF data is read as it is stored."""
    Pillow.fromarray(GREY).save(tmp_path / "x.jpg", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    expected = imagecodecs.jpeg_decode((tmp_path / "x.jpg").read_bytes())
    np.testing.assert_array_equal(read_image(tmp_path / "x.jpg").read(), expected)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_an_orientation_after_the_samples_is_found(tmp_path: Path):
    """A PNG may say it at its end, after other texts."""
    exif = Pillow.Exif()
    exif[274] = 6
    late = _chunk(b"tEXt", b"Comment\0none") + _chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0"))
    Pillow.fromarray(GREY).save(tmp_path / "x.png")
    data = (tmp_path / "x.png").read_bytes()
    (tmp_path / "x.png").write_bytes(data[:-12] + late + data[-12:])
    image = read_image(tmp_path / "x.png")
    assert said(image, "EXIF orientation 6 is applied")
    np.testing.assert_array_equal(image.read(), np.rot90(GREY, -1))


def test_describing_a_picture_decodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    Pillow.fromarray(GREY).save(tmp_path / "x.png")
    Pillow.fromarray(GREY).save(tmp_path / "x.jpg")

    def refuse(_: object) -> None:
        raise AssertionError("decoded")

    for kind in (PngImageFile, JpegImageFile):
        monkeypatch.setattr(kind, "load", refuse)
    assert read_image(tmp_path / "x.png").grid.size == read_image(tmp_path / "x.jpg").grid.size == GREY.shape[::-1]
