"""A blind rater is blind: what they receive depends neither on others, nor on their own former answer at a repeat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from command_tools import call
from warpgauge.project import Project
from warpgauge.project.events import Ask, DrawAudit
from warpgauge.session.control_questions import add_controls
from web.server_tools import Served, answer, make_flat, make_solid, served
from web.test_server_knowledge import TABLE

# Everything that a rater can ask for; a new route has to be in the table of test_server_knowledge.
READ = [route.replace("get ", "/") for route in TABLE if route.startswith("get api")]
FLAT = ["/api/linked?x=40&y=50", "/api/linked?x=200&y=210", "/api/map/entropy?width=32", "/api/warped?part=0,0,40,40"]
# Counters of the log and times of the clock differ between any two runs.
ASIDE = re.compile(rb'"(generation|time)":("[^"]*"|\d+)|generation \d+|at \d{4}-\d\d-\d\d[T ][^ ]*')
HEADERS_ASIDE = {"date", "set-cookie"}


def bare(response: httpx.Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return every byte of an answer but for generations and times."""
    body = ASIDE.sub(b"", response.content)
    headers = sorted((name, value) for name, value in response.headers.items() if name not in HEADERS_ASIDE)
    if body != response.content:  # its length goes with the digits that were taken out
        headers = [(name, value) for name, value in headers if name != "content-length"]
    return response.status_code, headers, body


def everything(client: httpx.Client, more: list[str], highest: int) -> list[tuple[str, Any]]:
    """Return what a rater gets from every route that can be read, and from every number of a query."""
    routes = READ + more + [f"/api/query/{number}" for number in range(highest)]
    return [(route, bare(client.get(route))) for route in routes]


def at_hand(client: httpx.Client) -> list[tuple[str, Any]]:
    """Return all that is sent with the question at hand; neither a former answer nor an organiser's table is opened."""
    former = {"/api/query/2", "/api/previous", "/api/locations", "/api/raters"}
    return [(route, bare(client.get(route))) for route in ["/api/query", *READ, *FLAT] if route not in former]


class Ada:
    """Plays one and the same script, whatever the others do, and keeps all that she receives."""

    def __init__(self, client: httpx.Client, more: list[str], d: int) -> None:
        self.client, self.more, self.d = client, more, d
        self.received: list[tuple[str, Any]] = []
        self.first = np.array(client.get("/api/query").json()["location"])
        self.rng = np.random.default_rng(3)

    def post(self, route: str, **body: Any) -> httpx.Response:
        generation = self.client.get("/api/project").json()["generation"]
        response = self.client.post(route, json={"generation": generation, **body})
        self.received.append((route, bare(response)))
        return response

    def place(self, error: float = 1.0) -> None:
        query = self.client.get("/api/query").json()
        if "done" in query:
            return
        at = (np.array(query["location"]) + self.rng.normal(0, error, self.d)).tolist()
        response = answer(self.client, query, at, confirmed=True)
        assert response.status_code == 200, response.text
        self.received.append(("place", bare(response)))

    def look(self) -> None:
        self.received += everything(self.client, self.more, 40)

    def script(self) -> Iterator[None]:
        """Everything that a rater can do, a step at a time."""
        for _ in range(3):
            self.place()
        yield
        self.look()
        location = self.client.get("/api/query").json()["location"]
        own = (0.5 * np.array(location) + 0.5 * self.first).tolist()
        kept = {"covariance": np.eye(self.d).tolist(), "alpha": 0.01, "confirmed": True, "duration": 1.0}
        assert self.post("/api/volunteer", fixed=own, point=own, **kept).status_code == 200
        yield
        number = self.client.get("/api/query").json()["query"]
        assert self.post(f"/api/query/{number}/skip", reason="ambiguous", text="").status_code == 200
        number = self.client.get("/api/query").json()["query"]
        assert self.post(f"/api/query/{number}/another").status_code == 200
        yield
        for _ in range(4):
            self.place()
        self.look()
        self.post("/api/query/0/disable", disabled=True)
        self.post("/api/undo")
        self.post("/api/query/77/skip", reason="other", text="")
        self.post("/api/query/0/disable", disabled=False)
        self.post("/api/volunteer", fixed=own, point=own, **kept)
        yield
        self.place(error=40.0)
        self.post("/api/undo")
        self.post("/api/redo")
        yield
        for _ in range(8):
            self.place()
        self.look()


def nobody(server: Served, step: int) -> None:
    """The others do nothing."""


def ben_first(server: Served, step: int) -> None:
    """Another rater and the organiser do all that they can, before and between."""
    client, organiser = server.client("ben"), server.client()
    rng = np.random.default_rng(50 + step)
    for turn in range(24 if step == 0 else 5):
        query = client.get("/api/query").json()
        if "done" in query:
            break
        at = np.array(query["location"]) + 15 + rng.normal(0, 6, len(query["location"]))
        if turn % 5 == 4:
            body = {"generation": query["generation"], "reason": "torn_or_missing", "text": ""}
            assert client.post(f"/api/query/{query['query']}/skip", json=body).status_code == 200
        else:
            assert answer(client, query, at.tolist(), confirmed=True).status_code == 200
    generation = organiser.get("/api/project").json()["generation"]
    d = len(query.get("location", [0, 0])) if "done" not in query else organiser.get("/api/project").json()["d"]
    with Project.open(server.folder, check_images=False) as project:
        spot = (project.candidates[step] + 0.25).tolist()
    body = {"fixed": spot, "point": spot, "covariance": np.eye(d).tolist(), "alpha": 0.01, "confirmed": True}
    assert client.post("/api/volunteer", json={"generation": generation, **body}).status_code == 200
    query = organiser.get("/api/query").json()
    if "done" not in query:
        assert answer(organiser, query, query["location"], confirmed=True).status_code == 200


def history(folder: Path, others: Callable[[Served, int], None], more: list[str]) -> list[tuple[str, Any]]:
    """Return all that a rater receives while the others do something."""
    with served(folder, "ada,ben") as server:
        ada = Ada(server.client("ada"), more, Project.open(folder, check_images=False).d)
        others(server, 0)
        for step, _ in enumerate(ada.script()):
            others(server, 1 + step)
        return ada.received


MIXED = {
    "repeat_fraction": 0.3,
    "repeat_lag": 2,
    "audit": 0.3,
    "audit_seed": 4,
    "budget": 15,
    "stop_mean_sd": 0.01,
}


@pytest.mark.parametrize("store", ["file", "database"])
@pytest.mark.parametrize("settings", [{}, MIXED, {"hide_prediction": True}], ids=["default", "mixed", "hidden"])
def test_what_a_blind_rater_receives_is_equal_to_the_byte_whatever_the_others_answer(
    tmp_path: Path, settings: dict[str, Any], store: str, request: pytest.FixtureRequest
) -> None:
    """Two histories of the others, one script of a rater: every answer of every route is the same."""
    found = []
    for name, others in (("alone", nobody), ("beside", ben_first)):
        folder = make_flat(tmp_path / name / "p", **settings)
        if settings is MIXED:
            with Project.open(folder) as project:
                add_controls(project, np.array([[50.5, 60.5]]), np.array([[52.0, 61.0]]), "organiser")
        if store == "database":
            call("copy", folder, request.getfixturevalue("postgres").url)
        found.append(history(folder, others, FLAT))
    assert len(found[0]) == len(found[1]) > 150
    for one, other in zip(*found, strict=True):
        assert one == other


def test_the_same_in_three_dimensions(tmp_path: Path) -> None:
    """Byte for byte, on a volume."""
    found = [
        history(make_solid(tmp_path / name / "p"), others, []) for name, others in (("a", nobody), ("b", ben_first))
    ]
    assert found[0] == found[1]


def test_places_that_raters_share_are_not_called_blind(tmp_path: Path) -> None:
    """With answers_per_location=1 the second rater is asked elsewhere: the test above can fail."""
    found = [
        history(make_flat(tmp_path / name / "p", answers_per_location=1), others, FLAT)
        for name, others in (("a", nobody), ("b", ben_first))
    ]
    assert found[0] != found[1]


def session_with_repeats(
    folder: Path, shift_at: int, count: int, look: Callable[[httpx.Client, int], None]
) -> list[int]:
    """Answer questions by a smooth map, one of them shifted; look before each answer. Returns which were repeats."""
    with served(folder, "ada") as server:
        client = server.client("ada")
        for turn in range(count):
            query = client.get("/api/query").json()
            look(client, turn)
            at = np.array(query["location"])
            noise = np.random.default_rng(np.round(at * 8).astype(np.int64)).normal(0, 1, 2)
            moved = (
                at + [4 + 3 * np.sin(at[1] / 60), 3 * np.cos(at[0] / 50)] + noise + (3.0 if turn == shift_at else 0.0)
            )
            assert answer(client, query, moved.tolist(), confirmed=True).status_code == 200
    with Project.open(folder) as project:
        state = project.state
        (name,) = state.trails
        return [turn for turn, at in enumerate(state.trails[name]) if state.queries[at].origin == "repeat"]


REPEATS = {"repeat_fraction": 0.4, "repeat_lag": 3, "audit_seed": 3}


def test_at_a_repeat_everything_is_as_if_the_place_had_never_been_answered(tmp_path: Path) -> None:
    """With another former answer at the repeated place, every byte that is sent at the repeat is the same."""
    found: list[dict[int, Any]] = []
    shift_at, turn = -1, -1
    for name in ("first", "shifted"):
        seen: dict[int, Any] = {}

        def look(client: httpx.Client, now: int, seen: dict[int, Any] = seen, turn: int = turn) -> None:
            if now in (turn, turn + 1) or (turn < 0 and now > 2):
                seen[now] = at_hand(client)

        folder = make_flat(tmp_path / name / "p", **REPEATS)
        repeated = session_with_repeats(folder, shift_at, 12 if turn < 0 else turn + 2, look)
        found.append(seen)
        if turn < 0:
            turn = repeated[0]
            with Project.open(folder) as project:
                state = project.state
                (rater,) = state.trails
                first = state.queries[state.trails[rater][turn]].same_as
                shift_at = state.trails[rater].index(first)
    # Its time and its flag when it was placed are not told either, as its row is not there.
    assert found[0][turn] == found[1][turn]
    assert found[0][turn + 1] != found[1][turn + 1]  # at the question after it the former answer is known again


def test_repeats_look_like_the_questions_around_them(tmp_path: Path) -> None:
    """No figure of a question separates repeats from others: size of the prediction, rings, rows, gain."""
    features: list[dict[str, float]] = []

    def look(client: httpx.Client, turn: int) -> None:
        query, rows = client.get("/api/query").json(), client.get("/api/list").json()["rows"]
        progress = client.get("/api/progress").json()
        here = np.array(query["location"])
        rings = [np.linalg.norm(np.subtract(row["location"], here)) for row in rows]
        features.append(
            {
                "prediction": max(query["prediction"]["half_lengths"]),
                "nearest ring": min(rings, default=np.inf),
                "rows": len(rows) - query["placed"],
                "numbers": max((row["number"] for row in rows), default=0) - query["placed"],
                "marks": progress["annotations"] - query["placed"],
                "curve": len(progress["curve"]) - query["placed"],
                "fields": len(query),
            }
        )

    repeated = session_with_repeats(make_flat(tmp_path / "p", **REPEATS), -1, 36, look)
    begin = repeated[0]  # before the first that can be a repeat, nothing is left out
    others = [turn for turn in range(begin, 36) if turn not in repeated]
    assert len(repeated) >= 8
    for name in features[0]:
        one, other = ([features[turn][name] for turn in turns] for turns in (repeated, others))
        # The share of pairs in which a repeat has the larger value: 1/2 where nothing tells them apart.
        share = np.mean([np.sign(a - b) / 2 + 0.5 for a in one for b in other])
        assert 0.2 < share < 0.8, (name, share, one, other)


# What makes a question one of a kind; the place, the number and the gain are the same for all.
KINDS: dict[str, dict[str, Any]] = {
    "map": {},
    "audit": {"origin": "audit", "audit": (0, 0)},
    "control": {"origin": "control", "known": (150.0, 140.0)},
    "repeat": {"origin": "repeat", "same_as": 0},
}


def list_with(folder: Path, kind: str) -> Path:
    """Make a project with six questions, the fifth of this kind; a repeat is of the first, and at its place."""
    make_flat(folder, audit=0.3)
    with Project.open(folder) as project:
        points = project.candidates

        def asked(number: int, candidate: int, **more: Any) -> Ask:
            about: dict[str, Any] = {"origin": "suggested", "gain": 0.5, **more}
            return Ask(
                rater="warpgauge", query=number, point=tuple(points[candidate].tolist()), candidate=candidate, **about
            )

        if kind == "control":
            add_controls(project, points[[40]], np.array([[150.0, 140.0]]), "organiser")
        if kind == "audit":
            at = tuple(points[40].tolist())
            drawn = DrawAudit(rater="warpgauge", number=0, design="uniform", sealed=True, population=len(points),
                              drawn_before=0, seed=5, targets=(40,), points=(at,), candidates=(40,),
                              probabilities=(0.5,))  # fmt: skip
            project.append(drawn)
        earlier = (40 if kind == "repeat" else 11, 77, 33, 5)
        project.append(*(asked(number, candidate) for number, candidate in enumerate(earlier)))
        project.append(asked(4, 40, **KINDS[kind]), asked(5, 60))
    return folder


def at_fifth(folder: Path) -> tuple[list[tuple[str, Any]], Any]:
    """Answer four questions; return all that is sent with the fifth, and what is said to its answer."""
    with served(folder, "ada,ben") as server:
        client = server.client("ada")
        for turn in range(4):
            query = client.get("/api/query").json()
            at = np.array(query["location"]) + np.array([4.0, turn])
            assert answer(client, query, at.tolist(), confirmed=True).status_code == 200
        query, seen = client.get("/api/query").json(), at_hand(client)
        said = answer(client, query, [150.0, 141.0], confirmed=True).json()
        return seen, ({**said["saved"], "generation": 0, "time": ""}, sorted(said), sorted(said["next"]))


def test_no_byte_tells_which_kind_a_question_is(tmp_path: Path) -> None:
    """For the map, of an audit, control: all that is sent is equal, and so is what is said to it.

    The model leaves out the first answer at a repeat, so that its figures are others: there all but figures is equal.
    """
    found = {kind: at_fifth(list_with(tmp_path / kind / "p", kind)) for kind in KINDS}
    (route, (status, headers, body)), said = found["map"][0][0], found["map"][1]
    assert route == "/api/query"
    figures = re.compile(rb"-?\d+(\.\d+)?(e-?\d+)?")
    for kind, (seen, answered) in found.items():
        assert answered == said, kind
        if kind != "repeat":
            for (route, one), (_, other) in zip(found["map"][0], seen, strict=True):
                assert one == other, (kind, route)
        own = seen[0][1]
        assert (*own[:2], figures.sub(b"0", own[2])) == (status, headers, figures.sub(b"0", body))
