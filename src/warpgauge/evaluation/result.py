"""Result of an evaluation, as values, table, rows and JSON."""

from __future__ import annotations

import html
import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.error_scores import norm_name
from warpgauge.core.process import Posterior
from warpgauge.display import Tabular, counted, html_table, percent, rounded, shown_units
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.flags import Flag
from warpgauge.evaluation.judge import Judge
from warpgauge.evaluation.regularity import Regularity
from warpgauge.evaluation.verdict import Verdict
from warpgauge.io.transforms import Transform

# Name of the norm that ranks, decides and is shown: the root mean square.
PRIMARY = "2"
INTERVAL_LEVEL = 0.90
STATISTICS = ("mean", "rms", "median", "p90", "max", "above_tolerance")
# Norms that have a name: the statistic that equals each, and what people call it.
_NORMS = {"1": ("mean", "mean error"), PRIMARY: ("rms", "RMS error"), "inf": ("max", "largest error")}


def statistic_of(norm: str) -> str:
    """Return the name of the statistic that equals a norm."""
    return _NORMS[norm][0] if norm in _NORMS else f"norm {norm}"


def score_head(norm: str, units: str = "") -> str:
    """Return the heading of a column or axis with scores of a norm."""
    head = _NORMS[norm][1] if norm in _NORMS else f"{norm}-norm of the error"
    return f"{head} ({units})" if units else head


@dataclass(frozen=True)
class Interval:
    """Mean, median and central 90 % credible interval of one number over draws."""

    mean: float
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: Floats, ends: Floats | None = None) -> Interval:
        """Summarise draws of a number; its ends may come from draws that also hold failures nobody met."""
        tail = (1 - INTERVAL_LEVEL) / 2
        low, high = np.quantile(draws if ends is None else ends, [tail, 1 - tail])
        median = float(np.median(draws))
        return cls(float(np.mean(draws)), median, min(float(low), median), float(high))


def summaries(lengths: Floats, tolerance: float | None = None) -> dict[str, Floats]:
    """Summaries of error lengths over the last axis.

    ``mean``, ``rms``, ``median``, ``p90`` (90th percentile, linear between order statistics) and ``max``, in world
    units; with a tolerance ``above_tolerance``, the share of lengths strictly above it.
    """
    middle, high = np.quantile(lengths, [0.5, 0.9], axis=-1)
    found = {
        "mean": np.asarray(lengths.mean(axis=-1)),
        "rms": np.asarray(np.sqrt(np.mean(np.square(lengths), axis=-1))),
        "median": np.asarray(middle),
        "p90": np.asarray(high),
        "max": np.asarray(lengths.max(axis=-1)),
    }
    if tolerance is not None:
        found["above_tolerance"] = np.asarray(np.mean(lengths > tolerance, axis=-1))
    return found


@dataclass(frozen=True, eq=False)
class TransformScores:
    """Scores of one transform; the first dictionaries are keyed by the norm's name (``"1"``, ``"2"``, ``"inf"``).

    Attributes
    ----------
    landmark : dict
        Classical score at the annotated points; None where the transform's values there are not known.
    score : dict
        The score that ranks: by a judge the median of the true error over its draws; by the paper's posterior the
        distance from its mean over the targets.
    interval : dict
        Central 90 % credible interval of the true score.
    expected_squared_error : float
        Expectation of the mean squared error over the targets.
    probability_best : dict
        Probability of having the smallest error; that of near copies is of all of them together.
    outside : float
        Share of the targets outside the transform's domain.
    group : int or None
        Number of its tied group, from 1; None of a transform that is not ranked.
    statistics : dict of Interval
        ``mean``, ``rms``, ``median``, ``p90``, ``max`` of the error over the targets, and ``above_tolerance`` where a
        tolerance was given.
    landmark_statistics : dict or None
        The same numbers at the annotated points alone, the classical way; None as for ``landmark``.
    vetted : bool
        Whether it cannot have seen the annotations: a reference, or one that passed the leak test.
    """

    name: str
    landmark: dict[str, float | None]
    score: dict[str, float]
    interval: dict[str, tuple[float, float]]
    expected_squared_error: float
    root_expected_squared_error: float
    probability_best: dict[str, float]
    expected_rank: dict[str, float]
    rank_probabilities: dict[str, list[float]]
    outside: float
    group: int | None = None
    copy_of: str | None = None
    statistics: dict[str, Interval] = field(default_factory=dict)
    landmark_statistics: dict[str, float] | None = None
    regularity: Regularity | None = None
    flags: tuple[Flag, ...] = ()
    vetted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain Python values."""
        return asdict(self)

    def row(self) -> dict[str, Any]:
        """All numbers in one flat row."""
        found: dict[str, Any] = {"transform": self.name}
        for norm, score in self.score.items():
            low, high = self.interval[norm]
            found |= {
                f"landmark_{norm}": self.landmark[norm],
                f"score_{norm}": score,
                f"low_{norm}": low,
                f"high_{norm}": high,
                f"probability_best_{norm}": self.probability_best[norm],
                f"expected_rank_{norm}": self.expected_rank[norm],
            }
        found |= {
            "group": self.group,
            "copy_of": self.copy_of or "",
            "outside": self.outside,
            "vetted": "yes" if self.vetted else "no",
            "expected_squared_error": self.expected_squared_error,
            "root_expected_squared_error": self.root_expected_squared_error,
        }
        for name, one in self.statistics.items():
            found[f"landmark_{name}"] = (self.landmark_statistics or {}).get(name)
            found |= {name: one.median, f"{name}_low": one.low, f"{name}_high": one.high}
        if self.regularity is not None:
            found |= {"folding": self.regularity.folding, "sd_log_jacobian": self.regularity.sd_log_jacobian}
        return {**found, "flags": ", ".join(flag.code for flag in self.flags)}


@dataclass(frozen=True, eq=False)
class Evaluation(Tabular):
    """Result of :func:`warpgauge.evaluate`.

    Attributes
    ----------
    judged_by : Judge
        The model of the truth that the scores were made with.
    win_probability : (K, K) array
        Probability that the row's transform has a smaller mean squared error than the column's: counted over draws, or
        exact by a posterior.
    verdict : Verdict
        What they say: codes and numbers, and as text at most five lines.
    known : (n,) array of bool
        Targets that the annotations inform.
    candidate_weights : dict or None
        Weight of each transform that testifies in the median about which the truth is modelled. None by a posterior.
    sampled_targets : int
        Number of targets of each joint draw.
    without_flagged : Evaluation or None
        The same without the annotations that are flagged as gross errors; None where none is.
    draws : dict
        Draws (samples, K) of each norm and statistic, failures that no annotation met included.
    """

    comparison: Comparison = field(repr=False)
    judged_by: Judge = field(repr=False)
    scores: dict[str, TransformScores]
    norms: tuple[str, ...]
    win_probability: Floats
    verdict: Verdict
    known: Bools = field(repr=False)
    seed: int
    tolerance: float | None = None
    candidate_weights: dict[str, float] | None = None
    sampled_targets: int = 0
    without_flagged: Evaluation | None = None
    draws: dict[str, Floats] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was compared and the model: functions among the transforms cannot be pickled."""
        return {**self.__dict__, "comparison": None, "judged_by": None}

    @property
    def posterior(self) -> Posterior:
        """What the annotations alone say: for maps."""
        return self.comparison.posterior

    @property
    def transforms(self) -> dict[str, Transform]:
        """All transforms that were judged, the baseline among them."""
        return dict(self.comparison.transforms)

    def ranking(self, norm: str | float = PRIMARY) -> list[str]:
        """Names from best to worst by the score.

        Transforms that the leak test found to have seen annotations are left out.
        """
        key = norm if isinstance(norm, str) else norm_name(norm)
        if key not in self.norms:
            raise InvalidInputError(f"The evaluation has the norms {', '.join(self.norms)}, not {key}.")
        ranked = [name for name in self.scores if name not in self.verdict.disqualified]
        return sorted(ranked, key=lambda name: self.scores[name].score[key])

    def probability_below(self, name: str, value: float, statistic: str = "rms") -> float:
        """Probability that a statistic of a transform's true error is at most ``value``, in the statistic's own unit.

        Statistics are ``mean``, ``rms``, ``median``, ``p90``, ``max``, and others that the evaluation has.
        """
        if name not in self.scores:
            raise InvalidInputError(f"There is no transform {name!r}; there are {', '.join(self.scores)}.")
        if statistic not in self.draws:
            raise InvalidInputError(f"There is no statistic {statistic!r}; there are {', '.join(self.draws)}.")
        return float(np.mean(self.draws[statistic][:, list(self.scores).index(name)] <= value))

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain Python values (not the draws)."""
        return {
            **self.verdict.to_dict(),
            "seed": self.seed,
            "tolerance": self.tolerance,
            "norms": list(self.norms),
            "ranking": {norm: self.ranking(norm) for norm in self.norms},
            "sampled_targets": self.sampled_targets,
            "without_flagged": None if self.without_flagged is None else self.without_flagged.to_dict(),
            "candidate_weights": self.candidate_weights,
            "transforms": {name: scores.to_dict() for name, scores in self.scores.items()},
            "win_probability": {
                name: dict(zip(self.scores, row.tolist(), strict=True))
                for name, row in zip(self.scores, self.win_probability, strict=True)
            },
            "unreadable": {} if self.comparison is None else dict(self.comparison.problems),
        }

    def to_json(self) -> str:
        """All numbers as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per transform, in the order given."""
        return [one.row() for one in self.scores.values()]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and rows of the table that `print` and the command line show, the best transform first."""
        rows = self.verdict.rows
        norm = self.verdict.norm
        columns: dict[str, list[Any]] = {
            "transform": [one.name for one in rows],
            "landmarks": [rounded(one.landmark[norm]) for one in rows],
        }
        if not self.verdict.too_few:
            columns |= {
                "error": [rounded(one.score[norm]) for one in rows],
                "90 % interval": [" to ".join(map(rounded, one.interval[norm])) for one in rows],
            }
        columns["P(best)"] = [self.verdict.shown_probability(one) for one in rows]
        if any(one.outside > 0 for one in rows):
            columns["outside"] = [percent(one.outside) for one in rows]
        if self.verdict.references:
            columns["vetted"] = ["yes" if one.vetted else "no" for one in rows]
        if self.tolerance is not None and not self.verdict.too_few:
            head = f"> {self.tolerance:g}{self._unit(' ')}"
            columns[head] = [percent(one.statistics["above_tolerance"].median) for one in rows]
        return list(columns), [list(cells) for cells in zip(*columns.values(), strict=True)]

    def _unit(self, before: str) -> str:
        """Return the world unit after a word, where it is known."""
        units = self.verdict.units
        return f"{before}{shown_units(units)}" if units else ""

    @property
    def title(self) -> str:
        """What the errors are, over how many targets and from how many annotations."""
        error = f"{score_head(self.verdict.norm)}{self._unit(' in ')}"
        return f"{error} over {self.verdict.target_words}, from {counted(self.verdict.annotations, 'annotation')}"

    @property
    def sentence_after(self) -> str:
        """The verdict, line by line."""
        return str(self.verdict)

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<p><b>{name}</b> {html.escape(text)}</p>" for name, text in self.verdict.lines().items() if text
        )
        return html_table(*self.table(), self.title) + lines

    def __repr__(self) -> str:
        found = self.verdict
        known = f"{counted(found.targets, 'target')}, from {counted(found.annotations, 'annotation')}"
        best = self.ranking(self.verdict.norm)[:1]
        named = f", smallest error: {best[0]!r}" if best else ""
        return f"<Evaluation: {counted(len(self.scores), 'transform')} at {known}{named}>"

    def plot(self, ax: Any = None) -> Any:
        """Draw the error of each transform with its 90 % interval, the best at the top; return the axes."""
        from warpgauge.plots import plot_intervals

        norm = self.verdict.norm
        rows = [self.scores[name] for name in self.ranking(norm)]
        lows, highs = zip(*(one.interval[norm] for one in rows), strict=True)
        label = score_head(norm, shown_units(self.verdict.units or ""))
        return plot_intervals(
            [one.name for one in rows], [one.score[norm] for one in rows], lows, highs, label=label, ax=ax
        )
