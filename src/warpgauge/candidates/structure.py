"""Local structure of an image: grey values, the Harris strength and its maxima, and structure tensors at given points.

Maxima are found, refined below the pixel, kept in a bounded pool and thinned by distance.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage
from scipy.spatial import cKDTree

from warpgauge.errors import InvalidInputError, MissingExtraError, install_advice
from warpgauge.geometry import Floats, Grid, array_order

# ITU-R BT.709 luma of the stored (gamma-coded) values
LUMA = (0.2126, 0.7152, 0.0722)
_GRAY = "the image has one channel, which is used as it is"
_RGB = "luma of ITU-R BT.709, 0.2126 R + 0.7152 G + 0.0722 B, of the stored values"
Array = NDArray[Any]


def gray_rule(shape: tuple[int, ...], d: int) -> str:
    """Return how an array of this shape over a d-dimensional grid becomes one channel; refuse what is neither."""
    channels = shape[d:]
    if channels in ((), (1,)):
        return _GRAY
    if channels == (3,):
        return _RGB
    if channels == (4,):
        return f"{_RGB}, the fourth channel (opacity) is left out"
    raise InvalidInputError(
        f"An array of shape {shape} is not a {d}D image of 1, 3 (RGB) or 4 (RGBA) channels in the last axis; choose "
        f"one of its channels."
    )


def to_gray(array: Array, d: int | None = None) -> tuple[Array, str]:
    """Turn a colour image into one channel.

    Parameters
    ----------
    array : array
        ``[y, x]`` or ``[z, y, x]``, and the channels as a last axis where there are several.
    d : {2, 3}, optional
        Dimension of the image. By default a three-dimensional array whose last axis has 3 or 4 entries is a 2D colour
        image; say ``d=3`` for a volume that is as thin as that.

    Returns
    -------
    array, str
        The image of one channel, and the rule by which it came about. One channel is given back as it is; luma is
        float64, without rounding.
    """
    if d is None:
        d = 2 if array.ndim == 2 or (array.ndim == 3 and array.shape[-1] in (1, 3, 4)) else 3
    if d not in (2, 3) or array.ndim < d:
        raise InvalidInputError(f"to_gray needs a 2D or 3D image, got an array of shape {array.shape} for d = {d}.")
    rule = gray_rule(array.shape, d)
    if array.ndim == d:
        return array, rule
    if array.shape[-1] == 1:
        return array[..., 0], rule
    weights = np.array(LUMA)
    # One channel at a time: a product of the whole array would hold three copies of it.
    luma = weights[0] * array[..., 0].astype(np.float64)
    for channel in (1, 2):
        luma += weights[channel] * array[..., channel]
    return luma, rule


TRUNCATE = 4.0  # of the Gaussian in skimage.feature.structure_tensor, in units of sigma
_SHARE = 0.2


def sensitivity(d: int) -> float:
    """Return k of det A - k (trace A)^d.

    The determinant is at most (trace / d)^d, where all eigenvalues are equal. k is the same share of that in every
    dimension: the usual 0.05 in 2D, 0.0074 in 3D.
    """
    return float(_SHARE / d**d)


def harris_strength(image: Floats, spacing: Floats, sigma: float) -> Floats:
    """Return det A - k (trace A)^d of the structure tensor A of gradients per world unit; negative along edges.

    Parameters
    ----------
    image : array
        Grey values, float64.
    spacing : (d,) array
        In the order of the array's axes.
    sigma : float
        Width of the window in world units.
    """
    try:
        from skimage.feature import structure_tensor
    except ImportError as error:
        raise MissingExtraError(
            f"Finding corners needs scikit-image, which is not installed; {install_advice('saliency')}."
        ) from error
    d = image.ndim
    elements = structure_tensor(image, sigma=tuple(sigma / spacing), mode="nearest", order="rc")
    # Sobel sums 4^(d-1) differences over two pixels each; divided by that and the spacing it is a gradient.
    scale = 1.0 / (2.0 * 4.0 ** (d - 1) * spacing)
    place = 0
    for a in range(d):
        for b in range(a, d):
            elements[place] *= scale[a] * scale[b]
            place += 1
    if d == 2:
        rr, rc, cc = elements
        determinant, trace = rr * cc - rc * rc, rr + cc
    else:
        pp, pr, pc, rr, rc, cc = elements
        determinant = pp * (rr * cc - rc * rc) - pr * (pr * cc - rc * pc) + pc * (pr * rc - rr * pc)
        trace = pp + rr + cc
    trace **= d
    trace *= sensitivity(d)
    determinant -= trace
    return np.asarray(determinant)


def structure_tensors(image_array: Any, grid: Grid, points_world: ArrayLike, sigma: float | None = None) -> Floats:
    """Return the mean of ``g g^T`` over a Gaussian window about each point, g the gradient per world unit.

    Only a window about each point is read, so that a memory map or a Zarr array is never loaded whole.

    Parameters
    ----------
    image_array : array
        ``[y, x]`` or ``[z, y, x]``, colour as a last axis of 3 or 4.
    grid : Grid
        Of the image.
    points_world : (n, d) array
        Inside the image.
    sigma : float, optional
        Width of the window in world units; twice the (geometric) mean spacing by default, as for candidates.

    Returns
    -------
    (n, d, d) array
        World axes, squared grey values per squared world unit.
    """
    points = np.asarray(points_world, dtype=np.float64)
    outside = ~grid.contains(points)
    if outside.any():
        raise InvalidInputError(
            f"Point {int(np.argmax(outside))} at {points[int(np.argmax(outside))].tolist()} lies outside the image; "
            "structure tensors need points inside it."
        )
    width = 2.0 * grid.pixel if sigma is None else float(sigma)
    if not 0 < width < np.inf:
        raise InvalidInputError(f"sigma must be a positive length in world units, got {sigma!r}.")
    # A gradient goes with the inverse transpose of the map that points go with.
    to_world = np.asarray(np.linalg.inv(grid.affine[: grid.d, : grid.d]).T, dtype=np.float64)
    places = array_order(grid.world_to_index(points))
    return np.array([_tensor(image_array, grid, place, width, to_world) for place in places]).reshape(
        -1, grid.d, grid.d
    )


def _tensor(image: Any, grid: Grid, place: Floats, sigma: float, to_world: Floats) -> Floats:
    spacing = array_order(grid.spacing)
    reach = np.ceil(TRUNCATE * sigma / spacing).astype(int) + 1
    low = np.maximum(np.floor(place).astype(int) - reach, 0)
    high = np.minimum(np.ceil(place).astype(int) + reach + 1, np.array(grid.shape))
    window = np.asarray(image[tuple(slice(a, b) for a, b in zip(low, high, strict=True))])
    gray = to_gray(window, grid.d)[0].astype(np.float64)
    if min(gray.shape) < 2 or not np.isfinite(gray).all():
        raise InvalidInputError(
            f"The image about index {array_order(place).tolist()} is too thin for a gradient or not finite."
        )
    gradients = np.stack(np.gradient(gray)[::-1], axis=-1).reshape(-1, grid.d) @ to_world.T
    weights = np.ones(())
    for axis in range(grid.d):
        steps = (np.arange(low[axis], high[axis]) - place[axis]) * spacing[axis] / sigma
        weights = np.multiply.outer(weights, np.exp(-0.5 * steps**2))
    flat = weights.reshape(-1)
    return np.asarray((gradients * flat[:, None]).T @ gradients / flat.sum())


_SLAB_ELEMENTS = 2**23


def slabs(shape: tuple[int, ...], multiple: int = 1) -> Iterator[tuple[int, int]]:
    """Yield bounds along the first axis that hold a few million elements each, and begin at a multiple of a number."""
    plane = int(np.prod(shape[1:], dtype=np.int64))
    step = multiple * max(1, _SLAB_ELEMENTS // (multiple * plane))
    for low in range(0, shape[0], step):
        yield low, min(low + step, shape[0])


def count_nonzero(mask: Any) -> int:
    """Count the elements of a mask that are not zero."""
    return sum(int(np.count_nonzero(np.asarray(mask[low:high]))) for low, high in slabs(tuple(mask.shape)))


_CHUNK = 4096
# A vertex farther from its pixel than this belongs to another pixel; the fit has failed there.
_FARTHEST_VERTEX = 1.0


@dataclass
class Peaks:
    """Maxima of an array: flat index, position in array order (with sub-pixel part), strength, whether refined."""

    flat: NDArray[np.int64]
    position: Floats
    strength: Floats
    refined: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.flat)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Peaks:
        """Return some of the peaks."""
        return Peaks(self.flat[rows], self.position[rows], self.strength[rows], self.refined[rows])

    def order(self) -> NDArray[np.int64]:
        """Return the rows by falling strength; equal strengths by their place in the array."""
        return np.asarray(np.lexsort((self.flat, -self.strength)))


def no_peaks(d: int) -> Peaks:
    """Return an empty set."""
    return Peaks(np.zeros(0, np.int64), np.zeros((0, d)), np.zeros(0), np.zeros(0, bool))


def local_maxima(strength: Floats) -> NDArray[np.bool_]:
    """Return where a positive strength is not exceeded by any of its 3^d - 1 neighbours."""
    return np.asarray((strength == ndimage.maximum_filter(strength, size=3, mode="nearest")) & (strength > 0))


def vertex_offsets(strength: Floats, rows: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
    """Fit a quadratic to the 3^d neighbourhood of each row; return the offsets of the vertices, and which are sound.

    ``rows`` are (n, d) array indices that are not on the edge of ``strength``. With differences g and H of the
    neighbourhood the vertex is at ``-H^-1 g``; it is sound when H is negative definite and the vertex near.
    """
    d = rows.shape[1]

    def at(*steps: tuple[int, int]) -> Floats:
        index = [rows[:, axis].copy() for axis in range(d)]
        for axis, step in steps:
            index[axis] += step
        return np.asarray(strength[tuple(index)], dtype=np.float64)

    centre = at()
    gradient = np.zeros((len(rows), d))
    hessian = np.zeros((len(rows), d, d))
    for a in range(d):
        up, down = at((a, 1)), at((a, -1))
        gradient[:, a] = (up - down) / 2
        hessian[:, a, a] = up + down - 2 * centre
    for a, b in itertools.combinations(range(d), 2):
        mixed = (at((a, 1), (b, 1)) - at((a, 1), (b, -1)) - at((a, -1), (b, 1)) + at((a, -1), (b, -1))) / 4
        hessian[:, a, b] = hessian[:, b, a] = mixed
    sound = np.linalg.eigvalsh(hessian)[:, -1] < -1e-9 * centre
    offsets = np.zeros((len(rows), d))
    offsets[sound] = -np.linalg.solve(hessian[sound], gradient[sound][..., np.newaxis])[..., 0]
    sound &= np.all(np.abs(offsets) <= _FARTHEST_VERTEX, axis=1)
    offsets[~sound] = 0.0
    return offsets, sound


class Pool:
    """The strongest peaks seen so far, at most ``size`` of them, whatever the order in which they come."""

    def __init__(self, d: int, size: int) -> None:
        self.peaks = no_peaks(d)
        self.size = size
        self.dropped = 0
        self._waiting: list[Peaks] = []

    def add(self, peaks: Peaks) -> None:
        """Add peaks; they are merged once as many are waiting as the pool holds."""
        self._waiting.append(peaks)
        if sum(map(len, self._waiting)) >= self.size:
            self._merge()

    def _merge(self) -> None:
        parts = [self.peaks, *self._waiting]
        merged = Peaks(
            np.concatenate([part.flat for part in parts]),
            np.concatenate([part.position for part in parts]),
            np.concatenate([part.strength for part in parts]),
            np.concatenate([part.refined for part in parts]),
        )
        self._waiting = []
        self.dropped += max(0, len(merged) - self.size)
        self.peaks = merged.take(merged.order()[: self.size])

    def strongest(self) -> Peaks:
        """Return the peaks by falling strength."""
        self._merge()
        return self.peaks


def thin(points_world: Floats, min_distance: float, count: int | None) -> NDArray[np.int64]:
    """Choose rows greedily from the first on, each farther than ``min_distance`` from all chosen before."""
    limit = len(points_world) if count is None else count
    chosen: list[int] = []
    if min_distance <= 0:
        return np.arange(min(limit, len(points_world)))
    for start in range(0, len(points_world), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(points_world)))
        if chosen:
            nearest, _ = cKDTree(points_world[chosen]).query(
                points_world[rows], distance_upper_bound=min_distance * 1.01
            )
            rows = rows[nearest > min_distance]
        if not len(rows):
            continue
        neighbours = cKDTree(points_world[rows]).query_ball_point(points_world[rows], min_distance)
        alive = np.ones(len(rows), dtype=bool)
        for i, row in enumerate(rows):
            if alive[i]:
                alive[neighbours[i]] = False
                chosen.append(int(row))
                if len(chosen) == limit:
                    return np.array(chosen)
    return np.array(chosen, dtype=np.int64)
