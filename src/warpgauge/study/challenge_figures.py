"""Official figures of known challenges under their own names, by case and over the cases.

They follow the rules of the challenges' own evaluation programs, also for what is missing, are computed from the errors
at the landmarks alone and carry no uncertainty; docs/study.md says where a rule is not public. The definitions are in
`warpgauge.evaluation.challenge_metrics`; here is which of them a challenge reports.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats, tied_ranks
from warpgauge.errors import SuspiciousDataWarning
from warpgauge.evaluation import challenge_metrics
from warpgauge.geometry import Grid
from warpgauge.io.transforms.learn2reg import displacements_in_voxels

Figures = dict[str, float]
# The figures that rank.
MAIN = {
    "anhir": ("Average-Median-rTRE",),
    "acrobat": ("Median-90th-percentile-TRE",),
    "learn2reg": ("TRE mean",),
    "brats-reg": ("Median-MEE",),
}


def case_figures(challenge: str | None, errors: Floats | None, initial: Floats, diagonal: float | None) -> Figures:
    """Return a method's official figures of one pair; none where there are no landmarks or there is no challenge.

    Parameters
    ----------
    challenge : str, optional
    errors : (n,) array, optional
        At every landmark, NaN where the method gave no point; None where it has nothing for this pair. Both count by
        the challenge's own rule: an incomplete pair has ANHIR's figures before registration and a robustness of 0, a
        landmark that ACROBAT misses keeps its place in the moving image, and Learn2Reg has no figures.
    initial : (n,) array
        Without registration.
    diagonal : float, optional
        Of the image; ANHIR needs it.
    """
    if challenge is None or not len(initial):
        return {}
    complete = errors is not None and bool(np.isfinite(errors).all())
    after = initial if errors is None else np.where(np.isfinite(errors), errors, initial)
    if challenge == "anhir":
        if diagonal is None:
            return {}
        one = challenge_metrics.anhir_case(after if complete else initial, diagonal, initial)
        return {
            "rTRE Mean (final)": one.average,
            "rTRE Median (final)": one.median,
            "rTRE Max (final)": one.maximum,
            "Robustness": float(one.robustness or 0.0),
        }
    if challenge == "acrobat":
        return {"90th-percentile-TRE": challenge_metrics.acrobat_case(after)}
    if challenge == "brats-reg":
        return {"MEE": float(np.median(after)), "Robustness": float(np.mean(after < initial))}
    return {"TRE": float(np.mean(after))} if complete else {}


def learn2reg_field_figures(file: Path, layout: str, given: Annotations | None, fixed: Grid, moving: Grid) -> Figures:
    """Return SDlogJ of a Learn2Reg field as its evaluation computes it, and TRE by a cubic spline given landmarks."""
    from scipy.ndimage import map_coordinates

    field = displacements_in_voxels(file, layout, fixed)
    figures: Figures = {}
    if not np.isfinite(field).all():
        return figures  # the challenge's program computes NaN
    if given is not None:
        start, end = fixed.world_to_index(given.fixed_points), moving.world_to_index(given.moving_points)
        moved = start + np.stack([map_coordinates(part, start.T[::-1]) for part in field], axis=1)
        errors = np.linalg.norm((moved - end) * moving.spacing, axis=1)
        figures["TRE"] = float(errors.mean())
    if min(field.shape[1:]) > 4:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuspiciousDataWarning)  # folding is counted under `regularity`
            figures["SDlogJ"] = challenge_metrics.learn2reg_regularity(_determinants(field)).sd_log_jacobian
    return figures


def _determinants(field: NDArray[Any]) -> Floats:
    """Jacobian determinants by central differences in voxels, without a border of two voxels."""
    inner = (slice(2, -2),) * 3
    rows = [np.stack([part[inner] for part in np.gradient(one)[::-1]], axis=-1) for one in field]
    return np.asarray(np.linalg.det(np.stack(rows, axis=-2) + np.eye(3)))


def official_figures(challenge: str | None, cases: Sequence[Mapping[str, float]]) -> Figures:
    """Return a method's official figures over all pairs of a study, from those of each pair.

    A pair without figures leaves a method without official figures: Learn2Reg refuses a submission that lacks one.
    """
    if challenge is None or not cases:
        return {}
    names = [name for name in cases[0] if all(name in case for case in cases)]
    columns = {name: np.array([case[name] for case in cases]) for name in names}
    if not columns:
        return {}
    if challenge == "anhir":
        return _anhir_figures(columns)
    if challenge == "acrobat":
        values = columns["90th-percentile-TRE"]
        return {
            "Median-90th-percentile-TRE": challenge_metrics.acrobat(values, 2022),
            "Mean-90th-percentile-TRE": challenge_metrics.acrobat(values, 2023),
        }
    if challenge == "brats-reg":
        errors, robustness = columns["MEE"], columns["Robustness"]
        return {
            "Median-MEE": float(np.median(errors)),
            "Mean-MEE": float(errors.mean()),
            "Mean-Robustness": float(robustness.mean()),
        }
    found: Figures = {}
    for name, values in columns.items():
        found |= {f"{name} mean": float(values.mean()), f"{name} std": float(values.std())}
        found |= {f"{name} {share}": float(np.quantile(values, share / 100)) for share in (30, 70)}
    return found


def ranked_figures(challenge: str | None, cases: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Figures]:
    """Return the official figures of each method that depend on the others: ANHIR's average ranks.

    Parameters
    ----------
    challenge : str, optional
    cases : mapping
        Of each method, the figures of each pair, in the same order.
    """
    found: dict[str, Figures] = {name: {} for name in cases}
    if challenge != "anhir" or not all(case for method in cases.values() for case in method):
        return found
    for what in ("Median", "Max"):
        values = np.array([[case[f"rTRE {what} (final)"] for case in method] for method in cases.values()])
        for name, rank in zip(cases, tied_ranks(values.T).mean(axis=0), strict=True):
            found[name][f"Average-Rank-{what}-rTRE"] = float(rank)
    return found


def _anhir_figures(columns: Mapping[str, Floats]) -> Figures:
    robust = columns["Robustness"] > 0.5
    found = {
        "Average-Robustness": float(columns["Robustness"].mean()),
        "Average-Median-rTRE": float(columns["rTRE Median (final)"].mean()),
        "Average-Max-rTRE": float(columns["rTRE Max (final)"].mean()),
    }
    if robust.any():
        found["Average-Median-rTRE-Robust"] = float(columns["rTRE Median (final)"][robust].mean())
        found["Average-Max-rTRE-Robust"] = float(columns["rTRE Max (final)"][robust].mean())
    return found
