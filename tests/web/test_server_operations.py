"""Running servers in earnest: two of them, a database that goes away, probes."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from command_tools import call
from postgres_tools import Postgres
from warpgauge.project import Project
from web.server_tools import answer, make_flat, served, wait_until

RATERS, EACH = 6, 4
NAMES = [f"rater{k}" for k in range(RATERS)]


@pytest.fixture
def shared(tmp_path: Path, postgres: Postgres) -> Path:
    """A project whose log is in PostgreSQL; each rater places a few."""
    folder = make_flat(tmp_path / "shared", budget=EACH, refit="never")
    call("copy", folder, postgres.url)
    return folder


def rate(addresses: list[str], cookies: dict[str, str], saved: list[int], turn: int) -> None:
    """Answer all questions of a rater; where a server refuses or is gone, look again at the other, as a page does."""
    query: dict[str, Any] = {}
    while "done" not in query:
        turn += 1
        address = addresses[turn % len(addresses)]
        with (
            suppress(httpx.TransportError),
            httpx.Client(base_url=address, cookies=cookies, timeout=60, trust_env=False) as client,
        ):
            query = client.get("/api/query").json()
            while "query" in query:
                reply = answer(client, query, query["location"], confirmed=True)
                if reply.status_code != 200:
                    break
                saved.append(reply.json()["saved"]["generation"])
                query = reply.json()["next"]
        time.sleep(0.1)


def test_two_servers_one_of_which_is_killed(shared: Path, postgres: Postgres) -> None:
    """Raters on two servers and one database, connections cut, one server killed: what was acknowledged is there."""
    saved: dict[str, list[int]] = {name: [] for name in NAMES}

    def share() -> float:
        return sum(map(len, saved.values())) / (RATERS * EACH)

    with served(shared, ",".join(NAMES), process=True) as first, served(shared, process=True) as second:
        cookies = {name: dict(first.client(name).cookies) for name in NAMES}
        addresses = [first.pair, second.pair]
        threads = [
            threading.Thread(target=rate, args=(addresses, cookies[name], saved[name], turn))
            for turn, name in enumerate(NAMES)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: share() >= 0.3, 60)
        postgres.cut()
        wait_until(lambda: share() >= 0.5, 60)
        first.kill()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert second.stop() == 0
    with Project.open(shared, check_images=False) as project:
        placed = [event for event in project.events() if event.kind == "place"]
        assert project.verify().ok
    acknowledged = {(name, generation) for name, generations in saved.items() for generation in generations}
    assert acknowledged <= {(event.rater, event.generation) for event in placed}
    assert len({(event.rater, event.query) for event in placed}) == len(placed) == RATERS * EACH


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
