"""Landmarks of the rater's own choice, places chosen in a circle, the guided start, and a word before a slip."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from session.tools import HEIGHT, WIDTH, Rater, make, true_map
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.io.landmarks import read_landmarks, write_landmarks
from warpgauge.project import Doubt, NotAllowedError, Place
from warpgauge.session import Query, Session, UnconfirmedError
from warpgauge.session.control_questions import add_controls

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
    assert [row.mark.origin for row in session.listing()] == ["volunteered"]
    with pytest.raises(InvalidInputError, match=r"already; edit that one"):
        volunteer(session, PLACES[0])
    with pytest.raises(InvalidInputError, match="outside the fixed image"):
        volunteer(session, np.array([-40.0, 10.0]))
    with pytest.raises(InvalidInputError, match="must be 2 numbers"):
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
    session.place(number, true_map(PLACES[1]), fixed=PLACES[1])
    assert np.allclose(session.annotations().fixed_points[-1], PLACES[1])
    assert [row.mark.origin for row in session.listing("ada")][-1] == "volunteered"


def test_volunteered_landmarks_count_for_the_budget(tmp_path: Path) -> None:
    session = Session(make(tmp_path / "p", {"budget": 4, **NEVER}), "ada")
    for place in PLACES:
        volunteer(session, place)
    Rater(session, "ada").work(1)
    assert session.next_query() is None


def inwards(query: Query, length: float) -> np.ndarray:
    """A place so far from the point of a query, towards the middle of the image."""
    step = np.array([WIDTH / 2, HEIGHT / 2]) - query.point
    return np.array(query.point) + length * step / np.linalg.norm(step)


def test_a_place_is_chosen_within_the_circle(tmp_path: Path) -> None:
    """Its rim still brings 85 % of the information; the annotation lies at the chosen place, also when it is moved."""
    project = make(tmp_path / "p", NEVER, foreground="none")
    session = Session(project, "ada")
    Rater(session, "ada").work(8)
    query = session.next_query()
    assert query is not None
    assert 0 < query.radius <= 0.15 * HEIGHT
    # The formula of the documentation, at places all around; those outside the image cannot be chosen.
    noise = np.array([[1.0, 0.0], [0.0, 1.0]]) / -2 / np.log(0.01)
    angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    rim = np.array(query.point) + query.radius * np.column_stack([np.cos(angles), np.sin(angles)])
    rim = rim[project.fixed_grid.contains(rim)]
    covariances = session.view().covariance(np.vstack([query.point, rim]))
    gains = 0.5 * np.linalg.slogdet(np.eye(2) + np.linalg.solve(noise, covariances))[1]
    assert gains[1:].min() >= 0.85 * gains[0] - 1e-9

    first, second = inwards(query, 0.9 * query.radius), inwards(query, 0.3 * query.radius)
    saved = session.place(query, true_map(first), fixed=first, base_generation=query.generation)
    assert isinstance(saved.answer, Place)
    assert saved.answer.placement.fixed == tuple(first)
    assert np.allclose(session.annotations().fixed_points[-1], first)
    session.place(query.number, true_map(second), fixed=second)
    session.place(query.number, true_map(second) + 0.5)  # without a place it stays where it was chosen
    assert np.allclose(session.annotations().fixed_points[-1], second)
    assert session.listing()[-1].mark.origin == "moved"
    with pytest.raises(
        InvalidInputError, match=r"from the middle of the circle of query 8, whose radius is .* volunteer"
    ):
        session.place(query.number, true_map(first), fixed=inwards(query, 1.1 * query.radius))
    assert np.allclose(session.annotations().fixed_points[-1], second)
    session.place(query.number, true_map(np.array(query.point)), fixed=query.point)
    assert np.allclose(session.annotations().fixed_points[-1], query.point)
    session.undo()
    assert np.allclose(session.annotations().fixed_points[-1], second)
    path = tmp_path / "marks.csv"
    write_landmarks(session.landmarks(), path)
    assert np.allclose(read_landmarks(path).fixed_points[-1], second)


@pytest.mark.parametrize("why", ["circle", "repeat_fraction", "audit", "raters", "controls"])
def test_where_answers_are_compared_everybody_is_asked_at_the_same_exact_place(tmp_path: Path, why: str) -> None:
    settings = {"circle": {"circle": 0.0}, "repeat_fraction": {"repeat_fraction": 0.2}, "audit": {"audit": 0.25}}
    project = make(tmp_path / "p", {**NEVER, **settings.get(why, {})})
    if why == "controls":
        add_controls(project, PLACES, PLACES, "organiser")
    if why == "raters":
        project.add_rater("ada")
        project.add_rater("ben")
    session = Session(project, "ada")
    query = session.next_query()
    assert query is not None
    assert query.radius == 0
    with pytest.raises(InvalidInputError, match="asked at its exact place"):
        session.place(query, true_map(inwards(query, 5.0)), fixed=inwards(query, 5.0))
    assert session.place(query, true_map(np.array(query.point)), fixed=query.point).answer is not None


def test_an_organiser_chooses_the_places_of_all(tmp_path: Path) -> None:
    """Circle by circle before anybody answers; all are asked there, and nobody may choose again."""
    project = make(tmp_path / "p", NEVER, foreground="none")
    project.add_rater("boss", "organiser", by="boss")
    project.add_rater("ada", by="boss")
    session = Session(project)
    chosen = []
    circle = session.choose_places(rater="boss")
    for _ in range(4):
        assert circle is not None
        point, radius = circle
        assert radius > 0
        chosen.append(np.add(point, [min(3.0, radius), 0.0]))
        assert all(np.linalg.norm(np.subtract(point, former)) > 5 for former in chosen[:-1])
        circle = session.choose_places([chosen[-1]], rater="boss")
    with pytest.raises(InvalidInputError, match="outside the fixed image, at 900, 10"):
        session.choose_places([[900.0, 10.0]], rater="boss")
    with pytest.raises(NotAllowedError, match="organisers choose places"):
        session.choose_places([[20.0, 20.0]], rater="ada")
    asked = Rater(session, "ada").work(5)
    np.testing.assert_allclose([query.point for query in asked[:4]], chosen)
    assert all(query.radius == 0 for query in asked[:4])
    with pytest.raises(InvalidInputError, match="before anybody has answered"):
        session.choose_places([[20.0, 20.0]], rater="boss")


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
    kept = session.project.state.answer("ada", query.number)
    assert isinstance(kept, Place)
    assert kept.doubt is not None
    assert (kept.doubt.outside, kept.doubt.confirmed) == (None, False)
    assert kept.doubt.deviation == pytest.approx(doubt.deviation)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.place(query, wrong + 1.0, confirmed=True)
    assert session.listing("ada")[-1].mark.placed.doubt.confirmed  # type: ignore[union-attr]
    assert asked_about(session, query, right) is None
    assert session.listing("ada")[-1].mark.placed.doubt is None


def test_outside_the_image_is_asked_about_from_the_first_placement_on(tmp_path: Path) -> None:
    session = Session(make(tmp_path / "p", NEVER), "ada")
    query = session.next_query()
    assert query is not None
    doubt = asked_about(session, query, [416.5, 100.0])
    assert doubt is not None
    assert doubt.question("px", hide_prediction=True) == "This is 117 px outside the moving image: keep it?"
    with pytest.warns(SuspiciousDataWarning, match="117 px outside the moving image"):
        session.volunteer(PLACES[0], [416.5, 100.0])


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


def test_a_circle_holds_no_place_that_tells_much_less(tmp_path: Path) -> None:
    """Between many landmarks a place far from the question's is nearly known, so that the circle is small."""
    session = Session(make(tmp_path / "p", NEVER), "ada")
    first = session.next_query()
    assert first is not None
    for x in range(30, 300, 45):
        for y in range(30, 230, 45):
            volunteer(session, np.array([float(x), float(y)]))
    later = session.next_query()
    assert later is not None
    assert 0 < later.radius < 0.6 * first.radius
