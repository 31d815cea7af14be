"""Corners of an image in 2D and 3D, in world units, in bounded memory."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from warpgauge.candidates.foreground import Foreground, ForegroundMask
from warpgauge.candidates.peaks import Peaks, Pool, joined, local_maxima, no_peaks, thin, vertex_offsets
from warpgauge.candidates.structure import TRUNCATE, count_nonzero, gray_rule, harris_strength, sensitivity, to_gray
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid, array_order

Progress = Callable[[int, int], None]
_LARGEST_GRAY = 1e30  # its sixth power, the determinant in 3D, is still a number


@dataclass(frozen=True)
class Candidates:
    """Salient points of an image, the strongest first.

    Parameters
    ----------
    points_world : (n, d) array
        World points.
    strengths : (n,) array
        ``(det A - k (trace A)^d)^(1/d)``, in squared grey values per squared world unit.
    refined : (n,) bool array
        False where the quadratic fit failed and the point is the centre of its pixel.
    method : str
        What was done, with the numbers.
    """

    points_world: Floats
    strengths: Floats
    refined: NDArray[np.bool_]
    method: str

    def __len__(self) -> int:
        return len(self.strengths)


def find_candidates(
    image_array: Any,
    grid: Grid,
    *,
    mask: Any = None,
    foreground: Foreground | None = None,
    count: int | None = 1000,
    min_distance: float | None = None,
    sigma: float | None = None,
    border: float | None = None,
    subpixel: bool = True,
    progress: Progress | None = None,
    memory: int = 512 * 2**20,
    pool: int = 1_000_000,
) -> Candidates:
    """Find corners: points that a person can find again in another image.

    Parameters
    ----------
    image_array : array
        ``[y, x]`` or ``[z, y, x]``, colour as a last axis of 3 or 4; anything with ``shape`` that numpy can slice, so
        that a memory map or a Zarr array is never loaded whole.
    grid : Grid
        Of the image.
    mask : array, optional
        Candidates lie in pixels where it is not zero.
    foreground : Foreground, optional
        Instead of a mask: candidates lie in it, at least one element of its (reduced) mask from its edge.
    count : int, optional
        How many at most; None for all.
    min_distance : float, optional
        World distance that any two candidates exceed. By default half of the distance that ``count`` evenly spread
        points would have (in the mask, if there is one), and not less than two sigma.
    sigma : float, optional
        Width of the window of the structure tensor in world units; twice the (geometric) mean spacing by default.
    border : float, optional
        World distance to keep from the edge of the image; three sigma by default.
    subpixel : bool
        Refine positions by a quadratic fit to the neighbouring strengths.
    progress : callable, optional
        Called with the number of blocks done and of all blocks.
    memory : int
        Bytes for the arrays of one block; the image is worked through in overlapping blocks that fit, with the same
        result as at once.
    pool : int
        How many local maxima, the strongest, are kept for the choice.

    Returns
    -------
    Candidates
        The strongest first, deterministic.
    """
    if foreground is not None:
        if mask is not None:
            raise InvalidInputError("Candidates lie in a mask or in a foreground; give one of them.")
        mask = ForegroundMask(foreground.shrunk(), grid)
    search = _Search(image_array, grid, mask, count, min_distance, sigma, border, subpixel)
    if pool < 1 or (count is not None and pool < count):
        raise InvalidInputError(f"pool must be a number of maxima not below count, got {pool!r}.")
    halo = search.halo
    core = core_shape(grid.shape, halo, memory // (8 * (4 + grid.d + grid.d * (grid.d + 1) // 2)))
    total, kept = count_blocks(grid.shape, core), Pool(grid.d, pool)
    for done, block in enumerate(blocks(grid.shape, halo, core), start=1):
        kept.add(search.peaks(block))
        if progress is not None:
            progress(done, total)
    return search.choose(kept)


class _Search:
    """The settings of one search, checked and in the units that the work needs."""

    def __init__(
        self,
        image: Any,
        grid: Grid,
        mask: Any,
        count: int | None,
        min_distance: float | None,
        sigma: float | None,
        border: float | None,
        subpixel: bool,
    ) -> None:
        shape = tuple(int(n) for n in image.shape)
        if shape[: grid.d] != grid.shape:
            raise InvalidInputError(f"An image of shape {shape} does not lie on a grid of shape {grid.shape}.")
        if mask is not None and tuple(mask.shape) != grid.shape:
            raise InvalidInputError(
                f"A mask of shape {tuple(mask.shape)} does not lie on a grid of shape {grid.shape}."
            )
        if count is not None and count < 1:
            raise InvalidInputError(f"count must be at least 1, or None for all candidates, got {count!r}.")
        self.image, self.grid, self.mask, self.count, self.subpixel = image, grid, mask, count, subpixel
        self.rule = gray_rule(shape, grid.d)
        self.spacing = array_order(grid.spacing)
        self.sigma = _positive(sigma, "sigma", 2.0 * grid.pixel)
        self.border = _positive(border, "border", 3 * self.sigma, zero=True)
        self.min_distance = _positive(min_distance, "min_distance", self._spread(), zero=True)

    def _spread(self) -> float:
        if self.count is None:
            return 2 * self.sigma
        elements = self.grid.count
        if self.mask is not None:
            found = isinstance(self.mask, ForegroundMask)
            elements = self.mask.elements if found else count_nonzero(self.mask)
        volume = elements * float(np.prod(self.grid.spacing))
        return max(2 * self.sigma, float(0.5 * (volume / self.count) ** (1 / self.grid.d)))

    @property
    def halo(self) -> tuple[int, ...]:
        """How far a strength and its neighbours reach: Sobel, Gaussian, and one for the comparison."""
        return tuple(int(TRUNCATE * self.sigma / s + 0.5) + 2 for s in self.spacing)

    def peaks(self, block: Block) -> Peaks:
        """Find the maxima in the core of one block, in 2D in parts whose arrays stay in the cache."""
        image = np.asarray(self.image[block.read])
        if image.dtype.kind not in "buif":
            raise InvalidInputError(f"An image of type {image.dtype} has no grey values; give numbers.")
        if image.dtype.kind == "f" or image.dtype.itemsize > 4:  # other values are all usable
            self._check_values(image, block)
        parts = [self._peaks_of(image, block, part) for part in _parts(block, image.shape[: self.grid.d], self.halo)]
        return joined([part for part in parts if len(part)], self.grid.d)

    def _check_values(self, image: NDArray[Any], block: Block) -> None:
        bad = int(np.sum(~(np.abs(to_gray(image, self.grid.d)[0]) <= _LARGEST_GRAY)))  # NaN is not below it
        if bad:
            where = tuple(slice_.start for slice_ in block.read)
            raise InvalidInputError(
                f"The image has {bad} values that are not finite, or beyond {_LARGEST_GRAY:g}, in the block that "
                f"begins at {where} (array order); replace them."
            )

    def _peaks_of(self, image: NDArray[Any], block: Block, part: Block) -> Peaks:
        """Find the maxima in the core of a part; ``part`` lies in what was read for the block."""
        corner = np.array([slice_.start for slice_ in block.read])
        mask = None
        if self.mask is not None:
            where = (slice(low + r.start, low + r.stop) for low, r in zip(corner, part.read, strict=True))
            mask = np.asarray(self.mask[tuple(where)]) != 0
            if not mask[part.core].any():
                return no_peaks(self.grid.d)
        gray = to_gray(image[part.read], self.grid.d)[0].astype(np.float64, copy=False)
        strength = harris_strength(gray, self.spacing, self.sigma)
        found = np.argwhere(local_maxima(strength)[part.core])
        local = found + np.array([slice_.start for slice_ in part.core])
        index = found + np.array(part.start) + corner
        keep = self._inside(index, slack=1.0)
        if mask is not None:
            keep &= mask[tuple(local.T)]
        local, index = local[keep], index[keep]
        if not len(index):
            return no_peaks(self.grid.d)
        peaks = Peaks(
            np.ravel_multi_index(tuple(index.T), self.grid.shape).astype(np.int64),
            index.astype(np.float64),
            strength[tuple(local.T)] ** (1 / self.grid.d),
            np.zeros(len(index), dtype=bool),
        )
        if self.subpixel:
            self._refine(peaks, strength, local, index, mask)
        return peaks.take(self._inside(peaks.position))

    def _inside(self, index: NDArray[Any], slack: float = 0.0) -> NDArray[np.bool_]:
        margin = self.border / self.spacing - 0.5 - slack
        last = np.array(self.grid.shape) - 1
        return np.asarray(np.all((index >= margin) & (index <= last - margin), axis=1))

    def _refine(
        self,
        peaks: Peaks,
        strength: Floats,
        local: NDArray[np.int64],
        index: NDArray[np.int64],
        mask: NDArray[np.bool_] | None,
    ) -> None:
        inner = np.all((index > 0) & (index < np.array(self.grid.shape) - 1), axis=1)
        rows = np.flatnonzero(inner)
        offsets, sound = vertex_offsets(strength, local[rows])
        if mask is not None:
            # A vertex in a neighbouring pixel counts only where that pixel is in the mask as well.
            nearest = local[rows] + np.round(offsets).astype(np.int64)
            sound &= mask[tuple(nearest.T)]
        peaks.position[rows[sound]] += offsets[sound]
        peaks.refined[rows[sound]] = True

    def choose(self, pool: Pool) -> Candidates:
        """Thin the strongest maxima by distance."""
        peaks = pool.strongest()
        points = self.grid.index_to_world(array_order(peaks.position))
        rows = thin(points, self.min_distance, self.count)
        if pool.dropped and (self.count is None or len(rows) < self.count):
            warnings.warn(
                f"Only {len(rows)} candidates were found among the {len(peaks)} strongest maxima; {pool.dropped} "
                f"weaker ones were not kept: raise pool, or lower min_distance, now {self.min_distance:.4g} "
                f"{self.grid.units}.",
                SuspiciousDataWarning,
                stacklevel=3,
            )
        return Candidates(points[rows], peaks.strength[rows], peaks.refined[rows], self._method(len(rows)))

    def _where(self) -> str:
        if self.mask is None:
            return ""
        return ", in the foreground" if isinstance(self.mask, ForegroundMask) else ", in a mask"

    def _method(self, found: int) -> str:
        units, d = self.grid.units, self.grid.d
        fit = "refined by a quadratic fit" if self.subpixel else "at pixel centres"
        return (
            f"{found} corners {fit}: maxima of det A - k (trace A)^{d} with k = {sensitivity(d):.4g}, A the "
            f"structure tensor with sigma {self.sigma:.4g} {units}; more than {self.min_distance:.4g} {units} apart, "
            f"{self.border:.4g} {units} from the border"
            f"{self._where()}; {self.rule}."
        )


def _positive(value: float | None, name: str, default: float, zero: bool = False) -> float:
    if value is None:
        return default
    if not (0 < value < np.inf or (zero and value == 0)):
        kind = "length" if zero else "positive length"
        raise InvalidInputError(f"{name} must be a {kind} in world units, got {value!r}.")
    return float(value)


_SMALLEST_CORE = 4


class Block(NamedTuple):
    """A part of an array: what to read, which part of that is the core, and where the core begins in the array."""

    read: tuple[slice, ...]
    core: tuple[slice, ...]
    start: tuple[int, ...]


# Elements along each axis of a part of a 2D block.
_PART = 448


def _parts(block: Block, shape: tuple[int, ...], halo: tuple[int, ...]) -> Iterator[Block]:
    """Yield the parts of a block that was read as an array of this shape: itself in 3D, whose margins would cost more.

    The margins are within what was read, so that a part knows as much of its surroundings as the block does.
    """
    if len(shape) == 3:
        yield Block(tuple(slice(0, n) for n in shape), block.core, tuple(core.start for core in block.core))
        return
    for start in itertools.product(*(range(core.start, core.stop, _PART) for core in block.core)):
        ends = [min(begin + _PART, core.stop) for begin, core in zip(start, block.core, strict=True)]
        lows = [max(0, begin - h) for begin, h in zip(start, halo, strict=True)]
        read = [slice(low, min(n, end + h)) for low, end, h, n in zip(lows, ends, halo, shape, strict=True)]
        inner = [slice(begin - low, end - low) for begin, low, end in zip(start, lows, ends, strict=True)]
        yield Block(tuple(read), tuple(inner), start)


def core_shape(shape: tuple[int, ...], halo: tuple[int, ...], elements: int) -> tuple[int, ...]:
    """Choose cores so that no block with its halo has more than ``elements`` elements.

    The longest axis is halved until the block fits, so the result depends on nothing but the arguments.
    """
    core = list(shape)

    def size() -> int:
        return int(np.prod([min(c + 2 * h, n) for c, h, n in zip(core, halo, shape, strict=True)], dtype=np.int64))

    while size() > elements:
        axis = int(np.argmax(core))
        if core[axis] <= _SMALLEST_CORE:
            raise InvalidInputError(
                f"A block of the image with its margin has {size()} elements, more than the {elements} that fit into "
                f"the given memory; allow more memory or a smaller sigma."
            )
        core[axis] = -(-core[axis] // 2)
    return tuple(core)


def blocks(shape: tuple[int, ...], halo: tuple[int, ...], core: tuple[int, ...]) -> Iterator[Block]:
    """Yield the blocks in array order."""
    for start in itertools.product(*(range(0, n, c) for n, c in zip(shape, core, strict=True))):
        read, inner = [], []
        for begin, n, c, h in zip(start, shape, core, halo, strict=True):
            low, end = max(0, begin - h), min(n, begin + c)
            read.append(slice(low, min(n, end + h)))
            inner.append(slice(begin - low, end - low))
        yield Block(tuple(read), tuple(inner), start)


def count_blocks(shape: tuple[int, ...], core: tuple[int, ...]) -> int:
    """Count the blocks."""
    return int(np.prod([-(-n // c) for n, c in zip(shape, core, strict=True)]))
