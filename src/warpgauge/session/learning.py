"""Weights of the kernel: refitted as annotations come in, or learned from other projects."""

from __future__ import annotations

from collections.abc import Sequence

from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.io.files import PathLike
from warpgauge.project import ConflictError, Draft, Event, Project
from warpgauge.session.base import SessionBase
from warpgauge.session.fitting import next_refit, own_fit, trained_fit
from warpgauge.session.gather import standing_marks
from warpgauge.session.queries import PROGRAM


class Learning(SessionBase):
    """The part of a session that learns."""

    def refit(self, *, noise: bool = False) -> Event | None:
        """Refit the weights to the annotations in the way of the project's model, and log them.

        The work is done without holding up other threads. None where another process logged a fit meanwhile. Whoever
        has a query before them keeps the model that it was handed out with.
        """
        with self._lock:
            state = self.project.state.copy()
            located = self._model.view(state, None).located
        payload = own_fit(self.project, located, state.generation, noise)
        payload["replaces"] = state.fits[-1].generation if state.fits else 0
        try:
            event = self.project.append(Draft("fit", PROGRAM, payload=payload))[0]
        except ConflictError:
            return None
        self._prepare()
        return event

    def refit_if_due(self) -> Event | None:
        """Refit when the number of annotations has reached the next step of the settings (3, 5, 8, 12, 18, ...).

        A fit that fails leaves the weights as they are, is noted in ``notes``, and is tried again with more
        annotations.
        """
        if not self._fitting.acquire(blocking=False):
            return None
        try:
            with self._lock:
                state = self.project.state
                due = next_refit(self.project.settings, self._model.fit(state))
                count = 0 if due is None else len(standing_marks(state))
            if due is None or count < due or count == self._failed_at or self.project.readonly:
                return None
            try:
                return self.refit()
            except WarpgaugeError as error:
                self._failed_at = count
                self.notes.append(f"The weights could not be refitted to {count} annotations: {error}")
                return None
        finally:
            self._fitting.release()

    def fit_from(self, others: Sequence[Project | PathLike], *, noise: bool = False, rater: str = PROGRAM) -> Event:
        """Learn the weights from the annotations of other projects, and log them with where they came from.

        From then on they are not refitted automatically.
        """
        opened = [other if isinstance(other, Project) else Project.open(other, check_images=False) for other in others]
        try:
            if any(other.id == self.project.id for other in opened):
                raise InvalidInputError("A project cannot be among the other projects that it learns from.")
            payload = trained_fit(self.project, opened, noise)
        finally:
            for given, project in zip(others, opened, strict=True):
                if not isinstance(given, Project):
                    project.close()
        event = self.project.append(Draft("fit", rater, payload=payload))[0]
        self._prepare()
        return event

    def _prepare(self) -> None:
        """Build the Suggester for the last fit now, so that the next query does not have to wait for it."""
        with self._lock:
            state = self.project.state.copy()
        prepared = self._model.prepared(state)
        with self._lock:
            self._model.take(prepared)
