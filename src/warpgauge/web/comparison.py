"""The transforms that were added, ranked by what the annotations say so far."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warpgauge.core.process import Posterior
from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import Evaluation, evaluate, reference
from warpgauge.project import Project
from warpgauge.web.overlays import Kept, Overlays

_SAMPLES = 400
_MOST_TARGETS = 500
_DECIDED = 0.95


class Comparison:
    """Ranks the project's transforms; kept until the model or the transforms change.

    Parameters
    ----------
    project : Project
    overlays : Overlays
        Reads the transforms.
    """

    def __init__(self, project: Project, overlays: Overlays) -> None:
        self.project, self.overlays = project, overlays
        self._kept = Kept(8)

    def _targets(self) -> Any:
        """Give at most so many targets that a person does not wait, always the same ones."""
        targets = self.project.targets
        if len(targets) <= _MOST_TARGETS:
            return targets
        rng = np.random.default_rng(self.project.settings.seed)
        return targets[np.sort(rng.choice(len(targets), _MOST_TARGETS, replace=False))]

    def evaluation(self, posterior: Posterior) -> tuple[Evaluation | None, dict[str, str]]:
        """Give the evaluation of all transforms that can be read, and why the others cannot."""
        records = self.project.state.transforms
        key = (id(posterior), tuple((name, record.generation) for name, record in records.items()))
        found: tuple[Posterior, Evaluation | None, dict[str, str]] = self._kept.get(key, lambda: self._make(posterior))
        return found[1], found[2]

    def _make(self, posterior: Posterior) -> tuple[Posterior, Evaluation | None, dict[str, str]]:
        read, problems = {}, {}
        for name in self.project.state.transforms:
            try:
                read[name] = self.overlays.transform(name)
            except WarpgaugeError as error:
                problems[name] = str(error)
        if not read or not len(posterior.annotations):
            return posterior, None, problems
        try:
            centre = "prior" if self.project.settings.model == "paper" else "candidates"
            judged_by = reference(posterior, read, centre)
            result = evaluate(judged_by, read, self._targets(), samples=_SAMPLES, regularity_over=False, further=0)
        except WarpgaugeError as error:
            return posterior, None, {**problems, **dict.fromkeys(read, str(error))}
        return posterior, result, problems

    def describe(self, posterior: Posterior) -> dict[str, Any]:
        """Give what ``/api/transforms`` answers."""
        result, problems = self.evaluation(posterior)
        rows = [self._row(name, result, problems.get(name)) for name in self.project.state.transforms]
        rows.sort(key=lambda row: (row["rank"] is None, row["rank"]))
        return {
            "transforms": rows,
            "verdict": "" if result is None else result.verdict,
            "decided": False if result is None else len(result.tied) == len(result.scores),
            "units": self.project.units,
        }

    def _row(self, name: str, result: Evaluation | None, problem: str | None) -> dict[str, Any]:
        row: dict[str, Any] = {"name": name, "description": "", "problem": problem, "rank": None, "error": None,
                               "interval": None, "probability_best": None, "outside": None}  # fmt: skip
        if problem is None:
            about = self.overlays.transform(name).description
            row["description"] = about.kind
        if result is not None and name in result.scores:
            scores = result.scores[name]
            row["rank"] = result.ranking().index(name) + 1
            row["error"], row["interval"] = _finite(scores.posterior["2"]), [_finite(v) for v in scores.interval["2"]]
            row["probability_best"], row["outside"] = _finite(scores.probability_best["2"]), scores.outside
        return row

    def ranking(self, posterior: Posterior) -> dict[str, Any] | None:
        """Say in short how far the ranking is decided; None without transforms or annotations."""
        result, _ = self.evaluation(posterior)
        if result is None:
            return None
        order = result.ranking()
        best = _finite(result.scores[order[0]].probability_best["2"])
        decided = best is not None and best >= _DECIDED
        sentence = "Further points will hardly change which is best." if decided else result.verdict
        return {"order": order, "probability_best": best, "decided": decided, "sentence": sentence}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
