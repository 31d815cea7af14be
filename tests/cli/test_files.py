"""``warpgauge info`` as a user calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.cli.app import run

PAIRS = "fixed_x,fixed_y,moving_x,moving_y\n10,20,11,22\n30,5,33,6\n7,40,8,41\n"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    path.write_text(PAIRS)
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = run([str(one) for one in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_info_tells_landmarks_images_and_transforms_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, pairs: Path
) -> None:
    from PIL import Image

    picture = tmp_path / "picture.png"
    Image.fromarray(np.zeros((5, 7), np.uint8)).save(picture)
    matrix = tmp_path / "affine.txt"
    matrix.write_text("1 0 5\n0 1 -3\n0 0 1\n")
    for path, kind in ((pairs, "landmarks"), (picture, "image"), (matrix, "transform")):
        code, out, _ = call(capsys, "info", path, "--json")
        assert code == 0
        assert json.loads(out)["file"] == kind
    code, out, _ = call(capsys, "info", picture)
    assert "7, 5" in out
    assert "no physical spacing" in out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("hello world\n", "not a file that warpgauge reads"),
        ("\x00\x01\x02", "not a file that warpgauge reads"),
    ],
)
def test_what_cannot_be_read_gets_one_sentence_and_exit_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "strange.bin"
    path.write_text(content)
    code, out, err = call(capsys, "info", path)
    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert "not a file that warpgauge reads" in err


def test_a_wrong_call_is_exit_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call(capsys, "info", tmp_path / "absent.nii")[0] == 2
    assert call(capsys, "frobnicate")[0] == 2


@pytest.mark.parametrize("command", [["info"], ["evaluate"]])
def test_every_help_has_an_example(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    code, out, _ = call(capsys, *command, "--help")
    assert code == 0
    assert "Example" in out
    assert "warpgauge " + " ".join(command) in out


def test_the_installed_command_runs() -> None:
    executable = Path(sys.executable).with_name("warpgauge")
    done = subprocess.run([executable, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == wg.__version__
