"""Parts of a picture of a map: flat cuts, colour scales, fading by what is known, and warped images.

The colour scales are perceptually uniform and distinct with every kind of colour vision. They are matplotlib's (extra
``report``), imported when a colour is first asked for. :mod:`warpgauge.maps.pictures` puts the parts together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.display import shown_units
from warpgauge.errors import InvalidInputError, MissingExtraError, install_advice
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps.dense import POINTS, Progress, defined_rows, mapping

_NAMES = {0: "sagittal", 1: "coronal", 2: "axial"}


@dataclass(frozen=True, eq=False)
class Plane:
    """A cut through a grid along two of its axes.

    Parameters
    ----------
    grid : Grid
    axis : int
        The normal: 0 is x, 1 is y, 2 is z; 2 for a 2D grid.
    index : int
        Which plane; 0 for a 2D grid.
    """

    grid: Grid
    axis: int = 2
    index: int = 0

    def __post_init__(self) -> None:
        depth = 1 if self.grid.d == 2 else self.grid.size[self.axis] if self.axis in (0, 1, 2) else 0
        if (self.grid.d == 2 and self.axis != 2) or not 0 <= self.index < depth:
            raise InvalidInputError(f"A {self.grid.d}D grid has no plane {self.index} along axis {self.axis}.")

    @property
    def axes(self) -> tuple[int, int]:
        """Grid axes (0 is x) that run to the right and along the rows of the cut."""
        right, down = [axis for axis in range(self.grid.d) if self.grid.d == 2 or axis != self.axis]
        return right, down

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top edge in world units from the corner of the first element."""
        right, down = (self.grid.size[axis] * float(self.grid.spacing[axis]) for axis in self.axes)
        return (0.0, right, 0.0, down) if self.upright else (0.0, right, down, 0.0)

    @property
    def upright(self) -> bool:
        """Whether rows are drawn upwards, so that a patient's head is on top."""
        if self.grid.d == 2:
            return False
        column = self.grid.direction[:, self.axes[1]]
        main = int(np.argmax(np.abs(column)))
        return bool(column[main] > 0) if main == 2 else bool(column[main] < 0)

    @property
    def caption(self) -> str:
        """Description of the cut; empty in 2D."""
        if self.grid.d == 2:
            return ""
        middle = (np.asarray(self.grid.size) - 1) / 2
        middle[self.axis] = self.index
        world = self.grid.index_to_world(middle)
        normal = int(np.argmax(np.abs(self.grid.direction[:, self.axis])))
        return f"{_NAMES[normal]}, {'xyz'[normal]} = {world[normal]:.4g} {shown_units(self.grid.units)}"

    def cut(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the plane of an array on the grid, colour channels kept."""
        return array if self.grid.d == 2 else np.take(array, self.index, axis=2 - self.axis)

    def positions(self, points_world: Floats, *, within: float = 0.5) -> tuple[Floats, NDArray[np.bool_]]:
        """Return (n, 2) picture positions of world points, and which lie within so many elements of the plane."""
        index = self.grid.world_to_index(points_world)
        near = np.ones(len(index), dtype=np.bool_)
        if self.grid.d == 3:
            near = np.abs(index[:, self.axis] - self.index) <= within
        axes = list(self.axes)
        return (index[:, axes] + 0.5) * self.grid.spacing[axes], near


def orthogonal_planes(grid: Grid, count: int = 1, through: Floats | None = None) -> list[Plane]:
    """Return the plane of a 2D grid, or ``count`` evenly spread planes along z, y and x of a 3D one.

    With ``through``, a world point, a single plane along each axis goes through it.
    """
    if grid.d == 2:
        return [Plane(grid)]
    if through is not None:
        index = np.round(grid.world_to_index(through)).astype(int)
        if not grid.contains(through):
            raise InvalidInputError(f"The point {np.asarray(through).tolist()} lies outside the grid.")
        return [Plane(grid, axis, int(np.clip(index[axis], 0, grid.size[axis] - 1))) for axis in (2, 1, 0)]
    return [Plane(grid, axis, int((k + 0.5) * grid.size[axis] / count)) for axis in (2, 1, 0) for k in range(count)]


def scale_bar_length(extent: float) -> float:
    """Return a round length (1, 2 or 5 times a power of ten) of about a fifth of an extent."""
    power = 10.0 ** np.floor(np.log10(extent / 5))
    for factor in (5, 2, 1):
        if factor * power <= extent / 4:
            return float(factor * power)
    return float(power)


def region_labels(posterior: Posterior, grid: Grid) -> NDArray[np.int64] | None:
    """Return the regions of a posterior's model on a grid; None where it has none."""
    regions = posterior.prior.kernel.regions
    return None if regions is None else regions(grid.points()).reshape(grid.shape)


def picture_grid(grid: Grid, elements: int = 300) -> Grid:
    """Coarsen a grid so that its longest axis has at most ``elements`` elements."""
    return grid.coarsened(max(1.0, max(grid.size) / elements))


# One scale for each kind of map, so that two kinds are never taken for one another.
ERROR_COLOURS = "plasma"  # none of its colours is grey, so that it shows on any grey image
ENTROPY_COLOURS = "viridis"
PROBABILITY_COLOURS = "magma"
SCALES = (ERROR_COLOURS, ENTROPY_COLOURS, PROBABILITY_COLOURS)

# Okabe and Ito's colours, for methods and marks.
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A7F00")


def matplotlib() -> Any:
    """Import matplotlib's object-oriented part; raise an error that names the extra where it is missing."""
    try:
        import matplotlib as library
        import matplotlib.backends.backend_agg
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError(
            f"Pictures need the library matplotlib, which is not installed; {install_advice('report')}."
        ) from error
    return library


def coloured(values: ArrayLike, low: float, high: float, colours: str) -> NDArray[np.uint8]:
    """Red, green and blue of values between ``low`` and ``high``, (*shape, 3) of 0 to 255; clipped at the ends."""
    if colours not in SCALES:
        raise InvalidInputError(f"The colour scale must be one of {', '.join(SCALES)}, got {colours!r}.")
    if not low < high:
        raise InvalidInputError(f"A colour scale needs two ascending ends, got {low!r} and {high!r}.")
    scale = matplotlib().colormaps[colours]
    share = (np.asarray(values, dtype=np.float64) - low) / (high - low)
    return np.asarray(scale(share, bytes=True)[..., :3])


_NATS = 0.5 * np.log(2 * np.pi * np.e)
# Shares of the kernel's own standard deviation: three quarters of its variance explained, and none of it. In between a
# map fades by the logarithm, so that half of the variance explained is half known.
_KNOWN, _UNKNOWN = 0.5, 1.0
# From this opacity on, a point counts as near annotations.
HALF_KNOWN = 0.5
# The same in pixels: below one of them no match counts as unknown, however stiff the kernel was found to be.
_KNOWN_PIXELS, _UNKNOWN_PIXELS = 1.0, 3.0


def entropy_of_deviation(deviation: float, d: int) -> float:
    """Entropy in nats of an isotropic normal in d dimensions with this standard deviation in world units."""
    return float(d * (_NATS + np.log(deviation)))


def entropy_limits(posterior: Posterior, *, pixel: float | None = None) -> tuple[float, float]:
    """Entropies between which maps fade: wholly known up to the first, unknown from the second on.

    Both are absolute, so that a map on which nothing is known shows nothing. They are those of a half and of the whole
    of the standard deviation of the kernel alone, which is what is left at a point that no annotation reaches; and,
    where ``pixel`` gives the world length of a pixel, at least those of 1 and of 3 pixels: a kernel that was fitted to
    a nearly affine pair may know every match to less than that without any annotation.
    """
    d = posterior.d
    alone = float(np.sqrt(posterior.scale * posterior.prior.kernel.at_zero))
    known, unknown = _KNOWN * alone, _UNKNOWN * alone
    if pixel is not None:
        if not (np.isfinite(pixel) and pixel > 0):
            raise InvalidInputError(f"The pixel must be a positive length in world units, got {pixel!r}.")
        known, unknown = max(known, _KNOWN_PIXELS * pixel), max(unknown, _UNKNOWN_PIXELS * pixel)
    return entropy_of_deviation(known, d), entropy_of_deviation(unknown, d)


def known_share(entropy: ArrayLike, limits: tuple[float, float]) -> Floats:
    """Opacity in [0, 1]: 1 up to the first entropy, 0 from the second on, linear between; never rising in entropy."""
    low, high = limits
    if not low < high:
        raise InvalidInputError(f"The blended map fades between two ascending entropies, got {low!r} and {high!r}.")
    values = np.asarray(entropy, dtype=np.float64)
    return np.asarray(np.clip((high - values) / (high - low), 0.0, 1.0))


def blended_map(
    error: ArrayLike, entropy: ArrayLike, limits: tuple[float, float], *, colours: str = ERROR_COLOURS
) -> NDArray[np.uint8]:
    """Red, green, blue and opacity of an error map, faded where the entropy is high, in 0 to 255.

    Parameters
    ----------
    error : array
        Values in [0, 1], from `error_map` or `exceedance_map`; NaN (outside the transform's domain) is transparent.
    entropy : array
        From `entropy_map`, same shape.
    limits : (float, float)
        From `entropy_limits`.
    colours : {"plasma", "viridis", "magma"}
        A perceptually uniform colour scale.
    """
    values, nats = np.asarray(error, dtype=np.float64), np.asarray(entropy, dtype=np.float64)
    if values.shape != nats.shape:
        raise InvalidInputError(
            f"Error and entropy must lie on the same grid, got shapes {values.shape} and {nats.shape}."
        )
    result = np.zeros((*values.shape, 4), dtype=np.uint8)
    defined = ~np.isnan(values)
    result[..., :3] = coloured(np.where(defined, values, 0.0), 0.0, 1.0, colours)
    opacity = np.round(255 * known_share(nats, limits))
    result[..., 3] = np.where(defined, opacity, 0.0).astype(np.uint8)
    return result


_COARSER = 1.001  # a level counts as fine enough up to rounding


def fitting_level(image: Image, spacing: float) -> int:
    """Coarsest level of an image whose spacing does not exceed ``spacing`` along any axis; level 0 if none."""
    fitting = [k for k in range(image.levels) if image.level_grid(k).spacing.max() <= _COARSER * spacing]
    return max(fitting, default=0)


def warped_image(
    moving: Image | tuple[NDArray[Any], Grid],
    transform: Any,
    grid: Grid,
    *,
    order: int = 1,
    progress: Progress | None = None,
) -> Floats:
    """Sample the moving image at ``transform(x)`` for every element x of a grid of the fixed image.

    Parameters
    ----------
    moving : Image, or (array, Grid)
        Of an `Image`, the coarsest level is read that is at least as fine as ``grid``.
    transform : Transform, Posterior or callable
        Maps fixed to moving world points; a posterior by its mean. Or the (grid.count, d) array of the points of the
        grid, already mapped.
    grid : Grid
    order : {0, 1}
        Nearest or linear interpolation.
    progress : callable, optional

    Returns
    -------
    (*grid.shape) or (*grid.shape, 3) array
        NaN outside the transform's domain and outside the moving image.
    """
    from scipy import ndimage

    if order not in (0, 1):
        raise InvalidInputError(f"warped_image interpolates with order 0 or 1, got {order!r}.")
    if isinstance(moving, Image):
        level = fitting_level(moving, float(grid.spacing.min()))
        samples, frame = np.asarray(moving.read(level)), moving.level_grid(level)
    else:
        samples, frame = np.asarray(moving[0]), moving[1]
    if samples.shape[: frame.d] != frame.shape or samples.ndim > frame.d + 1 or frame.d != grid.d:
        raise InvalidInputError(
            f"A moving image of shape {samples.shape} does not fit its grid {frame.shape} and the fixed {grid.d}D grid."
        )
    known = transform if isinstance(transform, np.ndarray) and transform.shape == (grid.count, grid.d) else None
    apply = mapping(transform, "warped_image", grid.d).map if known is None else None
    channels = samples.reshape(*frame.shape, -1)
    out = np.full((grid.count, channels.shape[-1]), np.nan)
    for start in range(0, grid.count, POINTS):
        stop = min(start + POINTS, grid.count)
        mapped = known[start:stop] if apply is None else apply(grid.points(start, stop))  # type: ignore[index]
        rows = np.flatnonzero(defined_rows(mapped))
        rows = rows[frame.contains(mapped[rows])]
        at = frame.array_coordinates(mapped[rows])
        for channel in range(channels.shape[-1]):
            # "nearest" serves the half pixel between the outer centres and the image's edge only.
            out[start + rows, channel] = ndimage.map_coordinates(
                channels[..., channel], at, output=np.float64, order=order, mode="nearest"
            )
        if progress is not None:
            progress(stop, grid.count)
    return out.reshape(*grid.shape, -1) if samples.ndim > frame.d else out.reshape(grid.shape)
