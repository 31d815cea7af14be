"""Transforms of Fiji: thin-plate splines through the landmarks of BigWarp, and B-splines of bUnwarpJ.

Both take points of the target (fixed) to the moving image. BigWarp's are in the world that it showed; bUnwarpJ's in
pixels of two images, whose grids have to be known.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import read_text
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Description, Format, Options, Transform, never, world_frame
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.linear import AffineTransform
from warpgauge.io.transforms.splines import BSplineTransform, KernelSpline, bspline_description

_INTERVALS = re.compile(r"\s*Intervals=([0-9]{1,4})\s")


def read_bigwarp(path: Path, options: Options) -> Transform:
    """Return the thin-plate spline through the active landmarks of a BigWarp file."""
    from warpgauge.io.landmarks import read_landmarks

    pairs = read_landmarks(
        path, format="bigwarp", frame=options.frame, fixed_grid=options.reference, moving_grid=options.moving
    )  # fmt: skip
    if pairs.moving_points is None or int(pairs.active.sum()) < pairs.d + 1:
        raise FileFormatError(f"{path.name!r} has too few active pairs for a spline through them.")
    about = Description(
        format="BigWarp",
        kind="thin-plate spline through landmarks",
        frame=world_frame(pairs.d),
        units=pairs.units,
        interpolation="r^2 log r thin-plate spline",
        assumptions=("BigWarp's spline takes fixed (target) to moving points.", *pairs.assumptions),
        source=path.name,
    )
    rows = pairs.active
    return KernelSpline(
        pairs.fixed_points[rows], pairs.moving_points[rows], "ThinPlateR2LogRSpline", description=about
    )  # fmt: skip


def read_bunwarpj(path: Path, options: Options) -> Transform:
    """Read the elastic transform of bUnwarpJ (``*_direct_transf.txt``): cubic B-splines of pixel positions."""
    text = read_text(path, "bUnwarpJ transform")
    head = _INTERVALS.match(text)
    if head is None:
        raise FileFormatError(f"{path.name!r} is not a transform of bUnwarpJ: it does not begin with 'Intervals='.")
    fixed, moving = options.reference, options.moving
    if fixed is None or moving is None:
        raise AmbiguousFileError(
            f"{path.name!r} holds pixels of two images; give {say('reference')} and {say('moving')}, their grids."
        )
    if fixed.d != 2 or moving.d != 2:
        raise InvalidInputError(f"{path.name!r} is 2D, but a {max(fixed.d, moving.d)}D grid was given.")
    nodes = int(head[1]) + 3
    parts = re.split(r"[XY] Coeffs[^\n]*\n", text[head.end() :])[1:]
    if int(head[1]) < 1 or len(parts) != 2:
        raise FileFormatError(f"{path.name!r} lacks the coefficients of x or of y.")
    try:
        positions = np.array([np.array(part.split(), dtype=np.float64).reshape(nodes, nodes) for part in parts])
    except ValueError as error:
        raise FileFormatError(f"{path.name!r} must have {nodes} x {nodes} coefficients of x and of y.") from error
    # The spline's own control grid, in pixels of the fixed image: one knot lies before the first pixel.
    spacing = (np.asarray(fixed.size, dtype=np.float64) - 1) / int(head[1])
    control = Grid((nodes, nodes), spacing, -spacing, np.eye(2), "px")
    coefficients = positions - control.points(0, control.count).T.reshape(2, nodes, nodes)
    words = ("bUnwarpJ's spline takes pixels of the target (fixed) image to pixels of the source (moving) one.",)
    about = bspline_description(3, "bUnwarpJ", units=fixed.units, source=path.name, assumptions=words)
    chain = [_pixels(fixed), BSplineTransform(coefficients, control, 3, about), _pixels(moving).inverse()]
    return Chain(chain).described(**{**vars(about), "frame": "world"})


def _pixels(grid: Grid) -> AffineTransform:
    """Return the map from the world to pixels of an image."""
    matrix: Floats = np.asarray(np.linalg.inv(grid.affine), dtype=np.float64)
    return AffineTransform(matrix[:2, :2], matrix[:2, 2])


FORMATS = (
    Format("bigwarp", read_bigwarp, never, frozenset({"frame"})),
    Format("bunwarpj", read_bunwarpj, lambda head, suffix: BY_SIGNATURE if head.startswith(b"Intervals=") else NO),
)
