"""PNG and JPEG by Pillow, and PNG with 16 bits per colour by imagecodecs (Pillow would cut them to 8)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import foreign_decoder, quiet, read_head, require
from warpgauge.io.images.frame import Frame
from warpgauge.io.images.orientation import orientation_note, oriented, oriented_size
from warpgauge.io.images.samples import kept
from warpgauge.io.images.stored import Array, StoredImage, StoredLevel
from warpgauge.io.limits import INFLATION, check_memory

# The most that one byte can unfold to; for JPEG one bit per block of 64 samples, with room to spare.
_EXPANSION = {"PNG": INFLATION, "JPEG": 4096}
_END = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9"}
_ORIENTATION_TAG = 274
# Chunks of text of a PNG, and the beginnings of those that may hold an orientation.
_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_TEXTS_OF_ORIENTATION = (b"Raw profile type exif", b"XML:com.adobe.xmp")


def open_png(path: Path) -> StoredImage:
    """Describe a PNG file."""
    require("PIL.Image", "images")
    from PIL.PngImagePlugin import PngImageFile

    return _open(path, "PNG", PngImageFile)


def open_jpeg(path: Path) -> StoredImage:
    """Describe a JPEG file."""
    require("PIL.Image", "images")
    from PIL.JpegImagePlugin import JpegImageFile

    return _open(path, "JPEG", JpegImageFile)


def _open(path: Path, name: str, plugin: Callable[..., Any]) -> StoredImage:
    notes: list[str] = []
    with foreign_decoder(path, name):
        with path.open("rb") as stream, plugin(stream) as picture:
            _check_size(path, name, picture)
            deep = _is_deep(path, name)
            dtype, channels = (np.dtype(np.uint16), _deep_channels(path)) if deep else _sample_kind(picture)
            if name == "PNG":
                _find_late_exif(path, picture)
            orientation = _orientation(picture, notes)
            width, height = oriented_size(picture.size, orientation)
            notes += _notes(picture, deep, orientation)

        def load() -> Array:
            array = _decode_deep(path) if deep else _decode(path, plugin)
            return oriented(array, orientation)

        read = kept(load)
        if not _has_end(path, name):
            read((slice(0, 1), slice(0, 1)))  # without its end mark it is probably truncated: find out now
    size = (width, height)
    return StoredImage(path, name, Frame(size), dtype, channels, (StoredLevel.full(size, read),), (path,), notes)


def _check_size(path: Path, name: str, picture: Any) -> None:
    """Hold the promised size against the bytes of the file, before a decoder allocates it."""
    width, height = picture.size
    promised = int(width) * int(height)
    possible = path.stat().st_size * _EXPANSION[name]
    if promised < 1 or promised > possible * (8 if picture.mode == "1" else 1):
        raise FileFormatError(
            f"{path.name!r} promises {width} x {height} pixels, which its {path.stat().st_size} bytes cannot hold; "
            f"it is truncated or damaged."
        )
    # The decoder's own picture and the array made of it.
    channels = max(len(picture.getbands()), 3 if picture.mode == "P" else 1)
    samples = promised * channels * (2 if picture.mode.startswith("I") or _is_deep(path, name) else 1)
    check_memory(path.name, 2 * samples, path.stat().st_size)


def _is_deep(path: Path, name: str) -> bool:
    """Return whether a PNG has 16 bits in each of several channels."""
    head = read_head(path, 26)
    return name == "PNG" and head[24] == 16 and head[25] in (2, 4, 6)


def _deep_channels(path: Path) -> int:
    return 1 if read_head(path, 26)[25] == 4 else 3


def _sample_kind(picture: Any) -> tuple[np.dtype[Any], int]:
    if picture.mode.startswith("I"):
        return np.dtype(np.uint16), 1
    return np.dtype(np.uint8), 1 if picture.mode in ("1", "L", "LA") else 3


def _find_late_exif(path: Path, picture: Any) -> None:
    """Add the orientation that a PNG states after its samples, which Pillow would decode to get there."""
    if "exif" in picture.info:
        return
    seen_samples, place = False, 8
    with path.open("rb") as stream:
        while stream.seek(place) == place and len(head := stream.read(8)) == 8:
            length, kind = int.from_bytes(head[:4], "big"), head[4:]
            if seen_samples and kind == b"eXIf":
                picture.info["exif"] = b"Exif\0\0" + stream.read(length)
                return
            if seen_samples and kind in _TEXTS and stream.read(24).startswith(_TEXTS_OF_ORIENTATION):
                picture.load()
                return
            seen_samples = seen_samples or kind == b"IDAT"
            place += 12 + length  # length, kind and checksum


def _orientation(picture: Any, notes: list[str]) -> int:
    from PIL.Image import Image

    try:
        # Not the method of a PNG: it decodes all samples.
        value = Image.getexif(picture).get(_ORIENTATION_TAG, 1)
    except Exception:  # Pillow's parser of EXIF raises many things, and a good picture may carry damaged EXIF
        notes.append("The EXIF data are damaged, so no orientation is applied.")
        return 1
    return int(value) if isinstance(value, int) and 1 <= value <= 8 else 1


def _notes(picture: Any, deep: bool, orientation: int) -> list[str]:
    notes = []
    if picture.mode == "P":
        notes.append("The palette is turned into red, green, blue.")
    if picture.mode == "1":
        notes.append("The two levels of a bilevel image are read as 0 and 255.")
    if picture.mode in ("CMYK", "YCCK"):
        notes.append("CMYK is turned into red, green, blue by the plain formula, without a colour profile.")
    if picture.mode in ("LA", "PA", "RGBA") or (deep and picture.mode in ("LA", "RGBA")):
        notes.append("The alpha channel is dropped.")
    elif "transparency" in picture.info:
        notes.append("The transparency is dropped.")
    if "icc_profile" in picture.info:
        notes.append("The colour profile is not applied.")
    if getattr(picture, "n_frames", 1) > 1:
        notes.append(f"Only the first of {picture.n_frames} frames is read.")
    if "dpi" in picture.info:
        dpi = picture.info["dpi"]
        notes.append(f"The print resolution of {dpi[0]:.0f} x {dpi[1]:.0f} dpi is not taken for a physical spacing.")
    if orientation != 1:
        notes.append(orientation_note("EXIF", orientation))
    return notes


def _decode(path: Path, plugin: Callable[..., Any]) -> Array:
    with path.open("rb") as stream, ExitStack() as stack:
        with quiet():
            picture = stack.enter_context(plugin(stream))
        picture.load()
        mode = picture.mode
        if mode in ("1", "LA"):
            return np.array(picture.convert("L"))
        if mode.startswith("I"):
            return np.array(picture).astype(np.uint16)
        return np.asarray(picture if mode in ("L", "RGB") else picture.convert("RGB"))


def _decode_deep(path: Path) -> Array:
    array: Array = require("imagecodecs", "images").png_decode(path.read_bytes())
    return array[..., 0] if array.shape[-1] == 2 else array[..., :3]


def _has_end(path: Path, name: str) -> bool:
    with path.open("rb") as stream:
        stream.seek(-min(path.stat().st_size, 64), 2)
        return _END[name] in stream.read()
