"""Experiments run in parallel, go on where they stopped, give the same files for any jobs, and fail in a sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import paper_tools as tools
from paper import NAMES, find_experiment
from paper.__main__ import command, run
from paper.experiment import Experiment, Run, compute_seconds, run_experiment
from warpgauge.errors import InvalidInputError

ROOT = Path(__file__).parent.parent.parent
TOY = Experiment("toy", "squares", 4, tools.plan_numbers, tools.square, tools.report_sum)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("toy*"))}


def test_the_files_are_the_same_with_one_and_two_processes(tmp_path: Path) -> None:
    """Numbers, sentences and pictures, byte by byte; the results stand in the plan's order."""
    one = run_experiment(TOY, tmp_path, tmp_path / "one", seed=3)
    two = run_experiment(TOY, tmp_path, tmp_path / "two", seed=3, jobs=2)
    assert one.numbers == two.numbers == {"sum": 9.0 + 16 + 25 + 36, "order": ["x0", "x1", "x2", "x3"]}
    assert set(files(tmp_path / "one")) == {"toy.json", "toy-plot.png", "toy-plot.svg"}
    assert files(tmp_path / "one") == files(tmp_path / "two")
    written = json.loads((tmp_path / "one" / "toy.json").read_text())
    assert (written["seed"], written["runs"], written["sentences"]) == (3, 4, ["The sum is 86.0."])
    assert "warpgauge" in written["versions"]


def test_what_is_there_is_not_computed_again(tmp_path: Path) -> None:
    """A stored result with the same fingerprint is used (here a forged one shows it); other parameters are computed."""
    run_experiment(TOY, tmp_path, tmp_path / "out", runs=2)
    stored = tmp_path / "out" / "runs" / "toy" / "x1.json"
    record = json.loads(stored.read_text())
    assert record["result"] == {"value": 1.0, "array": [0.0, 1.0], "nothing": None}
    assert compute_seconds(tmp_path / "out", "toy") >= 0
    stored.write_text(json.dumps({**record, "result": {"value": 100.0}}))
    assert run_experiment(TOY, tmp_path, tmp_path / "out", runs=3).numbers["sum"] == 0 + 100 + 4
    assert run_experiment(TOY, tmp_path, tmp_path / "out", runs=3, seed=1).numbers["sum"] == 1 + 4 + 9
    stored.write_text("{ cut")
    assert run_experiment(TOY, tmp_path, tmp_path / "out", runs=3).numbers["sum"] == 0 + 1 + 4


def test_a_change_of_the_data_makes_results_stale(tmp_path: Path) -> None:
    """The fingerprint holds the content of the folders that the experiment needs."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "points.csv").write_text("1")
    needing = replace(TOY, needs=("set",))
    run_experiment(needing, tmp_path, tmp_path / "out", runs=1)
    stored = tmp_path / "out" / "runs" / "toy" / "x0.json"
    before = json.loads(stored.read_text())["fingerprint"]
    (tmp_path / "set" / "points.csv").write_text("2")
    run_experiment(needing, tmp_path, tmp_path / "out", runs=1)
    assert json.loads(stored.read_text())["fingerprint"] != before


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_run_is_named_and_the_others_are_kept(tmp_path: Path, jobs: int) -> None:
    failing = replace(TOY, compute=tools.fail_on_two)
    with pytest.raises(InvalidInputError, match=r"^Run 'x2': Two cannot be squared\.$"):
        run_experiment(failing, tmp_path, tmp_path / "out", jobs=jobs)
    assert {path.name for path in (tmp_path / "out" / "runs" / "toy").iterdir()} == {"x0.json", "x1.json", "x3.json"}


def test_only_the_runs_of_the_chosen_datasets(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = run_experiment(
        TOY, tmp_path, tmp_path / "out", datasets=["odd"], progress=lambda done, total: seen.append((done, total))
    )
    assert found.numbers == {"sum": 1.0 + 9.0, "order": ["x1", "x3"]}
    assert seen[0] == (0, 2)
    assert seen[-1] == (2, 2)


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"has no dataset 'prime'; it has even, odd\.$"):
        run_experiment(TOY, tmp_path, tmp_path / "out", datasets=["prime"])
    with pytest.raises(InvalidInputError, match=r"reads the folder 'cima' of the data directory"):
        run_experiment(replace(TOY, needs=("cima",)), tmp_path, tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"^jobs must be a whole number of at least 1, got 0\.$"):
        run_experiment(TOY, tmp_path, tmp_path / "out", jobs=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match=r"cannot be written into .*choose another --out"):
        run_experiment(TOY, tmp_path, tmp_path / "file")
    twice = replace(TOY, plan=lambda *_: [Run("a", {}), Run("a", {})])
    with pytest.raises(InvalidInputError, match="distinct keys"):
        run_experiment(twice, tmp_path, tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"^There is no experiment 'strategy'; there are strategies, targets"):
        find_experiment("strategy")


def test_the_command_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["kernels", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "the folder 'cima' of the data directory" in capsys.readouterr().err
    assert run(["nothing", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "There is no experiment 'nothing'" in capsys.readouterr().err
    assert run([]) == 2
    assert run(["kernels", "--data", str(tmp_path)]) == 2


def test_the_help_lists_the_studies_with_examples() -> None:
    """As a user calls it: ``python -m paper --help`` in the repository."""
    words = [sys.executable, "-m", "paper", "--help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in NAMES:
        assert re.search(rf"^  {name} +\S", done.stdout, re.M)
    assert "python -m paper strategies --data data --jobs 2 --out results" in done.stdout


def test_the_command_runs_a_study(tmp_path: Path) -> None:
    """A tiny data directory in the form of the real one: numbers, figures and sentences come out."""
    tools.write_cima(tmp_path)
    tools.write_copdgene(tmp_path)
    out = tmp_path / "out"
    arguments = ["scales", "--data", str(tmp_path), "--out", str(out), "--runs", "2", "--quick"]
    shown = CliRunner().invoke(command, arguments)
    assert shown.exit_code == 0, shown.output
    written = json.loads((out / "scales.json").read_text())
    assert all(sentence in shown.stdout for sentence in written["sentences"])
    assert written["numbers"]["cima"]["curves"] == 2
    assert (out / "scales-curves.png").read_bytes()[:4] == b"\x89PNG"


def test_results_of_other_code_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fingerprint changes with the sources behind the numbers, at the same version."""
    from paper import experiment

    run = Run("a", {"dataset": "x"})
    before = experiment.fingerprint("study", run, {})
    assert experiment.fingerprint("study", run, {}) == before
    monkeypatch.setattr(experiment, "code_hash", lambda: "other")
    assert experiment.fingerprint("study", run, {}) != before
