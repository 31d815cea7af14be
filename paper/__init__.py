"""The paper's studies and further ones, each run by ``python -m paper NAME`` in the repository.

This package is not installed with warpgauge. It is built on warpgauge's public interface only, as a test checks: what
a study can do, you can do. A study's module is imported when it is asked for, so that one that cannot be imported
breaks only itself. ``docs/paper`` tells what each study found.
"""

from __future__ import annotations

import importlib

from paper.experiment import Experiment, Findings, Run
from warpgauge.errors import InvalidInputError, MissingExtraError, install_advice

# Module and name of each study.
_HOMES = {
    "strategies": "paper_studies:STRATEGIES",
    "targets": "paper_studies:TARGETS",
    "uncertainty": "paper_studies:UNCERTAINTY",
    "evaluation": "evaluation:EXPERIMENT",
    "panel": "panel:EXPERIMENT",
    "kernels": "paper_studies:KERNELS",
    "scales": "paper_studies:SCALES",
    "calibration": "model_studies:CALIBRATION",
    "answerable": "annotation_studies:ANSWERABLE",
    "circles": "circles:EXPERIMENT",
    "certified": "certified:EXPERIMENT",
    "deciding": "deciding:EXPERIMENT",
    "slips": "slips:EXPERIMENT",
}
NAMES = tuple(_HOMES)


def find_experiment(name: str) -> Experiment:
    """Return the experiment of this name; an unknown name is refused with the list of those that exist."""
    if name not in NAMES:
        raise InvalidInputError(f"There is no experiment {name!r}; there are {', '.join(NAMES)}.")
    module, attribute = _HOMES[name].split(":")
    try:
        found = getattr(importlib.import_module(f"paper.{module}"), attribute)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"The experiment {name!r} needs the library {error.name}, which is not installed; {install_advice('demo')}."
        ) from error
    if not isinstance(found, Experiment):
        raise TypeError(f"{name} is not an experiment")
    return found


__all__ = ["NAMES", "Experiment", "Findings", "Run", "find_experiment"]
