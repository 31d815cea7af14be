"""What to ask next: a suggester that is updated with the answers instead of being rebuilt for each of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpgauge.core.arrays import thinned_rows
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.core.suggestion import Suggester
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats
from warpgauge.project import Project, State
from warpgauge.session.answer_chances import Chances
from warpgauge.session.audit_questions import pending_candidates
from warpgauge.session.fused_annotations import standing_marks
from warpgauge.session.queries import is_free

# Taking one record back costs about a fortieth of building the Suggester anew (20,000 candidates, 200 records).
_MOST_UNDONE = 20
# Numbers that may be stored for candidates outside the targets: targets x candidates.
_LARGEST_BLOCK = 20_000_000
# A place that a rater chose counts by its answer alone; an answer to a control question is not used.
_NOT_RECORDED = ("volunteered", "control")
_FEWEST_TARGETS, _MOST_TARGETS = 200, 2000


@dataclass(frozen=True)
class Record:
    """What the Suggester knows of a location."""

    point: tuple[float, ...]
    candidate: int | None
    covariance: tuple[tuple[float, ...], ...]


def wanted_records(state: State, default: Floats, with_answers: bool) -> dict[int, Record]:
    """Return the locations, with covariances, on which the next suggestion is based.

    A location counts with the covariance that its first standing mark states. Fused covariances are not used here: they
    change everywhere with every further rater, and are known only at the end (section IV-A-4 of the paper does the
    same). A location that nobody has answered counts with the default covariance; one that was only skipped, put aside
    or switched off gives nothing. Without answers, every location that all are asked counts with the default
    covariance.
    """
    plain = tuple(tuple(row) for row in default.tolist())
    records = {
        query.location: Record(query.point, query.candidate, plain)
        for query in state.queries
        if query.same_as is None and query.origin not in _NOT_RECORDED and (with_answers or query.for_rater is None)
    }
    if not with_answers:
        return records
    said = {at for at, keys in state.cells_at.items() if any(state.cells[key].answer is not None for key in keys)}
    said |= {state.queries[number].location for _, number in state.deferred}
    marks = standing_marks(state, sealed=True)  # of sealed answers only place and uncertainty are used
    for location in said:
        records.pop(location, None)
        if location in marks:
            first = min(marks[location], key=lambda mark: mark.generation)
            candidate = None if first.moved else state.queries[location].candidate
            records[location] = Record(first.fixed_point, candidate, first.placement.covariance)
    return dict(sorted(records.items()))


class LiveSuggester:
    """Returns the next location for one prior, following `wanted_records` with as few updates as possible."""

    def __init__(self, project: Project, prior: TransformationPrior, default: Floats, chances: Chances | None) -> None:
        self.project = project
        self.prior = prior
        self.default = default
        self.chances = chances
        self.suggester = self._new()
        self._stack: list[tuple[int, Record]] = []
        self._closed: set[int] = set()
        # Missing areas do not change while a suggester is in use.
        missing = project.missing
        self._missing = set() if missing is None else set(np.flatnonzero(missing(project.candidates)).tolist())
        self._chance: Floats | None = None
        self._weighed_at: int | None = None

    def weigh(self, state: State, posterior: Callable[[], Posterior]) -> None:
        """Weigh candidates by the chance that they can be answered, where the strategy does."""
        if self.chances is not None and self._weighed_at != state.model_generation:
            self._chance = self.chances.of(state, posterior())
            self._weighed_at = state.model_generation
            self.suggester.set_chance(self._chance)

    def _new(self) -> Suggester:
        project = self.project
        settings = project.settings
        options: dict[str, Any] = {"seed": settings.seed, "default_covariance": self.default}
        if not project.document.targets.covers_candidates:
            targets = project.judged_targets
            most = int(np.clip(_LARGEST_BLOCK // len(project.candidates), _FEWEST_TARGETS, _MOST_TARGETS))
            sample = targets[thinned_rows(len(targets), most, settings.seed)]
            try:
                return Suggester(self.prior, project.candidates, sample, settings.strategy, **options)
            except InvalidInputError as error:
                warnings.warn(
                    f"{error} The candidates are taken for targets too, so that locations can be suggested.",
                    SuspiciousDataWarning,
                    stacklevel=2,
                )
        return Suggester(self.prior, project.candidates, None, settings.strategy, **options)

    def follow(self, wanted: Mapping[int, Record]) -> None:
        """Update the Suggester to the wanted records."""
        same = 0
        while same < len(self._stack) and wanted.get(self._stack[same][0]) == self._stack[same][1]:
            same += 1
        if len(self._stack) - same > _MOST_UNDONE:
            self.suggester = self._new()
            self._stack = []
            self._closed = set()
            same = 0
            if self._chance is not None:
                self.suggester.set_chance(self._chance)
        again = self._stack[same:]
        for _ in again:
            self.suggester.undo()
        del self._stack[same:]
        standing = {location for location, _ in self._stack}
        # What was there before comes first, so that what changes often stays at the end, where it is cheap to change.
        order = [location for location, record in again if wanted.get(location) == record]
        order += [location for location in wanted if location not in standing and location not in order]
        for location in order:
            record = wanted[location]
            covariance = np.array(record.covariance)
            if record.candidate is None:
                self.suggester.record_at(record.point, covariance)
            else:
                self.suggester.record(record.candidate, covariance)
            self._stack.append((location, record))

    def close(self, state: State, with_answers: bool) -> None:
        """Keep locations of the list from being suggested again.

        Without answers, what one rater alone has answered or volunteered may be suggested to all.
        """
        taken = {
            query.candidate
            for query in state.queries
            if query.candidate is not None and not is_free(state, query) and (with_answers or query.for_rater is None)
        }
        taken |= pending_candidates(state) | self._missing
        for candidate in taken - self._closed:
            self.suggester.skip(candidate)
        for candidate in self._closed - taken:
            self.suggester.restore(candidate)
        self._closed = taken

    def left(self) -> int:
        """Count the candidates that can still be suggested."""
        return len(self.suggester.candidates) - len(self._closed)

    def best(self) -> tuple[int, float] | None:
        """Return the next candidate and its expected gain; None where none is left."""
        if self.left() == 0:
            return None
        candidate = self.suggester.suggest()
        return candidate, self.suggester.gain(candidate)
