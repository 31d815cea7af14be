"""``place`` and ``suggest`` as a user types them: own landmarks, moved points, slips, budgets and undo."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from command_tools import ask, call
from warpgauge.cli.app import run
from warpgauge.project import Project

WARPGAUGE = Path(sys.executable).with_name("warpgauge")
SHIFT = np.array([4.0, -3.0])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A textured picture and the same shifted by (4, -3) pixels."""
    texture = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(140, 160)), 2)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(texture[10:110, 10:130]).save(tmp_path / "fixed.png")
    Image.fromarray(texture[13:113, 6:126]).save(tmp_path / "moving.png")
    images = ("--fixed", tmp_path / "fixed.png", "--moving", tmp_path / "moving.png")
    ask("new", tmp_path / "p", *images, "--candidates", 60, "--set", "budget=8", "--no-seal")
    return tmp_path / "p"


def text(point: object) -> str:
    return ",".join(str(value) for value in np.asarray(point).tolist())


def answer(project: Path, rater: str, count: int) -> None:
    for _ in range(count):
        query = ask("suggest", project, "--rater", rater)
        call("place", project, query["query"], text(np.add(query["point"], SHIFT)), "--rater", rater)


def notes(*arguments: object) -> str:
    """What a command that succeeds says on standard error."""
    err = io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(err):
        warnings.simplefilter("default")  # notes are printed, as for a user
        assert run([str(one) for one in arguments]) == 0, err.getvalue()
    return err.getvalue()


def test_a_landmark_of_ones_own_choice(project: Path) -> None:
    saved = ask("place", project, "--at", "50,40", "--match", "54,37", "--radius", 2, "--rater", "ann")
    assert saved["action"] == "place"
    call("place", project, "--at", "80,60", "84,57", "--rater", "ann")  # the match may stand alone
    with Project.open(project) as opened:
        assert [query.origin for query in opened.state.queries] == ["volunteered"] * 2
        assert opened.state.queries[1].point == (80.0, 60.0)
        assert opened.state.placement("ann", 1).point == (84.0, 57.0)  # type: ignore[union-attr]
    call("undo", project, "--rater", "ann")
    assert ask("info", project)["placed"] == 1


def test_a_queried_point_is_moved(project: Path) -> None:
    query = ask("suggest", project)
    printed = call("suggest", project)
    assert "at a place that you recognise within 7.81 px" in printed
    near = np.add(query["point"], [2.0, 1.0])
    call("place", project, query["query"], text(near + SHIFT), "--at", text(near))
    with Project.open(project) as opened:
        assert opened.state.placement("organiser", 0).fixed == tuple(near)  # type: ignore[union-attr]
    far = np.add(query["point"], np.where(np.array(query["point"]) > 50, -20, 20))
    query = ask("suggest", project)
    assert "move_within" in call("place", project, query["query"], "1,1", "--at", text(far), code=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--at", "50,40"), "--at and --match"),
        (("--match", "50,40"), "--at and --match"),
        (("0",), "QUERY and the POINT"),
        (("0", "1,2", "--match", "3,4"), "give one of them"),
        (("first", "1,2"), "number of a query"),
        (("--at", "500,40", "--match", "1,2"), "outside the fixed image"),
        (("--at", "here", "--match", "1,2"), "--at must be numbers"),
    ],
)
def test_what_is_missing_is_said_in_a_sentence(project: Path, arguments: tuple[str, ...], words: str) -> None:
    error = call("place", project, *arguments, code=1)
    assert words in error
    assert error.count("\n") == 1


def test_coordinates_may_be_negative_and_options_are_still_checked(project: Path) -> None:
    query = ask("suggest", project)
    assert "6 px outside" in notes("place", project, query["query"], "-6,20")
    with Project.open(project) as opened:
        assert opened.state.placement("organiser", 0).point == (-6.0, 20.0)  # type: ignore[union-attr]
    assert "No such option" in call("place", project, "--att", "1,2", code=2)


def test_a_script_is_warned_of_a_slip_and_keeps_it(project: Path) -> None:
    """Standard input is no terminal: nothing is asked, the answer is saved with a note; --yes leaves the note out."""
    answer(project, "ann", 6)
    query = ask("suggest", project, "--rater", "ann")
    right = np.add(query["point"], SHIFT)
    wrong = np.add(right, [50.0 if right[0] < 60 else -50.0, 0.0])
    said = notes("place", project, query["query"], text(wrong), "--rater", "ann")
    assert "times the usual; it is saved and flagged" in said
    call("undo", project, "--rater", "ann")
    assert notes("place", project, query["query"], text(wrong), "--yes", "--rater", "ann") == ""
    with Project.open(project) as opened:
        kept = opened.state.placement("ann", query["query"])
        assert kept is not None
        assert kept.doubt is not None
        assert kept.doubt.confirmed


@pytest.mark.parametrize("reply", ["n", "y"])
def test_a_person_is_asked_about_a_slip(project: Path, reply: str) -> None:
    """On a terminal, once; no means that nothing was saved."""
    query = ask("suggest", project)
    main, terminal = pty.openpty()
    command = [WARPGAUGE, "place", project, str(query["query"]), "236,40"]
    process = subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, text=True)
    os.close(terminal)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(main, 1000)
    os.write(main, f"{reply}\n".encode())
    printed, _ = process.communicate(timeout=60)
    os.close(main)
    assert b"117 px outside the moving image: keep it" in shown
    assert process.returncode == (0 if reply == "y" else 1)
    assert ("saved: place" in printed) == (reply == "y")
    assert ask("info", project)["placed"] == (1 if reply == "y" else 0)


def test_skips_use_up_nothing_of_the_budget(project: Path) -> None:
    """Two raters, budget 8: after ten skips each there is a next question; after eight placements there is none."""
    for rater in ("ann", "bob"):
        for _ in range(10):
            query = ask("suggest", project, "--rater", rater)
            assert not query["done"]
            call("skip", project, query["query"], "--rater", rater)
        answer(project, rater, 8)
        done = ask("suggest", project, "--rater", rater)
        assert done == {"done": True, "reasons": ["8 of the budget of 8 landmarks are placed."], "audit": None}


def test_undo_brings_back_the_uncertainty(project: Path) -> None:
    """A slip as the 5th mark, at which the weights are refitted, then undo: all is as before."""
    answer(project, "ann", 4)
    before = query = ask("suggest", project, "--rater", "ann")
    call("place", project, query["query"], text(np.add(query["point"], [40.0, 10.0])), "--yes", "--rater", "ann")
    ask("suggest", project, "--rater", "ann")
    call("undo", project, "--rater", "ann")
    after = ask("suggest", project, "--rater", "ann")
    for name in ("query", "point", "position", "gain", "predicted", "predicted_sd"):
        assert after[name] == pytest.approx(before[name], rel=1e-9)
