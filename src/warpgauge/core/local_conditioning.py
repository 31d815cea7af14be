"""More annotations than one factor can hold: each point is predicted from the annotations nearest to it.

Nearest is by the kernel's own distance: along the axes that it stretches, and around those that are periodic. What
comes out is exactly the posterior given those annotations alone. They are chosen by where they lie, never by what
they say, so that nothing is overstated: a variance is at most too large, and the mean differs from that of all
annotations by a deviation whose variance, under the model, is exactly what the variance is too large by. Points are
split into boxes that hold few annotations each, and the points of a box share theirs; between two boxes the mean may
have a small step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from warpgauge.core.arrays import Floats, Ints
from warpgauge.core.factors import Factor, is_isotropic
from warpgauge.core.kernels import KernelBundle, ScalarKernel
from warpgauge.core.leave_one_out import LeaveOneOut, left_out
from warpgauge.core.parallel import one_blas_thread, only_one_thread, over_items
from warpgauge.core.posterior_covariance import Conditioned
from warpgauge.core.tiles import TILE, Sink
from warpgauge.errors import InvalidInputError

# Rows of one factor at most: beyond, it takes minutes to make and gigabytes to keep.
MOST_ROWS = 8_000
# Annotations that the points of a box are predicted from, and how many of them may lie within it.
NEAREST, _INSIDE = 400, 100
_PROBES = 20


class _NoFactor:
    """Stands for the factor of all annotations, which does not exist."""

    def __getattr__(self, name: str) -> Any:
        raise InvalidInputError(
            f"This needs all annotations at once, and they are too many: each point is predicted from its {NEAREST} "
            "nearest alone. Condition on fewer annotations, or with exact=True, which may take hours."
        )


@dataclass(frozen=True, eq=False)
class LocallyConditioned(Conditioned):
    """A kernel conditioned, at each point, on the nearest of many observations."""

    nearest: int = NEAREST

    @classmethod
    def near(cls, kernel: ScalarKernel, locations: Floats, noise: Floats, nearest: int = NEAREST) -> LocallyConditioned:
        """Condition on the nearest of the observations at ``locations``."""
        return cls(kernel, locations, noise, cast(Factor, _NoFactor()), nearest)

    @property
    def b(self) -> int:
        """Number of components with covariances of their own: 1 with isotropic noise, else d."""
        return 1 if is_isotropic(self.noise) else self.d

    def append(self, locations: Floats, noise: Floats) -> LocallyConditioned:
        """Condition on further observations."""
        together = np.concatenate([self.locations, locations]), np.concatenate([self.noise, noise])
        return self.near(self.kernel, *together, nearest=self.nearest)

    def over_tiles(self, points: Floats, weights: Floats | None, sink: Sink, *, covariances: bool = True) -> None:
        """Hand sums and covariances of all points to ``sink``; ``weights`` are the residuals of the annotations."""

        def work(rows: Ints, chosen: Ints, given: Conditioned) -> None:
            def put(some: Ints, sums: Floats, covariance: Floats) -> None:
                sink(rows[some], sums, self._in_all_components(covariance, given.b))

            own = None if weights is None else given.solve(weights[chosen])
            given.over_tiles(points[rows], own, put, covariances=covariances)

        self._over_boxes(points, work)

    def _in_all_components(self, covariance: Floats, b: int) -> Floats:
        """Covariances as rows of pairs, also where the noise of the annotations nearby is isotropic and others' not."""
        if b == self.b:
            return covariance
        pairs = [(a, c) for a in range(self.b) for c in range(a, self.b)]
        return np.concatenate([covariance if a == c else np.zeros_like(covariance) for a, c in pairs])

    def left_out(self, residuals: Floats, tails: float) -> LeaveOneOut:
        """Predict each annotation from the others near it."""
        d = self.d
        found = LeaveOneOut(
            np.empty((self.count, d)), np.empty((self.count, d, d)), np.empty(self.count), np.empty(self.count)
        )

        def work(rows: Ints, chosen: Ints, given: Conditioned) -> None:
            one = left_out(given, given.solve(residuals[chosen]), tails)
            at = np.searchsorted(chosen, rows)
            found.residuals[rows], found.covariances[rows] = one.residuals[at], one.covariances[at]
            found.mahalanobis[rows], found.p[rows] = one.mahalanobis[at], one.p[at]

        self._over_boxes(self.locations, work)
        return found

    def _coordinates(self, points: Floats) -> Floats:
        """Coordinates in which near is near to the kernel: those of its places, where it has some."""
        bundle = self.kernel.of_prior.bundle
        return bundle.places.coordinates(points) if isinstance(bundle, KernelBundle) else points

    def _over_boxes(self, points: Floats, work: Callable[[Ints, Ints, Conditioned], None]) -> None:
        """Call ``work`` with the points of each box, the annotations near it, and the kernel given those."""
        inside = max(1, _INSIDE * self.nearest // NEAREST)
        at, places = self._coordinates(points), self._coordinates(self.locations)
        boxes = list(_boxes(at, np.arange(len(at)), places, inside))

        def worker() -> Callable[[int], None]:
            def of_box(number: int) -> None:
                rows = boxes[number]
                chosen = _nearest_to_box(places, at[rows], self.nearest)
                with only_one_thread():
                    work(rows, chosen, Conditioned.on(self.kernel, self.locations[chosen], self.noise[chosen]))

            return of_box

        over_items(worker, len(boxes))

    def changed_by_more(self, residuals: Floats) -> tuple[float, float]:
        """Return what twice as many annotations change at 20 points drawn at random, an estimate of what is left out.

        Returns
        -------
        mean, deviation : float
            Root mean square change of the mean, and mean change of the standard deviation, in standard deviations.
        """
        rng = np.random.default_rng(0)
        points = rng.uniform(self.locations.min(axis=0), self.locations.max(axis=0), (_PROBES, self.d))
        places, found = self._coordinates(self.locations), []
        for nearest in (self.nearest, 2 * self.nearest):
            means, deviations = np.empty_like(points), np.empty(_PROBES)
            with one_blas_thread():
                for number, point in enumerate(points[:, None]):
                    chosen = _nearest_to_box(places, self._coordinates(point), nearest)
                    given = Conditioned.on(self.kernel, self.locations[chosen], self.noise[chosen])
                    cross = given.whitened(point)
                    means[number] = self.kernel.matrix(point, given.locations)[0] @ given.solve(residuals[chosen])
                    explained = np.square(cross).sum() / given.b
                    deviations[number] = np.sqrt(self.kernel.diagonal(point)[0] - explained)
            found.append((means, deviations))
        (means, deviations), (more_means, more_deviations) = found
        shifts = np.square(means - more_means).mean(axis=1) / np.square(deviations)
        return float(np.sqrt(shifts.mean())), float(np.mean(1 - more_deviations / deviations))


def _boxes(points: Floats, rows: Ints, locations: Floats, inside: int) -> Iterator[Ints]:
    """Halve the points until a box holds few annotations, and few points; yield the rows of each box."""
    low, high = points[rows].min(axis=0), points[rows].max(axis=0)
    locations = locations[((locations >= low) & (locations <= high)).all(axis=1)]
    if (len(locations) <= inside and len(rows) <= TILE) or not (high > low).any():
        yield from (rows[start : start + TILE] for start in range(0, len(rows), TILE))
        return
    axis = int(np.argmax(high - low))
    left = points[rows, axis] < max(low[axis] / 2 + high[axis] / 2, np.nextafter(low[axis], high[axis]))
    for half in (rows[left], rows[~left]):
        if len(half):
            yield from _boxes(points, half, locations, inside)


def _nearest_to_box(locations: Floats, points: Floats, nearest: int) -> Ints:
    """Numbers of the locations nearest to the box about some points, ascending."""
    if len(locations) <= nearest:
        return np.arange(len(locations))
    gaps = np.maximum(np.maximum(points.min(axis=0) - locations, locations - points.max(axis=0)), 0)
    return np.sort(np.argpartition(np.square(gaps).sum(axis=1), nearest)[:nearest])
