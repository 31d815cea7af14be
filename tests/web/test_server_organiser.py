"""What organisers see and decide: distances and fusions, adjudication and its locks, places that all are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from warpgauge.core.rater_fusion import fuse_raters
from warpgauge.session.queries import OWN
from web.server_tools import Served, answer, events_of, make_flat, served


@pytest.fixture
def server(flat: Path) -> Any:
    """A server of a fresh 2D project with two raters."""
    with served(flat, "ada,ben") as one:
        yield one


def get(client: httpx.Client, path: str) -> Any:
    found = client.get(path)
    assert found.status_code == 200, found.text
    return found.json()


def test_another_raters_token_does_nothing_to_ones_answers(server: Served) -> None:
    """Ben's undo, edit and skip are Ben's own: Ada's answer stays, and her name cannot be sent along."""
    ada, ben = server.client("ada"), server.client("ben")
    query = get(ada, "/api/query")
    answer(ada, query, [30.0, 40.0])
    generation = get(ben, "/api/project")["generation"]
    assert ben.post("/api/undo", json={"generation": generation}).status_code == 422
    number = query["query"]
    assert (
        ben.post(f"/api/query/{number}/disable", json={"disabled": True, "generation": generation}).status_code == 422
    )
    assert answer(ben, {**query, "generation": generation}, [70.0, 80.0]).status_code == 200
    assert get(ada, f"/api/query/{number}")["answer"]["point"] == [30.0, 40.0]
    assert get(ben, f"/api/query/{number}")["answer"]["point"] == [70.0, 80.0]


def test_the_organiser_sees_distances_and_the_fusion(server: Served) -> None:
    """Distances between two raters by hand, bias and fused points as the library's fusion gives them."""
    marks: dict[str, list[list[float]]] = {"ada": [], "ben": []}
    offsets = np.random.default_rng(0).normal(0, 2, (2, 5, 2))
    for who, name in enumerate(marks):
        client = server.client(name)
        query = get(client, "/api/query")
        for step in range(5):
            point = (np.asarray([50.0 + 30 * step, 60.0 + 20 * step]) + offsets[who, step]).tolist()
            marks[name].append(point)
            query = answer(client, query, point, confirmed=True).json()["next"]
    organiser = server.client()
    locations = get(organiser, "/api/locations")["locations"]
    ada, ben = np.array(marks["ada"]), np.array(marks["ben"])
    distances = np.linalg.norm(ada - ben, axis=1)
    assert [row["max_distance"] for row in locations[:5]] == pytest.approx(distances.tolist())
    fused = [row["fused"]["point"] for row in locations[:5]]
    np.testing.assert_allclose(fused, (ada + ben) / 2)
    raters = {row["name"]: row for row in get(organiser, "/api/raters")["raters"]}
    assert raters["ada"]["placed"] == 5
    np.testing.assert_allclose(raters["ada"]["bias"], fuse_raters(marks).bias[0])
    np.testing.assert_allclose(raters["ada"]["bias"], (ada - ben).mean(axis=0) / 2, atol=1e-12)
    assert {mark["rater"] for mark in locations[0]["marks"]} == {"ada", "ben"}
    assert raters["organiser"]["role"] == "organiser"
    assert (raters["ada"]["has_link"], raters["organiser"]["has_link"]) == (True, False)


def test_a_settled_location_is_locked_until_it_is_asked_again(server: Served) -> None:
    """Raters can neither change, skip, disable nor undo there; asking again opens a new query for one rater."""
    ada, ben, organiser = server.client("ada"), server.client("ben"), server.client()
    query = get(ada, "/api/query")
    answer(ada, query, [30.0, 40.0])
    generation = get(organiser, "/api/locations")["generation"]
    settle = {"text": "taken", "generation": generation}
    assert organiser.post(f"/api/locations/{query['query']}/resolve", json=settle).status_code == 200
    now = get(ada, f"/api/query/{query['query']}")
    assert now["locked"]
    before = events_of(server.folder)
    assert answer(ada, now, [31.0, 41.0]).status_code == 403
    path = f"/api/query/{query['query']}"
    assert ada.post(f"{path}/skip", json={"reason": "other", "generation": now["generation"]}).status_code == 403
    assert ada.post(f"{path}/disable", json={"disabled": True, "generation": now["generation"]}).status_code == 403
    assert ada.post("/api/undo", json={"generation": now["generation"]}).status_code == 403
    assert events_of(server.folder) == before
    assert organiser.post(f"/api/locations/{query['query']}/resolve", json=settle).status_code == 422  # replayed

    again = {"rater": "ada", "generation": get(organiser, "/api/locations")["generation"]}
    asked = organiser.post(f"/api/locations/{query['query']}/ask_again", json=again)
    assert asked.status_code == 200
    number = OWN  # the first that is for one rater only: raters know it by that name
    fresh = get(ada, f"/api/query/{number}")
    assert not fresh["locked"]
    assert fresh["location"] == query["location"]
    assert ben.get(f"/api/query/{number}").status_code == 404
    assert answer(ada, fresh, [33.0, 44.0]).status_code == 200
    rows = get(organiser, "/api/locations")["locations"]
    assert rows[query["query"]]["fused"]["point"] == [33.0, 44.0]


def test_excluding_a_mark_takes_it_out_of_the_model_only(server: Served) -> None:
    """The fusion is the other rater's mark alone; the excluded rater still sees their own answer; including undoes."""
    ada, ben, organiser = server.client("ada"), server.client("ben"), server.client()
    query = get(ada, "/api/query")
    answer(ada, query, [30.0, 40.0])
    answer(ben, get(ben, "/api/query"), [34.0, 48.0])
    number = query["query"]
    seen = get(organiser, "/api/locations")
    assert seen["locations"][number]["fused"]["point"] == pytest.approx([32.0, 44.0])
    body = {"rater": "ada", "text": "slipped", "generation": seen["generation"]}
    assert organiser.post(f"/api/locations/{number}/exclude", json=body).status_code == 200
    assert get(organiser, "/api/locations")["locations"][number]["fused"]["point"] == [34.0, 48.0]
    # Whose mark it was is hidden while any place is open: no count falls.
    assert {row["placed"] for row in get(organiser, "/api/raters")["raters"] if row["role"] == "rater"} == {1}
    assert get(ada, f"/api/query/{number}")["answer"]["point"] == [30.0, 40.0]
    assert organiser.post(f"/api/locations/{number}/exclude", json=body).status_code == 422  # replayed
    body["generation"] = get(organiser, "/api/locations")["generation"]
    assert organiser.post(f"/api/locations/{number}/include", json=body).status_code == 200
    assert get(organiser, "/api/locations")["locations"][number]["fused"]["point"] == pytest.approx([32.0, 44.0])


def test_what_changed_after_the_organiser_looked_is_not_judged(server: Served) -> None:
    """A decision on marks that have been moved since is refused, so that nothing is settled unseen."""
    ada, organiser = server.client("ada"), server.client()
    query = get(ada, "/api/query")
    answer(ada, query, [30.0, 40.0])
    seen = get(organiser, "/api/locations")["generation"]
    answer(ada, get(ada, f"/api/query/{query['query']}"), [60.0, 70.0])
    before = events_of(server.folder)
    for act, body in (("resolve", {}), ("exclude", {"rater": "ada"}), ("ask_again", {})):
        content = {**body, "generation": seen}
        assert organiser.post(f"/api/locations/{query['query']}/{act}", json=content).status_code == 422
    assert events_of(server.folder) == before


def test_places_are_chosen_before_anybody_answers(tmp_path: Path) -> None:
    """The organiser is shown one circle after the other; what is chosen is asked of all, exactly there."""
    with served(make_flat(tmp_path / "p"), "ada,ben") as server:
        ada, ben, organiser = server.client("ada"), server.client("ben"), server.client()
        circle = get(organiser, "/api/places")
        assert circle["radius"] > 0
        chosen = [np.add(circle["point"], [2.0, -1.0]).tolist(), [31.0, 42.0]]
        assert organiser.post("/api/places", json={"points": chosen}).status_code == 200
        for client in (ada, ben):
            query = get(client, "/api/query")
            assert (query["location"], query["radius"]) == (chosen[0], 0)
            assert answer(client, query, query["location"]).json()["next"]["location"] == chosen[1]
        assert organiser.get("/api/places").status_code == 422  # too late
