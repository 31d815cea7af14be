"""The description of the server: generated requests find no 5xx, and answers are as described."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from warpgauge.project import Project
from web.server_tools import Served, answer, make_flat, served

HEALTH = list(HealthCheck)
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of a 2D project with some answers."""
    with served(make_flat(tmp_path_factory.mktemp("schema") / "p"), "ada,ben") as one:
        for name in ("launcher", "ada"):
            client = one.client(name)
            query = client.get("/api/query").json()
            for _ in range(3):
                query = answer(client, query, query["location"]).json()["next"]
        yield one
        one.stop()
        with Project.open(one.folder) as project:
            assert project.verify().ok


@pytest.fixture(scope="module")
def api(server: Served) -> Any:
    """The description, as the server gives it to those with a token."""
    document = server.client().get(f"{server.base}/api/openapi.json").json()
    document["paths"] = {path.replace("{key}", "p"): methods for path, methods in document["paths"].items()}
    for methods in document["paths"].values():
        for operation in methods.values():
            kept = [one for one in operation.get("parameters", []) if one["name"] != "key"]
            operation["parameters"] = kept
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=server.base)
    return schema


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "not fitting"])
@pytest.mark.parametrize("who", ["launcher", "ada"])
def test_no_generated_request_breaks_the_server(api: Any, server: Served, who: str, mode: GenerationMode) -> None:
    """Requests made from the description, those that fit it and those that do not, get no 5xx; answers fit it."""
    (cookie,) = server.client(who).cookies.jar
    headers = {"Cookie": f"{cookie.name}={cookie.value}"}
    tried: dict[str, int] = {}
    for found in api.get_all_operations():
        strategy = found.ok().as_strategy(generation_mode=mode)

        @settings(max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=HEALTH)
        @given(case=strategy)
        def check(case: Any) -> None:
            tried[case.operation.label] = tried.get(case.operation.label, 0) + 1
            case.validate_response(case.call(headers=headers), checks=CHECKS)

        with suppress(Unsatisfiable):  # nothing about such a route can be wrong
            check()
    assert len(tried) > 15


def test_no_likely_request_breaks_the_server(server: Served) -> None:
    """Four hundred actions by three people, mostly right and often stale or out of place: none gets a 5xx."""
    rng = random.Random(17)
    clients = {name: server.client(name) for name in ("launcher", "ada", "ben")}
    statuses: dict[int, int] = {}
    for _ in range(400):
        name = rng.choice(list(clients))
        generation = clients[name].get("/api/project").json()["generation"] - rng.choice([0, 0, 0, 1, 5, -1])
        number = rng.randrange(12)
        path, body = rng.choice(
            [
                (f"/api/query/{number}/place", placement(rng)),
                (f"/api/query/{number}/place", placement(rng)),
                (f"/api/query/{number}/skip", {"reason": rng.choice(["other", "ambiguous", "?"]), "text": "é\u2028"}),
                (f"/api/query/{number}/another", {}),
                (f"/api/query/{number}/disable", {"disabled": rng.random() < 0.5}),
                ("/api/undo", {}),
                ("/api/redo", {}),
                (f"/api/locations/{number}/resolve", {"text": "x"}),
                (f"/api/locations/{number}/exclude", {"rater": rng.choice(["ada", "ben", "eve"])}),
                (f"/api/locations/{number}/include", {"rater": rng.choice(["ada", "ben", "eve"])}),
                (f"/api/locations/{number}/ask_again", {"rater": rng.choice(["ada", "eve", None])}),
            ]
        )
        status = clients[name].post(path, json={**body, "generation": generation}).status_code
        looked = clients[name].get(
            rng.choice(["/api/query", "/api/list", "/api/progress", "/api/map/entropy?width=16"])
        )
        for one in (status, looked.status_code):
            statuses[one] = statuses.get(one, 0) + 1
    assert set(statuses) <= {200, 403, 404, 409, 422}
    assert all(statuses.get(one, 0) >= 5 for one in (200, 403, 404, 409, 422)), statuses


def placement(rng: random.Random) -> dict[str, Any]:
    sizes = rng.choice([(1.0, 1.0), (0.001, 40.0), (1e-9, 1.0), (2.0, 1500.0)])
    tilt = rng.choice([0.0, 0.5, 0.999, 1.0, 2.0]) * sizes[0] * sizes[1]
    point = [rng.uniform(0, 299), rng.uniform(0, 279)]
    return {"point": point, "covariance": [[sizes[0] ** 2, tilt], [tilt, sizes[1] ** 2]], "alpha": 0.05}
