"""Asking and answering over a real connection: what is saved, what conflicts, what survives."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from warpgauge.project import Project
from web.server_tools import Served, answer, events_of, make_flat, make_solid, served


@pytest.fixture
def server(flat: Path) -> Any:
    """A server of a fresh 2D project with two raters."""
    with served(flat, "ada,ben") as one:
        yield one


def query_of(client: httpx.Client, path: str = "/api/query") -> dict[str, Any]:
    found = client.get(path)
    assert found.status_code == 200, found.text
    content: dict[str, Any] = found.json()
    return content


def post(client: httpx.Client, path: str, **body: Any) -> httpx.Response:
    return client.post(path, json=body)


def test_a_placement_stands_in_the_log_as_it_was_sent(server: Served) -> None:
    """Point, covariance, level and time are in the log to the last bit when the answer comes, under the own name."""
    client = server.client("ada")
    query = query_of(client)
    covariance = [[1.25, -0.3], [-0.3, 0.7071067811865476]]
    reply = answer(client, query, [12.345678901234567, 98.7], covariance=covariance, alpha=0.05, duration=3.25)
    assert reply.status_code == 200
    row = [event for event in events_of(server.folder) if event[2] == "place"][-1]
    saved = reply.json()["saved"]
    assert (row[0], row[1], row[3]) == (saved["generation"], "ada", query["query"])
    stored = {"moving": [12.345678901234567, 98.7], "covariance": covariance, "alpha": 0.05}
    assert row[4]["placement"] == stored
    following = reply.json()["next"]
    assert following["query"] != query["query"]
    assert following["number"] == 2
    former = query_of(client, f"/api/query/{query['query']}")
    assert former["answer"]["point"] == [12.345678901234567, 98.7]
    assert former["answer"]["covariance"] == covariance


def test_a_volume_is_answered_in_its_world(tmp_path: Path) -> None:
    """In an oblique volume a full 3 x 3 covariance comes back as it was sent, and a 2D placement is refused."""
    with served(make_solid(tmp_path / "solid")) as server:
        client = server.client()
        query = query_of(client)
        assert len(query["location"]) == 3
        matrix = [[2.0, 0.5, -0.25], [0.5, 1.0, 0.125], [-0.25, 0.125, 3.0]]
        assert answer(client, query, query["location"][:2]).status_code == 422
        assert answer(client, query, query["location"], covariance=matrix).status_code == 200
        assert query_of(client, f"/api/query/{query['query']}")["answer"]["covariance"] == matrix


def test_skip_another_previous_undo_redo_disable(server: Served) -> None:
    """Each action does to the rater's answers what its name says, and the log says so too."""
    client = server.client("ada")
    first = query_of(client)
    second = answer(client, first, [20.0, 30.0]).json()["next"]
    reply = post(client, f"/api/query/{second['query']}/skip", reason="torn_or_missing", text="a fold",
                 generation=second["generation"], duration=1.0)  # fmt: skip
    third = reply.json()["next"]
    fourth = post(client, f"/api/query/{third['query']}/another", generation=third["generation"]).json()
    assert len({first["query"], second["query"], third["query"], fourth["query"]}) == 4
    assert query_of(client, f"/api/previous?query={fourth['query']}")["query"] == third["query"]
    assert query_of(client, f"/api/previous?query={third['query']}")["query"] == second["query"]
    assert query_of(client, f"/api/previous?query={second['query']}")["query"] == first["query"]
    assert client.get(f"/api/previous?query={first['query']}").status_code == 404

    skipped = query_of(client, f"/api/query/{second['query']}")
    assert skipped["answer"]["reason"] == "torn_or_missing"
    assert skipped["answer"]["text"] == "a fold"
    undone = post(client, "/api/undo", generation=skipped["generation"]).json()
    assert (undone["next"]["query"], undone["next"]["answer"]) == (second["query"], None)
    assert undone["next"]["can_redo"]
    redone = post(client, "/api/redo", generation=undone["saved"]["generation"]).json()
    assert redone["next"]["answer"]["reason"] == "torn_or_missing"
    assert not redone["next"]["can_redo"]
    nothing = post(client, "/api/redo", generation=redone["saved"]["generation"])
    assert nothing.status_code == 422

    off = post(client, f"/api/query/{first['query']}/disable", disabled=True, generation=redone["saved"]["generation"])
    assert off.json()["next"]["disabled"]
    rows = {row["query"]: row for row in query_of(client, "/api/list")["rows"]}
    assert rows[first["query"]]["disabled"]
    assert rows[second["query"]]["skipped"]
    assert third["query"] not in rows
    kinds = [event[2] for event in events_of(server.folder) if event[1] == "ada"]
    assert kinds == ["place", "skip", "defer", "undo", "redo", "disable"]


def test_a_skip_can_change_its_reason_and_become_a_placement(server: Served) -> None:
    """Whatever was answered can be answered otherwise."""
    client = server.client("ada")
    query = query_of(client)
    path = f"/api/query/{query['query']}"
    assert post(client, f"{path}/skip", reason="ambiguous", generation=query["generation"]).status_code == 200
    now = query_of(client, path)
    assert post(client, f"{path}/skip", reason="not_visible", generation=now["generation"]).status_code == 200
    now = query_of(client, path)
    assert now["answer"]["reason"] == "not_visible"
    assert answer(client, now, [5.0, 6.0]).status_code == 200
    now = query_of(client, path)
    assert answer(client, now, [7.0, 8.0]).status_code == 200
    assert query_of(client, path)["answer"]["point"] == [7.0, 8.0]


def test_a_second_tab_conflicts_and_the_stored_version_is_shown(server: Served) -> None:
    """What another tab wrote meanwhile is not lost: 409 with what is stored, and nothing is written."""
    one, other = server.client("ada"), server.client("ada")
    seen, same = query_of(one), query_of(other)
    assert seen["query"] == same["query"]
    assert answer(one, seen, [10.0, 20.0]).status_code == 200
    before = events_of(server.folder)
    refused = answer(other, same, [50.0, 60.0])
    assert (refused.status_code, refused.json()["kind"]) == (409, "conflict")
    assert refused.json()["theirs"]["point"] == [10.0, 20.0]
    assert refused.json()["query"] == seen["query"]
    late = post(other, f"/api/query/{same['query']}/skip", reason="other", text="", generation=same["generation"])
    assert late.status_code == 409
    assert late.json()["theirs"]["point"] == [10.0, 20.0]
    assert post(other, "/api/undo", generation=same["generation"]).status_code == 409
    assert post(other, f"/api/query/{same['query']}/another", generation=same["generation"]).status_code == 409
    assert events_of(server.folder) == before
    chosen = answer(other, {**same, "generation": refused.json()["generation"]}, [50.0, 60.0])
    assert chosen.status_code == 200
    assert query_of(one, f"/api/query/{seen['query']}")["answer"]["point"] == [50.0, 60.0]


def test_replayed_requests_change_nothing(server: Served) -> None:
    """A placement that is stored already is acknowledged as it was; other writes name a state that is past by then."""
    client = server.client("ada")
    query = query_of(client)
    body = {"point": [1.0, 2.0], "covariance": [[1, 0], [0, 1]], "alpha": 0.01, "generation": query["generation"]}
    path = f"/api/query/{query['query']}"
    first = client.post(f"{path}/place", json=body).json()
    second = first["next"]
    following = answer(client, second, second["location"]).json()["next"]
    before = events_of(server.folder)
    repeated = client.post(f"{path}/place", json=body)
    assert (repeated.status_code, repeated.json()["saved"]) == (200, first["saved"])
    assert client.post(f"{path}/place", json={**body, "point": [1.0, 2.5]}).status_code == 409
    assert events_of(server.folder) == before
    undo = {"generation": following["generation"]}
    another = {"generation": following["generation"]}
    assert client.post(f"/api/query/{following['query']}/another", json=another).status_code == 200
    assert client.post("/api/undo", json=undo).status_code == 200
    before = events_of(server.folder)
    assert client.post("/api/undo", json=undo).status_code == 409
    assert client.post(f"/api/query/{following['query']}/another", json=another).status_code in (409, 422)
    assert events_of(server.folder) == before


@pytest.mark.parametrize(
    "change",
    [
        {"point": [1.0]},
        {"point": [1.0, 2.0, 3.0]},
        {"point": ["1", 2.0]},
        {"point": [1e13, 0.0]},
        {"point": [1e9, 0.0]},
        {"point": None},
        {"covariance": [[1.0, 0.0], [0.0, -1.0]]},
        {"covariance": [[1.0, 2.0], [2.0, 1.0]]},
        {"covariance": [[1.0, 0.5], [0.4, 1.0]]},
        {"covariance": [[0.0, 0.0], [0.0, 0.0]]},
        {"covariance": [[1e-12, 0.0], [0.0, 1.0]]},
        {"covariance": [[1e20, 0.0], [0.0, 1.0]]},
        {"covariance": [[1.0, 0.0]]},
        {"covariance": [[1.0], [0.0]]},
        {"covariance": 1.0},
        {"alpha": 0.0},
        {"alpha": 1.5},
        {"alpha": True},
        {"duration": -1.0},
        {"generation": 10**6},
        {"generation": -1},
        {"rater": "ben"},
    ],
)
def test_a_placement_that_makes_no_sense_is_refused(flat_server: Served, change: dict[str, Any]) -> None:
    """Wrong shapes, numbers out of range, matrices that are no covariance: 422, a sentence, and nothing is written."""
    client = flat_server.client("ada")
    query = query_of(client)
    before = events_of(flat_server.folder)
    refused = answer(client, query, [10.0, 10.0], **change)
    assert refused.status_code == 422, refused.text
    assert refused.json()["error"].endswith(".")
    assert events_of(flat_server.folder) == before


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(flat_server: Served, text: str) -> None:
    """JSON as Python and JavaScript libraries write it by mistake."""
    client = flat_server.client("ada")
    query = query_of(client)
    body = (
        f'{{"point": [{text}, 1], "covariance": [[1, 0], [0, 1]], "alpha": 0.01, "generation": {query["generation"]}}}'
    )
    refused = client.post(
        f"/api/query/{query['query']}/place", content=body.encode(), headers={"Content-Type": "application/json"}
    )
    assert refused.status_code == 422


@pytest.mark.parametrize("number", ["7000", "-1", "x", "1.5", "99999999999999999999999", "..", "0x1"])
def test_a_query_that_is_not_there(flat_server: Served, number: str) -> None:
    """404 or 422 for reading and for writing."""
    client = flat_server.client("ada")
    assert client.get(f"/api/query/{number}").status_code in (404, 422)
    body = {"point": [1, 1], "covariance": [[1, 0], [0, 1]], "alpha": 0.01, "generation": 1}
    assert client.post(f"/api/query/{number}/place", json=body).status_code in (404, 422)


@pytest.mark.parametrize("reason", ["", "bored", None, 3])
def test_a_skip_needs_one_of_the_reasons(flat_server: Served, reason: Any) -> None:
    """Anything else is refused, as is text that cannot be shown."""
    client = flat_server.client("ada")
    query = query_of(client)
    path = f"/api/query/{query['query']}/skip"
    assert post(client, path, reason=reason, generation=query["generation"]).status_code == 422
    for text in ("\x00", "\ud800", "x" * 2001):
        body = json.dumps({"reason": "other", "text": text, "generation": query["generation"]})
        kind = {"Content-Type": "application/json"}
        assert client.post(path, content=body.encode(), headers=kind).status_code == 422


def test_a_blind_raters_progress_does_not_depend_on_the_answers_of_others(tmp_path: Path) -> None:
    """Ada's figures, curve and rules stay the same number by number while ben answers; the organiser's change."""
    folder = make_flat(tmp_path / "flat", stop_mean_sd=0.001, refit="never")
    with served(folder, "ada,ben") as server:
        ada, ben, organiser = server.client("ada"), server.client("ben"), server.client()
        query = ada.get("/api/query").json()
        reply = answer(ada, query, [query["location"][0] + 3, query["location"][1] - 2]).json()
        assert reply["next"]["query"] == 1
        told, overall = ada.get("/api/progress").json(), organiser.get("/api/progress").json()
        query = ben.get("/api/query").json()
        for _ in range(4):
            query = answer(ben, query, [query["location"][0] + 5, query["location"][1] + 1]).json()["next"]
        after = ada.get("/api/progress").json()
        assert after == told
        assert after["annotations"] == 1
        assert len(after["curve"]) == 2
        assert organiser.get("/api/progress").json()["mean_sd"] < 0.9 * overall["mean_sd"]
        assert organiser.get("/api/progress").json()["annotations"] == 4
        # Ben has answered more, so that he is told less uncertainty than ada, in the rule's sentence too.
        assert ben.get("/api/progress").json()["mean_sd"] < after["mean_sd"]
        assert f"{after['mean_sd']:.3g}" in after["stop"][0]["sentence"]


def test_each_query_has_one_number_everywhere(tmp_path: Path) -> None:
    """One put aside: numbers count what the rater saw, in the list and after going back too."""
    with served(make_flat(tmp_path / "flat"), "ada") as server:
        ada = server.client("ada")
        query = ada.get("/api/query").json()
        seen = [query]
        query = ada.post(f"/api/query/{query['query']}/another", json={"generation": query["generation"]}).json()
        for _ in range(3):
            seen.append(query)
            query = answer(ada, query, query["location"]).json()["next"]
        assert [one["number"] for one in seen] == [1, 2, 3, 4]
        rows = ada.get("/api/list").json()["rows"]
        assert {row["query"]: row["number"] for row in rows} == {one["query"]: one["number"] for one in seen[1:]}
        again = [ada.get(f"/api/query/{one['query']}").json()["number"] for one in seen]
        assert again == [1, 2, 3, 4]


def test_raters_who_are_not_blind_see_all(tmp_path: Path) -> None:
    """Where the project says otherwise, the list shows everybody's answers with their names."""
    with served(make_flat(tmp_path / "p", blind=False), "ada,ben") as server:
        ada, ben = server.client("ada"), server.client("ben")
        first = query_of(ada)
        answer(ada, first, first["location"])
        assert [row["rater"] for row in query_of(ben, "/api/list")["rows"]] == ["ada"]
        assert ben.get("/api/transforms").status_code == 200


def test_a_killed_server_has_all_that_it_acknowledged(flat: Path) -> None:
    """kill -9 amid answers: a new server on the same port goes on with the same cookie, and nothing is missing."""
    rng = random.Random(3)
    with served(flat, "ada", process=True) as first:
        client, port = first.client("ada"), first.port
        cookie = dict(client.cookies.items())
        acknowledged: dict[int, list[float]] = {}
        stop = threading.Timer(0.3, first.kill)
        query = query_of(client)
        pending: tuple[int, list[float]] | None = None
        while True:
            point = [rng.uniform(0, 250), rng.uniform(0, 250)]
            pending = query["query"], point
            try:
                reply = answer(client, query, point, confirmed=True)
            except httpx.TransportError:
                break
            assert reply.status_code == 200
            acknowledged[query["query"]] = point
            query = reply.json()["next"]
            if len(acknowledged) == 2:  # however busy the machine is, some are acknowledged before
                stop.start()
        stop.join()
        client.close()
    assert len(acknowledged) >= 2
    with (
        served(flat, "ada", port) as second,
        httpx.Client(base_url=second.pair, cookies=cookie, trust_env=False) as tab,
    ):
        rows = {row["query"]: row["point"] for row in query_of(tab, "/api/list")["rows"]}
        assert pending is not None
        # The last one may have been written before its answer could be sent.
        extra = set(rows) - set(acknowledged)
        assert extra <= {pending[0]}
        assert all(rows[number] == point for number, point in acknowledged.items())
        resumed = query_of(tab)
        assert resumed["answer"] is None
        assert answer(tab, resumed, [1.0, 1.0], confirmed=True).status_code == 200
        if not extra:
            # What the page kept is sent again as it was, and is saved or found to have been.
            assert resumed["query"] == pending[0]
    with Project.open(flat) as project:
        assert project.verify().ok


def test_many_raters_at_once_lose_nothing(tmp_path: Path) -> None:
    """Eight raters answer at the same time: every acknowledged answer is in the log once, generations are unique."""
    names = [f"rater{k}" for k in range(8)]
    with served(make_flat(tmp_path / "p"), ",".join(names)) as server:
        clients = {name: server.client(name) for name in names}
        saved: dict[str, list[int]] = {name: [] for name in names}
        problems: list[str] = []

        def work(name: str) -> None:
            query = query_of(clients[name])
            for _ in range(5):
                reply = answer(clients[name], query, query["location"])
                if reply.status_code != 200:
                    problems.append(reply.text)
                    return
                saved[name].append(reply.json()["saved"]["generation"])
                query = reply.json()["next"]

        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        placed = {event[0]: event[1] for event in events_of(server.folder) if event[2] == "place"}
        assert placed == {generation: name for name in names for generation in saved[name]}
        assert len(placed) == 40
