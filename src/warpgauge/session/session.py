"""The loop of suggesting, annotating and refitting, without HTTP or a terminal."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.display import counted
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning, WarpgaugeError
from warpgauge.io.landmarks import Landmarks
from warpgauge.project import ConflictError, Doubt, Event, Place, Placement, Project, Skip, State, events
from warpgauge.project.events import Action, Fit, Redo, Undo
from warpgauge.project.values import Step, Vector
from warpgauge.session.fused_annotations import all_marks, located_annotations, standing_marks
from warpgauge.session.landmark_exchange import import_events, volunteered_query
from warpgauge.session.plausibility import LEVEL, UnconfirmedError, check_placement, doubt_about
from warpgauge.session.prior import aligned, default_radius, next_refit, own_fit
from warpgauge.session.queries import START_MARKS, Query, number_of
from warpgauge.session.questions import Questions

Question = Callable[[Doubt, str], str | None]
"""Returns what to ask a rater about a doubt, or None where nobody is to be asked."""


@dataclass(frozen=True)
class Saved:
    """What was saved: the event, the query it changed, and the rater's answer there now.

    Where an import was undone or redone as a whole, ``count`` is the number of its answers, and the rest is about the
    last of them.
    """

    event: Event
    query: int
    answer: Place | Skip | None
    count: int = 1

    @property
    def generation(self) -> int:
        """Generation of the event."""
        return self.event.generation

    @property
    def time(self) -> str:
        """When it was saved, UTC."""
        return self.event.time


@dataclass(frozen=True)
class Start:
    """Whether the guided start is due for a rater: landmarks of their own choice before the first suggestion."""

    due: bool
    """Fewer than `wanted` landmarks are there, all of them volunteered, and the rater has not skipped the start."""
    volunteered: int
    """Landmarks that the rater has volunteered."""
    wanted: int
    """Landmarks that settle rotation, mirroring and scale."""


class Session(Questions):
    """Work on a project, for one ``rater`` or for a server that speaks for many.

    One `Session` serves any number of raters and threads, and follows what other processes write. A refit, or another
    rater's answer, never changes what a rater is looking at: prediction and `view` stay those of the moment at which
    the query was handed out (by `next_query`, `another`, `previous`, `go_to`), until the next one is. When a method
    that saves returns, what it saved is on the disk.

    Weights are refitted within `next_query` when that is due, unless a server switches ``auto_refit`` off and calls
    `refit_if_due` from another thread, so that nobody waits; `notes` has refits that failed. A ``question``, given a
    `Doubt` and a rater, returns what to ask before a placement that looks like a slip is saved, or None: then
    `UnconfirmedError` is raised unless the placement is confirmed. Without one such a placement is saved with a
    `SuspiciousDataWarning`. The log flags it either way.
    """

    def __init__(
        self,
        project: Project,
        rater: str | None = None,
        *,
        auto_refit: bool = True,
        question: Question | None = None,
    ) -> None:
        super().__init__(project, rater)
        self.auto_refit = auto_refit
        self.question = question
        self.notes: list[str] = []
        self._refitting = threading.Lock()
        self._failed_at = 0

    def next_query(self, rater: str | None = None, *, beyond: bool = False) -> Query | None:
        """Hand out the first query of the list that the rater has not answered; refit the weights before if due.

        At the end of the list it is extended, unless a stop rule is met (``beyond`` goes on all the same). When nothing
        else is left, queries that were put aside come again, the oldest first; None means that the rater is done.
        """
        who = self._who(rater)
        if self.auto_refit:
            self.refit_if_due()
        return super().next_query(who, beyond=beyond)

    # Answers

    def place(
        self,
        query: int | Query | None,
        moving: ArrayLike | Placement,
        covariance: ArrayLike | None = None,
        *,
        fixed: ArrayLike | None = None,
        radius: float | None = None,
        ellipse: tuple[ArrayLike, ArrayLike] | None = None,
        alpha: float | None = None,
        name: str = "",
        confirmed: bool = False,
        duration: float | None = None,
        base_generation: int | None = None,
        rater: str | None = None,
    ) -> Saved:
        """Save where the rater sees the match; for a query that is placed already, save the change.

        The match is ``moving``, in the moving image's world, with an uncertainty as `Placement.drawn` takes it (a plain
        click by default), or a `Placement`, which says all itself. ``fixed`` is the place that was chosen within the
        circle of the query (`Query.radius`); without it, a place that was chosen before stays, else it is the point of
        the query. With None for a query it is a landmark of the rater's own choice at ``fixed``, with a ``name``, which
        only this rater has.

        A placement outside the image, or far from a prediction that is known well, is asked about unless it is
        ``confirmed``. With ``base_generation``, that of the query, a change by the same rater since then raises
        `ConflictError`. The ``duration`` is in seconds.
        """
        if not isinstance(moving, Placement):
            settings = self.project.settings
            if covariance is None and ellipse is None and radius is None:
                # Of the project's dimension, so that it is the point that is refused where it has another.
                size = default_radius(self.project.fixed_grid, settings)
                ellipse = np.full(self.project.d, size), np.eye(self.project.d)
            level = settings.alpha if alpha is None else alpha
            moving = Placement.drawn(moving, covariance, alpha=level, ellipse=ellipse, radius=radius, fixed=fixed)
        elif any(option is not None for option in (covariance, ellipse, radius, alpha, fixed)):
            raise InvalidInputError("A Placement says its uncertainty and its place itself; give nothing besides.")
        who = self._who(rater)
        with self.project.lock:
            state = self.project.state
            if query is None:
                number = None
                place = self._in_fixed_image(moving.fixed or ())
                asked = [volunteered_query(self.project, state, place, who, name)]
                saved_at = asked[0].at
                placement = moving.model_copy(update={"fixed": None})
                subject = f"The volunteered landmark at {list(place)}"
            else:
                number = saved_at = number_of(query)
                chosen = self._chosen(state, who, number, moving.fixed)
                place = chosen or state.queries[number].point
                asked = []
                placement = moving.model_copy(update={"fixed": chosen})
                subject = f"The placement of query {number} at {list(placement.moving)}"
            doubt, reason = self._examined(state, who, number, placement, place, confirmed)
            placed = Place(
                rater=who,
                query=saved_at,
                placement=placement,
                doubt=doubt,
                duration=duration,
                base_generation=base_generation,
            )
            saved = self._saved(self.project.append(*asked, placed)[-1], saved_at)
        if reason is not None:
            warnings.warn(f"{subject} is {reason}; it is saved and flagged.", SuspiciousDataWarning, stacklevel=2)
        return saved

    def volunteer(
        self, fixed: ArrayLike, moving: ArrayLike, covariance: ArrayLike | None = None, **options: Any
    ) -> Saved:
        """Save a landmark of the rater's own choice: `place` without a query."""
        return self.place(None, moving, covariance, fixed=fixed, **options)

    def _chosen(self, state: State, who: str, number: int, wanted: Vector | None) -> Vector | None:
        """Return the place that is marked instead of the queried one, or None; refuse one that may not be chosen."""
        if number >= len(state.queries):
            raise InvalidInputError(f"There is no query {number}; the list has {len(state.queries)}, from 0 on.")
        query = state.queries[number]
        former = state.placement(who, number)
        if wanted is None or (former is not None and wanted == former.fixed):
            return None if former is None else former.fixed
        point = self._in_fixed_image(wanted)
        if point == query.point:
            return None
        if query.origin == "volunteered":
            return point
        units = self.project.units
        farthest = self.radius(who, number)
        distance = float(np.linalg.norm(np.subtract(point, query.point)))
        if farthest == 0:
            raise InvalidInputError(
                f"Query {number} is asked at its exact place, {list(query.point)}, so that answers can be compared; "
                f"mark that place, or volunteer the landmark instead."
            )
        if distance > farthest:
            raise InvalidInputError(
                f"The place is {distance:.3g} {units} from the middle of the circle of query {number}, whose radius is "
                f"{farthest:.3g} {units}; volunteer the landmark instead."
            )
        return point

    def _in_fixed_image(self, point: Vector) -> Vector:
        if len(point) != self.project.d:
            raise InvalidInputError(f"The point of the fixed image must be {self.project.d} numbers, got {point!r}.")
        if not self.project.fixed_grid.contains(np.array(point)):
            raise InvalidInputError(f"The point {list(point)} lies outside the fixed image; mark a place within it.")
        return point

    def _examined(
        self, state: State, who: str, number: int | None, placement: Placement, at: Vector, confirmed: bool
    ) -> tuple[Doubt | None, str | None]:
        """Check a placement; return why it looks like a slip, and a reason to warn a script, if any.

        This is the one place where a placement is checked and doubted: by the posterior that predicted it.
        """
        if not check_placement(self.project, placement):
            return None, None
        posterior = self.blindness.view(state, who, number).posterior
        beyond = posterior.squared_radius(LEVEL)
        doubt = doubt_about(self.project.moving_grid, posterior, np.array(at), placement, beyond)
        if doubt is None:
            return None, None
        if confirmed:
            return doubt.model_copy(update={"confirmed": True}), None
        if self.question is None:
            hides = self.project.settings.hide_prediction
            return doubt, doubt.reason(self.project.units, hide_prediction=hides)
        question = self.question(doubt, who)
        if question is not None:
            raise UnconfirmedError(question, doubt)
        return doubt, None

    def skip(
        self,
        query: int | Query,
        reason: str,
        text: str = "",
        *,
        duration: float | None = None,
        base_generation: int | None = None,
        rater: str | None = None,
    ) -> Saved:
        """Save that the rater cannot or will not place this query; ``reason`` is one of `SKIP_REASONS`."""
        about = {**self._about(query, rater, base_generation), "reason": reason}
        return self._save(Skip(**about, text=text, duration=duration))

    def restore(self, query: int | Query, *, base_generation: int | None = None, rater: str | None = None) -> Saved:
        """Take a skip back: the query is open again."""
        return self._save(events.Restore(**self._about(query, rater, base_generation)))

    def disable(
        self, query: int | Query, text: str = "", *, base_generation: int | None = None, rater: str | None = None
    ) -> Saved:
        """Take the rater's own placement out of the model, without losing it."""
        return self._save(events.Disable(**self._about(query, rater, base_generation), text=text))

    def enable(self, query: int | Query, *, base_generation: int | None = None, rater: str | None = None) -> Saved:
        """Take a disabled placement into the model again."""
        return self._save(events.Disable(**self._about(query, rater, base_generation), disabled=False))

    def _about(self, query: int | Query, rater: str | None, base_generation: int | None = None) -> dict[str, Any]:
        return {"rater": self._who(rater), "query": number_of(query), "base_generation": base_generation}

    def _save(self, action: Action) -> Saved:
        with self.project.lock:
            return self._saved(self.project.append(action)[0], action.at)

    def _saved(self, event: Event, number: int, count: int = 1) -> Saved:
        return Saved(event, number, self.project.state.answer(event.rater, number), count)

    # Undo and redo

    def undo(self, rater: str | None = None, *, base_generation: int | None = None) -> Saved | None:
        """Undo the rater's last action (place, skip, restore, disable, or a whole import), if any."""
        return self._step(Undo, [self._who(rater)], base_generation)

    def redo(self, rater: str | None = None, *, base_generation: int | None = None) -> Saved | None:
        """Redo what was undone last; None where there is nothing."""
        return self._step(Redo, [self._who(rater)], base_generation)

    def undo_import(self) -> Saved | None:
        """Undo the last import for all its raters, unless they have acted since; None if there is no such import."""
        with self.project.lock:
            done = self.project.state.done
            last = {who: steps[-1] for who, steps in done.items() if steps and steps[-1].batch is not None}
            if not last:
                return None
            newest = max(last.values(), key=lambda step: step.generation)
            return self._step(Undo, [who for who, step in last.items() if step.batch == newest.batch], None)

    def _step(self, kind: type[Undo], raters: Sequence[str], base_generation: int | None) -> Saved | None:
        """Undo or redo the next action of each rater, or all of its batch, in one write; None where there is none."""
        with self.project.lock:
            state = self.project.state
            taken = [(who, step) for who in raters for step in _together(kind.steps(state, who))]
            if not taken:
                return None
            # Only the first can be compared with what the rater saw: the others follow from it.
            bases = [base_generation] + [None] * (len(taken) - 1)
            steps = [
                kind(rater=who, target=step.generation, base_generation=base)
                for (who, step), base in zip(taken, bases, strict=True)
            ]
            written = self.project.append(*steps)
            answers = {(who, step.query) for who, step in taken}
            return self._saved(written[-1], taken[-1][1].query, len(answers))

    # The guided start

    def start(self, rater: str | None = None) -> Start:
        """Return whether the guided start is due for a rater."""
        who = self._who(rater)
        with self.project.lock:
            state = self.project.state
            volunteered = sum(mark.origin == "volunteered" for mark in all_marks(state, who))
            due = (
                self.project.settings.guided_start
                and who not in state.starts_skipped
                and aligned(state) is None
                and all(state.queries[number].origin == "volunteered" for number in state.answered(who))
            )
            if due:
                marks = self.blindness.view(state, who).located.marks
                origins = [mark.origin for group in marks for mark in group]
                due = len(origins) < START_MARKS and set(origins) <= {"volunteered"}
            return Start(due, volunteered, START_MARKS)

    def skip_start(self, rater: str | None = None) -> Event:
        """Save that the rater skips the guided start."""
        return self.project.append(events.SkipStart(rater=self._who(rater)))[0]

    # The weights

    def refit(self) -> Fit | None:
        """Refit the weights to the annotations by the method of the project's model, and log them.

        Other threads are not held up. None where another process logged a fit meanwhile.
        """
        with self.project.lock:
            state = self.project.state.copy()
        return self._refit(state)

    def _refit(self, state: State) -> Fit | None:
        located = located_annotations(state, self.project.d, self._model.default_covariance)
        try:
            written = self.project.append(own_fit(self.project, located, state))[0]
        except ConflictError:
            return None
        assert isinstance(written, Fit)
        return written

    def refit_if_due(self) -> Fit | None:
        """Refit when the number of annotations has reached the next step; `notes` has failures."""
        if not self._refitting.acquire(blocking=False):
            return None
        try:
            with self.project.lock:
                state = self.project.state
                due = next_refit(self.project.settings, self._model.fit(state))
                count = 0 if due is None else len(standing_marks(state))
                if due is None or count < due or state.model_generation == self._failed_at or self.project.readonly:
                    return None
                # The state that says so is the one to fit to: in a later one another process may have refitted.
                state = state.copy()
            try:
                return self._refit(state)
            except WarpgaugeError as error:
                self._failed_at = state.model_generation
                self.notes.append(f"The weights could not be refitted to {counted(count, 'annotation')}: {error}")
                return None
        finally:
            self._refitting.release()

    # What organisers do, and landmarks that come in

    def exclude(self, query: int | Query, of: str, text: str = "", *, rater: str | None = None) -> Event:
        """Take a rater's mark out of the model; the rater's own list is not changed."""
        return self.project.append(events.Exclude(**self._about(query, rater), of=of, text=text))[0]

    def include(self, query: int | Query, of: str, text: str = "", *, rater: str | None = None) -> Event:
        """Take an excluded mark into the model again."""
        return self.project.append(events.Exclude(**self._about(query, rater), of=of, text=text, excluded=False))[0]

    def resolve(self, query: int | Query, text: str = "", *, rater: str | None = None) -> Event:
        """Settle a location as it stands: the fusion of its marks is taken."""
        return self.project.append(events.Resolve(**self._about(query, rater), text=text))[0]

    def import_landmarks(
        self, landmarks: Landmarks, rater: str | None = None, *, shared: bool = False
    ) -> tuple[Event, ...]:
        """Take landmarks in as answers, all or none; one `undo` takes them back.

        They are as `read_landmarks` gives them with the project's grids. Rows without a covariance get that of a plain
        click; rows that are switched off come in disabled. The ``rater`` placed them where they do not say or say
        otherwise. With ``shared`` the other raters are asked for these locations too.
        """
        with self.project.lock:
            return self.project.append(*import_events(self.project, self.project.state, landmarks, rater, shared))


def _together(steps: list[Step]) -> list[Step]:
    """Return the steps that are undone together, the last first: a whole batch, or one step."""
    if not steps or steps[-1].batch is None:
        return steps[-1:]
    batch = steps[-1].batch
    return list(takewhile(lambda step: step.batch == batch, reversed(steps)))
