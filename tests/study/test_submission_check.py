"""`warpgauge benchmark --check`: every problem of a submission is one sentence, and nothing ends in a traceback."""

from __future__ import annotations

import json
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from command_tools import call
from study_tools import make_study
from warpgauge.cli.app import run
from warpgauge.io.transforms import AffineTransform, write_transform
from warpgauge.study import check_submission


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Three pairs whose landmarks are not at hand, as for a participant, and a submission without a fault."""
    path = make_study(tmp_path)
    shutil.copytree(tmp_path / "near", tmp_path / "mine")
    for n in range(3):
        (tmp_path / f"case{n}.csv").unlink()
    return path


AFFINE = (
    b"#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_2_2\n"
    b"Parameters: %s\nFixedParameters: 0 0\n"
)


def told(study: Path, *options: str) -> list[str]:
    """Return what the command prints of a submission with a serious problem."""
    with redirect_stdout(StringIO()) as out:
        assert run(["benchmark", str(study), "--check", str(study.parent / "mine"), *options]) == 1
    return out.getvalue().splitlines()


def codes(study: Path) -> list[tuple[str, str | None]]:
    return [(one.code, one.pair) for one in check_submission(study, study.parent / "mine").problems]


def test_a_submission_without_a_fault(study: Path) -> None:
    assert codes(study) == []
    assert call("benchmark", study, "--check", study.parent / "mine") == "3 pairs checked: all can be scored.\n"


def test_missing_and_misnamed_files_are_named(study: Path) -> None:
    (study.parent / "mine" / "case1.tfm").rename(study.parent / "mine" / "Case1.tfm")
    said = json.loads("\n".join(told(study, "--json")))
    assert [(one["code"], one["pair"]) for one in said["problems"]] == [("missing", "case1"), ("extra", None)]
    assert "'Case1.tfm' belongs to no pair" in said["problems"][1]["sentence"]
    assert said["fit"] is False


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "unreadable"),
        (b"\0" * 4000, "unreadable"),
        (AFFINE % b"nan 0 0 1 0 0", "unreadable"),
        (b"[" * 200_000, "unreadable"),
        (AFFINE % b"1e308 0 0 1e308 0 0", "undefined"),
    ],
    ids=["empty", "binary", "nan", "nested", "huge"],
)
def test_whatever_arrives_is_a_sentence(study: Path, content: bytes, code: str) -> None:
    """Empty, binary, not a number, deeply nested, and too large to be a point."""
    (study.parent / "mine" / "case0.tfm").write_bytes(content)
    assert codes(study) == [(code, "case0")]
    first, last = told(study)
    assert first.startswith("problem: Pair 'case0': ")
    assert last == "3 pairs checked: 1 problem to mend before it is submitted."


def test_mutated_files_and_folders_are_sentences(study: Path) -> None:
    """Forty random damages of a good submission: bytes, lengths, names, folders for files, numbers out of bounds."""
    good, rng = (study.parent / "mine" / "case0.tfm").read_bytes(), np.random.default_rng(7)
    for turn in range(40):
        file, content = study.parent / "mine" / f"case{turn % 3}.tfm", bytearray(good)
        for at in rng.integers(0, len(content), rng.integers(1, 6)):
            content[at] = rng.integers(0, 256)
        cut = int(rng.integers(0, len(content)))
        words = [good.replace(b"1", one) for one in (b"1e999", b"inf", b"9" * 400, b"0x1", b"\xff\xfe1", b"")]
        kinds = [bytes(content), good[:cut], good + bytes(content), good * 3, *words]
        file.write_bytes(kinds[int(rng.integers(len(kinds)))])
        for one in check_submission(study, study.parent / "mine").problems:
            assert len(one.sentence) < 2000
            assert "\n" not in one.sentence
        file.write_bytes(good)
    (study.parent / "mine" / "case1.tfm").unlink()
    (study.parent / "mine" / "case1.tfm").mkdir()
    (study.parent / "mine" / ("x" * 200 + ".tfm")).write_bytes(b"")
    (study.parent / "mine" / "case\u202e2.tfm").symlink_to(study)
    assert told(study)


@pytest.mark.parametrize(
    ("matrix", "offset", "code"),
    [
        (np.eye(2) * 25.4, [0.0, 0.0], "far"),  # inches
        (np.eye(2), [1e-7, 0.0], "still"),  # a field that was normalised
        (np.diag([-1.0, 1.0]), [200.0, 0.0], "folded"),
    ],
)
def test_units_and_folding_are_seen_without_landmarks(
    study: Path, matrix: np.ndarray, offset: list[float], code: str
) -> None:
    write_transform(AffineTransform(matrix, offset), study.parent / "mine" / "case2.tfm")
    assert codes(study) == [(code, "case2")]
    call("benchmark", study, "--check", study.parent / "mine", code=int(code == "far"))
