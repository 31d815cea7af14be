"""The exact verdict of an audit: which transform is nearer to the experts' answers, whatever the shape of the errors.

It rests on the random draw alone (`warpgauge.audit.tickets`) and holds at every look. Two measures are tested. The mean
error needs no bound beyond the distance of the two transforms. The squared error counts an answer as at most R0 outside
the segment between them; R0 climbs a fixed ladder. One transform is called better only where both measures say so, the
second one up to an R0 well beyond every answer (`CLEAR`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from warpgauge.audit.bounded_losses import beyond_segment, length_difference, segment_bound, segment_difference
from warpgauge.audit.estimators import rank_intervals
from warpgauge.audit.tickets import answers_left, fewest_answers, log_wealth, lower_mean, tickets, upper_mean
from warpgauge.core.arrays import Bools, Floats
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import sentences
from warpgauge.evaluation.audit import SHARES, AuditData

CONFIDENCE = 0.95
# R0 of the ladder, in pixels of the fixed image, up to the diagonal of the moving image, beyond which no answer lies.
_LADDER_PX = np.array([1, 2, 3, 5, 8, *(factor * 10.0**power for power in range(1, 7) for factor in (1.2, 2, 3, 5, 8))])
# A transform is called better where R0 holds so many steps beyond the first that cuts no answer short. Where both
# transforms fail far outside in 2 % of the places, many audits meet none of these; with no step to spare, 6.8 % of them
# called the wrong one better (docs/paper/evaluation.md).
CLEAR = 1
# Errors count as at most this share of the moving image's diagonal in the upper bound of a size.
CAP = 0.05
# Shares of the targets for which the chance of missing a failure is stated.
FAILURES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)


@dataclass(frozen=True)
class SizeVerdict:
    """Size of one transform's error: distances from the answers, their noise included.

    Attributes
    ----------
    name : str
    rms, mean : float
        Estimates of the root mean square error and of the mean error, from the random answers; nothing is capped.
    low, high : float
        Exact bounds of the RMS error, each with the level of the verdict, at every look. ``high`` is that of the RMS of
        errors that count as at most ``cap``; questions without an answer count as the worst of them.
    cap : float
    best_rank, worst_rank : int
    undefined : float
        Share of the targets at which the transform is not defined and counts as no registration.
    """

    name: str
    rms: float
    mean: float
    low: float
    high: float
    cap: float
    best_rank: int
    worst_rank: int
    undefined: float


@dataclass(frozen=True)
class ExactPair:
    """Two transforms compared.

    Attributes
    ----------
    first, second : str
    mean, squared : str or None
        Which is proven to have the smaller mean error, and the smaller mean squared error up to ``beyond``.
    beyond : float or None
        R0 in world units: answers count as at most so far outside the segment between the transforms. None where
        nothing is proven.
    seen_beyond : float
        How far outside it the farthest answer lies.
    with_skips : bool
        Whether it is also proven if every skipped question counts against it as far as it can.
    bets : int
        Answers and skips that count: see `AuditData.bets`.
    difference : float
        Estimated mean error of the second less that of the first.
    forecast, fewest : float
        About how many further answers would decide, and how many no exact method can undercut on average; infinite
        where the answers so far point nowhere.
    reversed_by : float or None
        Smallest share of the targets at which a failure nobody met would reverse what is proven.
    better : str or None
        Which is better: where both measures say so, the second one with an R0 well beyond every answer.
    """

    first: str
    second: str
    mean: str | None
    squared: str | None
    beyond: float | None
    seen_beyond: float
    with_skips: bool
    bets: int
    difference: float
    forecast: float
    fewest: float
    reversed_by: float | None
    better: str | None

    def other(self, name: str) -> str:
        """Name of the other one."""
        return self.second if name == self.first else self.first

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, None for infinite ones."""
        return {key: _plain(one) for key, one in vars(self).items()}


@dataclass(frozen=True)
class ExactVerdict:
    """The exact verdict of an audit.

    Attributes
    ----------
    level : float
    reached, answered, skipped : int
        Audit questions, how many of them are answered, and how many were skipped or passed over.
    methods : tuple of SizeVerdict
        By their estimated RMS error, smallest first.
    pairs : tuple of ExactPair
        All of them hold together, for each measure.
    best : str or None
        The transform that is better than every other.
    contest : tuple of ExactPair
        The best with each other one, or the leader where none is proven to be the best: what ``best`` rests on.
    family : int
        Number of transforms among which these were chosen; what is proven is proven for so many.
    units : str
    """

    level: float
    reached: int
    answered: int
    skipped: int
    methods: tuple[SizeVerdict, ...]
    pairs: tuple[ExactPair, ...]
    best: str | None
    contest: tuple[ExactPair, ...]
    family: int
    units: str

    @property
    def certified(self) -> bool:
        """Whether the audit shows which transform is best, independent of the model."""
        return self.best is not None

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        return sentences.exact(self)

    @property
    def further(self) -> list[str]:
        """What belongs to the verdict: what could have been missed, skips, what is needed to decide."""
        return sentences.exact_further(self)

    def missed(self, share: float) -> float:
        """Probability with which even draws of as many answers miss a failure of this share of the targets."""
        return float((1 - share) ** self.answered)

    def table(self, model: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
        """Return heads and rows: the audit's figures beside those of the model."""
        return sentences.exact_table(self, model)

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain values."""
        return {
            "method": "exact",
            "level": self.level,
            "reached": self.reached,
            "answered": self.answered,
            "skipped": self.skipped,
            "best": self.best,
            "sentence": self.sentence,
            "further": self.further,
            "missed": {str(share): self.missed(share) for share in FAILURES},
            "methods": [{key: _plain(one) for key, one in vars(each).items()} for each in self.methods],
            "pairs": [one.to_dict() for one in self.pairs],
            "contest": [one.to_dict() for one in self.contest],
            "family": self.family,
            "units": self.units,
        }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def exact_verdict(data: AuditData, *, level: float = CONFIDENCE, family: int = 0, units: str = "px") -> ExactVerdict:
    """Return what the audit proves.

    Parameters
    ----------
    data : AuditData
        With `AuditData.apart`.
    level : float
        Of everything that is stated; for decisions, of all pairs together, and at every look.
    family : int
        Number of transforms among which these were chosen, if it is more than these.
    units : str
        World unit, for the sentences.
    """
    if data.apart is None:
        raise InvalidInputError("An exact verdict needs how far the transforms lie apart at all places.")
    if not 0 < level < 1:
        raise InvalidInputError(f"A level must lie between 0 and 1, got {level!r}.")
    K = len(data.names)
    measured = {pair: _Measured.of(data, *pair) for pair in combinations(range(K), 2)}
    # Pairs: K (K - 1) claims "a is better than b". Best: each of the K - 1 others is named by a false claim against the
    # one that is best; of two that are equally good, either could be named.
    F = max(family, K)
    every = {pair: one.verdict((1 - level) / (F * (F - 1))) for pair, one in measured.items()}
    for_best = {pair: one.verdict((1 - level) / max(2, F - 1)) for pair, one in measured.items()}
    best = next((name for name in data.names if K > 1 and _wins(name, for_best.values()) == K - 1), None)
    better = np.zeros((K, K), dtype=bool)
    for (a, b), one in every.items():
        if one.better is not None:
            better[(a, b) if one.better == one.first else (b, a)] = True
    ranks = rank_intervals(better)
    if best is not None:
        ranks = [
            (1, 1) if name == best else (max(2, low), high) for name, (low, high) in zip(data.names, ranks, strict=True)
        ]
    methods = sorted((_size(data, k, level, ranks[k]) for k in range(K)), key=lambda one: one.rms)
    leader = best or methods[0].name
    contest = tuple(one for one in for_best.values() if leader in (one.first, one.second))
    skipped = int((~data.answered).sum())
    return ExactVerdict(
        level, len(data.draws), int(data.answered.sum()), skipped, tuple(methods), tuple(every.values()), best,
        contest, F, units,
    )  # fmt: skip


def ladder_of(pixel: float, diagonal: float) -> Floats:
    """Return the steps R0 in world units, of a fixed image's pixel and up to the diagonal of the moving image."""
    steps = _LADDER_PX * pixel
    return np.append(steps[steps < diagonal], diagonal if np.isfinite(diagonal) else [])


def _wins(name: str, pairs: Any) -> int:
    return sum(one.better == name for one in pairs)


@dataclass(frozen=True, eq=False)
class _Measured:
    """Evidence for either of two transforms, by measure.

    Attributes
    ----------
    given : dict
        Tickets by direction, +1 that the first is better and -1 that the second is: (1 + R, n), the mean error and then
        the squared error at each step of the ladder; also with skips counted against the claim, under 2 and -2.
    """

    names: tuple[str, str]
    ladder: Floats
    given: dict[int, Floats]
    bets: Bools
    difference: float
    bound: float
    seen_beyond: float
    largest: Floats

    @classmethod
    def of(cls, data: AuditData, a: int, b: int) -> _Measured:
        K, apart = len(data.names), data.apart
        assert apart is not None
        row = list(combinations(range(K), 2)).index((a, b))
        size, largest = apart.at_draws[row], apart.largest[row]
        ladder = ladder_of(data.pixel, data.diagonal)
        bounds = np.stack([size, *(segment_bound(size, one) for one in ladder)])
        limits = np.array([largest[0, -1], *(largest[1, -1] + 2 * one * largest[0, -1] for one in ladder)])
        first, second, known = data.mapped[a], data.mapped[b], data.answered
        y = np.where(known[:, None], data.matches, first)
        losses = np.stack(
            [length_difference(first, second, y), *(segment_difference(first, second, y, one) for one in ladder)]
        )
        # The bound is that of the place that was asked, also where the rater marked another point.
        d = np.where(known, np.clip(losses, -bounds, bounds), 0.0)
        bets = data.bets_on(a, b)
        pending = np.zeros(len(known), dtype=bool) if data.pending is None else data.pending
        given = {}
        for sign in (1, -1):
            for way, worst in ((1, pending), (2, ~known)):
                values = np.where(worst, 0.0, bounds + sign * d)
                given[sign * way] = tickets(values, data.draws.probabilities, limits, bets)
        used = known & bets
        weights = data.draws.among(used).weights if used.any() else np.zeros(0)
        mean = float(weights @ d[0, used] / weights.sum()) if used.any() else 0.0
        outside = beyond_segment(first, second, y)[used]
        return cls(
            (data.names[a], data.names[b]), ladder, given, bets, mean,
            float(largest[0, -1]) / data.draws.population, float(outside.max(initial=0.0)), largest,
        )  # fmt: skip

    def verdict(self, alpha: float) -> ExactPair:
        """Return what is proven with an error of at most alpha per measure and direction.

        One is called better only if R0 holds `CLEAR` steps beyond the first that cuts no answer short.
        """
        steps = {way: self._steps(way, alpha) for way in self.given}
        sides = {1: self.names[0], -1: self.names[1]}
        mean = _only([sides[sign] for sign in sides if steps[sign][0]])
        squared = _only([sides[sign] for sign in sides if steps[sign][1]])
        sign = 1 if squared == self.names[0] else -1
        beyond = None if squared is None else float(self.ladder[steps[sign][1] - 1])
        towards = (1 if mean == self.names[0] else -1) if mean is not None else (1 if self.difference >= 0 else -1)
        kept = steps[2 * towards]
        enough = min(int(np.searchsorted(self.ladder, self.seen_beyond)) + CLEAR, len(self.ladder) - 1)
        whole = mean == squared and steps[sign][1] > enough and self.ladder[enough] >= self.seen_beyond
        return ExactPair(
            *self.names,
            mean,
            squared,
            beyond,
            self.seen_beyond,
            mean is not None and kept[0] and (squared is None or steps[2 * sign][1] > 0),
            int(self.bets.sum()),
            self.difference,
            answers_left(self.given[towards][0][self.bets], alpha) if mean is None else 0.0,
            fewest_answers(abs(self.difference), self.bound, alpha) if self.bound > 0 else np.inf,
            self._reversed_by() if mean is not None else None,
            mean if whole else None,
        )

    def _steps(self, way: int, alpha: float) -> tuple[bool, int]:
        """Return whether the mean error is proven, and up to which step of the ladder the squared error is."""
        if not self.bets.any():
            return False, 0
        reached = log_wealth(self.given[way]).max(axis=-1) >= np.log(1 / alpha)
        return bool(reached[0]), int(np.logical_and.accumulate(reached[1:]).sum())

    def _reversed_by(self) -> float:
        """Smallest share of the targets at which a loss as large as can be turns the estimated difference to 0.

        A target with the bound c that is won by r c, r the mean difference over the mean bound, loses c instead: enough
        of them have the share r / (1 + r) of all bounds.
        """
        ratio = abs(self.difference) / self.bound if self.bound > 0 else 0.0
        enough = self.largest[0] / self.largest[0, -1] >= ratio / (1 + ratio)
        return float(SHARES[int(np.argmax(enough))])


def _only(found: list[str]) -> str | None:
    """Return the only one; None where nothing is proven, or the opposite too."""
    return found[0] if len(found) == 1 else None


def _size(data: AuditData, k: int, level: float, ranks: tuple[int, int]) -> SizeVerdict:
    known, N = data.answered, data.draws.population
    bets = data.bets_on(k)
    errors = np.linalg.norm(data.mapped[k] - data.matches, axis=1)
    cap = CAP * data.diagonal if np.isfinite(data.diagonal) else float(np.max(errors[known], initial=1.0))
    chances = data.draws.probabilities
    high = upper_mean(np.square(np.where(known, np.minimum(errors, cap), cap)), cap**2, chances, N, level, bets)
    low = lower_mean(np.square(np.where(known, errors, 0.0)), chances, N, level, bets)
    weights = data.draws.among(known).weights if known.any() else np.zeros(0)
    share = weights / weights.sum() if known.any() else weights
    return SizeVerdict(
        data.names[k],
        float(np.sqrt(share @ np.square(errors[known]))),
        float(share @ errors[known]),
        float(np.sqrt(low)),
        float(np.sqrt(high)),
        cap,
        *ranks,
        0.0 if data.undefined is None else float(data.undefined[k]),
    )


def contradicting(verdict: ExactVerdict, model: Mapping[str, Any], units: str) -> list[str]:
    """Return where the audit's verdict and the model's contradict each other, and what that means."""
    found = []
    for one in verdict.methods:
        low, high = model["methods"][one.name]["interval"]
        capped = low > one.cap  # an exact upper bound is that of capped errors
        if one.low > high or (one.high < low and not capped):
            found.append(sentences.contradicting_sizes(one.name, (one.low, one.high), (low, high), units))
    names = list(model["names"])
    for pair in verdict.pairs:
        if pair.better is None:
            continue
        worse = pair.other(pair.better)
        chance = model["win_probability"][names.index(worse)][names.index(pair.better)]
        if chance >= verdict.level:
            found.append(sentences.contradicting_order(pair.better, worse, chance))
    return found
