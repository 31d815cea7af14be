"""The log of a running server is replaced, deleted or put back: a sentence and 503, never 500; nothing is lost."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from warpgauge.project import Project
from web.server_tools import answer, served

READS = ("/api/query", "/api/progress", "/api/list", "/api/project")


def replaced(log: Path, by: Path) -> None:
    """Put another file in the log's place, as a sync client does; side files belong to the former one."""
    for side in ("-wal", "-shm"):
        log.with_name(f"{log.name}{side}").unlink(missing_ok=True)
    beside = log.with_name("incoming")
    shutil.copy2(by, beside)
    beside.replace(log)


def asked(clients: list[httpx.Client]) -> list[httpx.Response]:
    """Ask for everything from several browsers at once."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda job: job[0].get(job[1]), [(one, path) for path in READS for one in clients] * 3))


def deleted(log: Path, _: Path) -> None:
    """Remove the log."""
    log.unlink()


def damaged(log: Path, _: Path) -> None:
    """Put something else in the log's place."""
    replaced(log, Path(__file__))


@pytest.mark.parametrize("change", [replaced, deleted, damaged])
def test_a_log_that_was_replaced_or_deleted(flat: Path, tmp_path: Path, change: Callable[[Path, Path], None]) -> None:
    """Every request of every browser gets a sentence with 503; when the file is back, the work goes on by itself."""
    log, older, newer = flat / "annotations.sqlite", tmp_path / "older", tmp_path / "newer"
    with served(flat, "ada") as server:
        clients = [server.client("ada"), server.client()]
        query = clients[0].get("/api/query").json()
        checkpointed(flat, older)
        query = answer(clients[0], query, query["location"], confirmed=True).json()["next"]
        checkpointed(flat, newer)
        change(log, older)
        replies = [*asked(clients), answer(clients[0], query, query["location"], confirmed=True)]
        assert {one.status_code for one in replies} <= {200, 503}, [one.text for one in replies]
        assert {one.status_code for one in replies if one.request.url.path != "/api/project"} >= {503}
        for one in replies:
            if one.status_code == 503:
                assert "annotations.sqlite" in one.json()["error"]
                assert "closed database" not in one.text
        assert replies[-1].status_code == 503
        replaced(log, newer)
        assert all(one.status_code == 200 for one in asked(clients))
        assert answer(clients[0], query, query["location"], confirmed=True).status_code == 200
    with Project.open(flat) as project:
        assert sum(one.kind == "place" for one in project.events()) == 2


def test_a_log_replaced_by_a_copy_with_the_same_events(flat: Path, tmp_path: Path) -> None:
    """The first request after it is answered, by any browser, whatever was open."""
    with served(flat, "ada") as server:
        client = server.client("ada")
        query = client.get("/api/query").json()
        for _ in range(3):
            checkpointed(flat, tmp_path / "same")
            replaced(flat / "annotations.sqlite", tmp_path / "same")
            assert {one.status_code for one in asked([client, server.client()])} == {200}
            reply = answer(client, query, query["location"], confirmed=True)
            assert reply.status_code == 200, reply.text
            query = reply.json()["next"]


def checkpointed(folder: Path, aim: Path) -> None:
    """Copy the log with everything that was acknowledged in it."""
    source = sqlite3.connect(folder / "annotations.sqlite")
    copy = sqlite3.connect(aim)
    source.backup(copy)
    source.close()
    copy.close()
