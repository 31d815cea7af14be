"""One way to count, one meaning of ±, and slips that are asked about and named, as the page gets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from command_tools import ask
from warpgauge.project import Project
from warpgauge.session.control_questions import add_controls
from warpgauge.session.seals import unseal
from web.server_tools import answer, make_flat, make_solid, served


def smooth(point: list[float]) -> np.ndarray:
    at = np.array(point)
    return at + 3 + 2 * np.sin(at[::-1] / 60)


def work(client: httpx.Client, count: int, slips: dict[int, np.ndarray] | None = None) -> dict[str, Any]:
    """Answer so many questions by a smooth map, some with a slip that is kept when asked; give what comes next."""
    query: dict[str, Any] = client.get("/api/query").json()
    for turn in range(count):
        noise = np.random.default_rng(turn).normal(0, 0.3, len(query["location"]))
        at = smooth(query["location"]) + noise + (slips or {}).get(turn, 0.0)
        query = answer(client, query, at.tolist(), confirmed=True).json()["next"]
    return query


def test_repeats_and_controls_are_within_the_budget_and_every_count_agrees(tmp_path: Path) -> None:
    """Asked for eight, a rater is asked eight things: question, progress, reasons, list and organiser say so."""
    folder = make_flat(tmp_path / "p", budget=8, repeat_fraction=0.3, repeat_lag=2, audit_seed=2)
    with Project.open(folder) as project:
        add_controls(project, np.array([[50.5, 60.5]]), np.array([[52.0, 61.0]]), "organiser")
    with served(folder, "ada") as server:
        ada, organiser = server.client("ada"), server.client()
        query = ada.get("/api/query").json()
        for turn in range(8):
            assert (query["placed"], query["total"]) == (turn, 8)
            assert ada.get("/api/progress").json()["placed"] == turn
            query = answer(ada, query, smooth(query["location"]).tolist(), confirmed=True).json()["next"]
        assert query["done"]
        assert (query["placed"], query["total"]) == (8, 8)
        assert query["reasons"] == ["8 of the budget of 8 landmarks are placed."]
        assert len(ada.get("/api/list").json()["rows"]) == 8
        (card,) = [one for one in organiser.get("/api/raters").json()["raters"] if one["name"] == "ada"]
        assert card["placed"] == 8
    with Project.open(folder) as project:
        origins = [query.origin for query in project.state.queries]
    assert {"repeat", "control"} <= set(origins)
    assert len(origins) == 8


def test_plus_minus_is_the_region_that_is_drawn(tmp_path: Path) -> None:
    """The factor of the progress leads from a deviation to the half-axes of the drawn ellipse."""
    with served(make_flat(tmp_path / "p")) as server:
        client = server.client()
        query = work(client, 7)
        drawn = query["prediction"]["half_lengths"]
        deviations = np.sqrt(np.linalg.eigvalsh(query["prediction"]["covariance"]))[::-1]
        progress = client.get("/api/progress").json()
        assert np.all(np.diff([point["mean_sd"] for point in progress["curve"]]) < 0)
        assert len(progress["curve"]) == 8
        factor = progress["region"]
        np.testing.assert_allclose(drawn, factor * deviations, rtol=1e-6)


def test_a_slip_is_asked_about_once_and_named_at_the_end(tmp_path: Path) -> None:
    """A slip of half of the image is questioned when it is placed; kept, it is the one mark to look at again."""
    with served(make_flat(tmp_path / "p")) as server:
        client = server.client()
        query = work(client, 10)
        wrong = (smooth(query["location"]) + np.array([70.0, 60.0])).tolist()
        asked = answer(client, query, wrong)
        assert asked.status_code == 409
        assert answer(client, query, wrong, confirmed=True).status_code == 200
        listed = client.get("/api/list").json()
        assert [row["query"] for row in listed["rows"] if row["outlier"]] == [query["query"]]
        assert listed["detectable"] < 92


@pytest.mark.parametrize("rows", [(2, 5), (1, 4, 6, 9)])
def test_slips_in_one_direction_do_not_vouch_for_each_other(tmp_path: Path, rows: tuple[int, ...]) -> None:
    """Two and four of eleven marks in a volume, moved the same way: these are named, and no others."""
    with served(make_solid(tmp_path / "p")) as server:
        client = server.client()
        shift = np.array([9.0, -12.0, 20.0])
        work(client, 11, dict.fromkeys(rows, shift))
        listed = client.get("/api/list").json()
        assert [
            k for k, row in enumerate(sorted(listed["rows"], key=lambda row: row["number"])) if row["outlier"]
        ] == list(rows)


def test_what_cannot_be_found_is_said(tmp_path: Path) -> None:
    """With few marks nothing can be compared; with sound ones the length is told from which on a slip would show."""
    with served(make_flat(tmp_path / "p")) as server:
        client = server.client()
        work(client, 4)
        assert client.get("/api/list").json()["detectable"] is None
        work(client, 6)
        listed = client.get("/api/list").json()
        assert 1 < listed["detectable"] < 300
        assert not any(row["outlier"] for row in listed["rows"])


def test_how_many_answers_are_sealed_is_told_to_the_organiser_and_not_which(tmp_path: Path) -> None:
    """``info`` and the organiser count them as the log does; raters are not told; unsealed, there is none."""
    folder = make_flat(tmp_path / "p", audit=0.3, audit_seed=2)
    with served(folder, "ada") as server:
        work(server.client("ada"), 14)
        with Project.open(folder) as project:
            sealed = [number for number in project.state.sealed_locations() if project.state.placement("ada", number)]
        assert sealed
        assert server.client().get("/api/raters").json()["sealed"] == len(sealed)
        assert ask("info", folder)["sealed answers"] == len(sealed)
        with Project.open(folder) as project:
            unseal(project)
        assert server.client().get("/api/raters").json()["sealed"] == 0
