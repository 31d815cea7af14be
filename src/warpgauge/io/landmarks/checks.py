"""Warnings about landmarks that are valid but probably wrong: a mirror, points outside, fixed and moving exchanged."""

from __future__ import annotations

import numpy as np

from warpgauge.errors import say, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.landmarks.permutation import likely_permutation

# Points that nearly lie on a line (2D) or in a plane (3D) do not fix the sign of a determinant.
_FLATTEST = 0.02
# A swap is reported when more than this share of the points lies outside, and the other way round far fewer do.
_SWAP_OUTSIDE, _SWAP_RATIO = 0.1, 0.2


def _flatness(points: Floats) -> float:
    singular = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return float(singular[-1] / singular[0]) if singular[0] > 0 else 0.0


def affine_determinant(fixed_points: Floats, moving_points: Floats) -> tuple[float, float] | None:
    """Return the determinant and root mean square residual of the best affine map, None where it is not determined."""
    n, d = fixed_points.shape
    if n <= d or min(_flatness(fixed_points), _flatness(moving_points)) < _FLATTEST:
        return None
    centred = fixed_points - fixed_points.mean(axis=0)
    target = moving_points - moving_points.mean(axis=0)
    matrix = np.linalg.lstsq(centred, target, rcond=None)[0]
    residual = target - centred @ matrix
    return float(np.linalg.det(matrix)), float(np.sqrt(np.mean(np.sum(residual**2, axis=1))))


def warn_of_mirror(name: str, fixed_points: Floats, moving_points: Floats, units: str) -> None:
    """Warn when the best affine map of the pairs turns left into right.

    A map that explains less than half of the points' spread says nothing: its pairs do not correspond.
    """
    fit = affine_determinant(fixed_points, moving_points)
    spread = float(np.sqrt(moving_points.var(axis=0).sum())) if fit is not None else 0.0
    if fit is not None and fit[0] < 0 and fit[1] ** 2 < spread**2 / 2:
        warn_suspicious(
            f"{name!r}: the best affine map of the {len(fixed_points)} pairs has the negative determinant {fit[0]:.4g} "
            f"(residual {fit[1]:.4g} {units}), so it is a mirror; is an axis flipped (LPS/RAS) or a slide turned over?"
        )


def warn_of_permutation(name: str, fixed_points: Floats, moving_points: Floats, units: str) -> None:
    """Warn when another pairing of the same points fits an affine map far better."""
    found = likely_permutation(fixed_points, moving_points)
    if found is not None:
        warn_suspicious(f"{name!r}: {found.sentence(units)}; is the order of the rows the same in both files?")


def distance_outside(points_world: Floats, grid: Grid) -> Floats:
    """How far each point lies outside the pixels of a grid, in world units; 0 inside."""
    index = grid.world_to_index(points_world)
    beyond = np.maximum(-0.5 - index, index - (np.asarray(grid.size) - 0.5))
    return np.asarray(np.linalg.norm(np.maximum(beyond, 0.0) * grid.spacing, axis=1))


def warn_of_outside(name: str, points_world: Floats, grid: Grid, side: str) -> None:
    """Warn when points lie outside the image that they should lie in."""
    outside = ~grid.contains(points_world)
    if np.any(outside):
        distances = distance_outside(points_world, grid)
        worst = int(np.argmax(distances))
        warn_suspicious(
            f"{name!r}: {int(outside.sum())} of {len(points_world)} {side} points lie outside the {side} image, the "
            f"farthest (point {worst + 1}) by {distances[worst]:.4g} {grid.units}; is "
            f"this the right image, frame and scale?"
        )


def warn_of_swap(name: str, as_given: tuple[int, int], swapped: tuple[int, int], n: int) -> bool:
    """Warn when the points of n pairs fit the images much better with fixed and moving exchanged.

    ``as_given`` and ``swapped`` count the fixed and the moving points outside their images, as read and exchanged.
    """
    given = sum(as_given)
    other = sum(swapped)
    suspicious = given > _SWAP_OUTSIDE * 2 * n and other < _SWAP_RATIO * given
    if suspicious:
        warn_suspicious(
            f"{name!r}: {as_given[0]} fixed and {as_given[1]} moving points of {n} pairs lie outside their images, but "
            f"only {swapped[0]} and {swapped[1]} with the images exchanged; are fixed and moving swapped?"
        )
    return suspicious


def warn_of_zero_index(name: str, points_file: Floats) -> None:
    """Warn when voxel indices that should count from 1 seem to count from 0."""
    smallest = float(np.min(points_file, where=~np.isnan(points_file), initial=np.inf))
    if smallest < 1:
        warn_suspicious(
            f"{name!r} has the voxel index {smallest:g}, but its indices should count from 1; if they count from 0, "
            f"pass {say('frame', 'index')}."
        )
