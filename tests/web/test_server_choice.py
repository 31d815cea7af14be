"""Volunteered and moved landmarks, the guided start, questions before slips, refits: as the page does them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np

from web.server_tools import answer, events_of, make_flat, served

SHIFT = np.array([3.0, -2.0])
PLACES = [[60.0, 50.0], [220.0, 70.0], [140.0, 190.0]]


def get(client: httpx.Client, path: str) -> dict[str, Any]:
    found = client.get(path)
    assert found.status_code == 200, found.text
    content: dict[str, Any] = found.json()
    return content


def volunteer(client: httpx.Client, place: list[float], **more: Any) -> httpx.Response:
    body = {
        "fixed": place,
        "point": (np.array(place) + SHIFT).tolist(),
        "covariance": [[1.0, 0.0], [0.0, 1.0]],
        "alpha": 0.01,
        "generation": get(client, "/api/project")["generation"],
        **more,
    }
    return client.post("/api/volunteer", json=body)


def work(client: httpx.Client, count: int) -> dict[str, Any]:
    """Answer so many queries by the shift, and give the next one."""
    query = get(client, "/api/query")
    for _ in range(count):
        done = answer(client, query, (np.array(query["location"]) + SHIFT).tolist())
        assert done.status_code == 200, done.text
        query = done.json()["next"]
    return query


def test_the_guided_start_by_volunteering(tmp_path: Path) -> None:
    """The project says that it is due and what to ask for, until three landmarks are there; each is in the log."""
    folder = make_flat(tmp_path / "p", guided_start=True, refit="never")
    with served(folder, "ada") as server:
        ada = server.client("ada")
        # A program that asks for a question gets one, with the start beside it; the page begins with the start.
        asked = get(ada, "/api/query")
        start = asked["start"]
        assert asked["number"] == 1
        assert start == {"due": True, "volunteered": 0, "wanted": 3}
        for count, place in enumerate(PLACES, 1):
            done = volunteer(ada, place)
            assert done.status_code == 200, done.text
            start = done.json()["next"]["start"]
            assert (start["due"], start["volunteered"]) == (count < 3, count)
        rows = get(ada, "/api/list")["rows"]
        assert [row["chosen"] for row in rows] == ["volunteered"] * 3
        assert [row["location"] for row in rows] == PLACES
        assert [row["number"] for row in rows] == [1, 2, 3]
        query = get(ada, "/api/query")
        assert not query["own_choice"]
        assert query["number"] == 4
        assert query["start"]["volunteered"] == 3
        # The prediction knows the shift from the three landmarks.
        assert np.allclose(query["prediction"]["mean"], np.array(query["location"]) + SHIFT, atol=2.0)
    written = [(kind, payload.get("origin")) for _, _, kind, _, payload in events_of(folder) if kind == "query"]
    assert written[1:4] == [("query", "volunteered")] * 3


def test_the_guided_start_can_be_skipped(tmp_path: Path) -> None:
    folder = make_flat(tmp_path / "p", guided_start=True)
    with served(folder, "ada,ben") as server:
        ada = server.client("ada")
        done = ada.post("/api/start/skip", json={"generation": get(ada, "/api/project")["generation"]})
        assert done.status_code == 200
        assert not done.json()["next"]["start"]["due"]
        assert not get(ada, "/api/query")["start"]["due"]
        assert get(server.client("ben"), "/api/query")["start"]["due"]
    assert ("ada", "start") in [(rater, kind) for _, rater, kind, _, _ in events_of(folder)]


def test_undoing_a_landmark_of_the_start_goes_back_to_the_start(tmp_path: Path) -> None:
    """The start is due again, and the next landmark has the number 1."""
    with served(make_flat(tmp_path / "p", guided_start=True, refit="never"), "ada,ben") as server:
        ada, ben = server.client("ada"), server.client("ben")
        done = volunteer(ada, PLACES[0])
        undone = ada.post("/api/undo", json={"generation": done.json()["saved"]["generation"]})
        assert undone.status_code == 200, undone.text
        assert undone.json()["next"]["start"]["due"] is True
        for who in (ada, ben):
            assert volunteer(who, PLACES[1]).status_code == 200
            assert [row["number"] for row in get(who, "/api/list")["rows"]] == [1]


def test_undoing_a_volunteered_landmark_shows_the_current_query(tmp_path: Path) -> None:
    with served(make_flat(tmp_path / "p", refit="never")) as server:
        client = server.client()
        query = work(client, 4)
        done = volunteer(client, PLACES[0])
        undone = client.post("/api/undo", json={"generation": done.json()["saved"]["generation"]})
        assert undone.status_code == 200, undone.text
        assert undone.json()["next"]["query"] == query["query"]
        assert get(client, "/api/progress")["placed"] == 4


def test_a_queried_point_is_moved(tmp_path: Path) -> None:
    """Within the circle of the question; the answer and the list say where it was marked."""
    folder = make_flat(tmp_path / "p", refit="never")
    with served(folder) as server:
        client = server.client()
        query = get(client, "/api/query")
        assert 4 < query["radius"] <= 0.15 * 280
        beyond = query["radius"] + 1
        near = np.add(query["location"], [4.0, 0.0]).tolist()
        far = np.add(query["location"], [0.0, beyond if query["location"][1] < 140 else -beyond]).tolist()
        refused = answer(client, query, query["location"], fixed=far)
        assert refused.status_code == 422
        assert "whose radius is" in refused.json()["error"]
        assert answer(client, query, (np.array(near) + SHIFT).tolist(), fixed=near).status_code == 200
        assert get(client, f"/api/query/{query['query']}")["answer"]["fixed"] == near
        (row,) = get(client, "/api/list")["rows"]
        assert (row["location"], row["chosen"]) == (near, "moved")
    assert [p["placement"]["fixed"] for *_, kind, _, p in events_of(folder) if kind == "place"] == [near]


def test_a_slip_is_asked_about_once(tmp_path: Path) -> None:
    """409 with the kind "confirm" and one question; nothing is written until it is confirmed, then it is flagged."""
    folder = make_flat(tmp_path / "p", refit="never")
    with served(folder) as server:
        client = server.client()
        query = work(client, 10)
        before = events_of(folder)
        right = np.array(query["location"]) + SHIFT
        wrong = np.add(right, [60.0 if right[0] < 150 else -60.0, 0.0]).tolist()
        asked = answer(client, query, wrong)
        assert asked.status_code == 409
        told = asked.json()
        assert told["kind"] == "confirm"
        assert told["error"].startswith("This is ")
        assert told["error"].endswith("times the usual: keep it?")
        assert events_of(folder) == before
        kept = answer(client, query, wrong, confirmed=True)
        assert kept.status_code == 200
        assert get(client, f"/api/query/{query['query']}")["answer"]["flagged"]
        outside = volunteer(client, PLACES[0], point=[417.0, 100.0])
        assert (outside.status_code, outside.json()["kind"]) == (409, "confirm")
        assert "118 px outside the moving image" in outside.json()["error"]
    (flag,) = [payload["doubt"] for *_, payload in events_of(folder) if payload.get("doubt")]
    assert flag["confirmed"]
    assert flag["deviation"] > 8


def test_a_hidden_prediction_is_not_given_away_by_the_question(tmp_path: Path) -> None:
    """A rater is asked about the image only; what lies far from the prediction is saved and flagged."""
    folder = make_flat(tmp_path / "p", refit="never", hide_prediction=True)
    with served(folder, "ada") as server:
        ada = server.client("ada")
        query = work(ada, 10)
        right = np.array(query["location"]) + SHIFT
        asked = answer(ada, query, [-130.0, float(right[1])])
        assert asked.status_code == 409
        assert "other landmarks" not in asked.json()["error"]
        wrong = np.add(right, [60.0 if right[0] < 150 else -60.0, 0.0]).tolist()
        assert answer(ada, query, wrong).status_code == 200
    assert sum("doubt" in payload for *_, kind, _, payload in events_of(folder) if kind == "place") == 1
