"""Expected gains ``Delta H`` of all candidates, kept up to date while annotations come and go (section III-D).

Two ways, chosen by where the candidates lie:

- :class:`LazyGains`, for candidates that are all targets: a gain never rises when an annotation is added, so gains from
  earlier steps are upper bounds and only the few at the top are brought up to date. Only one number per candidate
  is stored.
- :class:`~warpgauge.core.eager_gains.EagerGains`, where some candidates lie outside the targets: their gains can rise,
  so all are updated, by one pass over stored whitened rows for each new annotation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpgauge.core import compiled
from warpgauge.core.arrays import Bools, Floats, Ints
from warpgauge.core.factors import log_determinants, lower_pivots
from warpgauge.core.parallel import over_items
from warpgauge.core.posterior_covariance import Conditioned
from warpgauge.core.tiles import sorted_tiles

# Gains that differ by less than this many nats are ties, whatever the rounding says.
TIE = 1e-9
_ELITE = 512
# With so few annotations nearly all bounds are loose, and bringing all up to date costs less than choosing.
_FEW = 8
# From this many candidates on that know of less than this share of the annotations, all are brought up to date by
# matrix products.
_MANY, _KNOWN = 256, 0.9
# So many candidates are brought up to date by matrix products however few the annotations are, and only after their
# bounds were lowered by single annotations.
VERY_MANY = 100_000
# Candidates worked on at a time: their arrays stay in the cache.
_PIECE = 1 << 16
# Gains of a tile of candidates are bounded by the annotations nearest to it, this many. Where there are fewer than
# twice as many, exact gains cost no more.
_NEAREST = 48


def entropy_constant(d: int) -> float:
    """``d/2 log(2 pi e)`` of Eq. (entropy_gp)."""
    return 0.5 * d * float(np.log(2 * np.pi * np.e))


def highest_bounds(rows: Ints, bounds: Floats, count: int) -> Ints:
    """Return about ``count`` of the rows, those with the highest bounds; more where many are equal."""
    if len(rows) <= count:
        return rows
    sample = bounds[:: max(1, len(rows) // VERY_MANY)]
    rank = max(1, count * len(sample) // len(rows))
    return np.asarray(rows[bounds >= np.partition(sample, -rank)[-rank]])


class _Explained:
    """Covariances that annotations explain at n candidates, of those at which it is not nothing side by side.

    ``blocks[slots[i]]`` is that of candidate i, a number times I_d until :meth:`widen`: (1, 1), then (d, d). Blocks
    that are not used yet take no memory: the system gives it when they are first written.
    """

    def __init__(self, n: int) -> None:
        self.slots = np.zeros(n, dtype=np.int32)
        self.blocks = np.empty((n + 1, 1, 1))
        self.blocks[0], self.used = 0.0, 1  # the first stands for nothing

    @property
    def b(self) -> int:
        """Number of components with covariances of their own."""
        return int(self.blocks.shape[1])

    def widen(self, d: int) -> None:
        """Go over from numbers to d x d blocks."""
        wider = np.empty((len(self.blocks), d, d))
        wider[: self.used] = self.blocks[: self.used] * np.eye(d)
        self.blocks = wider

    def __getitem__(self, rows: Ints) -> Floats:
        return np.asarray(self.blocks[self.slots[rows]])

    def __setitem__(self, rows: Ints, blocks: Floats) -> None:
        new = rows[self.slots[rows] == 0]
        self.slots[new] = np.arange(self.used, self.used + len(new))
        self.used += len(new)
        self.blocks[self.slots[rows]] = blocks


class LazyGains:
    """Gains of candidates inside T, Eq. (delta_H_in_T), by lazy evaluation.

    ``gain[i]`` is exact for the first ``exact_at[i]`` annotations and an upper bound afterwards; ``explained`` keeps
    what those explain of the prior's covariance.
    """

    def __init__(self, conditioned: Conditioned, candidates: Floats) -> None:
        self.conditioned = conditioned
        self.candidates = candidates
        self.d = candidates.shape[1]
        self.explained = _Explained(len(candidates))
        self.exact_at: Ints = np.zeros(len(candidates), dtype=np.int64)
        self.gain = self._entropies(np.arange(len(candidates)))
        self._elite: Ints = np.empty(0, dtype=np.int64)
        # Candidates that are up to date now: few, so that the best of them is found without a pass over all.
        self._exact: Ints = np.arange(len(candidates))
        # Number of annotations when the gains of candidates that know of none were last bounded by the nearest ones,
        # and when gains were last bounded by single ones.
        self._bounded_at = self._lowered_at = 0

    def add(self, location: Floats, noise: Floats) -> None:
        """Take a further annotation into account; all gains become bounds."""
        self.conditioned = self.conditioned.append(location[None], noise[None])
        self._exact = np.empty(0, dtype=np.int64)
        if self.conditioned.b > self.explained.b:
            self.explained.widen(self.d)

    def drop_last(self) -> None:
        """Take the last annotation back, from the candidates that know of it."""
        knowing = np.flatnonzero(self.exact_at == self.conditioned.count)
        since = np.full(len(knowing), self.conditioned.count - 1)
        self.explained[knowing] -= self._explained(self.conditioned, self.candidates[knowing], since)
        self.conditioned = self.conditioned.without_last()
        self.exact_at[knowing] -= 1
        if max(self._bounded_at, self._lowered_at) > self.conditioned.count:
            # A bound may rest on the annotation that is taken back.
            self._bounded_at = self._lowered_at = 0
            knowing = np.arange(len(self.candidates))
        self.gain[knowing] = self._entropies(knowing)
        self._exact = np.flatnonzero(self.exact_at == self.conditioned.count)

    def all(self) -> Floats:
        """Exact gains of all candidates."""
        self._refresh(np.flatnonzero(self.exact_at != self.conditioned.count))
        return self.gain.copy()

    def one(self, index: int) -> float:
        """Exact gain of one candidate."""
        self._refresh(np.array([index]))
        return float(self.gain[index])

    def bounds(self) -> Floats:
        """Return upper bounds of the gains of all candidates, exact where they are up to date."""
        self._tighten()
        return self.gain

    def up_to_date(self) -> Ints:
        """Return the candidates whose gains are exact as they are."""
        return self._exact

    def exact(self, rows: Ints) -> Floats:
        """Return exact gains of some candidates."""
        self._refresh(rows)
        return np.asarray(self.gain[rows])

    def near_best(self, alive: Bools) -> tuple[Ints, Floats]:
        """Candidates among ``alive`` within a tie of the best gain, with their exact gains."""
        self._tighten()
        step, chunk = self.conditioned.count, max(4 * _ELITE, len(alive) // 256)
        # Those that were at the top before are likely to be there still: they set a high threshold at once.
        self._refresh(self._elite)
        left: Ints | None = None
        while True:
            exact = self._exact[alive[self._exact]]
            best = float(self.gain[exact].max(initial=-np.inf))
            if len(self._exact) == len(alive):  # before the first annotation no loop has to be compiled
                break
            if left is None:
                left = compiled.stale_at_least(self.gain, alive, self.exact_at, step, best - TIE)
            else:  # bounds only fall, and the best only rises
                left = left[(self.gain[left] >= best - TIE) & (self.exact_at[left] != step)]
            if len(left) == 0:
                break
            if len(left) > VERY_MANY and self.lower():
                left = None
                continue
            stale = left
            if len(left) > chunk and step > _FEW:
                # The highest bounds first: they may raise the threshold above most of the others.
                stale = highest_bounds(left, self.gain[left], chunk)
                chunk *= 2
            self._refresh(stale)
            self._promote(stale)
        near = np.sort(exact[self.gain[exact] >= best - TIE])
        return near, self.gain[near]

    def _tighten(self) -> None:
        """Lower the bounds of candidates not updated yet to their gains given only the nearest annotations.

        After many annotations at once, as when a project is opened, this rules nearly all candidates out at a cost that
        is linear in the number of annotations. More annotations only lower a gain, so some of them give a bound.
        """
        count = self.conditioned.count
        if self._bounded_at or count <= 2 * _NEAREST:
            return
        rows = np.flatnonzero(self.exact_at == 0)
        if len(rows) <= _MANY:
            return
        bounds = self._given_nearest(self.candidates[rows])
        for start in range(0, len(rows), _PIECE):
            given, piece = bounds[start : start + _PIECE], rows[start : start + _PIECE]
            sound = (lower_pivots(given) > 0).all(axis=1)
            # A tie wider than rounding, so that no candidate is ruled out by it.
            self.gain[piece[sound]] = self._entropies_of(given[sound], piece[sound]) + 0.1 * TIE
        self._bounded_at = count

    def lower(self) -> bool:
        """Lower the bounds of all candidates by single annotations, while those are few.

        The annotations since a candidate was up to date explain at least what any one of them does alone, at the cost
        of a kernel value each. A candidate that none of them reaches stays up to date. Returns False where there is
        nothing to gain by it.
        """
        step, before, kernel = self.conditioned.count, self._lowered_at, self.conditioned.kernel
        if before == step or step > _FEW:
            return False
        locations, numbers = self.conditioned.locations[before:], np.arange(before, step)[:, None]
        alone = kernel.diagonal(locations) + np.linalg.eigvalsh(self.conditioned.noise[before:])[:, -1]
        for start in range(0, len(self.candidates), _PIECE):
            piece = slice(start, start + _PIECE)
            points, since, gain = self.candidates[piece], self.exact_at[piece], self.gain[piece]
            explained = np.square(kernel.matrix(locations, points)) / alone[:, None]
            most = np.where(numbers >= since, explained, 0.0).max(axis=0)
            since[(most == 0) & (since >= before)] = step
            left = kernel.diagonal(points) - most
            lowered = np.flatnonzero((most > 0) & (left > 0))
            # A tie wider than rounding, so that no candidate is ruled out by it.
            bounds = self._entropies_of(left[lowered, None, None], start + lowered) + 0.1 * TIE
            gain[lowered] = np.minimum(gain[lowered], bounds)
        self._exact = np.flatnonzero(self.exact_at == step)
        self._lowered_at = step
        return True

    def _given_nearest(self, points: Floats) -> Floats:
        """Covariances given only the annotations nearest to the tile of each point, in the shape in use."""
        whole, b = self.conditioned, self.explained.b
        result = np.empty((len(points), b, b))
        order, tiles = sorted_tiles(points)

        def worker() -> Callable[[int], None]:
            def work(tile: int) -> None:
                rows = order[tiles[tile] : tiles[tile + 1]]
                inside = points[rows]
                gaps = np.square(whole.locations - (inside.min(axis=0) + inside.max(axis=0)) / 2).sum(axis=1)
                near = np.sort(np.argpartition(gaps, _NEAREST)[:_NEAREST])
                given = Conditioned.on(whole.kernel, whole.locations[near], whole.noise[near])
                result[rows] = given.variances(inside)[:, None, None] if b == 1 else given.covariances(inside)

            return work

        over_items(worker, len(tiles) - 1)
        return result

    def _promote(self, rows: Ints) -> None:
        self._elite = self._highest(np.union1d(self._elite, self._highest(rows)))

    def _highest(self, rows: Ints) -> Ints:
        """Return the rows with the highest gains, as many as the elite has."""
        return rows if len(rows) <= _ELITE else rows[np.argpartition(self.gain[rows], -_ELITE)[-_ELITE:]]

    def _refresh(self, rows: Ints) -> None:
        """Bring these candidates up to date, by what the annotations since they last were say."""
        stale = rows[self.exact_at[rows] != self.conditioned.count]
        if len(stale) == 0:
            return
        since, count = self.exact_at[stale], self.conditioned.count
        # Matrix products serve many faster, even those that know half of it; but the first loads their loops.
        anew = since < _KNOWN * count
        if (count <= _FEW and len(stale) <= VERY_MANY) or np.count_nonzero(anew) <= _MANY:
            anew[:] = False
        for start in range(0, len(stale), _PIECE):
            piece = slice(start, start + _PIECE)
            self._refresh_piece(stale[piece], since[piece], anew[piece])
        self._exact = np.concatenate([self._exact, stale])

    def _refresh_piece(self, stale: Ints, since: Ints, anew: Bools) -> None:
        fresh, known = stale[anew], stale[~anew]
        if len(fresh):
            self.explained[fresh] = self._prior(fresh) - self._from_scratch(self.candidates[fresh])
        if len(known):
            self.explained[known] += self._explained(self.conditioned, self.candidates[known], since[~anew])
        self.exact_at[stale] = self.conditioned.count
        self.gain[stale] = self._entropies(stale)

    def _from_scratch(self, points: Floats) -> Floats:
        """Covariances given all annotations, in the shape in use: (n, 1, 1) or (n, d, d)."""
        if self.conditioned.b == 1:
            return np.asarray(self.conditioned.variances(points)[:, None, None])
        return self.conditioned.covariances(points)

    @staticmethod
    def _explained(conditioned: Conditioned, points: Floats, since: Ints) -> Floats:
        kernel = conditioned.kernel.of_prior
        features, other_features = kernel.features(points), kernel.features(conditioned.locations)
        return kernel.bundle.explained(
            points, conditioned.locations, features, other_features, conditioned.split_factor, since
        )

    def _prior(self, rows: Ints) -> Floats:
        """Covariances before any annotation, in the shape in use."""
        diagonal = self.conditioned.kernel.diagonal(self.candidates[rows])
        return np.asarray(diagonal[:, None, None] * np.eye(self.explained.b))

    def _entropies(self, rows: Ints) -> Floats:
        """Gains by what is explained as it is kept, one after the other in bounded memory."""
        gains = np.empty(len(rows))
        for start in range(0, len(rows), _PIECE):
            piece = rows[start : start + _PIECE]
            gains[start : start + _PIECE] = self._entropies_of(self._prior(piece) - self.explained[piece], piece)
        return gains

    def _entropies_of(self, covariance: Floats, rows: Ints) -> Floats:
        """Gains of candidates with these covariances; a single number stands for all d components."""
        entropies = log_determinants(covariance, rows)
        entropies *= 0.5 * (self.d // covariance.shape[1])
        entropies += entropy_constant(self.d)
        return entropies
