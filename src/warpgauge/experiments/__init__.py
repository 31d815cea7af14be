"""The paper's studies and further ones, each run by ``warpgauge experiment NAME``.

A study's module is imported when it is asked for, so that one that cannot be imported breaks only itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from warpgauge.errors import InvalidInputError
from warpgauge.experiments.experiment import Experiment, Findings, Run

# Module and name of each study.
_HOMES = {
    "strategies": "paper_studies:STRATEGIES",
    "targets": "paper_studies:TARGETS",
    "uncertainty": "paper_studies:UNCERTAINTY",
    "evaluation": "evaluation:EXPERIMENT",
    "attacks": "attacks:EXPERIMENT",
    "kernels": "paper_studies:KERNELS",
    "scales": "paper_studies:SCALES",
    "calibration": "model_studies:CALIBRATION",
    "accuracy": "model_studies:ACCURACY",
    "suggestion": "suggestion_study:EXPERIMENT",
    "raters": "raters:EXPERIMENT",
    "answerable": "annotation_studies:ANSWERABLE",
    "certified": "certified:EXPERIMENT",
    "snap": "annotation_studies:SNAP",
}
NAMES = tuple(_HOMES)


class _Registry(Mapping[str, Experiment]):
    """Experiments by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Experiment:
        module, attribute = _HOMES[name].split(":")
        found = getattr(importlib.import_module(f"warpgauge.experiments.{module}"), attribute)
        if not isinstance(found, Experiment):
            raise TypeError(f"{name} is not an experiment")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


EXPERIMENTS: Mapping[str, Experiment] = _Registry()


def find_experiment(name: str) -> Experiment:
    """Return the experiment of this name; an unknown name is refused with the list of those that exist."""
    if name not in NAMES:
        raise InvalidInputError(f"There is no experiment {name!r}; there are {', '.join(NAMES)}.")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "NAMES", "Experiment", "Findings", "Run", "find_experiment"]
