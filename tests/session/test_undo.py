"""After an undo, an edit or a mark taken out: weights and suggestions are those of the answers in force."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

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
    """As in a project in which the slip never happened and the weights are learned now."""
    session = Session(make(tmp_path / "p"), "ada")
    control = Session(make(tmp_path / "control"), "ada")
    raters = Rater(session, "ada"), Rater(control, "ada")
    for rater in raters:
        rater.work(11)
    query = session.next_query()
    assert query is not None
    control.next_query()  # asked with the weights of before, as the other one
    slip(session, query)  # the 12th, at which the weights are refitted
    during = uncertain(session)
    assert session.project.state.fits[-1].annotations == 12
    session.undo()
    assert "changed or taken back" in session.progress().weights
    control.refit()
    after = uncertain(session)
    np.testing.assert_allclose(after, uncertain(control), rtol=1e-9)
    assert not np.allclose(during, after)
    assert "refitted to 11 annotations" in session.progress().weights
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
    assert "changed or taken back" in session.progress().weights
    session.next_query()  # a refit is due at once
    assert session.project.state.fits[-1].annotations == (9 if how == "edit" else 8)
    assert not np.array_equal(session.prior().kernel.weights, initial)


def test_the_state_of_a_project_opened_anew_is_the_same(tmp_path: Path) -> None:
    """Fits in force and what was removed come from the log alone."""
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
