"""Raters are raters in ``import``: several marks of one landmark are one location, and offsets of raters are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

import warpgauge as wg
from command_tools import ask, call
from warpgauge.session.agreement import offsets_of
from warpgauge.session.model import view_of

RATERS, COUNT, SIZE = ("ann", "bob", "cem", "dee"), 32, 200
SHIFT, LINEAR = np.array([12.0, -5.0]), np.array([[0.0, -1.0], [1.0, 0.0]])  # images that are turned by 90 degrees


def true_map(points: np.ndarray) -> np.ndarray:
    """A turn about the centre and a shift."""
    return (points - SIZE / 2) @ LINEAR.T + SIZE / 2 + SHIFT / 4


def landmarks(offset: tuple[float, float] = (0.0, 0.0)) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Fixed and moving points of each rater, who errs by 0.5 px in each image; the last is offset in the moving one."""
    rng = np.random.default_rng(8)
    places = np.stack(np.meshgrid(np.linspace(30, 170, 8), np.linspace(40, 160, 4)), axis=-1).reshape(-1, 2)
    places += rng.uniform(-5, 5, places.shape)
    made = {}
    for name in RATERS:
        fixed = places + 0.5 * rng.normal(size=places.shape)
        moving = true_map(places) + 0.5 * rng.normal(size=places.shape)
        made[name] = fixed, moving + (np.array(offset) if name == RATERS[-1] else 0)
    return made


def write(path: Path, made: dict[str, tuple[np.ndarray, np.ndarray]], named: bool = True) -> Path:
    lines = ["name,rater,fixed_x,fixed_y,moving_x,moving_y"]
    for rater, (fixed, moving) in made.items():
        for number, row in enumerate(np.hstack([fixed, moving]).tolist()):
            lines.append(",".join([f"p{number}" if named else "", rater, *map(str, row)]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(9)
    picture = ndimage.gaussian_filter(rng.normal(size=(SIZE, SIZE)), 3)
    grey = (255 * (picture - picture.min()) / np.ptp(picture)).astype(np.uint8)
    y, x = np.mgrid[:SIZE, :SIZE]
    back = (np.column_stack([x.ravel(), y.ravel()]) - SIZE / 2 - SHIFT / 4) @ LINEAR + SIZE / 2
    Image.fromarray(grey).save(tmp_path / "fixed.png")
    moved = ndimage.map_coordinates(grey, back[:, ::-1].T, order=1, mode="reflect").reshape(SIZE, SIZE)
    Image.fromarray(moved).save(tmp_path / "moving.png")
    call("new", tmp_path / "p", "--fixed", tmp_path / "fixed.png", "--moving", tmp_path / "moving.png",
         "--candidates", 20, "--targets", "domain:60", "--foreground", "none")  # fmt: skip
    return tmp_path / "p"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("together", [True, False])
def test_four_raters_with_32_points_are_32_annotations(folder: Path, named: bool, together: bool) -> None:
    """From one file with a column of raters, or from one import for each; by name, or by lying far nearer."""
    made = landmarks()
    if together:
        told = ask("import", folder, write(folder.parent / "all.csv", made, named))
        assert (told["placed"], told["new locations"], told["raters"]) == (128, 32, list(RATERS))
    else:
        for rater, pair in made.items():
            ask("import", folder, write(folder.parent / f"{rater}.csv", {rater: pair}, named))
    with wg.Project.open(folder) as project:
        found = wg.Session(project).annotations()
    assert len(found) == 32
    assert ask("evaluate", folder, "identity")["annotations"] == 32
    # The location is at the mean, and so is the match; the turn between the images is taken into account.
    mean = [np.mean([pair[side] for pair in made.values()], axis=0) for side in (0, 1)]
    np.testing.assert_allclose(found.fixed_points, mean[0], atol=1e-9)
    np.testing.assert_allclose(found.moving_points, mean[1], atol=1e-9)
    # A placement errs by 0.5 px in both images, so by 0.7 px together.
    assert np.sqrt(np.mean(np.trace(found.covariances, axis1=1, axis2=2)) / 2) == pytest.approx(0.71, abs=0.06)


def test_an_export_has_what_each_rater_marked(folder: Path) -> None:
    made = landmarks()
    call("import", folder, write(folder.parent / "all.csv", made))
    call("export", folder, folder.parent / "out.csv")
    back = wg.read_landmarks(folder.parent / "out.csv")
    rows = [row for row, rater in enumerate(back.raters) if rater == "cem"]
    np.testing.assert_allclose(np.sort(back.fixed_points[rows], axis=0), np.sort(made["cem"][0], axis=0))
    np.testing.assert_allclose(np.sort(back.moving_points[rows], axis=0), np.sort(made["cem"][1], axis=0))


def test_a_constant_offset_between_raters_is_named(folder: Path) -> None:
    """dee is 2 px off in x, 1.5 px from the mean of all; nobody is named without it."""
    call("import", folder, write(folder.parent / "all.csv", landmarks((2.0, 0.0))))
    with wg.Project.open(folder) as project:
        offsets = {one.rater: one for one in offsets_of(view_of(project).located)}
    assert offsets["dee"].size == pytest.approx(1.5, abs=0.25)
    assert offsets["dee"].offset[0] == pytest.approx(1.5, abs=0.25)
    assert offsets["dee"].error[0] == pytest.approx(0.71 / np.sqrt(32), rel=0.3)
    shown = call("evaluate", folder, "identity")
    assert "rater dee places 1." in shown
    assert "from the others on average" in shown
    call("undo", folder, "--import")
    told = ask("import", folder, write(folder.parent / "none.csv", landmarks()))
    assert told["offsets"] == "none found"


@pytest.mark.parametrize(("named", "label"), [(True, "p5"), (False, "landmark 70")])
def test_a_landmark_far_from_those_of_the_others_is_named(folder: Path, named: bool, label: str) -> None:
    """cem, the third in the file, marks the sixth landmark 25 px off; of two raters both marks are named."""
    made = landmarks((2.0, 0.0))
    assert ask("import", folder, write(folder.parent / "right.csv", made, named))["far from others"] == "none found"
    call("undo", folder, "--import")
    made["cem"][1][5] += [25.0, 0.0]
    (sentence,) = ask("import", folder, write(folder.parent / "all.csv", made, named))["far from others"]
    assert sentence.startswith(f"{label} of cem lies 2")
    assert sentence.endswith(" px from where ann, bob and dee marked it")
    call("undo", folder, "--import")
    two = {name: made[name] for name in ("bob", "cem")}
    assert len(ask("import", folder, write(folder.parent / "two.csv", two, named))["far from others"]) == 2


def test_landmarks_far_from_others_stay_alone(folder: Path) -> None:
    """A landmark of the same name elsewhere, and an unnamed one half way between two, are locations of their own."""
    first = np.array([[40.0, 40.0], [80.0, 40.0], [40.0, 80.0]])
    call("import", folder, write(folder.parent / "a.csv", {"ann": (first, true_map(first))}))
    far = first[::-1].copy()
    call("import", folder, write(folder.parent / "b.csv", {"bob": (far, true_map(far))}), "--force")
    with wg.Project.open(folder) as project:
        # p1 of both is at (80, 40); p0 and p2 have changed places, where the names are of other landmarks.
        assert len(wg.Session(project).annotations()) == 3
        assert sum(query.same_as is None for query in project.state.queries) == 3
    between = np.array([[60.0, 40.0]])
    call("import", folder, write(folder.parent / "c.csv", {"cem": (between, true_map(between))}, named=False))
    with wg.Project.open(folder) as project:
        assert len(wg.Session(project).annotations()) == 4
