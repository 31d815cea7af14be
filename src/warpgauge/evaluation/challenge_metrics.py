"""Classical metrics under the names used by challenges, each with its definition.

All take lengths of errors at landmarks: no model, no uncertainty. Where a definition was found, and how sure it is, is
in ``docs/evaluation.md``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning


def target_registration_errors(mapped_points: ArrayLike, moving_points: ArrayLike) -> Floats:
    """TRE: Euclidean distance of each mapped landmark from its match, in world units."""
    mapped, moving = np.asarray(mapped_points, dtype=np.float64), np.asarray(moving_points, dtype=np.float64)
    if mapped.shape != moving.shape or mapped.ndim != 2 or len(mapped) == 0:
        raise InvalidInputError(
            f"TRE needs two (n, d) arrays of the same landmarks, got shapes {mapped.shape} and {moving.shape}."
        )
    return np.asarray(np.linalg.norm(mapped - moving, axis=1))


def _lengths(values: ArrayLike, what: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all() or (array < 0).any():
        raise InvalidInputError(f"{what} must be one or more finite lengths of at least 0.")
    return array


@dataclass(frozen=True)
class AnhirCase:
    """ANHIR's numbers of one image pair.

    Attributes
    ----------
    average, median, maximum : float
        Of rTRE = TRE / image diagonal over the landmarks of the pair.
    robustness : float or None
        Share of the landmarks whose rTRE is strictly smaller than before registration.
    """

    average: float
    median: float
    maximum: float
    robustness: float | None


def anhir_case(errors: ArrayLike, diagonal: float, initial: ArrayLike | None = None) -> AnhirCase:
    """ANHIR's rTRE of one pair: TRE divided by the diagonal ``sqrt(w^2 + h^2)`` of the image, and the robustness.

    Parameters
    ----------
    errors, initial : (n,) array
        TRE of each landmark after, and before, registration.
    diagonal : float
        Of the image, in the unit of the errors.
    """
    after = _lengths(errors, "errors")
    if not diagonal > 0:
        raise InvalidInputError(f"The image diagonal must be positive, got {diagonal!r}.")
    share = None
    if initial is not None:
        before = _lengths(initial, "initial")
        if before.shape != after.shape:
            raise InvalidInputError(f"There are {len(after)} errors but {len(before)} initial ones; give one for each.")
        share = float(np.mean(after < before))
    relative = after / diagonal
    return AnhirCase(float(relative.mean()), float(np.median(relative)), float(relative.max()), share)


@dataclass(frozen=True)
class Anhir:
    """ANHIR's aggregates over pairs: the first letter is the aggregate over pairs, the second the one over landmarks.

    Attributes
    ----------
    AArTRE, MArTRE : float
        Average and median over pairs of the average rTRE.
    AMrTRE, MMrTRE : float
        Average and median over pairs of the median rTRE; the first is the challenge's main figure.
    AMxrTRE, MMxrTRE : float
        Average and median over pairs of the maximal rTRE.
    robustness : float or None
        Average over pairs of the share of landmarks that improved.
    cases : int
    """

    AArTRE: float
    MArTRE: float
    AMrTRE: float
    MMrTRE: float
    AMxrTRE: float
    MMxrTRE: float
    robustness: float | None
    cases: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)


def anhir(cases: Sequence[AnhirCase]) -> Anhir:
    """Aggregate pairs as ANHIR did."""
    if not cases:
        raise InvalidInputError("ANHIR's aggregates need at least one pair.")
    average, median, maximum = np.array([[one.average, one.median, one.maximum] for one in cases]).T
    shares = [one.robustness for one in cases if one.robustness is not None]
    return Anhir(
        float(average.mean()),
        float(np.median(average)),
        float(median.mean()),
        float(np.median(median)),
        float(maximum.mean()),
        float(np.median(maximum)),
        float(np.mean(shares)) if len(shares) == len(cases) else None,
        len(cases),
    )


def acrobat_case(errors: ArrayLike) -> float:
    """ACROBAT's number of one pair: 90th percentile of the TRE of its landmarks.

    Where several annotators marked the same landmarks, ``errors`` are to be the averages of the distances to each.
    """
    return float(np.percentile(_lengths(errors, "errors"), 90))


def acrobat(percentiles: ArrayLike, year: int = 2022) -> float:
    """ACROBAT's aggregate of the pairs' 90th percentiles: their median in 2022, their mean in 2023."""
    values = _lengths(percentiles, "percentiles")
    if year not in (2022, 2023):
        raise InvalidInputError(f"ACROBAT's aggregates are known for 2022 and 2023, not for {year!r}.")
    return float(np.median(values) if year == 2022 else values.mean())


def learn2reg_tre(case_means: ArrayLike, year: int = 2025) -> float:
    """Learn2Reg's TRE aggregate: a quantile over the cases of the mean TRE of each case.

    Parameters
    ----------
    case_means : (n,) array
    year : int
        Of the evaluation code: the 0.3 quantile up to 2023 (its name ``30``), the 0.7 quantile from 2024 on. It was
        changed on 1 August 2024; numbers of 2024 before that day are those of 2023.
    """
    if int(year) != year or year < 2020:
        raise InvalidInputError(
            f"Learn2Reg exists since 2020; the year must be a whole number from then on, got {year!r}."
        )
    return float(np.quantile(_lengths(case_means, "case_means"), 0.3 if year < 2024 else 0.7))


@dataclass(frozen=True)
class Learn2RegRegularity:
    """Learn2Reg's numbers for smoothness, as its evaluation code computes them; see `learn2reg_regularity`.

    Attributes
    ----------
    sd_log_jacobian : float
        Standard deviation of ``log(det + 3)`` after clipping to [1e-9, 1e9].
    foldings : int
        Number of clipped values of at most 0, which is 0 whatever the transform does.
    folded : int
        Number of determinants of at most 0: what the name promises.
    """

    sd_log_jacobian: float
    foldings: int
    folded: int


def learn2reg_regularity(determinants: ArrayLike) -> Learn2RegRegularity:
    """Reproduce Learn2Reg's SDlogJ and folding count from Jacobian determinants, and warn where they miss folding.

    The determinant has 3 added before it is clipped and its logarithm taken, so that the spread is that of
    ``log(det + 3)``: smaller than that of the logarithm, and blind to folding down to a determinant of -3. Foldings are
    counted after the clip, so that there are none. `warpgauge.evaluation.regularity` has both as their names say.

    Parameters
    ----------
    determinants : array
        As `warpgauge.evaluation.jacobian_determinants` returns them. One that is not finite (a field with NaN, a point
        outside the domain) makes the spread NaN, as in the challenge.
    """
    values = np.asarray(determinants, dtype=np.float64).reshape(-1)
    if not np.isfinite(values).any():
        raise InvalidInputError("Learn2Reg's regularity needs at least one finite determinant.")
    clipped = np.clip(values + 3, 1e-9, 1e9)
    folded = int(np.sum(values <= 0))
    if folded:
        warnings.warn(
            f"{folded} of {values.size} Jacobian determinants are at most 0, but Learn2Reg's folding count is 0 "
            "whatever the transform does, and its SDlogJ rarely shows it; report the folding of regularity beside it.",
            SuspiciousDataWarning,
            stacklevel=2,
        )
    return Learn2RegRegularity(float(np.log(clipped).std()), int(np.sum(clipped <= 0)), folded)
