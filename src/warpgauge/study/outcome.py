"""The outcome of one pair of a study, put together from what is said of each method."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.evaluation.result import summaries
from warpgauge.study.challenge_figures import Figures as OfficialFigures

NOTHING = np.zeros(0)


@dataclass(frozen=True, eq=False)
class PairOutcome:
    """Result of one pair.

    Attributes
    ----------
    name : str
    methods : tuple of str
        All methods of the study.
    missing : dict
        Methods without a usable transform, and why.
    draws : (S, K) array
        Posterior draws of the study's score; those of a missing method are what its absence costs.
    scores : (K,) array
        The score; of a missing method, what its absence costs.
    landmark_errors : dict
        Classical errors of each method at the annotated points; what it costs where it is undefined or missing.
    initial_errors : list of float
        The same without registration (the identity).
    diagonal : float or None
    verdict, sentence : str
        Of the calibration.
    evaluation : dict
        Everything else, as :meth:`warpgauge.evaluation.Evaluation.to_dict` returns it; the identity is among its
        transforms.
    official : dict
        A challenge's own figures of each method, where the study names one.
    """

    name: str
    methods: tuple[str, ...]
    missing: dict[str, str]
    draws: Floats
    scores: Floats
    landmark_errors: dict[str, list[float]]
    initial_errors: list[float]
    diagonal: float | None
    verdict: str
    sentence: str
    evaluation: dict[str, Any] = field(default_factory=dict)
    official: dict[str, OfficialFigures] = field(default_factory=dict)

    @cached_property
    def landmark_figures(self) -> dict[str, tuple[float, float]]:
        """Mean and 90th percentile of each method's errors at the annotated points; empty without any."""
        if not any(self.landmark_errors.values()):
            return {}
        found = summaries(np.array(list(self.landmark_errors.values())))
        both = zip(found["mean"].tolist(), found["p90"].tolist(), strict=True)
        return dict(zip(self.landmark_errors, both, strict=True))


@dataclass(frozen=True, eq=False)
class Figures:
    """What is said of one method on a pair; where it is missing, nothing but why and a challenge's own figures.

    Attributes
    ----------
    missing : str or None
        Why it has no usable transform.
    draws : (S,) array
        Posterior draws of the study's score.
    score : float
    errors : list of float
        At the annotated points; what absence costs where it is undefined.
    official : dict
    about : dict
        ``transforms``, ``read_as`` and ``flags`` of an evaluation, of this method alone.
    """

    missing: str | None
    draws: Floats = field(default_factory=lambda: NOTHING)
    score: float = 0.0
    errors: list[float] = field(default_factory=list)
    official: OfficialFigures = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Ground:
    """What a pair says beside its methods, and what a missing one costs; fields as of `PairOutcome`.

    ``cost_draws``, ``cost`` and ``worst`` count for a method that is missing.
    """

    cost_draws: Floats
    cost: float
    worst: list[float]
    initial_errors: list[float]
    diagonal: float | None
    verdict: str
    sentence: str
    evaluation: dict[str, Any]


def joined(pair: str, ground: Ground, methods: Mapping[str, Figures]) -> PairOutcome:
    """Return the outcome of a pair from what is said of each method."""
    missing = {name: one.missing for name, one in methods.items() if one.missing is not None}
    about = {key: copy(entry) for key, entry in ground.evaluation.items()}
    for name, one in methods.items():
        for key, entry in one.about.items():
            if isinstance(entry, list):
                about.setdefault(key, []).extend(entry)
            else:
                about.setdefault(key, {})[name] = entry
    return PairOutcome(
        pair,
        tuple(methods),
        missing,
        np.stack([ground.cost_draws if name in missing else one.draws for name, one in methods.items()], axis=1),
        np.array([ground.cost if name in missing else one.score for name, one in methods.items()]),
        {name: list(ground.worst) if name in missing else one.errors for name, one in methods.items()},
        ground.initial_errors,
        ground.diagonal,
        ground.verdict,
        ground.sentence,
        about,
        {name: one.official for name, one in methods.items()},
    )
