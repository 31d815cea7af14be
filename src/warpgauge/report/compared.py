"""`compare`: from two images, registration results and landmarks to a table and maps, in one call."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpgauge.core.annotations import Annotations
from warpgauge.core.power_law import default_posterior
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Comparison, Evaluation, Scene, evaluate_comparison
from warpgauge.evaluation.project_evaluation import BASELINE, with_baseline
from warpgauge.geometry import Floats, Grid, Units
from warpgauge.io.images import read_image
from warpgauge.io.landmarks import Landmarks, read_landmarks
from warpgauge.io.transforms import Convention, Transform, as_transform
from warpgauge.maps import entropy_limits, entropy_map, error_map
from warpgauge.maps.pictures import Picture, displayable, map_picture

# Elements along the longest side of a map, and about as many targets.
_LONGEST = {2: 256, 3: 96}
_TARGETS = 2000


@dataclass(frozen=True, eq=False)
class Compared:
    """Result of `compare`."""

    evaluation: Evaluation
    """Scores, intervals, ranking and verdict."""
    maps: dict[str, Floats]
    """The error score e(x) of each transform on the grid."""
    grid: Grid
    annotations: Annotations
    picture: Picture
    """One map per method, faded and hatched where the annotations say little."""

    def table(self) -> Any:
        """Return the scores as a pandas table."""
        return self.evaluation.to_dataframe()

    def plot(self, **options: Any) -> Any:
        """Draw the maps; return matplotlib's figure."""
        return map_picture(self.picture, **options)

    def _repr_html_(self) -> str:
        stream = io.BytesIO()
        self.plot().savefig(stream, format="png", dpi=100)
        picture = base64.b64encode(stream.getvalue()).decode("ascii")
        shown = self.evaluation._repr_html_()
        return f'{shown}<img alt="error maps" src="data:image/png;base64,{picture}" style="max-width:100%">'

    def __str__(self) -> str:
        return str(self.evaluation.verdict)


def compare(
    fixed: Any,
    moving: Any,
    transforms: Mapping[str, Any],
    landmarks: Any,
    *,
    convention: Convention | None = None,
    sd: float | None = None,
    spacing: Any = None,
    units: Units | None = None,
    targets: Any = None,
    seed: int = 0,
) -> Compared:
    """Compare registration results of two images by landmarks: scores, ranking, verdict and error maps.

    Parameters
    ----------
    fixed, moving : array, path or image
        Arrays as ``[y, x]``, ``[y, x, 3]`` or ``[z, y, x]``; of moving only the grid is used.
    transforms : mapping of str to object
        Whatever `as_transform` takes: paths, functions of points, transforms of SimpleITK, ITK or ANTsPy, arrays.
    landmarks : Annotations, Landmarks, pair of (n, d) arrays, or path
        Matching points of the fixed and the moving image, in world units (pixels without a spacing).
    convention : str, optional
        What arrays of vectors are, see `as_transform`.
    sd : float, optional
        Standard deviation of landmarks that do not state one; one pixel by default.
    spacing, units : optional
        Of arrays, x first.
    targets : (n, d) array, optional
        Where errors count; nodes all over the fixed image by default.
    seed : int
        Of the samples.

    Returns
    -------
    Compared
        Shows itself in a notebook; ``evaluation``, ``maps``, ``table()`` and ``plot()`` have the parts.
    """
    if not transforms:
        raise InvalidInputError("compare needs at least one transform to compare.")
    opened = _opened(fixed, spacing, units)
    grid = _grid(opened, spacing, units)
    moving_grid = _grid(_opened(moving, spacing, units), spacing, units)
    annotations = _annotations(landmarks, grid, moving_grid, sd)
    coarse = grid.coarsened(max(1.0, max(grid.size) / _LONGEST[grid.d]))
    if targets is None:
        nodes = grid.coarsened(max(1.0, (grid.count / _TARGETS) ** (1 / grid.d)))
        targets = nodes.points(0, nodes.count)
    named = {name: _transform(one, name, convention, grid, moving_grid) for name, one in transforms.items()}
    posterior = default_posterior(annotations, grid)
    scene = Scene(grid, grid.units)
    comparison = Comparison.of(
        with_baseline(named, grid.d), np.asarray(targets, dtype=np.float64), posterior, baseline=BASELINE, scene=scene
    )
    evaluation = evaluate_comparison(comparison, seed=seed)
    maps = {name: error_map(posterior, transform, coarse) for name, transform in named.items()}
    samples = opened if isinstance(opened, np.ndarray) else opened.read()
    if samples.ndim > grid.d:
        samples = samples.mean(axis=-1)
    axes = zip(grid.shape, coarse.shape, strict=True)
    rows = [np.linspace(0, size - 1, fewer).round().astype(int) for size, fewer in axes]
    below = displayable(samples[tuple(np.ix_(*rows))])
    picture = Picture(
        maps, coarse, image=below, entropy=entropy_map(posterior, coarse), points=annotations.fixed_points,
        limits=entropy_limits(posterior, pixel=grid.pixel),
    )  # fmt: skip
    return Compared(evaluation, maps, coarse, annotations, picture)


def _opened(image: Any, spacing: Any, units: Units | None) -> Any:
    """Return an image of this program, or an array with its colours as one channel."""
    if isinstance(image, str | os.PathLike):
        return read_image(image, spacing=spacing, units=units)
    if hasattr(image, "grid") and hasattr(image, "read"):
        return image
    array = np.asarray(image)
    if array.ndim == 3 and array.shape[-1] == 3:
        array = array.mean(axis=-1)
    if array.ndim not in (2, 3) or array.dtype.kind not in "biuf":
        raise InvalidInputError(f"An image is [y, x], [y, x, 3] or [z, y, x] of numbers, got shape {array.shape}.")
    return array


def _grid(opened: Any, spacing: Any, units: Units | None) -> Grid:
    if not isinstance(opened, np.ndarray):
        grid: Grid = opened.grid
        return grid
    return array_grid(opened.shape, spacing, units)


def array_grid(shape: tuple[int, ...], spacing: Any = None, units: Units | None = None) -> Grid:
    """Return the grid of an array image whose first pixel is the origin; its spacing is given x first."""
    steps = np.broadcast_to(1.0 if spacing is None else np.asarray(spacing, dtype=np.float64), (len(shape),))
    return Grid(shape[::-1], steps, units=units or ("px" if spacing is None else "mm"))


def _annotations(landmarks: Any, fixed: Grid, moving: Grid, sd: float | None) -> Annotations:
    if isinstance(landmarks, Annotations):
        return landmarks
    if isinstance(landmarks, str | os.PathLike):
        landmarks = read_landmarks(landmarks, fixed_grid=fixed, moving_grid=moving)
    size = fixed.pixel if sd is None else sd
    if isinstance(landmarks, Landmarks):
        if landmarks.moving_points is None:
            raise InvalidInputError("These landmarks are points of one image; compare needs pairs.")
        rows = landmarks.active
        plain = Annotations.isotropic(landmarks.fixed_points[rows], landmarks.moving_points[rows], size)
        if landmarks.covariances is None:
            return plain
        stated = landmarks.has_covariance[rows][:, None, None]
        covariances = np.where(stated, landmarks.covariances[rows], plain.covariances)
        return Annotations(plain.fixed_points, plain.moving_points, covariances)
    try:
        first, second = landmarks
    except (TypeError, ValueError) as error:
        raise InvalidInputError("Landmarks are Annotations, Landmarks, a path, or fixed and moving points.") from error
    return Annotations.isotropic(first, second, size)


def _transform(source: Any, name: str, convention: Convention | None, fixed: Grid, moving: Grid) -> Transform:
    array = isinstance(source, np.ndarray) or hasattr(source, "detach")
    return as_transform(
        source, convention=convention if array else None, grid=fixed, moving=moving if array else None, name=name
    )  # fmt: skip
