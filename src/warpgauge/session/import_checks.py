"""Checks for probable mistakes in landmarks before they are imported into a project.

Each usual misreading (fixed and moving exchanged, another scale, indices for world points, flipped or exchanged axes)
is tried beside the reading as given, and compared by how alike the two images are around the pairs: correlation of
their gradient magnitudes in patches, which serves images of different stains or modalities too. On the ten pairs of
stains of one CIMA region the mean correlation at the true pairs was 0.16 to 0.36, and -0.03 to 0.02 with fixed and
moving exchanged.

Where no misreading explains it, the landmarks may belong to other images or other rows: then the images are no more
alike at a pair than at two points of different pairs. The share of the latter that are less alike is 0.5 there, and was
0.75 to 0.90 at the right pairs of that region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from warpgauge.candidates import to_gray
from warpgauge.core.arrays import Bools, thinned_rows
from warpgauge.errors import WarpgaugeError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.landmarks import Landmarks
from warpgauge.io.landmarks.permutation import likely_permutation, robust_affine
from warpgauge.maps import warped_image
from warpgauge.project import Project

# Images are compared at this many elements along the longest side, in patches of this radius.
_LONGEST = {2: 512, 3: 128}
_RADIUS = {2: 12, 3: 4}
_SMOOTHING = 1.5
_MOST_PAIRS = 150
_FEWEST_PAIRS = 6
# Another reading is likely where its mean correlation exceeds that as given by so much, and so many standard errors.
_GAIN, _STANDARD_ERRORS = 0.08, 4.0
_MOST_OUTSIDE = 0.5
# Landmarks of other images: the mean of that share, and so many standard errors, lie below this. Both were chosen on
# one region of CIMA and on images made from it, where none of 960 right sets of 8 to 40 pairs was refused.
_ALIKE, _ALIKE_ERRORS, _FEWEST_ALIKE = 0.65, 2.0, 8
_FLAT = 1e-3  # a patch with less structure than this share of the strongest one says nothing
_SCALES = (0.1, 0.125, 0.2, 0.25, 0.5, 2.0, 4.0, 5.0, 8.0, 10.0)

_Pair = tuple[Floats, Floats]
_Reading = tuple[str, Callable[[Floats, Floats], _Pair]]


def import_problems(project: Project, landmarks: Landmarks) -> list[str]:
    """Return probable mistakes in landmarks for a project, one clause each; empty if there are none.

    Rows that fit in another order, most points outside their image, and misreadings (sides exchanged, another scale,
    indices for world points, flipped axes) under which the images are clearly more alike at the pairs.

    Parameters
    ----------
    project : Project
    landmarks : Landmarks
        Pairs in the world of the project's images.
    """
    if landmarks.moving_points is None or not len(landmarks):
        return []
    fixed, moving = landmarks.fixed_points, landmarks.moving_points
    problems = []
    for points, grid, side in ((fixed, project.fixed_grid, "fixed"), (moving, project.moving_grid, "moving")):
        outside = int(np.count_nonzero(~grid.contains(points)))
        if outside > _MOST_OUTSIDE * len(points):
            problems.append(f"{outside} of {len(points)} {side} points lie outside the {side} image")
    permutation = likely_permutation(fixed, moving)
    if permutation is not None:
        problems.append(permutation.sentence(project.units))
    views = _views(project) if len(fixed) >= _FEWEST_PAIRS else None
    if views is not None:
        rows = thinned_rows(len(fixed), _MOST_PAIRS)
        fixed, moving = fixed[rows], moving[rows]
        clause = _likely_reading(project, views, fixed, moving)
        if clause is None and not problems:
            clause = _other_images(views, fixed, moving)
        problems += [] if clause is None else [clause]
    return problems


@dataclass(frozen=True)
class _View:
    """Gradient magnitude of an image on a coarse grid."""

    values: Floats
    grid: Grid

    def patches(self, points: Floats, linear: Floats | None = None) -> tuple[Floats, Bools]:
        """Return patches (n, m) around world points, and which of the points lie inside.

        Patches are laid along the axes of the world, so that images whose axes run in other directions are comparable;
        or along those after a linear map (d, d).
        """
        d = self.grid.d
        steps = np.arange(-_RADIUS[d], _RADIUS[d] + 1) * float(self.grid.spacing.mean())
        offsets = np.stack(np.meshgrid(*[steps] * d, indexing="ij"), axis=-1).reshape(-1, d)
        offsets = offsets if linear is None else offsets @ linear.T
        at = self.grid.array_coordinates((points[:, None] + offsets).reshape(-1, d))
        found = ndimage.map_coordinates(self.values, at, order=1, mode="nearest")
        return found.reshape(len(points), -1), np.asarray(self.grid.contains(points))

    def distinct(self, points: Floats) -> int:
        """Return in how many places of the size of a patch the points lie."""
        cells = np.floor(self.grid.world_to_index(points) / (2 * _RADIUS[self.grid.d] + 1))
        return len(np.unique(cells, axis=0))


def _view(project: Project, role: str) -> _View:
    grid = project.fixed_grid if role == "fixed" else project.moving_grid
    # One element has the same size in both images, so that patches show the same extent.
    size = max(max(one.spacing * one.size) for one in (project.fixed_grid, project.moving_grid)) / _LONGEST[grid.d]
    coarse = grid.coarsened(max(1.0, float(size / grid.spacing.mean())))
    sampled = warped_image(project.image(role), lambda points: points, coarse)  # type: ignore[arg-type]
    gray, _ = to_gray(np.nan_to_num(sampled), grid.d)
    return _View(ndimage.gaussian_gradient_magnitude(np.asarray(gray, dtype=np.float64), _SMOOTHING), coarse)


def _likeness(fixed: _View, moving: _View, pairs: _Pair) -> Floats:
    """Correlation of the patches of each pair; 0 where a point lies outside."""
    (one, inside), (other, inside_too) = fixed.patches(pairs[0]), moving.patches(pairs[1])
    one, other = (values - values.mean(axis=1, keepdims=True) for values in (one, other))
    size = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    correlation = (one * other).sum(axis=1) / np.where(size > 0, size, 1.0)
    return np.where(inside & inside_too, correlation, 0.0)


def _views(project: Project) -> tuple[_View, _View] | None:
    try:
        return _view(project, "fixed"), _view(project, "moving")
    except WarpgaugeError:  # an image that is missing has been warned of; without it there is nothing to compare
        return None


def _other_images(views: tuple[_View, _View], fixed: Floats, moving: Floats) -> str | None:
    """Return a clause on landmarks at which the images are as unlike as at points of different pairs.

    Patches of the moving image are laid along the axes that an affine map of the landmarks gives.
    """
    if min(len(fixed), views[0].distinct(fixed), views[1].distinct(moving)) < _FEWEST_ALIKE:
        return None
    linear = robust_affine(fixed, moving)[1:].T
    (one, inside), (other, inside_too) = views[0].patches(fixed), views[1].patches(moving, linear)
    one, other = (values - values.mean(axis=1, keepdims=True) for values in (one, other))
    sizes = [np.linalg.norm(values, axis=1) for values in (one, other)]
    usable = inside & inside_too
    for size in sizes:
        usable &= size > _FLAT * size.max()
    count = int(usable.sum())
    if count < _FEWEST_ALIKE:
        return None
    one, other = (values[usable] / size[usable, None] for values, size in zip((one, other), sizes, strict=True))
    alike = one @ other.T
    own = np.diag(alike)
    shares = ((alike < own[:, None]).sum(axis=1) + (alike < own[None]).sum(axis=0)) / (2 * (count - 1))
    mean, error = float(shares.mean()), float(shares.std(ddof=1)) / np.sqrt(count)
    if not mean + _ALIKE_ERRORS * error < _ALIKE:
        return None
    return (
        f"the images are no more alike at the {count} pairs than at points of different pairs (a pair is more alike in "
        f"{100 * mean:.0f} %, where 50 % is chance): the landmarks belong to other images, or their rows do not "
        f"correspond"
    )


def _likely_reading(project: Project, views: tuple[_View, _View], fixed: Floats, moving: Floats) -> str | None:
    """Return a clause on the reading under which the images match best, if it is clearly not the given one."""
    given = _likeness(*views, (fixed, moving))
    best, found = "", given
    for name, reading in _readings(project.fixed_grid, project.moving_grid):
        read = reading(fixed, moving)
        other = _likeness(*views, read)
        gain = other - given
        # Pairs whose patches overlap say the same: a scale that draws all of them into a corner has few that count.
        count = min(view.distinct(points) for view, points in zip(views, read, strict=True))
        error = float(gain.std(ddof=1)) / np.sqrt(count)
        # The commonest mistakes come first; of images that lie almost on each other, many readings look alike.
        if gain.mean() > max(_GAIN, _STANDARD_ERRORS * error) and other.mean() > found.mean() + (_GAIN if best else 0):
            best, found = name, other
    if not best:
        return None
    return (
        f"the images are more alike at the pairs if these are read with {best} (mean correlation {found.mean():.2f}) "
        f"than as given ({given.mean():.2f})"
    )


def _readings(fixed_grid: Grid, moving_grid: Grid) -> Iterator[_Reading]:
    d = fixed_grid.d
    yield "fixed and moving exchanged (the two files or columns)", lambda f, m: (m, f)
    spacing = float(fixed_grid.spacing.mean())
    for scale in sorted({*_SCALES, spacing, 1 / spacing} - {1.0}):
        yield f"--scale {scale:g}", lambda f, m, s=scale: (f * s, m * s)  # type: ignore[misc]
        yield f"the fixed points times {scale:g}", lambda f, m, s=scale: (f * s, m)  # type: ignore[misc]
        yield f"the moving points times {scale:g}", lambda f, m, s=scale: (f, m * s)  # type: ignore[misc]
    if not np.array_equal(fixed_grid.affine, np.eye(d + 1)):
        yield "--frame index", lambda f, m: (fixed_grid.index_to_world(f), moving_grid.index_to_world(m))
        yield "--frame image", lambda f, m: (fixed_grid.world_to_index(f), moving_grid.world_to_index(m))
    named = "x and y" if d == 2 else "x, y and z"
    yield from _sides(f"{named}{{}} exchanged", lambda f: f[:, ::-1], lambda m: m[:, ::-1])
    if d == 3:
        signs = np.array([-1.0, -1.0, 1.0])
        yield from _sides("RAS and LPS{} exchanged (--frame RAS or LPS)", lambda f: f * signs, lambda m: m * signs)
    for axis, letter in enumerate("xyz"[:d]):
        yield from _sides(
            f"{letter}{{}} counted from the other end",
            lambda f, a=axis: _flipped(f, fixed_grid, a),  # type: ignore[misc]
            lambda m, a=axis: _flipped(m, moving_grid, a),  # type: ignore[misc]
        )


def _sides(
    words: str, change_fixed: Callable[[Floats], Floats], change_moving: Callable[[Floats], Floats]
) -> Iterator[_Reading]:
    """Yield a misreading of both sides, and of each of them alone."""
    yield words.format(""), lambda f, m: (change_fixed(f), change_moving(m))
    yield words.format(" of the fixed points"), lambda f, m: (change_fixed(f), m)
    yield words.format(" of the moving points"), lambda f, m: (f, change_moving(m))


def _flipped(points: Floats, grid: Grid, axis: int) -> Floats:
    index = grid.world_to_index(points)
    index[:, axis] = grid.size[axis] - 1 - index[:, axis]
    return grid.index_to_world(index)
