"""One project, one verdict: whoever asks gets the same scores, to the last digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

import warpgauge as wg
from command_tools import ask, call
from command_tools import place as answer
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Evaluation, project_posterior
from web.server_tools import served


def bent(points: np.ndarray) -> np.ndarray:
    return points + np.array([4.0, -3.0]) + 1.5 * np.sin(points[:, ::-1] / 25)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two textures, 14 landmarks with ellipses of their own, and three transforms, all by the command line."""
    folder = tmp_path_factory.mktemp("same")
    rng = np.random.default_rng(4)
    texture = ndimage.gaussian_filter(rng.normal(size=(140, 160)), 2)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(texture[10:110, 10:130]).save(folder / "fixed.png")
    Image.fromarray(texture[13:113, 6:126]).save(folder / "moving.png")
    place = folder / "pair"
    call("new", place, "--fixed", folder / "fixed.png", "--moving", folder / "moving.png", "--candidates", 60,
         "--targets", "domain:90", "--foreground", "none")  # fmt: skip
    for _ in range(14):
        query = ask("suggest", place, "--rater", "ann")
        match = bent(np.array([query["point"]]))[0] + rng.normal(0, 0.5, 2)
        answer(place, query["query"], match, ellipse=(2, 1.5), rater="ann")
    for name, matrix in {"shift": "1 0 4\n0 1 -3\n0 0 1\n", "off": "1 0 2\n0 1 1\n0 0 1\n",
                         "turned": "1 0.02 4\n-0.02 1 -3\n0 0 1\n"}.items():  # fmt: skip
        (folder / f"{name}.txt").write_text(matrix)
        call("add-transform", place, name, folder / f"{name}.txt")
    return place


def _study(project: Path) -> Path:
    file = project.parent / "STUDY.toml"
    methods = "".join(f'[[method]]\nname = "{name}"\n' for name in ("shift", "off", "turned"))
    file.write_text(f'[settings]\nbootstrap = 50\n[[pair]]\nname = "it"\nproject = "pair"\n{methods}')
    return file


def _library(project: Path) -> Evaluation:
    """As the README does it."""
    with wg.Project.open(project) as opened:
        posterior = wg.default_posterior(wg.Session(opened).annotations(), opened.fixed_grid)
        transforms = {name: opened.transform(name) for name in opened.transform_names()}
        transforms["identity"] = wg.as_transform(lambda points: points, d=2)
        return wg.evaluate(wg.judge(posterior, transforms), transforms, opened.targets)


def test_everybody_finds_the_same_scores(project: Path) -> None:
    """``evaluate``, the page's Compare, ``benchmark`` of a one-pair study, ``report`` and the library."""
    library = _library(project)
    expected = {name: (one.score["2"], *one.interval["2"]) for name, one in library.scores.items()}
    assert set(expected) == {"shift", "off", "turned", "identity"}
    assert library.ranking()[0] == "shift"

    def scores(found: dict[str, Any]) -> dict[str, tuple[float, ...]]:
        return {name: (one["score"]["2"], *one["interval"]["2"]) for name, one in found["transforms"].items()}

    assert scores(ask("evaluate", project)) == expected
    with served(project) as server:
        rows = server.client().get("/api/transforms").json()["transforms"]
    assert {row["name"]: tuple(row["error"]) for row in rows} == expected
    out = project.parent / "results"
    told = json.loads(call("benchmark", _study(project), "--out", out, "--json"))
    assert {row["method"]: (row["score"], row["low"], row["high"]) for row in told["cases"]} == expected
    call("report", project, "--no-maps")
    assert scores(json.loads((project / "report" / "report.json").read_text())["evaluation"]) == expected


def test_adding_the_identity_changes_no_other_score(project: Path) -> None:
    """Doing nothing is a baseline, not a guess of the truth."""
    with wg.Project.open(project) as opened:
        posterior = wg.default_posterior(wg.Session(opened).annotations(), opened.fixed_grid)
        transforms = {name: opened.transform(name) for name in opened.transform_names()}
        alone = wg.evaluate(wg.judge(posterior, transforms), transforms, opened.targets)
        both = {**transforms, "identity": wg.as_transform(lambda points: points, d=2)}
        beside = wg.evaluate(wg.judge(posterior, both), both, opened.targets)
    for name, one in alone.scores.items():
        assert beside.scores[name].score == one.score
        assert beside.scores[name].interval == one.interval


def test_the_baseline_the_targets_and_the_margin_are_stated(project: Path) -> None:
    """The identity is in the table unasked; what errors are over and what difference matters is said."""
    found = ask("evaluate", project, "shift")
    assert set(found["transforms"]) == {"shift", "identity"}
    assert found["baseline"] == "identity"
    assert "90 targets in the whole fixed image" in call("evaluate", project, "shift")
    assert found["margin"] == pytest.approx(0.1)
    shown = " ".join(call("evaluate", project, "shift", "--margin", 50).split())
    assert "in the whole fixed image" in shown
    assert ask("evaluate", project, "shift", "--margin", 50)["tied"] == [["shift", "identity"]]


def test_the_verdict_rests_on_the_annotations_in_force_alone(project: Path) -> None:
    """Neither a refit in between nor an answer that was undone changes a digit."""
    before = ask("evaluate", project)["transforms"]
    query = ask("suggest", project, "--rater", "ann")
    answer(project, query["query"], (90, 20), rater="ann")
    with wg.Project.open(project) as opened:
        assert wg.Session(opened).refit() is not None
    changed = ask("evaluate", project)["transforms"]
    assert changed != before
    call("undo", project, "--rater", "ann")
    assert ask("evaluate", project)["transforms"] == before


def test_without_annotations_it_is_an_error(project: Path) -> None:
    folder = project.parent
    images = ("--fixed", folder / "fixed.png", "--moving", folder / "moving.png")
    call("new", folder / "empty", *images, "--candidates", 20)
    call("add-transform", folder / "empty", "shift", folder / "shift.txt")
    for command in ("evaluate", "report"):
        assert "no annotations yet" in call(command, folder / "empty", code=1)
    with wg.Project.open(folder / "empty") as opened, pytest.raises(InvalidInputError, match="no annotations yet"):
        wg.evaluate_project(opened)


def test_the_default_model_of_a_grid_and_of_an_extent_are_one(project: Path) -> None:
    """Sides and middle of the grid, in pixels from 0; and the session's settings lead to the same."""
    with wg.Project.open(project) as opened:
        annotations = wg.Session(opened).annotations()
        by_grid = wg.default_posterior(annotations, opened.fixed_grid)
        told = wg.default_posterior(annotations, [120.0, 100.0], smallest=10.0, center=[59.5, 49.5])
        of_project = project_posterior(opened)
    points = np.random.default_rng(0).uniform(0, 100, (20, 2))
    for other in (told, of_project):
        np.testing.assert_array_equal(other.mean(points), by_grid.mean(points))
        np.testing.assert_array_equal(other.covariance(points), by_grid.covariance(points))
    assert by_grid.prior.tails == 4.0
    assert by_grid.calibrates
    assert by_grid.prior.kernel.scales.tolist() == [10.0, 20.0, 40.0, 80.0, 160.0]
    few = wg.default_posterior(annotations[np.arange(2)], opened.fixed_grid)
    assert few.prior.fit is None


def test_a_tie_by_the_margin_is_told_alike_everywhere(tmp_path: Path) -> None:
    """Two registrations 0.05 px apart: the annotations know the better one, which no place calls their failure.

    The page's list of transforms once said that the annotations did not separate them.
    """
    rng = np.random.default_rng(8)
    pixels = rng.integers(0, 255, (100, 120)).astype(np.uint8)
    for name in ("fixed.png", "moving.png"):
        Image.fromarray(pixels).save(tmp_path / name)
    folder = tmp_path / "pair"
    call("new", folder, "--fixed", tmp_path / "fixed.png", "--moving", tmp_path / "moving.png", "--candidates", "20",
         "--targets", "domain:80", "--foreground", "none")  # fmt: skip
    with wg.Project.open(folder) as project:
        session = wg.Session(project, rater="ann")
        for point in rng.uniform(5, 90, (40, 2)):
            session.volunteer(point, point + rng.normal([4.0, -3.0], 0.02), radius=0.05)
    for name, shift in {"near": "4", "nearer": "3.95"}.items():
        (tmp_path / f"{name}.txt").write_text(f"1 0 {shift}\n0 1 -3\n0 0 1\n")
        call("add-transform", folder, name, tmp_path / f"{name}.txt")
    found = ask("evaluate", folder)
    assert found["outcome"] == "tied_by_margin"
    assert not found["decided"]
    assert found["lines"]["BEST"] == "near and nearer, equal within 0.1 px"
    with served(folder) as server:
        listed = server.client().get("/api/transforms").json()
    assert listed["verdict"] == found["verdict"]
    sharper = ask("evaluate", folder, "--margin", "0.01")
    assert (sharper["outcome"], sharper["best"], sharper["decided"]) == ("decided", "near", True)
