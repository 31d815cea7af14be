"""PNG and JPEG by Pillow, and PNG with 16 bits per colour by imagecodecs (Pillow would cut them to 8)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import quiet, read_head, require
from warpgauge.io.images.frame import Frame
from warpgauge.io.images.orientation import ORIENTATION_TAG, orientation_note, oriented, oriented_size
from warpgauge.io.images.samples import kept
from warpgauge.io.images.stored import Array, StoredImage, StoredLevel
from warpgauge.io.limits import INFLATION, check_memory

# The most that one byte can unfold to; for JPEG one bit per block of 64 samples, with room to spare.
_EXPANSION = {"PNG": INFLATION, "JPEG": 4096}
_END = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9"}
# Chunks of text of a PNG, and the beginnings of those that may hold an orientation.
_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_TEXTS_OF_ORIENTATION = (b"Raw profile type exif", b"XML:com.adobe.xmp")
# What is done to the modes of Pillow that are neither grey nor red, green, blue.
_TOLD = {
    "P": "The palette is turned into red, green, blue.",
    "1": "The two levels of a bilevel image are read as 0 and 255.",
    **dict.fromkeys(("LA", "PA", "RGBA"), "The alpha channel is dropped."),
}


def open_png(path: Path) -> StoredImage:
    """Describe a PNG file."""
    return _open(path, "PNG", require("PIL.PngImagePlugin", "images").PngImageFile)


def open_jpeg(path: Path) -> StoredImage:
    """Describe a JPEG file."""
    return _open(path, "JPEG", require("PIL.JpegImagePlugin", "images").JpegImageFile)


def _open(path: Path, name: str, plugin: Callable[..., Any]) -> StoredImage:
    # Bits per sample and colour type of a PNG; several channels of 16 bits are deep.
    bits, colour = read_head(path, 26)[24:] if name == "PNG" else (8, 0)
    deep = bits == 16 and colour in (2, 4, 6)
    with path.open("rb") as stream, plugin(stream) as picture:
        if picture.mode in ("CMYK", "YCCK"):
            raise FileFormatError(f"{path.name!r} is in CMYK, the colours of a printer; save it in RGB.")
        _check_size(path, name, picture, deep)
        dtype = np.dtype(np.uint16 if deep or picture.mode.startswith("I") else np.uint8)
        grey = colour == 4 if deep else picture.mode.startswith("I") or picture.mode in ("1", "L", "LA")
        notes = _notes(picture)
        if name == "PNG" and "exif" not in picture.info:
            _find_late_exif(path, picture)
        orientation = _orientation(picture, notes)
        size = oriented_size(picture.size, orientation)
        printed = _printed(picture) if name == "JPEG" else None

    def load() -> Array:
        return oriented(_decode_deep(path) if deep else _decode(path, plugin), orientation)

    read = kept(load)
    with path.open("rb") as stream:
        stream.seek(-min(path.stat().st_size, 64), 2)
        whole = _END[name] in stream.read()
    if not whole:
        read((slice(0, 1), slice(0, 1)))  # without its end mark it is probably truncated: find out now
    level = StoredLevel.full(size, read)
    return StoredImage(path, name, Frame(size, printed=printed), dtype, 1 if grey else 3, (level,), (path,), notes)


def _check_size(path: Path, name: str, picture: Any, deep: bool) -> None:
    """Hold the promised size against the bytes of the file, before a decoder allocates it."""
    width, height = picture.size
    promised = int(width) * int(height)
    size = path.stat().st_size
    if promised < 1 or promised > size * _EXPANSION[name] * (8 if picture.mode == "1" else 1):
        raise FileFormatError(
            f"{path.name!r} promises {width} x {height} pixels, which its {size} bytes cannot hold; it is truncated or "
            f"damaged."
        )
    # The decoder's own picture and the array made of it.
    channels = max(len(picture.getbands()), 3 if picture.mode == "P" else 1)
    check_memory(path.name, 2 * promised * channels * (2 if deep or picture.mode.startswith("I") else 1), size)


def _find_late_exif(path: Path, picture: Any) -> None:
    """Add the orientation that a PNG states after its samples, which Pillow would decode to get there."""
    samples = False
    place = 8
    with path.open("rb") as stream:
        while stream.seek(place) == place and len(head := stream.read(8)) == 8:
            length = int.from_bytes(head[:4], "big")
            if samples and head[4:] == b"eXIf":
                picture.info["exif"] = b"Exif\0\0" + stream.read(length)
                return
            if samples and head[4:] in _TEXTS and stream.read(24).startswith(_TEXTS_OF_ORIENTATION):
                picture.load()
                return
            samples = samples or head[4:] == b"IDAT"
            place += 12 + length  # length, kind and checksum


def _orientation(picture: Any, notes: list[str]) -> int:
    from PIL.Image import Image

    try:
        # Not the method of a PNG: it decodes all samples.
        value = Image.getexif(picture).get(ORIENTATION_TAG, 1)
    except Exception:  # Pillow's parser of EXIF raises many things, and a good picture may carry damaged EXIF
        notes.append("The EXIF data are damaged, so no orientation is applied.")
        return 1
    orientation = int(value) if isinstance(value, int) and 1 <= value <= 8 else 1
    if orientation != 1:
        notes.append(orientation_note("EXIF", orientation))
    return orientation


def _notes(picture: Any) -> list[str]:
    notes = [_TOLD[picture.mode]] if picture.mode in _TOLD else []
    if "transparency" in picture.info and picture.mode not in ("LA", "PA", "RGBA"):
        notes.append("The transparency is dropped.")
    if "icc_profile" in picture.info:
        notes.append("The colour profile is not applied.")
    if getattr(picture, "n_frames", 1) > 1:
        notes.append(f"Only the first of {picture.n_frames} frames is read.")
    if "dpi" in picture.info:
        dpi = picture.info["dpi"]
        notes.append(f"The print resolution of {dpi[0]:.0f} x {dpi[1]:.0f} dpi is not taken for a physical spacing.")
    return notes


def _printed(picture: Any) -> tuple[float, float] | None:
    """Return the size of a pixel in print, in mm; ITK takes that of a JPEG for a spacing."""
    per_inch = [float(value) for value in picture.info.get("dpi", ())]
    if len(per_inch) != 2 or not all(np.isfinite(value) and value > 0 for value in per_inch):
        return None
    return 25.4 / per_inch[0], 25.4 / per_inch[1]


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
