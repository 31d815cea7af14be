"""`gate_study`: one method against another over the pairs of a study, by the audits of its projects."""

from __future__ import annotations

from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.gate import GatePair, GateResult, Margin, decide, gate_pair
from warpgauge.io.transforms import Transform
from warpgauge.project import Project
from warpgauge.study.description import MethodSpec, PairSpec, Study
from warpgauge.study.method_files import project_transform, read_method, transform_files


def gate_study(study: Study, new: str, baseline: str, *, margin: str | float = 0.0, level: float = 0.95) -> GateResult:
    """Return whether a method is worse than another over the pairs of a study, of which each counts the same.

    Every pair must be a project with an audit. The RMS errors are over all pairs together, and as many draws of each
    pair count as the one with the fewest has. The answer is about these pairs; it says nothing about others.

    Parameters
    ----------
    study : Study
    new, baseline : str
        Names of methods.
    margin, level
        As in `warpgauge.evaluation.gate_project`.
    """
    methods = {method.name: method for method in study.methods}
    for name in (new, baseline):
        if name not in methods:
            raise InvalidInputError(f"The study has no method {name!r}; it has {', '.join(methods)}.")
    found, units = [], ""
    for pair in study.pairs:
        own, unit = _pair(study, pair, methods[new], methods[baseline])
        if units not in ("", unit):
            raise InvalidInputError(f"The pairs of the study are in {units} and in {unit}; a gate needs one unit.")
        found.append(own)
        units = unit
    return decide(found, Margin.read(margin, units), level, units)


def _pair(study: Study, pair: PairSpec, new: MethodSpec, baseline: MethodSpec) -> tuple[GatePair, str]:
    if pair.project is None:
        raise InvalidInputError(f"The pair {pair.name!r} is not a project, so it has no audit; a gate needs one.")
    with Project.open(pair.project, check_images=False) as project:
        found = gate_pair(project, *(_transform(study, pair, method, project) for method in (new, baseline)))
        return found, project.units


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
