"""What each role may know: every route of the API by role, and what changes for a rater who moves a mark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from warpgauge.project import Project
from web.server_tools import Served, answer, served

# Status for a stranger, a rater from whom predictions are hidden and the organiser; writes get an empty body,
# which whoever may write is told (422). A route that is not in this table fails the test: whoever adds one has to say
# who may know what it tells. Those of the page of all pairs begin with a slash.
TABLE: dict[str, tuple[int, int, int]] = {
    "post /api/assign": (401, 403, 422),
    "get /api/mine": (401, 200, 200),
    "get /api/pairs": (401, 403, 200),
    "post /api/people": (401, 403, 422),
    "get api/images/moving/tile": (401, 200, 200),
    "get api/linked?x=10&y=10": (401, 403, 200),
    "get api/list": (401, 200, 200),
    "get api/locations": (401, 403, 200),
    "post api/locations/0/resolve": (401, 403, 422),
    "get api/map/entropy": (401, 403, 200),
    "get api/map/blended?transform=x": (401, 403, 404),
    "get api/marks/mine": (401, 200, 422),
    "get api/marks/all": (401, 403, 200),
    "get api/places": (401, 403, 422),
    "post api/places": (401, 403, 422),
    "get api/previous": (401, 200, 404),
    "get api/progress": (401, 200, 200),
    "get api/project": (401, 200, 200),
    "get api/query": (401, 200, 200),
    "get api/query/2": (401, 200, 200),
    "post api/query/0/another": (401, 422, 422),
    "post api/query/0/disable": (401, 422, 422),
    "post api/query/0/place": (401, 422, 422),
    "post api/query/0/skip": (401, 422, 422),
    "get api/raters": (401, 403, 200),
    "post api/redo": (401, 422, 422),
    "post api/start/skip": (401, 422, 422),
    "get api/transforms": (401, 403, 200),
    "post api/undo": (401, 422, 422),
    "post api/volunteer": (401, 422, 422),
    "get api/warped": (401, 403, 200),
}
VARYING = {"images": "{side}", "map": "{kind}", "marks": "{whose}"}
# Outside the description: pages, their files, and probes without a link.
PAGES = {
    "get /": (401, 303, 303),
    "get /healthz": (200, 200, 200),
    "get /readyz": (200, 200, 200),
    "get .": (401, 200, 200),
}
# Fields that may change for a rater who moves a mark of their own by a pixel, in all that they may ask for: the mark
# itself, counters and times, and what is rounded to one digit. Which location comes next depends on all answers.
NEXT = {"generation", "query", "number", "location"}
MAY_CHANGE: dict[str, set[str]] = {
    "get api/marks/mine": {"bytes"},  # the mark itself
    "get api/list": {"rows.*.point"},
    "get api/previous": {"generation", "answer.point", "answer.generation", "answer.time"},
    "get api/progress": {
        "median_seconds",
        "next_gain",
        "model",
        "mean_sd",
        "max_sd",
        "curve.*.mean_sd",
    },
    "get api/project": {"generation"},
    "get api/query": NEXT,
    "get api/query/2": {"generation", "answer.point", "answer.generation", "answer.time"},
    "place": {"saved.time", "saved.generation"} | {f"next.{field}" for field in NEXT},
}


@pytest.fixture
def server(flat: Path) -> Any:
    """A server of a project that hides predictions, with its kernel fitted again and again."""
    with Project.open(flat) as project:
        project.change_settings(hide_prediction=True, blind=True)
    with served(flat, "ada") as one:
        yield one


def answered(server: Served, count: int = 6) -> httpx.Client:
    ada = server.client("ada")
    for n in range(count):
        query = ada.get("/api/query").json()
        x, y = query["location"][:2]
        assert answer(ada, query, [x + 1.0 + 0.3 * n, y + 2.0]).status_code == 200
    return ada


def asked(server: Served, client: httpx.Client, route: str) -> httpx.Response:
    method, _, path = route.partition(" ")
    address = f"{server.base}{path}" if path.startswith("/") else f"/{path.removeprefix('.')}"
    return client.get(address) if method == "get" else client.post(address, json={})


def pattern_of(route: str) -> str:
    """Return a route of the table as OpenAPI writes it, with names for what varies."""
    method, _, path = route.partition("?")[0].partition(" ")
    parts = path.split("/")
    for n, part in enumerate(parts):
        parts[n] = VARYING.get(parts[n - 1], "{n}" if part.isdigit() else part)
    described = "/".join(parts).replace("{n}/resolve", "{n}/{act}")
    return f"{method} {described if path.startswith('/') else f'/pair/{{key}}/{described}'}"


def test_every_route_by_role(server: Served) -> None:
    """All routes of the API stand in the table, and each role gets what the table says."""
    ada, organiser = answered(server), server.client()
    people = [server.stranger(), ada, organiser]
    described = organiser.get(f"{server.base}/api/openapi.json").json()["paths"]
    routes = {f"{method} {path}" for path, methods in described.items() for method in methods}
    assert routes == {pattern_of(route) for route in TABLE}
    table = {**TABLE, **PAGES, "get /api/openapi.json": (401, 200, 200)}
    found = {route: tuple(asked(server, one, route).status_code for one in people) for route in table}
    assert found == table


def test_what_a_rater_is_told_of_the_model_has_one_digit(server: Served) -> None:
    """Where predictions are hidden: the uncertainties are scaled by the residuals, which further digits would tell."""
    found = answered(server).get("/api/progress").json()
    told = [found["mean_sd"], found["max_sd"], found["next_gain"], *(point["mean_sd"] for point in found["curve"])]
    assert told == [float(f"{value:.0e}") for value in told]


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in flattened(item, f"{path}.{key}".strip(".")).items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {k: v for item in value for k, v in flattened(item, f"{path}.*").items()} | {
            f"{path}.{n}.{k}": v for n, item in enumerate(value) for k, v in flattened(item).items()
        }
    return {path: value}


def starred(field: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in field.split("."))


def one_digit(value: Any) -> bool:
    """Whether a number, or the numbers in a text, have one significant digit."""
    numbers = [word for word in str(value).split() if word[0].isdigit()] if isinstance(value, str) else [value]
    return all(float(word) == float(f"{float(word):.0e}") for word in numbers)


def test_moving_a_mark_tells_a_rater_nothing(server: Served) -> None:
    """Three moves of a mark change nothing in any answer but the mark, counters, and figures of one digit."""
    ada = answered(server, 12)
    seen: list[dict[str, dict[str, Any]]] = []
    for shift in (0.0, 1.0, 40.0, -3.0):
        rows = ada.get("/api/list").json()
        generation = ada.get("/api/project").json()["generation"]
        row = next(row for row in rows["rows"] if row["query"] == 2)
        point = [row["location"][0] + 2.0 + shift, row["location"][1] + 2.0 - shift / 2]
        body = {"point": point, "covariance": row["covariance"], "alpha": 0.01, "generation": generation}
        reply = ada.post("/api/query/2/place", json=body)
        assert reply.status_code == 200, reply.text  # no question whether this was a slip: it would tell the distance
        answers = {"place": flattened(reply.json())}
        for route, statuses in TABLE.items():
            if route.startswith("get") and statuses[1] == 200:
                got = asked(server, ada, route)
                is_json = got.headers["content-type"] == "application/json"
                answers[route] = flattened(got.json()) if is_json else {"bytes": got.content}
        seen.append(answers)
    for route, before in seen[0].items():
        for later in seen[1:]:
            changed = {field for field in before if before[field] != later[route].get(field)}
            assert {starred(field) for field in changed} <= MAY_CHANGE.get(route, set()), route
        for answers in seen:
            for field, value in answers[route].items():
                if field.rpartition(".")[2] in ("next_gain", "mean_sd", "max_sd") and value is not None:
                    assert one_digit(value), (route, field, value)
