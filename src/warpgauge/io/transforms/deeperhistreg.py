"""DeeperHistReg: ``displacement_field.mha`` with ``postprocessing_params.json`` beside it.

The program resamples both images, pads them to one size, and registers them, perhaps resampled once more. Its field
covers the padded images from edge to edge, in pixels of the field, first all of x and then all of y; padding and ratios
stand in the other file. So the same field serves the images at any scale.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import foreign_decoder, read_text
from warpgauge.io.images import metaimage
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Format, Options, Transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.field import DisplacementField, Vectors, field_description
from warpgauge.io.transforms.field_files import as_floats
from warpgauge.io.transforms.linear import AffineTransform

TITLE = "DeeperHistReg"
_PADS = {"source": "pad_1", "target": "pad_2"}
RECORD = "postprocessing_params.json"
# One file of two slices with one number each is no image, and no field of another program.
_MARK = re.compile(rb"^NDims = 3\r?$.*^DimSize = [0-9]+ [0-9]+ 2\r?$", re.MULTILINE | re.DOTALL)
# Of a side: more says that the images are not those that were registered.
_TOLERANCE = 0.02


def read_deeperhistreg(path: Path, options: Options) -> Transform:
    """Read a field with its record of padding, for the images at any scale."""
    fixed, moving = options.reference, options.moving
    if fixed is None or moving is None or fixed.d != 2 or moving.d != 2:
        raise AmbiguousFileError(
            f"{path.name!r} covers two padded images; give {say('reference')} and {say('moving')}, their 2D grids."
        )
    vectors = _vectors(path)
    record = _record(path)
    padded = (np.array(vectors.shape[:0:-1]) + 0.5) * record.ratio  # what did not fill a last node was left out
    pixels = [_to_padded(path, grid, padded, record, side) for side, grid in (("target", fixed), ("source", moving))]
    # Padded pixels from the edge to nodes of the field, whose first lies half a node from the edge.
    field = DisplacementField(vectors, Grid(vectors.shape[:0:-1]), description=field_description(TITLE))
    nodes = AffineTransform(np.eye(2) / record.ratio, np.full(2, -0.5))
    chain = [pixels[0], nodes, field, nodes.inverse(), pixels[1].inverse()]
    words = (
        "DeeperHistReg's field takes target (fixed) to source (moving) points of the padded images.",
        f"Padding and resampling are those of {RECORD}; the images are taken to show all that was registered.",
    )
    about = field_description(TITLE, frame="world", units=fixed.units, source=path.name, assumptions=words)
    return Chain(chain, about)


def _vectors(path: Path) -> Vectors:
    with foreign_decoder(path, "a field of DeeperHistReg"):
        fields, end = metaimage.header_fields(path)
        numbers = metaimage.header_numbers(path, "DimSize", fields.get("DimSize", ""), 3)
        if fields.get("NDims", "").strip() != "3" or numbers[2] != 2 or (numbers < 1).any() or (numbers % 1).any():
            raise FileFormatError(f"{path.name!r} has DimSize = {fields['DimSize']!r}; such a field has W H 2.")
        shape = tuple(int(n) for n in numbers[::-1])
        read, _ = metaimage.stored_samples(path, fields, end, metaimage.sample_type(path, fields), shape)
        return as_floats(read(tuple(slice(None) for _ in shape)), path.name)


@dataclass(frozen=True)
class _Record:
    """Ratios of the first resampling by side and of the second, and the padding [x, y][before, after] by side."""

    first: dict[str, float]
    ratio: float
    pads: dict[str, Floats]


def _record(path: Path) -> _Record:
    beside = path.with_name(RECORD)
    if not beside.is_file():
        raise FileFormatError(
            f"{path.name!r} is a field of DeeperHistReg, which needs its {RECORD} beside it; copy that file there."
        )
    try:
        content: Any = json.loads(read_text(beside, "record of DeeperHistReg"))
        ratio = float(content["initial_resample_ratio"]) if content["initial_resampling"] else 1.0
        first = {side: float(content[f"{side}_resample_ratio"]) for side in _PADS}
        pads = {side: np.array(content[key], dtype=np.float64).reshape(2, 2)[::-1] for side, key in _PADS.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{RECORD!r} lacks pad_1, pad_2 or the resampling; it is damaged.") from error
    numbers = np.array([ratio, *first.values(), *(1 + value for pad in pads.values() for value in pad.ravel())])
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise FileFormatError(f"{RECORD!r} has a padding or a ratio that cannot be; it is damaged.")
    return _Record(first, ratio, pads)


def _to_padded(path: Path, grid: Grid, padded: Floats, record: _Record, side: str) -> AffineTransform:
    """Return the map from the world of an image to pixels of the padded one, counted from its edge."""
    pad, own = record.pads[side], np.asarray(grid.size, dtype=np.float64)
    image = padded - pad.sum(axis=1)
    scale = record.first[side]
    if (np.abs(own * scale - image) > record.ratio / 2 + 1.5).any():  # not the file itself, but perhaps a smaller one
        if (image < 1).any() or abs(image[0] / own[0] * own[1] / image[1] - 1) > _TOLERANCE:
            raise InvalidInputError(
                f"{path.name!r} was made for a {side} of {image[0]:.0f} x {image[1]:.0f} pixels, at any scale, "
                f"but the {'fixed' if side == 'target' else 'moving'} image has {own[0]:.0f} x {own[1]:.0f}; give the "
                f"images that were registered."
            )
        scale = float(np.sqrt(np.prod(image / own)))
    to_index = np.linalg.inv(grid.affine)
    return AffineTransform(scale * to_index[:2, :2], scale * (to_index[:2, 2] + 0.5) + pad[:, 0])


def _recognise(head: bytes, suffix: str) -> int:
    return BY_SIGNATURE if metaimage.looks_like_metaimage(head) and _MARK.search(head) is not None else NO


def _beside(path: Path) -> list[Path]:
    return [one for one in (path.with_name(RECORD),) if one.is_file()]


FORMAT = Format("deeperhistreg", read_deeperhistreg, _recognise, companions=_beside)
