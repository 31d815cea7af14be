"""The transforms that were added, ranked by what the annotations say so far."""

from __future__ import annotations

import math
from typing import Any

from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import Assessment, evaluate_project
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.web.overlays import Kept, Overlays

_DECIDED = 0.95


class Comparison:
    """Ranks the project's transforms; kept until the annotations, the settings or the transforms change.

    Parameters
    ----------
    project : Project
    overlays : Overlays
        Reads the transforms.
    """

    def __init__(self, project: Project, overlays: Overlays) -> None:
        self.project, self.overlays = project, overlays
        self._kept = Kept(8)

    def _assessed(self) -> tuple[Assessment | None, dict[str, str]]:
        """Return the verdict on all transforms that can be read, and why the others cannot."""
        with self.project.lock:
            state = self.project.state
            records = tuple((name, record.generation) for name, record in state.transforms.items())
            key = (state.model_generation, len(state.fits), self.project.settings, records)
        found: tuple[Assessment | None, dict[str, str]] = self._kept.get(key, self._make)
        return found

    def _make(self) -> tuple[Assessment | None, dict[str, str]]:
        read, problems = {}, {}
        for name in self.project.transform_names():
            try:
                read[name] = self.overlays.transform(name)
            except WarpgaugeError as error:
                problems[name] = str(error)
        if not read or not len(Session(self.project).annotations()):
            return None, problems
        try:
            return evaluate_project(self.project, read, with_trust=False, further=False), problems
        except WarpgaugeError as error:
            return None, {**problems, **dict.fromkeys(read, str(error))}

    def describe(self) -> dict[str, Any]:
        """Return what ``/api/transforms`` answers."""
        found, problems = self._assessed()
        result = None if found is None else found.evaluation
        names = self.project.transform_names()
        if found is not None:
            names += [name for name in found.transforms if name not in names]
        rows = [self._row(name, result, problems.get(name)) for name in names]
        rows.sort(key=lambda row: (row["rank"] is None, row["rank"]))
        return {
            "transforms": rows,
            "verdict": "" if result is None else result.verdict,
            "decided": False if result is None else len(result.tied) == len(result.scores),
            "targets": "" if found is None else found.target_sentence,
            "flags": [] if result is None else result.notices,
            "units": self.project.units,
        }

    def _row(self, name: str, result: Any, problem: str | None) -> dict[str, Any]:
        row: dict[str, Any] = {"name": name, "description": "", "problem": problem, "rank": None, "score": None,
                               "interval": None, "probability_best": None, "outside": None}  # fmt: skip
        if problem is None and name in self.project.transform_names():
            row["description"] = self.overlays.transform(name).description.kind
        elif problem is None:
            row["description"] = "before any registration"
        if result is not None and name in result.scores:
            scores = result.scores[name]
            row["rank"] = result.ranking().index(name) + 1
            row["score"], row["interval"] = _finite(scores.score["2"]), [_finite(v) for v in scores.interval["2"]]
            row["probability_best"], row["outside"] = _finite(scores.probability_best["2"]), scores.outside
        return row

    def ranking(self) -> dict[str, Any] | None:
        """Return a summary of how far the ranking is decided; None without transforms or annotations."""
        found, _ = self._assessed()
        if found is None:
            return None
        result = found.evaluation
        order = result.ranking()
        best = _finite(result.scores[order[0]].probability_best["2"])
        decided = best is not None and best >= _DECIDED
        sentence = "Further points are unlikely to change which is best." if decided else result.verdict
        return {"order": order, "probability_best": best, "decided": decided, "sentence": sentence}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
