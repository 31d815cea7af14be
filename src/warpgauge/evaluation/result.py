"""Result of an evaluation, as values, rows and JSON, and the summaries of errors over the targets that it holds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from warpgauge.core.annotation_budget import FurtherAnnotations
from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.error_scores import norm_name
from warpgauge.core.process import Posterior
from warpgauge.display import Tabular, counted
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import columns, sentences
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.diagnostics import Trust
from warpgauge.evaluation.flags import EXCLUDED, LEAK, Flag
from warpgauge.evaluation.regularity import Regularity
from warpgauge.evaluation.truth import Truth
from warpgauge.evaluation.verdict import Verdict
from warpgauge.io.transforms import Transform

# What users call them; the first, second and fifth are the norms 1, 2 and infinity.
STATISTICS = ("mean", "rms", "median", "p90", "max")
RELATIVE = ("relative_mean", "relative_median", "relative_max")
INTERVAL_LEVEL = 0.90


@dataclass(frozen=True)
class Interval:
    """Mean, median and central credible interval of one number over posterior samples."""

    mean: float
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, draws: Floats, sound: Bools | None = None, level: float = INTERVAL_LEVEL) -> Interval:
        """Summarise draws of a number; the median is that of the sound ones, in which nothing has failed unseen."""
        tail = (1 - level) / 2
        low, high = np.quantile(draws, [tail, 1 - tail])
        median = np.median(draws if sound is None else draws[sound])
        return cls(float(np.mean(draws)), float(median), float(low), float(high))


def summaries(lengths: Floats, tolerance: float | None = None, diagonal: float | None = None) -> dict[str, Floats]:
    """Summaries of error lengths over the last axis.

    ``mean``, ``rms``, ``median``, ``p90`` (90th percentile, linear between order statistics) and ``max``, in world
    units; with a tolerance ``above_tolerance``, the share of lengths strictly above it; with a diagonal
    ``relative_mean``, ``relative_median`` and ``relative_max``, divided by it.
    """
    middle, high = np.quantile(lengths, [0.5, 0.9], axis=-1)
    result = {
        "mean": np.asarray(lengths.mean(axis=-1)),
        "rms": np.asarray(np.sqrt(np.mean(np.square(lengths), axis=-1))),
        "median": np.asarray(middle),
        "p90": np.asarray(high),
        "max": np.asarray(lengths.max(axis=-1)),
    }
    if tolerance is not None:
        result["above_tolerance"] = np.asarray(np.mean(lengths > tolerance, axis=-1))
    if diagonal is not None:
        result.update({name: np.asarray(result[name.removeprefix("relative_")] / diagonal) for name in RELATIVE})
    return result


def positive(value: float | None, name: str) -> float | None:
    """Check an optional positive number."""
    if value is not None and not (np.isfinite(value) and value > 0):
        raise InvalidInputError(f"{name} must be a positive number of world units, got {value!r}.")
    return None if value is None else float(value)


@dataclass(frozen=True, eq=False)
class TransformScores:
    """Scores of one transform; the first dictionaries are keyed by the norm's name (``"1"``, ``"2"``, ``"inf"``).

    Attributes
    ----------
    landmark : dict
        Classical score at the annotated points; None where the transform's values there are not known.
    score : dict
        The score that ranks: by a judge the median of the true error over its samples; by the paper's posterior the
        distance from its mean over the targets.
    interval : dict
        Central 90 % credible interval of the true score.
    expected_squared_error, root_expected_squared_error : float
        Posterior expectation of the mean squared error over the targets, and its root.
    probability_best, expected_rank : dict
        Over posterior samples.
    rank_probabilities : dict
        Probability of each rank, best first.
    outside : float
        Share of the targets outside the transform's domain.
    vetted : bool
        Whether it cannot have seen the annotations: a reference of the panel, or one that passed the leak test.
    statistics : dict of Interval
        Over joint posterior samples: ``mean``, ``rms``, ``median``, ``p90``, ``max`` of the error over the targets,
        ``above_tolerance`` where a tolerance was given, ``relative_mean``, ``relative_median`` and ``relative_max``
        where a diagonal was.
    landmark_statistics : dict or None
        The same numbers at the annotated points alone, the classical way; None as for ``landmark``.
    regularity : Regularity or None
        None where it was not asked for, or cannot be computed from mapped points alone.
    flags : tuple of warpgauge.evaluation.Flag
        What a person should look at before reading these scores.
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
    statistics: dict[str, Interval] = field(default_factory=dict)
    landmark_statistics: dict[str, float] | None = None
    regularity: Regularity | None = None
    flags: tuple[Flag, ...] = ()
    vetted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain Python values."""
        return {**asdict(self), "flags": [one.to_dict() for one in self.flags]}


@dataclass(frozen=True, eq=False)
class Evaluation(Tabular):
    """Result of :func:`warpgauge.evaluate`.

    Attributes
    ----------
    comparison : Comparison
        What was compared: the transforms with their values, the targets, and the posterior.
    judged_by : Truth
        The model of the truth that the scores were made with.
    scores : dict
        :class:`TransformScores` by name.
    norms : tuple of str
    win_probability : (K, K) array
        Probability that the row's transform has a smaller mean squared error than the column's: exact by a posterior,
        from samples by an average.
    verdict : Verdict
        What they say: codes and numbers, and as text the sentence.
    known : (n,) array of bool
        Targets that the annotations inform.
    excluded : (m, d) array
        Targets, of at most 1000 that were looked at, where the annotations exclude every method; none where they are so
        few that no flag names them.
    seed : int
        Of the samples.
    tolerance, diagonal : float or None
        As given, in world units.
    candidate_weights : dict or None
        By a judge: weight of each transform in the median about which the truth is modelled. None by a posterior.
    sampled_targets : int
        Number of targets that each sample was drawn at.
    without_flagged : Evaluation or None
        The same without the annotations that are flagged as gross errors; None where none is.
    draws : dict
        Posterior draws (samples, K) of each norm (under ``"norm 2"`` and so on) and of each statistic.
    trust : Trust or None
        Calibration of the model; None where it was not asked for.
    """

    comparison: Comparison = field(repr=False)
    judged_by: Truth = field(repr=False)
    scores: dict[str, TransformScores]
    norms: tuple[str, ...]
    win_probability: Floats
    verdict: Verdict
    known: Bools = field(repr=False)
    excluded: Floats = field(repr=False)
    seed: int
    tolerance: float | None = None
    diagonal: float | None = None
    candidate_weights: dict[str, float] | None = None
    sampled_targets: int = 0
    without_flagged: Evaluation | None = None
    draws: dict[str, Floats] = field(default_factory=dict, repr=False)
    trust: Trust | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was compared and the model: functions among the transforms cannot be pickled.

        Numbers, tables and verdict are kept.
        """
        return {**self.__dict__, "comparison": None, "judged_by": None}

    def trusted(self, trust: Trust) -> Evaluation:
        """Return the evaluation with what is known of its model."""
        return replace(self, trust=trust, verdict=self.verdict.with_trust(trust))

    @property
    def posterior(self) -> Posterior:
        """What the annotations alone say: for maps and calibration."""
        return self.comparison.posterior

    @property
    def transforms(self) -> dict[str, Transform]:
        """All transforms that were judged, the baseline among them."""
        return dict(self.comparison.transforms)

    @property
    def problems(self) -> dict[str, str]:
        """Transforms that could not be read, and why."""
        return {} if self.comparison is None else dict(self.comparison.problems)

    @property
    def region(self) -> str:
        """What the targets stand for, in words: "the foreground of the fixed image"; empty where not stated."""
        return "" if self.verdict.region is None else self.verdict.region.words

    @property
    def target_sentence(self) -> str:
        """What errors are averaged over, in a sentence."""
        return sentences.targets(self.verdict)

    @property
    def annotations(self) -> int:
        """Number of annotations behind it."""
        return self.verdict.counts["annotations"]

    @property
    def targets(self) -> int:
        """Number of targets that errors count over."""
        return self.verdict.counts["targets"]

    @property
    def samples(self) -> int:
        """Number of posterior samples."""
        return self.verdict.counts["samples"]

    @property
    def tied(self) -> list[list[str]]:
        """The ranking by the 2-norm in groups.

        A transform is in the group of a better one that does not beat it with probability 0.95 or more, or by more
        than the margin.
        """
        return [list(group) for group in self.verdict.groups]

    @property
    def further(self) -> FurtherAnnotations | None:
        """How many more annotations would decide; None where nothing is undecided or it was not asked for."""
        return self.verdict.further

    @property
    def units(self) -> str | None:
        """World unit, where it is known."""
        return self.verdict.units

    @property
    def baseline(self) -> str | None:
        """Name of the transform that does nothing, where it is among them."""
        return self.verdict.baseline

    @property
    def margin(self) -> float:
        """Smallest difference of two scores that matters, in world units."""
        return self.verdict.margin

    @property
    def flags(self) -> tuple[Flag, ...]:
        """What to look at before any ranking: transforms that fit too well, annotations that are probably wrong."""
        return self.verdict.flags

    @property
    def notices(self) -> list[str]:
        """Sentences to read before the verdict: every flag, and the verdict without flagged annotations."""
        found = [flag.sentence for flag in self.flags if flag.code != EXCLUDED]  # the verdict itself tells of those
        rows = [flag.row for flag in self.flags if flag.row is not None]
        if rows and self.without_flagged is not None:
            found.append(sentences.without(rows, self.without_flagged.verdict))
        return found

    def ranking(self, norm: str | float = columns.PRIMARY) -> list[str]:
        """Names from best to worst by the score.

        Transforms that the leak test found to have seen annotations are left out.
        """
        key = norm if isinstance(norm, str) else norm_name(norm)
        if key not in self.norms:
            raise InvalidInputError(f"The evaluation has the norms {', '.join(self.norms)}, not {key}.")
        leaked = {flag.transform for flag in self.flags if flag.code == LEAK}
        ranked = [name for name in self.scores if name not in leaked]
        return sorted(ranked, key=lambda name: self.scores[name].score[key])

    def probability_below(self, name: str, value: float, statistic: str = "rms") -> float:
        """Posterior probability that a statistic of a transform's true error is at most ``value``.

        Parameters
        ----------
        name : str
            Of the transform.
        value : float
            In the statistic's own unit.
        statistic : str
            ``mean``, ``rms``, ``median``, ``p90``, ``max``, or another that the evaluation has.
        """
        if name not in self.scores:
            raise InvalidInputError(f"There is no transform {name!r}; there are {', '.join(self.scores)}.")
        if statistic not in self.draws:
            raise InvalidInputError(f"There is no statistic {statistic!r}; there are {', '.join(self.draws)}.")
        return float(np.mean(self.draws[statistic][:, list(self.scores).index(name)] <= value))

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain Python values (not the draws)."""
        found = {
            "verdict": str(self.verdict),
            **self.verdict.to_dict(),
            "annotations": self.annotations,
            "targets": self.targets,
            "samples": self.samples,
            "seed": self.seed,
            "tolerance": self.tolerance,
            "diagonal": self.diagonal,
            "norms": list(self.norms),
            "ranking": {norm: self.ranking(norm) for norm in self.norms},
            "tied": self.tied,
            "units": self.units,
            "baseline": self.baseline,
            "margin": self.margin,
            "flags": [one.to_dict() for one in self.flags],
            "sampled_targets": self.sampled_targets,
            "without_flagged": None if self.without_flagged is None else self.without_flagged.to_dict(),
            "further_annotations": None if self.further is None else asdict(self.further),
            "candidate_weights": self.candidate_weights,
            "transforms": {name: scores.to_dict() for name, scores in self.scores.items()},
            "rows": columns.cells(self, columns.JSON),
            "win_probability": {
                name: dict(zip(self.scores, row.tolist(), strict=True))
                for name, row in zip(self.scores, self.win_probability, strict=True)
            },
        }
        if self.verdict.region is not None:
            found |= {
                "target_set": {"region": self.region, "sentence": self.target_sentence},
                "units": self.units or "px",
                "unreadable": self.problems,
                "trust": None if self.trust is None else self.trust.sentence,
            }
        return found

    def to_json(self) -> str:
        """All numbers as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @property
    def norm(self) -> str:
        """The norm that is shown: the root mean square where there is one, otherwise the first."""
        return columns.shown_norm(self.norms)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per transform, in the order given."""
        return columns.cells(self, columns.CSV)

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and rows of the table that `print` and the command line show, the best transform first."""
        shown = columns.shown(self, columns.TERMINAL)
        rows = [[columns.written(one.unit, one.value(row)) for one in shown] for row in columns.standing(self)]
        return columns.headings(self, columns.TERMINAL), rows

    @property
    def title(self) -> str:
        """What the errors are, over how many targets and from how many annotations."""
        return sentences.title(self.verdict)

    @property
    def sentences_before(self) -> list[str]:
        """What to look at before any score, and whether the model can be trusted."""
        notices = [f"look at this: {one}" for one in self.notices]
        return notices if self.trust is None else [*notices, self.trust.sentence]

    @property
    def sentence_after(self) -> str:
        """The verdict."""
        return self.verdict.whole

    def __repr__(self) -> str:
        known = f"{counted(self.targets, 'target')}, from {counted(self.annotations, 'annotation')}"
        best = self.ranking(self.norm)[:1]
        named = f", smallest error: {best[0]!r}" if best else ""
        return f"<Evaluation: {counted(len(self.scores), 'transform')} at {known}{named}>"

    def plot(self, ax: Any = None) -> Any:
        """Draw the RMS error of each transform with its 90 % interval, the best at the top; return the axes."""
        from warpgauge.plots import plot_intervals

        rows = sorted(self.rows(), key=lambda one: one["rms"])
        label = f"RMS error{f' in {self.units}' if self.units else ''}"
        values = ([row[key] for row in rows] for key in ("rms", "rms_low", "rms_high"))
        return plot_intervals([row["transform"] for row in rows], *values, label=label, ax=ax)
