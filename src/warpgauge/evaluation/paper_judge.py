"""`PaperJudge`: the paper's way of judging transforms, by a posterior that knows the annotations only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Bools, Floats
from warpgauge.core.error_scores import ascending, displacement_norm, mean_squared_errors, norm_name, win_probabilities
from warpgauge.core.process import Posterior
from warpgauge.display import counted
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.flags import Flag
from warpgauge.evaluation.truth import Judgement, Truth, TruthDraws

# Comparing each transform with each takes all pairs of points; a random part of so many serves for more.
_MOST_POINTS = 4000


@dataclass(frozen=True, eq=False)
class PaperJudge:
    """A posterior as the model of the truth: scores are distances from its mean, win probabilities are exact.

    It knows no transforms, so it has no weights for them and finds no annotation that they contradict.
    """

    posterior: Posterior

    def __repr__(self) -> str:
        return f"<PaperJudge: {self.d}D, from {counted(len(self.annotations), 'annotation')}>"

    @property
    def d(self) -> int:
        """Dimension."""
        return self.posterior.d

    @property
    def annotations(self) -> Annotations:
        """The annotations that the posterior knows."""
        return self.posterior.annotations

    @property
    def candidate_weights(self) -> None:
        """None: transforms are no part of this model."""
        return

    @property
    def panel(self) -> tuple[str, ...]:
        """Empty: transforms are no part of this model."""
        return ()

    @property
    def vetted(self) -> frozenset[str]:
        """Empty: transforms are not tested."""
        return frozenset()

    @property
    def disqualified(self) -> frozenset[str]:
        """Empty: transforms are not tested."""
        return frozenset()

    @property
    def flags(self) -> tuple[Flag, ...]:
        """None: there are no transforms to compare the annotations with."""
        return ()

    def compared(self, transforms: Mapping[str, object], targets: ArrayLike) -> Comparison:
        """Return the comparison of transforms over targets."""
        return Comparison.of(transforms, targets, self.posterior)

    def without_flagged(self) -> None:
        """Return None: no annotation is flagged."""
        return

    def mean(self, points: ArrayLike) -> Floats:
        """Return the expected true matches of (n, d) points."""
        return self.posterior.mean(points)

    def mean_over(self, comparison: Comparison) -> Floats:
        """Return the expected true matches of a comparison's targets, (n, d)."""
        return self.posterior.mean(comparison.targets)

    def sample(self, points: ArrayLike, count: int, seed: int = 0) -> Floats:
        """Draw joint samples of the true matches of (n, d) points, (count, n, d)."""
        return self.posterior.sample(points, count, seed)

    def sample_over(self, comparison: Comparison, count: int, seed: int = 0) -> Floats:
        """Draw joint samples of the true matches of a comparison's targets, (count, n, d)."""
        return self.posterior.sample(comparison.targets, count, seed)

    def draws_over(self, comparison: Comparison, count: int, seed: int = 0) -> tuple[TruthDraws, TruthDraws]:
        """Draw the truth at a comparison's targets; the paper knows no failure that nobody met."""
        samples = self.sample_over(comparison, count, seed)
        found = TruthDraws(comparison, samples, np.zeros((count, len(comparison.targets)), dtype=bool))
        return found, found

    def comparable(self, names: Iterable[str]) -> Bools:
        """Return that all are: there is one model."""
        return np.ones(len(list(names)), dtype=bool)

    def judgement(
        self, comparison: Comparison, norms: Sequence[float], draws: Mapping[str, Floats], calls: Floats, sound: Bools
    ) -> Judgement:
        """Judge by distances from the posterior mean, Eq. (target_set_displacements_on_annotations).

        The draws are not used.
        """
        errors = comparison.counted - self.posterior.mean(comparison.targets)
        scores = {norm_name(p): np.array([displacement_norm(one, p) for one in errors]) for p in norms}
        squared = mean_squared_errors(errors)
        trace = self.d * np.mean(np.square(self.posterior.standard_deviation(comparison.targets)))
        part = comparison.part(_MOST_POINTS, 0)
        win = win_probabilities(self.posterior, part.targets, part.counted)
        return Judgement(scores, squared + trace, win, ascending(squared))

    def expected_errors(self, comparison: Comparison) -> Floats:
        """Distance of each transform from the posterior mean at every target, (K, n)."""
        return np.asarray(np.linalg.norm(comparison.counted - self.posterior.mean(comparison.targets), axis=2))


def as_truth(model: Truth | Posterior) -> Truth:
    """Return the model of the truth that is meant: with a posterior, transforms are judged as in the paper."""
    return PaperJudge(model) if isinstance(model, Posterior) else model
