"""Base of all parts of a session: the project, the model, and each rater's current query."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from warpgauge.errors import InvalidInputError
from warpgauge.project import Placement, Project, State
from warpgauge.project.events import checked_name
from warpgauge.session.model import Model, View
from warpgauge.session.predictions import Prediction, predict
from warpgauge.session.queries import Query, position


@dataclass(frozen=True, eq=False)
class Held:
    """What a rater has before them: a query, and the model as it was when the query was handed out."""

    number: int
    view: View
    prediction: Prediction


class SessionBase:
    """State of a session; see `warpgauge.session.Session`."""

    def __init__(self, project: Project, rater: str | None = None, *, auto_refit: bool = True) -> None:
        self.project, self.auto_refit = project, auto_refit
        self.rater = None if rater is None else checked_name(rater)
        self.notes: list[str] = []
        # The project's own lock: while it is held, no other thread changes the state.
        self._lock = project.lock
        self._model = Model(project)
        self._held: dict[str, Held] = {}
        self._fitting = threading.Lock()
        self._failed_at = 0

    def _who(self, rater: str | None) -> str:
        who = rater if rater is not None else self.rater
        if who is None:
            raise InvalidInputError("Say who acts: give the session or the call a rater.")
        return who

    def _shown(self, state: State, who: str) -> View:
        """Return the model that a rater may see: that of their own answers in a blind project."""
        return self._model.view(state, who if self.project.settings.blind else None)

    def _hand_out(self, state: State, number: int, who: str) -> Query:
        record, settings = state.queries[number], self.project.settings
        view = self._shown(state, who)
        answered = isinstance(state.answer(who, number), Placement)
        # A former answer is compared with what the other locations say: its own mark would only agree with itself.
        posterior = view.without(record.location) if answered else view.posterior
        prediction = predict(posterior, record.point, self.project.moving_grid, settings.alpha)
        self._held[who] = Held(number, view, prediction)
        return Query(
            number,
            who,
            record.point,
            position(state, who, number),
            settings.budget,
            record.gain,
            self._why(record.origin, record.gain, prediction.sd),
            None if settings.hide_prediction else prediction,
            state.cell(who, number),
            state.generation,
        )

    def _why(self, origin: str, gain: float | None, sd: float) -> str:
        figure = f"{sd:.2g}" if sd < 100 else f"{sd:.0f}"  # no exponent
        settings, known = self.project.settings, f"it is now known to {figure} {self.project.units}"
        if origin == "volunteered":
            return f"You chose this location; {known}."
        if origin == "given" or gain is None:
            return f"This location was brought along with landmarks; {known}."
        if settings.chosen_strategy not in ("information", "entropy"):
            return f"Chosen by the strategy {settings.chosen_strategy!r}; {known}."
        return f"Asked because its match tells most about the rest of the image; {known}."


def number_of(query: int | Query) -> int:
    """Return the number of a query however it is given."""
    return query.number if isinstance(query, Query) else int(query)
