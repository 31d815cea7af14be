"""Snapshots of long logs: what is new is replayed, and nothing is believed that this person did not make."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

import warpgauge as wg
from warpgauge.errors import SuspiciousDataWarning
from warpgauge.project import State, event_store, snapshots
from warpgauge.project.events import Note
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
    head, _, _ = path.read_bytes().partition(b"\n")
    told = json.loads(head)
    body = pickle.dumps(Attack())
    if how != "body":
        told["made"][2] = snapshots.hashlib.sha256(body).hexdigest()
    if how == "code":
        told["made"][0] = "0" * 64
    path.write_bytes(json.dumps(told).encode() + b"\n" + body)
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
