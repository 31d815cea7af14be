"""Snapshots of long logs: what is new is replayed, and nothing is believed that this person did not make."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

import warpgauge as wg
from warpgauge.errors import SuspiciousDataWarning
from warpgauge.project import State, event_store, snapshots
from warpgauge.project.events import Ask, Note
from warpgauge.project.integrity import verify_project
from warpgauge.project.values import Entry


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with 12 events, where 10 are enough for a snapshot, and a state folder of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(snapshots, "FEWEST", 10)
    noise = np.random.default_rng(0).integers(0, 255, (64, 64)).astype(np.uint8)
    Pillow.fromarray(noise).save(tmp_path / "a.png")
    with wg.Project.create(tmp_path / "p", fixed=tmp_path / "a.png", moving=tmp_path / "a.png") as project:
        write(project, 12)
    return tmp_path / "p"


def write(project: wg.Project, count: int) -> None:
    for number in range(count):
        project.append(Note(rater="ada", text=f"note {number}"))


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events each opening replays."""
    counts: list[int] = []
    replay = event_store.replay

    def counted(entries: list[Entry], *rest: object) -> object:
        counts.append(len(entries))
        return replay(entries, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(event_store, "replay", counted)
    return counts


def opened(place: Path) -> State:
    with wg.Project.open(place) as project:
        return project.state.copy()


def snapshot(place: Path) -> Path:
    (found,) = (place.parent / "state" / "warpgauge" / "snapshots").iterdir()
    return found


def test_the_second_opening_replays_what_is_new(place: Path, replayed: list[int]) -> None:
    first = opened(place)
    with wg.Project.open(place) as project:
        assert project.state == first
        write(project, 3)
    again = opened(place)
    assert [count for count in replayed if count] == [12, 3]
    shutil.rmtree(place.parent / "state" / "warpgauge" / "snapshots")
    assert opened(place) == again
    assert [count for count in replayed if count] == [12, 3, 15]


def test_a_log_that_was_put_back_or_exchanged_is_replayed(place: Path, replayed: list[int]) -> None:
    """The snapshot's last event is missing, or is another one: the snapshot says nothing about this log."""
    former = place.parent / "former.sqlite"
    shutil.copy(place / "annotations.sqlite", former)
    with wg.Project.open(place) as project:
        write(project, 2)
    shutil.rmtree(snapshot(place).parent)
    assert opened(place).generation == 14
    replayed.clear()
    for file in place.glob("annotations.sqlite*"):
        file.unlink()
    shutil.copy(former, place / "annotations.sqlite")
    with pytest.warns(SuspiciousDataWarning):
        state = opened(place)
    assert (state.generation, replayed[0]) == (12, 12)


def parts_of(path: Path) -> tuple[dict[str, Any], bytes]:
    head, _, body = path.read_bytes().partition(b"\n")
    return json.loads(head), body


class Attack:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (os.environ["ATTACKED"],)


@pytest.mark.parametrize("how", ["writable", "folder", "link", "body", "code", "owner"])
def test_what_others_could_have_written_is_not_unpickled(
    place: Path, how: str, replayed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    attacked = place.parent / "attacked"
    monkeypatch.setenv("ATTACKED", str(attacked))
    monkeypatch.setenv("WARPGAUGE_TRUST", "1")
    expected = opened(place)
    path = snapshot(place)
    told, _ = parts_of(path)
    body = pickle.dumps(Attack())
    for part in told["parts"]:
        part[1:] = len(body), part[2] if how == "body" else hashlib.sha256(body).hexdigest()
    if how == "code":
        told["made"][0] = "0" * 64
    path.write_bytes(json.dumps(told).encode() + b"\n" + body * len(told["parts"]))
    if how == "writable":
        path.chmod(0o666)
    elif how == "folder":
        path.parent.chmod(0o777)
    elif how == "link":
        path.rename(place.parent / "elsewhere")
        path.symlink_to(place.parent / "elsewhere")
    elif how == "owner":
        monkeypatch.setattr("tempfile.tempdir", str(place.parent))
        monkeypatch.setattr(snapshots.os, "getuid", lambda: 12345)
    replayed.clear()
    assert opened(place) == expected
    assert not attacked.exists()
    assert replayed[0] == 12


def test_opening_reads_no_answers_until_they_are_asked_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPGAUGE_TRUST", "1")
    expected = opened(place)
    read: list[int] = []
    loads = snapshots.pickle.loads
    monkeypatch.setattr(snapshots.pickle, "loads", lambda body: read.append(len(body)) or loads(body))
    sizes = {name: length for name, length, _ in parts_of(snapshot(place))[0]["parts"]}
    with wg.Project.open(place) as project:
        assert (project.state.generation, read) == (12, [sizes[""]])
        assert project.state.cells == {}
        assert project.state.removed == {}
        assert read == [sizes[""], sizes["answers"]]
        assert project.state == expected
        assert read == [sizes[""], sizes["answers"], sizes["queries"]]


@pytest.mark.parametrize("how", ["exchanged", "cut"])
def test_a_snapshot_that_is_damaged_while_it_is_open_gives_way_to_the_log(place: Path, how: str) -> None:
    with wg.Project.open(place) as project:
        project.append(Ask(rater="ada", query=0, point=(5.0, 6.0), origin="given"))
    shutil.rmtree(place.parent / "state" / "warpgauge" / "snapshots", ignore_errors=True)
    opened(place)
    told, body = parts_of(snapshot(place))
    with wg.Project.open(place) as project:
        forged = body.replace(b"given", b"audit")
        assert forged != body
        with snapshot(place).open("r+b") as file:
            file.seek(len(json.dumps(told)) + 1)
            file.write(forged)
            if how == "cut":
                file.truncate(len(json.dumps(told)) + 100)
        project.append(Ask(rater="ada", query=1, point=(7.0, 8.0), origin="given"))
        assert [(one.point, one.origin) for one in project.state.queries] == [((5, 6), "given"), ((7, 8), "given")]


def test_a_project_brings_no_snapshot_of_its_own(place: Path) -> None:
    """Whatever a received folder holds, the state comes from its log."""
    expected = opened(place)
    received = place.parent / "received"
    shutil.copytree(place, received)
    shutil.copytree(snapshot(place).parent, received / "snapshots")
    shutil.rmtree(snapshot(place).parent)
    assert {file.name for file in place.iterdir()} >= {"annotations.sqlite", "project.json"}
    assert opened(received) == expected


def test_a_changed_event_below_the_snapshot_is_found_by_verify(place: Path) -> None:
    """The state stays the one that was replayed once; who changed the log gains nothing, and is found."""
    expected = opened(place)
    log = sqlite3.connect(place / "annotations.sqlite")
    triggers = [name for (name,) in log.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    for name in triggers:
        log.execute(f"DROP TRIGGER {name}")
    log.execute("""UPDATE events SET payload = '{"text": "another"}' WHERE generation = 3""")
    log.commit()
    log.close()
    assert opened(place) == expected
    assert any("3" in problem for problem in verify_project(place).problems)
