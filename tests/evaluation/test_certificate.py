"""Certificates and gates: the audit's verdict from a project's own log, checked anywhere, and used in CI."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from command_tools import call
from session.tools import Rater, lattice, make, true_map
from warpgauge.cli.app import run
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import AuditWatch, audit_data, check_certificate, project_comparison, read_certificate
from warpgauge.evaluation.certificate import commitment, digest_of
from warpgauge.evaluation.gate import Margin
from warpgauge.project import Project
from warpgauge.report import write_project_report
from warpgauge.session import Session
from warpgauge.session.audit_questions import audit_places, round_between

SEALED = {"audit": 0.5, "seal": True, "audit_seed": 5}
# How far the ladder reaches depends on the answers, which follow the last bits of the model.
DECIDED = re.compile(
    r"Decided: good is better than shifted\. Its mean error is smaller, and so is its RMS error with answers up to "
    r"R0 = (8|12) px beyond \(95 % confidence at every look, by the random draw alone\)\."
)
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


def true_rms(project: Project, shift: float) -> float:
    a, b, c, d, x, y = GOOD
    points = project.targets
    mapped = points @ np.array([[a, b], [c, d]]).T + [x + shift, y]
    return float(np.sqrt(np.square(mapped - true_map(points)).sum(axis=1).mean()))


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """An annotated project, for tests that do not change it."""
    with annotated(tmp_path_factory.mktemp("trial") / "p") as project:
        yield project


def test_the_audit_tells_errors_and_the_better_transform(trial):
    """Bounds hold the true RMS errors, the better transform is decided, and both verdicts agree."""
    found = wg.certify_project(trial)
    sizes = {one.name: one for one in found.verdict.methods}
    assert sizes["good"].low <= true_rms(trial, 0.0) <= sizes["good"].high
    assert sizes["shifted"].low <= true_rms(trial, 8.0) <= sizes["shifted"].high
    assert found.certified
    assert DECIDED.fullmatch(found.content["verdict"])
    assert [(one.best_rank, one.worst_rank) for one in found.verdict.methods] == [(1, 1), (2, 2)]
    assert found.contradictions == []


def test_python_shows_what_the_command_line_prints(trial):
    """print and the table of a notebook have the title, all rows, both verdicts and whether they contradict."""
    found = wg.certify_project(trial)
    printed = [" ".join(line.split()) for line in call("certify", trial.folder).splitlines()]
    told = [" ".join(line.split()) for line in str(found).splitlines()]
    assert told == [*printed, *found.notes]  # notes go to standard error
    shown = found._repr_html_()
    assert f"<caption>{found.title}</caption>" in shown
    assert f"<p>Audit: {found.content['verdict']}</p>" in shown
    assert "<p>The two verdicts do not contradict each other.</p>" in shown
    assert shown.count("<tr>") == 3


def test_the_audit_is_read_from_the_log(trial):
    """Rows, probabilities and answers are those of the log; the difference of two transforms is linear in the match."""
    data = audit_data(trial, project_comparison(trial).among(trial.transform_names()))
    asked = [query for query in trial.state.queries if query.audit is not None]
    assert len(data.draws) == len(asked) == 25
    assert data.sealed.all()
    first = trial.state.audits[0]
    np.testing.assert_allclose(data.draws.probabilities[:16], first.probabilities)
    for row, query in enumerate(asked):
        np.testing.assert_allclose(data.matches[row], trial.state.placement("ann", query.number).moving)
    delta = data.mapped[0] - data.mapped[1]
    linear = (delta * (data.mapped[0] + data.mapped[1] - 2 * data.matches)).sum(axis=1)
    squares = data.squares()
    np.testing.assert_allclose(squares[0] - squares[1], linear, atol=1e-9)


def test_a_sealed_certificate_hides_the_answers_and_is_checked_with_the_project(trial, tmp_path):
    """It holds hashes, the head of the log and a commitment; with the project it is computed again."""
    found = wg.certify_project(trial, signed_off_by="A. Nyone")
    content = json.loads(found.to_json())
    assert content["answers"] is None
    assert content["signed_off_by"] == "A. Nyone"
    assert content["images"]["fixed"] == trial.document.images["fixed"].content_hash
    assert content["project"]["log"]["digest"] == trial.fingerprint()
    assert content["transforms"]["good"]["hashes"] == list(trial.state.transforms["good"].hashes)
    assert content["seeds"]["rounds"] == [drawn.seed for drawn in trial.state.audits]
    assert check_certificate(content) == []
    assert check_certificate(content, trial) == []
    other = json.loads(found.to_json())
    other["design_based"]["sentence"] = "In the words of another version."
    other["digest"] = digest_of(other)
    assert check_certificate(other, trial) == []
    other["design_based"]["methods"][0]["rms"] = 0.1
    assert check_certificate(other, trial) == [
        "The digest does not match: the file was changed after it was written.",
        "The verdict does not follow from the project's answers: recomputing it gives a different one.",
    ]


def test_the_commitment_is_to_draws_and_answers(trial):
    """Rounding in a transform or in the model breaks no commitment, an answer does."""
    data = audit_data(trial, project_comparison(trial).among(trial.transform_names()))
    rounded, answered = replace(data, mapped=data.mapped * (1 + 1e-15)), replace(data, matches=data.matches + 1e-9)
    assert commitment(rounded) == commitment(data) != commitment(answered)
    content = json.loads(wg.certify_project(trial).to_json())
    assert content["commitment"] == commitment(data)


def test_opened_answers_stand_in_the_certificate_and_in_the_model(tmp_path, capsys):
    """After --unseal the certificate can be computed again anywhere, and later transforms are named."""
    with annotated(tmp_path / "p", 50) as project:
        before = len(Session(project).annotations())
    out = tmp_path / "trial.json"
    assert run(["certify", str(tmp_path / "p"), "--unseal"]) == 1
    assert "--out FILE" in capsys.readouterr().err
    assert run(["certify", str(tmp_path / "p"), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "Audit: Decided: good is better than shifted" in shown
    content = read_certificate(out)
    assert len(content["answers"]["targets"]) == 25
    with Project.open(tmp_path / "p") as project:
        assert len(Session(project).annotations()) == before + 25
        assert project.state.unsealed[0].certificate == content["digest"]
        project.add_transform("late", affine(tmp_path / "late.tfm", 1.0))
        again = wg.certify_project(project)
        assert again.content["transforms"]["late"]["after_opening"]
        assert not again.content["transforms"]["good"]["after_opening"]
    assert run(["certify", "--check", str(out)]) == 0
    assert "Confirmed: answers and verdict." in capsys.readouterr().out
    content["answers"]["matches"][3][0] += 5.0
    out.write_text(json.dumps(content))
    assert run(["certify", "--check", str(out), "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 3
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
            wg.certify_project(project, unseal=True, out=tmp_path / "missing" / "trial.json")
        with pytest.raises(InvalidInputError):
            wg.certify_project(project, unseal=True)
        assert project.state.sealed_locations() == sealed
    assert run(["certify", str(folder), "--out", str(tmp_path / "trial.json")]) == 0
    with Project.open(folder) as project:
        assert not project.state.sealed_locations()


def test_a_transform_that_was_fitted_to_the_landmarks_is_unmasked(tmp_path):
    """Right at every open landmark, wrong elsewhere: the model is fooled, the audit is not, a sentence says so."""
    with annotated(tmp_path / "p", 60) as project:
        known = Session(project).annotations()

        def cheat(points: np.ndarray) -> np.ndarray:
            # A bump of 12 px between the landmarks, none at them.
            nearest = np.linalg.norm(points[:, None] - known.fixed_points[None], axis=2).min(axis=1)
            return true_map(points) + 12 * np.minimum(1, nearest / 8)[:, None] * np.array([0.0, 1.0])

        good = project.transform("good")
        found = wg.certify_project(project, {"cheat": wg.read_transform(cheat, d=2), "good": good})
        sizes = {one.name: one for one in found.verdict.methods}
        assert sizes["cheat"].low > found.content["model_based"]["methods"]["cheat"]["interval"][1]
        assert any("the model overrates this transform" in one for one in found.contradictions)


def test_skips_are_bounded_and_reported(tmp_path, capsys):
    """A skipped audit question widens the bounds with skips and is counted, not forgotten."""
    with annotated(tmp_path / "p", 24) as project:
        session = Session(project)
        numbers = [query.number for query in project.state.queries if query.audit is not None]
        for number in numbers[:3]:
            session.skip(number, "ambiguous", rater="ann")
        found = wg.certify_project(project)
        assert found.content["audit"]["not_answered"] == 3
        assert found.verdict.skipped == 3
    assert run(["certify", str(tmp_path / "p")]) == 0
    assert "3 of 12 audit questions were not answered" in capsys.readouterr().out


def test_watching_the_audit_ends_the_session(tmp_path, capsys):
    """With stop_decided, suggestions end when the audit has decided; `suggest` says what it decided."""
    settings = {**SEALED, "stop_decided": True}
    with make(tmp_path / "p", settings, targets=lattice(25, 18)) as project:
        for name, shift in (("good", 0.0), ("shifted", 8.0)):
            project.add_transform(name, affine(tmp_path / f"{name}.tfm", shift))
        watch = AuditWatch(project)
        session = Session(project, "ann", decided=watch.certified)
        rater, asked = Rater(session, "ann"), 0
        while asked < 80 and (query := session.next_query()) is not None:
            rater.answer(query)
            asked += 1
        assert 10 <= asked < 80
        rules = {rule.name: rule for rule in session.progress("ann").stop_rules}
        assert rules["decided"].met
    assert run(["suggest", str(tmp_path / "p"), "--rater", "ann", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["done"]
    assert "good is better than shifted. Its mean error is smaller" in told["audit"]


def test_without_an_audit_there_is_nothing_to_certify(tmp_path, capsys):
    """The error says how to get one."""
    with annotated(tmp_path / "p", 6, {}) as project, pytest.raises(InvalidInputError, match=r"--audit 0\.3"):
        wg.certify_project(project)
    assert run(["certify"]) == 2


def test_a_gate_tells_worse_from_not_worse(trial, tmp_path, capsys):
    """Exit code 0 for an equal build, 1 for a worse one, 2 where the margin is too fine, 3 for an error."""
    same, worse, close = (affine(tmp_path / f"{shift}.tfm", shift) for shift in (0.01, 8.0, 1.9))
    folder, baseline = str(trial.folder), "good"
    assert run(["gate", folder, str(same), "--against", baseline, "--margin", "0.5px"]) == 0
    assert capsys.readouterr().out.startswith("Not worse: its RMS error is about")
    assert run(["gate", folder, str(worse), "--against", baseline, "--margin", "0.5"]) == 1
    assert "fails in at most 5 % of audits" in capsys.readouterr().out
    assert run(["gate", folder, str(close), "--against", baseline, "--margin", "0", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["apart"] == pytest.approx(1.9)
    assert "without a margin nothing can pass" in told["sentence"]
    assert run(["gate", folder, baseline, "--against", baseline, "--margin", "10%"]) == 0
    assert run(["gate", folder, str(same), "--against", baseline, "--margin", "0.5mm"]) == 3
    assert "but the project is in px" in capsys.readouterr().err
    assert run(["gate", folder, str(same)]) == 3


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
    former = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    try:
        assert run(gate) == 3
    finally:
        signal.signal(signal.SIGALRM, former)


def test_a_gate_names_options_as_the_command_line_does(trial, tmp_path, capsys):
    """A field that does not say its unit is refused with an option, not with an argument of Python."""
    field = tmp_path / "field.npy"
    np.save(field, np.zeros((*trial.fixed_grid.shape, 2)))
    assert run(["gate", str(trial.folder), str(field), "--against", "good"]) == 3
    assert "=" not in capsys.readouterr().err


def test_a_gates_questions_are_drawn_by_the_squared_distance(tmp_path):
    """The logged probabilities, one draw after another: nine tenths by the square, a tenth evenly."""
    with make(tmp_path / "p", {"audit_seed": 5}, targets=lattice(12, 9)) as project:
        places, reach = audit_places(project)[0], np.array([[[1.0]], [[1.05]]])
        found = round_between(project, project.state, lambda at: reach * at, 9, lambda at: np.ones(len(at)))
        squares = np.square(0.05 * places).sum(axis=1)
        sizes = 0.9 * squares / squares.sum() + 0.1 / len(places)
        for target, probability in zip(found.drawn.targets, found.drawn.probabilities, strict=True):
            assert probability == pytest.approx(sizes[target] / sizes.sum(), rel=1e-9)
            sizes[target] = 0.0
        assert found.drawn.sequential


def test_margins_are_read_with_their_unit():
    """A number, a unit that fits, or a share of the baseline; anything else is refused."""
    assert Margin.read("0.1mm", "mm") == Margin(0.1, False)
    assert Margin.read(0.2, "px") == Margin(0.2, False)
    assert Margin.read("0.1 µm", "um") == Margin.read("0.1um", "um") == Margin(0.1, False)
    assert Margin.read("5%", "mm") == Margin(0.05, True)
    for wrong in ("-1", "a", "1mm", "nan"):
        with pytest.raises(InvalidInputError):
            Margin.read(wrong, "px")


def test_the_report_has_a_certificate(trial, tmp_path):
    """The report's page shows the audit's verdict, its table and its digest; the JSON beside it has all of it."""
    file = write_project_report(trial, tmp_path / "report.html", maps=False, further=False, with_trust=False)
    content = json.loads(file.with_suffix(".json").read_text())["certificate"]
    shown = file.read_text()
    assert DECIDED.fullmatch(content["verdict"])
    assert 'id="certificate"' in shown
    assert content["verdict"] in shown
    assert content["digest"] in shown
    assert content["answers"] is None
