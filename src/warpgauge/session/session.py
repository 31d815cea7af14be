"""The loop of suggesting, annotating and refitting, without HTTP or a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.annotations import Annotations
from warpgauge.core.process import Posterior, TransformationPrior
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import PathLike
from warpgauge.io.landmarks import Landmarks
from warpgauge.project import Event, Placement, Project, Skip, events
from warpgauge.project.events import Fit
from warpgauge.project.names import checked_name
from warpgauge.session.agreement import Agreement, agreement
from warpgauge.session.answers import Answers, Question, Saved, Start
from warpgauge.session.blindness import Blindness
from warpgauge.session.landmark_exchange import fused_landmarks, import_events, own_landmarks, raters_landmarks
from warpgauge.session.mark_list import ListRow
from warpgauge.session.model import Model, View
from warpgauge.session.prior import default_radius
from warpgauge.session.progress import Overview, Progress
from warpgauge.session.queries import PROGRAM, Prediction, Query, number_of
from warpgauge.session.query_queue import QueryQueue
from warpgauge.session.refit import Refitter


class Session:
    """Work on a project, for one rater or for a server that speaks for many.

    One `Session` serves any number of raters and threads, and follows what other processes write. A refit, or another
    rater's answer, never changes what a rater is looking at: `prediction` and `view` stay those of the moment at which
    the query was handed out (by `next_query`, `another`, `previous`, `following`, `go_to`), until the next one is.

    Parameters
    ----------
    project : Project
    rater : str, optional
        Who acts where a call does not say.
    auto_refit : bool
        Refit the weights within `next_query` when that is due. A server may switch this off and call
        `refit_if_due` from another thread instead, so that nobody waits.
    question : callable, optional
        Given a `Doubt` and a rater, returns what to ask before a placement that looks like a slip is saved, or None.
        What is asked raises `UnconfirmedError`, unless the placement is confirmed. By default nobody is asked: such a
        placement is saved with a `SuspiciousDataWarning`. The log flags it either way.

    Attributes
    ----------
    notes : list of str
        What went wrong without harm, as a refit that failed.
    blindness : Blindness
        What each rater may receive.
    """

    def __init__(
        self,
        project: Project,
        rater: str | None = None,
        *,
        auto_refit: bool = True,
        question: Question | None = None,
    ) -> None:
        self.project = project
        self.auto_refit = auto_refit
        self.rater = None if rater is None else checked_name(rater)
        self._model = Model(project)
        self.blindness = Blindness(self._model)
        self._overview = Overview(self.blindness)
        self._queue = QueryQueue(self.blindness, self._overview)
        self._answers = Answers(self.blindness, self._queue, question)
        self._refitter = Refitter(self._model)
        self.notes = self._refitter.notes

    def _who(self, rater: str | None) -> str:
        who = rater if rater is not None else self.rater
        if who is None:
            raise InvalidInputError("Say who acts: give the session or the call a rater.")
        return who

    # Questions

    def next_query(self, rater: str | None = None, *, beyond: bool = False) -> Query | None:
        """Hand out the first query of the list that the rater has not answered.

        At the end of the list it is extended, unless a stop rule is met (``beyond`` goes on all the same). When nothing
        else is left, queries that were put aside come again, the oldest first; None means that the rater is done.
        """
        who = self._who(rater)
        if self.auto_refit:
            self.refit_if_due()
        return self._queue.next(who, beyond)

    def another(self, query: int | Query, rater: str | None = None) -> Query | None:
        """Put a query aside and hand out the next best instead; it comes again when nothing else is left."""
        who = self._who(rater)
        self.project.append(events.Defer(rater=who, query=number_of(query)))
        return self.next_query(who)

    def previous(self, query: int | Query | None = None, rater: str | None = None) -> Query | None:
        """Hand out the query that the rater answered or put aside before this one (or last); None at the first."""
        return self._queue.previous(self._who(rater), None if query is None else number_of(query))

    def following(self, query: int | Query, rater: str | None = None) -> Query | None:
        """Hand out the query that came after this one, or a new one after the last."""
        who = self._who(rater)
        with self.project.lock:
            return self._queue.following(who, number_of(query)) or self.next_query(who)

    def go_to(self, query: int | Query, rater: str | None = None) -> Query:
        """Hand out any query of the list."""
        return self._queue.at(self._who(rater), number_of(query))

    def choose_places(
        self, points: ArrayLike | None = None, rater: str | None = None
    ) -> tuple[tuple[float, ...], float] | None:
        """Choose places in the fixed image that all raters are asked, before anybody has answered.

        Parameters
        ----------
        points : (n, d) array, optional
            Chosen places, in the fixed image's world: they become questions of all raters, at exactly these places.
        rater : str, optional
            An organiser.

        Returns
        -------
        (point, radius) or None
            The next circle to choose a place in, in the fixed image's world: by the places chosen so far and nobody's
            answers. None where no candidate is left.
        """
        return self._queue.choose_places(points, self._who(rater))

    def warm(self) -> None:
        """Bring the model and the gains up to date now, so that the first query does not wait for it."""
        with self.project.lock:
            state = self.project.state
            self._model.view(state, None).posterior  # noqa: B018  # made when it is asked for
            self._model.suggester(state).best()

    # Answers

    def drawn(
        self,
        moving: ArrayLike,
        covariance: ArrayLike | None = None,
        *,
        ellipse: tuple[ArrayLike, ArrayLike] | None = None,
        radius: float | None = None,
        alpha: float | None = None,
        fixed: ArrayLike | None = None,
    ) -> Placement:
        """Return a placement as `Placement.drawn` makes it.

        ``alpha`` is the project's by default, and so is the radius where no uncertainty is given.
        """
        settings, d = self.project.settings, self.project.d
        if covariance is None and ellipse is None:
            size = default_radius(self.project.fixed_grid, settings) if radius is None else radius
            ellipse, radius = (np.full(d, size), np.eye(d)), None
        level = settings.alpha if alpha is None else alpha
        return Placement.drawn(moving, covariance, alpha=level, ellipse=ellipse, radius=radius, fixed=fixed)

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

        Parameters
        ----------
        query : int or Query or None
            None: a landmark of the rater's own choice, at ``fixed``; only this rater has it.
        moving : (d,) array or Placement
            In the moving image's world; a `Placement` says its uncertainty and its place itself.
        covariance : (d, d) array, optional
        fixed : (d,) array, optional
            The place in the fixed image that was chosen within the circle of the query (`Query.radius`); without it, a
            place that was chosen before stays, else it is the point of the query.
        radius : float, optional
            Of a disc or ball; the project's default radius where nothing is given.
        ellipse : (half_lengths, axes), optional
            Drawn to hold the match with probability ``1 - alpha``; axes are orthonormal columns.
        alpha : float, optional
            The project's by default.
        name : str
            What a place of one's own choice is, for lists and exports.
        confirmed : bool
            The rater was asked about a placement outside the image or far from a prediction that is known well, and
            keeps it; see ``question`` of the session.
        duration : float, optional
            Seconds.
        base_generation : int, optional
            ``Query.generation``: a change by the same rater since then raises `ConflictError`.
        """
        if isinstance(moving, Placement):
            if any(given is not None for given in (covariance, ellipse, radius, alpha, fixed)):
                raise InvalidInputError("A Placement says its uncertainty and its place itself; give nothing besides.")
            placement = moving
        else:
            placement = self.drawn(moving, covariance, ellipse=ellipse, radius=radius, alpha=alpha, fixed=fixed)
        number = None if query is None else number_of(query)
        action = events.Place(
            rater=self._who(rater),
            query=number,
            placement=placement,
            duration=duration,
            base_generation=base_generation,
        )
        if number is None:
            return self._answers.volunteer(action, name, confirmed)
        return self._answers.place(action, confirmed)

    def volunteer(
        self, fixed: ArrayLike, moving: ArrayLike, covariance: ArrayLike | None = None, **options: Any
    ) -> Saved:
        """Save a landmark of the rater's own choice: `place` without a query."""
        return self.place(None, moving, covariance, fixed=fixed, **options)

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
        about = self._about(query, rater, base_generation)
        return self._answers.save(events.Skip(**about, reason=reason, text=text, duration=duration))

    def restore(self, query: int | Query, *, base_generation: int | None = None, rater: str | None = None) -> Saved:
        """Take a skip back: the query is open again."""
        return self._answers.save(events.Restore(**self._about(query, rater, base_generation)))

    def disable(
        self, query: int | Query, text: str = "", *, base_generation: int | None = None, rater: str | None = None
    ) -> Saved:
        """Take the rater's own placement out of the model, without losing it."""
        return self._answers.save(events.Disable(**self._about(query, rater, base_generation), text=text))

    def enable(self, query: int | Query, *, base_generation: int | None = None, rater: str | None = None) -> Saved:
        """Take a disabled placement into the model again."""
        return self._answers.save(events.Disable(**self._about(query, rater, base_generation), disabled=False))

    def _about(self, query: int | Query, rater: str | None, base_generation: int | None = None) -> dict[str, Any]:
        return {"rater": self._who(rater), "query": number_of(query), "base_generation": base_generation}

    def undo(self, rater: str | None = None, *, base_generation: int | None = None) -> Saved | None:
        """Undo the rater's last action (place, skip, restore, disable, or a whole import), if any."""
        return self._answers.undo(self._who(rater), base_generation)

    def redo(self, rater: str | None = None, *, base_generation: int | None = None) -> Saved | None:
        """Redo what was undone last; None where there is nothing."""
        return self._answers.redo(self._who(rater), base_generation)

    def undo_import(self) -> Saved | None:
        """Undo the last import for all its raters, unless they have acted since; None if there is no such import."""
        return self._answers.undo_import()

    def start(self, rater: str | None = None) -> Start:
        """Return whether the guided start is due for a rater."""
        return self._answers.start(self._who(rater))

    def skip_start(self, rater: str | None = None) -> Event:
        """Save that the rater skips the guided start."""
        return self.project.append(events.SkipStart(rater=self._who(rater)))[0]

    # The model

    def prediction(self, query: int | Query, rater: str | None = None) -> Prediction:
        """Predict the match of a query, in the moving frame, from what the rater may see.

        It stays as it was handed out for the query that the rater has before them.
        """
        return self._queue.prediction(self._who(rater), number_of(query))

    def view(self, rater: str | None = None, *, everybody: bool = False) -> Posterior:
        """Return the posterior of a rater's linked views; it does not change while a query is shown.

        With ``everybody``, for a person who may see them, that of the answers of all, as they are now. An answer of
        their own at the place that they have before them is left out of either.
        """
        return self._queue.view(self._who(rater), everybody)

    def posterior(self, rater: str | None = None) -> Posterior:
        """Return the posterior given all annotations (raters fused), or given one rater's own."""
        return self._view(rater).posterior

    def annotations(self, rater: str | None = None) -> Annotations:
        """Return all annotations, raters fused where several answered, or one rater's own with their covariances."""
        return self._view(rater).located.annotations

    def _view(self, rater: str | None) -> View:
        with self.project.lock:
            return self._model.view(self.project.state, rater)

    def prior(self) -> TransformationPrior:
        """Return the current prior."""
        with self.project.lock:
            return self._model.prior(self.project.state)

    def refit(self, *, noise: bool = False) -> Fit | None:
        """Refit the weights to the annotations by the method of the project's model, and log them.

        Other threads are not held up. None where another process logged a fit meanwhile.
        """
        return self._refitter.refit(noise)

    def refit_if_due(self) -> Fit | None:
        """Refit when the number of annotations has reached the next step; `notes` has failures."""
        return self._refitter.refit_if_due()

    def fit_from(self, others: Sequence[Project | PathLike], *, noise: bool = False, rater: str = PROGRAM) -> Fit:
        """Learn the weights from other projects and log them; from then on they are not refitted automatically."""
        return self._refitter.fit_from(others, noise, rater)

    # Overviews

    def progress(self, rater: str | None = None, *, viewer: str | None = None) -> Progress:
        """Return the progress of one rater (counts and times), or, for None, of all, as the ``viewer`` may see it.

        A rater of a blind project is told the uncertainty that their own answers leave, and, where raters are
        registered, whether the list has come to its end by their own answers.
        """
        return self._overview.progress(rater, viewer)

    def listing(self, rater: str | None = None, *, viewer: str | None = None) -> list[ListRow]:
        """List marks with leave-one-out residuals and flags: one rater's, or, for None, those of all.

        In a blind project a rater's marks are compared with that rater's other marks, otherwise with all marks. What
        the rater or the ``viewer`` must not see now is left out (`Blindness`), and so are sealed answers of others.
        """
        return self._overview.listing(rater, viewer)

    def detectable(self, rater: str | None = None, *, viewer: str | None = None) -> float | None:
        """Return how long a slip must be, in world units, to be found among these marks wherever it is.

        None where there are too few marks to compare them with each other. The parameters are those of `listing`.
        """
        return self._overview.detectable(rater, viewer)

    def skipped(self, rater: str | None = None, *, viewer: str | None = None) -> list[tuple[str, int, Skip]]:
        """List the skips in force as rater, query and reason: one rater's, or, for None, those of all."""
        return self._overview.skipped(rater, viewer)

    def agreement(self) -> Agreement:
        """Show raters and locations side by side: progress, bias, scatter, distances, fused ellipses."""
        with self.project.lock:
            state = self.project.state
            return agreement(state, self._model.view(state, None).located, self.project.settings.alpha)

    # What organisers do

    def exclude(self, query: int | Query, of: str, text: str = "", *, rater: str | None = None) -> Event:
        """Take a rater's mark out of the model; the rater's own list is not changed."""
        return self.project.append(events.Exclude(**self._about(query, rater), of=of, text=text))[0]

    def include(self, query: int | Query, of: str, text: str = "", *, rater: str | None = None) -> Event:
        """Take an excluded mark into the model again."""
        return self.project.append(events.Exclude(**self._about(query, rater), of=of, text=text, excluded=False))[0]

    def resolve(self, query: int | Query, text: str = "", *, rater: str | None = None) -> Event:
        """Settle a location as it stands: the fusion of its marks is taken."""
        return self.project.append(events.Resolve(**self._about(query, rater), text=text))[0]

    def ask_again(self, query: int | Query, of: str | None = None, *, rater: str | None = None) -> Event:
        """Ask one rater or all for a location again; the new answer replaces the previous one."""
        return self._queue.ask_again(self._who(rater), number_of(query), of)

    # Landmarks in and out

    def import_landmarks(
        self, landmarks: Landmarks, rater: str | None = None, *, shared: bool = False
    ) -> tuple[Event, ...]:
        """Take landmarks in as answers, all or none; one `undo` takes them back.

        Parameters
        ----------
        landmarks : Landmarks
            As `read_landmarks` gives them with the project's grids. Rows without a covariance get that of a plain
            click; rows that are switched off come in disabled.
        rater : str, optional
            Who placed them, where the landmarks do not say or say otherwise.
        shared : bool
            Ask the other raters for these locations too.
        """
        with self.project.lock:
            default = self._model.default_covariance
            new = import_events(self.project, self.project.state, landmarks, rater, shared, default)
            return self.project.append(*new)

    def own_landmarks(self, rater: str | None = None) -> Landmarks:
        """Return a rater's marks and skips as that rater may have them now; see `Blindness`."""
        who = self._who(rater)
        with self.project.lock:
            state = self.project.state
            return own_landmarks(self.project, state, who, self.blindness.left_out(state, who))

    def landmarks(self, rater: str | None = None, *, fused: bool = False) -> Landmarks:
        """Return all current marks and skips (of all raters or one), or, with ``fused``, what the model uses."""
        with self.project.lock:
            state = self.project.state
            if fused:
                return fused_landmarks(self.project, state, self._model.view(state, rater).located)
            return raters_landmarks(self.project, state, rater)
