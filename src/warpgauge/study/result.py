"""Result of a study: one row per method, one row per case, tests, and everything as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from warpgauge._version import __version__
from warpgauge.display import Tabular, counted, number
from warpgauge.evaluation import Interval
from warpgauge.evaluation.project_evaluation import BASELINE
from warpgauge.evaluation.verdict import DECISIVE
from warpgauge.study import columns
from warpgauge.study.challenges import official_figures
from warpgauge.study.columns import CSV, TERMINAL
from warpgauge.study.description import Study
from warpgauge.study.pairs import NORM, PairOutcome
from warpgauge.study.statistics import PairedTest, hierarchical_bootstrap, paired_tests, ranks

# Share of the bootstrap rounds within an interval.
INTERVAL = 0.9
_MOST_NOTICES = 10


@dataclass(frozen=True)
class MethodResult:
    """One method over all pairs.

    ``rank`` is the final rank by ``mean_rank``, that over the pairs; equal ones share it. A missing case has the last
    rank, and costs by the study's rule. Intervals hold 90 % of the hierarchical bootstrap; ``probability_first`` and
    ``rank_probabilities`` (best first) are shares of its rounds. ``cases`` and ``missing`` count the pairs with and
    without a transform. ``official`` are figures of the challenge that the study names.
    """

    name: str
    rank: float
    mean_rank: float
    mean_score: float
    rank_interval: Interval
    score_interval: Interval
    probability_first: float
    rank_probabilities: list[float]
    cases: int
    missing: int
    official: dict[str, float]

    @property
    def rank_range(self) -> tuple[int, int]:
        """Smallest and largest final rank in 90 % of the bootstrap rounds, each tail cut at 5 %."""
        share = np.cumsum(self.rank_probabilities)
        tail = (1 - INTERVAL) / 2
        last = len(self.rank_probabilities) - 1
        low = int(np.searchsorted(share, tail, side="right"))
        high = int(np.searchsorted(share, 1 - tail - 1e-9))
        return min(low, last) + 1, min(high, last) + 1


@dataclass(frozen=True, eq=False)
class StudyResult(Tabular):
    """Result of :func:`run_study`; ``methods`` are in order, the best first.

    ``outcomes`` are all pairs that have a result, ``computed`` in this run or ``cached`` in the output folder.
    ``failed`` are pairs that could not be computed, and why; they are no part of any figure.
    """

    study: Study
    methods: tuple[MethodResult, ...]
    outcomes: tuple[PairOutcome, ...]
    computed: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)

    @cached_property
    def tests(self) -> list[PairedTest]:
        """Tests of every two methods over the pairs."""
        return paired_tests([one.name for one in self.study.methods], np.stack([one.scores for one in self.outcomes]))

    @property
    def untrusted(self) -> tuple[str, ...]:
        """Pairs whose model is overconfident."""
        return tuple(one.name for one in self.outcomes if one.verdict == "overconfident")

    @cached_property
    def groups(self) -> dict[str, StudyResult]:
        """The same over the pairs of each group, where there are several."""
        of_pair = {pair.name: pair.group for pair in self.study.pairs}
        names = sorted({name for one in self.outcomes if (name := of_pair[one.name]) is not None})
        parts = {name: [one for one in self.outcomes if of_pair[one.name] == name] for name in names}
        return {name: summarise(self.study, part) for name, part in parts.items()} if len(names) > 1 else {}

    @property
    def has_panel(self) -> bool:
        """Whether the methods were judged by references that never saw an annotation."""
        return any(one.evaluation.get("panel") for one in self.outcomes)

    def flagged(self, method: str, code: str) -> list[str]:
        """Return the pairs in which a method has a flag."""
        flags = [(one.name, flag) for one in self.outcomes for flag in one.evaluation.get("flags", [])]
        return [name for name, flag in flags if flag["transform"] == method and flag["code"] == code]

    @property
    def notices(self) -> list[str]:
        """Sentences to read before the ranking: what is flagged in each pair, transforms and annotations."""
        return [f"{one.name}: {flag['sentence']}" for one in self.outcomes for flag in one.evaluation.get("flags", [])]

    @property
    def conservative(self) -> tuple[str, ...]:
        """Methods that may have seen annotations, beside references: their scores are conservative."""
        judged = [one.evaluation["transforms"] for one in self.outcomes if one.evaluation.get("panel")]
        unvetted = {name for pair in judged for name, one in pair.items() if not one["vetted"]}
        return tuple(one.name for one in self.methods if one.name in unvetted)

    @property
    def verdict(self) -> str:
        """Pairs with an overconfident model, the first method and its probability, missing cases, conservative ones."""
        return " ".join([*self._sentences(), *self._beside_references()])

    def _sentences(self) -> Iterator[str]:
        """Yield overconfident pairs, pairs that failed, the first method and its probability, and missing cases."""
        if self.untrusted:
            yield (
                f"In {len(self.untrusted)} of {len(self.outcomes)} pairs the model is overconfident "
                f"({_some(self.untrusted)}), so be careful."
            )
        if self.failed:
            name, reason = next(iter(self.failed.items()))
            more = "; ..." if len(self.failed) > 1 else ""
            lost = f"{counted(len(self.failed), 'pair')} could not be computed and {_are(len(self.failed))} left out"
            yield f"{lost} ({name}: {reason.rstrip('.')}{more})."
        best = self.methods[0]
        pairs = counted(len(self.outcomes), "pair")
        but = "" if self.decided else ", but only"
        chance = "over 0.99" if best.probability_first > 0.99 else f"{best.probability_first:.2f}"
        rank = f"mean rank {best.mean_rank:.2f} of {len(self.methods)}"
        yield f"{best.name} is first over {pairs}{but} with probability {chance} ({rank})."
        if best.missing:
            yield f"{best.name} is incomplete: it has {best.cases} of {pairs}."
        for code, words in _DOUBTS.items():
            where = self.flagged(best.name, code)
            if where:
                yield f"{best.name} is flagged in {counted(len(where), 'pair')} ({_some(where)}): {words}."
        missing = sum(len(one.missing) for one in self.outcomes)
        if missing:
            whose = _some(sorted({name for one in self.outcomes for name in one.missing}))
            yield (
                f"{counted(missing, 'case')} of {whose} {_are(missing)} missing (a missing case has the last rank of "
                f"its pair and the score of {_MISSING_AS[self.has_panel]})."
            )
        if not self.has_panel:
            yield "Without references (reference = true), sizes depend on which methods are compared."

    def _beside_references(self) -> Iterator[str]:
        """Yield what to keep in mind where references stand beside methods whose scores are conservative."""
        careful = self.conservative
        best = self.methods[0]
        if not 0 < len(careful) < len(self.methods):
            return
        yield (
            f"{len(careful)} of {counted(len(self.methods), 'method')} may have seen annotations; beside references "
            "their scores are conservative: too large rather than too small."
        )
        if best.name not in careful and not self.decided:
            yield f"So {best.name}, a reference, can be first by mean rank and still be unlikely to be the best."

    @property
    def decided(self) -> bool:
        """Whether the first method is first with a probability of at least 0.95."""
        return self.methods[0].probability_first >= DECISIVE

    @property
    def title(self) -> str:
        """What is compared, over how many pairs."""
        return f"{self.study.name}: {self.extent}"

    @property
    def extent(self) -> str:
        """How many methods over how many pairs."""
        pairs = counted(len(self.outcomes), "pair")
        return f"{counted(len(self.methods), 'method')} over {pairs}"

    @property
    def sentences_before(self) -> list[str]:
        """What to look at before the ranking; of many, the first."""
        shown = [f"look at this: {one}" for one in self.notices[:_MOST_NOTICES]]
        more = len(self.notices) - len(shown)
        return [*shown, *([f"look at this: {more} more are in the report and in the JSON"] if more else [])]

    @property
    def sentence_after(self) -> str:
        """The verdict."""
        return self.verdict

    def __repr__(self) -> str:
        named = f"{counted(len(self.methods), 'method')}, {counted(len(self.outcomes), 'pair')}"
        return f"<StudyResult {self.study.name!r}: {named}, first: {self.methods[0].name!r}>"

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and rows of the table that `print` and ``warpgauge benchmark`` show."""
        units = [one.unit for one in columns.shown(self, TERMINAL)]
        rows = [
            [_written(unit, value) for unit, value in zip(units, row, strict=True)]
            for row in columns.cells(self, TERMINAL)
        ]
        return columns.headings(self, TERMINAL, "RMS error"), rows

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per method, best first."""
        shown = columns.shown(self, CSV)
        return [{column.key: column.value(one) for column in shown} for one in self.methods]

    @property
    def baseline(self) -> dict[str, Any] | None:
        """Mean score of the identity over the pairs, as a baseline; None if it was not scored.

        It has no rank. Where a method of the study is called ``identity``, that one is the baseline.
        """
        scores = [row["score"] for one in self.outcomes for row in self._baseline_row(one)]
        if not scores:
            return None
        return {"method": BASELINE, "mean_score": float(np.mean(scores)), "cases": len(scores)}

    def case_rows(self) -> list[dict[str, Any]]:
        """One flat row per pair and method, and one for the identity, which has no rank."""
        rows = []
        for outcome in self.outcomes:
            absent = [method in outcome.missing for method in outcome.methods]
            in_case = ranks(np.where(absent, np.nan, outcome.scores)).tolist()
            ends = np.quantile(outcome.draws, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2], axis=0).T.tolist()
            for k, method in enumerate(outcome.methods):
                scored = (float(outcome.scores[k]), *ends[k])
                rows.append(self._case(outcome, method, scored, in_case[k], outcome.landmark_errors[method]))
            rows += self._baseline_row(outcome)
        return rows

    def _baseline_row(self, outcome: PairOutcome) -> list[dict[str, Any]]:
        """Return the row of the identity on a pair, without a rank, where no method has its name."""
        found = outcome.evaluation.get("transforms", {}).get(BASELINE)
        if BASELINE in outcome.methods or found is None:
            return []
        scored = (found["score"][NORM], *found["interval"][NORM])
        return [self._case(outcome, BASELINE, scored, None, outcome.initial_error)]

    def _case(
        self, outcome: PairOutcome, method: str, scored: tuple[Any, ...], rank: float | None, error: float
    ) -> dict[str, Any]:
        """Return the row of a method on a pair, from its score with its interval, and its error at the landmarks."""
        score, low, high = scored
        return {
            "pair": outcome.name,
            "method": method,
            "missing": outcome.missing.get(method),
            "score": score,
            "low": low,
            "high": high,
            "rank": rank,
            "landmark_mean": error,
            "calibration": outcome.verdict,
            "official": outcome.official.get(method, {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain Python values."""
        return {
            "study": self.study.name,
            "program": __version__,
            "verdict": self.verdict,
            "settings": self.study.settings.model_dump(),
            "methods": [asdict(one) for one in self.methods],
            "baseline": self.baseline,
            "cases": self.case_rows(),
            "failed": self.failed,
            "groups": {name: [asdict(one) for one in part.methods] for name, part in self.groups.items()},
            "tests": [asdict(one) for one in self.tests],
            "pairs": [
                {"name": one.name, "calibration": one.verdict, "sentence": one.sentence, "evaluation": one.evaluation}
                for one in self.outcomes
            ],
        }

    def to_json(self) -> str:
        """All numbers as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)


def _written(unit: str, value: Any) -> str:
    """Return a cell of the terminal's table."""
    if value is None or isinstance(value, str):
        return value or "-"
    if unit == "range":
        return f"{number(value[0])} to {number(value[1])}"
    if unit == "probability":
        return f"{value:.3f}"
    return number(value)


# What an absent case costs, by whether the study has a panel.
_MISSING_AS = {
    True: "no registration or of the worst reference, whichever is worse",
    False: "no registration or of the worst method there, whichever is worse",
}
# Flags with which no method is first without a word.
_DOUBTS = {
    "leak": "it has seen annotations; do not rely on its rank",
    "too_good": "it fits the annotations better than their own uncertainty allows; do not rely on its rank",
    "undefined": "it is not defined at some of the targets, which count against it",
    "untested": "it is not defined where annotations would test it; do not rely on its rank",
    "late": "it was added after sealed answers were opened, or changed, so that nobody knows what it has seen",
    **dict.fromkeys(("misread", "worse", "outside", "normalised", "still"), "it may be misread; see the notices"),
}


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"


def summarise(
    study: Study,
    outcomes: Sequence[PairOutcome],
    computed: Sequence[str] = (),
    cached: Sequence[str] = (),
    failed: Mapping[str, str] | None = None,
) -> StudyResult:
    """Bring the pairs together: bootstrap, ranks and official figures."""
    names = [method.name for method in study.methods]
    scores = np.stack([one.scores for one in outcomes])
    missing = np.array([[name in one.missing for name in names] for one in outcomes])
    settings = study.settings
    boot = hierarchical_bootstrap([one.draws for one in outcomes], settings.bootstrap, settings.seed, missing)
    mean_ranks = ranks(np.where(missing, np.nan, scores)).mean(axis=0)
    final = ranks(mean_ranks)
    methods = []
    for k, name in enumerate(names):
        absent = int(missing[:, k].sum())
        methods.append(
            MethodResult(
                name=name,
                rank=float(final[k]),
                mean_rank=float(mean_ranks[k]),
                mean_score=float(scores[:, k].mean()),
                rank_interval=Interval.of(boot.mean_ranks[:, k]),
                score_interval=Interval.of(boot.scores[:, k]),
                probability_first=float(boot.first[k]),
                rank_probabilities=boot.rank_probabilities[k].tolist(),
                cases=len(outcomes) - absent,
                missing=absent,
                official=official_figures(settings.challenge, [one.official.get(name, {}) for one in outcomes]),
            )
        )
    return StudyResult(
        study=study,
        methods=tuple(sorted(methods, key=lambda one: one.mean_rank)),
        outcomes=tuple(outcomes),
        computed=tuple(computed),
        cached=tuple(cached),
        failed=dict(failed or {}),
    )
