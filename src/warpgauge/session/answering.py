"""Answers other than placements: skips, the guided start, undo and redo."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile

from warpgauge.project import Draft, Event
from warpgauge.project.records import Step
from warpgauge.session.gather import all_marks
from warpgauge.session.placements import Placing, Saved
from warpgauge.session.prior import aligned
from warpgauge.session.queries import START_MARKS, Query


@dataclass(frozen=True)
class Start:
    """Whether the guided start is due for a rater: landmarks of their own choice before the first suggestion.

    Attributes
    ----------
    due : bool
        Fewer than `wanted` landmarks are there, all of them volunteered, and the rater has not skipped the start.
    volunteered : int
        Landmarks that the rater has volunteered.
    wanted : int
        Landmarks that settle rotation, mirroring and scale.
    """

    due: bool
    volunteered: int
    wanted: int


class Answering(Placing):
    """The part of a session that saves answers."""

    def start(self, rater: str | None = None) -> Start:
        """Return whether the guided start is due for a rater."""
        who = self._who(rater)
        with self._lock:
            state = self.project.state
            origins = [mark.origin for group in self._shown(state, who).located.marks for mark in group]
            own = sum(mark.origin == "volunteered" for mark in all_marks(state, who))
            begun = any(
                cell.answer is not None and state.queries[number].origin != "volunteered"
                for (name, number), cell in state.cells.items()
                if name == who
            )
            due = (
                self.project.settings.guided_start
                and not begun
                and who not in state.starts_skipped
                and len(origins) < START_MARKS
                and set(origins) <= {"volunteered"}
                and aligned(state) is None
            )
            return Start(due, own, START_MARKS)

    def skip_start(self, rater: str | None = None) -> Event:
        """Save that the rater goes on without the guided start."""
        return self.project.append(Draft("start", self._who(rater), payload={"skipped": True}))[0]

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
        return self._save("skip", query, {"reason": reason, "text": text}, duration, base_generation, rater)

    def restore(self, query: int | Query, *, base_generation: int | None = None, rater: str | None = None) -> Saved:
        """Take a skip back: the query is open again."""
        return self._save("restore", query, {}, None, base_generation, rater)

    def disable(
        self, query: int | Query, text: str = "", *, base_generation: int | None = None, rater: str | None = None
    ) -> Saved:
        """Take the rater's own placement out of the model, without losing it."""
        return self._save("disable", query, {"text": text}, None, base_generation, rater)

    def enable(self, query: int | Query, *, base_generation: int | None = None, rater: str | None = None) -> Saved:
        """Take a disabled placement into the model again."""
        return self._save("enable", query, {}, None, base_generation, rater)

    def undo(self, rater: str | None = None, *, base_generation: int | None = None) -> Saved | None:
        """Undo the rater's last action (place, edit, skip, restore, disable, enable, or a whole import).

        None where there is none.
        """
        return self._step("undo", rater, base_generation)

    def undo_import(self) -> Saved | None:
        """Undo the last import, of all its raters, as far as they have done nothing since; None where there is none."""
        with self._lock:
            state = self.project.state
            tops = {who: steps[-1] for who, steps in state.done.items() if steps and steps[-1].batch is not None}
            if not tops:
                return None
            batch = max(tops.values(), key=lambda step: step.generation).batch
            return self._take_back("undo", [who for who, step in tops.items() if step.batch == batch], None)

    def redo(self, rater: str | None = None, *, base_generation: int | None = None) -> Saved | None:
        """Redo what was undone last; None where there is nothing."""
        return self._step("redo", rater, base_generation)

    def _step(self, kind: str, rater: str | None, base_generation: int | None) -> Saved | None:
        who = self._who(rater)
        with self._lock:
            state = self.project.state
            steps = (state.done if kind == "undo" else state.undone).get(who, [])
            if not steps:
                return None
            return self._take_back(kind, [who], base_generation)

    def _take_back(self, kind: str, raters: list[str], base_generation: int | None) -> Saved:
        """Undo or redo the next action of each rater, or all of its batch, in one writing."""
        state, taken = self.project.state, list[tuple[str, Step]]()
        for who in raters:
            steps = (state.done if kind == "undo" else state.undone)[who]
            taken += [(who, step) for step in _together(steps)]
        drafts = [Draft(kind, who, payload={"target": step.generation}) for who, step in taken]
        drafts[0] = replace(drafts[0], base_generation=base_generation)
        events = self.project.append(*drafts)
        answers = {(who, step.query) for who, step in taken}
        return replace(self._saved(events[-1], taken[-1][1].query), count=len(answers))


def _together(steps: list[Step]) -> list[Step]:
    """Return the steps that are taken back as one, the last first: a whole batch, or one step."""
    batch = steps[-1].batch
    if batch is None:
        return steps[-1:]
    return list(takewhile(lambda step: step.batch == batch, reversed(steps)))
