"""Estimate of how many more annotations would decide a ranking.

An annotation that falls on the posterior mean leaves the mean where it is and only takes variance away. So the mean of
the difference of two mean squared errors stays, its variance ``4 / |T|^2 Delta^T K_post Delta`` shrinks by a term of
rank d for each suggested location, and the pair counts as decided when ``|mean| / sd`` reaches the quantile of the
level. The true matches will fall elsewhere; ``chance`` says how probable a decision then is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from warpgauge.core.arrays import Floats, as_points, thinned_rows
from warpgauge.core.error_scores import mean_squared_errors, quadratic_forms
from warpgauge.core.posterior_covariance import Conditioned
from warpgauge.core.process import Posterior
from warpgauge.core.suggestion import Suggester, assumed_covariance
from warpgauge.errors import InvalidInputError

CAP = 200
_MOST_CANDIDATES = 2000
# Variance below this share of what it was counts as none.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class FurtherAnnotations:
    """Estimated numbers of further annotations.

    Attributes
    ----------
    best, all_ranks : int or None
        Until the best beats every other, and until every transform beats the next in the ranking, with probability
        ``level``; 0 where that is so already, None where more than ``cap`` would be needed.
    pairs : dict
        The same for each pair of ranks (from 0) that was asked for.
    chance : dict
        For each such pair, the predictive probability that it is decided (either way) after that many annotations, or
        after ``cap``.
    level : float
    cap : int
        Largest number tried; fewer where candidates ran out.
    sd : float or None
        Standard deviation assumed for the further annotations (root mean variance over the directions); None where
        they are taken to be like those there are.
    locations : (m, d) array or None
        Suggested locations in order, as far as they were needed; None where the estimate does not depend on them.
    """

    best: int | None
    all_ranks: int | None
    pairs: dict[tuple[int, int], int | None]
    chance: dict[tuple[int, int], float]
    level: float
    cap: int
    sd: float | None
    locations: Floats | None


def typical_covariance(posterior: Posterior) -> Floats:
    """Covariance assumed for annotations to come: the median variance of those there are, in every direction.

    Without annotations it is the :class:`Suggester`'s own assumption.
    """
    d, given = posterior.d, posterior.annotations.covariances
    if len(given) == 0:
        return assumed_covariance(posterior.prior, d)
    return float(np.median(np.trace(given, axis1=1, axis2=2) / d)) * np.eye(d)


def further_annotations(
    posterior: Posterior,
    points: ArrayLike,
    mapped: Floats,
    *,
    candidates: ArrayLike | None = None,
    covariance: ArrayLike | None = None,
    level: float = 0.95,
    cap: int = CAP,
    seed: int = 0,
) -> FurtherAnnotations:
    """Estimate how many more annotations would decide the ranking by mean squared error.

    Parameters
    ----------
    posterior : Posterior
    points : (n, d) array
        Targets.
    mapped : (K, n, d) array
        Their images under the transforms.
    candidates : (m, d) array, optional
        Where annotations may be suggested; the targets (at most 2000 of them, drawn with the seed) by default.
    covariance : (d, d) array, optional
        Of each further annotation; see ``typical_covariance``.
    level : float
        Probability that decides a pair.
    cap : int
        Largest number tried.
    """
    at = as_points(points, "points", posterior.d)
    if int(cap) != cap or cap < 0 or not 0.5 < level < 1:
        raise InvalidInputError(f"further_annotations needs cap >= 0 and a level in (0.5, 1), got {cap!r}, {level!r}.")
    noise = typical_covariance(posterior) if covariance is None else np.asarray(covariance, dtype=np.float64)
    errors = mapped - posterior.mean(at)
    squares = mean_squared_errors(errors)
    order = [int(k) for k in np.argsort(squares, kind="stable")]
    forms = quadratic_forms(posterior, at, errors)
    neighbours = [(i, i + 1) for i in range(len(order) - 1)]
    asked = list(dict.fromkeys(neighbours + [(0, i) for i in range(1, len(order))]))
    race = _Race([(order[i], order[j]) for i, j in asked], squares, forms, len(at), level)
    locations: list[Floats] = []
    if cap and not race.finished:
        suggester = _suggester(posterior, at, candidates, noise, seed)
        cap = min(cap, len(suggester.candidates))
        shrinking = _Shrinking(posterior, at, errors)
        while len(locations) < cap and not race.finished:
            chosen = suggester.suggest()
            suggester.record(chosen, noise)
            locations.append(suggester.candidates[chosen])
            race.step(shrinking.add(locations[-1], posterior.prior.total_noise(noise[None])))
    needed = dict(zip(asked, race.needed, strict=True))
    return FurtherAnnotations(
        best=_largest([needed[0, i] for i in range(1, len(order))]),
        all_ranks=_largest([needed[pair] for pair in neighbours]),
        pairs=needed,
        chance=dict(zip(asked, race.chance, strict=True)),
        level=level,
        cap=int(cap),
        sd=float(np.sqrt(np.trace(noise) / posterior.d)),
        locations=np.array(locations).reshape(-1, posterior.d),
    )


def further_by_growth(
    order: Sequence[int], win: Floats, annotations: int, cap: int = CAP, samples: int = 1000, *, level: float = 0.95
) -> FurtherAnnotations:
    """Estimate the same for win probabilities of an average, whose evidence grows in proportion to the annotations.

    The standardised lead ``z`` of a pair (the normal quantile of its win probability) then grows with the square root
    of their number, on average, and varies like a random walk: after ``r`` times as many it is
    ``N(z sqrt(r), r - 1)``. A probability cannot be known better than to half a sample.

    Parameters
    ----------
    order : sequence of int
        The ranking, best first.
    win : (K, K) array
        Win probabilities.
    annotations : int
        How many there are.
    cap : int
        Largest number of further ones that is of interest.
    samples : int
        Behind the win probabilities.
    level : float
        Probability that decides a pair.
    """
    neighbours = [(i, i + 1) for i in range(len(order) - 1)]
    asked = list(dict.fromkeys(neighbours + [(0, i) for i in range(1, len(order))]))
    quantile, least = float(special.ndtri(level)), 0.5 / samples
    needed: dict[tuple[int, int], int | None] = {}
    chance: dict[tuple[int, int], float] = {}
    for i, j in asked:
        p = min(max(float(win[order[i], order[j]]), least), 1 - least)
        z = abs(float(special.ndtri(p)))
        more = 0 if z >= quantile else (cap + 1 if z == 0 else int(np.ceil(annotations * ((quantile / z) ** 2 - 1))))
        needed[i, j] = more if more <= cap else None
        grown = (annotations + min(more, cap)) / annotations
        # In units in which what is left to learn has variance 1, so that the formula for posteriors serves.
        chance[i, j] = _chance(z * np.sqrt(grown), grown, 1.0, quantile)
    return FurtherAnnotations(
        best=_largest([needed[0, i] for i in range(1, len(order))]),
        all_ranks=_largest([needed[pair] for pair in neighbours]),
        pairs=needed,
        chance=chance,
        level=level,
        cap=int(cap),
        sd=None,
        locations=None,
    )


def _largest(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return max(known, default=0) if len(known) == len(numbers) else None


def _suggester(
    posterior: Posterior, points: Floats, candidates: ArrayLike | None, noise: Floats, seed: int
) -> Suggester:
    """Make a suggester that knows the annotations there are."""
    if candidates is None:
        places = np.unique(points, axis=0)
        places = places[thinned_rows(len(places), _MOST_CANDIDATES, seed)]
    else:
        places = as_points(candidates, "candidates", posterior.d)
    suggester = Suggester(posterior.prior, places, seed=seed, default_covariance=noise)
    given = posterior.annotations
    for location, own in zip(given.fixed_points, given.covariances, strict=True):
        suggester.record_at(location, own)
    return suggester


class _Shrinking:
    """What each further annotation takes from the quadratic forms ``e_i^T K_post e_j``."""

    def __init__(self, posterior: Posterior, points: Floats, errors: Floats) -> None:
        K, n, d = errors.shape
        self.K, self.d, self.scale, self.points = K, d, posterior.scale, points
        self.columns = np.ascontiguousarray(errors.transpose(1, 0, 2)).reshape(n, K * d)
        self.conditioned: Conditioned = posterior.conditioned
        self.projected = self.conditioned.kernel.matrix(self.conditioned.locations, points) @ self.columns

    def add(self, location: Floats, noise: Floats) -> Floats:
        """Condition on one more location and return what it explains of the forms, (K, K)."""
        self.conditioned = self.conditioned.append(location[None], noise)
        row = self.conditioned.kernel.matrix(location[None], self.points) @ self.columns
        self.projected = np.concatenate([self.projected, row])
        vectors = np.ascontiguousarray(self.projected.reshape(-1, self.K, self.d).transpose(0, 2, 1))
        new = self.conditioned.whiten(vectors, self.conditioned.count - 1).reshape(-1, self.K)
        return np.asarray(self.scale * (new.T @ new))


class _Race:
    """Pairs on their way to a decision."""

    def __init__(self, pairs: Sequence[tuple[int, int]], squares: Floats, forms: Floats, n: int, level: float) -> None:
        self.a, self.b = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))
        self.mean = np.abs(squares[self.a] - squares[self.b])
        self.forms, self.n, self.quantile = forms.copy(), n, float(special.ndtri(level))
        self.scale = 4 / n**2 * (np.diag(forms)[self.a] + np.diag(forms)[self.b])
        self.first = self._variances()
        self.taken = 0
        self.needed: list[int | None] = [None] * len(pairs)
        self.chance: list[float] = [0.0] * len(pairs)
        self._look()

    def _variances(self) -> Floats:
        own = np.diag(self.forms)
        raw = 4 / self.n**2 * (own[self.a] + own[self.b] - 2 * self.forms[self.a, self.b])
        return np.asarray(np.where(raw <= _ROUNDING * self.scale, 0.0, raw))

    @property
    def finished(self) -> bool:
        return all(number is not None for number in self.needed)

    def step(self, explained: Floats) -> None:
        """Take a further annotation into account."""
        self.forms -= explained
        self.taken += 1
        self._look()

    def _look(self) -> None:
        left = self._variances()
        for i, number in enumerate(self.needed):
            if number is not None:
                continue
            self.chance[i] = _chance(float(self.mean[i]), float(self.first[i]), float(left[i]), self.quantile)
            # Equal transforms have neither a difference nor a variance: no annotation decides between them.
            if self.mean[i] > 0 and self.mean[i] >= self.quantile * np.sqrt(left[i]):
                self.needed[i] = self.taken


def _chance(mean: float, first: float, left: float, quantile: float) -> float:
    """Probability that the new mean, ``N(mean, first - left)``, is at least ``quantile sqrt(left)`` from 0."""
    bar, spread = quantile * np.sqrt(left), np.sqrt(max(first - left, 0.0))
    if spread == 0:
        return float(mean >= bar and mean > 0)
    return float(special.ndtr((mean - bar) / spread) + special.ndtr((-mean - bar) / spread))
