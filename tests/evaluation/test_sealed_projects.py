"""Sealed answers of a project, from the question to the verdict, through the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.interpolate import RBFInterpolator

import warpgauge as wg
from command_tools import ask, call
from warpgauge.evaluation import leaks
from warpgauge.evaluation.project_evaluation import project_comparison
from warpgauge.io.transforms import as_transform, write_transform

SIZE, ANSWERS, SEALED = 200, 40, 12


def _smooth(seed: int, scale: float, size: float):
    """A smooth random displacement: Gaussian bumps on a lattice."""
    rng = np.random.default_rng(seed)
    at = np.stack(np.meshgrid(*[np.arange(0, SIZE + scale, scale)] * 2), axis=-1).reshape(-1, 2)
    weights = size * rng.normal(size=(len(at), 2))

    def displacement(points: np.ndarray) -> np.ndarray:
        near = np.square(np.asarray(points)[:, None] - at).sum(axis=2)
        return np.exp(-near / (2 * scale**2)) @ weights

    return displacement


TRUE, COMMON = _smooth(1, 60, 4.0), _smooth(2, 25, 1.5)


def _method(seed: int):
    own = _smooth(seed, 20, 1.0)
    return lambda points: points + TRUE(points) + COMMON(points) + own(points)


def _bent(base, landmarks: wg.io.landmarks.Landmarks):
    """Bend a registration to landmarks: what somebody can do who gets them from an export."""
    fixed = landmarks.fixed_points
    spline = RBFInterpolator(fixed, landmarks.moving_points - base(fixed), kernel="thin_plate_spline", degree=1)
    return lambda points: base(points) + spline(points)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sealed")
    noise = np.random.default_rng(0).integers(0, 255, (SIZE, SIZE)).astype(np.uint8)
    Image.fromarray(noise).save(place / "image.png")
    made = place / "pair"
    call("new", made, "--fixed", place / "image.png", "--moving", place / "image.png", "--candidates", 150,
         "--targets", "domain:150", "--foreground", "none", "--audit", "0.25", "--set", "audit_seed=3",
         "--set", "seed=2", "--set", "refit=never")  # fmt: skip
    rng = np.random.default_rng(5)
    with wg.Project.open(made) as project:
        answer(project, rng)
    return made


def answer(project: wg.Project, rng: np.random.Generator) -> None:
    """Answer as many questions as are asked before the seal is opened, near the truth."""
    session = wg.Session(project, rater="ann")
    for _ in range(ANSWERS):
        query = session.next_query()
        at = np.array([query.point])
        session.place(query, (at + TRUE(at))[0] + 0.3 * rng.normal(size=2), radius=1.0)


def add(folder: Path, name: str, function, *options: str) -> None:
    """Write a registration as a field, and add it to the project."""
    with wg.Project.open(folder) as project:
        write_transform(as_transform(function, d=2), folder.parent / f"{name}.nrrd", grid=project.fixed_grid)
    call("add-transform", folder, name, folder.parent / f"{name}.nrrd", *options)


def test_a_registration_bent_to_an_export_is_found_once_the_seal_is_opened(folder: Path, tmp_path: Path) -> None:
    """12 of 40 answers are not in the export, so what was bent to it betrays itself; honest methods are vetted."""
    made = tmp_path / "pair"
    shutil.copytree(folder, made)
    shutil.copy(folder.parent / "image.png", tmp_path / "image.png")
    call("export", made, tmp_path / "open.csv", "--fused")
    landmarks = wg.read_landmarks(tmp_path / "open.csv")
    assert len(landmarks) == ANSWERS - SEALED
    for seed in range(10, 13):
        add(made, f"reference{seed}", _method(seed), "--reference")
    add(made, "honest", _method(20))
    add(made, "bent", _bent(_method(21), landmarks))
    before = ask("evaluate", made)
    assert before["annotations"] == ANSWERS - SEALED
    assert "bent (has probably seen the landmarks)" in before["lines"]["BEST"]
    assert not before["transforms"]["honest"]["vetted"]
    opened = ask("unseal", made)
    assert (opened["opened"], opened["they test"]) == (SEALED, ["honest", "bent"])
    after = ask("evaluate", made)
    assert after["annotations"] == ANSWERS
    assert [(one["code"], one["transform"]) for one in after["flags"] if one["code"] in ("leak", "late")] == [
        ("leak", "bent")
    ]
    assert after["transforms"]["honest"]["vetted"]
    assert "bent" not in after["ranking"]
    assert "nothing shows" not in after["verdict"]
    shown = call("evaluate", made)
    assert "bent has seen the landmarks; it is not ranked" in shown
    # What is added now, or changed, or replaced under a known name, cannot be vetted; a new name changes nothing.
    call("export", made, tmp_path / "all.csv", "--fused")
    add(made, "late", _bent(_method(22), wg.read_landmarks(tmp_path / "all.csv")))
    with wg.Project.open(made) as opened:
        options = {key: value for key, value in opened.state.transforms["honest"].options.items() if key != "sources"}
        opened.add_transform("honest2", next((made / "transforms" / "honest").iterdir()), options=options)
        opened.remove_transform("honest")
    later = ask("evaluate", made)
    assert [(one["code"], one["transform"]) for one in later["flags"] if one["code"] == "late"] == [("late", "late")]
    assert later["transforms"]["honest2"]["vetted"]
    assert not later["transforms"]["late"]["vetted"]
    shutil.copy(tmp_path / "late.nrrd", next((made / "transforms" / "honest2").iterdir()))
    changed = ask("evaluate", made)
    assert {one["transform"]: one["numbers"]["changed"] for one in changed["flags"] if one["code"] == "late"} == {
        "late": 0.0,
        "honest2": 1.0,
    }


def test_an_answer_that_is_changed_after_the_opening_tests_nothing(folder: Path, tmp_path: Path) -> None:
    """Otherwise a rater could still choose what the sealed answers say."""
    made = tmp_path / "pair"
    shutil.copytree(folder, made)
    shutil.copy(folder.parent / "image.png", tmp_path / "image.png")
    add(made, "honest", _method(20))
    call("unseal", made)
    from warpgauge.session.seals import once_sealed

    with wg.Project.open(made) as project:
        assert once_sealed(project).rows.sum() == SEALED
        number = next(query.number for query in project.state.queries if project.state.was_sealed(query.number))
        session = wg.Session(project, rater="ann")
        session.place(number, project.state.placement("ann", number).moving, radius=1.0)
        assert once_sealed(project).rows.sum() == SEALED - 1
        assert len(session.annotations()) == ANSWERS


def test_between_two_openings_a_registration_has_seen_the_first_answers_alone(folder: Path, tmp_path: Path) -> None:
    """One that was added before both is tested by all answers that were sealed."""
    made = tmp_path / "pair"
    shutil.copytree(folder, made)
    shutil.copy(folder.parent / "image.png", tmp_path / "image.png")
    add(made, "early", _method(20))
    call("unseal", made)
    add(made, "between", _method(21))
    with wg.Project.open(made) as project:
        answer(project, np.random.default_rng(6))
        later = len(project.state.sealed_locations())
    assert later >= 3
    call("unseal", made)
    with wg.Project.open(made) as project:
        found = leaks.tested(project_comparison(project))
    assert (found["early"].open, found["early"].sealed) == (2 * ANSWERS - SEALED - later, SEALED + later)
    assert (found["between"].open, found["between"].sealed) == (2 * ANSWERS - later, later)


def test_unsealing_asks_for_registrations_and_organisers(folder: Path, tmp_path: Path) -> None:
    """Without a registration to test, opening would waste the answers; a rater may not open them."""
    made = tmp_path / "pair"
    shutil.copytree(folder, made)
    shutil.copy(folder.parent / "image.png", tmp_path / "image.png")
    assert f"no registration yet that its {SEALED} sealed answers could test" in call("unseal", made, code=1)
    with wg.Project.open(made) as project:
        project.add_rater("ann", "rater")
    assert "ann is a rater of this project and may not open sealed answers" in call(
        "unseal", made, "--yes", "--rater", "ann", code=1
    )
    assert ask("unseal", made, "--yes")["opened"] == SEALED
    assert "nothing to unseal" in call("unseal", made, "--yes", code=1)
