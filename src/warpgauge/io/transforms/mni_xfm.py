"""Linear transforms of MNI (``.xfm``).

They take source (moving) to target (fixed) points, in the RAS mm of MINC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.io.files import read_text
from warpgauge.io.limits import check_parts
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Description, Format, Options, Transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.linear import affine_of_ras

TITLE = "MNI"
SIGNATURE = b"MNI Transform File"
_ITEM = re.compile(r"(\w+)\s*=\s*([^;]*);")


def read_xfm(path: Path, options: Options) -> Transform:
    """Read the transforms of a file, which are applied in their order, and return the way from fixed to moving."""
    told = ("MNI's file maps source (moving) to target (fixed) points in RAS; inverted.",)
    about = Description(TITLE, "affine", frame="world, LPS", units="mm", assumptions=told, source=path.name)
    backwards = [_backwards(path, part, about) for part in _parts(path)][::-1]
    check_parts(path.name, len(backwards))
    return backwards[0] if len(backwards) == 1 else Chain(backwards)


def _parts(path: Path) -> Iterator[dict[str, str]]:
    """Yield the items of each transform of a file."""
    text = re.sub(r"%[^\n]*", "", read_text(path, "MNI transform"))
    items = [(key, value.strip()) for key, value in _ITEM.findall(text)]
    starts = [row for row, (key, _) in enumerate(items) if key == "Transform_Type"]
    if not starts:
        raise FileFormatError(f"{path.name!r} has no Transform_Type, so it holds no transform.")
    for start, end in zip(starts, [*starts[1:], len(items)], strict=True):
        part = dict(items[start:end])
        named = part["Transform_Type"]
        if named.lower() != "linear":
            raise FileFormatError(
                f"{path.name!r} has a transform of type {named[:40]!r}, but only Linear is read; write its field "
                f"with ITK, as .nrrd or .nii.gz."
            )
        if "Linear_Transform" not in part:
            raise FileFormatError(f"{path.name!r} lacks Linear_Transform of its {named} transform.")
        yield part


def _backwards(path: Path, part: dict[str, str], about: Description) -> Transform:
    """Return the map of target to source points of one transform."""
    inverted = part.get("Invert_Flag", "False").lower() == "true"
    try:
        matrix = np.array(part["Linear_Transform"].split(), dtype=np.float64).reshape(3, 4)
    except ValueError as error:
        raise FileFormatError(f"{path.name!r}: a linear transform has 3 x 4 numbers.") from error
    if not np.isfinite(matrix).all():
        raise FileFormatError(f"{path.name!r} has numbers of a linear transform that are not finite.")
    forward = affine_of_ras(np.vstack([matrix, [0, 0, 0, 1]]), about)
    return forward if inverted else forward.inverse().described(direction="fixed_to_moving")


FORMAT = Format("xfm", read_xfm, lambda head, suffix: BY_SIGNATURE if head.startswith(SIGNATURE) else NO)
