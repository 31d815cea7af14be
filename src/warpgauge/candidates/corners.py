"""Corners of an image in 2D and 3D, in world units, in bounded memory."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.candidates.foreground import Foreground, ForegroundMask
from warpgauge.candidates.peaks import Peaks, local_maxima, thin, vertex_offsets
from warpgauge.candidates.structure import TRUNCATE, count_nonzero, gray_rule, harris_strength, sensitivity, to_gray
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid, array_order

Progress = Callable[[int, int], None]
_LARGEST_GRAY = 1e30  # its sixth power, the determinant in 3D, is still a number
_LARGEST_CORE_2D = 448  # pixels along each axis of a block, whose arrays then stay in the cache
_SMALLEST_CORE = 4


@dataclass(frozen=True)
class Candidates:
    """Salient points (n, d) of an image, the strongest first, and what was done, with the numbers.

    Strengths are ``(det A - k (trace A)^d)^(1/d)``, in squared grey values per squared world unit.
    """

    points_world: Floats
    strengths: Floats
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
    mask, foreground : array or Foreground, optional
        Candidates lie in pixels where the mask is not zero, or in the foreground, at least one element of its (reduced)
        mask from its edge.
    count : int, optional
        How many at most; None for all.
    min_distance : float, optional
        World distance that any two candidates exceed. By default half of the distance that ``count`` evenly spread
        points would have (in the mask, if there is one), and not less than two sigma.
    sigma : float, optional
        Width of the window of the structure tensor in world units; twice the (geometric) mean spacing by default.
    border : float, optional
        World distance to keep from the edge of the image; three sigma by default.
    memory : int
        Bytes for the arrays of one block; the image is worked through in overlapping blocks that fit, with the same
        result as at once.
    pool : int
        How many local maxima, the strongest, are kept for the choice.
    """
    if foreground is not None:
        if mask is not None:
            raise InvalidInputError("Candidates lie in a mask or in a foreground; give one of them.")
        mask = ForegroundMask(foreground.shrunk(), grid)
    if pool < 1 or (count is not None and pool < count):
        raise InvalidInputError(f"pool must be a number of maxima not below count, got {pool!r}.")
    search = _Search(image_array, grid, mask, count, min_distance, sigma, border)
    core = search.core(memory)
    starts = list(itertools.product(*(range(0, n, c) for n, c in zip(grid.shape, core, strict=True))))
    peaks: list[Peaks] = []
    dropped = 0
    for done, start in enumerate(starts, start=1):
        found = search.peaks(start, core)
        if found is not None:
            peaks.append(found)
        held = sum(map(len, peaks))
        if held > 2 * pool or (done == len(starts) and peaks):
            dropped += max(0, held - pool)
            peaks = [Peaks.joined(peaks).strongest(pool)]
        if progress is not None:
            progress(done, len(starts))
    return search.chosen(peaks[0] if peaks else None, dropped)


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
        self.image = image
        self.grid = grid
        self.mask = mask
        self.count = count
        self.rule = gray_rule(shape, grid.d)
        self.spacing = array_order(grid.spacing)
        self.shape = np.array(grid.shape)
        self.sigma = _positive(sigma, "sigma", 2.0 * grid.pixel)
        self.border = _positive(border, "border", 3 * self.sigma, zero=True)
        self.min_distance = _positive(min_distance, "min_distance", self._spread(), zero=True)
        # How far a strength and its neighbours reach: Sobel, Gaussian, and one for the comparison.
        self.halo = (TRUNCATE * self.sigma / self.spacing + 0.5).astype(int) + 2

    def _spread(self) -> float:
        """Half of the distance of ``count`` evenly spread points, and not less than two sigma."""
        if self.count is None:
            return 2 * self.sigma
        elements = self.grid.count
        if isinstance(self.mask, ForegroundMask):
            elements = self.mask.elements
        elif self.mask is not None:
            elements = count_nonzero(self.mask)
        volume = elements * float(np.prod(self.grid.spacing))
        return max(2 * self.sigma, float(0.5 * (volume / self.count) ** (1 / self.grid.d)))

    def core(self, memory: int) -> tuple[int, ...]:
        """Choose the elements along each axis of a block without its margin, so that its arrays fit into the memory.

        The longest axis is halved until they do, so the result depends on nothing but the arguments.
        """
        d = self.grid.d
        limit = memory // (8 * (4 + d + d * (d + 1) // 2))
        core = np.minimum(self.shape, _LARGEST_CORE_2D) if d == 2 else self.shape.copy()
        while (size := int(np.prod(np.minimum(core + 2 * self.halo, self.shape)))) > limit:
            axis = int(np.argmax(core))
            if core[axis] <= _SMALLEST_CORE:
                raise InvalidInputError(
                    f"A block of the image with its margin has {size} elements, more than the {limit} that fit into "
                    f"the given memory; allow more memory or a smaller sigma."
                )
            core[axis] = -(-core[axis] // 2)
        return tuple(core.tolist())

    def peaks(self, start: tuple[int, ...], core: tuple[int, ...]) -> Peaks | None:
        """Find the maxima in the block of this core that begins at ``start``."""
        first = np.array(start)
        corner = np.maximum(0, first - self.halo)
        stop = np.minimum(self.shape, first + core)
        end = np.minimum(self.shape, stop + self.halo)
        region = tuple(slice(int(a), int(b)) for a, b in zip(corner, end, strict=True))
        inner = tuple(slice(int(a), int(b)) for a, b in zip(first - corner, stop - corner, strict=True))
        mask = None
        if self.mask is not None:
            mask = np.asarray(self.mask[region]) != 0
            if not mask[inner].any():
                return None
        strength = harris_strength(self._gray(region), self.spacing, self.sigma)
        found = np.argwhere(local_maxima(strength)[inner])
        local = found + (first - corner)
        index = found + first
        kept = self._inside(index, slack=1.0)
        if mask is not None:
            kept &= mask[tuple(local.T)]
        local = local[kept]
        index = index[kept]
        if not len(index):
            return None
        position = self._refined(strength, local, index, mask)
        kept = self._inside(position)
        flat = np.ravel_multi_index(tuple(index.T), self.grid.shape).astype(np.int64)
        values = strength[tuple(local.T)] ** (1 / self.grid.d)
        return Peaks(flat[kept], position[kept], values[kept])

    def _gray(self, region: tuple[slice, ...]) -> Floats:
        """Read grey values of a part of the image."""
        image = np.asarray(self.image[region])
        if image.dtype.kind not in "buif":
            raise InvalidInputError(f"An image of type {image.dtype} has no grey values; give numbers.")
        gray = to_gray(image, self.grid.d)[0].astype(np.float64, copy=False)
        bad = int(np.sum(~(np.abs(gray) <= _LARGEST_GRAY)))  # NaN is not below it
        if bad:
            raise InvalidInputError(
                f"The image has {bad} values that are not finite, or beyond {_LARGEST_GRAY:g}, in the block that "
                f"begins at {tuple(part.start for part in region)} (array order); replace them."
            )
        return gray

    def _inside(self, index: NDArray[Any], slack: float = 0.0) -> NDArray[np.bool_]:
        """Which indices keep the distance from the border."""
        margin = self.border / self.spacing - 0.5 - slack
        return np.asarray(np.all((index >= margin) & (index <= self.shape - 1 - margin), axis=1))

    def _refined(
        self, strength: Floats, local: NDArray[np.int64], index: NDArray[np.int64], mask: NDArray[np.bool_] | None
    ) -> Floats:
        """Refined positions of maxima at ``local`` in the block and ``index`` in the image.

        A vertex in a neighbouring pixel counts only where that pixel is in the mask as well.
        """
        position = index.astype(np.float64)
        rows = np.flatnonzero(np.all((index > 0) & (index < self.shape - 1), axis=1))
        offsets, sound = vertex_offsets(strength, local[rows])
        if mask is not None:
            nearest = local[rows] + np.round(offsets).astype(np.int64)
            sound &= mask[tuple(nearest.T)]
        position[rows[sound]] += offsets[sound]
        return position

    def chosen(self, peaks: Peaks | None, dropped: int) -> Candidates:
        """Thin the strongest maxima by distance; ``dropped`` weaker ones were not kept."""
        if peaks is None:
            return Candidates(np.zeros((0, self.grid.d)), np.zeros(0), self._method(0))
        points = self.grid.index_to_world(array_order(peaks.position))
        rows = thin(points, self.min_distance, self.count)
        if dropped and (self.count is None or len(rows) < self.count):
            warnings.warn(
                f"Only {len(rows)} candidates were found among the {len(peaks)} strongest maxima; {dropped} "
                f"weaker ones were not kept: raise pool, or lower min_distance, now {self.min_distance:.4g} "
                f"{self.grid.units}.",
                SuspiciousDataWarning,
                stacklevel=3,
            )
        return Candidates(points[rows], peaks.strength[rows], self._method(len(rows)))

    def _method(self, found: int) -> str:
        units = self.grid.units
        d = self.grid.d
        where = ""
        if self.mask is not None:
            where = ", in the foreground" if isinstance(self.mask, ForegroundMask) else ", in a mask"
        return (
            f"{found} corners refined by a quadratic fit: maxima of det A - k (trace A)^{d} with "
            f"k = {sensitivity(d):.4g}, A the structure tensor with sigma {self.sigma:.4g} {units}; more than "
            f"{self.min_distance:.4g} {units} apart, {self.border:.4g} {units} from the border{where}; {self.rule}."
        )


def _positive(value: float | None, name: str, default: float, zero: bool = False) -> float:
    if value is None:
        return default
    if not (0 < value < np.inf or (zero and value == 0)):
        kind = "length" if zero else "positive length"
        raise InvalidInputError(f"{name} must be a {kind} in world units, got {value!r}.")
    return float(value)
