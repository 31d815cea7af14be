"""The transforms that were added, as the annotations judge them so far.

One evaluation and its verdict are behind both the page's table of transforms and the ranking in its progress.
"""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field

from warpgauge.display import shown_units
from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import Evaluation, TransformScores, evaluate_project
from warpgauge.evaluation.result import PRIMARY
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.web.overlays import Overlays
from warpgauge.web.wire import Given

Evaluated = tuple[Evaluation | None, dict[str, str]]


class RankingAnswer(Given):
    """How far the ranking of the transforms is decided."""

    order: list[str]
    probability_best: float | None
    decided: bool
    sentence: str


class TransformRow(Given):
    """A transform, and where it stands so far (2-norm over the targets, world units).

    ``problem`` says why it cannot be used; the identity that is only a baseline has no maps (``mapped``). ``cells`` are
    the values of the columns, in their order.
    """

    name: str
    description: str
    problem: str | None
    mapped: bool
    rank: int | None = None
    score: float | None = None
    interval: list[float | None] | None = None
    probability_best: float | None = None
    outside: float | None = None
    cells: list[float | str | list[float | None] | None] = Field(default_factory=list)


class ColumnAnswer(Given):
    """A column of the table of transforms; ``unit`` says what a value is: a length, a share, an interval and so on."""

    key: str
    head: str
    unit: str


class TransformsAnswer(Given):
    """All transforms and the identity as a baseline, best first.

    ``targets`` says what errors are averaged over; ``flags`` what to look at before the ranking, a sentence each.
    """

    transforms: list[TransformRow]
    columns: list[ColumnAnswer]
    verdict: str
    decided: bool
    targets: str
    flags: list[str]
    units: str


class Ranking:
    """The evaluation of a project's transforms, kept until the annotations, the settings or the transforms change."""

    def __init__(self, project: Project, overlays: Overlays) -> None:
        self.project, self.overlays = project, overlays
        self._known: tuple[object, Evaluated] | None = None

    def _evaluated(self) -> Evaluated:
        """Return the evaluation of all transforms that can be read, and why the others cannot."""
        with self.project.lock:
            state = self.project.state
            records = tuple((name, record.generation) for name, record in state.transforms.items())
            key = (state.model_generation, len(state.fits), self.project.settings, records)
        if self._known is None or self._known[0] != key:
            self._known = key, self._make()
        return self._known[1]

    def _make(self) -> Evaluated:
        read, problems = {}, {}
        for name in self.project.transform_names():
            try:
                read[name] = self.overlays.transform(name)
            except WarpgaugeError as error:
                problems[name] = str(error)
        if not read or not len(Session(self.project).annotations()):
            return None, problems
        try:
            return evaluate_project(self.project, read), problems
        except WarpgaugeError as error:
            return None, {**problems, **dict.fromkeys(read, str(error))}

    def summary(self) -> RankingAnswer | None:
        """Return how far the ranking is decided; None without transforms or annotations."""
        evaluation, _ = self._evaluated()
        if evaluation is None:
            return None
<<<<<<< HEAD
        order = evaluation.ranking()
        return RankingAnswer(
            order=order,
            probability_best=_finite(evaluation.scores[order[0]].probability_best[PRIMARY]),
            decided=evaluation.verdict.decided,
            sentence=sentences.progress(evaluation.verdict),
        )

    def table(self) -> TransformsAnswer:
        """Return the transforms, best first, and the verdict."""
        evaluation, problems = self._evaluated()
        names = self.project.transform_names()
        if evaluation is None:
            rows = [self._row(name, problems.get(name)) for name in names]
            return TransformsAnswer(
                transforms=rows, columns=[], verdict="", decided=False, targets="", flags=[], units=self.project.units
            )
        shown = columns.shown(evaluation, columns.PAGE)
        heads = columns.headings(evaluation, columns.PAGE, shown_units(evaluation.units or "px"))
        rows = []
        for row in columns.standing(evaluation):
            rows.append(self._ranked(row, [_cell(column.value(row)) for column in shown]))
        ranked = {row.name for row in rows}
        rows += [self._row(name, problems.get(name)) for name in names if name not in ranked]
        return TransformsAnswer(
            transforms=rows,
            columns=[
                ColumnAnswer(key=one.key, head=head, unit=one.unit) for one, head in zip(shown, heads, strict=True)
            ],
            verdict=evaluation.verdict.whole,
            decided=evaluation.verdict.decided,
            targets=evaluation.target_sentence,
            flags=list(evaluation.notices),
            units=self.project.units,
        )
=======
        order, verdict = found.ranking(), found.verdict
        best = _finite(found.scores[order[0]].probability_best[PRIMARY])
        sentence = verdict.lines()["BEST"]
        return {"order": order, "probability_best": best, "decided": verdict.decided, "sentence": sentence}

    def table(self) -> dict[str, Any]:
        """Return what ``/api/transforms`` answers: the transforms, best first, and the verdict."""
        found, problems = self._evaluated()
        units = shown_units((found.units if found else None) or "px")
        columns = [
            {"key": "score_with_interval", "head": f"Error, {units}", "unit": "interval"},
            {"key": "probability_best_2", "head": "Best", "unit": "text"},
        ]
        rows = (
            []
            if found is None
            else [self._ranked(found, place, row) for place, row in enumerate(found.verdict.rows, 1)]
        )
        named = {row["name"] for row in rows}
        rows += [self._row(name, problems.get(name)) for name in self.project.transform_names() if name not in named]
        return {
            "transforms": rows,
            "columns": columns if found else [],
            "verdict": "" if found is None else str(found.verdict),
            "decided": found is not None and found.verdict.decided,
            "targets": "" if found is None else f"Errors are over {found.target_words}.",
            "flags": [] if found is None else [flag.sentence for flag in found.flags],
            "units": self.project.units,
        }
>>>>>>> 587b572 (One judge: transforms that testify, draws heard and unheard, and a verdict in five lines; each flag is made with its words where it is found)

    def _row(self, name: str, problem: str | None = None) -> TransformRow:
        """Return the row of a transform without any scores."""
        added = name in self.project.transform_names()
        description = ""
        if problem is None:
            description = self.overlays.transform(name).description.kind if added else "before any registration"
        return TransformRow(name=name, description=description, problem=problem, mapped=added and problem is None)

<<<<<<< HEAD
    def _ranked(self, row: Row, cells: list[Any]) -> TransformRow:
        scores = row.scores
        answer = self._row(row.name)
        answer.rank = row.place
        answer.score = _finite(scores.score[PRIMARY])
        answer.interval = [_finite(end) for end in scores.interval[PRIMARY]]
        answer.probability_best = _finite(scores.probability_best[PRIMARY])
        answer.outside = scores.outside
        answer.cells = cells
        return answer
=======
    def _ranked(self, found: Evaluation, place: int, scores: TransformScores) -> dict[str, Any]:
        score = _finite(scores.score[PRIMARY])
        ends = [_finite(end) for end in scores.interval[PRIMARY]]
        return {
            **self._row(scores.name),
            "cells": [[score, *ends], found.verdict.shown_probability(scores)],
            "rank": place if scores.group else None,
            "score": score,
            "interval": ends,
            "probability_best": _finite(scores.probability_best[PRIMARY]),
            "outside": scores.outside,
        }
>>>>>>> 587b572 (One judge: transforms that testify, draws heard and unheard, and a verdict in five lines; each flag is made with its words where it is found)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
