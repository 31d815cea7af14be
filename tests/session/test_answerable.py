"""Questions that can be answered: partial overlap, skips that teach, budgets of placements, and a real pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage
from scipy.interpolate import RBFInterpolator

from session.tools import HEIGHT, WIDTH, Rater, lattice, make
from warpgauge.core.expected_answers import chance_in_box
from warpgauge.errors import SuspiciousDataWarning
from warpgauge.io.landmarks import read_landmarks
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.session.answer_chances import SKIP_REACHES

NEVER = {"refit": "never"}


def answered(session: Session, shift: tuple[float, float], count: int) -> list[bool]:
    """Answer so many questions of a pair shifted against each other; what lies outside is skipped."""
    rng, found = np.random.default_rng(0), []
    for _ in range(count):
        query = session.next_query()
        assert query is not None
        match = np.add(query.point, shift)
        found.append(bool(session.project.moving_grid.contains(match)))
        if found[-1]:
            session.place(query, match + rng.normal(0, 0.3, 2))
        else:
            session.skip(query, "outside_image")
    return found


def test_questions_have_answers_where_the_images_overlap_in_part(tmp_path: Path) -> None:
    """A shift that leaves 60 % of the fixed image in the moving one: entropy asks outside, the chance does not."""
    shift = (0.4 * WIDTH, 0.0)
    shares = {}
    for strategy in ("information", "entropy"):
        project = make(tmp_path / strategy, {"strategy": strategy}, candidates=lattice(25, 20, 5.0), foreground="none")
        shares[strategy] = np.mean(answered(Session(project, "ada"), shift, 30))
    assert shares["information"] >= 0.85
    assert shares["entropy"] < 0.6


def test_a_session_asks_where_the_moving_image_shows_something(tmp_path: Path) -> None:
    """With a foreground on the left half of the moving image, matches of questions lie there once that is known."""
    project = make(tmp_path / "p", candidates=lattice(25, 20, 5.0), foreground="none")

    class LeftHalf:
        whole = False

        @staticmethod
        def contains(points: np.ndarray) -> np.ndarray:
            return np.asarray((points[..., 0] < WIDTH / 2) & project.moving_grid.contains(points))

    project.moving_foreground = LeftHalf()  # type: ignore[misc,assignment]
    session = Session(project, "ada")
    Rater(session, "ada").work(12)
    matches = [session.project.state.placement("ada", number).moving[0] for number in range(4, 12)]  # type: ignore[union-attr]
    assert np.mean(np.array(matches) < WIDTH / 2 + 5) == 1.0


@pytest.mark.parametrize("reason", ["torn_or_missing", "ambiguous"])
def test_the_neighbourhood_of_a_skip_is_asked_less(tmp_path: Path, reason: str) -> None:
    """Within the reach of its reason the chance falls by more than half, beyond three reaches by nothing."""
    project = make(tmp_path / "p", NEVER, candidates=lattice(40, 32, 2.0), foreground="none")
    session = Session(project, "ada")
    Rater(session, "ada").work(6)
    query = session.next_query()
    assert query is not None
    before = chances(session)
    session.skip(query, reason)
    change = chances(session) / before
    distances = np.linalg.norm(project.candidates - query.point, axis=1)
    reach = SKIP_REACHES[reason] * project.fixed_grid.diagonal
    assert change[distances < 0.5 * reach].max() < 0.5
    assert change[distances > 4 * reach].min() > 0.99
    session.undo()
    assert np.array_equal(chances(session), before)


def chances(session: Session) -> np.ndarray:
    """The chance of every candidate, as the next choice will use it."""
    suggester = session._model.suggester(session.project.state)
    return np.array([suggester.suggester.chance(row) for row in range(len(session.project.candidates))])


def alike(folder: Path, **settings: object) -> tuple[Project, np.ndarray]:
    """A pair of equal spots everywhere; beside each candidate on a spot lies one on a texture of its own."""
    rows, columns = np.indices((HEIGHT, WIDTH))
    fixed = 120 + 100 * ((rows % 12 < 4) & (columns % 12 < 4))
    spots = np.array([(x, y) for x in range(42, WIDTH - 40, 60) for y in range(42, HEIGHT - 40, 48)], dtype=float)
    rng = np.random.default_rng(8)
    for x, y in np.add(spots.astype(int), (10, 0)):
        fixed[y - 5 : y + 6, x - 5 : x + 6] = rng.integers(0, 255, (11, 11))
    picture = folder.parent / "alike.png"
    Image.fromarray(fixed.astype(np.uint8)).save(picture)
    candidates = np.concatenate([spots, np.add(spots, (10.0, 0.0))])
    project = Project.create(
        folder, fixed=picture, moving=picture, candidates=candidates, targets=200,
        foreground="none", settings={"guided_start": False, **NEVER, **settings},
    )  # fmt: skip
    return project, spots


def test_recognisable_places_lead(tmp_path: Path) -> None:
    """Questions go to what stands out beside the most informative spot; in a blind project skips change nothing."""
    project, spots = alike(tmp_path / "p")
    asked = [query.point for query in Rater(Session(project, "ada"), "ada").work(10)]
    assert not {tuple(spot) for spot in spots.tolist()} & {tuple(point) for point in asked}
    lists = []
    for name, reason in (("one", None), ("two", "ambiguous")):
        blind = alike(tmp_path / name, blind=True)[0]
        blind.add_rater("boss", "organiser", by="boss")
        for rater in ("ada", "ben"):
            blind.add_rater(rater, "rater", by="boss")
        session = Session(blind)
        for _ in range(4):
            query = session.next_query("ben")
            assert query is not None
            if reason:
                session.skip(query, reason, rater="ben")
            else:
                session.place(query, query.point, rater="ben")
        lists.append([one.point for one in Rater(session, "ada").work(6)])
    assert lists[0] == lists[1]


def test_questions_go_on_without_the_image_and_say_so(tmp_path: Path) -> None:
    """Whoever only has the project, not its images, is asked the most informative places."""
    project = alike(tmp_path / "p")[0]
    (tmp_path / "alike.png").unlink()
    with pytest.warns(SuspiciousDataWarning, match="without looking at how distinctive places are"):
        assert Session(project, "ada").next_query() is not None


def test_what_was_not_recognised_teaches_how_much_it_counts(tmp_path: Path) -> None:
    """Ambiguous skips of spots and answers elsewhere make distinctiveness count for more; torn tissue does not."""
    project, _ = alike(tmp_path / "p")
    session = Session(project, "ada")
    chances = session._model.chances
    Rater(session, "ada").work(5)
    assert chances.recognition(project.state).slope == 2.0
    for reason, steeper in (("torn_or_missing", False), ("ambiguous", True)):
        before = chances.recognition(project.state)
        for _ in range(3):
            query = session.next_query()
            assert query is not None
            session.skip(query, reason)
        after = chances.recognition(project.state)
        assert (after.level < before.level) is steeper


def test_corner_after_corner_is_not_asked(tmp_path: Path) -> None:
    """A rater who skips everything is asked all over the image, not the same corner a few pixels on."""
    project = make(tmp_path / "p", candidates=lattice(40, 32, 2.0), foreground="none")
    session = Session(project, "ada")
    points = []
    for _ in range(12):
        query = session.next_query()
        assert query is not None
        points.append(query.point)
        session.skip(query, "not_visible")
    nearest = [min(np.linalg.norm(np.subtract(a, b)) for b in points[:k]) for k, a in enumerate(points) if k]
    assert min(nearest) > 0.06 * project.fixed_grid.diagonal


def test_skips_use_up_nothing_of_a_budget(tmp_path: Path) -> None:
    """Two raters with a budget of 8 who skip ten questions each are not done; each is after eight placements."""
    session = Session(make(tmp_path / "p", {"budget": 8, **NEVER}))
    for name in ("ada", "ben"):
        for _ in range(10):
            query = session.next_query(name)
            assert query is not None
            assert (query.position, query.total) == (1, 8)
            session.skip(query, "not_visible", rater=name)
        assert not session.progress(name).done
    assert not session.progress().done
    for name in ("ada", "ben"):
        Rater(session, name).work(8)
        assert session.next_query(name) is None
        told = session.progress(name)
        assert told.done
        assert (told.placed, told.skipped) == (8, 10)
        assert "8 of the budget of 8 landmarks are placed." in told.reasons[0]
    session.undo("ben")
    assert session.next_query("ben") is not None
    assert session.next_query("ada") is None


def test_many_candidates_have_nearly_the_chance_of_their_own(tmp_path: Path) -> None:
    """Of 6,000 candidates the chance is interpolated from about 2,000; it differs only at the rim of the overlap."""
    points = lattice(100, 60, 2.0)
    session = Session(make(tmp_path / "p", NEVER, candidates=points, foreground="none"), "ada")
    shift = np.array([0.4 * WIDTH, 0.1 * HEIGHT])
    for point in lattice(3, 3, 60.0)[:5]:
        session.volunteer(point, point + shift, confirmed=True)
    project = session.project
    posterior = session.posterior()
    exact = chance_in_box(
        posterior.mean(points),
        posterior.covariance(points),
        np.full(2, -0.5),
        np.array(project.moving_grid.size) - 0.5,
        tails=4.0,
    )
    found = chances(session)
    rim = np.abs(points + shift - [WIDTH, HEIGHT]).min(axis=1) < 8  # anchors lie about 6 px apart
    assert np.abs(found - exact)[~rim].max() < 0.1
    assert np.abs(found - exact).mean() < 0.01


def turned(points: np.ndarray) -> np.ndarray:
    """A turn by 20 degrees, a shift by a third of the width, and waves: a quarter of the tissue has no match."""
    cos, sin = np.cos(np.deg2rad(20)), np.sin(np.deg2rad(20))
    return points @ np.array([[cos, sin], [-sin, cos]]) + [110.0, -20.0] + 6 * np.sin(points[..., ::-1] / 40)


def test_forty_questions_on_a_made_pair(tmp_path: Path) -> None:
    """Default settings on two stains, one turned and shifted; entropy asks one answerable question in forty of it."""
    rng = np.random.default_rng(0)
    texture = ndimage.gaussian_filter(rng.normal(size=(HEIGHT, WIDTH)), 3)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(texture).save(tmp_path / "fixed.png")
    Image.fromarray(255 - texture).save(tmp_path / "moving.png")
    project = Project.create(tmp_path / "p", fixed=tmp_path / "fixed.png", moving=tmp_path / "moving.png", units="px")
    session, inside = Session(project, "ps"), 0
    for _ in range(40):
        query = session.next_query()
        assert query is not None
        match = turned(np.array(query.point))
        if project.moving_grid.contains(match):
            inside += 1
            session.place(query, match + rng.normal(0, 1, 2), confirmed=True)
        else:
            session.skip(query, "outside_image")
    assert inside >= 39
    matches = turned(project.targets)
    known = project.moving_grid.contains(matches)
    error = np.linalg.norm(session.posterior().mean(project.targets[known]) - matches[known], axis=1)
    assert error.mean() < 3  # 67 before any question; 61 after forty questions that seek entropy


def test_forty_questions_on_a_cima_pair(data_dir: Path, tmp_path: Path) -> None:
    """Default settings on two stains of which entropy asks one answerable question in forty."""
    folder = data_dir / "cima" / "lung-lesion_1"
    names = [folder / f"29-041-Izd2-w35-{stain}-les1" for stain in ("Ki67-7", "CD31-3")]
    pairs = read_landmarks(*(f"{name}.csv" for name in names), units="px")
    truth = RBFInterpolator(pairs.fixed_points, pairs.moving_points, kernel="thin_plate_spline")
    project = Project.create(tmp_path / "p", fixed=f"{names[0]}.jpg", moving=f"{names[1]}.jpg", units="px",
                             settings={})  # fmt: skip
    session, rng, inside = Session(project, "ps"), np.random.default_rng(0), 0
    for _ in range(40):
        query = session.next_query()
        assert query is not None
        match = truth([query.point])[0]
        if project.moving_grid.contains(match):
            inside += 1
            session.place(query, match + rng.normal(0, 1, 2), confirmed=True)
        else:
            session.skip(query, "outside_image")
    assert inside >= 39
    error = np.linalg.norm(session.posterior().mean(pairs.fixed_points) - pairs.moving_points, axis=1)
    assert error.mean() < 25  # 192 before any question; 152 after forty questions that seek entropy
