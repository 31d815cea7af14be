"""Submissions that are found in a folder: teams as folders and archives, late, disqualified, broken and hostile."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from command_tools import ask, call
from study_tools import make_study
from warpgauge.study import read_study, run_study
from warpgauge.study.teams import with_teams

SUBMISSIONS = '[submissions]\nfolder = "teams"\ntransform = "{pair}.tfm"\n'


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two pairs, no method, and the folder of a team."""
    path = make_study(tmp_path, pairs=2)
    text = path.read_text()
    path.write_text(text[: text.index("[[method]]")] + SUBMISSIONS)
    (tmp_path / "teams").mkdir()
    shutil.move(tmp_path / "near", tmp_path / "teams" / "near")
    return path


def pack(study: Path, source: str, archive: str, top: str = "") -> Path:
    """Pack the transforms of a method, below a folder where one is named."""
    aim, files = study.parent / "teams" / archive, sorted((study.parent / source).iterdir())
    if archive.endswith(".zip"):
        with zipfile.ZipFile(aim, "w") as packed:
            for file in files:
                packed.write(file, f"{top}{file.name}")
    else:
        with tarfile.open(aim, "w:gz") as packed:
            for file in files:
                packed.add(file, f"{top}{file.name}")
    return aim


def test_folders_and_archives_are_methods_without_a_word_in_the_study(study: Path) -> None:
    """What is scored is what the files say, however they came; a new team needs no edit."""
    assert [one.name for one in run_study(study, study.parent / "out").methods] == ["near"]
    pack(study, "far", "far.zip", top="results/")
    pack(study, "farther", "farther.tar.gz")
    found = ask("benchmark", study, "--leaderboard", study.parent / "board.html")
    assert [one["name"] for one in found["methods"]] == ["near", "far", "farther"]
    assert all(one["missing"] == 0 for one in found["methods"])
    assert "farther" in (study.parent / "board.html").read_text()


def test_late_and_disqualified_teams_are_named_and_not_ranked(study: Path) -> None:
    pack(study, "far", "late.zip")
    pack(study, "farther", "copied.zip")
    os.utime(study.parent / "teams" / "late.zip", (4e9, 4e9))
    rules = 'deadline = 2090-01-01T00:00:00Z\ndisqualified = { copied = "a copy of near" }\n'
    study.write_text(study.read_text() + rules)
    board = study.parent / "board.html"
    found = ask("benchmark", study, "--leaderboard", board)
    assert [one["name"] for one in found["methods"]] == ["near"]
    assert found["unranked"]["copied"] == "disqualified: a copy of near"
    assert "after the deadline" in found["unranked"]["late"]
    assert "Not ranked: copied: disqualified: a copy of near; late: " in found["verdict"]
    assert "a copy of near" in board.read_text()


@pytest.mark.parametrize("name", ["../evil.tfm", "/evil.tfm", "a/../../evil.tfm", "link"])
def test_a_hostile_archive_writes_nothing_outside_and_is_named(study: Path, name: str) -> None:
    """Names that lead out, and a link in a tar: the team is not ranked or lacks its files, the others are."""
    aim = study.parent / "teams" / "evil.tar.gz"
    with tarfile.open(aim, "w:gz") as packed:
        member = tarfile.TarInfo(name)
        if name == "link":
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            packed.addfile(member)
        else:
            member.size = 4
            packed.addfile(member, io.BytesIO(b"evil"))
    described, unranked = with_teams(read_study(study), study.parent / "out")
    assert list(unranked) == ([] if name == "link" else ["evil"])
    assert [one.name for one in described.methods] == (["evil", "near"] if name == "link" else ["near"])
    found = [path for path in study.parent.parent.rglob("*") if path.suffix == ".tfm" or path.is_symlink()]
    assert not any("evil" in path.name or path.name == "link" for path in found)


def test_a_broken_archive_stops_no_other_team(study: Path) -> None:
    (study.parent / "teams" / "torn.zip").write_bytes(b"PK\x03\x04 torn")
    found = run_study(study, study.parent / "out")
    assert [one.name for one in found.methods] == ["near"]
    assert "cannot be unpacked" in found.unranked["torn"]


def test_no_submission_at_all_is_a_sentence(study: Path) -> None:
    shutil.rmtree(study.parent / "teams" / "near")
    assert "no submission in 'teams'" in call("benchmark", study, code=1)
    shutil.rmtree(study.parent / "teams")
    assert "no folder 'teams' of submissions" in call("benchmark", study, code=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[submissions]\nfolder = "teams"\n', "needs transform or mapped_landmarks"),
        ('[submissions]\nfolder = "t"\ntransform = "{method}/a"\n', "needs transform or mapped_landmarks"),
        (SUBMISSIONS + "deadline = 2027-01-01T00:00:00\n", "a time with its zone"),
        (SUBMISSIONS + 'disqualified = ["a"]\n', "give a reason for each team"),
        (SUBMISSIONS + "teams = 3\n", "There is no 'teams'"),
    ],
)
def test_a_wrong_description_is_one_sentence(study: Path, text: str, words: str) -> None:
    content = study.read_text()
    study.write_text(content[: content.index("[submissions]")] + text)
    assert words in call("benchmark", study, code=1)
