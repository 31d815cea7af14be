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
from study_tools import make_study, shift
from warpgauge.report import leaderboard, write_leaderboard
from warpgauge.study import read_study, run_study
from warpgauge.study.history import changes
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


def test_nobody_can_submit_what_all_are_compared_with(study: Path) -> None:
    """A team named as no registration is would set what a missing case costs; a method of the study is refused."""
    shutil.copytree(study.parent / "far", study.parent / "teams" / "identity")
    found = run_study(study, study.parent / "out")
    assert [one.name for one in found.methods] == ["near"]
    assert "stands for no registration" in found.unranked["identity"]
    study.write_text(study.read_text() + '[[method]]\nname = "identity"\ntransform = "far/{pair}.tfm"\n')
    assert "stands for no registration" in call("benchmark", study, code=1)


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


def test_the_history_says_what_was_submitted_when_and_what_it_scored_then(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A team comes, submits again and is disqualified: its former scores stay, and the page shows them."""
    out, board = study.parent / "out", study.parent / "board.html"
    run_study(study, out)
    shutil.copytree(study.parent / "far", study.parent / "teams" / "far")
    first = run_study(study, out)
    shift(study.parent / "teams", "far", "case0", 20.0)
    second = run_study(study, out)
    assert len(run_study(study, out).history) == 3  # nothing changed, nothing is added
    study.write_text(study.read_text() + 'disqualified = { far = "saw the landmarks" }\n')
    last = run_study(study, out)
    found = [(one.method, one.what, one.why) for one in changes(last.history)]
    # Without references the score of "near" depends on the company, so that it changes with it.
    assert [one for one in found if one[0] == "far"] == [
        ("far", "new", ""),
        ("far", "changed", ""),
        ("far", "not ranked", "disqualified: saw the landmarks"),
    ]
    assert found[0] == ("near", "new", "")
    scores = [one.figures["mean_score"] for one in changes(last.history) if one.method == "far" and one.figures]
    expected = [one.mean_score for result in (first, second) for one in result.methods if one.name == "far"]
    assert scores == [*expected, expected[-1]]
    write_leaderboard(board, last)
    assert "What happened to each submission" in board.read_text()
    assert board.read_text().count("saw the landmarks") >= 2
    assert "All numbers as JSON" in board.read_text()
    monkeypatch.setattr(leaderboard, "MOST_CASES", 1)
    write_leaderboard(board, last)  # a large study's numbers are not in its page
    assert "All numbers are in study.json among the results" in board.read_text()
    assert "All numbers as JSON" not in board.read_text()
    (out / "history.json").write_text("[{]")
    assert "cannot be read as a history" in call("benchmark", study, "--out", out, code=1)


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
