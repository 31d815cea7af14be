"""The verdict of an audit by normal values: sizes of errors, differences of transforms, and ranks.

Estimates are unbiased by the random draw alone. Intervals and decisions take single estimates for about normal values,
which rare failures are not; `warpgauge.evaluation.exact_verdict` assumes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.estimators import (
    Bounds,
    confidence_sequence,
    contributions,
    mean_interval,
    quantile_interval,
    rank_intervals,
    single_draws,
)
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import sentences
from warpgauge.evaluation.audit import AuditData
from warpgauge.evaluation.exact_verdict import CONFIDENCE, ExactVerdict, SizeVerdict

# Fewer answers than this give no interval worth stating.
FEWEST = 5


@dataclass(frozen=True)
class Estimate:
    """A number and its interval; also the interval if skipped places were as bad, or as good, as any answered one."""

    value: float
    low: float
    high: float
    low_with_skips: float | None = None
    high_with_skips: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """As plain values, None for no bound."""
        return {name: None if one is None or not np.isfinite(one) else float(one) for name, one in vars(self).items()}

    @property
    def words(self) -> str:
        """The number and its interval, for a table."""
        high = f"{self.high:.3g}" if np.isfinite(self.high) else "no bound"
        low = f"{self.low:.3g}" if np.isfinite(self.low) else "no bound"
        return f"{self.value:.3g} ({low} to {high})"


@dataclass(frozen=True)
class MethodVerdict:
    """Audit result of one transform: RMS error, mean error and 90th percentile, and its possible ranks."""

    name: str
    rms: Estimate
    mean: Estimate
    p90: Estimate
    best_rank: int
    worst_rank: int


@dataclass(frozen=True)
class PairVerdict:
    """Two transforms compared: the difference of their mean squared errors, first less second.

    Attributes
    ----------
    first, second : str
    squared : Estimate
        Difference of the mean squared errors; the level holds for this pair at this number of answers.
    rms : float
        Difference of the RMS errors.
    sequence : Bounds
        Of the mean squared errors; holds for all pairs together, however often it is looked at.
    better : str or None
        Which is better, where that is decided.
    """

    first: str
    second: str
    squared: Estimate
    rms: float
    sequence: Bounds
    better: str | None


@dataclass(frozen=True)
class DesignVerdict:
    """The verdict of an audit.

    Attributes
    ----------
    level : float
    reached, answered : int
        Audit questions, and how many of them have an answer that can be used.
    methods : tuple of MethodVerdict
        By their RMS error, smallest first.
    pairs : tuple of PairVerdict
    assisted : bool
        Whether predictions of the model made the estimates more precise; they stay valid without it.
    even : bool
        Whether most draws were even: then nothing is decided, because few even draws rarely meet a rare failure.
    units : str
    """

    level: float
    reached: int
    answered: int
    methods: tuple[MethodVerdict, ...]
    pairs: tuple[PairVerdict, ...]
    assisted: bool
    even: bool = False
    units: str = "px"

    @property
    def best(self) -> str | None:
        """The transform that is decided to be better than every other, or None."""
        return next((one.name for one in self.methods if one.worst_rank == 1 and len(self.methods) > 1), None)

    @property
    def certified(self) -> bool:
        """Whether the audit shows which transform is best, independent of the model."""
        return self.best is not None

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        return sentences.design(self)

    @property
    def further(self) -> list[str]:
        """What the verdict assumes, and what was not answered."""
        return sentences.design_further(self)

    def table(self, model: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
        """Return heads and rows: the audit's figures beside those of the model."""
        return sentences.design_table(self, model)

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain values."""
        return {
            "level": self.level,
            "reached": self.reached,
            "answered": self.answered,
            "assisted_by_predictions": self.assisted,
            "best": self.best,
            "sentence": self.sentence,
            "methods": [
                {
                    "name": one.name,
                    "rms": one.rms.to_dict(),
                    "mean": one.mean.to_dict(),
                    "p90": one.p90.to_dict(),
                    "ranks": [one.best_rank, one.worst_rank],
                }
                for one in self.methods
            ],
            "pairs": [
                {
                    "first": one.first,
                    "second": one.second,
                    "difference_of_mean_squares": one.squared.to_dict(),
                    "difference_of_rms": one.rms,
                    "at_any_time": Estimate(one.squared.value, one.sequence.low, one.sequence.high).to_dict(),
                    "better": one.better,
                }
                for one in self.pairs
            ],
        }


def design_verdict(data: AuditData, *, level: float = CONFIDENCE, seed: int = 0, units: str = "px") -> DesignVerdict:
    """Return what the audit says.

    Parameters
    ----------
    data : AuditData
    level : float
        Of each interval; decisions between transforms hold with this probability for all pairs together, at all times.
    seed : int
        Of the resampling behind intervals.
    units : str
        World unit, for the sentences.
    """
    usable = data.usable
    answered = int(usable.sum())
    if answered < FEWEST:
        raise InvalidInputError(
            f"Of {len(data.draws)} audit questions {answered} have an answer where all transforms are defined; a "
            f"verdict needs at least {FEWEST}."
        )
    K = len(data.names)
    squares = [_bounded(data, _coefficients(data, k), level, seed, None) for k in range(K)]
    share = (1 - level) / max(1, K * (K - 1) // 2)
    pairs = tuple(_pair(data, a, b, (squares[a], squares[b]), level, share, seed) for a, b in combinations(range(K), 2))
    better = np.zeros((K, K), dtype=bool)
    for pair, (a, b) in zip(pairs, combinations(range(K), 2), strict=True):
        if pair.better is not None:
            better[(a, b) if pair.better == data.names[a] else (b, a)] = True
    ranks = rank_intervals(better)
    methods = [_method(data, k, squares[k], level, seed, ranks[k]) for k in range(K)]
    methods.sort(key=lambda one: one.rms.value)
    return DesignVerdict(
        level, len(data.draws), answered, tuple(methods), pairs, data.predicted is not None, data.even, units
    )


def _coefficients(data: AuditData, plus: int, minus: int | None = None) -> Floats:
    found = np.zeros(len(data.names))
    found[plus] = 1.0
    if minus is not None:
        found[minus] = -1.0
    return found


def _bounded(data: AuditData, coefficients: Floats, level: float, seed: int, scale: Floats | None) -> Estimate:
    """Estimate the mean of a combination of squared errors; values at skips are bounded by those answered.

    ``scale`` (n,) is what a value is in proportion to; bounds are on the ratio.
    """
    usable = data.usable
    values, told = coefficients @ data.squares(), data.predictions(coefficients)
    draws = data.draws.among(usable)
    found = contributions(draws, values[usable], None if told is None else told.among(usable))
    here = mean_interval(found, level, seed)
    if data.answered.all():
        return Estimate(found.estimate, here.low, here.high)
    every = np.asarray(
        np.isfinite(data.mapped).all(axis=(0, 2)), dtype=bool
    )  # answered or skipped, where all transforms are defined
    size = np.ones(len(values)) if scale is None else scale
    ratios = values[usable] / np.where(size[usable] > 0, size[usable], 1.0)
    ends = []
    for ratio in (float(ratios.min()), float(ratios.max())):
        filled = np.where(usable, values, ratio * size)
        part = contributions(data.draws.among(every), filled[every], None if told is None else told.among(every))
        ends.append(mean_interval(part, level, seed))
    return Estimate(found.estimate, here.low, here.high, ends[0].low, ends[1].high)


def _root(value: float) -> float:
    return float(np.sqrt(max(0.0, value)))


def _method(
    data: AuditData, k: int, squared: Estimate, level: float, seed: int, ranks: tuple[int, int]
) -> MethodVerdict:
    with_skips = (squared.low_with_skips, squared.high_with_skips)
    rms = Estimate(
        _root(squared.value), _root(squared.low), _root(squared.high),
        *(None if one is None else _root(one) for one in with_skips),
    )  # fmt: skip
    usable = data.usable
    draws = data.draws.among(usable)
    lengths = np.linalg.norm(data.mapped[k] - data.matches, axis=1)[usable]
    mean = contributions(draws, lengths)
    bounds = mean_interval(mean, level, seed)
    p90, around = quantile_interval(lengths, draws.weights, 0.9, level)
    return MethodVerdict(
        data.names[k],
        rms,
        Estimate(mean.estimate, max(0.0, bounds.low), bounds.high),
        Estimate(p90, max(0.0, around.low), around.high),
        *ranks,
    )


def _pair(
    data: AuditData, a: int, b: int, sizes: tuple[Estimate, Estimate], level: float, share: float, seed: int
) -> PairVerdict:
    """Compare two transforms; ``share`` is the pair's part of the error rate of all decisions."""
    coefficients = _coefficients(data, a, b)
    usable = data.usable
    apart = np.linalg.norm(data.mapped[a] - data.mapped[b], axis=1)
    squared = _bounded(data, coefficients, level, seed, apart)
    told = data.predictions(coefficients)
    values = (coefficients @ data.squares())[usable]
    steps = single_draws(data.draws.among(usable), values, None if told is None else told.among(usable))
    sequence = confidence_sequence(steps, 1 - share)
    better = None
    if not data.even and (sequence.high < 0 or sequence.low > 0):
        better = data.names[a] if sequence.high < 0 else data.names[b]
    total = _root(sizes[0].value) + _root(sizes[1].value)
    return PairVerdict(
        data.names[a], data.names[b], squared, squared.value / total if total > 0 else 0.0, sequence, better
    )


def contradicting(verdict: DesignVerdict | ExactVerdict, model: Mapping[str, Any], units: str) -> list[str]:
    """Return where the two verdicts contradict each other, and what that means."""
    found = []
    for one in verdict.methods:
        low, high = model["methods"][one.name]["interval"]
        bounds = (one.low, one.high) if isinstance(one, SizeVerdict) else (one.rms.low, one.rms.high)
        # An exact upper bound is that of capped errors.
        capped = isinstance(one, SizeVerdict) and low > one.cap
        if bounds[0] > high or (bounds[1] < low and not capped):
            found.append(sentences.contradicting_sizes(one.name, bounds, (low, high), units))
    names = list(model["names"])
    for pair in verdict.pairs:
        if pair.better is None:
            continue
        worse = pair.second if pair.better == pair.first else pair.first
        chance = model["win_probability"][names.index(worse)][names.index(pair.better)]
        if chance >= verdict.level:
            found.append(sentences.contradicting_order(pair.better, worse, chance))
    return found
