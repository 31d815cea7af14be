"""Rough alignment of two images before annotation: mirroring, rotation, shift and scale.

Turns and mirrorings are tried on very small copies, the best are refined as similarities on larger ones. The measure is
normalised mutual information, so that the images may have other stains or modalities. The result is a proposal for a
person to accept or refuse, not a registration.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage, optimize

from warpgauge.candidates import Foreground, to_gray
from warpgauge.geometry import Floats, Grid, array_order
from warpgauge.io.images import Image
from warpgauge.maps import warped_image

_BINS = 24
_LEAST_OVERLAP = 0.4  # of the fixed samples must fall into the moving image
# Longest side of the copies: for the search over turns and shifts, for the first and for the last refinement.
_SEARCH = {2: 40, 3: 16}
_FIRST = {2: 80, 3: 24}
_LAST = {2: 200, 3: 64}
_MOST_SAMPLES = 16_000
_SHIFTS = {2: np.linspace(-0.3, 0.3, 9), 3: np.linspace(-0.2, 0.2, 3)}  # shares of the fixed image's sides
_TURNS = 24  # turns of a picture that are tried, 15 degrees apart
_REFINED = {2: 8, 3: 4}  # how many orientations are refined
_LARGEST_SCALE = 1.5  # at least its inverse: beyond these it is the spacings that are wrong
_SAME = 0.3  # matrices (of scale 1) that differ by less, in norm, are one orientation
# A mirroring, or another orientation of a volume, must be better by this share of the information to be believed.
_MARGIN = 0.03


@dataclass(frozen=True, eq=False)
class Alignment:
    """A similarity from fixed to moving world points, ``matrix @ x + offset``, and what was done, in a sentence.

    ``score`` is the normalised mutual information above its value for unrelated images, ``rival`` that of the best
    alignment with another orientation; 0 means that the images have nothing in common.
    """

    matrix: Floats
    offset: Floats
    score: float
    rival: float
    method: str

    def map(self, points_world: ArrayLike) -> Floats:
        """Map (n, d) fixed world points to moving ones."""
        return np.asarray(np.asarray(points_world, dtype=np.float64) @ self.matrix.T + self.offset)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "matrix": self.matrix.tolist(), "offset": self.offset.tolist()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Alignment:
        """Read plain values."""
        matrix, offset = (np.array(values[key], dtype=np.float64) for key in ("matrix", "offset"))
        return cls(matrix, offset, float(values["score"]), float(values["rival"]), str(values["method"]))


def align(
    fixed: Image, moving: Image, fixed_foreground: Foreground | None = None, moving_foreground: Foreground | None = None
) -> Alignment:
    """Propose how the moving image lies with respect to the fixed one; both are read at reduced levels.

    The search starts with the middles of the foregrounds on each other, or those of the images where none is given.
    """
    search = _Search(_gray(fixed), _gray(moving), fixed_foreground, moving_foreground)
    return search.best()


def _gray(image: Image) -> tuple[Floats, Grid]:
    """Return a reduced copy of one channel, and its grid."""
    limit = {2: 2**20, 3: 2**24}[image.grid.d]
    level = next((k for k in range(image.levels) if image.level_grid(k).count <= limit), image.levels - 1)
    gray = np.nan_to_num(np.asarray(to_gray(image.read(level), image.grid.d)[0], dtype=np.float64))
    low, high = np.percentile(gray, (0.5, 99.5))
    return np.clip((gray - low) / (high - low if high > low else 1.0), 0, 1), image.level_grid(level)


@dataclass(frozen=True, eq=False)
class _Copies:
    """The two images at one size: values of the fixed samples in bins, and the moving copy."""

    points: Floats
    bins: NDArray[np.int64]
    moving: NDArray[np.float64]
    grid: Grid

    @classmethod
    def at(cls, fixed: tuple[Floats, Grid], moving: tuple[Floats, Grid], longest: int) -> _Copies:
        values, grid = _reduced(*fixed, longest)
        # Both copies with elements of about the same size, so that they are equally sharp.
        ratio = float(np.max(moving[1].spacing * moving[1].size) / np.max(fixed[1].spacing * fixed[1].size))
        other, other_grid = _reduced(*moving, max(8, round(longest * ratio)))
        every = -(-grid.count // _MOST_SAMPLES)
        return cls(grid.points()[::every], _binned(values.ravel()[::every]), other, other_grid)

    def information(self, matrix: Floats, offset: Floats) -> float:
        """Normalised mutual information above that of unrelated images: (H(a) + H(b)) / H(a, b) - 1."""
        at = self.grid.array_coordinates(self.points @ matrix.T + offset)
        last = np.array(self.moving.shape)[:, None] - 0.5
        inside = np.all((at >= -0.5) & (at <= last), axis=0)
        count = int(inside.sum())
        if count < _LEAST_OVERLAP * len(self.bins):
            return 0.0
        seen = ndimage.map_coordinates(self.moving, at[:, inside], order=1, mode="nearest")
        joint = np.bincount(self.bins[inside] * _BINS + _binned(seen), minlength=_BINS**2).reshape(_BINS, _BINS)
        together = _entropy(joint)
        return 0.0 if together == 0 else (_entropy(joint.sum(0)) + _entropy(joint.sum(1))) / together - 1


def _binned(values: Floats) -> NDArray[np.int64]:
    return np.minimum((values * _BINS).astype(np.int64), _BINS - 1)


def _entropy(counts: NDArray[np.int64]) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(-np.sum(share * np.log(share)))


def _reduced(values: Floats, grid: Grid, longest: int) -> tuple[Floats, Grid]:
    """Average an image down to elements as cubic as its frame allows, so many along its longest side."""
    sides = grid.spacing * np.asarray(grid.size)
    edge = float(sides.max()) / longest
    size = np.maximum(1, np.round(sides / np.maximum(edge, grid.spacing))).astype(int)
    ratio = np.asarray(grid.size) / size
    coarse = Grid(tuple(size), grid.spacing * ratio, grid.index_to_world((ratio - 1) / 2), grid.direction, grid.units)
    blurred = ndimage.gaussian_filter(values, array_order(np.where(ratio > 1, 0.5 * ratio, 0)))
    at = grid.array_coordinates(coarse.points())
    return ndimage.map_coordinates(blurred, at, order=1, mode="nearest").reshape(coarse.shape), coarse


class _Search:
    def __init__(
        self,
        fixed: tuple[Floats, Grid],
        moving: tuple[Floats, Grid],
        fixed_foreground: Foreground | None,
        moving_foreground: Foreground | None,
    ) -> None:
        self.fixed = fixed
        self.moving = moving
        self.d = fixed[1].d
        self.centre = _middle(fixed_foreground, fixed[1])
        self.aim = _middle(moving_foreground, moving[1])
        self.sides = fixed[1].spacing * np.asarray(fixed[1].size)

    @cached_property
    def orientations(self) -> list[Floats]:
        """Turns of a picture by 15 degrees, or all ways to lay a box on itself, and their mirror images."""
        if self.d == 2:
            turns = [_turned([np.deg2rad(360 / _TURNS * k)]) for k in range(_TURNS)]
            return turns + [turn @ np.diag([-1.0, 1.0]) for turn in turns]
        signed = [
            np.eye(3)[list(order)] * np.array(signs)[:, None]
            for order in itertools.permutations(range(3))
            for signs in itertools.product((1.0, -1.0), repeat=3)
        ]
        return sorted(signed, key=lambda one: (np.linalg.det(one) < 0, -np.trace(one)))

    def best(self) -> Alignment:
        """Search, refine the best, and weigh the best against its rivals."""
        rough = _Copies.at(self.fixed, self.moving, _SEARCH[self.d])
        starts: list[tuple[float, int, Floats]] = []
        for number, orientation in enumerate(self.orientations):
            for share in itertools.product(_SHIFTS[self.d], repeat=self.d):
                shift = np.array(share) * self.sides
                starts.append((rough.information(*self._similarity(orientation, shift, 1.0)), number, shift))
        starts.sort(key=lambda one: -one[0])
        first = _Copies.at(self.fixed, self.moving, _FIRST[self.d])
        still = np.zeros(1 + self._angles)
        refined = [
            self._refined(first, number, np.append(shift, still))
            for _, number, shift in _one_each(starts, _REFINED[self.d])
        ]
        last = _Copies.at(self.fixed, self.moving, _LAST[self.d])
        return self._chosen([self._refined(last, number, found) for _, number, found in self._rivals(refined)])

    def _rivals(self, refined: list[tuple[float, int, Floats]]) -> list[tuple[float, int, Floats]]:
        """Return the best one, the next, and the best of another orientation."""
        ranked = sorted(refined, key=lambda one: -one[0])
        matrix = self._unpacked(*ranked[0][1:])[0]
        other = [one for one in ranked if _apart(matrix, self._unpacked(*one[1:])[0]) > _SAME]
        return ranked[:2] + [one for one in other[:1] if one is not ranked[1]]

    @property
    def _angles(self) -> int:
        return 1 if self.d == 2 else 3

    def _similarity(self, orientation: Floats, shift: Floats, scale: float) -> tuple[Floats, Floats]:
        matrix = scale * orientation
        return matrix, self.aim + shift - matrix @ self.centre

    def _unpacked(self, number: int, parameters: Floats) -> tuple[Floats, Floats]:
        shift = parameters[: self.d]
        log_scale = parameters[self.d]
        angles = parameters[self.d + 1 :]
        return self._similarity(_turned(angles) @ self.orientations[number], shift, float(np.exp(log_scale)))

    def _refined(self, copies: _Copies, number: int, start: Floats) -> tuple[float, int, Floats]:
        """Follow the information uphill in shift, scale and angles, by simplexes."""
        steps = np.concatenate([0.04 * self.sides, [0.05], np.full(self._angles, np.deg2rad(6))])

        def loss(unit: Floats) -> float:
            far = max(0.0, abs(float(start[self.d] + unit[self.d] * steps[self.d])) - float(np.log(_LARGEST_SCALE)))
            return far - copies.information(*self._unpacked(number, start + unit * steps))

        simplex = np.vstack([np.zeros(len(steps)), np.eye(len(steps))])
        found = optimize.minimize(
            loss, simplex[0], method="Nelder-Mead",
            options={"initial_simplex": simplex, "xatol": 0.02, "fatol": 1e-6, "maxfev": 40 * len(steps)},
        )  # fmt: skip
        return -float(found.fun), number, start + found.x * steps

    def _chosen(self, final: list[tuple[float, int, Floats]]) -> Alignment:
        final = sorted(final, key=lambda one: -one[0])
        transforms = [self._unpacked(number, parameters) for _, number, parameters in final]
        chosen = 0
        for row in range(1, len(final)):
            close = final[row][0] >= (1 - _MARGIN) * final[0][0]
            if close and _unusual(transforms[chosen][0]) > _unusual(transforms[row][0]):
                chosen = row
        matrix, offset = transforms[chosen]
        score = final[chosen][0]
        rivals = [one[0] for one, (other, _) in zip(final, transforms, strict=True) if _apart(matrix, other) > _SAME]
        rival = max(rivals, default=0.0)
        return Alignment(
            matrix, offset, score, rival, _told(matrix, offset, self.centre, score, rival, self.fixed[1].units)
        )


def _one_each(starts: list[tuple[float, int, Floats]], count: int) -> list[tuple[float, int, Floats]]:
    """Keep the best start of each orientation, so many of them."""
    kept: dict[int, tuple[float, int, Floats]] = {}
    for one in starts:
        kept.setdefault(one[1], one)
        if len(kept) == count:
            break
    return list(kept.values())


def _middle(foreground: Foreground | None, grid: Grid) -> Floats:
    if foreground is None or foreground.whole:
        return grid.index_to_world((np.asarray(grid.size) - 1) / 2)
    return foreground.grid.index_to_world(array_order(np.argwhere(foreground.mask).mean(axis=0)))


def _turned(angles: ArrayLike) -> Floats:
    """Rotation by one angle in the plane, or about x, y and z in turn."""
    values = np.atleast_1d(np.asarray(angles, dtype=np.float64))
    if len(values) == 1:
        c = np.cos(values[0])
        s = np.sin(values[0])
        return np.array([[c, -s], [s, c]])
    matrix = np.eye(3)
    for axis, angle in enumerate(values):
        one, two = [k for k in range(3) if k != axis]
        turn = np.eye(3)
        turn[one, one] = turn[two, two] = np.cos(angle)
        turn[one, two], turn[two, one] = -np.sin(angle), np.sin(angle)
        matrix = turn @ matrix
    return matrix


def _scale(matrix: Floats) -> float:
    return float(abs(np.linalg.det(matrix)) ** (1 / len(matrix)))


def _unusual(matrix: Floats) -> int:
    """Return 0 for a turn below 45 degrees, 1 for any other turn, 2 for a mirroring."""
    if np.linalg.det(matrix) < 0:
        return 2
    return int(_angle(matrix) > 45)


def _angle(matrix: Floats) -> float:
    """Degrees by which a matrix turns (of its mirror image along x where it mirrors)."""
    proper = matrix / _scale(matrix)
    if np.linalg.det(proper) < 0:
        proper = proper @ np.diag([-1.0, *np.ones(len(matrix) - 1)])
    cosine = (np.trace(proper) - (len(matrix) - 2)) / 2
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def _apart(one: Floats, other: Floats) -> float:
    return float(np.linalg.norm(one / _scale(one) - other / _scale(other)))


def _told(matrix: Floats, offset: Floats, centre: Floats, score: float, rival: float, units: str) -> str:
    shift = matrix @ centre + offset - centre
    mirrored = "mirrored along x and " if np.linalg.det(matrix) < 0 else ""
    return (
        f"{mirrored}turned by {_angle(matrix):.0f} degrees, scaled by {_scale(matrix):.3g}, the middle shifted by "
        f"({', '.join(f'{value:.4g}' for value in shift)}) {units}: the similarity of the largest normalised mutual "
        f"information, {score:.3f} above that of unrelated images (best other orientation {rival:.3f})"
    )


_SMOOTHING = 1.5
_FEWEST = 0.1  # share of the fixed image that must be covered


class Likeness:
    """Correlation of the edges of two images where they overlap; grey values of a size for which a second is enough."""

    def __init__(self, fixed: tuple[NDArray[Any], Grid], moving: tuple[NDArray[Any], Grid]) -> None:
        self._fixed = _edges(fixed[0])
        self._grid = fixed[1]
        self._moving = _edges(moving[0]), moving[1]

    def __call__(self, transform: Any) -> float:
        """Return the correlation under a transform; NaN where the images barely overlap."""
        moved = warped_image(self._moving, transform, self._grid)
        inside = np.isfinite(moved)
        if inside.mean() < _FEWEST:
            return float("nan")
        return float(np.corrcoef(moved[inside], self._fixed[inside])[0, 1])


def _edges(gray: NDArray[Any]) -> Floats:
    strength = ndimage.gaussian_gradient_magnitude(np.asarray(gray, dtype=np.float64), _SMOOTHING)
    return np.asarray(np.log1p(strength / max(float(np.median(strength)), 1e-12)))
