"""The log in PostgreSQL: copied there and back, connections cut, commits lost, strangers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import psycopg
import pytest
from PIL import Image

from command_tools import ask, call
from postgres_tools import ROLE, Postgres
from project.tools import edit, place, query, skip
from warpgauge.errors import InvalidInputError
from warpgauge.project import Project, ProjectError, StorageError
from warpgauge.project.errors import UntrustedProjectError
from warpgauge.project.postgres import stored_address

Make = Callable[..., Project]


def fill(project: Project) -> None:
    """Write events with letters of other scripts, odd numbers, and every optional field."""
    project.append(query(0, (0.1 + 0.2, 1e-17)), query(1, (1 / 3, 2.0)), query(2))
    project.append(place(0, (1e11 + 1 / 3, -0.0), duration=0.1 + 0.7, base_generation=3))
    project.append(skip(1, "other", text="näher \\u0000 日本 \N{GRINNING FACE}", rater="Åsa"))
    project.append(edit(0, (2.0, 5e-324)))


def test_copied_there_and_back_without_loss(make_project: Make, postgres: Postgres) -> None:
    """Every event, digest and state is the same in both stores; the former ones are kept and take no more."""
    with make_project() as project:
        fill(project)
        folder, events, state = project.folder, project.events(), project.state.copy()
        secret = postgres.url.replace(f"{ROLE}@", f"{ROLE}:very-secret@")
        done = ask("copy", folder, secret)
        assert (done["events"], done["source"]) == (len(events), "the file 'annotations.sqlite'")
        assert "very-secret" not in (folder / "project.json").read_text()
        assert json.loads((folder / "project.json").read_text())["database"] == postgres.url
        with pytest.raises(StorageError, match=r"deleted or moved.*not saved"):
            project.append(place(2))
    with Project.open(folder) as there:
        assert there.events() == events
        assert there.state == state
        assert there.verify().ok
        there.append(place(2))
        told = call("copy", folder, "sqlite")
        assert f"{len(events) + 1} events were copied from the database postgres at 127.0.0.1 to the file" in told
        with pytest.raises(StorageError, match=r"copied to the file 'annotations.sqlite'"):
            there.append(edit(2, (1.0, 1.0)))
    with Project.open(folder) as back:
        assert back.events()[:-1] == events
        assert back.verify().ok
        back.append(edit(2, (4.0, 4.0)))
    assert "version" in (folder / "project.json").read_text()
    call("copy", folder, postgres.url)  # what the database has already is the beginning of it
    with Project.open(folder) as again:
        assert again.state.generation == len(events) + 2


def test_a_new_project_keeps_its_log_in_the_database_from_the_start(tmp_path: Path, postgres: Postgres) -> None:
    """`new --database` makes no log in the folder and stores no password; a wrong address leaves nothing behind."""
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 70), dtype=np.uint8)).save(tmp_path / "a.png")
    images = ("--fixed", tmp_path / "a.png", "--moving", tmp_path / "a.png", "--candidates", 10, "--foreground", "none")
    ask("new", tmp_path / "trial", *images, "--database", postgres.url.replace(f"{ROLE}@", f"{ROLE}:very-secret@"))
    written = (tmp_path / "trial" / "project.json").read_text()
    assert json.loads(written)["database"] == postgres.url
    assert "very-secret" not in written
    assert not list((tmp_path / "trial").glob("annotations.sqlite*"))
    with Project.open(tmp_path / "trial") as project:
        fill(project)
        assert project.verify().ok
    for wrong, reason in (("mysql://host/name", "postgresql://"), ("postgresql://127.0.0.1:1/none", "127.0.0.1")):
        assert reason in call("new", tmp_path / "other", *images, "--database", wrong, code=1)
        assert not (tmp_path / "other").exists()


def test_two_copies_that_went_on_apart_are_not_mixed(make_project: Make, postgres: Postgres, tmp_path: Path) -> None:
    """A database with other events of the same project is refused, and both stay as they are."""
    with make_project() as project:
        fill(project)
        folder = project.folder
    kept = (folder / "project.json").read_bytes(), (folder / "annotations.sqlite").read_bytes()
    call("copy", folder, postgres.url)
    with Project.open(folder) as there:
        there.append(place(2, (1.0, 1.0)))
    (folder / "project.json").write_bytes(kept[0])
    (folder / "annotations.sqlite").write_bytes(kept[1])
    with Project.open(folder) as here:
        here.append(place(2, (2.0, 2.0)))
        before = here.events()
    said = call("copy", folder, postgres.url, code=1)
    assert "two copies of the project went on apart" in said
    with Project.open(folder) as here:
        assert here.document.database is None
        assert here.events() == before


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("mysql://host/name", "postgresql://user@host/name or to 'sqlite'"),
        ("sqlite", "is in the file 'annotations.sqlite' already"),
        ("postgresql://host:5432", "names no database"),
        ("postgresql://host/name?passfile=/etc/shadow", "'passfile', which is not kept"),
        ("postgresql://host/name?nonsense=1", "cannot be understood"),
        ("postgresql://nobody@127.0.0.1:1/name", "could not be stored"),
    ],
)
def test_wrong_targets_are_one_sentence(make_project: Make, target: str, sentence: str) -> None:
    """What cannot be copied to is said in one sentence, and the project stays as it is."""
    with make_project() as project:
        fill(project)
        events = project.events()
    assert sentence in call("copy", project.folder, target, code=1)
    with Project.open(project.folder) as same:
        assert same.events() == events


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("postgresql://ann:word@db.example.org:5433/a%20b?sslmode=require",
         "postgresql://ann@db.example.org:5433/a%20b?sslmode=require"),
        ("postgres://ann@/name?host=/run/postgresql", "postgresql://ann@/name?host=/run/postgresql"),
        ("postgresql://one:1,two:2/name", "postgresql:///name?host=one,two&port=1,2"),
        ("postgresql://[::1]:5432/name", "postgresql://[::1]:5432/name"),
    ],
)  # fmt: skip
def test_what_is_kept_of_an_address(given: str, kept: str) -> None:
    """Everything but the password, in a form that says the same when it is read again."""
    assert stored_address(given) == kept
    assert stored_address(kept) == kept


def test_a_received_project_connects_nowhere_untrusted(make_project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that a stranger's project names is not even looked up before the person trusts it."""
    with make_project(copy=True) as project:
        folder = project.folder
    content = json.loads((folder / "project.json").read_text())
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(0.2)
        content |= {"database": f"postgresql://ada@127.0.0.1:{listening.getsockname()[1]}/name"}
        (folder / "project.json").write_text(json.dumps(content))
        monkeypatch.setenv("PGPASSWORD", "mine")
        with pytest.raises(UntrustedProjectError, match="postgresql://ada@127"):
            Project.open(folder)
        with pytest.raises(TimeoutError):
            listening.accept()
    content["database"] = "postgresql://ada@127.0.0.1/name?sslkey=/etc/key"
    (folder / "project.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInputError, match="sslkey"):
        Project.open(folder, trust=True)


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_connections_that_are_cut_are_made_anew(make_project: Make, postgres: Postgres) -> None:
    """A cut costs nothing; a server that is away is said with a sentence; when it is back, work goes on by itself."""
    with make_project() as project:
        project.append(query(0))
        assert postgres.cut() > 0
        project.append(place(0))
        assert postgres.cut() > 0
        assert project.state.generation == 2
        postgres.stop()
        try:
            for _ in range(3):
                with pytest.raises(StorageError, match=r"cannot be (reached|read|written)"):
                    project.append(edit(0, (3.0, 3.0)))
                with pytest.raises(StorageError, match=r"cannot be (reached|read)"):
                    _ = project.state
        finally:
            postgres.start()
        project.append(edit(0, (4.0, 4.0)))
        assert [event.kind for event in project.events()] == ["query", "place", "place"]
        assert project.verify().ok


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_postgres_that_crashes_while_raters_answer(make_project: Make, postgres: Postgres) -> None:
    """Three crashes under four raters: every answer that was acknowledged is there once, and no other but the last."""
    with make_project() as project:
        project.append(query(0))
        over, told = threading.Event(), dict[str, list[float]]()

        def answer(rater: str) -> None:
            told[rater] = []
            with Project.open(project.folder, check_images=False) as own:
                x = 0.0
                while not over.is_set():
                    x += 1
                    with suppress(StorageError):
                        own.append(place(0, (x, 1.0), rater))
                        told[rater].append(x)

        raters = [threading.Thread(target=answer, args=(name,)) for name in ("ada", "ben", "eve", "kim")]
        for thread in raters:
            thread.start()
        for _ in range(3):
            time.sleep(0.5)
            postgres.crash()
            postgres.start()
        time.sleep(0.5)
        over.set()
        for thread in raters:
            thread.join(60)
        assert project.verify().ok
        stored = [(event.rater, event.placement.moving[0]) for event in project.events()[1:]]
        assert len(set(stored)) == len(stored)
        acknowledged = {(rater, x) for rater, answers in told.items() for x in answers}
        assert len(acknowledged) > 20
        assert acknowledged <= set(stored)


class Proxy:
    """Stands between a client and PostgreSQL, and breaks the connection at the next commit.

    With ``reaches`` the commit is done and its answer lost; without, the commit itself is lost.
    """

    def __init__(self, port: int) -> None:
        self._aim, self.reaches, self.breaks = port, False, False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._aim)) as server:
            back = threading.Thread(target=self._back, args=(server, client), daemon=True)
            self._lost = False
            back.start()
            while data := client.recv(65536):
                if self.breaks and b"COMMIT" in data:
                    self.breaks, self._lost = False, True
                    if self.reaches:
                        server.sendall(data)
                        time.sleep(0.3)
                    server.shutdown(socket.SHUT_RDWR)
                    return
                server.sendall(data)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        try:
            while data := server.recv(65536):
                if not self._lost:
                    client.sendall(data)
        except OSError:
            return

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[Proxy]:
    between = Proxy(postgres.port)
    yield between
    between.close()


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("reaches", [True, False])
def test_a_lost_commit_is_neither_lost_nor_doubled(
    make_project: Make, postgres: Postgres, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, reaches: bool
) -> None:
    """Where the answer was lost the event is acknowledged; where the commit was, it is not and can be repeated."""
    with make_project() as project:
        project.append(query(0))
    monkeypatch.setenv("WARPGAUGE_DATABASE", postgres.url.replace(str(postgres.port), str(proxy.port)))
    with Project.open(project.folder) as through:
        proxy.reaches, proxy.breaks = reaches, True
        if reaches:
            written = through.append(place(0))
        else:
            with pytest.raises(StorageError, match="the action was not saved"):
                through.append(place(0))
            written = through.append(place(0))
        assert not proxy.breaks
        assert through.events()[1:] == list(written)
        assert [event.kind for event in through.events()] == ["query", "place"]


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_an_older_database_that_was_put_back_is_noticed(make_project: Make, postgres: Postgres) -> None:
    """A running server refuses to go on from a database that lacks an acknowledged event."""
    with make_project() as project:
        project.append(query(0), place(0))
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute("ALTER TABLE warpgauge.events DISABLE TRIGGER events_are_never_changed")
            connection.execute("DELETE FROM warpgauge.events WHERE project = %s AND generation = 2", (project.id,))
            connection.execute("ALTER TABLE warpgauge.events ENABLE TRIGGER events_are_never_changed")
        with pytest.raises(StorageError, match="lacks event 2 of this project, which was acknowledged"):
            project.append(place(0))


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_many_open_projects_share_a_few_connections(make_project: Make, postgres: Postgres) -> None:
    """One for six at rest, which a cut does not stop; the last one closes all."""
    address = postgres.new_database("shared")
    with ExitStack() as opened:
        projects = [opened.enter_context(make_project(f"pair{number}", database=address)) for number in range(6)]
        for project in projects:
            project.append(query(0))
        assert connected(postgres, "shared", 1) == 1
        postgres.cut()
        projects[3].append(place(0))
        assert [project.state.generation for project in projects] == [1, 1, 1, 2, 1, 1]
    assert connected(postgres, "shared", 0) == 0


def connected(postgres: Postgres, name: str, wanted: int) -> int:
    """Return the number of connections to a database; one that was just closed may take a moment to vanish."""
    deadline = time.monotonic() + 20
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        while True:
            (row,) = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", (name,)).fetchall()
            if row[0] == wanted or time.monotonic() > deadline:
                return int(row[0])
            time.sleep(0.02)


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_writers_of_many_threads_do_not_share_a_transaction(make_project: Make) -> None:
    """Twenty threads for each of two projects: each answer is there once."""
    with make_project("one") as one, make_project("two") as two:
        for project in (one, two):
            project.append(*(query(number) for number in range(20)))
        writers = [
            threading.Thread(target=lambda p=project, k=number: p.append(place(k, rater=f"rater{k}")))
            for number in range(20)
            for project in (one, two)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(60)
        for project in (one, two):
            assert len(project.state.cells) == 20
            assert project.verify().ok


def test_tables_of_another_version(make_project: Make, postgres: Postgres) -> None:
    """A database without tables, without this project, or of a newer warpgauge says so."""
    address = postgres.new_database("versions")
    with make_project() as project:
        folder = project.folder
    call("copy", folder, address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ALTER TABLE warpgauge.events DISABLE TRIGGER USER")
        connection.execute("DELETE FROM warpgauge.events")
        connection.execute("DELETE FROM warpgauge.projects")
    with pytest.raises(ProjectError, match="does not hold this project"):
        Project.open(folder)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE warpgauge.meta SET version = 99")
    with pytest.raises(ProjectError, match="made by a newer warpgauge"):
        Project.open(folder)
