"""An evaluation container: what is written, and its entry point with nothing but its own requirements."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from command_tools import ask, call
from study_tools import make_study
from warpgauge.study import evaluate_submission


def container(folder: Path, **settings: str) -> Path:
    study = make_study(folder, pairs=2, **settings)
    call("benchmark", study, "--container", folder / "box")
    return folder / "box"


def submission(folder: Path, method: str = "near") -> Path:
    """What a participant of the small study uploads: a file per pair."""
    aim = folder / "input"
    shutil.copytree(folder / method, aim)
    return aim


def closure(names: list[str]) -> set[str]:
    """Installed distributions that some need, themselves included."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        found.add(name)
        for line in distribution(name).requires or ():
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                todo.append(need.name)
    return found


def bare_environment(box: Path, folder: Path) -> dict[str, str]:
    """Links to what the container's requirements bring, and nothing else."""
    links = folder / "site"
    links.mkdir()
    pinned = [line.partition("==")[0] for line in (box / "requirements.txt").read_text().split()]
    for name in closure(pinned):
        installed = distribution(name)
        tops = {file.parts[0] for file in installed.files or () if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            if not (links / top).exists():
                (links / top).symlink_to(Path(str(installed.locate_file(top))))
    return {"PYTHONPATH": f"{links}{os.pathsep}{box / 'package'}", "NUMBA_CACHE_DIR": str(folder / "compiled")}


def test_the_entry_point_runs_in_a_bare_environment(tmp_path: Path) -> None:
    """No package but the container's requirements, no home, a read-only ground truth: the scores are the study's."""
    box, given = container(tmp_path), submission(tmp_path)
    entry = re.search(r'ENTRYPOINT \["python", "-m", "([\w.]+)"\]', (box / "Dockerfile").read_text())
    assert entry is not None
    program = (
        "import sys, runpy, socket\n"
        "def refuse(*_, **__): raise AssertionError('the network was used')\n"
        "socket.socket.connect = refuse\n"
        f"sys.argv = ['x', {str(given)!r}, {str(tmp_path / 'output')!r}, {str(box / 'ground-truth')!r}]\n"
        f"runpy.run_module({entry[1]!r}, run_name='__main__', alter_sys=True)\n"
    )
    for path in [box / "ground-truth", *(box / "ground-truth").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    # -S: no site-packages; -s -P: neither the user's own nor the current folder.
    command = [sys.executable, "-S", "-s", "-P", "-c", program]
    bare = bare_environment(box, tmp_path)
    done = subprocess.run(command, check=False, env=bare, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "output" / "metrics.json").read_text())
    assert set(metrics["case"]) == {"case0", "case1"}
    alone = (tmp_path / "STUDY.toml").read_text()
    alone = alone[: alone.index("[[method]]")] + '[[method]]\nname = "near"\ntransform = "{method}/{pair}.tfm"\n'
    (tmp_path / "alone.toml").write_text(alone)
    expected = {row["pair"]: row for row in ask("benchmark", tmp_path / "alone.toml")["cases"] if row["rank"]}
    for pair, row in metrics["case"].items():
        assert row["score"] == pytest.approx(expected[pair]["score"], rel=1e-12)
        assert row["low"] < row["score"] < row["high"]
    assert metrics["aggregates"]["cases"] == 2
    assert metrics["aggregates"]["mean_score_before_registration"] > 0


def test_the_container_is_not_root_has_no_images_and_no_submission(tmp_path: Path) -> None:
    box = container(tmp_path)
    docker = (box / "Dockerfile").read_text()
    assert docker.rindex("USER evaluator") > docker.rindex("RUN ")
    names = {path.name for path in (box / "ground-truth").rglob("*") if path.is_file()}
    assert names == {
        "study.toml",
        *(f"{kind}{n}.json" for kind in ("landmarks-case", "targets-targets") for n in (0, 1)),
    }
    assert "--network none" in (box / "test.sh").read_text()
    assert os.access(box / "test.sh", os.X_OK)
    assert "{pair}.tfm" in (box / "README.md").read_text()


def prediction(folder: Path, key: str, pair: str, method: str) -> dict[str, object]:
    """A job of predictions.json, and its output, as grand-challenge.org lays them out."""
    place = folder / key / "output" / "transform.tfm"
    place.parent.mkdir(parents=True)
    shutil.copyfile(folder.parent / method / f"{pair}.tfm", place)
    return {
        "pk": key,
        "inputs": [{"interface": {"slug": "fixed-image"}, "image": {"name": f"{pair}_fixed.mha"}}],
        "outputs": [{"interface": {"slug": "transform", "relative_path": "transform.tfm"}, "image": None}],
    }


def test_predictions_of_an_algorithm_belong_to_the_pair_that_their_input_names(tmp_path: Path) -> None:
    """Jobs come in any order; a job of an unknown image is one sentence."""
    box, given = container(tmp_path), tmp_path / "jobs"
    jobs = [prediction(given, "b7", "case1", "far"), prediction(given, "a1", "case0", "near")]
    (given / "predictions.json").write_text(json.dumps(jobs))
    metrics = evaluate_submission(given, box / "ground-truth", tmp_path / "out")
    assert metrics["case"]["case0"]["landmark_mean"] < 5
    assert metrics["case"]["case1"]["landmark_mean"] > 20
    jobs[0]["inputs"] = [{"image": {"name": "case10_fixed.mha"}}]
    (given / "predictions.json").write_text(json.dumps(jobs))
    done = run_entry(given, tmp_path / "out2", box)
    assert "name no pair of the study" in done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert not (tmp_path / "out2").exists()


def run_entry(given: Path, out: Path, box: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warpgauge.study.submission", str(given), str(out), str(box / "ground-truth")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_file_that_is_missing_is_a_missing_case_or_an_error_by_the_rule(tmp_path: Path) -> None:
    box, given = container(tmp_path), submission(tmp_path)
    (given / "case1.tfm").unlink()
    inner = tmp_path / "wrapped" / "team"  # an archive with one folder at its top
    shutil.copytree(given, inner)
    metrics = evaluate_submission(inner.parent, box / "ground-truth", tmp_path / "out")
    assert metrics["aggregates"]["missing"] == 1
    assert "there is no file" in metrics["case"]["case1"]["missing"]
    # The absent pair counts as without registration, an error of 4 by hand, instead of leaving the mean to the other.
    assert metrics["case"]["case1"]["score"] == pytest.approx(4, rel=0.15)
    scores = [one["score"] for one in metrics["case"].values()]
    assert metrics["aggregates"]["mean_score"] == pytest.approx(sum(scores) / 2)


def test_relative_folders_serve_and_a_submission_without_any_file_is_refused(tmp_path: Path) -> None:
    """Nothing but the aggregates is printed; of what fits nothing, one sentence names what was looked for."""
    container(tmp_path)
    submission(tmp_path)

    def enter(*places: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "warpgauge.study.submission", *places, "box/ground-truth"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = enter("input", "out")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout)["cases"] == 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "readme.txt").write_text("mine")
    done = enter("other", "out2")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "The submission could not be evaluated: None of the 2 pairs can be evaluated; of 'case0': there is no file "
        "'case0.tfm'."
    )
    assert not (tmp_path / "out2").exists()


def test_a_study_without_a_common_layout_has_no_container(tmp_path: Path) -> None:
    study = make_study(tmp_path, pairs=1)
    study.write_text(study.read_text().replace('transform = "{method}/{pair}.tfm"', 'transform = "x/{pair}.tfm"'))
    error = call("benchmark", study, "--container", tmp_path / "box", code=1)
    assert "none has such a pattern" in error
    assert not (tmp_path / "box").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    assert "not empty" in call("benchmark", study, "--container", tmp_path / "full", code=1)
