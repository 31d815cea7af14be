"""Running servers in earnest: several processes, a database that goes away, probes, figures, logs."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import httpx
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
        headers = {
            name: (lambda base, token=token: cookie(shared, base, token)) for name, token in first.tokens.items()
        }
        happens = [(0.3, postgres.cut), (0.5, first.kill)]
        load = answer_all([first.base, second.base], headers, EACH, 0.02, happens, limit=120)
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
        assert stranger.get("/readyz").json() == {"status": "ready"}
        postgres.stop()
        try:
            refused = answer(client, query, query["location"])
            assert refused.status_code == 503
            assert "cannot be" in refused.json()["error"]
            wait_until(lambda: stranger.get("/readyz").status_code == 503)
            assert stranger.get("/readyz").json()["status"] == "not ready"
            assert stranger.get("/healthz").json() == {"status": "alive"}
            assert client.get("/api/images/fixed/tile?level=0").status_code == 200
        finally:
            postgres.start()
        wait_until(lambda: stranger.get("/readyz").status_code == 200)
        assert answer(client, query, query["location"]).status_code == 200
    with Project.open(shared) as project:
        assert [event.kind for event in project.events()].count("place") == 1


def test_not_ready_while_writes_are_refused(flat: Path, tmp_path: Path) -> None:
    """Reading works, but the second copy cannot be written: no proxy may send people here until it can."""
    mirror = tmp_path / "mirror"
    with served(flat, "ada", mirror=mirror) as server:
        client, stranger = server.client("ada"), server.stranger()
        query = client.get("/api/query").json()
        assert stranger.get("/readyz").status_code == 200
        mirror.rename(tmp_path / "away")
        mirror.write_text("not a folder")
        assert answer(client, query, query["location"]).status_code == 503
        wait_until(lambda: stranger.get("/readyz").status_code == 503)
        assert client.get("/api/list").status_code == 200
        mirror.unlink()
        (tmp_path / "away").rename(mirror)
        assert answer(client, query, query["location"]).status_code == 200
        wait_until(lambda: stranger.get("/readyz").status_code == 200)


def _children(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in text.split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the ids of workers are read from /proc")
def test_workers(tmp_path: Path) -> None:
    """Two workers on one port: one that is killed is started again, figures and logs are of both, SIGTERM ends all."""
    folder, figures = make_flat(tmp_path / "flat"), free_port()
    options = (
        "--workers",
        "2",
        "--metrics-port",
        str(figures),
        "--log-format",
        "json",
        "--mirror",
        str(tmp_path / "m"),
    )
    server = AppServer(folder, free_port(), *options, raters=["ada"])

    def told() -> str:
        return httpx.get(f"http://127.0.0.1:{figures}/metrics", trust_env=False, timeout=20).text

    def noted() -> tuple[int, int]:
        """Answers by the figures, and lines about answers in the log."""
        found = re.search(r'warpgauge_answers_total{kind="place"} (\d+)', told())
        whole = server.said().rpartition("\n")[0].splitlines()
        lines = [line for line in map(json.loads, whole) if line.get("route", "").endswith("/place")]
        return int(found[1]) if found else 0, sum(line["rater"] == "ada" for line in lines)

    try:
        wait_until(lambda: len(_children(server.process.pid)) == 2)  # the first is ready, the other may be on its way
        workers = _children(server.process.pid)
        kinds: list[int] = []
        for _ in range(6):
            with server.client(server.tokens["ada"]) as client:  # a new connection goes to either
                query = client.get("/api/query").json()
                kinds.append(answer(client, query, query["location"]).status_code)
        assert kinds == [200] * 6
        wait_until(lambda: noted() == (6, 6))  # an answer is acknowledged before it is counted
        os.kill(workers[0], signal.SIGKILL)
        wait_until(lambda: len(_children(server.process.pid)) == 2 and workers[0] not in _children(server.process.pid))
        with server.client(server.tokens["ada"]) as client:
            query = client.get("/api/query").json()
            assert answer(client, query, query["location"]).status_code == 200
        wait_until(lambda: noted() == (7, 7))  # what the killed one had counted stays
        text = told()
        assert 'route="/api/query/{n}/place"' in text
        assert "warpgauge_request_seconds_bucket" in text
        assert server.tokens["ada"] not in server.said()
        ended = _children(server.process.pid)
    finally:
        assert server.stop() == 0
    assert not any(Path(f"/proc/{worker}").exists() for worker in ended)
    with Project.open(folder) as project:
        assert project.verify().ok
        project.use_mirror(tmp_path / "m")  # the mirror that both wrote is whole


def test_wrong_numbers_of_workers(flat: Path) -> None:
    """One sentence, and no server."""
    assert "must be 1 to 64, got 0" in call("annotate", flat, "--workers", 0, code=1)
    assert "choose another --metrics-port" in call("annotate", flat, "--metrics-port", 99999, "--no-browser", code=1)
