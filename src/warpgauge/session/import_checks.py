"""Checks for probable mistakes in landmarks before they are imported into a project.

Each usual misreading (fixed and moving exchanged, another frame or scale, indices for world points, exchanged axes)
is tried beside the reading as given, and compared by how alike the two images are around the pairs: correlation of
their gradient magnitudes in patches, which serves images of different stains or modalities too. On the ten pairs of
stains of one CIMA region the mean correlation at the true pairs was 0.16 to 0.36, and -0.03 to 0.02 with fixed and
moving exchanged.

Where no misreading explains it, the landmarks may belong to other images or other rows: then the images are no more
alike at a pair than at two points of different pairs. The share of the latter that are less alike is 0.5 there, and was
0.75 to 0.90 at the right pairs of that region.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.candidates import to_gray
from warpgauge.core.arrays import thinned_rows
from warpgauge.errors import SuspiciousDataWarning, WarpgaugeError, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.landmarks import Landmarks
from warpgauge.io.landmarks.base import FILE_FRAMES
from warpgauge.io.landmarks.permutation import likely_permutation, robust_affine
from warpgauge.io.misreadings import SCALES, landmark_readings
from warpgauge.maps import warped_image
from warpgauge.project import Project
from warpgauge.session.session import Session

# Images are compared at this many elements along the longest side, in patches of this radius.
_LONGEST = {2: 512, 3: 128}
_RADIUS = {2: 12, 3: 4}
_SMOOTHING = 1.5
_MOST_PAIRS = 150
_FEWEST_PAIRS = 6
# Another reading is likely where its mean correlation exceeds that as given by so much and by so many standard errors.
# Readings whose correlations differ by less than the last are the same.
_GAIN, _ERRORS, _SAME = 0.08, 4.0, 0.005
_MOST_OUTSIDE = 0.5
# Landmarks of other images: the mean of that share, and so many standard errors, lie below this. Both were chosen on
# one region of CIMA and on images made from it, where none of 960 right sets of 8 to 40 pairs was refused.
_ALIKE, _ALIKE_ERRORS, _FEWEST_ALIKE = 0.65, 2.0, 8
_FLAT = 1e-3  # a patch with less structure than this share of the strongest one says nothing
# No right landmarks lie within so many pixels; metres or micrometres read as millimetres do, or the reverse.
_COLLAPSED, _UNITS = 2.0, (1000.0, 100.0, 10.0)
_SIDES = ("fixed", "moving")
_WORDS = {
    "inverse": "fixed and moving exchanged (the two files or columns)",
    "xy": "x and y{} exchanged",
    "reversed": "x, y and z{} in the reverse order",
    "lps": "RAS and LPS{} exchanged",
    "voxel": "indices{} for world points, or the reverse",
}

# A reading is advised only if so many points of each side lie in their image.
_INSIDE = 0.9
AS_GIVEN = "as given"

_Pair = tuple[Floats, Floats]
_Reading = tuple[str, _Pair]
Reread = Callable[..., Landmarks]


def import_problems(project: Project, landmarks: Landmarks, reread: Reread | None = None) -> list[str]:
    """Return probable mistakes in landmarks for a project, one clause each; empty if there are none.

    Rows that fit in another order, most points outside their image, and misreadings under which the images are clearly
    more alike at the pairs. ``reread`` reads the same landmarks with another ``frame=``: what is advised has then been
    tried with the file itself.
    """
    if landmarks.moving_points is None or not len(landmarks):
        return []
    fixed, moving = landmarks.fixed_points, landmarks.moving_points
    problems = []
    for points, grid, side in ((fixed, project.fixed_grid, "fixed"), (moving, project.moving_grid, "moving")):
        outside = int(np.count_nonzero(~grid.contains(points)))
        if outside > _MOST_OUTSIDE * len(points):
            problems.append(f"{outside} of {len(points)} {side} points lie outside the {side} image")
        if len(points) >= _FEWEST_PAIRS and float(np.ptp(points, axis=0).max()) < _COLLAPSED * grid.pixel:
            problems.append(_collapsed(points, grid, side))
    permutation = likely_permutation(fixed, moving)
    if permutation is not None:
        problems.append(permutation.sentence(project.units))
    views = _views(project) if len(fixed) >= _FEWEST_PAIRS else None
    if views is not None:
        rows = thinned_rows(len(fixed), _MOST_PAIRS)
        fixed, moving = fixed[rows], moving[rows]
        clause = _likely_reading(project, views, (fixed, moving), rows, reread)
        if clause is None and not problems:
            clause = _other_images(views, fixed, moving)
        problems += [] if clause is None else [clause]
    return problems


def copied_marks(session: Session, landmarks: Landmarks) -> list[str]:
    """Return a clause on each rater whose marks are those of the landmarks to the last digit: a copy is no rater."""
    if landmarks.moving_points is None:
        return []
    rows = {tuple(row) for row in np.hstack([landmarks.fixed_points, landmarks.moving_points]).round(6).tolist()}
    clauses = []
    for rater in session.project.state.who_answered():
        marks = session.landmarks(rater)
        if marks.moving_points is None:
            continue
        others = {tuple(row) for row in np.hstack([marks.fixed_points, marks.moving_points]).round(6).tolist()}
        same = len(rows & others)
        if same >= _FEWEST_PAIRS and same >= _INSIDE * len(rows):
            clauses.append(
                f"{same} of {len(rows)} landmarks are marked by {rater} already, equal to the last digit, and a copy "
                "is no second rater"
            )
    return clauses


def _collapsed(points: Floats, grid: Grid, side: str) -> str:
    """Return a clause on points that lie in one place, with the unit that spreads them over the image, if one does."""
    spread = (scale for scale in _UNITS if float(np.mean(grid.contains(points * scale))) >= _INSIDE)
    found = next(spread, None)
    advice = "" if found is None else f", and with {say('scale', found)} they are spread over it"
    return (
        f"all {len(points)} {side} points lie within {np.ptp(points, axis=0).max():.3g} {grid.units}, in one or two "
        f"pixels of the image{advice}"
    )


@dataclass(frozen=True)
class _View:
    """Gradient magnitude of an image on a coarse grid."""

    values: Floats
    grid: Grid

    def patches(self, points: Floats, linear: Floats | None = None) -> tuple[Floats, Floats]:
        """Return patches (n, m) around world points, of mean 0 and length 1, and their lengths before; 0 outside.

        Patches are laid along the axes of the world, so that images whose axes run in other directions are comparable;
        or along those after a linear map (d, d).
        """
        d = self.grid.d
        steps = np.arange(-_RADIUS[d], _RADIUS[d] + 1) * float(self.grid.spacing.mean())
        offsets = np.stack(np.meshgrid(*[steps] * d, indexing="ij"), axis=-1).reshape(-1, d)
        offsets = offsets if linear is None else offsets @ linear.T
        at = self.grid.array_coordinates((points[:, None] + offsets).reshape(-1, d))
        values = ndimage.map_coordinates(self.values, at, order=1, mode="nearest").reshape(len(points), -1)
        values -= values.mean(axis=1, keepdims=True)
        values[~self.grid.contains(points)] = 0
        lengths = np.linalg.norm(values, axis=1)
        return values / np.where(lengths > 0, lengths, 1.0)[:, None], lengths

    def inside(self, points: Floats) -> float:
        """Return the share of points that lie in the image."""
        return float(np.mean(self.grid.contains(points)))

    def distinct(self, points: Floats) -> int:
        """Return in how many places of the size of a patch the points lie."""
        cells = np.floor(self.grid.world_to_index(points) / (2 * _RADIUS[self.grid.d] + 1))
        return len(np.unique(cells, axis=0))


def _view(project: Project, role: str) -> _View:
    grid = project.fixed_grid if role == "fixed" else project.moving_grid
    # One element has the same size in both images, so that patches show the same extent.
    size = max(max(one.spacing * one.size) for one in (project.fixed_grid, project.moving_grid)) / _LONGEST[grid.d]
    coarse = grid.coarsened(max(1.0, float(size / grid.spacing.mean())))
    sampled = warped_image(project.image(role), lambda points: points, coarse)
    gray, _ = to_gray(np.nan_to_num(sampled), grid.d)
    return _View(ndimage.gaussian_gradient_magnitude(np.asarray(gray, dtype=np.float64), _SMOOTHING), coarse)


def _likeness(fixed: _View, moving: _View, pairs: _Pair) -> Floats:
    """Correlation of the patches of each pair; 0 where a point lies outside."""
    return np.asarray((fixed.patches(pairs[0])[0] * moving.patches(pairs[1])[0]).sum(axis=1))


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
    fixed_patches, fixed_lengths = views[0].patches(fixed)
    moving_patches, moving_lengths = views[1].patches(moving, robust_affine(fixed, moving)[1:].T)
    usable = (fixed_lengths > _FLAT * fixed_lengths.max()) & (moving_lengths > _FLAT * moving_lengths.max())
    count = int(usable.sum())
    if count < _FEWEST_ALIKE:
        return None
    alike = fixed_patches[usable] @ moving_patches[usable].T
    own = np.diag(alike)
    shares = ((alike < own[:, None]).sum(axis=1) + (alike < own[None]).sum(axis=0)) / (2 * (count - 1))
    mean = float(shares.mean())
    error = float(shares.std(ddof=1)) / np.sqrt(count)
    if not mean + _ALIKE_ERRORS * error < _ALIKE:
        return None
    return (
        f"the images are no more alike at the {count} pairs than at points of different pairs (a pair is more alike in "
        f"{100 * mean:.0f} %, where 50 % is chance): the landmarks belong to other images, or their rows do not "
        f"correspond"
    )


def _likely_reading(
    project: Project, views: tuple[_View, _View], as_given: _Pair, rows: NDArray[np.intp], reread: Reread | None
) -> str | None:
    """Return a clause on the reading under which the images match best, if it is clearly not the given one."""
    given = _likeness(*views, as_given)
    tried = [(AS_GIVEN, given)]
    likely: list[str] = []
    for name, pairs in _readings(project.fixed_grid, project.moving_grid, as_given, _frames(as_given, rows, reread)):
        if min(view.inside(points) for view, points in zip(views, pairs, strict=True)) < _INSIDE:
            continue
        other = _likeness(*views, pairs)
        tried.append((name, other))
        # Pairs whose patches overlap say the same: a scale that draws all of them into a corner has few that count.
        count = min(view.distinct(points) for view, points in zip(views, pairs, strict=True))
        if _clear(other, given, count):
            likely.append(name)
    if not likely:
        return None
    fit = {name: float(values.mean()) for name, values in tried}
    most = max(fit[name] for name in likely)
    # The commonest mistakes come first; of images that lie almost on each other, many readings look alike.
    best = next(name for name in likely if fit[name] >= most - _SAME)
    second = max((name for name, _ in tried if name != best), key=fit.__getitem__)
    beside = f" and {fit[second]:.2f} with {second}, the best other" if second != AS_GIVEN else ""
    return (
        f"the images fit each other better at the pairs if these are read with {best}: the mean fit is "
        f"{fit[best]:.2f}, against {fit[AS_GIVEN]:.2f} as given{beside}"
    )


def _clear(other: Floats, given: Floats, count: int) -> bool:
    """Return whether values clearly exceed others, as those of so many places."""
    gain = other - given
    return bool(gain.mean() > max(_GAIN, _ERRORS * float(gain.std(ddof=1)) / np.sqrt(count)))


def _frames(as_given: _Pair, rows: NDArray[np.intp], reread: Reread | None) -> list[_Reading]:
    """Read the file again under each frame, and return those that give other points."""
    found: list[_Reading] = []
    if reread is None:
        return found
    for frame in FILE_FRAMES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SuspiciousDataWarning)
                other = reread(frame=frame)
        except WarpgaugeError:
            continue  # a frame that this file or these images cannot have
        if other.moving_points is None or (len(other) != len(rows) and len(other) <= int(rows.max())):
            continue
        pair = other.fixed_points[rows], other.moving_points[rows]
        if not any(np.allclose(pair[0], known[0]) for _, known in [(AS_GIVEN, as_given), *found]):
            found.append((say("frame", frame), pair))
    return found


def _readings(fixed_grid: Grid, moving_grid: Grid, given: _Pair, frames: list[_Reading]) -> Iterator[_Reading]:
    """Yield the usual mistakes and the pairs without them, the commonest first."""
    yield from frames
    for reading in landmark_readings(fixed_grid.d, fixed_grid, moving_grid):
        pairs = reading.points(*given)
        # Patches do not see a shift by one; and what an option reads has been tried.
        if reading.kind != "one" and not any(np.allclose(pairs, known) for _, known in frames):
            side = next((f" of the {side} points" for side in _SIDES if reading.option.endswith(side)), "")
            yield _WORDS[reading.kind].format(side), pairs
    yield from ((f"{name}, {_WORDS['inverse']}", (pair[1], pair[0])) for name, pair in frames)
    spacing = float(fixed_grid.spacing.mean())
    common = [scale for scale in SCALES if 0.1 <= scale <= 10]  # a smaller one draws all points into a corner
    for scale in sorted({*common, 0.5, 2.0, spacing, 1 / spacing} - {1.0}):
        yield say("scale", scale), (given[0] * scale, given[1] * scale)
