"""Projects of others: damaged or hostile files get one sentence, and nothing outside the folder is touched."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from project.tools import draft, place, query
from warpgauge.cli.app import app
from warpgauge.errors import WarpgaugeError, WarpgaugeWarning
from warpgauge.project import NotAllowedError, Project
from warpgauge.project.errors import ProjectError, UntrustedProjectError
from warpgauge.project.events import KINDS
from warpgauge.project.integrity import verify_project

Make = Callable[..., Project]
NESTED = "[" * 100_000 + "]" * 100_000


def one_sentence(call: Callable[[], object]) -> str:
    with pytest.raises(WarpgaugeError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) <= 500
    assert text.endswith(".")
    return text


def use(folder: Path) -> None:
    """Do what the commands do first with a project."""
    with Project.open(folder) as project:
        assert len(project.candidates) + len(project.targets) > 0
        assert project.state.generation >= 0


@pytest.fixture
def folder(make_project: Make) -> Path:
    project = make_project()
    project.append(query(0), place(0))
    project.close()
    return project.folder


def edited(folder: Path, change: Callable[[dict], object]) -> Path:
    content = json.loads((folder / "project.json").read_text())
    change(content)
    (folder / "project.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["images"].pop("fixed"),
        lambda c: c["images"].update(moving=3),
        lambda c: c["images"]["fixed"]["grid"].update(direction=[[1, 0], [0]]),
        lambda c: c["images"]["fixed"]["grid"].update(size=[1e999, 2]),
        lambda c: c["images"]["fixed"]["grid"].update(spacing="wide"),
        lambda c: c["images"]["fixed"].update(path=7),
        lambda c: c["images"]["fixed"].update(path="\ud800.png"),
        lambda c: c["images"]["fixed"].update(path="a\0b.png"),
        lambda c: c["images"]["fixed"].update(path="a" * 10_000),
        lambda c: c["images"]["fixed"].update(spacing={"a": 1}),
        lambda c: c["settings"].update(alpha=float("nan")),
        lambda c: c["settings"].update(batch=1e999),
        lambda c: c["settings"].update(seed="x" * 100_000),
        lambda c: c["candidates"].update(file="../candidates.npz"),
        lambda c: c["candidates"].update(file=["a"]),
        lambda c: c.update(id=None),
        lambda c: c.update(images=[]),
        lambda c: c.update(version=[1]),
    ],
)
def test_project_json_of_the_wrong_kind(folder: Path, change: Callable[[dict], object]):
    """Whatever stands in project.json, opening it says one sentence, and so does verify."""
    edited(folder, change)
    one_sentence(lambda: use(folder))
    assert not verify_project(folder).ok


def test_project_json_nested_too_deep(folder: Path):
    """JSON that is nested a hundred thousand times does not end in a RecursionError."""
    (folder / "project.json").write_text(NESTED)
    one_sentence(lambda: use(folder))
    assert not verify_project(folder).ok


@pytest.mark.parametrize("damage", ["cut", "flip", "bomb", "shape", "text", "fifo", "folder"])
def test_candidates_that_cannot_be_read(folder: Path, damage: str, monkeypatch: pytest.MonkeyPatch):
    """A damaged, huge, or endless candidates file gets one sentence and is not waited for."""
    file = folder / "candidates.npz"
    data = file.read_bytes()
    file.unlink()
    if damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        half = len(data) // 2
        file.write_bytes(data[:half] + bytes(255 - b for b in data[half : half + 40]) + data[half + 40 :])
    elif damage == "bomb":
        monkeypatch.setenv("WARPGAUGE_MEMORY", "1MB")
        np.savez_compressed(file, points_world=np.zeros((1_000_000, 2)))
    elif damage == "shape":
        np.savez_compressed(file, points_world=np.zeros((3, 4, 5)))
    elif damage == "text":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("points_world.npy", b"\x93NUMPY\x01\x00nonsense")
    elif damage == "fifo":
        os.mkfifo(file)
    else:
        file.mkdir()
    one_sentence(lambda: use(folder))
    assert not verify_project(folder).ok


def test_a_pipe_in_the_cache_is_not_waited_for(folder: Path):
    """A FIFO anywhere in a project is refused before anything could wait for it."""
    (folder / "cache").mkdir(exist_ok=True)
    (folder / "cache" / "images.json").unlink(missing_ok=True)
    os.mkfifo(folder / "cache" / "images.json")
    assert "pipe" in one_sentence(lambda: use(folder))


def with_rows(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "annotations.sqlite", isolation_level=None)
    connection.execute("PRAGMA writable_schema = ON")
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statements",
    [
        (
            "DROP TABLE events",
            "CREATE VIEW events AS WITH RECURSIVE n(generation) AS (SELECT 1 UNION ALL SELECT generation + 1 FROM n) "
            "SELECT generation, '' time, 'a' rater, 'note' kind, NULL query, NULL duration, NULL base_generation, "
            "'{}' payload, '' digest FROM n",
        ),
        ("DROP TABLE meta", "CREATE VIEW meta AS SELECT 'project' key, 'x' value"),
        ("CREATE TRIGGER lie AFTER INSERT ON events BEGIN DELETE FROM meta; END",),
        ("DROP TABLE events",),
        ("DROP TABLE events", "CREATE TABLE events (generation, time, rater, kind, query, duration, payload, digest)"),
    ],
)
def test_a_log_that_is_no_log(folder: Path, statements: tuple[str, ...]):
    """Views in place of tables (which can be endless), foreign triggers and missing tables are refused."""
    with_rows(folder, *statements)
    one_sentence(lambda: use(folder))
    assert not verify_project(folder).ok


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("place", '{"point": [1, 2, 3], "covariance": [[1, 0], [0, 1]], "alpha": 0.01}'),
        ("place", '{"point": {"a": 1}, "covariance": 3, "alpha": "x"}'),
        ("fit", '{"scales": [1], "weights": [1]}'),
        ("fit", '{"scales": [1], "weights": [1], "family": "wendland", "noise": "much"}'),
        ("transform", '{"name": "a", "files": ["../../secret"], "hashes": ["x"]}'),
        ("transform", '{"name": "a", "files": ["/etc/passwd"], "hashes": ["x"]}'),
        ("transform", '{"name": "a", "files": "transforms/a", "hashes": ["x"]}'),
        ("nonsense", "{}"),
        ("place", NESTED),
        ("place", '{"point": [1e308, 2], "covariance": [[1, 0], [0, 1]], "alpha": 0.01}'),
        ("place", '{"point": [1, 2], "covariance": [[1e308, 0], [0, 1e308]], "alpha": 0.01}'),
        ("place", '{"text": "' + "a" * 70_000_000 + '"}'),
    ],
)
def test_events_of_the_wrong_kind(folder: Path, kind: str, payload: str):
    """An event is checked as strictly when it is read as when it is written."""
    with_rows(folder, "DROP TRIGGER events_are_never_changed")
    connection = sqlite3.connect(folder / "annotations.sqlite")
    query_number = 0 if kind == "place" else None
    connection.execute(
        "UPDATE events SET kind = ?, payload = ?, query = ? WHERE generation = 2", (kind, payload, query_number)
    )
    connection.commit()
    connection.close()
    one_sentence(lambda: use(folder))
    assert not verify_project(folder).ok


# Of each act that only organisers may do: the kind of its event, its query, and what it holds.
ORGANISERS_ONLY: dict[str, tuple[str, int | None, dict[str, object]]] = {
    "exclude": ("exclude", 0, {"of": "ben"}),
    "include": ("exclude", 0, {"of": "ben", "excluded": False}),
    "resolve": ("resolve", 0, {}),
    "rater": ("rater", None, {"name": "ada", "role": "organiser"}),
    "settings": ("settings", None, {"changes": {"blind": False}}),
    "controls": ("controls", None, {"fixed": [[1.0, 2.0]], "moving": [[1.0, 2.0]]}),
    "unseal": ("unseal", None, {}),
    "relink": ("relink", None, {"images": {"fixed": {"path": "/etc/passwd", "content_hash": "x"}}}),
    "again": ("query", 1, {"point": [10.0, 10.0], "origin": "again", "same_as": 0}),
    "reference": ("transform", None, {"name": "a", "files": ["transforms/a"], "hashes": ["x"], "reference": True}),
}


@pytest.mark.parametrize("act", ORGANISERS_ONLY)
def test_a_rater_does_nothing_that_only_organisers_may(folder: Path, act: str) -> None:
    """Neither by `append` nor by a log that was made by hand, whose events are checked like new ones."""
    kind, number, content = ORGANISERS_ONLY[act]
    assert {name for name, one in KINDS.items() if one.organisers_only} <= {one[0] for one in ORGANISERS_ONLY.values()}
    with Project.open(folder) as project:
        project.add_rater("ada")
        event = draft(kind, "ada", number, content)
        with pytest.raises(NotAllowedError, match="ada is a rater of this project and may not"):
            project.append(event)
        last = project.state.generation
    with closing(sqlite3.connect(folder / "annotations.sqlite")) as connection, connection:
        row = (last + 1, "2026-05-14T09:30:00Z", *event.columns(), "")
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert "may not" in one_sentence(lambda: use(folder))


@pytest.mark.parametrize(
    "time", ["yesterday", "", "2026-05-14", "2026-05-14T09:30:00", "2026-13-14T09:30:00Z", 0, "1" * 10**6]
)
def test_events_without_a_time(folder: Path, time: object):
    """An event whose time names no moment is refused in one sentence with its number, and verify names it."""
    with_rows(folder, "DROP TRIGGER events_are_never_changed")
    connection = sqlite3.connect(folder / "annotations.sqlite")
    connection.execute("UPDATE events SET time = ? WHERE generation = 2", (time,))
    connection.commit()
    connection.close()
    assert "Event 2 of the log is damaged: its time is" in one_sentence(lambda: use(folder))
    assert any("Event 2 of the log is damaged: its time is" in line for line in verify_project(folder).problems)


@pytest.mark.parametrize(
    "time", ["1970-01-01T00:00:07.000000Z", "9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00"]
)
def test_times_of_a_wrong_clock(folder: Path, time: str, monkeypatch: pytest.MonkeyPatch):
    """What a computer with a wrong clock wrote is opened as before; verify names the first such event."""
    with Project.open(folder) as project:
        monkeypatch.setattr("warpgauge.project.log.now", lambda: time)
        project.append(query(1), place(1))
    use(folder)
    (problem,) = verify_project(folder).problems
    assert f"Event 3 (query by ada) is dated {time}" in problem
    assert "and so are 1 more" in problem


def test_a_name_of_any_length_is_not_quoted_whole(folder: Path):
    """An event of a rater whose name fills a megabyte: verify says in a few words which one was altered."""
    with_rows(folder, "DROP TRIGGER events_are_never_changed", "UPDATE events SET rater = printf('%.*c', 1000000, 'a')")
    problems = verify_project(folder).problems
    assert any("is not what was written" in one for one in problems)
    assert max(map(len, problems)) < 500


# What lies outside the folder.


@pytest.fixture
def received(make_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with its images inside, as it comes from somebody else."""
    project = make_project(copy=True)
    project.close()
    aim = tmp_path / "received" / "project"
    shutil.copytree(project.folder, aim)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return aim


def test_a_received_project_with_its_images_opens(received: Path, tmp_path: Path):
    """Where everything lies in the folder nobody is asked, and nothing is recorded."""
    use(received)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("how", ["absolute", "climbing", "linked image", "linked cache"])
def test_nothing_outside_is_read_or_written_untrusted(received: Path, tmp_path: Path, how: str):
    """Paths and links that lead outside are refused, until they are trusted once; another place is asked for again."""
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = next((received / "images").glob("fixed*"))
    shutil.copy(inside, outside / "picture.png")
    if how == "absolute":
        edited(received, lambda c: c["images"]["fixed"].update(path=str(outside / "picture.png")))
    elif how == "climbing":
        edited(received, lambda c: c["images"]["fixed"].update(path="../../outside/picture.png"))
    elif how == "linked image":
        inside.unlink()
        inside.symlink_to(outside / "picture.png")
    else:
        shutil.rmtree(received / "cache", ignore_errors=True)
        (received / "cache").symlink_to(outside, target_is_directory=True)
    before = sorted(path.name for path in outside.iterdir())
    with pytest.raises(UntrustedProjectError, match="--trust"):
        Project.open(received)
    assert not verify_project(received).ok
    assert sorted(path.name for path in outside.iterdir()) == before
    Project.open(received, trust=True).close()
    Project.open(received).close()  # recorded
    text = (tmp_path / "state" / "warpgauge" / "trusted.jsonl").read_text()
    assert str(outside) in text
    edited(received, lambda c: c["images"]["moving"].update(path="../../elsewhere.png"))
    with pytest.raises(UntrustedProjectError):
        Project.open(received)


def test_a_log_elsewhere_is_not_opened_even_if_trusted(received: Path, tmp_path: Path):
    """A link as the log is refused: SQLite follows what lies beside the file that it leads to."""
    (received / "annotations.sqlite").rename(tmp_path / "elsewhere.sqlite")
    (received / "annotations.sqlite").symlink_to(tmp_path / "elsewhere.sqlite")
    with pytest.raises(UntrustedProjectError):
        Project.open(received)
    with pytest.raises(ProjectError, match=re.escape("annotations.sqlite")):
        Project.open(received, trust=True)
    assert sorted(path.name for path in tmp_path.glob("elsewhere*")) == ["elsewhere.sqlite"]


def test_trust_on_the_command_line(received: Path, tmp_path: Path):
    """Commands refuse with exit code 1, take --trust, and remember it."""
    picture = tmp_path / "picture.png"
    shutil.copy(next((received / "images").glob("fixed*")), picture)
    edited(received, lambda c: c["images"]["fixed"].update(path=str(picture)))
    run = CliRunner()
    refused = run.invoke(app, ["suggest", str(received)])
    assert isinstance(refused.exception, UntrustedProjectError)
    assert run.invoke(app, ["suggest", str(received), "--trust"]).exit_code == 0
    assert run.invoke(app, ["suggest", str(received)]).exit_code == 0
    assert "WARPGAUGE_TRUST" not in os.environ


def test_elastix_transforms_stay_inside(make_project: Make, tmp_path: Path):
    """The initial transform of an added file is read from its copy; one that exists only elsewhere is not."""
    text = '(Transform "TranslationTransform")\n(NumberOfParameters 2)\n(TransformParameters {} 0)\n'
    text += "(FixedImageDimension 2)\n(MovingImageDimension 2)\n"
    first, last = tmp_path / "first.txt", tmp_path / "last.txt"
    first.write_text(text.format(3))
    last.write_text(text.format(4) + f'(InitialTransformParametersFileName "{first}")\n')
    with make_project() as project:
        project.add_transform("shift", last)
        first.write_text(text.format(1000))  # not what was added
        np.testing.assert_allclose(project.transform("shift").map(np.array([[1.0, 1.0]])), [[8.0, 1.0]])
        (next((project.folder / "transforms").rglob("first.txt"))).unlink()
        assert "first.txt" in one_sentence(lambda: project.transform("shift"))


def test_every_image_record_is_checked(folder: Path):
    """An image whose record and file do not go together is a sentence, not a traceback."""
    edited(folder, lambda c: c["images"]["fixed"].update(spacing=[1.0, 2.0, 3.0]))
    with pytest.warns(WarpgaugeWarning, match="cannot be read any more"):
        Project.open(folder).close()
    with pytest.raises(ProjectError):
        Project.open(folder, check_images=False).image("fixed")
