"""Overlays on planes of the fixed image: maps, the warped moving image."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import Transform
from warpgauge.maps import entropy_limits, entropy_map, error_map, known_share
from warpgauge.maps.dense import masked
from warpgauge.maps.warping import fitting_level
from warpgauge.project import Project
from warpgauge.web.cache import CACHE
from warpgauge.web.failures import NotFoundError
from warpgauge.web.planes import in_plane, part_of_plane, plane_array, plane_grid
from warpgauge.web.tiled_image import TiledImage
from warpgauge.web.wire import Side

MapKind = Literal["entropy", "blended"]
MOST_WARPED = 1 << 20
MOST_MAPPED = 1 << 18
_MOST_READ = 256 * 2**20
_STEP = 8  # elements between the points at which the mean is computed


def warped_plane(
    source: tuple[NDArray[Any], Grid], posterior: Posterior, grid: Grid, axis: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """Sample a level of the moving image at the mean of a plane of the fixed image, and say where it has a sample.

    The mean is computed at every eighth element and interpolated linearly between, for pictures that follow a hand.
    Figures and files come from `warpgauge.maps.warped_image`.
    """
    samples, frame = source
    column, row = in_plane(grid.d, axis)
    across = _spread(grid.size[column])
    down = _spread(grid.size[row])
    index = np.zeros((down.shape[1], across.shape[1], grid.d))
    index[..., column] = np.linspace(0, grid.size[column] - 1, across.shape[1])
    index[..., row] = np.linspace(0, grid.size[row] - 1, down.shape[1])[:, None]
    mapped = posterior.mean(grid.index_to_world(index.reshape(-1, grid.d)))
    coarse = frame.array_coordinates(mapped).reshape(grid.d, *index.shape[:2])
    at = np.stack([down @ one @ across.T for one in coarse])
    sizes = np.array(frame.shape).reshape(-1, 1, 1)
    within = np.asarray(np.all((at >= -0.5) & (at <= sizes - 0.5), axis=0))
    channels = np.moveaxis(samples.reshape(*frame.shape, -1), -1, 0)
    sampled = [ndimage.map_coordinates(one, at, output=np.float32, order=1, mode="nearest") for one in channels]
    values = np.stack(sampled, axis=-1)
    return (values if samples.ndim > frame.d else values[..., 0]), within


def _spread(count: int) -> Floats:
    """Weights that interpolate linearly from points about `_STEP` elements apart to all of them, (count, points)."""
    points = max(2, int(np.ceil((count - 1) / _STEP)) + 1)
    at = np.linspace(0, points - 1, count) if count > 1 else np.zeros(1)
    return np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(points)))


class Overlays:
    """Computes overlays of one project from its images.

    Nothing here holds the session's lock: a posterior does not change once it is made.
    """

    def __init__(self, project: Project, pictures: dict[Side, TiledImage]) -> None:
        self.project, self.pictures = project, pictures

    def transform(self, name: str) -> Transform:
        """Read a transform of the project by its name; only names of the log lead to a file."""
        record = self.project.state.transforms.get(name)
        if record is None:
            raise NotFoundError("The project has no transform of that name.")
        key = ("transform", self.project.document.id, name, record.generation)
        transform: Transform = CACHE.get(key, lambda: self.project.transform(name))
        return transform

    def map(
        self, kind: MapKind, posterior: Posterior, transform: str | None, axis: int, index: int, width: int
    ) -> tuple[NDArray[np.float32], Grid, tuple[float, float]]:
        """Return a map over a plane, the plane's grid, and the entropies between which knowledge ends.

        ``"blended"`` has two channels: the error score of a transform, and how far it is known, 1 to 0.
        """
        grid = plane_grid(self.project.fixed_grid, axis, index, width, MOST_MAPPED)
        mapped = None
        if kind == "blended":
            if transform is None:
                raise InvalidInputError("The map 'blended' is that of a transform; name one.")
            mapped = self.transform(transform)

        def make() -> tuple[Posterior, NDArray[np.float32], tuple[float, float]]:
            limits = entropy_limits(posterior, pixel=self.project.fixed_grid.pixel)
            entropy = entropy_map(posterior, grid)
            if mapped is None:
                return posterior, np.asarray(entropy, dtype=np.float32), limits
            error = error_map(posterior, mapped, grid)
            return posterior, np.stack([error, known_share(entropy, limits)], axis=-1).astype(np.float32), limits

        # Both stand in the value, so that their identities cannot be taken over by others.
        key = ("map", id(posterior), id(mapped), axis, index, width)
        _, values, limits, _ = CACHE.get(key, lambda: (*make(), mapped))
        return plane_array(grid, axis, masked(values, grid, self.project.missing)), grid, limits

    def warped(
        self,
        posterior: Posterior,
        axis: int,
        index: int,
        level: int,
        part: tuple[int, int, int, int] | None = None,
        channels: str = "",
    ) -> tuple[NDArray[Any], NDArray[np.bool_], Grid]:
        """Return the moving image at the mean of a plane of the fixed image, or of a part of it, as tiles are sent.

        The second array marks where there is a sample: 0 elsewhere is not dark tissue.
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
        samples, frame = self._source(fitting_level(moving.image, float(level_grid.spacing.min())))
        values, within = warped_plane((moving.chosen(samples, channels), frame), posterior, grid, axis)
        values[~within] = np.nan
        return moving.rescaling.apply(values), within, grid

    def _source(self, level: int) -> tuple[NDArray[Any], Grid]:
        """Read a level of the moving image, or the first coarser one that is not too large to be held."""
        picture = self.pictures["moving"]
        image = picture.image
        size = image.channels * image.dtype.itemsize
        while level < image.levels - 1 and image.level_grid(level).count * size > _MOST_READ:
            level += 1
        samples: NDArray[Any] = CACHE.get((picture.version, "level", level), lambda: image.read(level))
        return samples, image.level_grid(level)
