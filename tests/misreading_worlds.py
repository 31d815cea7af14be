"""Pairs of landmarks with honest and poor transforms, and each usual misreading of them.

Points are those of real pairs where ``WARPGAUGE_DATA`` is set (brains of several people, lungs, stained sections),
under a pose that is drawn anew, and of made pairs; images have any spacing and, in 3D, any direction.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.interpolate import RBFInterpolator
from scipy.spatial.transform import Rotation

from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import FunctionTransform, Transform

Map = Callable[[Floats], Floats]
DATA = Path(os.environ.get("WARPGAUGE_DATA", "/nowhere"))
RAS = np.array([-1.0, -1.0, 1.0])


@dataclass(frozen=True)
class Pair:
    """Landmarks that transforms are fitted to, others that they are judged by, and the images' grids."""

    name: str
    fitted: tuple[Floats, Floats]
    fixed: Floats
    moving: Floats
    fixed_grid: Grid
    moving_grid: Grid

    @property
    def d(self) -> int:
        return self.fixed.shape[1]

    @property
    def before(self) -> float:
        return float(np.linalg.norm(self.moving - self.fixed, axis=1).mean())


def _around(points: Floats, rng: np.random.Generator) -> Grid:
    """A grid that holds all points with a margin; of any spacing and direction in 3D, of plain pixels in 2D."""
    d = points.shape[1]
    if d == 2:
        return Grid(tuple(np.ceil(points.max(axis=0) * 1.1).astype(int).tolist()))
    turn = np.eye(d)
    if d == 3 and rng.random() < 0.5:
        turn = Rotation.from_euler("xyz", rng.uniform(-25, 25, 3), degrees=True).as_matrix()
    inner = points @ turn
    low, high = inner.min(axis=0), inner.max(axis=0)
    margin = 0.15 * (high - low).max()
    spacing = rng.choice([0.6, 1.0, 1.5, 2.5, 4.0], 3)
    size = np.ceil((high - low + 2 * margin) / spacing).astype(int) + 1
    return Grid(tuple(size.tolist()), spacing, turn @ (low - margin), turn, "mm")


def _posed(points: Floats, rng: np.random.Generator, share: float) -> Floats:
    """Points turned and shifted as a body or a section lies differently the second time."""
    d = points.shape[1]
    size = float(np.ptp(points, axis=0).max())
    angles = rng.normal(0, 40 * share, 3)
    turn = Rotation.from_euler("xyz", angles if d == 3 else [0, 0, angles[0]], degrees=True).as_matrix()[:d, :d]
    centre = points.mean(axis=0)
    return (points - centre) @ turn.T + centre + rng.normal(0, share * size, d)


def _pair(name: str, fixed: Floats, moving: Floats, rng: np.random.Generator, share: float) -> Pair:
    moving = _posed(moving, rng, share)
    if fixed.shape[1] == 2:  # pixels count from the corner of their image
        corner = np.minimum(fixed.min(axis=0), moving.min(axis=0)) - 10
        fixed, moving = fixed - corner, moving - corner
    rows = rng.permutation(len(fixed))
    fit = len(rows) - max(30, len(rows) // 2)
    train, test = rows[:fit], rows[fit:]
    return Pair(
        name, (fixed[train], moving[train]), fixed[test], moving[test], _around(fixed, rng), _around(moving, rng)
    )


def _table(path: Path, skip: int = 0, separator: str | None = None) -> Floats:
    return np.loadtxt(path, skiprows=skip, delimiter=separator)


def _brains() -> Iterator[tuple[str, Floats, Floats]]:
    """Every two neighbours in a list of subjects; two raters each, so that what is fitted is not what is judged."""
    points: dict[tuple[str, str], dict[int, list[float]]] = {}
    with (DATA / "afids/afids_multirater_long.csv").open() as file:
        for row in csv.DictReader(file):
            if row["dataset"] == "hcp":
                place = [float(row[f"{axis}_mm"]) for axis in "xyz"]
                points.setdefault((row["image"], row["rater"]), {})[int(row["afid"])] = place
    images = sorted({image for image, _ in points})
    raters = {image: sorted(rater for other, rater in points if other == image) for image in images}
    for one, other in zip(images, [*images[7:], *images[:7]], strict=True):
        sides = []
        for image in (one, other):
            marks = [points[image, rater] for rater in raters[image][:2]]
            sides.append(np.array([mark[n] for mark in marks for n in range(1, 33)]) * RAS)
        yield f"brain {one} {other}", sides[0], sides[1]


def _lungs() -> Iterator[tuple[str, Floats, Floats]]:
    sizes = {}
    for table in ("dirlab4dct/cases.csv", "copdgene/copd_cases.csv"):
        with (DATA / table).open() as file:
            for row in csv.DictReader(file):
                sizes[table[:4], row["case"]] = np.array([float(row[f"d{axis}_mm"]) for axis in "xyz"])
    for n in range(1, 6):
        sides = [_table(DATA / f"dirlab4dct/Case{n}_300_{phase}_xyz.txt") for phase in ("T50", "T00")]
        yield f"breathing {n}", sides[0] * sizes["dirl", str(n)], sides[1] * sizes["dirl", str(n)]
        sides = [_table(DATA / f"copdgene/copd{n}_300_{phase}_xyz_r1.txt") for phase in ("eBH", "iBH")]
        yield f"breath hold {n}", sides[0] * sizes["copd", str(n)], sides[1] * sizes["copd", str(n)]


def _sections() -> Iterator[tuple[str, Floats, Floats]]:
    for folder in sorted({file.parent for file in (DATA / "cima").rglob("*.csv")}):
        files = sorted(folder.glob("*.csv"))
        for one in files:
            for other in files:
                if one != other:
                    first, second = (np.genfromtxt(file, delimiter=",", skip_header=1)[:, 1:3] for file in (one, other))
                    n = min(len(first), len(second))
                    yield f"section {one.stem} {other.stem}", first[:n], second[:n]


def _made(rng: np.random.Generator, d: int) -> tuple[str, Floats, Floats]:
    """A smooth random deformation, with the scatter of anatomy and placement."""
    size = rng.uniform(80, 250)
    fixed = rng.uniform(-0.5, 0.5, (90, d)) * size + rng.uniform(-1, 1, d) * size
    knots = rng.uniform(-0.6, 0.6, (12, d)) * size + fixed.mean(axis=0)
    bend = RBFInterpolator(knots, rng.normal(0, 0.04 * size, (12, d)), smoothing=0.0)
    return f"made {d}D", fixed, fixed + bend(fixed) + rng.normal(0, 0.004 * size, fixed.shape)


def pairs(seed: int, made: int, real: int) -> Iterator[Pair]:
    """Yield so many made pairs of each dimension, and of each kind of real ones where there are data."""
    rng = np.random.default_rng(seed)
    for _ in range(made):
        for d in (2, 3):
            yield _pair(*_made(rng, d), rng, rng.choice([0.0, 0.03, 0.1]))
    if not DATA.is_dir():
        return
    for kind in (_brains, _lungs, _sections):
        known = list(kind())
        for _ in range(real):
            name, fixed, moving = known[rng.integers(len(known))]
            if len(fixed) > 120:  # a part of the lung, another one each time
                near = np.argsort(np.linalg.norm(fixed - fixed[rng.integers(len(fixed))], axis=1))[:120]
                fixed, moving = fixed[near], moving[near]
            yield _pair(name, fixed, moving, rng, rng.choice([0.0, 0.03, 0.1]))


def spline(fixed: Floats, moving: Floats, smoothing: float = 0.0) -> Map:
    found = RBFInterpolator(fixed, moving - fixed, kernel="thin_plate_spline", smoothing=smoothing)
    return lambda points: points + found(points)


def affine(fixed: Floats, moving: Floats) -> Map:
    matrix = np.linalg.lstsq(np.column_stack([fixed, np.ones(len(fixed))]), moving, rcond=None)[0]
    return lambda points: points @ matrix[:-1] + matrix[-1]


def honest(pair: Pair) -> dict[str, tuple[Map, Map]]:
    """Registrations made for a pair, each with one of the other direction."""
    there, back = pair.fitted, pair.fitted[::-1]
    return {
        "spline": (spline(*there), spline(*back)),
        "smooth": (spline(*there, 100.0), spline(*back, 100.0)),
        "affine": (affine(*there), affine(*back)),
    }


def bad(pair: Pair, good: Map, rng: np.random.Generator) -> dict[str, Map]:
    """Registrations made for a pair that do not do well: none of them is misread."""
    size = float(np.ptp(pair.fixed, axis=0).max())
    knots = pair.fixed[rng.choice(len(pair.fixed), 10, replace=False)]
    error = RBFInterpolator(knots, rng.normal(0, 0.5 * pair.before, (10, pair.d)), smoothing=0.0)
    left = np.median(pair.fixed[:, 0])
    strengths = {"half": 0.5, "four fifths": 0.8, "one and a half": 1.5, "twice": 2.0}
    shift = (pair.fitted[1] - pair.fitted[0]).mean(axis=0)
    return {
        "identity": lambda x: x,
        "translation": lambda x: x + shift,
        **{name: (lambda x, k=k: x + k * (good(x) - x)) for name, k in strengths.items()},
        "poor": lambda x: good(x) + error(x),
        "noise": lambda x: good(x) + 0.2 * pair.before * np.sin(x[:, ::-1] * 40 / size),
        "half of the image": lambda x: np.where(x[:, :1] < left, x, good(x)),
    }


@dataclass(frozen=True)
class Wrong:
    """One misreading: its kind, and what the program is given."""

    kind: str
    name: str
    transform: Map
    fixed: Floats
    moving: Floats


def misread(pair: Pair, right: Map, back: Map) -> Iterator[Wrong]:
    """Yield the five kinds of misreadings, of the transform and of the landmarks."""
    f, g, d = pair.fixed, pair.moving, pair.d
    yield Wrong("inverse", "direction", back, f, g)
    yield Wrong("inverse", "sides", right, g, f)
    changes: dict[str, Map] = {"xy": lambda x: x[:, [1, 0, 2][:d]]}
    if d == 3:
        changes |= {"reversed": lambda x: x[:, ::-1], "lps": lambda x: x * RAS}
    for kind, change in changes.items():
        yield Wrong(kind, "components", lambda x, c=change: x + c(right(x) - x), f, g)
        yield Wrong(kind, "points", lambda x, c=change: c(right(c(x))), f, g)
        yield Wrong(kind, "landmarks", right, change(f), change(g))
    yield Wrong("positions", "as displacements", lambda x: x + right(x), f, g)
    yield Wrong("positions", "displacements as", lambda x: right(x) - x, f, g)


def one_side(pair: Pair, right: Map) -> Iterator[Wrong]:
    """Yield landmarks of which one file alone is in another frame."""
    f, g = pair.fixed, pair.moving
    if pair.d == 3:
        yield Wrong("lps", "fixed alone", right, f * RAS, g)
        yield Wrong("lps", "moving alone", right, f, g * RAS)
        yield Wrong("voxel", "fixed alone", right, pair.fixed_grid.world_to_index(f), g)
        yield Wrong("voxel", "moving alone", right, f, pair.moving_grid.world_to_index(g))
    yield Wrong("xy", "fixed alone", right, f[:, [1, 0, 2][: pair.d]], g)


def voxels(pair: Pair, right: Map) -> Iterator[Wrong]:
    """Yield landmarks and displacements in voxels, which show only where a voxel is far from a unit."""
    f, g, grid, other = pair.fixed, pair.moving, pair.fixed_grid, pair.moving_grid
    steps = grid.direction * grid.spacing
    yield Wrong("voxel", "landmarks", right, grid.world_to_index(f), other.world_to_index(g))
    yield Wrong("voxel", "displacements", lambda x: x + (right(x) - x) @ np.linalg.inv(steps).T, f, g)
    yield Wrong("voxel", "frame", lambda x: other.world_to_index(right(grid.index_to_world(x))), f, g)


def twice(pair: Pair, right: Map, back: Map) -> Iterator[Wrong]:
    """Yield two misreadings at once: no reading mends both."""
    f, g, d = pair.fixed, pair.moving, pair.d
    exchange = [1, 0, 2][:d]
    yield Wrong("", "direction and x-y", lambda x: x + (back(x) - x)[:, exchange], f, g)
    yield Wrong("", "x-y and positions", lambda x: x + right(x)[:, exchange], f, g)
    if d == 3:
        yield Wrong("", "direction and LPS", lambda x: x + (back(x) - x) * RAS, f, g)
        yield Wrong("", "reversed and LPS", lambda x: x + (right(x) - x)[:, ::-1] * RAS, f, g)


def transform(function: Map, d: int) -> Transform:
    return FunctionTransform(function, d)


def mean_error(function: Map, fixed: Floats, moving: Floats) -> float:
    return float(np.linalg.norm(function(fixed) - moving, axis=1).mean())
