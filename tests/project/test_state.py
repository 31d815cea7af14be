"""The state is a fold over the log: the rules of answers, undo and redo, held against a simple model."""

from __future__ import annotations

import copy
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from project.tools import PLACED, draft, edit, place, query, skip
from warpgauge.errors import InvalidInputError
from warpgauge.project import SKIP_REASONS, ConflictError, Event, ProjectError, Skip, State, replay
from warpgauge.project.events import check, read_event
from warpgauge.session.fused_annotations import standing_marks

FIT = {"family": "wendland", "noise": 0.0, "scales": [1, 2], "weights": [1]}
QUERIES = 4
RATERS = ("ada", "ben")


def entry_of(event: Event, generation: int) -> Event:
    """An event as it would be read from the log."""
    return read_event((generation, f"2026-05-14T09:30:{generation % 60:02}Z", *event.columns()))


def replayed(events: list[Event], state: State | None = None) -> State:
    """The state after events that are numbered as the log would."""
    first = 1 if state is None else state.generation + 1
    return replay((entry_of(event, number) for number, event in enumerate(events, start=first)), 2, state)


class Folding(RuleBasedStateMachine):
    """Any sequence of actions, held against dictionaries whose whole content is copied before each action."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.state = State()
        # The simple model: answers of each rater, and stacks of whole copies for undo and redo.
        self.answers: dict[str, dict[int, tuple[object, bool]]] = {rater: {} for rater in RATERS}
        self.before: dict[str, list[dict[int, tuple[object, bool]]]] = {rater: [] for rater in RATERS}
        self.later: dict[str, list[dict[int, tuple[object, bool]]]] = {rater: [] for rater in RATERS}

    def write(self, event: Event) -> None:
        check(self.state, event)
        self.events.append(event)
        replayed([event], self.state)

    def refused(self, event: Event) -> None:
        with pytest.raises(InvalidInputError):
            check(self.state, event)

    @initialize()
    def ask(self) -> None:
        for number in range(QUERIES):
            self.write(query(number, (float(number), 0.0)))

    def act(self, rater: str, number: int, event: Event, after: tuple[object, bool] | None, allowed: bool) -> None:
        if not allowed:
            self.refused(event)
            return
        self.write(event)
        self.before[rater].append(copy.deepcopy(self.answers[rater]))
        self.later[rater].clear()
        if after is None:
            self.answers[rater].pop(number, None)
        else:
            self.answers[rater][number] = after

    @rule(rater=st.sampled_from(RATERS), number=st.integers(0, QUERIES - 1), x=st.integers(0, 9))
    def place(self, rater: str, number: int, x: int) -> None:
        said = self.answers[rater].get(number)
        self.act(rater, number, place(number, (x, 1.0), rater), ((float(x), 1.0), bool(said and said[1])), True)

    @rule(rater=st.sampled_from(RATERS), number=st.integers(0, QUERIES - 1), reason=st.sampled_from(SKIP_REASONS))
    def skip(self, rater: str, number: int, reason: str) -> None:
        said = self.answers[rater].get(number)
        self.act(rater, number, skip(number, reason, rater), (reason, False), not said or said[0] not in SKIP_REASONS)

    @rule(rater=st.sampled_from(RATERS), number=st.integers(0, QUERIES - 1))
    def restore(self, rater: str, number: int) -> None:
        said = self.answers[rater].get(number)
        self.act(rater, number, draft("restore", rater, number), None, bool(said and said[0] in SKIP_REASONS))

    @rule(
        rater=st.sampled_from(RATERS), number=st.integers(0, QUERIES - 1), kind=st.sampled_from(["disable", "enable"])
    )
    def switch(self, rater: str, number: int, kind: str) -> None:
        said = self.answers[rater].get(number)
        allowed = said is not None and said[0] not in SKIP_REASONS and said[1] == (kind == "enable")
        after = None if said is None else (said[0], kind == "disable")
        self.act(rater, number, draft("disable", rater, number, {"disabled": kind == "disable"}), after, allowed)

    @rule(rater=st.sampled_from(RATERS))
    def undo(self, rater: str) -> None:
        if not self.before[rater]:
            assert not self.state.done.get(rater)
            self.refused(draft("undo", rater, payload={"target": 1}))
            return
        self.write(draft("undo", rater, payload={"target": self.state.done[rater][-1].generation}))
        self.later[rater].append(self.answers[rater])
        self.answers[rater] = self.before[rater].pop()

    @rule(rater=st.sampled_from(RATERS))
    def redo(self, rater: str) -> None:
        if not self.later[rater]:
            assert not self.state.undone.get(rater)
            self.refused(draft("redo", rater, payload={"target": 1}))
            return
        self.write(draft("redo", rater, payload={"target": self.state.undone[rater][-1].generation}))
        self.before[rater].append(self.answers[rater])
        self.answers[rater] = self.later[rater].pop()

    @precondition(lambda self: len(self.events) > QUERIES)
    @rule()
    def stale_write_is_a_conflict(self) -> None:
        """An action based on the state before the rater's last change of that query is refused with that event."""
        last = self.events[-1]
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
                if cell.placement is not None:
                    found[number] = (cell.placement.moving, cell.disabled)
                elif isinstance(cell.answer, Skip):
                    found[number] = (cell.answer.reason, cell.disabled)
            assert found == self.answers[rater]

    def teardown(self) -> None:
        """A replay of the whole log gives the state that was reached step by step."""
        assert replayed(self.events) == self.state


TestFolding = Folding.TestCase
TestFolding.settings = hypothesis_settings(max_examples=60, stateful_step_count=40)


def test_conflict_is_only_with_the_same_rater_and_query() -> None:
    """Another rater's answer, or another query's, is no conflict."""
    state = replayed([query(0), query(1), place(0), place(0, rater="ben"), place(1)])
    check(state, edit(0, (1.0, 1.0), base_generation=3))
    with pytest.raises(ConflictError) as caught:
        check(state, edit(0, (1.0, 1.0), base_generation=2))
    assert caught.value.newer.generation == 3
    with pytest.raises(ConflictError):
        check(state, draft("undo", "ada", payload={"target": 5}, base_generation=4))


def test_a_gap_or_an_impossible_event_says_which() -> None:
    """Replaying a log that cannot be, names the event."""
    with pytest.raises(ProjectError, match="Event 4 of the log cannot be applied"):
        replayed([query(0), place(0), skip(0), skip(0)])
    with pytest.raises(ProjectError, match="generation 2 was expected"):
        replay([entry_of(query(0), 1), entry_of(draft("restore", "ada", 0), 3)], 2)


def test_exclusion_outlives_edits_and_undo() -> None:
    """A mark that the organiser took out stays out, whatever the rater does, until it is included."""
    out = draft("exclude", "olga", 0, {"of": "ada"})
    state = replayed([query(0), place(0), out])
    assert standing_marks(state) == {}
    later = [query(0), place(0), out, edit(0, (3.0, 3.0)), draft("undo", "ada", payload={"target": 4})]
    assert standing_marks(replayed(later)) == {}
    back = draft("exclude", "olga", 0, {"of": "ada", "excluded": False})
    assert list(standing_marks(replayed([*later, back]))) == [0]


def test_a_query_for_one_rater_is_refused_to_another() -> None:
    """Who is not asked cannot answer."""
    state = replayed([query(0, for_rater="ben")])
    check(state, place(0, rater="ben"))
    with pytest.raises(InvalidInputError, match="for ben only"):
        check(state, place(0))


def test_copies_are_independent() -> None:
    """Advancing a copy leaves the original as it was."""
    events = [query(0), place(0), skip(0), draft("undo", "ada", payload={"target": 3})]
    state = replayed(events[:3])
    before = replayed(events[:3])
    replayed(events[3:], state.copy())
    assert state == before


def placed(**more: object) -> Event:
    return draft("place", "ada", 0, {"placement": {**PLACED, **more}})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: draft("jump", "ada"), "must be one of query"),
        (lambda: draft("place", "ada", None, {"placement": PLACED}), "needs query"),
        (lambda: draft("place", " ada", 0, {"placement": PLACED}), "without blanks"),
        (lambda: draft("place", "a\nb", 0, {"placement": PLACED}), "line break"),
        (lambda: place(0, (float("nan"), 0.0)), "finite number"),
        (lambda: placed(covariance=[[1, 2], [2, 1]]), "not positive definite"),
        (lambda: placed(covariance="wide"), "covariance"),
        (lambda: placed(alpha=1.5), "less than 1"),
        (lambda: skip(0, "lazy"), "must be one of not_visible"),
        (lambda: skip(0, "other", text="bell\a"), "control characters"),
        (lambda: place(0, duration=-1.0), "greater than or equal to 0"),
        (
            lambda: draft("fit", "ada", payload={"family": "wendland", "noise": 0.0, "scales": [1, 2], "weights": [1]}),
            "one positive weight",
        ),
    ],
)
def test_content_is_checked(make: Callable[[], Event], sentence: str) -> None:
    """What could not be stored or understood later is refused with a sentence that says what is wrong."""
    with pytest.raises(InvalidInputError, match=sentence):
        check(State(), make())
