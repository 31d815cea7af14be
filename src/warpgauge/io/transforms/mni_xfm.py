"""Linear transforms of MNI (``.xfm``): they take source (moving) to target (fixed) points, in the RAS mm of MINC."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import read_text
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Description, Format, Options, Transform
from warpgauge.io.transforms.linear import affine_of_ras

TITLE = "MNI"
SIGNATURE = b"MNI Transform File"
_ITEM = re.compile(r"(\w+)\s*=\s*([^;]*);")


def read_xfm(path: Path, options: Options) -> Transform:
    """Read a linear transform of MNI; several in one file are applied in their order."""
    text = re.sub(r"%[^\n]*", "", read_text(path, "MNI transform"))
    items = _ITEM.findall(text)
    kinds = [value.strip() for key, value in items if key == "Transform_Type"]
    if not kinds or any(kind.lower() != "linear" for kind in kinds):
        named = next((kind for kind in kinds if kind.lower() != "linear"), "none")
        raise FileFormatError(
            f"{path.name!r} has a transform of type {named[:40]!r}; linear ones are read: turn a grid into a field "
            f"with the tools of MINC."
        )
    total = np.eye(4)
    for key, value in items:
        if key == "Linear_Transform":
            try:
                matrix = np.array(value.split(), dtype=np.float64).reshape(3, 4)
            except ValueError as error:
                raise FileFormatError(f"{path.name!r}: a linear transform has 3 x 4 numbers.") from error
            total = np.vstack([matrix, [0, 0, 0, 1]]) @ total
        elif key == "Invert_Flag" and value.strip().lower() == "true":
            raise FileFormatError(f"{path.name!r} has an inverted part; write it out with xfminvert first.")
    if sum(key == "Linear_Transform" for key, _ in items) != len(kinds) or not np.isfinite(total).all():
        raise FileFormatError(f"{path.name!r} lacks the numbers of a linear transform, or they are not finite.")
    about = Description(
        format=TITLE,
        kind="affine",
        frame="world, LPS",
        units="mm",
        assumptions=("MNI's file maps source (moving) to target (fixed) points in RAS; inverted exactly.",),
        source=path.name,
    )
    return affine_of_ras(total, about).inverse().described(direction="fixed_to_moving")


FORMAT = Format("xfm", read_xfm, lambda head, suffix: BY_SIGNATURE if head.startswith(SIGNATURE) else NO)
