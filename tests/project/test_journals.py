"""Journals that somebody put beside a log: no file elsewhere is deleted, whatever door the project is opened by.

SQLite plays back a journal that lies beside a database, and then deletes the file that the journal's last bytes name,
wherever that is.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import warpgauge
from command_tools import call
from project.tools import place, query
from warpgauge.cli.app import app
from warpgauge.project import Project, ProjectError, verify_project

Make = Callable[..., Project]
MAGIC = bytes.fromhex("d9d505f920a163d7")
PAGE = 4096
LOCK_BYTE = 0x40000000
LOG, JOURNAL = "annotations.sqlite", "annotations.sqlite-journal"
EVENTS = 2


def interrupt(folder: Path) -> bytes:
    """Leave the log as a writer that was killed in a transaction leaves it, and return its journal."""
    log, scratch = folder / LOG, folder.parent / "scratch.sqlite"
    shutil.copy(log, scratch)
    with closing(sqlite3.connect(scratch, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE meta SET value = value")
        connection.execute("CREATE TABLE filler (text)")
        connection.executemany("INSERT INTO filler VALUES (?)", [("b" * 500,)] * 300)
        journal = bytearray(Path(f"{scratch}-journal").read_bytes())
        log.write_bytes(scratch.read_bytes())
        connection.execute("ROLLBACK")
    for name in ("-wal", "-shm"):
        Path(f"{log}{name}").unlink(missing_ok=True)
    if struct.unpack(">I", journal[8:12])[0] == 0:
        journal[8:12] = struct.pack(">I", (len(journal) - 512) // (PAGE + 8))
    return bytes(journal)


def naming(name: str) -> bytes:
    """Return what the end of a journal says where it belongs to a transaction over several databases."""
    text = name.encode()
    return struct.pack(">I", LOCK_BYTE // PAGE + 1) + text + struct.pack(">II", len(text), sum(text)) + MAGIC


def absolute(folder: Path, victim: Path) -> None:
    (folder / JOURNAL).write_bytes(interrupt(folder) + naming(str(victim)))


def relative(folder: Path, victim: Path) -> None:
    (folder / JOURNAL).write_bytes(interrupt(folder) + naming(os.path.relpath(victim)))


def linked_journal(folder: Path, victim: Path) -> None:
    absolute(folder, victim)
    (folder / JOURNAL).rename(folder / "notes")
    (folder / JOURNAL).symlink_to("notes")


def journal_linked_to_nothing(folder: Path, victim: Path) -> None:
    (folder / JOURNAL).symlink_to("absent")


def linked_log(folder: Path, victim: Path) -> None:
    absolute(folder, victim)
    (folder / "data").mkdir()
    (folder / LOG).rename(folder / "data" / "real.sqlite")
    (folder / JOURNAL).rename(folder / "data" / "real.sqlite-journal")
    (folder / LOG).symlink_to("data/real.sqlite")


def second_name_of_the_log(folder: Path, victim: Path) -> None:
    os.link(folder / LOG, folder / "notes")


def journal_is_the_log(folder: Path, victim: Path) -> None:
    os.link(folder / LOG, folder / JOURNAL)


def second_name_of_the_journal(folder: Path, victim: Path) -> None:
    (folder / JOURNAL).write_bytes(interrupt(folder))
    os.link(folder / JOURNAL, folder / "notes")


def pipe(folder: Path, victim: Path) -> None:
    os.mkfifo(folder / JOURNAL)


def folder_as_journal(folder: Path, victim: Path) -> None:
    (folder / JOURNAL).mkdir()


def byte_behind(folder: Path, victim: Path) -> None:
    (folder / JOURNAL).write_bytes(interrupt(folder) + naming(str(victim)) + b"\0")


def line_end_behind(folder: Path, victim: Path) -> None:
    (folder / JOURNAL).write_bytes(interrupt(folder) + naming(str(victim)) + b"\n")


def sector_filled(folder: Path, victim: Path) -> None:
    journal = interrupt(folder) + naming(str(victim))
    (folder / JOURNAL).write_bytes(journal.ljust(-(-len(journal) // 512) * 512, b"\0"))


def in_the_header(folder: Path, victim: Path) -> None:
    journal = bytearray(interrupt(folder))
    end = naming(str(victim))
    journal[512 - len(end) : 512] = end
    (folder / JOURNAL).write_bytes(journal)


def huge(folder: Path, victim: Path) -> None:
    with (folder / JOURNAL).open("wb") as stream:
        stream.truncate(40 * 2**30)


def forged_write_ahead(folder: Path, victim: Path) -> None:
    """Put three events into a write-ahead file, which SQLite uses whatever the header of the log says."""
    scratch = folder.parent / "scratch.sqlite"
    shutil.copy(folder / LOG, scratch)
    with closing(sqlite3.connect(scratch, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for number in range(EVENTS + 1, EVENTS + 4):
            connection.execute(
                "INSERT INTO events SELECT ?, time, rater, kind, query, duration, base_generation, payload, digest "
                "FROM events WHERE generation = 2",
                (number,),
            )
        shutil.copy(f"{scratch}-wal", folder / f"{LOG}-wal")


def empty_write_ahead(folder: Path, victim: Path) -> None:
    (folder / f"{LOG}-wal").touch()


def header_of_write_ahead(folder: Path, victim: Path) -> None:
    content = bytearray((folder / LOG).read_bytes())
    content[18] = content[19] = 2
    (folder / LOG).write_bytes(content)


def index_linked(folder: Path, victim: Path) -> None:
    header_of_write_ahead(folder, victim)
    (folder / f"{LOG}-shm").symlink_to(os.path.relpath(victim, folder))


def index_with_a_second_name(folder: Path, victim: Path) -> None:
    header_of_write_ahead(folder, victim)
    os.link(victim, folder / f"{LOG}-shm")


def index_alone(folder: Path, victim: Path) -> None:
    (folder / f"{LOG}-shm").write_bytes(bytes(32768))


def honest(folder: Path, victim: Path) -> None:
    (folder / JOURNAL).write_bytes(interrupt(folder))


REFUSED = [
    *(absolute, relative, linked_journal, journal_linked_to_nothing, linked_log, second_name_of_the_log),
    *(journal_is_the_log, second_name_of_the_journal, pipe, folder_as_journal),
    *(forged_write_ahead, empty_write_ahead, header_of_write_ahead, index_linked, index_with_a_second_name),
]
HARMLESS = [index_alone, byte_behind, line_end_behind, sector_filled, in_the_header, huge, honest]


def opened(folder: Path) -> bool:
    try:
        with Project.open(folder) as project:
            return len(project.events()) == EVENTS
    except ProjectError:
        return False


def verified(folder: Path) -> bool:
    return verify_project(folder).ok


def by_command(name: str) -> Callable[[Path], bool]:
    def command(folder: Path) -> bool:
        result = CliRunner().invoke(app, [name, str(folder)])
        assert result.exit_code in (0, 1)
        return result.exit_code == 0

    return command


DOORS = {"Project.open": opened, "verify_project": verified, "info": by_command("info"), "verify": by_command("verify")}


@pytest.fixture
def received(make_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two events and its images inside, as it comes from somebody else."""
    with make_project(copy=True) as project:
        project.append(query(0), place(0))
    shutil.copytree(tmp_path / "project", tmp_path / "received")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "received"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("plant", [*REFUSED, *HARMLESS], ids=lambda plant: plant.__name__)
def test_a_planted_journal_deletes_nothing(
    received: Path, tmp_path: Path, plant: Callable[[Path, Path], None], door: str
) -> None:
    """What leads SQLite to another file is refused and left where it is; any other journal is played back or left."""
    victim = tmp_path / "home" / "thesis.txt"
    victim.parent.mkdir()
    victim.write_text("a thesis")
    plant(received, victim)
    before = (received / LOG).read_bytes()
    result = DOORS[door](received)
    assert victim.read_text() == "a thesis"
    assert result == (plant in HARMLESS)
    if plant in REFUSED:
        assert (received / LOG).read_bytes() == before


def test_recover_follows_no_planted_journal(received: Path, tmp_path: Path) -> None:
    """Recovering a received project with the mirror that came with it deletes nothing elsewhere, either."""
    victim = tmp_path / "thesis.txt"
    victim.write_text("a thesis")
    absolute(received, victim)
    assert LOG in call("verify", received, "--mend", code=1)
    assert victim.read_text() == "a thesis"


def test_an_idle_server_reads_what_a_killed_writer_left(make_project: Make, tmp_path: Path) -> None:
    """A journal of a transaction that was not ended is rolled back by whoever reads next, writer or not."""
    with make_project() as project:
        project.append(query(0), place(0))
        (project.folder / JOURNAL).write_bytes(interrupt(project.folder))
        project.sync()
        assert project.state.generation == EVENTS
        assert not (project.folder / JOURNAL).exists()
        project.append(query(1))
        assert project.verify().ok


def test_no_code_opens_the_log_but_sqlite() -> None:
    """Closing any descriptor of the file ends all locks of the process on it; only the copy of a folder that nobody
    can write to may."""
    opening = re.compile(
        r"(?<!Project\.)\b(?:open|read_bytes|write_bytes|read_text|write_text|copyfile|copy2?|content_hash)\((.*)"
    )
    calls = {}
    for path in Path(warpgauge.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if re.search(r"annotations\.sqlite|\bFileLog\b", text):
            calls[path.name] = opening.findall(text)
    copies = ["self.path, copy)", 'f"{self.path}-journal", f"{copy}-journal", follow_symlinks=False)']
    assert calls.pop("log.py") == copies
    assert not any(calls.values()), calls


def test_every_commit_waits_for_the_disk(make_project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is told to wait for the log, its journal and their folder before it writes an answer."""
    said: list[str] = []
    connect = sqlite3.connect

    def listening(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = connect(*arguments, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", listening)
    with make_project() as project:
        project.append(query(0))
    written = [k for k, statement in enumerate(said) if statement.startswith("INSERT INTO events")]
    assert written
    assert "PRAGMA synchronous = EXTRA" in said[: written[0]]
