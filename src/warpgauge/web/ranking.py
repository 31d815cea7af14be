"""The transforms that were added, as the annotations judge them so far.

One evaluation and its verdict are behind both the page's table of transforms and the ranking in its progress.
"""

from __future__ import annotations

import math
from typing import Any

from warpgauge.display import shown_units
from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import Evaluation, columns, evaluate_project, sentences
from warpgauge.evaluation.columns import PRIMARY, Row
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.web.overlays import Kept, Overlays


class Ranking:
    """The evaluation of a project's transforms, kept until the annotations, the settings or the transforms change."""

    def __init__(self, project: Project, overlays: Overlays) -> None:
        self.project, self.overlays = project, overlays
        self._kept = Kept(8)

    def _evaluated(self) -> tuple[Evaluation | None, dict[str, str]]:
        """Return the evaluation of all transforms that can be read, and why the others cannot."""
        with self.project.lock:
            state = self.project.state
            records = tuple((name, record.generation) for name, record in state.transforms.items())
            key = (state.model_generation, len(state.fits), self.project.settings, records)
        found: tuple[Evaluation | None, dict[str, str]] = self._kept.get(key, self._make)
        return found

    def _make(self) -> tuple[Evaluation | None, dict[str, str]]:
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

    def summary(self) -> dict[str, Any] | None:
        """Return how far the ranking is decided; None without transforms or annotations."""
        found, _ = self._evaluated()
        if found is None:
            return None
        order, verdict = found.ranking(), found.verdict
        best = _finite(found.scores[order[0]].probability_best[PRIMARY])
        sentence = sentences.progress(verdict)
        return {"order": order, "probability_best": best, "decided": verdict.decided, "sentence": sentence}

    def table(self) -> dict[str, Any]:
        """Return what ``/api/transforms`` answers: the transforms, best first, and the verdict."""
        found, problems = self._evaluated()
        standing = [] if found is None else columns.standing(found)
        shown = [] if found is None else columns.shown(found, columns.PAGE)
        heads = [] if found is None else columns.headings(found, columns.PAGE, shown_units(found.units or "px"))
        rows = [self._ranked(row, [_cell(one.value(row)) for one in shown]) for row in standing]
        named = {row.name for row in standing}
        rows += [self._row(name, problems.get(name)) for name in self.project.transform_names() if name not in named]
        return {
            "transforms": rows,
            "columns": [
                {"key": one.key, "head": head, "unit": one.unit} for one, head in zip(shown, heads, strict=True)
            ],
            "verdict": "" if found is None else found.verdict.whole,
            "decided": found is not None and found.verdict.decided,
            "targets": "" if found is None else found.target_sentence,
            "flags": [] if found is None else found.notices,
            "units": self.project.units,
        }

    def _row(self, name: str, problem: str | None = None) -> dict[str, Any]:
        """Return the row of a transform without any scores."""
        described, added = "", name in self.project.transform_names()
        if problem is None:
            described = self.overlays.transform(name).description.kind if added else "before any registration"
        numbers = dict.fromkeys(("rank", "score", "interval", "probability_best", "outside"))
        mapped = added and problem is None
        return {"name": name, "description": described, "problem": problem, "mapped": mapped, "cells": [], **numbers}

    def _ranked(self, row: Row, cells: list[Any]) -> dict[str, Any]:
        scores = row.scores
        return {
            **self._row(row.name),
            "cells": cells,
            "rank": row.place,
            "score": _finite(scores.score[PRIMARY]),
            "interval": [_finite(end) for end in scores.interval[PRIMARY]],
            "probability_best": _finite(scores.probability_best[PRIMARY]),
            "outside": scores.outside,
        }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_finite(one) for one in value]
    return _finite(value) if isinstance(value, float) else value
