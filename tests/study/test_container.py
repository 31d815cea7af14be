"""An evaluation container: what is written, and its entry point with nothing but its own requirements."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import distribution
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from command_tools import ask, call
from postgres_tools import Postgres
from project.tools import grid_points, place, query, write_images
from study_tools import make_study
from warpgauge.errors import FileFormatError
from warpgauge.io.inside import Inside
from warpgauge.project import Project
from warpgauge.study import container as container_module
from warpgauge.study import evaluate_submission, write_container
from warpgauge.study.submission import main


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


def test_a_project_goes_into_a_container_by_a_list(tmp_path: Path) -> None:
    """Logins, former logs, stray files and places of images stay out; the copy opens where nobody trusted it."""
    fixed, moving = write_images(tmp_path / "patient-0815")
    with Project.create(tmp_path / "project", fixed=fixed, moving=moving, candidates=grid_points()) as project:
        for number, (x, y) in enumerate(grid_points(4, 3)):
            project.append(query(number, (x, y)), place(number, (x + 1, y)))
    for name in ("access.log", "access.log.1", "annotations.before-20260101T000000.sqlite", "notes.txt", "id_rsa"):
        (tmp_path / "project" / name).write_text("192.0.2.1 Dr. Secret")
    (tmp_path / "project" / "stray").mkdir()
    (tmp_path / "project" / "stray" / "x.csv").write_text("secret")
    (tmp_path / "study.toml").write_text(
        '[[pair]]\nname = "one"\nproject = "project"\n[[method]]\nname = "m"\ntransform = "{method}/{pair}.tfm"\n'
    )
    call("benchmark", tmp_path / "study.toml", "--container", tmp_path / "box")
    copy = tmp_path / "box" / "ground-truth" / "pair001" / "project"
    listed = {"project.json", "candidates.npz", "targets.npz", "annotations.sqlite", "annotations.head"}
    listed |= {"fixed_foreground.npz", "moving_foreground.npz"}
    assert {path.name for path in copy.rglob("*") if path.is_file()} == listed
    assert b"patient-0815" not in (copy / "project.json").read_bytes()
    shutil.move(copy, tmp_path / "elsewhere")
    with Project.open(tmp_path / "elsewhere", check_images=False, trust=False) as opened:
        assert len(opened.state.queries) == 12


@pytest.mark.parametrize("moment", [1, 2, 3, 4, 5, 6, "opened"])
def test_a_file_that_is_exchanged_for_a_link_does_not_go_into_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: object
) -> None:
    """After a check of a name, whichever is the last one, or before it is opened somebody puts a link there."""
    fixed, moving = write_images(tmp_path)
    Project.create(tmp_path / "project", fixed=fixed, moving=moving, candidates=grid_points()).close()
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----")
    (tmp_path / "study.toml").write_text(
        '[[pair]]\nname = "one"\nproject = "project"\n[[method]]\nname = "m"\ntransform = "{method}/{pair}.tfm"\n'
    )
    points, opened, checks = tmp_path / "project" / "targets.npz", os.open, count(1)

    def exchange() -> None:
        points.unlink()
        points.symlink_to(tmp_path / "key")

    class Exchanged(Inside):
        def __fspath__(self) -> str:
            found = super().__fspath__()
            if found == str(points) and next(checks) == moment:
                exchange()
            return found

    def opening(path: Any, *given: Any, **options: Any) -> int:
        if path == points.name and moment == "opened":
            exchange()
        return opened(path, *given, **options)

    monkeypatch.setattr(container_module, "Inside", Exchanged)
    monkeypatch.setattr(os, "open", opening)
    try:
        write_container(tmp_path / "study.toml", tmp_path / "box")
        refused = ""
    except FileFormatError as error:
        refused = str(error)
    assert points.is_symlink() == ("'targets.npz' in 'project' is not used" in refused)
    assert not any(b"PRIVATE" in one.read_bytes() for one in (tmp_path / "box").rglob("*.npz"))


def entered(given: Path, out: Path, box: Path) -> tuple[int, str]:
    """Run the entry point within this process; return its code and what stands on standard error."""
    told = io.StringIO()
    with redirect_stderr(told), redirect_stdout(io.StringIO()):
        code = main([str(given), str(out), str(box / "ground-truth")])
    assert "Traceback" not in told.getvalue(), told.getvalue()
    return code, told.getvalue()


def refused(given: Path, box: Path, tmp_path: Path) -> str:
    """Run the entry point on a hostile submission, and return the sentence."""
    code, told = entered(given, tmp_path / "refused", box)
    assert code == 1
    assert not (tmp_path / "refused").exists()
    return told.splitlines()[-1]


def test_a_hostile_submission_reads_nothing_outside_its_folder(tmp_path: Path) -> None:
    """Neither by the key of a job, nor by a path of an output, nor by a link; each is one sentence."""
    box, given = container(tmp_path), tmp_path / "jobs"
    job = prediction(given, "a1", "case0", "near")
    shutil.copytree(given / "a1", tmp_path / "outside")
    for change in (
        {"pk": "../outside"},
        {"pk": str(tmp_path / "outside")},
        {"pk": ".."},
        {"outputs": [{"interface": {"relative_path": "../../../outside/output/transform.tfm"}}]},
        {"outputs": [{"socket": {"relative_path": str(tmp_path / "outside" / "output" / "transform.tfm")}}]},
        {"outputs": [{"interface": 7}]},
        {"outputs": "x"},
        {"inputs": [3]},
    ):
        (given / "predictions.json").write_text(json.dumps([{**job, **change}]))
        refused(given, box, tmp_path)
    for text in ("[" * 100_000 + "]" * 100_000, "{}", "[[]]", '{"a": 1e999}', "7", '[{"pk": 1e308}]'):
        (given / "predictions.json").write_text(text)
        assert "is not a list of jobs" in refused(given, box, tmp_path) or text == "{}"
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "case0.tfm").symlink_to(tmp_path / "outside" / "output" / "transform.tfm")
    assert "a link to a place outside" in refused(linked, box, tmp_path)


def test_numbers_at_the_edge_of_floating_point_are_no_traceback(tmp_path: Path) -> None:
    """A transform with 1e308 is a missing case with its reason, or one sentence, and metrics stay JSON."""
    box, given = container(tmp_path), submission(tmp_path)
    for number in ("1e308", "-1.7e308", "1e200"):
        text = (tmp_path / "near" / "case0.tfm").read_text()
        (given / "case0.tfm").write_text(text.replace("Parameters: 1", f"Parameters: {number}", 1))
        code, _ = entered(given, tmp_path / "out", box)
        if code == 0:
            json.loads((tmp_path / "out" / "metrics.json").read_text(), parse_constant=pytest.fail)


def test_a_log_in_a_database_goes_into_a_container_as_a_file(tmp_path: Path, postgres: Postgres) -> None:
    """A container reaches no database: the same rows, chain included, are a file there, and the project is intact."""
    fixed, moving = write_images(tmp_path)
    with Project.create(
        tmp_path / "project", fixed=fixed, moving=moving, candidates=grid_points(), database=postgres.url
    ) as project:
        project.append(query(0, (3, 4)), place(0, (4, 4)))
        digests = [event.digest for event in project.events()]
    (tmp_path / "STUDY.toml").write_text(
        '[[pair]]\nname = "one"\nproject = "project"\n[[method]]\nname = "m"\ntransform = "{method}/{pair}.tfm"\n'
    )
    call("benchmark", tmp_path / "STUDY.toml", "--container", tmp_path / "box")
    copy = tmp_path / "box" / "ground-truth" / "pair001" / "project"
    assert b"postgresql" not in (copy / "project.json").read_bytes()
    with Project.open(copy, check_images=False) as copied:
        assert [event.digest for event in copied.events()] == digests
