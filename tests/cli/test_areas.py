"""Areas of the fixed image: what has no match, by a mask or drawn, and pieces that move on their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image as Picture

from command_tools import ask, call
from warpgauge.candidates.outlines import DrawnRegions, inside
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.project_evaluation import evaluate_project, project_posterior
from warpgauge.project import NotAllowedError, Project
from warpgauge.session import Session

SIZE = 96
BOX = [[30.0, 20.0], [70.0, 20.0], [70.0, 60.0], [30.0, 60.0]]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Two speckled images, and a mask of what has no match."""
    speckle = np.random.default_rng(0).integers(0, 255, (SIZE // 4, SIZE // 4)).astype(np.uint8)
    for name in ("fixed", "moving"):
        Picture.fromarray(speckle).resize((SIZE, SIZE)).save(tmp_path / f"{name}.png")
    mask = np.zeros((SIZE, SIZE), dtype=np.uint8)
    mask[20:61, 30:71] = 255
    Picture.fromarray(mask).save(tmp_path / "torn.png")
    return tmp_path


def make(pictures: Path, *options: object, code: int = 0) -> Path:
    call(
        "new", pictures / "p", "--fixed", pictures / "fixed.png", "--moving", pictures / "moving.png",
        "--candidates", 80, "--targets", "domain:400", "--foreground", "none", "--no-seal", *options, code=code,
    )  # fmt: skip
    return pictures / "p"


def in_box(points: object) -> np.ndarray:
    at = np.asarray(points)
    return np.all((at >= [30, 20]) & (at <= [70, 60]), axis=-1)


def winds_around(corners: np.ndarray, point: np.ndarray) -> bool:
    """The slow version: the angles under which the sides are seen add up to a whole turn for a point inside."""
    to = corners - point
    angles = np.arctan2(to[:, 1], to[:, 0])
    turns = np.angle(np.exp(1j * (np.roll(angles, -1) - angles)))
    return abs(turns.sum()) > np.pi


def test_what_a_polygon_holds_is_what_it_winds_around() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        angles = np.sort(rng.uniform(0, 2 * np.pi, 9))
        corners = rng.uniform(2, 10, 9)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        points = rng.uniform(-10, 10, (100, 2))
        assert inside(corners, points).tolist() == [winds_around(corners, point) for point in points]


@pytest.mark.parametrize(
    ("corners", "word"),
    [
        ([[0, 0], [10, 10], [10, 0], [0, 10]], "cross"),
        ([[0, 0], [10, 0], [5, 0]], "one line"),
        ([[0, 0], [10, 0]], "3 to 500"),
        ([[0, 0], [10, 0], [10, 0], [5, 5]], "same point"),
        ([[0, 0], [np.nan, 0], [5, 5]], "finite"),
    ],
)
def test_what_holds_nothing_certain_is_refused_and_not_logged(pictures: Path, corners: list, word: str) -> None:
    with Project.open(make(pictures)) as project:
        before = project.state.generation
        with pytest.raises(InvalidInputError, match=word):
            project.draw_area("missing", corners)
        assert project.state.generation == before
        # Two sides on one line that do not meet are no crossing.
        project.draw_area("piece", [[0, 0], [40, 0], [40, 10], [30, 10], [30, 5], [10, 5], [10, 10], [0, 10]])


def test_a_drawn_area_is_not_asked_not_judged_and_not_mapped_and_the_verdict_says_so(pictures: Path) -> None:
    """Its open suggestions leave the list, targets there do not count, maps are empty; erased, all is as before."""
    folder = make(pictures)
    with Project.open(folder) as project:
        session = Session(project)
        first = session.next_query("ada")
        around = np.add(first.point, [[-6, -6], [6, -6], [6, 6], [-6, 6]]).tolist()
        project.draw_area("missing", around)
        assert first.number in project.state.withdrawn
        drawn = project.draw_area("missing", BOX, name="fold")
        gone = in_box(project.targets) | inside(around, project.targets)
        assert np.array_equal(project.judged_targets, project.targets[~gone])
        for _ in range(12):
            query = session.next_query("ada")
            assert not in_box(query.point)
            session.place(query, np.add(query.point, [2.0, 0.0]), radius=0.5, rater="ada", confirmed=True)
        found = evaluate_project(project, {"half": lambda points: points + np.array([1.0, 0.0])}, with_trust=False)
        assert len(found.comparison.targets) == len(project.judged_targets) < len(project.targets)
        (flag,) = [one for one in found.verdict.flags if one.code == "left_out"]
        out = 1 - len(project.judged_targets) / len(project.targets)
        assert flag.numbers == {"share": out, "areas": 2.0, "late": 0.0}
        assert f"{100 * out:.0f} % of the targets are not judged" in flag.sentence
    call("map", folder, "sd", folder.parent / "sd.tif", "--full")
    empty = np.isnan(tifffile.imread(folder.parent / "sd.tif"))
    assert empty[25:55, 35:65].all()
    assert not empty[70:].any()
    with Project.open(folder) as project:
        project.erase_area(drawn.generation)
        assert len(project.judged_targets) == (~inside(around, project.targets)).sum()
        with pytest.raises(InvalidInputError, match="no such area"):
            project.erase_area(drawn.generation)
        with pytest.raises(InvalidInputError, match="No target would be left"):
            project.draw_area("missing", [[-1, -1], [SIZE, -1], [SIZE, SIZE], [-1, SIZE]])


def test_an_area_that_is_drawn_once_transforms_are_there_is_named_in_the_verdict(pictures: Path) -> None:
    """Whoever draws it could leave out where a transform fails."""
    folder = make(pictures)
    np.savetxt(pictures / "shift.txt", np.array([[1, 0, 2], [0, 1, 0], [0, 0, 1]]))
    with Project.open(folder) as project:
        session = Session(project, rater="ada")
        for _ in range(6):
            query = session.next_query()
            session.place(query, np.add(query.point, [2.0, 0.0]), radius=0.5, confirmed=True)
    call("add-transform", folder, "shift", pictures / "shift.txt", "--format", "matrix")
    with Project.open(folder) as project:
        project.draw_area("missing", BOX, rater="organiser")
    told = ask("evaluate", folder)
    (flag,) = [one for one in told["flags"] if one["code"] == "left_out"]
    assert flag["numbers"]["late"] == 1
    assert "drawn after the first transform was added" in flag["sentence"]
    assert "drawn after the first transform" in call("evaluate", folder)
    # Adding the transform anew does not make the area older than it.
    with Project.open(folder) as project:
        project.remove_transform("shift")
    call("add-transform", folder, "shift", pictures / "shift.txt", "--format", "matrix")
    again = [one for one in ask("evaluate", folder)["flags"] if one["code"] == "left_out"]
    assert [one["numbers"]["late"] for one in again] == [1]


def test_only_organisers_draw_and_an_older_program_is_kept_out(pictures: Path) -> None:
    with Project.open(make(pictures)) as project:
        project.add_rater("ada")
        with pytest.raises(NotAllowedError, match="ada is a rater of this project and may not draw areas"):
            project.draw_area("missing", BOX, rater="ada")
        area = project.draw_area("missing", BOX)
        with pytest.raises(NotAllowedError):
            project.erase_area(area.generation, rater="ada")
    with Project.open(pictures / "p") as again:
        assert again.state.outlines[area.generation].corners == tuple(map(tuple, BOX))


def test_a_mask_of_what_has_no_match_keeps_candidates_and_targets_out(pictures: Path) -> None:
    """It is stored with the project, whose document an older program refuses; ``info`` and ``new`` say it."""
    folder = make(pictures, "--missing", pictures / "torn.png")
    (pictures / "torn.png").unlink()
    with Project.open(folder) as project:
        assert not in_box(project.candidates).any()
        assert not in_box(project.targets).any()
        assert "left out where nothing has a match" in project.document.targets.method
        assert project.missing is not None
        assert project.missing(np.array([[50.0, 40.0], [80.0, 40.0]])).tolist() == [True, False]
    assert json.loads((folder / "project.json").read_text())["version"] == 5


@pytest.mark.parametrize(("foreground", "of"), [(False, "fixed image"), (True, "fixed image's foreground")])
def test_the_verdict_names_the_share_that_a_mask_takes_out(pictures: Path, foreground: bool, of: str) -> None:
    """Of the image, 41 x 41 of 96 x 96 pixels; of a foreground that is its left half, 18 columns of 48."""
    options: tuple[object, ...] = ("--missing", pictures / "torn.png")
    if foreground:
        half = np.zeros((SIZE, SIZE), dtype=np.uint8)
        half[:, :48] = 255
        Picture.fromarray(half).save(pictures / "half.png")
        options += ("--fixed-mask", pictures / "half.png", "--targets", 1500)
    folder = make(pictures, *options)
    share = 41 * 18 / (96 * 48) if foreground else 41 * 41 / 96**2
    with Project.open(folder) as project:
        session = Session(project, rater="ada")
        for _ in range(6):
            query = session.next_query()
            session.place(query, np.add(query.point, [2.0, 0.0]), radius=0.5, confirmed=True)
    np.savetxt(pictures / "shift.txt", np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]]))
    call("add-transform", folder, "shift", pictures / "shift.txt", "--format", "matrix")
    (flag,) = [one for one in ask("evaluate", folder)["flags"] if one["code"] == "masked"]
    assert flag["numbers"]["share"] == pytest.approx(share, abs=0.01)
    assert flag["sentence"].startswith(f"{100 * share:.0f} % of the {of} is not judged: ")
    assert flag["sentence"] in " ".join(call("evaluate", folder).split())
    call("report", folder, "--out", pictures / "report.html")
    assert "is not judged: the mask" in (pictures / "report.html").read_text()


def test_a_drawn_piece_moves_on_its_own_and_a_fit_learns_it(pictures: Path) -> None:
    """Tissue in the box is shifted: with the piece, predictions on both sides of its edge keep apart."""
    folder = make(pictures)
    edge = np.array([[32.0, 40.0], [28.0, 40.0]])
    with Project.open(folder) as project:
        session = Session(project, rater="ada")
        for _ in range(16):
            query = session.next_query()
            shift = [4.0, 0.0] if in_box(query.point) else [0.0, 0.0]
            session.place(query, np.add(query.point, shift), radius=0.5, confirmed=True)
        plain = project_posterior(project).mean(edge) - edge
        project.draw_area("piece", BOX, name="flap")
        assert isinstance(project.regions, DrawnRegions)
        assert project.regions.values == (0, 1)
        assert ask("info", folder)["drawn areas"] == "0 without a match, 1 that move on their own"
        session.refit()
        for posterior in (session.posterior(), project_posterior(project)):
            assert posterior.prior.kernel.regions is project.regions
            apart = posterior.mean(edge) - edge
            assert apart[0, 0] - apart[1, 0] > 3 > plain[0, 0] - plain[1, 0]
