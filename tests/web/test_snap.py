"""Snap: a proposal from the images around a mark, at the server and in the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from scipy import ndimage

from project.tools import draft
from warpgauge.cli import app
from warpgauge.errors import InvalidInputError
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.session.queries import snap_use
from web.page_tools import Sheet, open_sheet, says
from web.server_tools import Served, answer, events_of, lattice, make_flat, served, wait_until, write_shifted

SHIFT = np.array([7.0, -4.0])  # pixels; what lies at x in the fixed image lies at x + SHIFT in the moving one
SPACING = 0.5


def make_pair(folder: Path, *, turned: bool = False, **settings: Any) -> Path:
    """A project of one texture twice, the right part of it flat; the moving image is shifted, or x and y exchanged."""
    rng = np.random.default_rng(11)
    texture = sum(ndimage.gaussian_filter(rng.normal(size=(320, 360)), s) * s for s in (1.5, 4.0))
    texture[:, 260:] = 0.0
    gray = np.clip(128 + 40 * texture / texture.std(), 0, 255).astype(np.uint8)
    folder.parent.mkdir(parents=True, exist_ok=True)
    x, y = (int(v) for v in SHIFT)
    moving = gray.T if turned else np.roll(gray, (y, x), axis=(0, 1))
    Image.fromarray(gray).save(folder.parent / "fixed.png")
    Image.fromarray(moving).save(folder.parent / "moving.png")
    points = lattice((60, 60), (200, 250), (6, 6)) * SPACING
    Project.create(folder, fixed=folder.parent / "fixed.png", moving=folder.parent / "moving.png", candidates=points,
                   targets=points, spacing=SPACING, units="um",
                   settings={"guided_start": False, "seal": False, "unaided": 0.0, **settings}).close()  # fmt: skip
    return folder


def asked(client: Any, query: dict[str, Any], point: Any, **more: Any) -> Any:
    body = {"query": query["query"], "point": list(point), "generation": query["generation"], **more}
    return client.post("/api/snap", json=body)


def test_a_slip_is_corrected_and_the_log_has_both_places(tmp_path: Path) -> None:
    """3 pixels beside the match the proposal is the match; no answer is saved until placed, then with the old place."""
    with served(make_pair(tmp_path / "pair", snap=True, hide_prediction=True), "ada") as server:
        ada = server.client("ada")
        assert ada.get("/api/project").json()["settings"]["snap"] is True
        query = ada.get("/api/query").json()
        truth = np.array(query["location"]) + SHIFT * SPACING
        mark = truth + np.array([2.0, -2.2]) * SPACING
        before = len(events_of(server.folder))
        found = asked(ada, query, mark).json()
        np.testing.assert_allclose(found["point"], truth, atol=0.2 * SPACING)
        assert "Enter" in found["sentence"]
        assert [kind for _, _, kind, _, _ in events_of(server.folder)[before:]] == ["snap"]
        assert ada.get(f"/api/query/{query['query']}").json()["answer"] is None
        reply = answer(ada, query, found["point"], snapped_from=mark.tolist())
        assert reply.status_code == 200, reply.text
        assert events_of(server.folder)[before + 1][-1]["snapped_from"] == mark.tolist()
        shown = ada.get(f"/api/query/{query['query']}").json()["answer"]
        assert shown["snapped_from"] == mark.tolist()
        with Project.open(server.folder) as project:
            stored = project.state.placement("ada", query["query"])
        assert stored.snapped_from == tuple(mark)
        assert stored.point == tuple(found["point"])


def test_no_proposal_where_nothing_stands_out_or_outside(tmp_path: Path) -> None:
    """A flat part gives a sentence and no place, and so does a mark outside; bad points and queries are refused."""
    with served(make_pair(tmp_path / "pair", snap=True), "ada") as server:
        ada = server.client("ada")
        query = ada.get("/api/query").json()
        flat = [310 * SPACING, 150 * SPACING]
        found = asked(ada, query, flat, fixed=flat).json()
        assert found["point"] is None
        assert "Nothing distinctive" in found["sentence"]
        outside = asked(ada, query, [-50.0, 20.0]).json()
        assert outside["point"] is None
        assert "outside the moving image" in outside["sentence"]
        assert asked(ada, query, [1.0, 2.0, 3.0]).status_code == 422
        assert asked(ada, {**query, "query": 99}, [10.0, 10.0]).status_code == 404


def test_the_turn_comes_from_the_raters_other_marks(tmp_path: Path) -> None:
    """With x and y exchanged nothing is found at first; after four marks, which say so, the slip is corrected."""
    with served(make_pair(tmp_path / "pair", turned=True, snap=True), "ada") as server:
        ada = server.client("ada")
        for n in range(5):
            query = ada.get("/api/query").json()
            truth = np.array(query["location"])[::-1]
            found = asked(ada, query, truth + np.array([1.0, 0.8])).json()["point"]
            near = found is not None and np.linalg.norm(found - truth) < 0.2 * SPACING
            assert near == (n == 4)
            assert answer(ada, query, truth.tolist(), confirmed=True).status_code == 200


def test_volumes_that_are_oblique(tmp_path: Path) -> None:
    """In a volume with turned, anisotropic voxels the proposal is nearer than half a voxel's smallest side."""
    fixed, moving, shift = write_shifted(tmp_path, np.array([2, 1, 0]))
    with Project.create(tmp_path / "solid", fixed=fixed, moving=moving, candidates={"kind": "domain", "count": 60},
                        targets={"kind": "domain", "count": 60},
                        settings={"guided_start": False, "seal": False, "snap": True}) as project:  # fmt: skip
        middle = project.fixed_grid.centre
    with served(tmp_path / "solid", "ada") as server:
        ada = server.client("ada")
        query = ada.get("/api/query").json()
        found = asked(ada, query, middle + shift + [0.8, -0.9, 0.5], fixed=middle.tolist()).json()
        assert found["point"] is not None
        np.testing.assert_allclose(found["point"], middle + shift, atol=0.35)


def test_a_project_without_it_refuses_and_has_no_button(browser: Any, tmp_path: Path) -> None:
    """Off by default: the route says so, and neither button nor key is there."""
    with served(make_flat(tmp_path / "flat"), "ada") as server:
        ada = server.client("ada")
        query = ada.get("/api/query").json()
        reply = asked(ada, query, [50.0, 50.0])
        assert reply.status_code == 403
        assert "setting snap" in reply.json()["error"]
        sheet = open_sheet(browser, server, "ada")
        assert sheet.page.locator("button[data-command=snap]").count() == 0
        sheet.close()


def test_a_random_share_of_the_questions_is_answered_without_it(browser: Any, tmp_path: Path) -> None:
    """At those nothing is proposed nor taken, the log says so, and the page's button is off; at the others it is on."""
    with served(make_pair(tmp_path / "pair", snap=True, unaided=0.5), "ada,ben") as server:
        seen: dict[str, list[bool]] = {"ada": [], "ben": []}
        for who, unaided in seen.items():
            client = server.client(who)
            query = client.get("/api/query").json()
            for _ in range(12):
                truth = np.array(query["location"]) + SHIFT * SPACING
                found = asked(client, query, truth + 0.5).json()
                assert (found["point"] is None) == query["unaided"]
                unaided.append(query["unaided"])
                if query["unaided"]:
                    assert "by eye" in found["sentence"]
                    taken = answer(client, query, truth.tolist(), snapped_from=(truth + 0.5).tolist(), confirmed=True)
                    assert taken.status_code == 422
                    assert "unaided" in taken.json()["error"]
                query = answer(client, query, truth.tolist(), confirmed=True).json()["next"]
        assert all(2 <= sum(unaided) <= 10 for unaided in seen.values())
        assert seen["ada"] != seen["ben"], "drawn for each rater"
        logged = [(who, bool(payload.get("unaided"))) for _, who, kind, _, payload in events_of(server.folder)
                  if kind == "place"]  # fmt: skip
        assert logged == [(who, unaided) for who in seen for unaided in seen[who]]
        sheet = open_sheet(browser, server, "ada")
        button = sheet.page.locator("button[data-command=snap]")
        for _ in range(6):
            assert button.is_disabled() == sheet.state()["query"]["unaided"]
            number = sheet.state()["query"]["number"]
            sheet.page.keyboard.press("n")
            sheet.wait_for_query(number + 1)
        assert sheet.problems == []
        sheet.close()


def test_points_of_ones_own_are_refined_too(browser: Any, tmp_path: Path) -> None:
    """In the guided start and with P, after the own click in both images: the proposal is taken and logged."""
    with served(make_pair(tmp_path / "pair", snap=True, guided_start=True), "ada") as server:
        sheet = Sheet(browser, server.links["ada"])
        page = sheet.page
        places = np.array([[70.0, 60.0], [40.0, 100.0], [100.0, 110.0], [60.0, 90.0]])
        for k, place in enumerate(places):
            if k == 3:
                sheet.wait_for_query()
                page.keyboard.press("p")
            else:
                page.wait_for_function("() => document.getElementById('query-number').dataset.number === 'start'")
            sheet.settle()
            page.keyboard.press("0")
            page.keyboard.press("r")
            says(page.locator("#message"), "fixed image")
            truth = place + SHIFT * SPACING
            for side, point in (("fixed", place), ("moving", truth + np.array([1.0, -0.8]))):
                view = sheet.state()["views"][side]["2"]
                at = (point - view["centre"]) * view["scale"]
                sheet.press_at(side, at[0] + view["width"] / 2, at[1] + view["height"] / 2)
                sheet.settle()
            mark = sheet.state()["mark"]["point"]
            page.keyboard.press("r")
            page.wait_for_function("() => globalThis.warpgauge.store.state.proposal !== null")
            page.keyboard.press("Enter")
            own = np.array(sheet.state()["own"])
            np.testing.assert_allclose(sheet.state()["mark"]["point"], own + SHIFT * SPACING, atol=0.2 * SPACING)
            page.keyboard.press("Enter")
            wait_until(lambda k=k: len(placed(server.folder)) == k + 1, 120)
            assert placed(server.folder)[k]["snapped_from"] == pytest.approx(mark)
        assert sheet.problems == []
        sheet.close()


def test_what_was_asked_for_and_not_taken_is_in_the_log(browser: Any, tmp_path: Path) -> None:
    """Dropped, replaced, left by another question, and nothing found: the log has each, review and organiser say so."""
    with served(make_pair(tmp_path / "pair", snap=True), "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page, first = sheet.page, sheet.state()["query"]
        mark = click_beside(sheet, [1.0, 0.8])
        for kept in (False, True):  # dropped by Escape; the second one is replaced by that of another mark
            ask_for_a_proposal(sheet)
            if not kept:
                page.keyboard.press("Escape")
        other = click_beside(sheet, [-0.9, 0.7])
        ask_for_a_proposal(sheet)
        page.keyboard.press("n")
        sheet.wait_for_query(first["number"] + 1)
        second = sheet.state()["query"]
        asked = [(query, payload) for _, _, kind, query, payload in events_of(server.folder) if kind == "snap"]
        assert [query for query, _ in asked] == [first["query"]] * 3
        assert [payload["mark"] for _, payload in asked] == [mark, mark, other]
        truth = np.array(first["location"]) + SHIFT * SPACING
        for _, payload in asked:
            assert payload["fixed"] == first["location"]
            np.testing.assert_allclose(payload["proposed"], truth, atol=0.2 * SPACING)
        assert placed(server.folder) == []

        click_beside(sheet, [1.0, 0.8])
        ask_for_a_proposal(sheet)
        page.keyboard.press("Escape")
        sheet.accept()
        page.keyboard.press("d")
        row = page.locator(f"#drawer tr[data-query='{second['query']}']")
        row.wait_for()
        says(row, "Snap not taken")
        assert sheet.problems == []
        sheet.close()
        boss = server.client()
        assert [(one["query"], one["snap"]) for one in boss.get("/api/list").json()["rows"]] == [
            (second["query"], "shown")
        ]
        ada = next(one for one in boss.get("/api/raters").json()["raters"] if one["name"] == "ada")
        assert (ada["snap_asked"], ada["snap_shown"], ada["snap_taken"]) == (4, 4, 0)
        sheet = open_sheet(browser, server)
        sheet.page.locator("#organiser-button[data-ready]").click()
        card = sheet.page.locator(".card[data-rater=ada] [data-snap]")
        card.wait_for()
        says(card, "Snap asked 4, shown 4, taken 0", whole=True)
        assert sheet.problems == []
        sheet.close()


def test_proposals_survive_in_the_store_and_change_no_answer(tmp_path: Path) -> None:
    """The event is checked, replayed and undone by nothing; another rater's proposals are counted for them alone."""
    folder = make_pair(tmp_path / "pair", snap=True)
    with Project.open(folder) as project:
        session = Session(project, "ada")
        query = session.next_query()
        assert query is not None
        told = {"fixed": list(query.point), "mark": [50.0, 40.0], "proposed": [51.0, 40.5]}
        session.place(query, [50.0, 40.0], radius=1.0)
        project.append(draft("snap", "ada", query.number, told))
        project.append(draft("snap", "ada", None, {**told, "proposed": None}))
        assert snap_use(project.state, "ada", query.number) == "shown"
        assert snap_use(project.state, "ben", query.number) == ""
        own = session.volunteer(told["fixed"] + np.array([9.0, 9.0]), [60.0, 50.0], radius=1.0).query
        ben = session.volunteer([70.0, 70.0], [71.0, 71.0], radius=1.0, rater="ben").query
        with pytest.raises(InvalidInputError, match="is for ben only"):
            project.append(draft("snap", "ada", ben, told))
        with pytest.raises(InvalidInputError, match="The proposed place"):
            project.append(draft("snap", "ada", query.number, {**told, "proposed": [1.0]}))
        assert session.undo("ada").query == own
        session.undo("ada")
        assert snap_use(project.state, "ada", query.number) == "shown", "what was asked for stays"
        before = project.state.proposals
    with Project.open(folder) as project:
        assert project.state.proposals == before
        assert list(before) == [("ada", query.number), ("ada", None)]
        summary = {one.name: one for one in Session(project).agreement().raters}["ada"]
        assert (summary.snap_asked, summary.snap_shown, summary.snap_taken) == (2, 1, 0)
        assert project.verify().ok
    found = CliRunner().invoke(app, ["info", str(folder), "--json"])
    assert json.loads(found.output)["snap"] == "asked 2 times, shown 1, taken 0"


def click_beside(sheet: Sheet, offset: list[float]) -> list[float]:
    """Mark so far (world units) from the true match of the question, and return the mark."""
    sheet.settle()
    truth = np.array(sheet.state()["query"]["location"]) + SHIFT * SPACING
    view = sheet.state()["views"]["moving"]["2"]
    at = (truth + offset - view["centre"]) * view["scale"]
    sheet.press_at("moving", at[0] + view["width"] / 2, at[1] + view["height"] / 2)
    return list(sheet.state()["mark"]["point"])


def ask_for_a_proposal(sheet: Sheet) -> None:
    """Press R and wait until the proposal for the present mark is shown."""
    sheet.page.keyboard.press("r")
    sheet.page.wait_for_function(
        "() => { const { proposal, mark } = globalThis.warpgauge.store.state; return proposal?.base === mark; }"
    )


def test_a_mark_that_was_snapped_before_can_still_be_changed(tmp_path: Path) -> None:
    """With a share of 1 set later, an edit of a snapped mark is saved as before, and new marks are unaided."""
    folder = make_pair(tmp_path / "pair", snap=True)
    with served(folder) as server:
        me = server.client()
        query = me.get("/api/query").json()
        where = (np.array(query["location"]) + SHIFT * SPACING).tolist()
        assert answer(me, query, where, snapped_from=query["location"], confirmed=True).status_code == 200
    with Project.open(folder) as project:
        project.change_settings(unaided=1.0)
    with served(folder) as server:
        me = server.client()
        known = me.get(f"/api/query/{query['query']}").json()
        edited = answer(me, known, where, snapped_from=query["location"], confirmed=True)
        assert edited.status_code == 200, edited.text
        assert answer(me, edited.json()["next"], where, confirmed=True).status_code == 200
    assert [one.get("unaided", False) for one in placed(folder)] == [False, True]


def placed(folder: Path) -> list[dict[str, Any]]:
    """Return what the log has of all placements."""
    return [payload for _, _, kind, _, payload in events_of(folder) if kind == "place"]


@pytest.fixture
def pair(tmp_path: Path) -> Any:
    """A server of a project with snap."""
    with served(make_pair(tmp_path / "pair", snap=True), "ada") as server:
        yield server


def test_the_page_proposes_until_enter_takes_it(browser: Any, pair: Served) -> None:
    """R without a mark asks for one; then Escape keeps the mark, Enter moves it, Enter saves it with the old place."""
    sheet = open_sheet(browser, pair, "ada")
    page, message = sheet.page, sheet.page.locator("#message")
    page.keyboard.press("r")
    says(message, "first")
    query = sheet.state()["query"]
    truth = np.array(query["location"]) + SHIFT * SPACING
    view = sheet.state()["views"]["moving"]["2"]
    at = (truth + np.array([1.0, 0.8]) - view["centre"]) * view["scale"]
    sheet.press_at("moving", at[0] + view["width"] / 2, at[1] + view["height"] / 2)
    mark = sheet.state()["mark"]
    proposed = "() => globalThis.warpgauge.store.state.proposal !== null"
    page.locator("button[data-command=snap]").click()
    page.wait_for_function(proposed)
    assert sheet.state()["mark"] == mark
    page.keyboard.press("Escape")
    assert sheet.state()["proposal"] is None
    assert sheet.state()["mark"] == mark
    page.keyboard.press("r")
    page.wait_for_function(proposed)
    says(message, "dashed")
    page.keyboard.press("Enter")
    moved = sheet.state()["mark"]
    np.testing.assert_allclose(moved["point"], truth, atol=0.2 * SPACING)
    assert moved["shape"] == mark["shape"]
    assert sheet.state()["query"]["query"] == query["query"]
    sheet.accept()
    with Project.open(pair.folder) as project:
        stored = project.state.placement("ada", query["query"])
    assert stored.point == tuple(moved["point"])
    assert stored.snapped_from == tuple(mark["point"])
    assert sheet.problems == []
    sheet.close()
