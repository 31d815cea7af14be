"""Certificates and gates: the audit's verdict from a project's own log, checked anywhere, and used in CI."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from command_tools import call
from session.tools import Rater, lattice, make, true_map
from warpgauge.cli.app import run
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import AuditWatch, check_certificate, project_comparison, read_certificate
from warpgauge.evaluation.audit import audit_data
from warpgauge.evaluation.certificate import digest_of
from warpgauge.evaluation.gate import Margin
from warpgauge.project import Project
from warpgauge.report import write_project_report
from warpgauge.session import Session

SEALED = {"audit": 0.5, "audit_seed": 5}
PROVEN = "good is the best of good and shifted ("
GOOD = (1.01, 0.0, 0.02, 1.0, 4.0, -3.0)  # the true map without its waves


def affine(path: Path, shift: float = 0.0) -> Path:
    """Write the true map without its waves, shifted along x."""
    a, b, c, d, x, y = GOOD
    path.write_text(
        "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_2_2\n"
        f"Parameters: {a} {b} {c} {d} {x + shift} {y}\nFixedParameters: 0 0\n"
    )
    return path


def annotated(folder: Path, count: int = 50, settings: dict[str, object] | None = None) -> Project:
    """Make a project with two transforms and an annotated audit."""
    project = make(folder, SEALED if settings is None else settings, targets=lattice(25, 18))
    for name, shift in (("good", 0.0), ("shifted", 8.0)):
        project.add_transform(name, affine(folder.parent / f"{name}.tfm", shift))
    Rater(Session(project, "ann"), "ann").work(count)
    return project


def true_mean(project: Project, shift: float) -> float:
    a, b, c, d, x, y = GOOD
    points = project.targets
    mapped = points @ np.array([[a, b], [c, d]]).T + [x + shift, y]
    return float(np.linalg.norm(mapped - true_map(points), axis=1).mean())


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """An annotated project, for tests that do not change it."""
    with annotated(tmp_path_factory.mktemp("trial") / "p") as project:
        yield project


def test_the_audit_tells_errors_and_the_better_transform(trial):
    """Estimates are near the truth, the better transform is proven, and the model agrees."""
    found = wg.certify_project(trial)
    assert found.verdict.mean_errors["good"] == pytest.approx(true_mean(trial, 0.0), rel=0.2)
    assert found.verdict.mean_errors["shifted"] == pytest.approx(true_mean(trial, 8.0), rel=0.2)
    assert found.verdict.best == "good"
    assert found.lines["PROVEN"].startswith(PROVEN)
    assert found.lines["MODEL"].startswith("agrees: good with probability ")
    assert "OPEN" not in found.lines


def test_python_shows_what_the_command_line_prints(trial):
    """``print`` and ``certify`` have the same lines, at most six."""
    found = wg.certify_project(trial)
    assert call("certify", trial.folder).strip() == str(found)
    assert len(str(found).splitlines()) == len(found.lines) <= 6


def test_the_audit_is_read_from_the_log(trial):
    """Rows, probabilities and answers are those of the log."""
    data = audit_data(trial, project_comparison(trial).among(trial.transform_names()))
    asked = [query for query in trial.state.queries if query.audit is not None]
    assert len(data.rows) == len(asked) > 15
    assert data.sealed.all()
    assert data.population == len(trial.targets)
    first = trial.state.audits[0]
    np.testing.assert_array_equal(data.rows[:16], first.targets)
    np.testing.assert_allclose(data.probabilities[:16], first.probabilities)
    for row, query in enumerate(asked):
        placed = trial.state.placement("ann", query.number)
        np.testing.assert_allclose(data.matches[row], placed.moving)
        np.testing.assert_allclose(data.mapped[1, row], trial.transform("shifted").map(np.array([query.point]))[0])


def test_a_question_that_was_passed_over_is_read_as_such(tmp_path):
    """The last audit question is answered again after its predecessor and itself were undone."""
    with annotated(tmp_path / "p", 24) as project:
        session = Session(project)
        numbers = [query.number for query in project.state.queries if query.audit is not None]
        while project.state.is_taken(numbers[-2]):
            session.undo("ann")
        session.place(numbers[-1], true_map(np.array(project.state.queries[numbers[-1]].point)), rater="ann")
        data = audit_data(project, project_comparison(project).among(project.transform_names()))
        assert data.pending.tolist() == [False] * (len(numbers) - 2) + [True, False]
        assert data.answered.tolist() == [True] * (len(numbers) - 2) + [False, True]


def test_a_certificate_that_is_only_shown_hides_the_sealed_answers(trial):
    """It holds hashes and the head of the log, no answer; with its answers missing it cannot be confirmed."""
    found = wg.certify_project(trial, signed_off_by="A. Nyone")
    content = json.loads(found.to_json())
    assert content["answers"] is None
    assert content["signed_off_by"] == "A. Nyone"
    assert content["images"]["fixed"] == trial.document.images["fixed"].content_hash
    assert content["project"]["log"]["digest"] == trial.fingerprint()
    assert content["transforms"]["good"]["hashes"] == list(trial.state.transforms["good"].hashes)
    assert check_certificate(content, trial) == [
        "It holds no answers, as they were sealed: its verdict cannot be computed again."
    ]


def test_opened_answers_stand_in_the_certificate_and_in_the_model(tmp_path, capsys):
    """``--out`` opens the answers; the verdict can be computed again anywhere, and later transforms are named."""
    with annotated(tmp_path / "p", 50) as project:
        before = len(Session(project).annotations())
    out = tmp_path / "trial.json"
    assert run(["certify", str(tmp_path / "p")]) == 0
    with Project.open(tmp_path / "p") as project:
        assert project.state.sealed_locations()
    assert run(["certify", str(tmp_path / "p"), "--out", str(out)]) == 0
    assert PROVEN in capsys.readouterr().out
    content = read_certificate(out)
    opened = len(content["answers"]["rows"])
    with Project.open(tmp_path / "p") as project:
        assert len(Session(project).annotations()) == before + opened == 50
        assert project.state.unsealed[0].certificate == content["digest"]
        assert check_certificate(content, project) == []
        project.add_transform("late", affine(tmp_path / "late.tfm", 1.0))
        again = wg.certify_project(project)
        assert "late may have used the answers, being added after they were opened" in again.lines["MIND"]
        assert f"{opened} answers could be known when a transform was added" in again.lines["MIND"]
        assert not again.content["transforms"]["good"]["after_opening"]
    assert run(["certify", "--check", str(out)]) == 0
    assert "Confirmed: answers and verdict." in capsys.readouterr().out
    content["lines"]["PROVEN"] = content["verdict"]["lines"]["PROVEN"] = "In the words of another version."
    content["digest"] = digest_of(content)
    assert check_certificate(content) == []
    content["answers"]["matches"][3][0] += 5.0
    out.write_text(json.dumps(content))
    assert run(["certify", "--check", str(out), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2
    del content["answers"]["bets"]
    out.write_text(json.dumps(content))
    assert run(["certify", "--check", str(out)]) == 1
    assert "cannot be read" in capsys.readouterr().err
    out.write_text("{}")
    assert run(["certify", "--check", str(out)]) == 1
    assert "is not a warpgauge certificate" in capsys.readouterr().err


KILLED = """
import os, signal, sys
from warpgauge.cli.app import run
def before_the_file_is_there(event, arguments):
    if event == "os.rename" and str(arguments[1]) == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(before_the_file_is_there)
run(["certify", sys.argv[1], "--out", sys.argv[2]])
"""


def test_answers_are_opened_only_when_their_certificate_is_on_the_disk(tmp_path):
    """Where it cannot be written, and where the process is killed before, they stay sealed."""
    with annotated(tmp_path / "p", 20) as project:
        sealed, folder = project.state.sealed_locations(), project.folder
    assert sealed
    assert run(["certify", str(folder), "--out", str(tmp_path / ("x" * 300 + ".json"))]) == 1
    killed = subprocess.run([sys.executable, "-c", KILLED, folder, tmp_path / "trial.json"], check=False)
    assert killed.returncode == -signal.SIGKILL
    with Project.open(folder) as project:
        assert project.state.sealed_locations() == sealed
        with pytest.raises(InvalidInputError):
            wg.certify_project(project, out=tmp_path / "missing" / "trial.json")
        assert project.state.sealed_locations() == sealed
    assert run(["certify", str(folder), "--out", str(tmp_path / "trial.json")]) == 0
    with Project.open(folder) as project:
        assert not project.state.sealed_locations()


def test_a_transform_that_was_fitted_to_the_landmarks_is_unmasked(tmp_path):
    """Right at every open landmark, wrong elsewhere: the model is fooled, the audit is not, a line says so."""
    with annotated(tmp_path / "p", 60) as project:
        known = Session(project).annotations()

        def cheat(points: np.ndarray) -> np.ndarray:
            # A bump of 12 px between the landmarks, none at them.
            nearest = np.linalg.norm(points[:, None] - known.fixed_points[None], axis=2).min(axis=1)
            return true_map(points) + 12 * np.minimum(1, nearest / 8)[:, None] * np.array([0.0, 1.0])

        good = project.transform("good")
        found = wg.certify_project(project, {"cheat": wg.as_transform(cheat, d=2), "good": good})
        assert found.verdict.excluded == ("cheat",)
        assert found.lines["MODEL"].startswith("disagrees: cheat with probability ")


def test_skips_are_counted(tmp_path, capsys):
    with annotated(tmp_path / "p", 24) as project:
        session = Session(project)
        numbers = [query.number for query in project.state.queries if query.audit is not None]
        for number in numbers[:3]:
            session.skip(number, "ambiguous", rater="ann")
        assert wg.certify_project(project).verdict.answered == len(numbers) - 3
    assert run(["certify", str(tmp_path / "p")]) == 0
    assert f"SKIPPED  3 of {len(numbers)} questions" in capsys.readouterr().out


def test_the_audit_is_watched_while_it_is_annotated(tmp_path):
    """The same verdict as ``certify``, anew after an audit answer."""
    with annotated(tmp_path / "p", 30) as project:
        watch = AuditWatch(project)
        first = watch.verdict()
        assert first.to_dict() == wg.certify_project(project).verdict.to_dict()
        assert watch.verdict() is first
        Rater(Session(project, "ben"), "ben", seed=3).work(20)
        assert watch.verdict().mean_errors != first.mean_errors
    told = json.loads(call("suggest", tmp_path / "p", "--rater", "ann", "--json"))
    assert told["audit"] == watch.verdict().sentence


def test_without_an_audit_there_is_nothing_to_certify(tmp_path, capsys):
    """The error says how to get one; where there is one, that its questions wait for answers."""
    with annotated(tmp_path / "p", 6, {}) as project, pytest.raises(InvalidInputError, match=r"--audit 0\.25"):
        wg.certify_project(project)
    rare = {**SEALED, "audit": 0.01}
    with annotated(tmp_path / "q", 3, rare) as project, pytest.raises(InvalidInputError, match="annotate PROJECT"):
        wg.certify_project(project)
    assert run(["certify"]) == 2


def test_a_gate_tells_worse_from_not_worse(trial, tmp_path, capsys):
    """Exit code 0 for an equal build, 1 for a worse one, 2 where the margin is too fine, 3 for an error."""
    same, worse, close = (affine(tmp_path / f"{shift}.tfm", shift) for shift in (0.01, 8.0, 1.9))
    folder, baseline = str(trial.folder), "good"
    assert run(["gate", folder, str(same), "--against", baseline, "--margin", "0.5px"]) == 0
    assert capsys.readouterr().out.startswith("Not worse: the two differ by 0.01 px on average")
    assert run(["gate", folder, str(worse), "--against", baseline, "--margin", "0.5"]) == 1
    assert "fails in at most 5 % of audits" in capsys.readouterr().out
    assert run(["gate", folder, str(close), "--against", baseline, "--margin", "0", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["apart"] == pytest.approx(1.9)
    assert "Undecided at a margin of 0 px" in told["sentence"]
    assert run(["gate", folder, baseline, "--against", baseline, "--margin", "10%"]) == 0
    assert run(["gate", folder, str(same), "--against", baseline, "--margin", "0.5mm"]) == 3
    assert "but the project is in px" in capsys.readouterr().err
    assert run(["gate", folder, str(same)]) == 3


INTERRUPTED = """
import os, signal, sys
from warpgauge.cli.app import run
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
def when_the_transform_is_read(event, arguments):
    if event == "open" and str(arguments[0]).endswith("shifted.tfm"):
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(when_the_transform_is_read)
sys.exit(run(sys.argv[1:]))
"""


def test_no_failure_of_a_gate_says_worse(trial):
    """On a full disk, after Ctrl-C and with a pipe that nobody reads the code is 3."""
    gate = ["gate", str(trial.folder), "shifted", "--against", "good", "--margin", "0.5"]
    command = [sys.executable, "-m", "warpgauge", *gate]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, "No space left" in done.stderr) == (3, True)
    reading, writing = os.pipe()
    os.close(reading)
    unread = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert unread.returncode == 3
    interrupted = subprocess.run([sys.executable, "-c", INTERRUPTED, *gate], capture_output=True, check=False)
    assert interrupted.returncode == 3


def test_a_gate_names_options_as_the_command_line_does(trial, tmp_path, capsys):
    """A field that does not say its unit is refused with an option, not with an argument of Python."""
    field = tmp_path / "field.npy"
    np.save(field, np.zeros((*trial.fixed_grid.shape, 2)))
    assert run(["gate", str(trial.folder), str(field), "--against", "good"]) == 3
    assert "=" not in capsys.readouterr().err


def test_a_gate_takes_micrometres_as_they_are_written(tmp_path, capsys):
    """Every table writes µm, so a margin may be copied from there."""
    with make(tmp_path / "p", spacing=2.0, units="um") as project:
        project.add_transform("good", affine(tmp_path / "good.tfm"))
    near = affine(tmp_path / "near.tfm", 0.3)
    gate = ["gate", str(tmp_path / "p"), str(near), "--against", "good", "--margin"]
    assert run([*gate, "0.4µm"]) == 0
    assert "differ by 0.3 µm on average" in capsys.readouterr().out
    assert run([*gate, "0.4mm"]) == 3
    assert "is in mm, but the project is in µm" in capsys.readouterr().err


def test_margins_are_read_with_their_unit():
    """A number, a unit that fits, or a share of the baseline; anything else is refused."""
    assert Margin.read("0.1mm", "mm") == Margin(0.1, False)
    assert Margin.read(0.2, "px") == Margin(0.2, False)
    assert Margin.read("0.1 µm", "um") == Margin.read("0.1um", "um") == Margin(0.1, False)
    assert Margin.read("5%", "mm") == Margin(0.05, True)
    for wrong in ("-1", "a", "1mm", "nan"):
        with pytest.raises(InvalidInputError):
            Margin.read(wrong, "px")


def test_the_report_has_what_the_audit_proves(trial, tmp_path):
    """The report's page shows the audit's lines; the JSON beside it has its numbers and no sealed answer."""
    file = write_project_report(trial, tmp_path / "report.html", maps=False)
    found = json.loads(file.with_suffix(".json").read_text())["audit"]
    assert found["best"] == "good"
    assert found["lines"]["PROVEN"].startswith(PROVEN)
    assert 'id="audit"' in file.read_text()
    assert found["lines"]["PROVEN"] in file.read_text()
