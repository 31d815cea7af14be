"""Running servers in earnest: two of them, a database that goes away, probes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from command_tools import call
from postgres_tools import Postgres, free_port
from warpgauge.project import Project
from web.load_tools import AppServer, answer_all, check_log, cookie
from web.server_tools import answer, make_flat, served, wait_until

RATERS, EACH = 6, 4
NAMES = [f"rater{k}" for k in range(RATERS)]


@pytest.fixture
def shared(tmp_path: Path, postgres: Postgres) -> Path:
    """A project whose log is in PostgreSQL; each rater places a few."""
    folder = make_flat(tmp_path / "shared", budget=EACH, refit="never")
    call("copy", folder, postgres.url)
    return folder


def test_two_servers_one_of_which_is_killed(shared: Path, postgres: Postgres) -> None:
    """Raters on two servers and one database, one server killed, connections cut: nothing is lost."""
    first = AppServer(shared, free_port(), raters=NAMES)
    second = AppServer(shared, free_port())
    try:
        headers = {name: cookie(first.base, token) for name, token in first.tokens.items()}
        happens = [(0.3, postgres.cut), (0.5, first.kill)]
        load = answer_all([first.pair, second.pair], headers, EACH, 0.02, happens, limit=120)
        assert check_log(shared, load, RATERS, EACH)["in the log"] == RATERS * EACH
        assert first.process.poll() == -signal.SIGKILL
    finally:
        first.stop()
        assert second.stop() == 0


def test_a_database_that_is_away(shared: Path, postgres: Postgres) -> None:
    """503 with a sentence, not ready but alive; when it is back, the same answer goes through by itself."""
    with served(shared, "ada") as server:
        client, stranger = server.client("ada"), server.stranger()
        query = client.get("/api/query").json()
        assert stranger.get(f"{server.base}/readyz").json() == {"status": "ready"}
        postgres.stop()
        try:
            refused = answer(client, query, query["location"])
            assert refused.status_code == 503
            assert "cannot be" in refused.json()["error"]
            wait_until(lambda: stranger.get(f"{server.base}/readyz").status_code == 503)
            assert stranger.get(f"{server.base}/readyz").json()["status"] == "not ready"
            assert stranger.get(f"{server.base}/healthz").json() == {"status": "alive"}
            assert client.get("/api/images/fixed/tile?level=0").status_code == 200
        finally:
            postgres.start()
        wait_until(lambda: stranger.get(f"{server.base}/readyz").status_code == 200)
        assert answer(client, query, query["location"]).status_code == 200
    with Project.open(shared) as project:
        assert [event.kind for event in project.events()].count("place") == 1


def test_not_ready_while_writes_are_refused(flat: Path, tmp_path: Path) -> None:
    """Reading works, but the second copy cannot be written: no proxy may send people here until it can."""
    mirror = tmp_path / "mirror"
    with served(flat, "ada", mirror=mirror) as server:
        client, stranger = server.client("ada"), server.stranger()
        query = client.get("/api/query").json()
        assert stranger.get(f"{server.base}/readyz").status_code == 200
        mirror.rename(tmp_path / "away")
        mirror.write_text("not a folder")
        assert answer(client, query, query["location"]).status_code == 503
        wait_until(lambda: stranger.get(f"{server.base}/readyz").status_code == 503)
        assert client.get("/api/list").status_code == 200
        mirror.unlink()
        (tmp_path / "away").rename(mirror)
        assert answer(client, query, query["location"]).status_code == 200
        wait_until(lambda: stranger.get(f"{server.base}/readyz").status_code == 200)
