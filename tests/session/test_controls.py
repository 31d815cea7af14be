"""Control questions: mixed in so that nobody can tell, never used by the model, and what they say about a rater."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from command_tools import call
from session.tools import make
from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks import Landmarks, write_landmarks
from warpgauge.project import NotAllowedError, Project
from warpgauge.session import Session
from warpgauge.session.control_questions import EVERY, add_controls, rater_certificate, sd_interval

FIXED = np.array([[40.5, 50.5], [120.5, 60.5], [200.5, 150.5], [90.5, 200.5], [150.5, 110.5], [60.5, 130.5]])
OFFSET = np.array([3.0, -2.0])
MOVING = FIXED + OFFSET


def made(folder: Path, **settings: object) -> Path:
    with make(folder / "p", settings) as project:
        return project.folder


def answered(folder: Path, count: int, offset: np.ndarray, seed: int = 1) -> list[str]:
    """Answer questions at a known offset with noise; return the origins of all in the list."""
    rng = np.random.default_rng(seed)
    with Project.open(folder) as project:
        session = Session(project, rater="ada")
        for _ in range(count):
            query = session.next_query()
            assert query is not None
            match = np.array(query.point) + offset + rng.normal(0, 1, 2)
            session.place(query, match, covariance=4 * np.eye(2), confirmed=True)
        return [query.origin for query in project.state.queries]


def test_controls_are_mixed_in_and_the_model_does_not_use_them(tmp_path: Path) -> None:
    """About one question in 8, wherever the secret seed says; the model has all other answers and only those."""
    folder = made(tmp_path, refit="never", audit_seed=3)
    with Project.open(folder) as project:
        assert add_controls(project, FIXED, MOVING, "organiser") == 6
        assert add_controls(project, FIXED, MOVING, "organiser") == 0
    origins = answered(folder, 32, OFFSET)
    count = origins.count("control")
    assert 2 <= count <= 6
    with Project.open(folder) as project:
        assert len(Session(project).annotations()) == 32 - count
        asked = {query.point: query.known for query in project.state.queries if query.known}
        assert len(asked) == count
        for fixed, moving in asked.items():
            assert tuple(np.array(fixed) + OFFSET) == pytest.approx(moving)


def test_a_certificate_states_bias_scatter_and_coverage(tmp_path: Path) -> None:
    """Of a rater who is off by (4, 0) with a scatter of 1: both intervals hold that, and the shares are counted."""
    folder = made(tmp_path, refit="never", repeat_fraction=0.25, repeat_lag=2, audit_seed=3)
    with Project.open(folder) as project:
        add_controls(project, FIXED, MOVING, "organiser")
    answered(folder, 72, np.array([7.0, -2.0]), seed=5)
    with Project.open(folder) as project:
        found = rater_certificate(project.state, "ada")
        assert rater_certificate(project.state, "ben") is None
        # The same by hand, from the log.
        state = project.state
        offsets = np.array(
            [np.subtract(state.placement("ada", q.number).moving, q.known) for q in state.queries if q.known]
        )
    assert found is not None
    assert found.controls == 6
    np.testing.assert_allclose(found.bias, offsets.mean(axis=0))
    half = stats.t.interval(0.95, 5, scale=stats.sem(offsets))[1]
    np.testing.assert_allclose(found.bias_high - found.bias, half)
    assert found.bias_low[0] < 4 < found.bias_high[0]
    assert found.sd_low < 1 < found.sd_high
    assert found.inside == (((offsets**2).sum(axis=1) / 4) <= stats.chi2.ppf(0.99, 2)).sum()
    assert found.repeats > 3
    assert found.repeat_low < 1 < found.repeat_high


def test_answers_that_were_taken_out_certify_nothing(tmp_path: Path) -> None:
    """A control that the rater disabled, and repeats that the organiser excluded, are not counted."""
    folder = made(tmp_path, refit="never", repeat_fraction=0.25, repeat_lag=2, audit_seed=3)
    with Project.open(folder) as project:
        add_controls(project, FIXED, MOVING, "organiser")
    answered(folder, 40, OFFSET)
    with Project.open(folder) as project:
        session = Session(project, "ada")
        before = rater_certificate(project.state, "ada")
        controls = [query.number for query in project.state.queries[:40] if query.origin == "control"]
        repeats = [query.number for query in project.state.queries[:40] if query.origin == "repeat"]
        assert before is not None
        assert (before.controls, before.repeats) == (len(controls), len(repeats))
        session.disable(controls[0])
        for number in repeats[:2]:
            session.exclude(number, "ada", rater="organiser")
        after = rater_certificate(project.state, "ada")
        assert after is not None
        assert (after.controls, after.repeats) == (len(controls) - 1, len(repeats) - 2)


def test_repeats_without_controls_give_a_certificate_too(tmp_path: Path) -> None:
    """It has the repeatability; what controls would tell is left open."""
    folder = made(tmp_path, refit="never", repeat_fraction=0.5, repeat_lag=1)
    answered(folder, 12, OFFSET)
    with Project.open(folder) as project:
        found = rater_certificate(project.state, "ada")
    assert found is not None
    assert found.repeats >= 3
    assert found.repeat_low < found.repeat_sd < found.repeat_high
    assert (found.controls, found.bias, found.sd) == (0, None, None)


def test_the_interval_of_a_standard_deviation_holds_it_as_often_as_it_says() -> None:
    """Over 4,000 samples of 6 with a standard deviation of 2, 95 % of the intervals hold it (within 1 %)."""
    samples = np.random.default_rng(3).normal(0, 2, (4000, 6))
    ends = np.array([sd_interval(sd, 5) for sd in samples.std(axis=1, ddof=1)])
    assert abs(((ends[:, 0] < 2) & (ends[:, 1] > 2)).mean() - 0.95) < 0.01


def test_controls_that_cannot_be_marked_are_refused(tmp_path: Path) -> None:
    """One that lies outside an image, and controls from somebody who is not an organiser: nothing is written."""
    folder = made(tmp_path)
    with Project.open(folder) as project:
        project.add_rater("ada")
        before = project.state.generation
        with pytest.raises(InvalidInputError, match="Control 2 lies outside the moving image"):
            add_controls(project, FIXED[:2], np.array([[1.0, 1.0], [-50.0, 3.0]]), "organiser")
        with pytest.raises(NotAllowedError, match="add control questions"):
            add_controls(project, FIXED, MOVING, "ada")
        assert project.state.generation == before


def annotate(folder: Path, fixed: np.ndarray) -> str:
    """Start the page with control questions and end it; return what the command says first."""
    write_landmarks(Landmarks(fixed, fixed + OFFSET), folder.parent / "known.csv")
    command = [str(Path(sys.executable).with_name("warpgauge")), "annotate", str(folder), "--no-browser"]
    command += ["--controls", str(folder.parent / "known.csv")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)  # as Ctrl-C, which is ignored where the tests run in the background
        assert process.wait(timeout=120) == 0
    return said


def test_controls_of_the_command_are_asked_once_and_certify_the_rater(tmp_path: Path) -> None:
    """Two starts, the second with one pair more: no place is asked twice, and the report has bias and count."""
    folder = made(tmp_path, refit="never", audit_seed=3)
    assert annotate(folder, FIXED[:2]) == f"2 control questions: one question in {EVERY} is one of them.\n"
    answered(folder, 2 * EVERY, np.add(OFFSET, [1.5, 0.0]))
    assert annotate(folder, FIXED[:3]).startswith("3 control questions")
    answered(folder, 2 * EVERY, np.add(OFFSET, [1.5, 0.0]))
    with Project.open(folder) as project:
        asked = [query.point for query in project.state.queries if query.origin == "control"]
    assert asked == [tuple(point) for point in FIXED[: len(asked)]]
    assert len(asked) >= 2
    (tmp_path / "shift.tfm").write_text(
        "#Insight Transform File V1.0\n#Transform 0\nTransform: TranslationTransform_double_2_2\n"
        "Parameters: 4.5 -2\nFixedParameters:\n"
    )
    call("add-transform", folder, "shift", tmp_path / "shift.tfm")
    call("report", folder, "--no-maps")
    told = json.loads((folder / "report" / "report.json").read_text("utf-8"))["certificates"]["ada"]
    assert told["controls"] == len(asked)
    assert told["bias_low"][0] < 1.5 < told["bias_high"][0]


def test_a_file_that_holds_no_controls_is_refused_by_the_command(tmp_path: Path) -> None:
    """Points of one image only, or outside it: a sentence, exit code 1 and nothing in the log."""
    folder = made(tmp_path)
    with Project.open(folder) as project:
        before = project.state.generation
    write_landmarks(Landmarks(FIXED, None), tmp_path / "one.csv")
    write_landmarks(Landmarks(FIXED, MOVING - 500), tmp_path / "outside.csv")
    for name, words in (("one", "one image only"), ("outside", "Control 1 lies outside the moving image")):
        told = call("annotate", folder, "--no-browser", "--controls", tmp_path / f"{name}.csv", code=1)
        assert words in told
    with Project.open(folder) as project:
        assert project.state.generation == before
