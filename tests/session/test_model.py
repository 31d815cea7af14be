"""What the model rests on and reports, held against the core called by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import oracle
import warpgauge as wg
from session.tools import HEIGHT, WIDTH, Rater, lattice, make, true_map
from warpgauge.core.power_law import fit_power_law
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Grid
from warpgauge.io.landmarks import Landmarks, Skip
from warpgauge.project import NotAllowedError, Settings
from warpgauge.session import Session
from warpgauge.session.control_questions import rater_certificate
from warpgauge.session.prior import default_prior, default_radius, fit_event

NEVER = {"refit": "never"}


def test_default_prior() -> None:
    """Scales double from 10 pixels to the image's size, in world units; weights, trend and tails are those stated."""
    grid = Grid((300, 240), [0.5, 0.5], units="um")
    prior = default_prior(grid, Settings())
    assert np.allclose(prior.kernel.scales, [5, 10, 20, 40, 80, 160])  # 160 is the first above 150
    nothing = np.empty((0, 2))
    assert np.allclose(
        prior.kernel.weights, oracle.power_law_weights(prior.kernel.scales, (150, 120), nothing, nothing, [])[0]
    )
    assert (prior.mean, prior.tails) == ("affine", 4.0)
    assert np.allclose(prior.center, [149.5 / 2, 119.5 / 2])
    assert default_radius(grid, Settings()) == pytest.approx(0.5)  # one pixel
    paper = default_prior(grid, Settings(model="paper"))
    assert (paper.mean, paper.tails) == ("identity", np.inf)
    assert np.allclose(paper.kernel.scales, prior.kernel.scales)
    assert paper.kernel.at_zero == pytest.approx((0.02 * np.hypot(150, 120)) ** 2)
    assert np.allclose(paper.kernel.weights[1:] / paper.kernel.weights[:-1], 4)
    deep = Grid((100, 100, 20), [1, 1, 8], units="mm")
    assert default_prior(deep, Settings()).kernel.scales[0] == pytest.approx(20)  # the geometric mean of 1, 1, 8 is 2


def test_refits_come_at_growing_intervals(tmp_path: Path) -> None:
    """At 3, 5, 8, 12, 18 and 27 annotations, each logged with what it was fitted to; the next is told."""
    session = Session(make(tmp_path / "p"), "ada")
    Rater(session, "ada").work(34)
    fits = session.project.state.fits
    assert [fit.annotations for fit in fits] == [3, 5, 8, 12, 18, 27]
    assert "27 annotations" in session.progress().weights
    assert np.array_equal(session.prior().kernel.weights, fits[-1].weights)


def test_a_refit_is_the_average_over_the_power_law(tmp_path: Path) -> None:
    """As ``fit_power_law`` gives it for the project's annotations; in the paper's model the leave-one-out fit."""
    project = make(tmp_path / "p", NEVER)
    session = Session(project, "ada")
    Rater(session, "ada").work(12)
    event = session.refit()
    initial = default_prior(project.fixed_grid, project.settings)
    fitted = fit_power_law(initial, session.annotations(), project.fixed_grid.spacing * project.fixed_grid.size)
    assert np.allclose(event.weights, fitted.kernel.weights)
    assert event.report["annotations"] == 12
    assert (session.prior().linear_sd, session.prior().translation_sd) == (fitted.linear_sd, fitted.translation_sd)
    assert event.report["slope"] == pytest.approx(fitted.fit.slope)
    assert event.noise == 0
    assert session.posterior().prior.tails == 4.0
    paper = make(tmp_path / "paper", {"model": "paper"})
    session = Session(paper, "ada")
    Rater(session, "ada").work(12)
    fitted = wg.fit_kernel(default_prior(paper.fixed_grid, paper.settings), session.annotations())
    assert np.allclose(session.refit().weights, fitted.kernel.weights)


def test_no_refit_where_the_settings_say_so(tmp_path: Path) -> None:
    """The paper's model is not refitted unless asked, nor calibrated; neither is any with refit never."""
    for name, settings in (("paper", {"model": "paper"}), ("never", NEVER)):
        session = Session(make(tmp_path / name, settings), "ada")
        Rater(session, "ada").work(16)
        assert session.project.state.fits == []
        assert session.refit_if_due() is None
        assert (session.posterior().scale == 1.0) == (name == "paper")
    assert session.refit().annotations == 16


def test_weights_that_were_learned_elsewhere(tmp_path: Path) -> None:
    """The paper's weights come from other pairs: once logged they stay, whatever is answered or undone here."""
    project = make(tmp_path / "p")
    session = Session(project, "ben")
    learned = default_prior(project.fixed_grid, project.settings).with_kernel(wg.KernelBundle("wendland", [9.0], [4.0]))
    project.append(fit_event(learned, "ben"))
    Rater(session, "ben").work(6)
    session.undo()
    assert session.prior().kernel.weights.tolist() == [4.0]
    assert len(project.state.fits) == 1
    assert session.refit_if_due() is None


def test_one_raters_annotations_keep_their_covariances(tmp_path: Path) -> None:
    """Nothing is changed on the way from the log to the model, and what is switched off is left out."""
    project = make(tmp_path / "p", NEVER)
    session = Session(project, "ada")
    Rater(session, "ada", anisotropic=True).work(6)
    session.disable(2)
    session.exclude(4, "ada")
    found = session.annotations()
    rows = [0, 1, 3, 5]
    state = project.state
    assert np.array_equal(found.fixed_points, [state.queries[row].point for row in rows])
    assert np.array_equal(found.moving_points, [state.placement("ada", row).moving for row in rows])
    assert np.allclose(found.covariances, [state.placement("ada", row).covariance for row in rows])
    session.enable(2)
    session.include(4, "ada")
    assert len(session.annotations()) == 6


def test_several_raters_are_fused(tmp_path: Path) -> None:
    """Where several answered, mean and covariance are those of fuse_raters; elsewhere the one rater's own."""
    project = make(tmp_path / "p", NEVER)
    session = Session(project)
    Rater(session, "ada", 1, sd=1.5).work(8)
    Rater(session, "ben", 2, sd=1.5).work(5)
    Rater(session, "cyd", 3, sd=1.5).work(5)
    state = project.state
    points = {who: np.array([state.placement(who, row).moving for row in range(5)]) for who in ("ada", "ben", "cyd")}
    click = 1 / np.sqrt(special.chdtri(2, 0.01))
    expected = wg.fuse_raters(points, floor=click)
    found = session.annotations()
    assert np.allclose(found.moving_points[:5], expected.points)
    assert np.allclose(found.covariances[:5], expected.covariances)
    assert np.allclose(found.covariances[5:], 1.5**2 * np.eye(2))
    told = session.agreement()
    assert np.allclose(told.raters[1].bias, expected.bias[1])
    assert told.raters[1].placed == 5
    ada, ben = points["ada"][0], points["ben"][0]
    cyd = points["cyd"][0]
    distances = [np.linalg.norm(ada - ben), np.linalg.norm(ada - cyd), np.linalg.norm(ben - cyd)]
    assert told.locations[0].max_distance == pytest.approx(max(distances))
    assert told.locations[7].max_distance is None
    assert told.raters[0].median_seconds == 2.0


def test_raters_who_always_agree_are_not_believed_beyond_a_click(tmp_path: Path) -> None:
    """Two equal placements have no scatter; the fused one is as uncertain as a click, not exact."""
    session = Session(make(tmp_path / "p", NEVER))
    for who in ("ada", "ben"):
        query = session.next_query(who)
        session.place(query, [50.0, 50.0], radius=4.0, rater=who)
    click = 1 / special.chdtri(2, 0.01)
    assert np.allclose(session.annotations().covariances[0], click * np.eye(2))


def test_adjudication(tmp_path: Path) -> None:
    """The organiser excludes a mark, asks again, and settles a location; a rater may not."""
    project = make(tmp_path / "p", NEVER)
    session = Session(project)
    Rater(session, "ada").work(3)
    query = session.go_to(0, "ben")
    session.place(query, [200.0, 10.0], rater="ben")
    project.add_rater("ben")
    session.exclude(0, "ben", "wrong fold", rater="organiser")
    state = project.state
    assert np.allclose(session.annotations().moving_points[0], state.placement("ada", 0).moving)
    with pytest.raises(NotAllowedError):
        session.ask_again(0, "ben", rater="ben")
    session.ask_again(0, "ben", rater="organiser")
    waiting = [session.next_query("ben")]
    while waiting[-1].number != 3:
        session.skip(waiting[-1], "other", rater="ben")
        waiting.append(session.next_query("ben"))
    assert waiting[-1].point == query.point
    session.place(waiting[-1], true_map(np.array(query.point)), rater="ben")

    def by_both() -> np.ndarray:
        return np.mean([state.placement("ada", 0).moving, project.state.placement("ben", 3).moving], axis=0)

    assert np.allclose(session.annotations().moving_points[0], by_both())
    # The answer to the second asking counts, even when the first is taken in again.
    session.include(0, "ben", rater="organiser")
    assert np.allclose(session.annotations().moving_points[0], by_both())
    session.resolve(3, "agreed", rater="organiser")
    assert session.agreement().locations[0].resolved == "agreed"
    assert session.next_query("ada").number == 4  # the second asking was for ben only


def test_a_settled_location_is_asked_of_nobody_until_it_is_asked_again(tmp_path: Path) -> None:
    """A rater who has not come to it yet goes on to the next one instead of being stuck there."""
    session = Session(make(tmp_path / "p", NEVER))
    Rater(session, "ada").work(2)
    session.resolve(0, "clear", rater="organiser")
    query = session.next_query("ben")
    assert query.number == 1
    session.skip(query, "other", rater="ben")
    assert session.next_query("ben").number == 2
    session.ask_again(0, rater="organiser")
    point = session.project.state.queries[0].point
    asked = []
    for _ in range(3):
        asked.append(session.next_query("ben"))
        session.skip(asked[-1], "other", rater="ben")
    assert point in [one.point for one in asked]


def test_repeats_measure_the_error_within_a_rater(tmp_path: Path) -> None:
    """One of every five locations is asked twice, later, unannounced and within the budget; the model is told once."""
    project = make(tmp_path / "p", {"repeat_fraction": 0.2, "repeat_lag": 4, "budget": 20, **NEVER})
    session = Session(project, "ada")
    rater = Rater(session, "ada", sd=2.0)
    while (query := session.next_query()) is not None:
        assert not any(hasattr(query, name) for name in ("same_as", "origin", "candidate"))
        rater.answer(query)
    queries = project.state.queries
    repeats = [query for query in queries if query.origin == "repeat"]
    assert len(repeats) == 3
    assert len(queries) == 20
    assert all(query.point == queries[query.same_as].point for query in repeats)
    assert all(4 <= query.number - query.same_as <= 9 for query in repeats)
    firsts = sorted(query.same_as for query in repeats)
    ranks = [[query.number for query in queries if query.origin == "suggested"].index(number) for number in firsts]
    assert [rank // 5 for rank in ranks] == [0, 1, 2]  # one of every five, while there is time to ask again
    assert len(session.annotations()) == 17
    state = project.state
    gaps = [
        np.linalg.norm(np.subtract(state.placement("ada", q.number).moving, state.placement("ada", q.same_as).moving))
        for q in repeats
    ]
    told = rater_certificate(state, "ada")
    assert told.repeats == 3
    assert told.repeat_sd == pytest.approx(np.sqrt(np.mean(np.square(gaps)) / 4))
    assert 0.5 < told.repeat_sd < 5  # around the 2 px with which the answers were drawn


def test_a_repeat_stands_in_for_a_skipped_first(tmp_path: Path) -> None:
    """Where the first asking was skipped and the second placed, the placement counts."""
    project = make(tmp_path / "p", {"repeat_fraction": 0.5, "repeat_lag": 1, "budget": 4, **NEVER})
    session = Session(project, "ada")
    while (query := session.next_query()) is not None:
        if project.state.queries[query.number].origin == "suggested":
            session.skip(query, "ambiguous")
        else:
            session.place(query, true_map(np.array(query.point)))
    assert len(session.annotations()) == 4  # the budget counts placements, those of repeats too
    assert rater_certificate(project.state, "ada") is None


@pytest.mark.parametrize("anisotropic", [False, True])
def test_progress_against_brute_force(tmp_path: Path, anisotropic: bool) -> None:
    """The curve is that of conditioning on the first 0, 1, 2, ... annotations; mean and maximum over all targets."""
    project = make(tmp_path / "p", NEVER, targets=250)
    session = Session(project, "ada")
    Rater(session, "ada", anisotropic=anisotropic).work(9)
    told, posterior, annotations = session.progress(), session.posterior(), session.annotations()
    assert told.targets == len(project.targets) <= 250
    for count in (0, 1, 5, 9):
        first = session.prior().condition(annotations[np.arange(count)])
        sd = np.sqrt(posterior.scale) * first.standard_deviation(project.targets)
        assert told.curve[count] == pytest.approx(sd.mean())
    assert told.mean_sd == pytest.approx(posterior.standard_deviation(project.targets).mean())
    assert told.max_sd == pytest.approx(posterior.standard_deviation(project.targets).max())
    assert (told.annotations, told.placed, told.skipped, told.median_seconds) == (9, 9, 0, 2.0)
    query = session.next_query()
    assert session.progress("ada").expected_gain == query.gain
    assert told.expected_gain == pytest.approx(query.gain)


def test_targets_that_are_not_candidates(tmp_path: Path) -> None:
    """With targets in one corner only, the first locations are asked near that corner."""
    corner = np.random.default_rng(0).uniform([5, 5], [60, 60], (80, 2))
    project = make(tmp_path / "p", NEVER, targets=corner)
    session = Session(project, "ada")
    seen = np.array([query.point for query in Rater(session, "ada").work(14)])
    near = np.all(seen < 110, axis=1).mean()
    everywhere = Session(make(tmp_path / "q", NEVER), "ada")
    spread = np.array([query.point for query in Rater(everywhere, "ada").work(14)])
    assert near > 2 * np.all(spread < 110, axis=1).mean()


def brute_force_row(session: Session, row: int) -> tuple[np.ndarray, float]:
    """Residual and Mahalanobis length of one annotation, by conditioning on all others."""
    annotations, scale = session.annotations(), session.posterior().scale
    rest = session.prior().condition(annotations[np.arange(len(annotations)) != row])
    at = annotations.fixed_points[row : row + 1]
    residual = annotations.moving_points[row] - rest.mean(at)[0]
    covariance = scale * rest.covariance(at)[0] + annotations.covariances[row]
    return residual, float(np.sqrt(residual @ np.linalg.solve(covariance, residual)))


@pytest.mark.parametrize("anisotropic", [False, True])
def test_the_list_against_brute_force(tmp_path: Path, anisotropic: bool) -> None:
    """Residuals are those of conditioning anew without each annotation; a disabled one is predicted by all."""
    session = Session(make(tmp_path / "p", NEVER), "ada")
    Rater(session, "ada", anisotropic=anisotropic).work(12)
    for row, found in enumerate(session.listing("ada")):
        residual, length = brute_force_row(session, row)
        assert np.allclose(found.residual, residual)
        assert found.mahalanobis == pytest.approx(length)
        assert found.p == pytest.approx(stats.chi2.sf(length**2, 2))  # slips are screened for as if normal
        assert found.distance == pytest.approx(np.linalg.norm(residual))
    session.disable(3)
    row = session.listing("ada")[3]
    posterior = session.posterior()
    assert row.mark.disabled
    assert np.allclose(row.residual, row.mark.placement.moving - posterior.mean([row.mark.fixed_point])[0])


def test_in_the_papers_model_the_list_has_gaussian_tails(tmp_path: Path) -> None:
    """p of each row is that of scipy's chi-square with two degrees of freedom."""
    session = Session(make(tmp_path / "p", {"model": "paper"}), "ada")
    Rater(session, "ada").work(8)
    for row, found in enumerate(session.listing("ada")):
        assert found.p == pytest.approx(stats.chi2(2).sf(brute_force_row(session, row)[1] ** 2))


def test_gross_errors_are_flagged(tmp_path: Path) -> None:
    """A placement far off is an outlier; the others are not flagged."""
    session = Session(make(tmp_path / "p", NEVER), "ada")
    Rater(session, "ada").work(40)
    assert not any(row.outlier for row in session.listing("ada"))
    state = session.project.state
    wrong = np.subtract(state.placement("ada", 10).moving, [30.0, 35.0])
    with pytest.warns(SuspiciousDataWarning, match="from where the other landmarks say"):
        session.place(10, wrong, covariance=0.09 * np.eye(2))
    flagged = [row.mark.query.number for row in session.listing("ada") if row.outlier]
    assert 10 in flagged
    assert min(session.listing("ada"), key=lambda row: row.p).mark.query.number == 10
    session.disable(10)
    assert [row.mark.query.number for row in session.listing("ada") if row.outlier] == [10]


def test_landmarks_out_and_in_again(tmp_path: Path) -> None:
    """What is exported and imported into a new project gives the same annotations, skips and switches."""
    project = make(tmp_path / "p", NEVER)
    session = Session(project, "ada")
    rater = Rater(session, "ada", anisotropic=True)
    rater.work(5)
    session.skip(session.next_query(), "torn_or_missing", "a fold: here")
    session.disable(1)
    told = session.landmarks()
    assert told.names == ("q0", "q1", "q2", "q3", "q4")
    assert told.skips[0].reason == "torn_or_missing: a fold: here"
    other = Session(make(tmp_path / "q", NEVER))
    other.import_landmarks(told)
    back = other.landmarks()
    for name in ("fixed_points", "moving_points", "active"):
        assert np.array_equal(getattr(back, name), getattr(told, name))
    assert np.allclose(back.covariances, told.covariances)
    assert (back.raters, back.names) == (told.raters, told.names)
    assert back.skips[0].reason == told.skips[0].reason
    assert np.array_equal(other.annotations().fixed_points, session.annotations().fixed_points)
    assert np.allclose(other.posterior().mean(lattice(4, 4)), session.posterior().mean(lattice(4, 4)))
    # Candidates that came in this way are not suggested again.
    seen = [query.candidate for query in other.project.state.queries]
    Rater(other, "ada").work(10)
    candidates = [query.candidate for query in other.project.state.queries]
    assert candidates[:6] == seen
    assert len(set(candidates)) == len(candidates)
    fused = session.landmarks(fused=True)
    assert len(fused) == 4


def test_imports_of_two_raters_meet_at_the_same_locations(tmp_path: Path) -> None:
    """The same fixed points from two raters become one location each, which the model fuses; all or nothing."""
    project = make(tmp_path / "p", NEVER)
    session = Session(project)
    points = lattice(3, 3, 40.0) + 0.5
    one = Landmarks(points, true_map(points), units="px")
    other = Landmarks(points[:4], np.add(true_map(points[:4]), [1.0, 0.0]), units="px")
    session.import_landmarks(one, "ps")
    session.import_landmarks(other, "jb")
    assert len(session.annotations()) == 9
    assert np.allclose(session.annotations().moving_points[:4], np.add(true_map(points[:4]), [0.5, 0.0]))
    assert session.next_query("ada").number == 13  # neither is asked of others
    generation = project.state.generation
    with pytest.raises(InvalidInputError, match="The rater jb has an answer at"):
        session.import_landmarks(Landmarks(points[3:6], true_map(points[3:6]), units="px"), "jb")
    assert project.state.generation == generation
    with pytest.raises(InvalidInputError, match="does not say who placed it"):
        session.import_landmarks(one)
    with pytest.raises(InvalidInputError, match="2D in mm"):
        session.import_landmarks(Landmarks(points, points, units="mm"), "x")
    skipped = Landmarks(np.empty((0, 2)), np.empty((0, 2)), skips=(Skip(points[0], "too dark", "kit"),), units="px")
    session.import_landmarks(skipped)
    assert session.skipped("kit")[0][2].text == "too dark"


def test_a_thousand_landmarks_of_two_raters_are_a_thousand_locations(tmp_path: Path) -> None:
    """Among 20,000 candidates, of which the first 100 are landmarks; an import that was undone comes in again."""
    rng = np.random.default_rng(0)
    points = rng.uniform([5, 5], [WIDTH - 5, HEIGHT - 5], (1000, 2))
    candidates = np.vstack([points[:100], rng.uniform([5, 5], [WIDTH - 5, HEIGHT - 5], (19_900, 2))])
    session = Session(make(tmp_path / "p", NEVER, candidates=candidates))
    ada, ben = (Landmarks(points + shift, true_map(points) + shift, units="px") for shift in (0.0, 0.01))
    session.import_landmarks(ada, "ada")
    session.import_landmarks(ben, "ben")
    assert len(session.annotations()) == 1000
    session.undo("ada")
    session.import_landmarks(ada, "ada")
    assert len(session.annotations()) == 1000
    assert np.allclose(session.annotations().fixed_points, points + 0.005)
    queries = [query for query in session.project.state.queries if query.same_as is None]
    assert [query.candidate for query in queries] == [*range(100), *[None] * 900]


def test_shared_imports_are_asked_of_all(tmp_path: Path) -> None:
    """Locations brought along for all come first in the list of the next rater."""
    session = Session(make(tmp_path / "p", NEVER))
    points = np.array([[WIDTH / 2, HEIGHT / 2], [40.0, 40.0]])
    session.import_landmarks(Landmarks(points, true_map(points), units="px"), "ps", shared=True)
    query = session.next_query("ada")
    assert (query.number, query.point) == (0, (WIDTH / 2, HEIGHT / 2))
