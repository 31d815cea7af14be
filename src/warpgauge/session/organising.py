"""The organiser's adjudication, and landmarks in and out."""

from __future__ import annotations

from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks import Landmarks
from warpgauge.project import Draft, Event
from warpgauge.session.agreement import Agreement, agreement
from warpgauge.session.base import SessionBase, number_of
from warpgauge.session.exchange import fused_landmarks, import_drafts, raters_landmarks
from warpgauge.session.import_checks import import_problems
from warpgauge.session.queries import Query


class Organising(SessionBase):
    """The part of a session that is not for raters."""

    def exclude(self, query: int | Query, of: str, text: str = "", *, rater: str | None = None) -> Event:
        """Take a rater's mark out of the model; the rater's own list is not changed."""
        return self.project.append(Draft("exclude", self._who(rater), number_of(query), {"of": of, "text": text}))[0]

    def include(self, query: int | Query, of: str, text: str = "", *, rater: str | None = None) -> Event:
        """Take an excluded mark into the model again."""
        return self.project.append(Draft("include", self._who(rater), number_of(query), {"of": of, "text": text}))[0]

    def resolve(self, query: int | Query, text: str = "", *, rater: str | None = None) -> Event:
        """Settle a location as it stands: the fusion of its marks is taken."""
        return self.project.append(Draft("resolve", self._who(rater), number_of(query), {"text": text}))[0]

    def ask_again(self, query: int | Query, of: str | None = None, *, rater: str | None = None) -> Event:
        """Ask a location again, one rater or all; the new answer takes the place of the former one."""
        who, number = self._who(rater), number_of(query)
        with self._lock:
            queries = self.project.state.queries
            if not 0 <= number < len(queries):
                raise InvalidInputError(f"There is no query {number}; the list has {len(queries)}.")
            first = queries[queries[number].location]
            payload = {
                "point": list(first.point),
                "candidate": first.candidate,
                "origin": "again",
                "same_as": first.number,
                "for_rater": of,
                "gain": first.gain,
            }
            return self.project.append(Draft("query", who, len(queries), payload))[0]

    def agreement(self) -> Agreement:
        """Show raters and locations side by side: progress, bias, scatter, distances, fused ellipses."""
        with self._lock:
            state = self.project.state
            return agreement(state, self._model.view(state, None).located, self.project.settings.alpha)

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
        with self._lock:
            state = self.project.state
            default = self._model.default_covariance
            return self.project.append(*import_drafts(self.project, state, landmarks, rater, shared, default))

    def import_problems(self, landmarks: Landmarks) -> list[str]:
        """Return what is probably wrong with landmarks for this project, one clause each; nothing is written.

        Rows that fit in another order, most points outside their image, and misreadings (sides exchanged, another
        scale, indices for world points, flipped axes) under which the images are clearly more alike at the pairs.
        """
        return import_problems(self.project, landmarks)

    def landmarks(self, rater: str | None = None, *, fused: bool = False) -> Landmarks:
        """Return all marks and skips that stand (of all raters or one), or, ``fused``, what the model rests on."""
        with self._lock:
            state = self.project.state
            if fused:
                return fused_landmarks(self.project, state, self._model.view(state, rater).located)
            return raters_landmarks(self.project, state, rater)
