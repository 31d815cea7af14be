"""The interface of models of the truth: everything that `evaluate` needs from them.

It is implemented by the paper's `Posterior`, which knows the annotations only, and by the `Judge`, which
knows the transforms to be judged as well. Nobody asks which of the two it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from numpy.typing import ArrayLike

from warpgauge.core.annotation_budget import FurtherAnnotations
from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.core.judgement import Flag, Judgement
from warpgauge.core.sensitivity import Sensitivity


class Truth(Protocol):
    """What the true transformation may be.

    Points are (n, d) fixed world points; ``mapped`` is (K, n, d), their images under the K transforms to be judged.
    """

    @property
    def d(self) -> int:
        """Dimension."""
        ...

    @property
    def annotations(self) -> Annotations:
        """What it is known from."""
        ...

    @property
    def candidate_weights(self) -> dict[str, float] | None:
        """Weight of each transform in the model of the truth; None where it knows the annotations only."""
        ...

    @property
    def flags(self) -> tuple[Flag, ...]:
        """What a person should look at before any ranking: suspicious transforms and annotations."""
        ...

    def without_flagged(self) -> Truth | None:
        """Return what the truth may be without the annotations that are flagged; None where none is."""
        ...

    def mean(self, points: ArrayLike) -> Floats:
        """Return the expected true matches of (n, d) points."""
        ...

    def sample(self, points: ArrayLike, count: int, seed: int = 0) -> Floats:
        """Draw joint samples of the true matches, (count, n, d)."""
        ...

    def judgement(
        self, points: Floats, mapped: Floats, norms: Sequence[float], draws: Mapping[str, Floats]
    ) -> Judgement:
        """Score the transforms, compare each with each, and put them in order.

        ``draws`` holds (samples, K) draws of each norm (``"norm 2"``) and statistic (``"rms"``) of the true error.
        """
        ...

    def expected_errors(self, points: Floats, mapped: Floats) -> Floats:
        """Error to be expected of each transform at every point, (K, n)."""
        ...

    def further(
        self,
        judgement: Judgement,
        points: Floats,
        mapped: Floats,
        *,
        cap: int,
        samples: int,
        seed: int = 0,
        candidates: ArrayLike | None = None,
    ) -> FurtherAnnotations:
        """Estimate how many more annotations would decide the ranking."""
        ...

    def sensitivity(self, names: Sequence[str], points: Floats, mapped: Floats, *, factor: float) -> Sensitivity:
        """Rank again under changed assumptions."""
        ...
