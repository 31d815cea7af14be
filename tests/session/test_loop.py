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
from warpgauge.core.process import Posterior
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.project import ConflictError, Placement, Project
from warpgauge.session import Session
from warpgauge.session.live_suggester import wanted_records
from warpgauge.session.prior import default_covariance, default_prior

STILL = {"suggest_with": "default", "refit": "never"}
PAPERS = {"strategy": "entropy"}


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


def test_the_list_is_that_of_the_suggester(tmp_path: Path) -> None:
    """With the default noise for all, the list is what a Suggester alone gives, whatever is answered."""
    project = make(tmp_path / "p", {**STILL, **PAPERS})
    session = Session(project, "ada")
    Rater(session, "ada", anisotropic=True).work(15)
    grid, settings = project.fixed_grid, project.settings
    plain = wg.Suggester(
        default_prior(grid, settings), project.candidates, default_covariance=default_covariance(grid, settings)
    )
    expected = []
    for _ in range(15):
        expected.append(plain.suggest())
        plain.record(expected[-1])
    assert [query.candidate for query in project.state.queries] == expected


def test_with_default_noise_the_list_does_not_depend_on_the_answers(tmp_path: Path) -> None:
    """Other placements, other uncertainties and skips give the same list; with stated noise they do not."""

    def points(name: str, settings: dict[str, object], sd: float, skips: bool) -> list[tuple[float, ...]]:
        session = Session(make(tmp_path / name, settings), "ada")
        rater = Rater(session, "ada", seed=len(name), sd=sd)
        for step in range(20):
            query = session.next_query()
            if skips and step % 3 == 0:
                session.skip(query, "ambiguous")
            else:
                rater.answer(query)
        return [query.point for query in session.project.state.queries]

    assert points("a", STILL, 0.2, False) == points("bb", STILL, 4.0, True)
    told = {**STILL, "suggest_with": "answers"}
    assert points("c", told, 0.2, False) != points("dd", told, 4.0, False)


def fresh_suggestion(project: Project) -> int:
    """What a Suggester built from nothing suggests for the state."""
    state, grid, settings = project.state, project.fixed_grid, project.settings
    default = default_covariance(grid, settings)
    prior, candidates = default_prior(grid, settings), project.candidates
    weighed = settings.chosen_strategy == "information"
    chance = plain_chance(project, prior.condition(Session(project).annotations(), calibrate=True)) if weighed else None
    suggester = wg.Suggester(
        prior, candidates, strategy=settings.chosen_strategy, default_covariance=default, chance=chance
    )
    for record in wanted_records(state, default, True).values():
        suggester.record(record.candidate, np.array(record.covariance))
    for query in state.queries:
        suggester.skip(query.candidate)
    return suggester.suggest()


def plain_chance(project: Project, posterior: Posterior) -> np.ndarray:
    """The chance of every candidate as the documentation defines it, answer by answer."""
    candidates, diagonal = project.candidates, project.fixed_grid.diagonal
    answers, skips = np.ones(len(candidates)), np.zeros(len(candidates))
    for (_, number), cell in project.state.cells.items():
        squares = np.square(candidates - project.state.queries[number].point).sum(axis=1)
        if cell.placement is not None:
            answers += np.exp(-0.5 * squares / (0.08 * diagonal) ** 2)
        elif cell.answer is not None:
            skips += np.exp(-0.5 * squares / (0.06 * diagonal) ** 2)
    size = np.array(project.moving_grid.size)
    mean, covariance = posterior.mean(candidates), posterior.covariance(candidates)
    inside = chance_in_box(mean, covariance, np.full(2, -0.5), size - 0.5, tails=4.0)
    return answers / (answers + 2 * skips) * inside


@pytest.mark.parametrize("strategy", ["information", "entropy"])
def test_following_the_answers_is_the_same_as_starting_anew(tmp_path: Path, strategy: str) -> None:
    """After edits, skips, undo and switching off anywhere, the next suggestion is that of a new Suggester."""
    project = make(tmp_path / "p", {"refit": "never", "strategy": strategy}, foreground="none")
    session, rng = Session(project, "ada"), np.random.default_rng(1)
    rater = Rater(session, "ada", anisotropic=True)
    for step in range(45):
        expected = fresh_suggestion(project)
        query = session.next_query()
        assert project.state.queries[query.number].candidate == expected, step
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


def test_pending_locations_count_with_the_default_noise(tmp_path: Path) -> None:
    """What is in the list but not answered, as a location that only another rater is asked, counts as if it were."""
    project = make(tmp_path / "p", {"refit": "never"})
    session = Session(project, "ada")
    session.import_landmarks(wg_landmarks(project, lattice(2, 2, 60.0)), "ben")
    for number in range(4):
        session.undo("ben")
        assert len(wanted_records(project.state, np.eye(2), True)) == 4, number
    records = wanted_records(project.state, np.eye(2), True)
    assert all(record.covariance == ((1.0, 0.0), (0.0, 1.0)) for record in records.values())


def wg_landmarks(project: Project, points: np.ndarray):
    from warpgauge.io.landmarks import Landmarks

    return Landmarks(points, true_map(points), units=project.units)


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
        alone = session.prediction(7 if len(project.state.queries) > 7 else 3, "ben")
        Rater(session, "ada").work(12)
        after = session.prediction(3, "ben")
        query = session.next_query("ben")
        own = session.prior().condition(session.annotations("ben"), calibrate=True)
        expected = own.mean([query.point])[0]
        assert np.allclose(query.prediction.mean, expected) == blind
        # The query that ben had before him keeps its prediction all the while.
        assert np.array_equal(alone.mean, after.mean)
        shown = {row.rater for row in session.listing("ben")}
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
        [answer.point for answer in placed],
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
    assert session.prediction(query).sd == pytest.approx(np.sqrt(np.trace(found.covariance) / 2))


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
        [answer.point for answer in others],
        [answer.covariance for answer in others],
    )
    alone = default_prior(project.fixed_grid, project.settings).condition(annotations, calibrate=True)
    looked = session.go_to(slip)
    assert np.allclose(looked.prediction.mean, alone.mean([slip.point])[0])
    assert np.allclose(looked.prediction.covariance, alone.covariance([slip.point])[0])
    assert np.allclose(session.prediction(slip).mean, looked.prediction.mean)


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
    assert session.prediction(held, "ben") is held.prediction
    assert session.view("ben") is view
    assert np.array_equal(session.view("ben").mean(points), before)
    session.place(held, true_map(np.array(held.point)), rater="ben")
    assert session.view("ben") is view  # nothing jumps after a placement either
    assert session.next_query("ben").number == held.number + 1
    assert not np.array_equal(session.view("ben").mean(points), before)
    assert session.view("ben").prior is session.prior()


def test_another_previous_and_following(tmp_path: Path) -> None:
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
    assert session.following(0).number == 1
    assert session.following(1).number == third.number
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


def test_a_location_put_aside_or_skipped_tells_the_model_nothing(tmp_path: Path) -> None:
    """The next best instead is chosen as if the one put aside were not asked: near it, not far from it."""
    session = Session(make(tmp_path / "p", {"refit": "never"}), "ada")
    Rater(session, "ada").work(10)
    query = session.next_query()
    records = wanted_records(session.project.state, np.eye(2), True)
    assert query.number in records
    instead = session.another(query)
    records = wanted_records(session.project.state, np.eye(2), True)
    assert query.number not in records
    assert instead.gain == pytest.approx(query.gain, abs=0.5)


def test_random_order_is_each_raters_own(tmp_path: Path) -> None:
    """In random order raters answer the same locations, each in an order of their own that a restart keeps."""
    project = make(tmp_path / "p", {"order": "random", "batch": 8, "refit": "never"})
    session = Session(project)
    ada, ben = Rater(session, "ada"), Rater(session, "ben")
    ada.work(5)
    with Project.open(project.folder) as again:
        resumed = Rater(Session(again), "ada")
        resumed.work(3)
        order = [query.number for query in ada.seen + resumed.seen]
    ben.work(8)
    assert sorted(order) == list(range(8)) == sorted(query.number for query in ben.seen)
    assert order != [query.number for query in ben.seen]
    assert order != list(range(8))
    ada.work(1)
    assert len(project.state.queries) == 16


def test_stop_rules_end_the_list(tmp_path: Path) -> None:
    """Budget, uncertainty and gain each end it with a sentence; one may go on beyond."""
    budget = Session(make(tmp_path / "a", {"budget": 3, "refit": "never"}), "ada")
    Rater(budget, "ada").work(3)
    assert budget.next_query() is None
    told = budget.progress()
    assert told.done
    assert told.reasons == ("3 of the budget of 3 landmarks are placed.",)
    assert budget.next_query(beyond=True).number == 3
    other = Rater(budget, "ben")
    other.work(3)  # the list is longer now, and the budget of each rater is the same
    assert budget.next_query("ben") is None

    sure = Session(make(tmp_path / "b", {"stop_mean_sd": 4.0, "refit": "never"}), "ada")
    rater = Rater(sure, "ada")
    while (query := sure.next_query()) is not None:
        assert not sure.progress().done
        rater.answer(query)
    assert sure.progress().mean_sd < 4.0
    assert "is below 4 px" in sure.progress().reasons[0]

    gain = Session(make(tmp_path / "c", {"stop_gain": 6.0, "refit": "never"}), "ada")
    rater = Rater(gain, "ada")
    while (query := gain.next_query()) is not None:
        assert query.gain >= 6.0
        rater.answer(query)
    assert gain.progress().expected_gain < 6.0
    assert gain.progress().done


def test_all_candidates_answered(tmp_path: Path) -> None:
    """When no candidate is left the rater is done, and that is the reason given."""
    session = Session(make(tmp_path / "p", {"refit": "never"}, candidates=lattice(3, 2)), "ada")
    Rater(session, "ada").work(6)
    assert session.next_query() is None
    assert session.progress().reasons == ("No candidate is left to ask for.",)


def test_two_tabs_of_one_rater(tmp_path: Path) -> None:
    """The second tab's stale answer is refused with the first tab's event; undo is guarded in the same way."""
    project = make(tmp_path / "p", {"refit": "never"})
    one, other = Session(project, "ada"), Session(Project.open(project.folder), "ada")
    first, same = one.next_query(), other.next_query()
    saved = one.place(first, [10.0, 10.0], base_generation=first.generation)
    with pytest.raises(ConflictError) as caught:
        other.place(same, [20.0, 20.0], base_generation=same.generation)
    assert (caught.value.newer.kind, caught.value.newer.generation) == ("place", saved.generation)
    assert other.project.state.placement("ada", same.number).moving == (10.0, 10.0)
    with pytest.raises(ConflictError):
        other.undo(base_generation=same.generation)
    assert other.place(same, [20.0, 20.0], base_generation=saved.generation).answer.placement.moving == (20.0, 20.0)
    assert one.undo().answer.placement.moving == (10.0, 10.0)
    assert one.undo().answer is None
    assert one.undo() is None
    assert other.redo().answer.placement.moving == (10.0, 10.0)
    other.project.close()


def test_threads_share_a_session(tmp_path: Path) -> None:
    """Eight raters in eight threads of one process: every answer is saved once, all see one list."""
    project = make(tmp_path / "p", {"refit_first": 5})
    session = Session(project)
    raters = [Rater(session, f"rater {number}", number) for number in range(8)]
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
    assert all([query.number for query in rater.seen] == list(range(8)) for rater in raters)
    placed = [event for event in project.events() if event.kind == "place"]
    assert len(placed) == 64
    assert len(project.state.queries) == 8
    assert project.verify().ok


def test_processes_extend_one_list(tmp_path: Path) -> None:
    """Raters who each open the project for themselves reach the end at once: the list grows once, without doubles."""
    make(tmp_path / "p", {"refit_first": 5}).close()
    raters = [
        Rater(Session(Project.open(tmp_path / "p", check_images=False)), f"rater {number}", number)
        for number in range(4)
    ]
    problems: list[BaseException] = []

    def run(rater: Rater) -> None:
        try:
            rater.work(9)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(rater,)) for rater in raters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    project = raters[0].session.project
    assert all([query.number for query in rater.seen] == list(range(9)) for rater in raters)
    candidates = [query.candidate for query in project.state.queries]
    assert len(candidates) == len(set(candidates)) == 9
    counts = [fit.annotations for fit in project.state.fits]
    assert counts == sorted(set(counts))  # no two processes logged the same refit
    assert project.verify().ok
    for rater in raters:
        rater.session.project.close()


def test_absurd_placements_are_refused(tmp_path: Path) -> None:
    """What no person can mean, and the arithmetic could not bear, is refused; the limits themselves are borne."""
    session = Session(make(tmp_path / "p", {"refit": "never"}), "ada")
    query = session.next_query()
    for point, options, sentence in (
        ([1e7, 0.0], {}, "check the units"),
        ([50.0, 50.0], {"radius": 1e-6}, "more certain than any placement"),
        ([50.0, 50.0], {"radius": 1e6}, "skip the query instead"),
        (["here", 0.0], {}, "must be numbers"),
        ([50.0], {}, "The placed point"),
        ([50.0, float("nan")], {}, "not finite"),
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
    assert drawn.ellipse.half_lengths == (4.0, 1.0)
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


def test_read_only_projects_can_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written the model can still be asked; extending the list says why it cannot."""
    from warpgauge.project import StorageError

    project = make(tmp_path / "p", {"refit": "never"})
    Rater(Session(project, "ada"), "ada").work(5)
    project.close()
    monkeypatch.setattr("warpgauge.project.sqlite_log.os.access", lambda path, mode: False)
    with Project.open(tmp_path / "p") as reader:
        assert reader.readonly
        session = Session(reader, "ada")
        assert session.progress().annotations == 5
        assert len(session.listing()) == 5
        with pytest.raises(StorageError, match="cannot be written"):
            session.next_query()
