"""The loop: which query comes next, for one rater and for many, and that answering improves the model."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import warpgauge as wg
from session.tools import Rater, errors, lattice, make, true_map
from warpgauge.core.expected_answers import chance_in_box
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.project import Placement, Project
from warpgauge.session import Session
from warpgauge.session.prior import default_covariance, default_prior

NEVER = {"refit": "never"}


def test_a_simulated_rater_improves_the_posterior(tmp_path: Path) -> None:
    """Forty answers by the true map bring the mean near to it, and the stated regions hold the truth."""
    session = Session(make(tmp_path / "p"), "ada")
    rater = Rater(session, "ada", anisotropic=True)
    targets = session.project.targets
    # Within the candidates: beyond them the wave is anybody's guess.
    targets = targets[np.all((targets > 30) & (targets < [270, 210]), axis=1)]
    rater.work(6)
    early = np.sqrt(np.mean(errors(session, targets) ** 2))
    rater.work(34)
    late = errors(session, targets)
    # A single placement is off by sqrt(2 E[sd^2]) = 0.3 sqrt(2) exp(0.7^2) on average: the model must do better.
    assert np.sqrt(np.mean(late**2)) < min(0.3 * np.sqrt(2) * np.exp(0.49), 0.35 * early)
    posterior = session.posterior()
    offset = posterior.mean(targets) - true_map(targets)
    squares = np.einsum("na,nab,nb->n", offset, np.linalg.inv(posterior.covariance(targets)), offset)
    assert np.mean(squares < special.chdtri(2, 0.05)) > 0.9
    assert len(session.project.state.fits) == 6  # at 3, 5, 8, 12, 18, 27
    assert session.project.verify().ok


def fresh_suggestion(project: Project, rater: str) -> tuple[int, float]:
    """Candidate and gain of a Suggester built from nothing: each location with its first answer, as documented."""
    state, grid, settings = project.state, project.fixed_grid, project.settings
    candidates, default = project.candidates, default_covariance(grid, settings)
    prior = default_prior(grid, settings)
    options = {"strategy": "entropy", "default_covariance": default}
    if settings.model == "default":
        posterior = prior.condition(Session(project).annotations(), calibrate=True)
        answers, skips = np.ones(len(candidates)), np.zeros(len(candidates))
        for (_, number), cell in state.cells.items():
            squares = np.square(candidates - state.queries[number].point).sum(axis=1)
            if cell.placement is not None:
                answers += np.exp(-0.5 * squares / (0.08 * grid.diagonal) ** 2)
            elif cell.answer is not None:
                skips += np.exp(-0.5 * squares / (0.06 * grid.diagonal) ** 2)
        size = np.array(project.moving_grid.size)
        moments = posterior.mean(candidates), posterior.covariance(candidates)
        inside = chance_in_box(*moments, np.full(2, -0.5), size - 0.5, tails=4.0)
        options |= {"strategy": "information", "chance": answers / (answers + 2 * skips) * inside}
    suggester = wg.Suggester(prior, candidates, **options)
    for query in state.queries:
        placement = state.placement(rater, query.number)
        if placement is not None:
            suggester.record(query.candidate, np.array(placement.covariance))
        elif state.answer(rater, query.number) is None and (rater, query.number) not in state.deferred:
            suggester.record(query.candidate, default)
        suggester.skip(query.candidate)
    best = suggester.suggest()
    return best, suggester.gains()[best]


@pytest.mark.parametrize("model", ["default", "paper"])
def test_following_the_answers_is_the_same_as_starting_anew(tmp_path: Path, model: str) -> None:
    """After edits, skips, undo, putting aside and switching off, the next suggestion is that of a new Suggester."""
    project = make(tmp_path / "p", {"refit": "never", "model": model}, foreground="none")
    session, rng = Session(project, "ada"), np.random.default_rng(1)
    rater = Rater(session, "ada", anisotropic=True)
    for step in range(45):
        expected = fresh_suggestion(project, "ada")
        query = session.next_query()
        assert project.state.queries[query.number].candidate == expected[0], step
        assert query.gain == pytest.approx(expected[1], abs=1e-6)
        if step % 13 == 9:
            query = session.another(query)  # what was put aside tells the model nothing
        rater.answer(query) if step % 5 else session.skip(query, "not_visible")
        if step % 7 == 3:
            session.undo()
            assert session.next_query().number == query.number
            rater.answer(session.next_query())
        done = [number for number in range(query.number) if project.state.placement("ada", number) is not None]
        if step % 3 == 0 and done:
            number = int(rng.choice(done))
            session.place(number, true_map(np.array(project.state.queries[number].point)), radius=rng.uniform(1, 30))
        if step % 11 == 5 and done:
            session.disable(int(done[0]))
            session.enable(int(done[0]))


def test_blind_raters_get_the_same_list(tmp_path: Path) -> None:
    """Two raters go through one list, each at their own pace, in one process or in two."""
    project = make(tmp_path / "p", {"refit": "never"})
    session = Session(project)
    ahead, behind = Rater(session, "ada", 1), Rater(session, "ben", 2, sd=5.0)
    ahead.work(12)
    behind.work(5)
    with Project.open(project.folder) as other:
        elsewhere = Rater(Session(other), "ben", 3)
        elsewhere.work(10)
        ahead.work(6)
        seen = [query.number for query in behind.seen + elsewhere.seen]
    assert seen == list(range(15))
    assert [query.number for query in ahead.seen] == list(range(18))
    assert [q.point for q in behind.seen + elsewhere.seen] == [q.point for q in ahead.seen][:15]


def test_blind_raters_are_predicted_from_their_own_answers(tmp_path: Path) -> None:
    """What a blind rater is shown does not change with the others' answers; in an open project it does."""
    for blind in (True, False):
        project = make(tmp_path / f"blind {blind}", {"refit": "never", "blind": blind})
        session = Session(project)
        Rater(session, "ben").work(4)
        held = session.view("ben")
        Rater(session, "ada").work(12)
        # The query that ben had before him keeps its model all the while.
        assert session.view("ben") is held
        query = session.next_query("ben")
        own = session.prior().condition(session.annotations("ben"), calibrate=True)
        expected = own.mean([query.point])[0]
        assert np.allclose(query.prediction.mean, expected) == blind
        shown = {row.mark.rater for row in session.listing("ben")}
        assert shown == {"ben"}


@pytest.mark.parametrize("model", ["default", "paper"])
def test_prediction_is_the_posterior_in_the_moving_frame(tmp_path: Path, model: str) -> None:
    """Mean, covariance and ellipse are those of the posterior; of draws by scipy the ellipse holds what it says."""
    project = make(tmp_path / "p", {"refit": "never", "alpha": 0.05, "model": model})
    session = Session(project, "ada")
    Rater(session, "ada", anisotropic=True).work(8)
    query = session.next_query()
    prior = default_prior(project.fixed_grid, project.settings)
    state = project.state
    placed = [state.placement("ada", number) for number in range(8)]
    annotations = wg.Annotations(
        [state.queries[number].point for number in range(8)],
        [answer.moving for answer in placed],
        [answer.covariance for answer in placed],
    )
    posterior = prior.condition(annotations, calibrate=model == "default")
    found = query.prediction
    assert np.allclose(found.mean, posterior.mean([query.point])[0])
    assert np.allclose(found.covariance, posterior.covariance([query.point])[0])
    # By hand: with 4 degrees of freedom P(m > r^2) = (1 + r^2 / 2)^-2 in 2D, with Gaussian tails exp(-r^2 / 2).
    square = 2 * (0.05**-0.5 - 1) if model == "default" else -2 * np.log(0.05)
    assert np.allclose((found.axes * found.half_lengths**2) @ found.axes.T, square * found.covariance)
    if model == "default":
        drawn = stats.multivariate_t(np.zeros(2), found.covariance / 2, 4).rvs(40_000, random_state=1)
    else:
        drawn = stats.multivariate_normal(np.zeros(2), found.covariance).rvs(40_000, random_state=1)
    inside = np.linalg.norm(drawn @ found.axes / found.half_lengths, axis=1) <= 1
    assert inside.mean() == pytest.approx(0.95, abs=0.005)
    assert found.inside
    assert found.sd == pytest.approx(np.sqrt(np.trace(found.covariance) / 2))


def test_the_prediction_of_a_former_answer_leaves_that_answer_out(tmp_path: Path) -> None:
    """A slip of 40 pixels, looked at again, is not where the model expects it: moving it does not move the dashes."""
    project = make(tmp_path / "p", {"refit": "never"})
    session = Session(project, "ada")
    Rater(session, "ada").work(10)
    slip = session.next_query()
    session.place(slip, np.add(true_map(np.array(slip.point)), [40.0, 0.0]), confirmed=True)
    state = project.state
    others = [state.placement("ada", number) for number in range(10)]
    annotations = wg.Annotations(
        [state.queries[number].point for number in range(10)],
        [answer.moving for answer in others],
        [answer.covariance for answer in others],
    )
    alone = default_prior(project.fixed_grid, project.settings).condition(annotations, calibrate=True)
    looked = session.go_to(slip)
    assert np.allclose(looked.prediction.mean, alone.mean([slip.point])[0])
    assert np.allclose(looked.prediction.covariance, alone.covariance([slip.point])[0])


def test_a_match_outside_the_moving_image_is_told(tmp_path: Path) -> None:
    """A prediction beyond the moving image says so, and a placement there is saved with a warning."""
    session = Session(make(tmp_path / "p", {"refit": "never"}), "ada")
    for _ in range(5):
        query = session.next_query()
        with pytest.warns(SuspiciousDataWarning, match="outside the moving image"):
            session.place(query, np.add(query.point, [2 * 300, 0]))
    assert not session.next_query().prediction.inside


def test_hidden_prediction(tmp_path: Path) -> None:
    """A project may keep the prediction from its raters."""
    session = Session(make(tmp_path / "p", {"hide_prediction": True}), "ada")
    assert session.next_query().prediction is None


def test_what_a_rater_has_before_them_does_not_jump(tmp_path: Path) -> None:
    """Refits and other raters' answers leave the prediction and the view of a handed-out query alone."""
    project = make(tmp_path / "p", {"blind": False})
    session = Session(project)
    Rater(session, "ada").work(9)
    held = session.next_query("ben")
    view, points = session.view("ben"), lattice(3, 3)
    before = view.mean(points)
    Rater(session, "ada").work(4)
    assert session.refit() is not None
    assert [fit.annotations for fit in project.state.fits] == [3, 5, 8, 12, 13]  # the last one is this
    assert session.view("ben") is view
    assert np.array_equal(session.view("ben").mean(points), before)
    session.place(held, true_map(np.array(held.point)), rater="ben")
    assert session.view("ben") is view  # nothing jumps after a placement either
    assert session.next_query("ben").number == held.number + 1
    assert not np.array_equal(session.view("ben").mean(points), before)
    assert session.view("ben").prior is session.prior()


def test_another_and_previous(tmp_path: Path) -> None:
    """N gives another query, Backspace goes back along the trail, and what was put aside comes again at the end."""
    session = Session(make(tmp_path / "p", {"budget": 4, "refit": "never"}), "ada")
    first = session.next_query()
    second = session.another(first)
    assert (first.number, second.number) == (0, 1)
    assert session.next_query().number == 1
    session.skip(second, "torn_or_missing", "a fold")
    third = session.next_query()
    assert session.previous(third).number == 1
    assert session.previous(1).number == 0
    assert session.previous(0) is None
    assert session.go_to(1).answer.text == "a fold"
    session.place(third, true_map(np.array(third.point)))
    fourth = session.next_query()
    session.place(fourth, true_map(np.array(fourth.point)))
    fifth = session.next_query()  # the skip uses up nothing of the budget, what was put aside still does
    session.place(fifth, true_map(np.array(fifth.point)))
    last = session.next_query()
    assert (fourth.number, fifth.number, last.number) == (3, 4, 0)
    assert last.position == 1
    session.place(last, true_map(np.array(last.point)))
    assert session.next_query() is None
    with pytest.raises(InvalidInputError, match="no query 9"):
        session.go_to(9)


def test_stop_rules_end_the_list(tmp_path: Path) -> None:
    """Budget and uncertainty each end it with a sentence; one may go on beyond."""
    budget = Session(make(tmp_path / "a", {"budget": 3, "refit": "never"}), "ada")
    Rater(budget, "ada").work(3)
    assert budget.next_query() is None
    told = budget.progress()
    assert told.reasons == ("3 of the budget of 3 landmarks are placed.",)
    assert budget.next_query(beyond=True).number == 3
    other = Rater(budget, "ben")
    other.work(3)  # the list is longer now, and the budget of each rater is the same
    assert budget.next_query("ben") is None

    sure = Session(make(tmp_path / "b", {"stop_mean_sd": 4.0, "refit": "never"}), "ada")
    rater = Rater(sure, "ada")
    while (query := sure.next_query()) is not None:
        assert not sure.progress().reasons
        rater.answer(query)
    assert sure.progress().mean_sd < 4.0
    assert "is below 4 px" in sure.progress().reasons[0]


def test_all_candidates_answered(tmp_path: Path) -> None:
    """When no candidate is left the rater is done, and that is the reason given."""
    session = Session(make(tmp_path / "p", {"refit": "never"}, candidates=lattice(3, 2)), "ada")
    Rater(session, "ada").work(6)
    assert session.next_query() is None
    assert session.progress().reasons == ("No candidate is left to ask for.",)


@pytest.mark.parametrize("apart", [False, True])
def test_raters_at_once_extend_one_list(tmp_path: Path, apart: bool) -> None:
    """Eight raters in threads, of one session or each with the project opened anew: one list, and nothing twice."""
    project = make(tmp_path / "p")
    shared = Session(project)
    opened = [Project.open(tmp_path / "p", check_images=False) for _ in range(8)] if apart else []
    sessions = [Session(each) for each in opened] or [shared] * 8
    raters = [Rater(session, f"rater {number}", number) for number, session in enumerate(sessions)]
    problems: list[BaseException] = []

    def run(rater: Rater) -> None:
        try:
            rater.work(8)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(rater,)) for rater in raters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    project.sync()
    assert all([query.number for query in rater.seen] == list(range(8)) for rater in raters)
    assert len([event for event in project.events() if event.kind == "place"]) == 64
    candidates = [query.candidate for query in project.state.queries]
    assert len(candidates) == len(set(candidates)) == 8
    counts = [fit.annotations for fit in project.state.fits]
    assert counts == sorted(set(counts))  # no two processes logged the same refit
    assert project.verify().ok
    for each in opened:
        each.close()


def test_absurd_placements_are_refused(tmp_path: Path) -> None:
    """What no person can mean, and the arithmetic could not bear, is refused; the limits themselves are borne."""
    session = Session(make(tmp_path / "p", {"refit": "never"}), "ada")
    query = session.next_query()
    for point, options, sentence in (
        ([1e7, 0.0], {}, "check the units"),
        ([50.0, 50.0], {"radius": 1e-6}, "more certain than any placement"),
        ([50.0, 50.0], {"radius": 1e6}, "skip the query instead"),
        (["here", 0.0], {}, "must be numbers"),
        ([50.0], {}, "(?i)moving"),
        ([50.0, float("nan")], {}, "finite"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            session.place(query, point, **options)
    assert session.project.state.cells == {}
    for _ in range(12):
        query = session.next_query()
        session.place(query, true_map(np.array(query.point)), covariance=1.1e-6 * np.eye(2))
    assert np.isfinite(session.progress().mean_sd)


def test_the_ways_to_state_uncertainty(tmp_path: Path) -> None:
    """A click, a radius, an ellipse at any level and a covariance are stored as what they mean."""
    project = make(tmp_path / "p", {"refit": "never"})
    session = Session(project, "ada")
    radius = special.chdtri(2, 0.01) ** 0.5  # of the 99 % disc of a standard normal

    def stored(**options: object) -> Placement:
        query = session.next_query()
        return session.place(query, [50.0, 60.0], **options).answer.placement

    assert np.allclose(stored().covariance, (1.0 / radius) ** 2 * np.eye(2))  # a tenth of 10 px
    assert np.allclose(stored(radius=3.0).covariance, (3.0 / radius) ** 2 * np.eye(2))
    half = stored(radius=2.0, alpha=0.5)
    assert np.allclose(half.covariance, 4.0 / special.chdtri(2, 0.5) * np.eye(2))
    turned = np.array([[0.6, -0.8], [0.8, 0.6]])
    drawn = stored(ellipse=([4.0, 1.0], turned))
    assert np.allclose(drawn.covariance, turned @ np.diag([16.0, 1.0]) @ turned.T / radius**2)
    assert np.allclose(stored(covariance=[[2.0, 0.5], [0.5, 1.0]]).covariance, [[2.0, 0.5], [0.5, 1.0]])
    with pytest.raises(InvalidInputError, match="one of covariance, ellipse and radius"):
        stored(radius=1.0, covariance=np.eye(2))
    with pytest.raises(InvalidInputError, match="positive"):
        stored(radius=-1.0)
    with pytest.raises(InvalidInputError, match="Say who acts"):
        Session(project).next_query()


def test_a_three_dimensional_project(tmp_path: Path) -> None:
    """The same loop in 3D, with anisotropic voxels and an oblique frame."""
    import SimpleITK as sitk  # noqa: N813

    rng = np.random.default_rng(0)
    for name in ("fixed", "moving"):
        image = sitk.GetImageFromArray(rng.integers(0, 255, (12, 30, 40), dtype=np.uint8))
        image.SetSpacing((1.0, 1.0, 2.5))
        image.SetOrigin((-20.0, 5.0, 100.0))
        c, s = np.cos(0.3), np.sin(0.3)
        image.SetDirection((c, -s, 0, s, c, 0, 0, 0, 1))
        sitk.WriteImage(image, str(tmp_path / f"{name}.mha"))
    # World points of random voxels that are not at the border, where the truth would leave the moving image.
    index = rng.uniform([4, 4, 1], [35, 25, 10], (200, 3)) * [1.0, 1.0, 2.5]
    inner = index @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T + [-20.0, 5.0, 100.0]
    project = Project.create(
        tmp_path / "p",
        fixed=tmp_path / "fixed.mha",
        moving=tmp_path / "moving.mha",
        candidates=inner,
        targets=300,
        settings={},
    )
    assert (project.d, project.units) == (3, "mm")
    session = Session(project, "ada")

    def truth(points: np.ndarray) -> np.ndarray:
        return points + np.stack([np.sin(points[..., 1] / 8), 0 * points[..., 1], 0.05 * points[..., 0]], axis=-1)

    spread = np.random.default_rng(2)
    while (count := session.progress().annotations) < 25:
        query = session.next_query()
        factor = spread.normal(size=(3, 3))
        covariance = 0.01 * (factor @ factor.T + 0.2 * np.eye(3))
        # Place at the truth: what is tested is the frame and the algebra in 3D.
        session.place(query, truth(np.array(query.point)), covariance=covariance)
    assert count == 25
    targets = project.targets
    error = np.linalg.norm(session.posterior().mean(targets) - truth(targets), axis=1)
    assert error.mean() < 0.25 * np.linalg.norm(truth(targets) - targets, axis=1).mean()
    assert session.landmarks().frame == "LPS"
