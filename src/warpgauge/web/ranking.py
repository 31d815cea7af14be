"""The transforms that were added, as the annotations judge them so far.

One evaluation and its verdict are behind both the page's table of transforms and its progress.
"""

from __future__ import annotations

import math

from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation import Evaluation, evaluate_project
from warpgauge.evaluation.result import PRIMARY
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.web.overlays import Overlays
from warpgauge.web.wire import Given

Evaluated = tuple[Evaluation | None, dict[str, str]]


class TransformRow(Given):
    """A transform, and where it stands so far.

    ``problem`` says why it cannot be used; the identity that is only a baseline has no maps (``mapped``). ``error`` is
    an estimate and its interval.
    """

    name: str
    description: str
    problem: str | None
    mapped: bool
    rank: int | None = None
    error: list[float | None] | None = None
    best: str | None = None


class TransformsAnswer(Given):
    """All transforms and the identity as a baseline, best first.

    ``targets`` says what errors are averaged over; ``flags`` what to look at before the ranking, a sentence each.
    """

    transforms: list[TransformRow]
    verdict: str
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

    def verdict(self) -> str | None:
        """Return the verdict so far, in at most five lines; None without transforms or annotations."""
        evaluation, _ = self._evaluated()
        return None if evaluation is None else str(evaluation.verdict)

    def table(self) -> TransformsAnswer:
        """Return the transforms, best first, and the verdict."""
        evaluation, problems = self._evaluated()
        answer = TransformsAnswer(transforms=[], verdict="", targets="", flags=[], units=self.project.units)
        if evaluation is not None:
            answer.verdict = str(evaluation.verdict)
            answer.targets = f"Errors are over {evaluation.verdict.target_words}."
            answer.flags = [flag.sentence for flag in evaluation.verdict.flags]
            for place, scores in enumerate(evaluation.verdict.rows, 1):
                row = self._row(scores.name)
                row.rank = place if scores.group else None
                row.error = [_finite(value) for value in (scores.score[PRIMARY], *scores.interval[PRIMARY])]
                row.best = evaluation.verdict.shown_probability(scores)
                answer.transforms.append(row)
        ranked = {row.name for row in answer.transforms}
        unranked = [name for name in self.project.transform_names() if name not in ranked]
        answer.transforms += [self._row(name, problems.get(name)) for name in unranked]
        return answer

    def _row(self, name: str, problem: str | None = None) -> TransformRow:
        """Return the row of a transform without any scores."""
        added = name in self.project.transform_names()
        description = ""
        if problem is None:
            description = self.overlays.transform(name).description.kind if added else "before any registration"
        return TransformRow(name=name, description=description, problem=problem, mapped=added and problem is None)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
