"""Candidate transforms in; scores, intervals and ranks with their probabilities out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.core.arrays import Floats, as_points
from warpgauge.core.process import Posterior
from warpgauge.core.scoring import (
    RankDistribution,
    displacement_norm,
    rank_distribution,
    sampled_scores,
    win_probabilities,
)
from warpgauge.errors import InvalidInputError, MissingExtraError


@runtime_checkable
class MapsPoints(Protocol):
    """Anything with ``map(points_world) -> points_world``, as ``read_transform`` gives."""

    def map(self, points_world: Floats) -> Floats:
        """Map (n, d) fixed world points to moving world points."""
        ...


Candidate = MapsPoints | Callable[[Floats], ArrayLike] | ArrayLike


def norm_name(p: float) -> str:
    """Name of a norm in tables: ``1``, ``2``, ``inf``."""
    return "inf" if np.isinf(p) else f"{p:g}"


@dataclass(frozen=True, eq=False)
class TransformScores:
    """Scores of one transform; dictionaries are keyed by the norm's name (``"1"``, ``"2"``, ``"inf"``).

    Attributes
    ----------
    landmark : dict
        Classical score at the annotated points; None where the transform's values there are not known.
    posterior : dict
        The paper's score against the posterior mean over the targets.
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
    """

    name: str
    landmark: dict[str, float | None]
    posterior: dict[str, float]
    interval: dict[str, tuple[float, float]]
    expected_squared_error: float
    root_expected_squared_error: float
    probability_best: dict[str, float]
    expected_rank: dict[str, float]
    rank_probabilities: dict[str, list[float]]
    outside: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What :func:`evaluate` found.

    Attributes
    ----------
    scores : dict
        :class:`TransformScores` by name.
    norms : tuple of str
    win_probability : (K, K) array
        Exact probability that the row's transform has a smaller mean squared error than the column's.
    annotations, targets, samples, seed : int
        What it was computed from.
    excluded_targets : int
        Targets left out for all because some transform is not defined there.
    """

    scores: dict[str, TransformScores]
    norms: tuple[str, ...]
    win_probability: Floats
    annotations: int
    targets: int
    samples: int
    seed: int
    excluded_targets: int

    def ranking(self, norm: str | float = "2") -> list[str]:
        """Names from best to worst by the posterior score."""
        key = norm if isinstance(norm, str) else norm_name(norm)
        if key not in self.norms:
            raise InvalidInputError(f"The evaluation has the norms {', '.join(self.norms)}, not {key}.")
        return sorted(self.scores, key=lambda name: self.scores[name].posterior[key])

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain Python values."""
        return {
            "annotations": self.annotations,
            "targets": self.targets,
            "excluded_targets": self.excluded_targets,
            "samples": self.samples,
            "seed": self.seed,
            "norms": list(self.norms),
            "ranking": {norm: self.ranking(norm) for norm in self.norms},
            "transforms": {name: dict(vars(scores)) for name, scores in self.scores.items()},
            "win_probability": {
                name: dict(zip(self.scores, row.tolist(), strict=True))
                for name, row in zip(self.scores, self.win_probability, strict=True)
            },
        }

    def to_json(self) -> str:
        """All numbers as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row a transform, in the order given."""
        rows = []
        for name, one in self.scores.items():
            row: dict[str, Any] = {"transform": name}
            for norm in self.norms:
                row[f"landmark_{norm}"] = one.landmark[norm]
                row[f"posterior_{norm}"] = one.posterior[norm]
                row[f"low_{norm}"], row[f"high_{norm}"] = one.interval[norm]
                row[f"probability_best_{norm}"] = one.probability_best[norm]
                row[f"expected_rank_{norm}"] = one.expected_rank[norm]
            row["expected_squared_error"] = one.expected_squared_error
            row["root_expected_squared_error"] = one.root_expected_squared_error
            row["outside"] = one.outside
            rows.append(row)
        return rows

    def to_dataframe(self) -> Any:
        """One row a transform, as a pandas DataFrame (needs ``warpgauge[tables]``)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError(
                'to_dataframe needs pandas; install it with: pip install "warpgauge[tables]".'
            ) from error
        return pd.DataFrame(self.rows()).set_index("transform")


def _mapped(name: str, candidate: Any, points: Floats) -> Floats:
    """Values of a candidate at points; NaN rows where it is not defined."""
    if isinstance(candidate, MapsPoints):
        values = candidate.map(points)
    elif callable(candidate):
        values = candidate(points)
    else:
        values = candidate
    array = np.asarray(values, dtype=np.float64)
    if array.shape != points.shape:
        raise InvalidInputError(
            f"Transform {name!r} must give an array of shape {points.shape} for the targets, got {array.shape}."
        )
    return array


def _landmark_values(name: str, candidate: Any, points: Floats, at_targets: Floats, fixed: Floats) -> Floats | None:
    """Values at the annotated points; for an array of mapped targets only where they are among the targets."""
    if isinstance(candidate, MapsPoints) or callable(candidate):
        return _mapped(name, candidate, fixed)
    rows = {point.tobytes(): row for row, point in enumerate(points + 0.0)}
    found = [rows.get(point.tobytes()) for point in fixed + 0.0]
    if any(row is None for row in found):
        return None
    return np.asarray(at_targets[[row for row in found if row is not None]])


def evaluate(
    posterior: Posterior,
    transforms: Mapping[str, Any],
    targets: ArrayLike,
    norms: Sequence[float] = (1, 2, np.inf),
    samples: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Score and rank transforms by what the annotations say about the true one.

    Parameters
    ----------
    posterior : Posterior
    transforms : mapping of name to transform
        Each an object with ``map``, a callable, or the (n, d) array of the targets already mapped.
    targets : (n, d) array
        Fixed points over which the error counts.
    norms : sequence of float
        The p of Eq. (p_norms).
    samples : int
        Joint posterior samples behind intervals and ranks.
    seed : int

    Returns
    -------
    Evaluation
        Targets at which some transform is not defined (NaN) are left out for all transforms, so that they are compared
        on the same points; each one's own share is in ``outside``.
    """
    points = as_points(targets, "targets", posterior.d)
    if not transforms or len(points) == 0:
        raise InvalidInputError("evaluate needs at least one transform and one target.")
    if int(samples) != samples or samples < 1:
        raise InvalidInputError(f"evaluate needs at least one sample, got {samples!r}.")
    every = np.stack([_mapped(name, one, points) for name, one in transforms.items()])
    undefined: NDArray[np.bool_] = np.asarray(np.isnan(every).any(axis=2))
    kept = ~undefined.any(axis=0)
    if not kept.any():
        raise InvalidInputError("No target lies within the domain of all transforms; check their frames and units.")
    mapped, at = every[:, kept], points[kept]
    fixed = posterior.annotations.fixed_points
    landmark_values = [
        _landmark_values(name, one, points, values, fixed)
        for (name, one), values in zip(transforms.items(), every, strict=True)
    ]
    mean = posterior.mean(at)
    mean_trace = float(posterior.d * np.mean(np.square(posterior.standard_deviation(at))))
    draws = posterior.sample(at, int(samples), seed)
    drawn = {norm_name(p): sampled_scores(draws, mapped, p) for p in norms}
    ranks = {norm: rank_distribution(scores) for norm, scores in drawn.items()}
    results = {}
    for k, name in enumerate(transforms):
        posterior_scores = {norm_name(p): displacement_norm(mapped[k] - mean, p) for p in norms}
        squared = displacement_norm(mapped[k] - mean, 2) ** 2 + mean_trace
        results[name] = TransformScores(
            name=name,
            landmark={norm_name(p): _landmark_norm(landmark_values[k], posterior, p) for p in norms},
            posterior=posterior_scores,
            interval={norm: _interval(scores[:, k]) for norm, scores in drawn.items()},
            expected_squared_error=squared,
            root_expected_squared_error=float(np.sqrt(squared)),
            probability_best={norm: float(one.best[k]) for norm, one in ranks.items()},
            expected_rank={norm: float(one.mean[k]) for norm, one in ranks.items()},
            rank_probabilities={norm: one.probabilities[k].tolist() for norm, one in ranks.items()},
            outside=float(undefined[k].mean()),
        )
    return Evaluation(
        scores=results,
        norms=tuple(norm_name(p) for p in norms),
        win_probability=win_probabilities(posterior, at, mapped),
        annotations=len(posterior.annotations),
        targets=len(at),
        samples=int(samples),
        seed=int(seed),
        excluded_targets=int((~kept).sum()),
    )


def _landmark_norm(values: Floats | None, posterior: Posterior, p: float) -> float | None:
    """Classical score over the annotated points inside the transform's domain, or None where there is none."""
    if values is None:
        return None
    lengths = np.linalg.norm(values - posterior.annotations.moving_points, axis=1)
    defined = lengths[np.isfinite(lengths)]
    return displacement_norm(defined, p) if len(defined) else None


def _interval(scores: Floats) -> tuple[float, float]:
    low, high = np.quantile(scores, [0.05, 0.95])
    return float(low), float(high)


__all__ = ["Evaluation", "RankDistribution", "TransformScores", "evaluate"]
