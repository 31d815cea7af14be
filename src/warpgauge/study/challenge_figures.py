"""Official figures of known challenges under their own names, by case and over the cases.

They follow the rules of the challenges' own evaluation programs, are computed from the errors at the landmarks alone
and carry no uncertainty. The definitions are in `warpgauge.evaluation.challenge_metrics`; here is which of them a
challenge reports.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.annotations import Annotations
from warpgauge.core.arrays import Floats
from warpgauge.errors import SuspiciousDataWarning
from warpgauge.evaluation import challenge_metrics
from warpgauge.geometry import Grid
from warpgauge.io.transforms.learn2reg import displacements_in_voxels

Figures = dict[str, float]
# The figures that rank.
MAIN = {
    "anhir": ("Average-Median-rTRE",),
    "acrobat": ("Median-90th-percentile-TRE",),
    "learn2reg": ("TRE mean", "DSC mean"),
}


def case_figures(
    challenge: str | None, errors: Sequence[float], initial: Sequence[float], diagonal: float | None
) -> Figures:
    """Return a method's official figures of one pair; none where landmarks are missing or there is no challenge."""
    if challenge is None or not errors or len(errors) != len(initial):
        return {}
    if challenge == "anhir":
        if diagonal is None:
            return {}
        one = challenge_metrics.anhir_case(errors, diagonal, initial)
        return {
            "rTRE Mean (final)": one.average,
            "rTRE Median (final)": one.median,
            "rTRE Max (final)": one.maximum,
            "Robustness": float(one.robustness or 0.0),
        }
    if challenge == "acrobat":
        return {"90th-percentile-TRE": challenge_metrics.acrobat_case(errors)}
    return {"TRE": float(np.mean(errors))}


def learn2reg_field_figures(file: Path, layout: str, given: Annotations | None, fixed: Grid, moving: Grid) -> Figures:
    """Return SDlogJ of a Learn2Reg field as its evaluation computes it, and TRE by a cubic spline given landmarks."""
    from scipy.ndimage import map_coordinates

    field = displacements_in_voxels(file, layout, fixed)
    figures: Figures = {}
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


def overlap_figures(challenge: str | None, overlap: Mapping[str, Any] | None) -> Figures:
    """Return Learn2Reg's DSC of a method on one pair: the mean Dice of the labels that both label images have."""
    if challenge != "learn2reg" or overlap is None:
        return {}
    shared = [one["dice"] for one in overlap["labels"] if one["in_moving"]]
    return {"DSC": float(np.mean(shared))} if shared else {}


def _determinants(field: NDArray[Any]) -> Floats:
    """Jacobian determinants by central differences in voxels, without a border of two voxels."""
    inner = (slice(2, -2),) * 3
    rows = [np.stack([part[inner] for part in np.gradient(one)[::-1]], axis=-1) for one in field]
    return np.asarray(np.linalg.det(np.stack(rows, axis=-2) + np.eye(3)))


def official_figures(challenge: str | None, cases: Sequence[Mapping[str, float]]) -> Figures:
    """Return a method's official figures over its pairs, from those of each pair."""
    known = [case for case in cases if case]
    if challenge is None or not known:
        return {}
    names = dict.fromkeys(name for case in known for name in case)
    columns = {name: np.array([case[name] for case in known if name in case]) for name in names}
    if challenge == "anhir":
        return _anhir_figures(columns)
    if challenge == "acrobat":
        values = columns["90th-percentile-TRE"]
        return {
            "Median-90th-percentile-TRE": challenge_metrics.acrobat(values, 2022),
            "Mean-90th-percentile-TRE": challenge_metrics.acrobat(values, 2023),
        }
    found: Figures = {}
    for name, values in columns.items():
        found[f"{name} mean"] = float(values.mean())
        if len(values) > 1:
            found[f"{name} std"] = float(values.std(ddof=1))
        found[f"{name} 30"] = float(np.quantile(values, 0.3))
        found[f"{name} 70"] = float(np.quantile(values, 0.7))
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
