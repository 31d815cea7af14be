"""Mapping a million points against the bare `map_coordinates` calls, and reading a field against its decompressor."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import map_coordinates
from timing import Row, compare

from warpgauge.geometry import Grid
from warpgauge.io.transforms import (
    AffineTransform,
    BSplineTransform,
    Chain,
    DisplacementField,
    read_transform,
    write_transform,
)

POINTS = 1_000_000
LIMIT = 1.5


def _elastix_chain(rng: np.random.Generator) -> Row:
    """An affine and a cubic B-spline of the size of the real lung results."""
    control = Grid((19, 25, 36), (10.7, 10.8, 10.4), (-176, -181, -1421), units="mm")
    spline = BSplineTransform(rng.normal(size=(3, *control.shape)), control)
    chain = Chain([AffineTransform(np.eye(3) * 1.001, [0.1, 0.2, 0.3]), spline])
    points = control.index_to_world(rng.uniform(2, np.asarray(control.size) - 4, (POINTS, 3)))
    coordinates = control.array_coordinates(points)
    coefficients = spline.vectors

    def bare() -> list[Any]:
        return [map_coordinates(part, coordinates, order=3, mode="nearest", prefilter=False) for part in coefficients]

    work = "a million points through an elastix B-spline chain"
    return compare(work, lambda: chain.map(points), "3 x map_coordinates, order 3", bare, LIMIT, repeats=5)


def _dense_field(rng: np.random.Generator) -> Row:
    grid = Grid((128, 128, 128), (1.5, 1.5, 2.0), (-100, -90, -1400), units="mm")
    field = DisplacementField(rng.normal(size=(3, *grid.shape)).astype(np.float32), grid)
    points = grid.index_to_world(rng.uniform(0, 127, (POINTS, 3)))
    coordinates = grid.array_coordinates(points)

    def bare() -> list[Any]:
        # The same output type; the default would be the field's own float32.
        return [
            map_coordinates(part, coordinates, order=1, mode="nearest", output=np.float64) for part in field.vectors
        ]

    work = "a million points through a dense field of 128^3"
    return compare(work, lambda: field.map(points), "3 x map_coordinates, order 1", bare, LIMIT, repeats=5)


def _reading(rng: np.random.Generator, folder: Path) -> Row:
    """A smooth field in float64; noise would not compress, and no registration gives noise."""
    grid = Grid((128, 128, 128), (1.5, 1.5, 2.0), units="mm")
    waves = np.sin(grid.points() / 30 + rng.uniform(0, 6, 3)) * 5
    vectors = np.round(waves.T, 3).reshape(3, *grid.shape)
    file = write_transform(DisplacementField(vectors, grid), folder / "field.nii.gz")

    def unpack() -> bytes:
        with gzip.open(file) as stream:
            return stream.read()

    return compare("reading a 128^3 field from .nii.gz", lambda: read_transform(file), "gzip", unpack, LIMIT, repeats=5)


def run() -> list[Row]:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        return [_elastix_chain(rng), _dense_field(rng), _reading(rng, Path(folder))]
