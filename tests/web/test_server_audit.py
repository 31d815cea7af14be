"""Audit questions through the server: no answer of the API tells them from suggestions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from warpgauge.project import Project
from web.server_tools import answer, served

COUNT = 14


def get(client: httpx.Client, path: str) -> Any:
    found = client.get(path)
    assert found.status_code == 200, found.text
    return found.json()


def shape(value: Any) -> Any:
    """What a JSON value looks like, without its numbers."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return type(value).__name__


def test_a_rater_is_shown_the_same_for_both_kinds_of_questions(flat: Path) -> None:
    """Queries have one form, list rows too; sealed answers count like others, and only their author sees them again."""
    with Project.open(flat) as project:
        project.change_settings(audit=0.4, audit_seed=2, guided_start=False)
    with served(flat, "ada") as server:
        ada = server.client("ada")
        shapes, counts = {}, []
        for _ in range(COUNT):
            query = get(ada, "/api/query")
            number = query["query"]
            shapes[number] = shape(query)
            reply = answer(ada, query, [query["location"][0] + 3, query["location"][1] + 2])
            assert reply.status_code == 200, reply.text
            counts.append(get(ada, "/api/progress")["annotations"])
        former = {number: get(ada, f"/api/query/{number}") for number in shapes}
        listed = {row["query"]: row for row in get(ada, "/api/list")["rows"]}
        others = {row["query"] for row in get(server.client(), "/api/list")["rows"]}
        places = {row["query"] for row in get(server.client(), "/api/locations")["locations"]}
    with Project.open(flat) as project:
        audited = {query.number for query in project.state.queries if query.origin == "audit"} & set(shapes)
        sealed = {number for number in shapes if project.state.is_sealed(number)}
    assert 3 <= len(audited) < COUNT
    assert len({repr(one) for one in shapes.values()}) == 1
    assert sealed == audited
    assert len({repr(shape(former[number])) for number in shapes}) == 1
    assert counts == list(range(1, COUNT + 1))
    assert set(listed) == set(shapes)
    assert {row["chosen"] for row in listed.values()} == {"asked"}
    assert len({repr(shape(row)) for row in listed.values()}) == 1
    assert not others & audited
    assert not places & audited


@pytest.mark.parametrize("who", ["ada", "launcher"])
def test_the_maps_and_predictions_of_a_server_do_not_know_sealed_answers(flat: Path, who: str) -> None:
    """A sealed answer that is far off changes no prediction elsewhere."""
    with Project.open(flat) as project:
        project.change_settings(audit=0.9, audit_seed=2, guided_start=False)
    with served(flat, "ada") as server:
        client = server.client(who)
        told: dict[int, list[float]] = {}
        for _ in range(8):
            query = get(client, "/api/query")
            told[query["query"]] = query["prediction"]["mean"]
            far = [query["location"][0] + 9, query["location"][1] - 8]
            body = {"point": far, "covariance": [[1, 0], [0, 1]], "alpha": 0.01, "generation": query["generation"]}
            reply = client.post(f"/api/query/{query['query']}/place", json={**body, "confirmed": True})
            assert reply.status_code == 200, reply.text
    with Project.open(flat) as project:
        first = min(query.number for query in project.state.queries if query.origin != "audit")
        before = [number for number in told if number <= first]
        assert len(before) >= 1
        for number in before:
            location = project.state.queries[number].point
            assert told[number] == pytest.approx(list(location), abs=1e-6)


def test_progress_tells_organisers_what_the_audit_decided(flat: Path, tmp_path: Path) -> None:
    """The stop rule "decided" stands in the organiser's progress, and not in that of a rater kept from transforms."""
    with Project.open(flat) as project:
        project.change_settings(audit=0.6, audit_seed=2, guided_start=False)
        for name, shift in (("right", 3.0), ("wrong", 15.0)):
            file = tmp_path / f"{name}.tfm"
            file.write_text(
                "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_2_2\n"
                f"Parameters: 1 0 0 1 {shift} 2\nFixedParameters: 0 0\n"
            )
            project.add_transform(name, file)
    with served(flat, "ada") as server:
        ada = server.client("ada")
        assert "decided" not in {rule["rule"] for rule in get(server.client(), "/api/progress")["stop"]}
        for step in range(24):
            query = get(ada, "/api/query")
            off = 0.4 * (-1) ** step
            where = [query["location"][0] + 3 + off, query["location"][1] + 2 - off]
            assert answer(ada, query, where).status_code == 200
        shown = {rule["rule"]: rule for rule in get(server.client(), "/api/progress")["stop"]}
        assert shown["decided"]["met"]
        decided = shown["decided"]["sentence"]
        assert decided.startswith("right is the best of right and wrong")
        assert "decided" not in {rule["rule"] for rule in get(ada, "/api/progress")["stop"]}
