"""The state is a fold over the log: the rules of answers, undo and redo, held against a simple model."""

from __future__ import annotations

import copy

import hypothesis.strategies as st
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from project.tools import edit, place, query, skip
from warpgauge.errors import InvalidInputError
from warpgauge.project import ConflictError, Draft, Event, Placement, ProjectError, Skipped, State, replay
from warpgauge.project.kinds import check, checked
from warpgauge.project.records import SKIP_REASONS

QUERIES = 4
RATERS = ("ada", "ben")


def events_of(drafts: list[Draft]) -> list[Event]:
    """Number drafts as the log would."""
    return [
        Event(**vars(checked(draft, 2)), generation=number, time=f"t{number}")
        for number, draft in enumerate(drafts, start=1)
    ]


class Folding(RuleBasedStateMachine):
    """Any sequence of actions, held against dictionaries whose whole content is copied before each action."""

    def __init__(self) -> None:
        super().__init__()
        self.drafts: list[Draft] = []
        self.state = State()
        # The simple model: answers of each rater, and stacks of whole copies for undo and redo.
        self.answers: dict[str, dict[int, tuple[object, bool]]] = {rater: {} for rater in RATERS}
        self.before: dict[str, list[dict[int, tuple[object, bool]]]] = {rater: [] for rater in RATERS}
        self.later: dict[str, list[dict[int, tuple[object, bool]]]] = {rater: [] for rater in RATERS}

    def write(self, draft: Draft) -> None:
        clean = checked(draft, 2)
        check(self.state, clean)
        self.drafts.append(clean)
        replay(events_of(self.drafts)[-1:], self.state)

    def refused(self, draft: Draft) -> None:
        with pytest.raises(InvalidInputError):
            check(self.state, checked(draft, 2))

    @initialize()
    def ask(self) -> None:
        for number in range(QUERIES):
            self.write(query(number, (float(number), 0.0)))

    def act(self, rater: str, number: int, draft: Draft, after: tuple[object, bool] | None, allowed: bool) -> None:
        if not allowed:
            self.refused(draft)
            return
        self.write(draft)
        self.before[rater].append(copy.deepcopy(self.answers[rater]))
        self.later[rater].clear()
        if after is None:
            self.answers[rater].pop(number, None)
        else:
            self.answers[rater][number] = after

    @rule(rater=st.sampled_from(RATERS), number=st.integers(0, QUERIES - 1), x=st.integers(0, 9))
    def place(self, rater: str, number: int, x: int) -> None:
        said = self.answers[rater].get(number)
        allowed = said is None or said[0] in SKIP_REASONS
        self.act(rater, number, place(number, (x, 1.0), rater), ((float(x), 1.0), False), allowed)

    @rule(rater=st.sampled_from(RATERS), number=st.integers(0, QUERIES - 1), x=st.integers(0, 9))
    def edit(self, rater: str, number: int, x: int) -> None:
        said = self.answers[rater].get(number)
        allowed = said is not None and said[0] not in SKIP_REASONS
        after = ((float(x), 2.0), bool(said and said[1]))
        self.act(rater, number, edit(number, (x, 2.0), rater), after, allowed)

    @rule(rater=st.sampled_from(RATERS), number=st.integers(0, QUERIES - 1), reason=st.sampled_from(SKIP_REASONS))
    def skip(self, rater: str, number: int, reason: str) -> None:
        said = self.answers[rater].get(number)
        self.act(rater, number, skip(number, reason, rater), (reason, False), not said or said[0] not in SKIP_REASONS)

    @rule(rater=st.sampled_from(RATERS), number=st.integers(0, QUERIES - 1))
    def restore(self, rater: str, number: int) -> None:
        said = self.answers[rater].get(number)
        self.act(rater, number, Draft("restore", rater, number), None, bool(said and said[0] in SKIP_REASONS))

    @rule(
        rater=st.sampled_from(RATERS), number=st.integers(0, QUERIES - 1), kind=st.sampled_from(["disable", "enable"])
    )
    def switch(self, rater: str, number: int, kind: str) -> None:
        said = self.answers[rater].get(number)
        allowed = said is not None and said[0] not in SKIP_REASONS and said[1] == (kind == "enable")
        after = None if said is None else (said[0], kind == "disable")
        self.act(rater, number, Draft(kind, rater, number), after, allowed)

    @rule(rater=st.sampled_from(RATERS))
    def undo(self, rater: str) -> None:
        if not self.before[rater]:
            assert not self.state.done.get(rater)
            self.refused(Draft("undo", rater, payload={"target": 1}))
            return
        self.write(Draft("undo", rater, payload={"target": self.state.done[rater][-1].generation}))
        self.later[rater].append(self.answers[rater])
        self.answers[rater] = self.before[rater].pop()

    @rule(rater=st.sampled_from(RATERS))
    def redo(self, rater: str) -> None:
        if not self.later[rater]:
            assert not self.state.undone.get(rater)
            self.refused(Draft("redo", rater, payload={"target": 1}))
            return
        self.write(Draft("redo", rater, payload={"target": self.state.undone[rater][-1].generation}))
        self.before[rater].append(self.answers[rater])
        self.answers[rater] = self.later[rater].pop()

    @precondition(lambda self: len(self.drafts) > QUERIES)
    @rule()
    def stale_write_is_a_conflict(self) -> None:
        """An action based on the state before the rater's last change of that query is refused with that event."""
        last = self.drafts[-1]
        if last.query is None or last.kind == "query":
            return
        with pytest.raises(ConflictError) as caught:
            check(self.state, skip(last.query, "other", last.rater, base_generation=self.state.generation - 1))
        assert caught.value.newer.generation == self.state.generation

    @invariant()
    def same_answers(self) -> None:
        for rater in RATERS:
            found = {}
            for number in range(len(self.state.queries)):
                cell = self.state.cell(rater, number)
                if isinstance(cell.answer, Placement):
                    found[number] = (cell.answer.point, cell.disabled)
                elif isinstance(cell.answer, Skipped):
                    found[number] = (cell.answer.reason, cell.disabled)
            assert found == self.answers[rater]

    def teardown(self) -> None:
        """A replay of the whole log gives the state that was reached step by step."""
        assert replay(events_of(self.drafts)) == self.state


TestFolding = Folding.TestCase
TestFolding.settings = hypothesis_settings(max_examples=60, stateful_step_count=40)


def test_conflict_is_only_with_the_same_rater_and_query() -> None:
    """Another rater's answer, or another query's, is no conflict."""
    state = replay(events_of([query(0), query(1), place(0), place(0, rater="ben"), place(1)]))
    check(state, edit(0, (1.0, 1.0), base_generation=3))
    with pytest.raises(ConflictError) as caught:
        check(state, edit(0, (1.0, 1.0), base_generation=2))
    assert caught.value.newer.generation == 3
    with pytest.raises(ConflictError):
        check(state, Draft("undo", "ada", payload={"target": 5}, base_generation=4))


def test_a_gap_or_an_impossible_event_says_which() -> None:
    """Replaying a log that cannot be, names the event."""
    events = events_of([query(0), place(0), place(0)])
    with pytest.raises(ProjectError, match="Event 3 of the log cannot be applied"):
        replay(events)
    with pytest.raises(ProjectError, match="generation 2 was expected"):
        replay([events[0], Event("restore", "ada", 0, generation=3)])


def test_exclusion_outlives_edits_and_undo() -> None:
    """A mark that the organiser took out stays out, whatever the rater does, until it is included."""
    out = Draft("exclude", "olga", 0, {"of": "ada"})
    state = replay(events_of([query(0), place(0), out]))
    assert not state.in_model("ada", 0)
    later = [query(0), place(0), out, edit(0, (3.0, 3.0)), Draft("undo", "ada", payload={"target": 4})]
    assert not replay(events_of(later)).in_model("ada", 0)
    assert replay(events_of([*later, Draft("include", "olga", 0, {"of": "ada"})])).in_model("ada", 0)


def test_a_query_for_one_rater_is_refused_to_another() -> None:
    """Who is not asked cannot answer."""
    state = replay(events_of([query(0, for_rater="ben")]))
    check(state, checked(place(0, rater="ben"), 2))
    with pytest.raises(InvalidInputError, match="for ben only"):
        check(state, checked(place(0), 2))


def test_copies_are_independent() -> None:
    """Advancing a copy leaves the original as it was."""
    events = events_of([query(0), place(0), skip(0), Draft("undo", "ada", payload={"target": 3})])
    state = replay(events[:3])
    before = replay(events[:3])
    replay(events[3:], state.copy())
    assert state == before


@pytest.mark.parametrize(
    ("draft", "sentence"),
    [
        (Draft("jump", "ada"), "must be one of query"),
        (Draft("place", "ada", None, place(0).payload), "needs query"),
        (Draft("place", " ada", 0, place(0).payload), "without blanks"),
        (Draft("place", "a\nb", 0, place(0).payload), "line break"),
        (place(0, (float("nan"), 0.0)), "not finite"),
        (Draft("place", "ada", 0, {**place(0).payload, "covariance": [[1, 2], [2, 1]]}), "not positive definite"),
        (Draft("place", "ada", 0, {**place(0).payload, "covariance": "wide"}), "2 x 2 matrix"),
        (Draft("place", "ada", 0, {**place(0).payload, "alpha": 1.5}), "between 0 and 1"),
        (skip(0, "lazy"), "must be one of not_visible"),
        (skip(0, "other", text="bell\a"), "control characters"),
        (place(0, duration=-1.0), "at least 0"),
        (Draft("fit", "ada", payload={"scales": [1, 2], "weights": [1]}), "one positive weight"),
    ],
)
def test_drafts_are_checked(draft: Draft, sentence: str) -> None:
    """What could not be stored or understood later is refused with a sentence that says what is wrong."""
    with pytest.raises(InvalidInputError, match=sentence):
        checked(draft, 2)
