"""What a rater of a blind project receives: the same whatever others do; at a repeat, whatever was answered there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from session.tools import Rater, make, true_map
from warpgauge.session import Query, Session
from warpgauge.session.control_questions import add_controls

# Seeds of all draws are those of the settings, so that two projects have the same questions.
SETTINGS = {"repeat_fraction": 0.25, "repeat_lag": 3, "audit": 0.2, "audit_seed": 3}
KNOWN = np.array([[60.0, 50.0], [220.0, 70.0], [140.0, 190.0]])


def registered(folder: Path, database: str | None = None, **settings: object) -> Session:
    project = make(folder, settings, database=database)
    project.add_rater("boss", "organiser", by="boss")
    for name in ("ada", "ben"):
        project.add_rater(name, "rater", by="boss")
    return Session(project)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "yes"),
        ({"blind": False}, "no"),
        (
            {"answers_per_location": 2},
            "own marks only, but the answers of all decide the places (answers_per_location)",
        ),
    ],
)
def test_only_a_blind_project_is_called_blind(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    session = registered(tmp_path / "p", **settings)
    assert session.blindness.described(session.project.state).startswith(words)


def received(session: Session, query: Query) -> list[object]:
    """Everything that a session gives ada with a question before her, as plain values; numbers to the last bit."""
    state, names = session.project.state, session.blindness
    progress = session.progress("ada")
    own = session.own_landmarks("ada")
    lattice = np.random.default_rng(2).uniform([20, 20], [280, 220], (9, 2))
    rows = session.listing("ada")
    return [
        (names.name(state, "ada", query.number), query.point, query.radius, query.position, query.total),
        (query.gain, query.answer),
        [query.prediction.mean.tobytes(), query.prediction.covariance.tobytes(), query.prediction.inside],
        [names.name(state, "ada", row.mark.query.number) for row in rows],
        [(row.mark.placement, row.residual.tobytes(), row.p, row.outlier, row.mark.moved) for row in rows],
        [(who, skip.reason) for who, _, skip in session.skipped("ada")],
        [*vars(progress).values()][:8],
        (progress.curve.tobytes(), progress.stop_rules, progress.reasons, progress.weights, progress.region),
        (own.fixed_points.tobytes(), np.asarray(own.covariances).tobytes(), own.names, len(own.skips)),
        session.view("ada").mean(lattice).tobytes(),
        session.detectable("ada"),
    ]


def history(session: Session, others: bool, slip_at: int | None = None) -> list[tuple[str, list[object]]]:
    """Answer 24 questions as ada; return with each its origin and what she received. ``others`` work in between."""
    add_controls(session.project, KNOWN, true_map(KNOWN), "boss")
    wild, seen = Rater(session, "ben", seed=4, sd=15.0, anisotropic=True), []
    for step in range(24):
        query = session.next_query("ada")
        if others and step % 3 == 0:
            ben = session.next_query("ben")
            session.skip(ben, "ambiguous", rater="ben")
            wild.work(2)
            session.undo("ben")
            session.volunteer(KNOWN[step % 3] + step, [3.0, 4.0], rater="ben", confirmed=True)
            query = session.go_to(query, "ada")
        seen.append((session.project.state.queries[query.number].origin, received(session, query)))
        match = np.add(true_map(np.array(query.point)), [0.1 * (step % 5), 0.0])
        if step % 7 == 6:
            session.skip(query, "not_visible", rater="ada")
        else:
            moved = [40.0, -30.0] if step == slip_at else [0.0, 0.0]
            session.place(query, match + moved, rater="ada", duration=2.0, confirmed=True)
    return seen


@pytest.mark.filterwarnings("ignore::warpgauge.errors.SuspiciousDataWarning")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_what_a_rater_receives_is_equal_to_the_bit_whatever_others_do(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    database = request.getfixturevalue("postgres").url if store == "postgres" else None
    seen = []
    for others in (False, True):
        session = registered(tmp_path / str(others), database, **SETTINGS)
        with session.project:
            seen.append(history(session, others))
    alone, beside = seen
    assert {origin for origin, _ in alone} == {"suggested", "repeat", "audit", "control"}
    for step, (one, other) in enumerate(zip(alone, beside, strict=True)):
        for at, (mine, theirs) in enumerate(zip(one[1], other[1], strict=True)):
            assert mine == theirs, (step, one[0], at)


def test_at_a_repeat_a_rater_receives_nothing_of_the_former_answer(tmp_path: Path) -> None:
    """A slip of 50 px at the first asking changes what is received afterwards, but not at the repeat."""
    right = registered(tmp_path / "a", **SETTINGS)
    plain = history(right, others=False)
    queries = right.project.state.queries
    repeat = next(query for query in queries if query.origin == "repeat" and query.same_as % 7 != 6)
    slipped = history(registered(tmp_path / "b", **SETTINGS), others=False, slip_at=repeat.same_as)
    assert plain[repeat.number] == slipped[repeat.number]
    assert plain[repeat.same_as + 1 :] != slipped[repeat.same_as + 1 :]
    # One former answer is missing at every question, repeat or not.
    marks, skips = 3, 5
    assert [len(values[marks]) + len(values[skips]) for _, values in plain[4:]] == list(range(3, 23))


def test_the_list_of_a_blind_project_depends_on_nobodys_answers(tmp_path: Path) -> None:
    """Two raters who answer in quite different ways are asked the same places in the same order."""
    asked = []
    for name, errors in (("a", (0.3, 20.0)), ("b", (9.0, 0.1))):
        session = registered(tmp_path / name)
        ada, ben = Rater(session, "ada", sd=errors[0]), Rater(session, "ben", seed=4, sd=errors[1], anisotropic=True)
        for turn in range(9):
            ada.work(1)
            if turn % 2:
                ben.work(2)
        asked.append([(query.point, query.gain) for query in session.project.state.queries[:9]])
    assert asked[0] == asked[1]


def test_a_rater_has_weights_of_their_own(tmp_path: Path) -> None:
    """They are those of a project in which the rater is alone, refitted at the same numbers of answers."""
    session = registered(tmp_path / "p")
    Rater(session, "ben", seed=4, sd=15.0).work(14)
    Rater(session, "ada", sd=0.3).work(6)
    own = Session(session.project, "ada").view()
    lonely = Session(make(tmp_path / "alone", {"refit": "never"}), "ada")
    given = own.annotations
    for row in range(len(given)):
        lonely.volunteer(given.fixed_points[row], given.moving_points[row], np.asarray(given.covariances)[row])
        if row == 4:
            lonely.refit()
    np.testing.assert_allclose(own.prior.kernel.weights, lonely.prior().kernel.weights, rtol=1e-9)
    points = np.random.default_rng(0).uniform(20, 200, (20, 2))
    np.testing.assert_allclose(own.mean(points), lonely.posterior().mean(points), atol=1e-8)
    assert np.linalg.norm(own.mean(points) - true_map(points), axis=1).mean() < 10
