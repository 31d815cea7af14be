"""After an undo, an edit or a mark taken out: weights and suggestions are those of the answers in force."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from project.tools import draft
from session.tools import Rater, make, true_map
from warpgauge.project import Project
from warpgauge.session import Query, Session


def uncertain(session: Session) -> np.ndarray:
    """What a rater and a user of the model get: weights, uncertainty, the next question; equal but for rounding."""
    query = session.next_query()
    assert query is not None
    assert query.gain is not None
    told = session.progress()
    numbers = [*session.prior().kernel.weights, told.mean_sd, told.max_sd, told.annotations, *query.point, query.gain]
    return np.array(numbers)


def slip(session: Session, query: Query) -> None:
    """Place a match 60 pixels off."""
    session.place(query, np.add(true_map(np.array(query.point)), [60.0, 0.0]), confirmed=True)


def test_undoing_a_slip_undoes_the_refit_that_rested_on_it(tmp_path: Path) -> None:
    """As in a project in which the slip never happened, then and after the next answers."""
    session = Session(make(tmp_path / "p"), "ada")
    control = Session(make(tmp_path / "control"), "ada")
    raters = Rater(session, "ada"), Rater(control, "ada")
    for rater in raters:
        rater.work(11)
    before = uncertain(session)
    query = session.next_query()
    assert query is not None
    slip(session, query)  # the 12th, at which the weights are refitted
    during = uncertain(session)
    assert session.project.state.fits[-1].annotations == 12
    assert not np.allclose(during, before)
    session.undo()
    np.testing.assert_allclose(uncertain(session), before, rtol=1e-9)
    assert "refitted to 8 annotations" in session.weights()
    for rater in raters:
        rater.work(3)
    np.testing.assert_allclose(uncertain(session), uncertain(control), rtol=1e-9)
    assert session.project.verify().ok


def test_a_redo_brings_the_refit_back(tmp_path: Path) -> None:
    session = Session(make(tmp_path / "p"), "ada")
    Rater(session, "ada").work(12)
    assert session.next_query() is not None
    weights = session.prior().kernel.weights
    session.undo()
    assert not np.array_equal(session.prior().kernel.weights, weights)
    session.redo()
    assert np.array_equal(session.prior().kernel.weights, weights)


TAKEN_OUT: dict[str, Callable[[Session], object]] = {
    "edit": lambda session: session.place(2, np.add(session.project.state.placement("ada", 2).moving, [1.0, 0.0])),  # type: ignore[union-attr]
    "disable": lambda session: session.disable(2),
    "exclude": lambda session: session.exclude(2, "ada"),
    "skip": lambda session: session.skip(2, "ambiguous"),
}


@pytest.mark.parametrize("how", TAKEN_OUT)
def test_a_fit_to_an_answer_that_was_changed_is_not_used(tmp_path: Path, how: str) -> None:
    """The third answer is in all fits: the initial weights are used until the next refit, and a note says so."""
    session = Session(make(tmp_path / "p"), "ada")
    rater = Rater(session, "ada")
    initial = session.prior().kernel.weights
    rater.work(9)
    assert not np.array_equal(session.prior().kernel.weights, initial)
    TAKEN_OUT[how](session)
    assert np.array_equal(session.prior().kernel.weights, initial)
    assert "changed or taken back" in session.weights()
    session.next_query()  # a refit is due at once
    assert session.project.state.fits[-1].annotations == (9 if how == "edit" else 8)
    assert not np.array_equal(session.prior().kernel.weights, initial)


def test_weights_from_other_projects_rest_on_no_answer_here(tmp_path: Path) -> None:
    other = make(tmp_path / "other", {"refit": "never"})
    Rater(Session(other, "ada"), "ada").work(8)
    session = Session(make(tmp_path / "p"), "ada")
    Rater(session, "ada").work(4)
    weights = session.fit_from([other]).weights
    session.undo()
    session.undo()
    assert np.array_equal(session.prior().kernel.weights, weights)


def test_fits_of_earlier_versions_rest_on_the_answers_that_they_saw(tmp_path: Path) -> None:
    """Their events do not name the answers; those in force at the time are taken."""

    session = Session(make(tmp_path / "p", {"refit": "never"}), "ada")
    Rater(session, "ada").work(6)
    event = session.refit()
    assert event is not None
    payload = {key: value for key, value in event.told.items() if key not in ("rests_on", "replaces")}
    payload["weights"] = [2 * weight for weight in payload["weights"]]
    session.project.append(draft("fit", "warpgauge", payload=payload))
    assert np.array_equal(session.prior().kernel.weights, payload["weights"])
    session.disable(3)
    assert "initial ones" in session.weights()


def test_an_open_suggestion_that_rested_on_a_slip_is_withdrawn(tmp_path: Path) -> None:
    """Once, with an event; somebody else's answered query stays, and so does one that was put aside."""
    session = Session(make(tmp_path / "p", {"refit": "never"}))
    Rater(session, "ada").work(5)
    first = session.next_query("ada")
    assert first is not None
    slip_answer = session.place(first, np.add(first.point, [90.0, 0.0]), rater="ada", confirmed=True)
    chosen = session.next_query("ada")
    assert chosen is not None
    session.undo("ada")
    assert session.next_query("ada").number == slip_answer.query  # type: ignore[union-attr]
    assert list(session.project.state.withdrawn) == [chosen.number]
    session.next_query("ada")
    kinds = [event.kind for event in session.project.events()]
    assert kinds.count("withdraw") == 1
    # Nobody is asked a withdrawn question, but who has it on the screen can still answer it.
    seen = [session.next_query("ben")]
    for _ in range(6):
        assert seen[-1] is not None
        session.place(seen[-1], true_map(np.array(seen[-1].point)), rater="ben", confirmed=True)
        seen.append(session.next_query("ben"))
    assert chosen.number not in [query.number for query in seen if query is not None]
    session.place(chosen, true_map(np.array(chosen.point)), rater="ada", confirmed=True)
    assert session.project.state.answer("ada", chosen.number) is not None


def test_what_was_put_aside_is_not_withdrawn(tmp_path: Path) -> None:
    session = Session(make(tmp_path / "p", {"refit": "never"}), "ada")
    Rater(session, "ada").work(4)
    aside = session.next_query()
    assert aside is not None
    session.another(aside)
    session.place(1, np.add(session.project.state.placement("ada", 1).moving, [1.0, 0.0]))  # type: ignore[union-attr]
    session.next_query()
    assert aside.number not in session.project.state.withdrawn


def test_the_state_of_a_project_opened_anew_is_the_same(tmp_path: Path) -> None:
    """Fits in force, withdrawals and what was removed come from the log alone."""
    session = Session(make(tmp_path / "p"), "ada")
    Rater(session, "ada").work(6)
    query = session.next_query()
    assert query is not None
    slip(session, query)
    session.next_query()
    session.undo()
    now = uncertain(session)
    with Project.open(session.project.folder) as again:
        assert again.state == session.project.state
        np.testing.assert_allclose(uncertain(Session(again, "ada")), now, rtol=1e-9)
