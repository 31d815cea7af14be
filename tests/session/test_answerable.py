"""Questions that can be answered: partial overlap, skips that teach, budgets of placements, and a real pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage
from scipy.interpolate import RBFInterpolator

from session.tools import HEIGHT, WIDTH, Rater, lattice, make
from warpgauge.io.landmarks import read_landmarks
from warpgauge.project import Project
from warpgauge.session import Session

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


@pytest.mark.parametrize("columns", [25, 100])
def test_questions_have_answers_where_the_images_overlap_in_part(tmp_path: Path, columns: int) -> None:
    """A shift that leaves 60 % of the fixed image in the moving one: entropy asks outside, the chance does not.

    Of 8,000 candidates the chance is interpolated from 2,000.
    """
    shift = (0.4 * WIDTH, 0.0)
    shares = {}
    for model in ("default", "paper"):
        candidates = lattice(columns, 4 * columns // 5, 5.0)
        project = make(tmp_path / model, {"model": model}, candidates=candidates, foreground="none")
        shares[model] = np.mean(answered(Session(project, "ada"), shift, 30))
    assert shares["default"] >= 0.85
    assert shares["paper"] < 0.6


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
        assert not session.progress(name).reasons
    assert not session.progress().reasons
    for name in ("ada", "ben"):
        Rater(session, name).work(8)
        assert session.next_query(name) is None
        told = session.progress(name)
        assert told.reasons
        assert (told.placed, told.skipped) == (8, 10)
        assert "8 of the budget of 8 landmarks are placed." in told.reasons[0]
    session.undo("ben")
    assert session.next_query("ben") is not None
    assert session.next_query("ada") is None


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
