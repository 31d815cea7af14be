"""Tissue that slides or is torn: a known deformation with a flow of its own for each labelled part of the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import distance_transform_edt

from warpgauge.candidates import LabelRegions
from warpgauge.core.arrays import Bools, Floats
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid, array_order
from warpgauge.io.transforms.base import Description, Transform
from warpgauge.simulate.deformation import SimulatedDeformation
from warpgauge.simulate.velocity import VelocityField, random_velocity

# A flow is integrated over the whole image for every part.
_MOST_PARTS = 32


@dataclass(frozen=True, eq=False)
class PartVelocity:
    """Velocity of one part: what all parts share, plus the part's own, which near its boundary may only go along it.

    Parameters
    ----------
    shared, own : VelocityField
        On one grid.
    normals : (n, d) array, optional
        Normal of the part's boundary at every pixel centre (world components, array order), times a weight from 1 on
        the boundary to 0 far from it; without it the part may leave its boundary, as at a tear.
    """

    shared: VelocityField
    own: VelocityField
    normals: Floats | None

    @property
    def grid(self) -> Grid:
        """The fixed image's grid."""
        return self.shared.grid

    def index_velocity(self) -> Floats:
        """Velocity at all pixel centres in index units, an (n, d) array in array order with columns x, y[, z]."""
        own = (self.own.index_velocity() * self.grid.spacing) @ self.grid.direction.T
        if self.normals is not None:
            # Normals are unit vectors times the root of the weight: their square is the weight.
            own -= self.normals * np.sum(self.normals * own, axis=1, keepdims=True)
        return np.asarray(self.shared.index_velocity() + own @ np.linalg.inv(self.grid.direction).T / self.grid.spacing)


class SlidingDeformation(Transform):
    """Maps each fixed point by the flow of the part that it lies in.

    Moving points that no part reaches are gaps, and have no origin; where parts overlap, the one with the smallest
    label lies on top.

    Parameters
    ----------
    parts : sequence of SimulatedDeformation
        One for each label of the regions, ascending.
    regions : LabelRegions
    """

    def __init__(self, parts: Sequence[SimulatedDeformation], regions: LabelRegions) -> None:
        self.parts, self.regions = dict(zip(regions.values, parts, strict=True)), regions
        folded = [part.jacobian_determinants()[regions.labels == label] <= 0 for label, part in self.parts.items()]
        self.folding_fraction = float(np.mean(np.concatenate(folded)))
        about = Description(
            kind="simulated sliding",
            units=regions.grid.units,
            interpolation="linear",
            outside="masked (NaN) beyond the outer pixel centres of the fixed image",
            assumptions=(f"{len(self.parts)} labelled parts of the fixed image have a flow of their own each.",),
        )
        super().__init__(about, regions.grid.d, regions.grid)

    def _domain(self, points: Floats) -> Bools:
        return next(iter(self.parts.values()))._domain(points)

    def _map(self, points: Floats) -> Floats:
        mapped, labels = np.full(points.shape, np.nan), self.regions(points)
        for label, part in self.parts.items():
            mapped[labels == label] = part.map(points[labels == label])
        return mapped

    def inverse_map(self, points_world: ArrayLike) -> Floats:
        """Map (n, d) moving points to the fixed points that are seen there; NaN in gaps and beyond the image."""
        points = self._checked(points_world)
        solution = np.full(points.shape, np.nan)
        for label, part in self.parts.items():
            open_ = np.flatnonzero(np.isnan(solution[:, 0]))
            origins = part.inverse_map(points[open_])
            found = np.flatnonzero(np.isfinite(origins).all(axis=1))
            found = found[self.regions(origins[found]) == label]
            solution[open_[found]] = origins[found]
        return solution


def random_sliding(
    regions: LabelRegions,
    amplitude: float,
    spacing: float | Sequence[float],
    seed: int,
    *,
    own: float = 0.5,
    tear: bool = False,
    allow_folding: bool = False,
) -> SlidingDeformation:
    """Draw a deformation in which labelled parts slide past each other.

    Parameters
    ----------
    regions : LabelRegions
        The parts, on the fixed image's grid; at most 32.
    amplitude, spacing : float
        As `random_velocity` takes them.
    seed : int
    own : float
        Share of the velocity's variance, 0 to 1, that each part has to itself.
    tear : bool
        Let parts leave their boundaries, so that gaps open; otherwise a part's own velocity goes along its boundary
        within a quarter of the control points' distance.
    allow_folding : bool
        Whether to go on where a part folds; by default that is an error that states the fraction of folded pixels.
    """
    if len(regions.values) > _MOST_PARTS:
        raise InvalidInputError(
            f"{len(regions.values)} labels are too many to simulate: at most {_MOST_PARTS} parts; merge some labels."
        )
    if not 0 <= own <= 1:
        raise InvalidInputError(f"The share of each part's own must lie between 0 and 1, got {own!r}.")
    grid = regions.grid
    shared = random_velocity(grid, amplitude, spacing, seed)
    shared = VelocityField(grid, shared.control_grid, np.sqrt(1 - own) * shared.control_vectors)
    reach = 0.25 * float(np.min(spacing))
    parts = []
    for at, label in enumerate(regions.values):
        alone = random_velocity(grid, amplitude, spacing, seed + 7919 * (at + 1))
        alone = VelocityField(grid, alone.control_grid, np.sqrt(own) * alone.control_vectors)
        normals = None if tear else _normals(regions, label, reach)
        # A part's flow may fold where other parts are.
        parts.append(SimulatedDeformation(PartVelocity(shared, alone, normals), allow_folding=True))
    made = SlidingDeformation(parts, regions)
    if made.folding_fraction > 0 and not allow_folding:
        raise InvalidInputError(
            f"The deformation folds at {100 * made.folding_fraction:.3g} % of the pixels; take a smaller amplitude or "
            "a larger control spacing, or allow_folding=True."
        )
    return made


def _normals(regions: LabelRegions, label: int, reach: float) -> Floats:
    """Return unit normals of a part's boundary times the root of ``exp(-(distance / reach)^2)``, (n, d), world."""
    grid, inside = regions.grid, regions.labels == label
    steps = array_order(grid.spacing)
    distance = distance_transform_edt(inside, steps) - distance_transform_edt(~inside, steps)
    slopes = np.stack([np.gradient(distance, float(step), axis=a) for a, step in enumerate(steps)], axis=-1)
    along_axes = array_order(slopes.reshape(-1, grid.d))  # columns x, y[, z]
    lengths = np.linalg.norm(along_axes, axis=1, keepdims=True)
    units = np.divide(along_axes, lengths, out=np.zeros_like(along_axes), where=lengths > 0)
    weight = np.exp(-0.5 * np.square(distance.reshape(-1, 1) / reach))
    return np.asarray((weight * units) @ grid.direction.T)
