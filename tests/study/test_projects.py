from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import warpgauge as wg
from command_tools import call
from study_tools import shift, truth
from warpgauge.core.error_scores import posterior_score
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import project_posterior
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.study import run_study


def make_project(folder: Path, number: int, count: int = 20) -> Path:
    """A project with landmarks of one rater, and its own transform "inner"."""
    rng = np.random.default_rng(number)
    for name in ("fixed", "moving"):
        Image.fromarray(rng.integers(0, 255, (200, 200)).astype(np.uint8)).save(folder / f"{name}{number}.png")
    fixed = rng.uniform(10, 190, (count, 2))
    place = folder / f"case{number}"
    with Project.create(
        place,
        fixed=folder / f"fixed{number}.png",
        moving=folder / f"moving{number}.png",
        candidates=rng.uniform(10, 190, (50, 2)),
        targets=rng.uniform(10, 190, (80, 2)),
    ) as project:
        moving = truth(fixed, number) + rng.normal(0, 0.2, fixed.shape)
        Session(project).import_landmarks(wg.Landmarks(fixed, moving), rater="ann")
    call("add-transform", place, "inner", folder / "inner" / f"case{number}.tfm")
    return place


def make_study(folder: Path, pairs: int = 2, centre: str = "candidates") -> Path:
    entries = ""
    for number in range(pairs):
        shift(folder, "inner", f"case{number}", 1.0)
        shift(folder, "outer", f"case{number}", 25.0)
        make_project(folder, number)
        entries += f'[[pair]]\nname = "case{number}"\nproject = "case{number}"\n'
    path = folder / "STUDY.toml"
    path.write_text(
        f'[settings]\nsamples = 60\nbootstrap = 100\ncentre = "{centre}"\n{entries}'
        '[[method]]\nname = "inner"\n[[method]]\nname = "outer"\ntransform = "outer/{pair}.tfm"\n'
    )
    return path


def test_projects_bring_their_posterior_targets_and_transforms(tmp_path: Path) -> None:
    """The posterior is that of the project's annotations: about the prior, scores are the paper's with it."""
    path = make_study(tmp_path, centre="prior")
    result = run_study(path, tmp_path / "out")
    assert [one.name for one in result.methods] == ["inner", "outer"]
    with Project.open(tmp_path / "case1") as project:
        posterior = project_posterior(project)
        expected = posterior_score(posterior, project.targets, project.targets + np.array([1.0, 0.0]), 2)
    row = next(row for row in result.case_rows() if row["pair"] == "case1" and row["method"] == "inner")
    assert row["score"] == pytest.approx(expected)
    assert run_study(path, tmp_path / "out").computed == ()


def test_a_further_annotation_makes_its_pair_new(tmp_path: Path) -> None:
    path = make_study(tmp_path)
    run_study(path, tmp_path / "out")
    with Project.open(tmp_path / "case0") as project:
        point = np.array([[100.0, 100.0]])
        Session(project).import_landmarks(wg.Landmarks(point, truth(point, 0)), rater="ann")
    assert run_study(path, tmp_path / "out").computed == ("case0",)


def test_a_project_without_the_transform_is_a_missing_case(tmp_path: Path) -> None:
    path = make_study(tmp_path)
    with Project.open(tmp_path / "case0") as project:
        project.remove_transform("inner")
    result = run_study(path, tmp_path / "out")
    assert "has no transform 'inner'" in result.outcomes[0].missing["inner"]
    path.write_text(path.read_text() + '[[pair]]\nname = "c"\nlandmarks = "c.csv"\ntargets = "t.csv"\n')
    with pytest.raises(InvalidInputError, match="is not a project that could hold one"):
        run_study(path, tmp_path / "out")
