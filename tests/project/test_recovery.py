"""Acknowledged means kept: logs that are replaced, cut, damaged or lost are noticed, and rebuilt from a mirror."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from postgres_tools import Postgres
from project.tools import EITHER_STORE, place, query
from warpgauge.cli.app import app
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.project import Project
from warpgauge.project.errors import ProjectError, StorageError
from warpgauge.project.integrity import verify_project
from warpgauge.project.log import Row
from warpgauge.project.recovery import recover_project

Make = Callable[..., Project]
LOG = "annotations.sqlite"


def filled(project: Project, count: int = 5) -> Project:
    for number in range(count):
        project.append(query(number, (4.0 + number, 5.0)), place(number))
    return project


def copy_of_log(project: Project, aim: Path) -> Path:
    """Copy the log as a backup program does, by SQLite's own way."""
    source = sqlite3.connect(project.folder / LOG)
    copy = sqlite3.connect(aim)
    source.backup(copy)
    copy.close()
    source.close()
    return aim


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced", "older"])
def test_a_log_that_is_taken_away_under_a_running_project(make_project: Make, tmp_path: Path, how: str):
    """What can no longer be found in the file is not acknowledged: a StorageError says what happened."""
    with filled(make_project(), 12) as project:
        log = project.folder / LOG
        old = copy_of_log(project, tmp_path / "old.sqlite")
        for number in range(12, 24):
            project.append(query(number, (20.0, 20.0)))
        if how == "deleted":
            for file in project.folder.glob(f"{LOG}*"):
                file.unlink()
        elif how == "moved":
            log.rename(tmp_path / "moved.sqlite")
        elif how == "replaced":
            shutil.copy(old, project.folder / "new")
            (project.folder / "new").replace(log)
        else:
            with sqlite3.connect(log) as connection:
                connection.execute("DROP TRIGGER events_are_never_deleted")
                connection.execute("DELETE FROM events WHERE generation = 36")
            connection.close()
        for _ in range(2):
            with pytest.raises((StorageError, ProjectError)):
                project.append(place(20))


def test_a_log_that_is_overwritten_in_place(make_project: Make, tmp_path: Path):
    """An older copy written over the file, again and again: what was acknowledged is there in the end, or was not."""
    project = filled(make_project(), 12)
    old = copy_of_log(project, tmp_path / "old.sqlite").read_bytes()
    acknowledged = 24
    for number in range(12, 40):
        try:
            acknowledged = project.append(query(number, (20.0, 20.0)))[0].generation
        except (StorageError, ProjectError):
            break
        if number % 5 == 0:
            (project.folder / LOG).write_bytes(old)
    project.close()
    report = CliRunner().invoke(app, ["verify", str(project.folder)])
    if report.exit_code == 0:
        with Project.open(project.folder) as opened:
            assert opened.state.generation == acknowledged


@pytest.mark.parametrize("how", ["renamed over", "written over"])
def test_an_older_copy_put_back_between_two_answers(make_project: Make, tmp_path: Path, how: str) -> None:
    """Ten times in ten, wherever in the work: the next reading and the next writing say so, and nothing follows it."""
    for number in range(10):
        with filled(make_project(f"project {number}"), 2) as project:
            log = project.folder / LOG
            old = copy_of_log(project, tmp_path / "old.sqlite").read_bytes()
            for x in range(number + 1):
                project.append(place(0, (x, 1.0)))
            if how == "renamed over":
                (tmp_path / "older").write_bytes(old)
                (tmp_path / "older").replace(log)
            else:
                log.write_bytes(old)
            with pytest.raises(StorageError, match="lacks event"):
                project.sync()
            with pytest.raises(StorageError, match="lacks event"):
                project.append(place(1))
            assert log.read_bytes() == old
        with pytest.warns(SuspiciousDataWarning, match="missing"):
            Project.open(project.folder).close()


def test_a_log_that_comes_back_is_used_again(make_project: Make, tmp_path: Path):
    """A sync client that puts the same events back under the same name does not end the work."""
    with filled(make_project(), 2) as project:
        log = project.folder / LOG
        copy = copy_of_log(project, tmp_path / "copy.sqlite")
        project.append(query(2, (20.0, 20.0)))
        newer = copy_of_log(project, tmp_path / "newer.sqlite")
        for file in project.folder.glob(f"{LOG}*"):
            file.unlink()
        shutil.copy(copy, log)
        with pytest.raises(StorageError, match="lacks event 5"):
            project.append(place(2))
        log.unlink()
        shutil.copy(newer, log)
        project.append(place(2))
        assert project.state.generation == 6
    assert Project.open(project.folder).verify().ok


@pytest.mark.parametrize("how", ["last rows removed", "old copy"])
def test_a_lost_end_is_named(make_project: Make, tmp_path: Path, how: str):
    """Cut while nobody had it open: verify says which events are missing; opening warns, and nothing is written."""
    project = filled(make_project(), 4)
    log = project.folder / LOG
    old = copy_of_log(project, tmp_path / "old.sqlite")
    project.append(query(4, (20.0, 20.0)), place(4))
    project.close()
    if how == "old copy":
        shutil.copy(old, log)
    else:
        with sqlite3.connect(log) as connection:
            connection.execute("DROP TRIGGER events_are_never_deleted")
            connection.execute("DELETE FROM events WHERE generation > 8")
        connection.close()
    report = CliRunner().invoke(app, ["verify", str(project.folder)])
    assert report.exit_code == 1
    assert "2 events are missing (numbers 9 to 10)" in report.output
    with pytest.warns(SuspiciousDataWarning, match="are missing"):
        opened = Project.open(project.folder)
    with pytest.raises(StorageError, match="recover"):
        opened.append(query(len(opened.state.queries), (30.0, 30.0)))
    opened.close()


def test_mirror_and_recovery(make_project: Make, tmp_path: Path):
    """A lost log is rebuilt from the mirror with the same fingerprint, and work goes on."""
    project = filled(make_project(), 2)
    project.use_mirror(tmp_path / "mirror")
    filled_more = [query(2, (20.0, 20.0)), place(2)]
    project.append(*filled_more)
    print_before = project.fingerprint()
    project.close()
    lines = (tmp_path / "mirror" / project.id / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)[0] for line in lines] == [1, 2, 3, 4, 5, 6]
    for file in project.folder.glob(f"{LOG}*"):
        file.unlink()
    result = CliRunner().invoke(app, ["verify", str(project.folder), "--mend", "--mirror", str(tmp_path / "mirror")])
    assert result.exit_code == 0, result.output
    assert "6 events" in result.output
    with Project.open(project.folder) as back:
        assert back.fingerprint() == print_before
        back.append(query(3, (30.0, 30.0)))
        assert back.verify().ok


def test_recovery_without_a_mirror(make_project: Make):
    """Without a mirror a loss has to be accepted; then the log is whole again, and the former one is kept."""
    project = filled(make_project(), 3)
    project.close()
    with sqlite3.connect(project.folder / LOG) as connection:
        connection.execute("DROP TRIGGER events_are_never_deleted")
        connection.execute("DELETE FROM events WHERE generation > 4")
    connection.close()
    with pytest.raises(ProjectError, match="2 acknowledged events"):
        recover_project(project.folder)
    done = recover_project(project.folder, accept_loss=True)
    assert (done.events, done.lost) == (4, 2)
    assert (project.folder / done.kept).is_file()
    with Project.open(project.folder) as back:
        assert back.verify().ok
        back.append(place(0, rater="ben"))
    assert recover_project(project.folder).kept == ""


def test_twenty_damaged_logs_are_noticed(make_project: Make, tmp_path: Path):
    """Random damage anywhere in the log's files: either all acknowledged events are there, or verify says no."""
    project = filled(make_project(), 6)
    project.use_mirror(tmp_path / "mirror")
    rng = random.Random(7)
    for trial in range(20):
        broken = tmp_path / f"broken{trial}"
        shutil.copytree(project.folder, broken)
        data = bytearray((broken / LOG).read_bytes())
        for _ in range(rng.randrange(1, 30)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (broken / LOG).write_bytes(data)
        report = CliRunner().invoke(app, ["verify", str(broken)])
        assert report.exit_code in (0, 1)
        assert report.exception is None or isinstance(report.exception, SystemExit), report.exception
        if report.exit_code == 0:
            with Project.open(broken) as opened:
                assert opened.fingerprint() == project.fingerprint()
            continue
        recover_project(broken, tmp_path / "mirror")
        with Project.open(broken) as opened:
            assert opened.fingerprint() == project.fingerprint()
    project.close()


def lines_of(mirror: Path, project: Project) -> list[Row]:
    return [tuple(json.loads(line)) for line in (mirror / project.id / "events.jsonl").read_text().splitlines()]


@EITHER_STORE
def test_a_mirror_that_cannot_be_written(make_project: Make, tmp_path: Path) -> None:
    """What cannot stand in both copies is not acknowledged, at no repetition; with the mirror back, both have it."""
    mirror = tmp_path / "mirror"
    with filled(make_project(), 1) as project:
        project.use_mirror(mirror)
        mirror.rename(tmp_path / "elsewhere")
        for _ in range(2):
            with pytest.raises(StorageError, match="mirror"):
                project.append(query(1, (20.0, 20.0)))
        assert project.state.generation <= 3
        (tmp_path / "elsewhere").rename(mirror)
        project.append(query(len(project.state.queries), (21.0, 20.0)))
        assert lines_of(mirror, project) == project.log.read()


@EITHER_STORE
def test_what_a_killed_server_left_out_of_the_mirror(make_project: Make, tmp_path: Path) -> None:
    """A server that was killed after its commit, or in a line of the mirror: the next write of any server adds it."""
    mirror = tmp_path / "mirror"
    with filled(make_project(), 2) as one, Project.open(one.folder) as other, Project.open(one.folder) as killed:
        for project in (one, other):
            project.use_mirror(mirror)
        killed.append(query(2, (20.0, 20.0)))
        with (mirror / one.id / "events.jsonl").open("a") as stream:
            stream.write(json.dumps(killed.log.read()[-1])[:40])
        other.append(query(3, (20.0, 20.0)))
        one.append(query(4, (21.0, 20.0)))
        assert lines_of(mirror, one) == one.log.read()
        other.use_mirror(mirror)


@EITHER_STORE
def test_servers_that_share_a_mirror(make_project: Make, tmp_path: Path) -> None:
    """Two servers that write at once, and one that begins meanwhile: each event stands there once and in order."""
    mirror = tmp_path / "mirror"
    with filled(make_project(), 2) as one, Project.open(one.folder) as other, Project.open(one.folder) as late:
        for project in (one, other):
            project.use_mirror(mirror)
        writers = [
            threading.Thread(target=lambda name=name, at=at: [at.append(place(0, (x, 5.0), name)) for x in range(20)])
            for name, at in (("ada", one), ("ben", other))
        ]
        for writer in writers:
            writer.start()
        late.use_mirror(mirror)
        for writer in writers:
            writer.join()
        assert lines_of(mirror, late) == late.log.read()
        assert len(late.log.read()) == 44


def test_mirror_that_does_not_fit(make_project: Make, tmp_path: Path):
    """A mirror with more or other events than the log is refused, and so is one inside the project."""
    project = filled(make_project(), 2)
    project.use_mirror(tmp_path / "mirror")
    copy = shutil.copytree(project.folder, tmp_path / "copy")
    project.append(query(2, (20.0, 20.0)))
    project.close()
    with Project.open(copy) as other, pytest.raises(ProjectError, match="recover"):
        other.use_mirror(tmp_path / "mirror")
    with Project.open(copy) as other, pytest.raises(InvalidInputError, match="outside"):
        other.use_mirror(copy / "maps")


@pytest.mark.parametrize("kept", [0, 4])
def test_a_database_is_filled_up_from_the_mirror(make_project: Make, postgres: Postgres, tmp_path: Path, kept: int):
    """An older backup, or an empty database, gets what it lacks; the project is whole again and goes on."""
    with make_project(database=postgres.url) as project:
        project.use_mirror(tmp_path / "mirror")
        filled(project)
        expected = project.fingerprint()
    postgres.lose(project.id, kept)
    said = CliRunner().invoke(app, ["verify", str(project.folder), "--mend", "--mirror", str(tmp_path / "mirror")])
    assert said.exit_code == 0, said.output
    assert f"now holds 10 events: {kept} were there, {10 - kept} came from the mirror" in said.output
    again = CliRunner().invoke(app, ["verify", str(project.folder), "--mend", "--mirror", str(tmp_path / "mirror")])
    assert "nothing was changed" in again.output
    assert CliRunner().invoke(app, ["verify", str(project.folder)]).exit_code == 0
    with Project.open(project.folder) as opened:
        assert opened.fingerprint() == expected
        opened.append(query(5, (9.0, 9.0)))


def test_a_database_that_went_another_way_is_left_alone(make_project: Make, postgres: Postgres, tmp_path: Path):
    """Events that are others than the mirror's are not touched, and nothing is added after them."""
    with make_project(database=postgres.url) as project:
        project.use_mirror(tmp_path / "mirror")
        filled(project)
    postgres.lose(project.id, 4)
    with Project.open(project.folder) as opened:
        opened.append(query(2, (30.0, 30.0)))
        there = opened.fingerprint()
    with pytest.raises(ProjectError, match=r"Event 5 in the database .* nothing was changed"):
        recover_project(project.folder, tmp_path / "mirror")
    with pytest.raises(InvalidInputError, match="give --mirror"):
        recover_project(project.folder)
    with Project.open(project.folder) as opened:
        assert opened.fingerprint() == there


def without_end(folder: Path, kept: int) -> None:
    """Remove the end of a log, as somebody with access to the folder would."""
    with closing(sqlite3.connect(folder / LOG, isolation_level=None)) as log:
        triggers = log.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            log.execute(f"DROP TRIGGER {name}")
        log.execute("DELETE FROM events WHERE generation > ?", (kept,))
        for _, text in triggers:
            log.execute(text)


@pytest.mark.parametrize("kept", [0, 2])
def test_an_end_removed_without_a_trace_is_noticed(make_project: Make, kept: int):
    """The state folder of whoever wrote is the witness: the loss is named, and nothing is written after it."""
    project = make_project()
    for number in range(3):
        project.append(query(number), place(number))
    project.close()
    assert verify_project(project.folder).ok
    assert verify_project(project.folder).unchecked == ()
    without_end(project.folder, kept)
    (problem,) = verify_project(project.folder).problems
    assert f"The log ends at event {kept}, but event 6 was acknowledged" in problem
    with pytest.warns(SuspiciousDataWarning, match="event 6 was acknowledged"):
        opened = Project.open(project.folder)
    with opened, pytest.raises(StorageError, match="Nothing is written"):
        opened.append(query(5), place(5))
    with pytest.raises(ProjectError, match="neither in the log nor in the mirror"):
        recover_project(project.folder)
    recover_project(project.folder, accept_loss=True)
    assert verify_project(project.folder).ok


def test_what_could_not_be_checked_is_said(make_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """On another computer, and for a copy in another folder, there is no witness: verify says so."""
    project = make_project(copy=True)
    project.append(query(0), place(0))
    project.close()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another computer"))
    report = verify_project(project.folder)
    assert report.ok
    assert "your state folder has no record" in report.unchecked[0]
    with Project.open(project.folder) as opened:
        opened.append(query(1), place(1))
    assert verify_project(project.folder).unchecked == ()
    copy = tmp_path / "copy"
    shutil.copytree(project.folder, copy)
    assert verify_project(copy).unchecked
    told = CliRunner().invoke(app, ["verify", str(copy)]).output
    assert "not checked  Whether the end of the log" in told


def test_a_state_folder_that_cannot_be_written_stops_nobody(
    make_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The witness is no condition of an acknowledgement."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with make_project(copy=True) as project:
        project.append(query(0), place(0))
        assert project.state.generation == 2


def test_the_same_log_in_another_file_is_read_at_once(make_project: Make, tmp_path: Path):
    """A log that was restored under a running project, whole, is used by the very first request."""
    with make_project() as project:
        project.append(query(0), place(0))
        with closing(sqlite3.connect(project.folder / LOG)) as log, closing(sqlite3.connect(tmp_path / "copy")) as copy:
            log.backup(copy)
        (tmp_path / "copy").replace(project.folder / LOG)
        assert project.state.generation == 2
        project.append(query(1), place(1))
        assert project.state.generation == 4
