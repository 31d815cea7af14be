"""Overlays on planes of the fixed image: maps, the warped moving image, the deformed grid, points through the model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.core.annotations import Annotations
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import FunctionTransform, NumericalInverse, Transform
from warpgauge.maps import entropy_limits, entropy_map, error_map, known_share, standard_deviation_map
from warpgauge.maps.dense import masked
from warpgauge.maps.warping import fitting_level
from warpgauge.project import Project
from warpgauge.web.failures import NotFoundError
from warpgauge.web.planes import in_plane, part_of_plane, plane_array, plane_grid
from warpgauge.web.tiled_image import TiledImage

MapKind = Literal["entropy", "sd", "error", "blended"]
MOST_WARPED = 1 << 20
MOST_MAPPED = 1 << 18
_MOST_READ = 256 * 2**20
_TOLERANCE = 1e-3  # of a pixel, for points through the inverse
STEP = 8  # elements between the points at which the mean is computed


class Mean(Protocol):
    """What maps fixed to moving points: a posterior, or an alignment."""

    def mean(self, points: Floats, /) -> Floats:
        """Map points."""


def with_mark(posterior: Posterior, fixed: Floats, moving: Floats, covariance: Floats) -> Posterior:
    """Return the posterior given one more mark; it takes the place of one at the same fixed point."""
    further = Annotations(fixed[None], moving[None], covariance[None])
    known = posterior.annotations
    same = np.flatnonzero(np.all(np.isclose(known.fixed_points, fixed, rtol=0, atol=1e-6), axis=1))
    if len(same):
        others = known.without(int(same[0]))
        posterior = posterior.prior.condition(others, calibrate=posterior.calibrates)
    return posterior.append(further)


def warped_plane(
    source: tuple[NDArray[Any], Grid], posterior: Mean, grid: Grid, axis: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Sample the moving image at the posterior mean of a plane of the fixed image, and say where it has a sample.

    The mean is computed at every eighth element and interpolated linearly between, for pictures that change while a
    hand moves. Figures and files come from `warpgauge.maps.warped_image`.

    Parameters
    ----------
    source : (array, Grid)
        A level of the moving image.
    posterior : Mean
    grid : Grid
        Of the plane, or of a part of it.
    axis : int

    Returns
    -------
    values : (rows, columns) or (rows, columns, channels) array
    within : (rows, columns) array of bool
    """
    samples, frame = source
    column, row = in_plane(grid.d, axis)
    across, down = _spread(grid.size[column]), _spread(grid.size[row])
    index = np.zeros((down.shape[1], across.shape[1], grid.d))
    index[..., column] = np.linspace(0, grid.size[column] - 1, across.shape[1])
    index[..., row] = np.linspace(0, grid.size[row] - 1, down.shape[1])[:, None]
    mapped = posterior.mean(grid.index_to_world(index.reshape(-1, grid.d)))
    coarse = frame.array_coordinates(mapped).reshape(grid.d, *index.shape[:2])
    at = np.stack([down @ one @ across.T for one in coarse])
    sizes = np.array(frame.shape).reshape(-1, 1, 1)
    within = np.asarray(np.all((at >= -0.5) & (at <= sizes - 0.5), axis=0))
    channels = samples.reshape(*frame.shape, -1)
    each = np.moveaxis(channels, -1, 0)
    sampled = [ndimage.map_coordinates(one, at, output=np.float32, order=1, mode="nearest") for one in each]
    values = np.stack(sampled, axis=-1)
    return (values if samples.ndim > frame.d else values[..., 0]), within


def _spread(count: int) -> Floats:
    """Weights that interpolate linearly from points about `STEP` elements apart to all of them, (count, points)."""
    points = max(2, int(np.ceil((count - 1) / STEP)) + 1)
    at = np.linspace(0, points - 1, count) if count > 1 else np.zeros(1)
    return np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(points)))


class Kept:
    """A few results that took long, kept until others push them out; each is made by one thread only."""

    def __init__(self, count: int) -> None:
        self._count, self._lock = count, threading.Lock()
        self._values: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of a key, computed now where it is missing."""
        with self._lock:
            known = self._values.get(key)
            value = self._values.setdefault(key, Future())
            self._values.move_to_end(key)
            while len(self._values) > self._count:
                self._values.popitem(last=False)
        if known is None:
            try:
                value.set_result(make())
            except BaseException as error:
                with self._lock:
                    if self._values.get(key) is value:
                        del self._values[key]
                value.set_exception(error)
        return value.result()


class Overlays:
    """Computes overlays of one project from its images.

    Nothing here holds the session's lock: a posterior does not change once it is made.
    """

    def __init__(self, project: Project, pictures: dict[str, TiledImage]) -> None:
        self.project, self.pictures = project, pictures
        self._maps, self._transforms, self._inverses, self._levels = Kept(64), Kept(32), Kept(4), Kept(2)
        self._pixel = project.fixed_grid.pixel

    def transform(self, name: str) -> Transform:
        """Read a transform of the project by its name; only names of the log lead to a file."""
        record = self.project.state.transforms.get(name)
        if record is None:
            raise NotFoundError("The project has no transform of that name.")

        found: Transform = self._transforms.get((name, record.generation), lambda: self.project.transform(name))
        return found

    def map(
        self, kind: MapKind, posterior: Posterior, transform: str | None, axis: int, index: int, width: int
    ) -> tuple[NDArray[np.float32], Grid, tuple[float, float] | None]:
        """Return a map over a plane, the plane's grid, and the entropies between which knowledge ends.

        ``"blended"`` has two channels: the error score, and how far it is known, 1 to 0.
        """
        mapped = None if transform is None else self.transform(transform)
        if kind in ("error", "blended") and mapped is None:
            raise InvalidInputError(f"The map {kind!r} is that of a transform; name one.")
        grid = plane_grid(self.project.fixed_grid, axis, index, width, MOST_MAPPED)
        # A transform that is replaced under its name has another generation.
        of = None if mapped is None else (transform, self.project.state.transforms[str(transform)].generation)
        key = (kind, of, axis, index, width)
        # The posterior is part of the value, so that its identity cannot be taken over by another one.
        made = self._maps.get((*key, id(posterior)), lambda: (posterior, self._make(kind, posterior, mapped, grid)))
        values, limits = made[1]
        values = masked(values, grid, self.project.missing)
        return plane_array(grid, axis, values), grid, limits

    def _make(
        self, kind: MapKind, posterior: Posterior, transform: Transform | None, grid: Grid
    ) -> tuple[NDArray[np.float32], tuple[float, float] | None]:
        if kind == "sd":
            return np.asarray(standard_deviation_map(posterior, grid), dtype=np.float32), None
        if kind == "error":
            return np.asarray(error_map(posterior, transform, grid), dtype=np.float32), None
        limits, entropy = entropy_limits(posterior, pixel=self._pixel), entropy_map(posterior, grid)
        if kind == "entropy":
            return np.asarray(entropy, dtype=np.float32), limits
        error = error_map(posterior, transform, grid)
        return np.stack([error, known_share(entropy, limits)], axis=-1).astype(np.float32), limits

    def warped(
        self,
        posterior: Mean,
        axis: int,
        index: int,
        level: int,
        part: tuple[int, int, int, int] | None = None,
        channels: str = "",
    ) -> tuple[NDArray[Any], NDArray[np.bool_], Grid]:
        """Return the moving image at the mean of a plane of the fixed image, or of a part of it, as tiles are sent.

        The second array marks where there is a sample: 0 elsewhere is not dark tissue. The mean is computed at every
        eighth element and interpolated between.
        """
        fixed, moving = self.pictures["fixed"], self.pictures["moving"]
        rows, columns = fixed.plane_shape(axis, index, level)
        level_grid = fixed.image.level_grid(level)
        grid = plane_grid(level_grid, axis, index, columns)
        if part is not None:
            grid = part_of_plane(grid, axis, part)
        if grid.count > MOST_WARPED:
            raise InvalidInputError(
                f"The plane of {rows} x {columns} at level {level} is too large to be warped; ask for a coarser level, "
                "or for a part of it."
            )
        source = self._source(fitting_level(moving.image, float(level_grid.spacing.min())))
        values, within = warped_plane((moving.chosen(source[0], channels), source[1]), posterior, grid, axis)
        values[~within] = np.nan
        return moving.rescaling.apply(values), within, grid

    def _source(self, level: int) -> tuple[NDArray[Any], Grid]:
        """Read a level of the moving image, or the first coarser one that is not too large to be held."""
        image = self.pictures["moving"].image
        size = image.channels * image.dtype.itemsize
        while level < image.levels - 1 and image.level_grid(level).count * size > _MOST_READ:
            level += 1
        found: tuple[NDArray[Any], Grid] = self._levels.get(level, lambda: (image.read(level), image.level_grid(level)))
        return found

    def linked(self, posterior: Posterior, side: Literal["fixed", "moving"], points: Floats) -> Floats:
        """Map points of one image to the other by the posterior mean; NaN rows have no counterpart."""
        if side == "fixed":
            return posterior.mean(points)
        tolerance = _TOLERANCE * float(self.project.moving_grid.spacing.min())

        def make() -> tuple[Posterior, NumericalInverse]:
            mean = FunctionTransform(posterior.mean, posterior.d, serial=False, support=self.project.fixed_grid)
            return posterior, NumericalInverse(mean, tolerance)

        inverse: NumericalInverse = self._inverses.get(id(posterior), make)[1]
        return inverse.map(points)
