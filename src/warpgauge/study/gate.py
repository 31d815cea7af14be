"""`gate_study`: one method against another over the pairs of a study, by the audits of its projects."""

from __future__ import annotations

import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.gate import Excess, GateResult, check_level, compared, gate_data
from warpgauge.io.transforms import Transform
from warpgauge.project import Project
from warpgauge.study.description import MethodSpec, PairSpec, Study
from warpgauge.study.method_files import project_transform, read_method, transform_files


def gate_study(study: Study, new: str, baseline: str, *, margin: str | float = 0.0, level: float = 0.95) -> GateResult:
    """Return whether a method is worse than another, on average over the pairs of a study.

    Every pair must be a project with an audit. The answer is about these pairs; it says nothing about others.

    Parameters
    ----------
    study : Study
    new, baseline : str
        Names of methods.
    margin, level
        As in `warpgauge.evaluation.gate_project`.
    """
    check_level(level)
    methods = {method.name: method for method in study.methods}
    for name in (new, baseline):
        if name not in methods:
            raise InvalidInputError(f"The study has no method {name!r}; it has {', '.join(methods)}.")
    found, units = [], ""
    for pair in study.pairs:
        excess, unit = _pair(study, pair, methods[new], methods[baseline], margin)
        if units not in ("", unit):
            raise InvalidInputError(f"The pairs of the study are in {units} and in {unit}; a gate needs one unit.")
        found.append(excess)
        units = unit
    return _together(found, level, units)


def _pair(
    study: Study, pair: PairSpec, new: MethodSpec, baseline: MethodSpec, margin: str | float
) -> tuple[Excess, str]:
    if pair.project is None:
        raise InvalidInputError(f"The pair {pair.name!r} is not a project, so it has no audit; a gate needs one.")
    with Project.open(pair.project, check_images=False) as project:
        data = gate_data(project, *(_transform(study, pair, method, project) for method in (new, baseline)))
        return compared(data, margin, project.units), project.units


def _transform(study: Study, pair: PairSpec, method: MethodSpec, project: Project) -> Transform:
    found: Transform | str
    if not method.transform:
        found = project_transform(project, method)
    else:
        files = transform_files(study, pair, method)
        if isinstance(files, str):
            found = files
        else:
            found = read_method(files, pair, method, project.fixed_grid, project.moving_grid, project.d)
    if isinstance(found, str):
        raise InvalidInputError(f"The method {method.name!r} is missing for the pair {pair.name!r}: {found}.")
    return found


def _together(found: list[Excess], level: float, units: str) -> GateResult:
    """Average differences of RMS errors over pairs; spreads add, with Satterthwaite's degrees of freedom."""
    from scipy import stats  # takes longer to load than all of the core

    P = len(found)
    sizes = np.array([(one.scale * one.excess.estimate, one.scale * one.beyond.estimate) for one in found])
    variances = np.square([(one.scale * one.excess.spread, one.scale * one.beyond.spread) for one in found])
    mean, variance = sizes.mean(axis=0), variances.sum(axis=0) / P**2
    freedom = np.array([one.answers - 1 for one in found], dtype=np.float64)
    weight = np.square(variances / P**2) / freedom[:, None]
    total = weight.sum(axis=0)
    df = np.where(total > 0, np.square(variance) / np.where(total > 0, total, 1.0), freedom.sum())
    reach = stats.t.ppf(level, np.maximum(df, 1.0)) * np.sqrt(variance)
    low, high = float(mean[0] - reach[0]), float(mean[1] + reach[1])
    margin = float(np.mean([one.margin for one in found]))
    baseline, new = (float(np.mean([getattr(one, name) for one in found])) for name in ("baseline", "new"))
    code = 0 if high <= 0 else 1 if low > 0 else 2
    answers = sum(one.answers for one in found)
    return GateResult(code, float(mean[0]), low, margin + high, margin, baseline, new, answers, P, level, units)
