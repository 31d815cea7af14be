"""Detection of a transform file's format from its content; the name decides only if the content cannot."""

from __future__ import annotations

import re
from pathlib import Path

from warpgauge.errors import FileFormatError
from warpgauge.io.files import existing_file, foreign_decoder, read_head
from warpgauge.io.images.metaimage import looks_like_metaimage
from warpgauge.io.images.nifti import nifti_header
from warpgauge.io.images.samples import gzip_head
from warpgauge.io.transforms import itk
from warpgauge.io.transforms.ants import looks_like_mat4
from warpgauge.io.transforms.mapped_points import TRANSFORMIX
from warpgauge.io.zarr_arrays import DESCRIPTIONS

FORMATS = (
    "elastix",
    "itk",
    "ants",
    "nifti",
    "nrrd",
    "metaimage",
    "numpy",
    "zarr",
    "learn2reg",
    "fsl",
    "matrix",
    "points",
    "callable",
)
_HEAD = 4096
_GZIP = b"\x1f\x8b"
_ELASTIX = re.compile(rb"^\s*\(\s*[A-Za-z]\w*\s+\S", re.MULTILINE)
_TOML = re.compile(rb"^\s*[A-Za-z]\w*\s*=\s*\S", re.MULTILINE)
# Each alternative starts with other bytes, so that no input can make the search go back and forth.
_NUMBERS = re.compile(rb"(?:#[^\n]*\n|[-+0-9.eE,\s]|nan|inf)*\Z", re.IGNORECASE)
_TITLES = re.compile(rb"[^\n]*[A-Za-z_][^\n]*,", re.MULTILINE)


def is_text(path: Path) -> bool:
    """Return whether a file starts like text."""
    head = read_head(path, _HEAD)
    return b"\0" not in head and not head.startswith((b"\x1f\x8b", b"PK"))


def detect_format(path: Path) -> str:
    """Return the format of a file or folder by its content, or say that it is none of them."""
    if path.is_dir():
        if any((path / name).is_file() for name in DESCRIPTIONS):
            return "zarr"
        raise FileFormatError(f"{path.name!r} is a folder without Zarr metadata, so it holds no transform.")
    file = existing_file(path, "transform")
    head = read_head(file, _HEAD)
    if head.startswith(_GZIP):
        with foreign_decoder(file, "gzip"):
            head = gzip_head(file, _HEAD)
        known: tuple[tuple[str, bool], ...] = (("nifti", nifti_header(head) is not None),)
    else:
        known = (*_binary(head), *(_text(head, file.suffix.lower()) if b"\0" not in head else ()))
    found = next((name for name, matches in known if matches), None)
    if found is None:
        raise FileFormatError(
            f"{file.name!r} is not a transform that warpgauge knows: its content is not of elastix, ITK, ANTs, NIfTI, "
            f"NRRD, MetaImage, NumPy, a matrix or mapped points; give format= if it is."
        )
    return found


def _binary(head: bytes) -> tuple[tuple[str, bool], ...]:
    return (
        ("itk", head.startswith(itk.HDF5_SIGNATURE)),
        ("nrrd", head.startswith(b"NRRD")),
        ("numpy", head.startswith((b"\x93NUMPY", b"PK\x03\x04"))),
        ("metaimage", looks_like_metaimage(head)),
        ("nifti", nifti_header(head) is not None),
        ("ants", looks_like_mat4(head)),
    )


def _text(head: bytes, suffix: str) -> tuple[tuple[str, bool], ...]:
    head = head.removeprefix(b"\xef\xbb\xbf")
    toml = _TOML.search(head) is not None
    return (
        ("itk", head.startswith(itk.TEXT_SIGNATURE)),
        ("points", TRANSFORMIX.match(head) is not None),
        ("elastix", _ELASTIX.search(head) is not None or (toml and (suffix == ".toml" or b"Transform" in head))),
        ("matrix", _NUMBERS.match(head) is not None),
        ("points", suffix == ".csv" and _TITLES.match(head) is not None),
    )
