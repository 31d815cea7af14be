"""The command line end to end, as a user types it, on a synthetic pair and on a real one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

import warpgauge as wg
from command_tools import ask, call, place, skip
from warpgauge.cli.app import run

WARPGAUGE = Path(sys.executable).with_name("warpgauge")


def _printed(*arguments: object) -> str:
    """Return what a command prints that ends with 1 on purpose."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        assert run([str(one) for one in arguments]) == 1
    return out.getvalue()


def _notes(*arguments: object) -> str:
    """Return what a command that succeeds says on standard error."""
    err = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(err):
        assert run([str(one) for one in arguments]) == 0, err.getvalue()
    return err.getvalue()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A textured picture and the same shifted by (4, -3) pixels."""
    folder = tmp_path_factory.mktemp("pair")
    texture = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(140, 160)), 2)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(texture[10:110, 10:130]).save(folder / "fixed.png")
    Image.fromarray(texture[13:113, 6:126]).save(folder / "moving.png")
    (folder / "right.txt").write_text("1 0 4\n0 1 -3\n0 0 1\n")
    (folder / "wrong.txt").write_text("1 0 -4\n0 1 3\n0 0 1\n")
    return folder


@pytest.fixture(scope="module")
def project(pair: Path) -> Path:
    folder = pair / "project"
    images = ["--fixed", pair / "fixed.png", "--moving", pair / "moving.png"]
    made = ask("new", folder, *images, "--candidates", 60)
    assert made["candidates"] == 60
    for _ in range(12):
        query = ask("suggest", folder, "--rater", "ann")
        x, y = query["point"]
        place(folder, query["query"], (x + 4, y - 3), ellipse=(2, 1), angle=30, rater="ann")
    return folder


def test_the_loop_from_a_script(project: Path) -> None:
    """12 placements are there, with the ellipse that was given."""
    facts = ask("info", project)
    assert facts["placed"] == 12
    assert facts["raters"] == ["ann"]
    out = project.parent / "pairs.csv"
    call("export", project, out)
    landmarks = wg.read_landmarks(out)
    np.testing.assert_allclose(landmarks.moving_points - landmarks.fixed_points, np.tile([4.0, -3.0], (12, 1)))
    turn = np.deg2rad(30)
    axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    expected = axes @ np.diag([4.0, 1.0]) @ axes.T / 9.21034
    np.testing.assert_allclose(landmarks.covariances[0], expected, rtol=1e-5)


def test_evaluate_tells_right_from_wrong_and_from_nothing(project: Path, pair: Path) -> None:
    """The true shift has no error, doing nothing 5 px, the opposite shift 10 px; and the exit code for CI follows."""
    call("add-transform", project, "right", pair / "right.txt", "--replace")
    call("add-transform", project, "wrong", pair / "wrong.txt")
    result = ask("evaluate", project, "right", "wrong", "identity", "--tolerance", 2)
    assert result["ranking"]["2"] == ["right", "identity", "wrong"]
    scores = {name: one["landmark"]["2"] for name, one in result["transforms"].items()}
    assert scores == pytest.approx({"right": 0.0, "identity": 5.0, "wrong": 10.0}, abs=1e-9)
    assert result["transforms"]["right"]["probability_best"]["2"] > 0.99


def test_a_file_cannot_stand_for_no_registration_by_its_name(project: Path, pair: Path, tmp_path: Path) -> None:
    """The error before registration would be that of a registration; a file that does nothing is what it says."""
    for name, code in (("right", 1), ("none", 0)):
        (tmp_path / name).mkdir()
        matrix = (pair / "right.txt").read_text() if code else "1 0 0\n0 1 0\n0 0 1\n"
        (tmp_path / name / "identity.txt").write_text(matrix)
        said = call("evaluate", project, pair / "wrong.txt", tmp_path / name / "identity.txt", code=code)
        assert ("'identity' stands for no transform at all" in said) == bool(code)
    said = call("add-transform", project, "identity", pair / "right.txt", code=1)
    assert "'identity' stands for no transform at all" in said


def test_add_transform_warns_of_the_inverse(project: Path, pair: Path) -> None:
    """A shift read the wrong way round fits far worse than its inverse, and that is said; as the installed command."""
    done = subprocess.run(
        [WARPGAUGE, "add-transform", str(project), "inverted", str(pair / "wrong.txt")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "in the other direction" in done.stderr
    assert "Traceback" not in done.stderr


def test_undo_takes_a_skip_back(project: Path) -> None:
    query = ask("suggest", project, "--rater", "bob")
    skip(project, query["query"], "ambiguous", rater="bob")
    assert ask("info", project)["skipped"] == 1
    call("undo", project, "--rater", "bob")
    assert ask("info", project)["skipped"] == 0
    assert "nothing to undo" in call("undo", project, "--rater", "bob", code=1)


def test_maps_and_report(project: Path, pair: Path, tmp_path: Path) -> None:
    call("map", project, "sd", tmp_path / "sd.nrrd", "--full")
    image = wg.read_image(tmp_path / "sd.nrrd")
    assert image.grid.size == (120, 100)
    with wg.Project.open(project) as opened:
        posterior = wg.Session(opened).posterior()
    np.testing.assert_allclose(image.read()[50, 60], posterior.standard_deviation([[60.0, 50.0]])[0], rtol=1e-5)
    call("add-transform", project, "right", pair / "right.txt", "--replace")
    call("map", project, "blended", tmp_path / "blended.png", "--transform", "right")
    with Image.open(tmp_path / "blended.png") as picture:
        assert picture.width > 300
    call("report", project, "--out", tmp_path / "report.html")
    assert "right" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "report.json").read_text())
    assert "needs --transform" in call("map", project, "error", tmp_path / "x.nrrd", code=1)


def test_verify_and_a_changed_image(pair: Path, tmp_path: Path, project: Path) -> None:
    assert "The project is intact." in call("verify", project)
    second = tmp_path / "second"
    moved = tmp_path / "fixed.png"
    moved.write_bytes((pair / "fixed.png").read_bytes())
    call("new", second, "--fixed", moved, "--moving", pair / "moving.png", "--candidates", 20)
    Image.fromarray(np.zeros((100, 120), np.uint8)).save(moved)
    report = json.loads(_printed("verify", second, "--json"))
    assert not report["ok"]
    assert "fixed" in report["problems"][0]


def test_files_of_one_name_are_told_apart(project: Path, pair: Path, tmp_path: Path) -> None:
    """Two transform.txt are scored as a/transform and b/transform; the same file twice is refused."""
    for folder, name in (("a", "right"), ("b", "wrong")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "transform.txt").write_bytes((pair / f"{name}.txt").read_bytes())
    first, second = tmp_path / "a" / "transform.txt", tmp_path / "b" / "transform.txt"
    alone = tmp_path / "alone.txt"
    alone.write_bytes((pair / "right.txt").read_bytes())
    result = ask("evaluate", project, first, second, alone)
    scores = {name: one["landmark"]["2"] for name, one in result["transforms"].items()}
    assert scores == pytest.approx({"a/transform": 0.0, "b/transform": 10.0, "alone": 0.0, "identity": 5.0}, abs=1e-9)
    again = tmp_path / "b" / ".." / "a" / "transform.txt"
    assert "is named twice" in call("evaluate", project, first, again, code=1)
    assert "'identity' is named twice" in call("evaluate", project, "identity", "identity", code=1)


def test_an_export_says_what_is_left_out_and_fails_for_what_matters(project: Path, tmp_path: Path) -> None:
    """A fused CSV holds everything; covariances in a BigWarp file need --lossy, named as such."""
    assert "leaves out" not in _notes("export", project, tmp_path / "fused.csv", "--fused")
    back = wg.read_landmarks(tmp_path / "fused.csv")
    np.testing.assert_allclose(back.moving_points - back.fixed_points, np.tile([4.0, -3.0], (12, 1)))
    assert back.covariances is not None
    error = call("export", project, tmp_path / "bw.csv", "--fused", "--format", "bigwarp", code=1)
    assert "would lose: covariances; pass --lossy to leave that out" in error
    assert not (tmp_path / "bw.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("new", "{p}", "--fixed", "{f}", "--moving", "{f}"), "exists already"),
        (("new", "{p}2", "--fixed", "{f}", "--moving", "{f}", "--targets", "labels:x"), "labels:FILE:17,53"),
        (("new", "{p}3", "--fixed", "{f}", "--moving", "{f}", "--set", "colour=red"), "no setting 'colour'"),
        (("evaluate", "{p}", "nonsense"), "no transform 'nonsense'"),
        (("import", "{p}", "{f}"), "fixed.png"),
    ],
)
def test_bad_input_gets_one_sentence(project: Path, pair: Path, arguments: tuple[str, ...], words: str) -> None:
    filled = [one.format(p=project, f=pair / "fixed.png") for one in arguments]
    error = call(*filled, code=1)
    assert words in error
    assert len(error.strip().splitlines()) == 1


FORMATS = {
    "csv": ["out.csv"],
    "anhir": ["fixed.csv", "moving.csv"],
    "bigwarp": ["out.csv"],
    "napari": ["fixed.csv", "moving.csv"],
    "transformix": ["fixed.txt", "moving.txt"],
}


def test_a_real_pair_from_new_to_evaluate_and_through_every_format(data_dir: Path, tmp_path: Path) -> None:
    """CIMA: 30 scripted placements of known landmarks, affine and identity scored, exported and imported back."""
    folder = data_dir / "cima" / "lung-lesion_1"
    fixed, moving = (next(folder.glob(f"*-{stain}*.jpg")) for stain in ("He", "Ki67"))
    known = wg.read_landmarks(fixed.with_suffix(".csv"), moving.with_suffix(".csv"))
    assert known.moving_points is not None
    points = fixed.with_suffix(".csv")
    project = tmp_path / "lesion"
    call("new", project, "--fixed", fixed, "--moving", moving, "--candidates", points, "--targets", 500)
    for _ in range(30):
        query = ask("suggest", project, "--rater", "PS")
        row = int(np.argmin(np.linalg.norm(known.fixed_points - query["point"], axis=1)))
        x, y = known.moving_points[row]
        place(project, query["query"], (x, y), radius=3, rater="PS")
    columns = np.c_[known.fixed_points, np.ones(len(known))]
    matrix = np.linalg.lstsq(columns, known.moving_points, rcond=None)[0].T
    affine = tmp_path / "affine.txt"
    affine.write_text("\n".join(" ".join(f"{v:.12g}" for v in row) for row in [*matrix, [0, 0, 1]]) + "\n")
    call("add-transform", project, "affine", affine)
    result = ask("evaluate", project, "affine", "identity")
    assert result["ranking"]["2"] == ["affine", "identity"]
    assert result["transforms"]["affine"]["probability_best"]["2"] > 0.99
    own = tmp_path / "own.csv"
    call("export", project, own)
    reference = wg.read_landmarks(own)
    for name, files in FORMATS.items():
        out = tmp_path / name
        out.mkdir()
        paths = [out / file for file in files]
        call("export", project, *paths, "--format", name, "--lossy")
        again = tmp_path / f"again-{name}"
        call("new", again, "--fixed", fixed, "--moving", moving, "--candidates", points, "--targets", 50)
        call("import", again, *paths, "--format", name, "--rater", "PS")
        call("export", again, out / "back.csv")
        back = wg.read_landmarks(out / "back.csv")
        order, other = (np.lexsort(one.fixed_points.T) for one in (back, reference))
        np.testing.assert_allclose(back.fixed_points[order], reference.fixed_points[other], atol=1e-6)
        np.testing.assert_allclose(back.moving_points[order], reference.moving_points[other], atol=1e-6)
