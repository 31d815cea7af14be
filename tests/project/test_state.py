"""The state is a fold over the log; the rules of answers, undo and redo are held against a model in `test_machine`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project.tools import PLACED, draft, edit, place, query, skip
from warpgauge.errors import InvalidInputError
from warpgauge.project import ConflictError, Event, ProjectError, State, replay
from warpgauge.project.events import check, read_event
from warpgauge.session.fused_annotations import standing_marks


def entry_of(event: Event, generation: int) -> Event:
    """An event as it would be read from the log."""
    return read_event((generation, f"2026-05-14T09:30:{generation % 60:02}Z", *event.columns()))


def replayed(events: list[Event], state: State | None = None) -> State:
    """The state after events that are numbered as the log would."""
    first = 1 if state is None else state.generation + 1
    return replay((entry_of(event, number) for number, event in enumerate(events, start=first)), 2, state)


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
        (lambda: skip(0, "lazy"), "'not_visible'"),
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
