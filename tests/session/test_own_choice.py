"""Landmarks of the rater's own choice, queried points that are moved, the guided start, and a word before a slip."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from session.tools import Rater, make, true_map
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.io.landmarks import read_landmarks, write_landmarks
from warpgauge.project import Doubt, Place
from warpgauge.session import Query, Session, UnconfirmedError

NEVER = {"refit": "never"}
PLACES = np.array([[60.0, 50.0], [220.0, 70.0], [140.0, 190.0]])


def volunteer(session: Session, place: np.ndarray, rater: str | None = None) -> int:
    return session.volunteer(place, true_map(place), radius=2.0, rater=rater).query


def test_three_volunteered_landmarks_settle_a_turned_image(tmp_path: Path) -> None:
    """Images turned by 90 degrees: with three landmarks the first question is predicted within a few pixels."""

    def turned(point: np.ndarray) -> np.ndarray:
        return np.array([point[1] + 20.0, 240.0 - 0.8 * point[0]])

    project = make(tmp_path / "p", NEVER)
    session = Session(project, "ada")
    for place in PLACES:
        session.volunteer(place, turned(place), radius=1.0)
    query = session.next_query()
    assert query is not None
    assert query.prediction is not None
    assert np.linalg.norm(query.prediction.mean - turned(np.array(query.point))) < 15
    assert project.moving_grid.contains(turned(np.array(query.point)))


def test_a_volunteered_landmark_is_the_raters_alone_and_says_so(tmp_path: Path) -> None:
    project = make(tmp_path / "p", {"blind": False, **NEVER})
    session = Session(project, "ada")
    number = volunteer(session, PLACES[0])
    record = project.state.queries[number]
    assert (record.origin, record.for_rater, record.candidate) == ("volunteered", "ada", None)
    assert np.allclose(session.annotations().fixed_points, PLACES[:1])
    assert session.next_query("ben").number != number  # type: ignore[union-attr]
    assert [row.origin for row in session.listing()] == ["volunteered"]
    with pytest.raises(InvalidInputError, match=r"already; edit that one"):
        volunteer(session, PLACES[0])
    with pytest.raises(InvalidInputError, match="outside the fixed image"):
        volunteer(session, np.array([-40.0, 10.0]))
    with pytest.raises(InvalidInputError, match="2 finite numbers"):
        session.volunteer([1.0, 2.0, 3.0], [1.0, 2.0])
    assert project.verify().ok


def test_undoing_a_volunteered_landmark_leaves_nothing_to_ask(tmp_path: Path) -> None:
    """It is not asked as a question, counts for nothing, and comes back with redo; editing may move both points."""
    project = make(tmp_path / "p", NEVER)
    session = Session(project, "ada")
    for _ in range(3):
        Rater(session, "ada").work(1)
    before = session.next_query()
    assert before is not None
    number = volunteer(session, PLACES[0])
    session.undo()
    after = session.next_query()
    assert after is not None
    assert (after.point, after.gain, after.position) == (before.point, before.gain, before.position)
    assert len(session.annotations()) == 3
    session.redo()
    session.place(number, session.drawn(true_map(PLACES[1]), fixed=PLACES[1]))
    assert np.allclose(session.annotations().fixed_points[-1], PLACES[1])
    assert [mark.origin for mark in session.listing("ada")][-1] == "volunteered"


def test_volunteered_landmarks_count_for_the_budget(tmp_path: Path) -> None:
    session = Session(make(tmp_path / "p", {"budget": 4, **NEVER}), "ada")
    for place in PLACES:
        volunteer(session, place)
    Rater(session, "ada").work(1)
    assert session.next_query() is None


def test_a_queried_point_may_be_moved_a_little(tmp_path: Path) -> None:
    """The annotation lies at the moved point; two raters of whom one moved it give two annotations."""
    project = make(tmp_path / "p", {"blind": False, **NEVER})
    session = Session(project)
    query = session.next_query("ada")
    assert query is not None
    near = np.add(query.point, [6.0, -4.0])
    saved = session.place(query, session.drawn(true_map(near), fixed=near), rater="ada")
    assert isinstance(saved.answer, Place)
    assert saved.answer.placement.fixed == tuple(near)
    assert saved.event.payload["origin"] == "moved"
    assert np.allclose(session.annotations().fixed_points, [near])
    assert [row.origin for row in session.listing()] == ["moved"]
    session.place(query.number, true_map(np.array(query.point)), rater="ben")
    assert np.allclose(session.annotations().fixed_points, [query.point, near])
    assert session.agreement().locations[0].max_distance is None
    session.place(query.number, true_map(near) + 0.5, rater="ada")  # stays where it was moved
    assert np.allclose(session.annotations().fixed_points, [query.point, near])
    session.place(query.number, session.drawn(true_map(np.array(query.point)), fixed=query.point), rater="ada")
    assert np.allclose(session.annotations().fixed_points, [query.point])
    for _ in range(2):
        session.undo("ada")
    assert np.allclose(session.annotations().fixed_points, [query.point, near])


def test_a_queried_point_cannot_be_moved_far(tmp_path: Path) -> None:
    session = Session(make(tmp_path / "p", NEVER), "ada")
    query = session.next_query()
    assert query is not None
    far = np.add(query.point, np.where(np.array(query.point) > 100, -15.0, 15.0))  # 21 px; 5 % of the diagonal are 19
    with pytest.raises(InvalidInputError, match=r"move_within allows 19\.2 px"):
        session.place(query, session.drawn(true_map(far), fixed=far))
    assert session.project.state.answer("ada", query.number) is None
    session.project.change_settings(move_within=0.1)
    assert session.place(query, session.drawn(true_map(far), fixed=far)).answer is not None


def test_moved_and_volunteered_landmarks_are_exported_where_they_lie(tmp_path: Path) -> None:
    project = make(tmp_path / "p", NEVER)
    session = Session(project, "ada")
    query = session.next_query()
    assert query is not None
    near = np.add(query.point, [-5.0, -5.0])
    session.place(query, session.drawn(true_map(near), fixed=near))
    volunteer(session, PLACES[2])
    for fused in (False, True):
        path = tmp_path / f"{fused}.csv"
        write_landmarks(session.landmarks(fused=fused), path)
        assert np.allclose(read_landmarks(path).fixed_points, [near, PLACES[2]])


def test_the_guided_start(tmp_path: Path) -> None:
    """Due in a new project until three are marked, another answer is given, or it is skipped, by each rater."""
    session = Session(make(tmp_path / "p", NEVER))
    assert session.start("ada").due
    for count, place in enumerate(PLACES):
        assert session.start("ada") == type(session.start("ada"))(True, count, 3)
        volunteer(session, place, "ada")
    assert session.start("ada") == type(session.start("ada"))(False, 3, 3)
    assert session.start("ben").due  # of a blind rater the own landmarks count
    event = session.skip_start("ben")
    assert (event.kind, event.rater) == ("start", "ben")
    assert not session.start("ben").due
    query = session.next_query("cy")
    assert query is not None
    assert session.start("cy").due
    session.skip(query, "ambiguous", rater="cy")
    assert not session.start("cy").due
    off = Session(make(tmp_path / "off", {"guided_start": False}), "ada")
    assert not off.start().due


def test_a_question_asked_before_the_start_is_chosen_anew(tmp_path: Path) -> None:
    """What was suggested without any landmark gives way to a choice that knows the volunteered ones."""
    session = Session(make(tmp_path / "p", NEVER), "ada")
    first = session.next_query()
    assert first is not None
    volunteer(session, PLACES[0])
    second = session.next_query()
    assert second is not None
    assert first.number in session.project.state.withdrawn
    assert second.number not in session.project.state.withdrawn
    Rater(session, "ada").work(4)
    held = session.next_query()
    assert held is not None
    volunteer(session, PLACES[1])
    assert session.next_query().number == held.number  # type: ignore[union-attr]  # later, nothing jumps


def asked_about(session: Session, query: Query, point: ArrayLike, rater: str = "ada") -> Doubt | None:
    """Place as the page does, and return why the rater is asked about it; None where it was saved."""
    asking = Session(session.project, question=lambda doubt, who: doubt.question("px"))
    before = session.project.state.generation
    try:
        asking.place(query, point, rater=rater)
    except UnconfirmedError as error:
        doubt, question = error.doubt, str(error)
    else:
        return None
    assert session.project.state.generation == before, "nothing is written before it is confirmed"
    assert question == doubt.question("px")
    return doubt


def test_a_slip_is_asked_about_saved_and_flagged(tmp_path: Path) -> None:
    """Far from a well-known prediction; the warning comes after the answer is on the disk."""
    session = Session(make(tmp_path / "p", NEVER), "ada")
    Rater(session, "ada").work(12)
    query = session.next_query()
    assert query is not None
    assert query.prediction is not None
    right = true_map(np.array(query.point))
    wrong = np.add(right, [70.0 if right[0] < 150 else -70.0, 0.0])
    doubt = asked_about(session, query, wrong)
    assert doubt is not None
    assert doubt.outside is None
    # By hand: the length of the deviation in standard deviations of prediction and click together.
    sd = np.sqrt(query.prediction.sd**2 + (1.0 / np.sqrt(-2 * np.log(0.01))) ** 2)
    assert doubt.deviation == pytest.approx(np.linalg.norm(wrong - query.prediction.mean) / sd, rel=0.05)
    assert doubt.question("px") == (
        f"This is {doubt.distance:.3g} px from where the other landmarks say, {doubt.deviation:.2g} times the usual: "
        "keep it?"
    )
    assert doubt.question("px", hide_prediction=True) is None
    with pytest.warns(SuspiciousDataWarning, match="times the usual; it is saved and flagged"):
        session.place(query, wrong)
    kept = session.project.state.placement("ada", query.number)
    assert kept is not None
    assert kept.doubt is not None
    assert (kept.doubt.outside, kept.doubt.confirmed) == (None, False)
    assert kept.doubt.deviation == pytest.approx(doubt.deviation)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.place(query, wrong + 1.0, confirmed=True)
    assert session.project.events()[-1].kind == "edit"
    assert session.listing("ada")[-1].questioned.confirmed  # type: ignore[union-attr]
    assert asked_about(session, query, right) is None
    assert session.listing("ada")[-1].questioned is None


def test_outside_the_image_is_asked_about_from_the_first_placement_on(tmp_path: Path) -> None:
    session = Session(make(tmp_path / "p", NEVER), "ada")
    query = session.next_query()
    assert query is not None
    doubt = asked_about(session, query, [416.0, 100.0])
    assert doubt is not None
    assert doubt.question("px", hide_prediction=True) == "This is 117 px outside the moving image: keep it?"
    with pytest.warns(SuspiciousDataWarning, match="117 px outside the moving image"):
        session.volunteer(PLACES[0], [416.0, 100.0])


def test_few_landmarks_or_a_wide_prediction_raise_no_question(tmp_path: Path) -> None:
    """Three landmarks settle an affine map but do not say how well it holds."""
    session = Session(make(tmp_path / "p", NEVER), "ada")
    for place in PLACES:
        volunteer(session, place)
    query = session.next_query()
    assert query is not None
    assert asked_about(session, query, [150.0, 120.0]) is None


def test_a_blind_rater_is_asked_by_their_own_landmarks(tmp_path: Path) -> None:
    """What others placed must not show through the question."""
    session = Session(make(tmp_path / "p", NEVER))
    Rater(session, "ada").work(12)
    query = session.next_query("ben")
    assert query is not None
    wrong = np.add(true_map(np.array(query.point)), [50.0 if query.point[0] < 150 else -50.0, 0.0])
    assert asked_about(session, query, wrong, rater="ben") is None
