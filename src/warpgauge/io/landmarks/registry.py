"""Detection of a landmark file's format from its first line; the name decides only if the content cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.io.landmarks import (
    ants_points,
    bigwarp,
    mni_tag,
    napari_points,
    native_json,
    numbered_csv,
    plain_csv,
    qupath,
    slicer,
    transformix,
    voxel_rows,
)
from warpgauge.io.landmarks.base import Format
from warpgauge.io.landmarks.text import first_csv_row, is_number, lines, load_json, shown

FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        native_json.FORMAT,
        plain_csv.FORMAT,
        numbered_csv.ANHIR,
        numbered_csv.BRATS_REG,
        voxel_rows.LEARN2REG,
        voxel_rows.DIRLAB,
        mni_tag.FORMAT,
        bigwarp.FORMAT,
        slicer.JSON,
        slicer.FCSV,
        transformix.FORMAT,
        ants_points.FORMAT,
        napari_points.FORMAT,
        qupath.FORMAT,
    )
}
# Case1_300_T00_xyz.txt, copd1_300_iBH_xyz_r1.txt
_DIRLAB_NAME = re.compile(r"_xyz(_r\d)?\.txt$", re.IGNORECASE)
_SUFFIXES = {
    ".mrk.json": "slicer-json",
    ".fcsv": "slicer-fcsv",
    ".json": "warpgauge",
    ".csv": "csv",
    ".geojson": "qupath",
    ".tag": "mni-tag",
}


def named_format(name: str) -> Format:
    """Return the format that the caller named."""
    if name not in FORMATS:
        raise InvalidInputError(f"The landmark format {name!r} is not one of {', '.join(FORMATS)}.")
    return FORMATS[name]


def format_of_path(path: Path) -> Format:
    """Return the format to write for a file name."""
    for suffix, name in _SUFFIXES.items():
        if path.name.lower().endswith(suffix):
            return FORMATS[name]
    raise InvalidInputError(
        f"The name {path.name!r} does not say which landmark format to write; pass {say('format')}, one of "
        f"{', '.join(FORMATS)}."
    )


def detect(text: str, name: str) -> Format:
    """Recognise the format of a text."""
    content = lines(text[:65536])
    if not content:
        raise FileFormatError(f"{name!r} has only blank lines, so it holds no landmarks; export it again.")
    first = content[0][1]
    if first.startswith(("{", "[")):
        return _json_format(text, name)
    if first.startswith(mni_tag.SIGNATURE):
        return FORMATS["mni-tag"]
    if first.startswith("#"):
        return FORMATS["slicer-fcsv"]
    if first in transformix.KEYWORDS or (first.isascii() and first.isdigit()):
        return FORMATS["transformix"]
    tokens = first.split()
    if len(tokens) == 3 and all(is_number(token) for token in tokens):
        return _bare_numbers(name)
    return _csv_format(text, first, name)


def _json_format(text: str, name: str) -> Format:
    content = load_json(text, name)
    if qupath.is_geojson(content):
        return FORMATS["qupath"]
    if not isinstance(content, dict):
        raise FileFormatError(f"{name!r} is a JSON list that is not GeoJSON, so it holds no landmarks known here.")
    if "markups" in content:
        return FORMATS["slicer-json"]
    if content.get("format") == native_json.IDENTIFIER:
        return FORMATS["warpgauge"]
    raise FileFormatError(
        f"{name!r} is JSON without 'markups' (Slicer) and without 'format': {native_json.IDENTIFIER!r} (warpgauge), so "
        f"it holds no landmarks that are known here; convert it to one of {', '.join(FORMATS)}."
    )


def _bare_numbers(name: str) -> Format:
    if _DIRLAB_NAME.search(name):
        return FORMATS["dirlab"]
    raise AmbiguousFileError(
        f"{name!r} holds bare numbers without a header, which may be indices from 0 or 1 or world points; pass "
        f"{say('format', 'dirlab')} if they are voxel indices from 1, or give the file a header line."
    )


_FIRST_ROWS: dict[str, Callable[[list[str]], bool]] = {
    "bigwarp": bigwarp.is_row,
    "learn2reg": voxel_rows.is_learn2reg,
    "anhir": numbered_csv.is_anhir,
    "brats-reg": numbered_csv.is_brats_reg,
    "napari": napari_points.is_header,
    "ants": ants_points.is_header,
}


def _csv_format(text: str, first: str, name: str) -> Format:
    fields = first_csv_row(text, name)
    for name_of, fits in _FIRST_ROWS.items():
        if fits(fields):
            return FORMATS[name_of]
    titles = [title.strip().lower() for title in fields]
    if "fixed_x" in titles or titles[:2] == ["x", "y"]:
        return FORMATS["csv"]
    raise FileFormatError(
        f"{name!r} begins with {shown(first)}, which is the header of no landmark format known here "
        f"({', '.join(FORMATS)}); pass {say('format')} if it is one of them."
    )
