"""The thin-plate spline through the landmarks of BigWarp, from the target (fixed) to the moving image."""

from __future__ import annotations

from pathlib import Path

from warpgauge.errors import FileFormatError
from warpgauge.io.transforms.base import Description, Format, Options, Transform, never, world_frame
from warpgauge.io.transforms.splines import KernelSpline


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


FORMAT = Format("bigwarp", read_bigwarp, never, frozenset({"frame"}))
