"""`Truth`: what `evaluate` needs from a model of the true transformation.

`Judge` knows the annotations and the transforms to be judged, `PaperJudge` the annotations only. Nothing else asks
which of the two it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Bools, Floats
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.flags import Flag


@dataclass(frozen=True, eq=False)
class Judgement:
    """Scores and win probabilities that rank the transforms.

    Attributes
    ----------
    scores : dict
        (K,) point scores by the norm's name.
    squared : (K,) array
        Expected mean squared error over the targets.
    win : (K, K) array
        Probability that the row's transform has a smaller mean squared error than the column's.
    order : list of int
        Best first, by the mean squared error.
    """

    scores: dict[str, Floats]
    squared: Floats
    win: Floats
    order: list[int]


@dataclass(frozen=True, eq=False)
class TruthDraws:
    """Joint draws of the truth at the targets of a comparison, and the errors of its transforms in them.

    Attributes
    ----------
    comparison : Comparison
    samples : (S, n, d) array
        True matches.
    failed : (S, n) array of bool
        Where failures that no annotation met lie in each draw; nowhere in about half of them.
    failure : (n,) array
        What a failure adds to a squared error at each target.
    """

    comparison: Comparison
    samples: Floats
    failed: Bools
    failure: Floats | float = 0.0

    def lengths(self, k: int) -> tuple[Floats, Floats]:
        """Return the errors (S, n) of transform k, heard and unheard; one array where there is no difference.

        Heard, its residuals at the annotations say how near it is to the truth. Unheard, they do not count.
        """
        found = self.lengths_of(self.squares(self.samples, k))
        return found, found

    def squares(self, samples: Floats, k: int) -> Floats:
        """Return the squared distances (S, n) of transform k from draws of the truth."""
        return np.asarray(np.square(samples - self.comparison.counted[k]).sum(axis=2))

    def lengths_of(self, squares: Floats) -> Floats:
        """Return the errors (S, n) of squared distances, with the failures that nobody met."""
        return np.asarray(np.sqrt(squares + self.failure * self.failed))

    @property
    def sound(self) -> Bools:
        """Draws in which nothing has failed unseen, (S,): those that say how large an error most likely is."""
        found = ~self.failed.any(axis=1)
        return np.asarray(found if found.any() else ~found)


class Truth(Protocol):
    """A model of the true transformation; comparisons are over targets that all transforms map."""

    @property
    def d(self) -> int:
        """Dimension."""
        ...

    @property
    def annotations(self) -> Annotations:
        """The annotations that the model knows."""
        ...

    @property
    def candidate_weights(self) -> dict[str, float] | None:
        """Weight of each transform in the model of the truth; None where it knows the annotations only."""
        ...

    @property
    def panel(self) -> tuple[str, ...]:
        """References that the model rests on; empty where it rests on all transforms, or on none."""
        ...

    @property
    def vetted(self) -> frozenset[str]:
        """Transforms that cannot have seen the annotations."""
        ...

    @property
    def disqualified(self) -> frozenset[str]:
        """Transforms that have seen annotations, by the leak test: they are scored and not ranked."""
        ...

    @property
    def flags(self) -> tuple[Flag, ...]:
        """Suspicious transforms and annotations, to check before you read a ranking."""
        ...

    def compared(self, transforms: Mapping[str, object], targets: ArrayLike) -> Comparison:
        """Return the comparison of transforms over targets, with what this model knows of them already."""
        ...

    def without_flagged(self) -> Truth | None:
        """Return what the truth may be without the annotations that are flagged; None where none is."""
        ...

    def mean(self, points: ArrayLike) -> Floats:
        """Return the expected true matches of (n, d) points."""
        ...

    def mean_over(self, comparison: Comparison) -> Floats:
        """Return the expected true matches of a comparison's targets, (n, d)."""
        ...

    def sample(self, points: ArrayLike, count: int, seed: int = 0) -> Floats:
        """Draw joint samples of the true matches of (n, d) points, (count, n, d)."""
        ...

    def sample_over(self, comparison: Comparison, count: int, seed: int = 0) -> Floats:
        """Draw joint samples of the true matches of a comparison's targets, (count, n, d)."""
        ...

    def draws_over(self, comparison: Comparison, count: int, seed: int = 0) -> tuple[TruthDraws, TruthDraws]:
        """Draw the truth at a comparison's targets, for the sizes of errors and for which transform is better."""
        ...

    def comparable(self, names: Iterable[str]) -> Bools:
        """Return which of some transforms the draws for calls may compare; others are compared by those for sizes."""
        ...

    def judgement(
        self, comparison: Comparison, norms: Sequence[float], draws: Mapping[str, Floats], calls: Floats, sound: Bools
    ) -> Judgement:
        """Score the transforms, compare each with each, and put them in order.

        ``draws`` holds (samples, K) draws of each norm (``"norm 2"``) and statistic (``"rms"``) of the true error for
        its size, ``calls`` those of the root mean square for which is better, ``sound`` in which of them nothing has
        failed unseen.
        """
        ...

    def expected_errors(self, comparison: Comparison) -> Floats:
        """Error to be expected of each transform at every target, (K, n)."""
        ...
