"""Reviewing: the image turned to match, the list, the end, and what an organiser sees and settles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from warpgauge.project import Project
from warpgauge.session.control_questions import add_controls
from web.page_tools import Sheet, bend, make_tissue_project, open_sheet, says, tissue
from web.server_tools import Served, answer, served


def make_turned(folder: Path, **settings: Any) -> Path:
    """Make a project whose moving image is the fixed one, mirrored and turned by a quarter."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fixed = tissue((420, 300), 5)
    Image.fromarray(fixed).save(folder.parent / "fixed.png")
    # What lies at (x, y) of the fixed image lies at (y, x) of the moving one: a mirror and a quarter turn.
    Image.fromarray(np.ascontiguousarray(fixed.transpose(1, 0, 2))).save(folder.parent / "moving.png")
    points = np.random.default_rng(2).uniform(30, 270, (60, 2)) * [1.4, 1.0]
    Project.create(folder, fixed=folder.parent / "fixed.png", moving=folder.parent / "moving.png", candidates=points,
                   targets=points, settings={"guided_start": False, **settings}).close()  # fmt: skip
    return folder


def canvas_pixels(sheet: Sheet, side: str, points: np.ndarray) -> np.ndarray:
    """Return the colours of a canvas at world points, by the page's own view and turn."""
    view = sheet.state()["views"][side]["2"]
    turn = np.array(view.get("turn") or np.eye(2))
    at = (points - view["centre"]) @ turn.T * view["scale"] + np.array([view["width"], view["height"]]) / 2
    found = sheet.page.evaluate(
        "([side, at]) => { const c = document.querySelector(`#${side} canvas`).getContext('2d');"
        " return at.map(([x, y]) => [...c.getImageData(Math.floor(x), Math.floor(y), 1, 1).data].slice(0, 3)); }",
        [side, at.tolist()],
    )
    return np.array(found, dtype=float)


def place_over_the_wire(server: Served, who: str, count: int, there: Any) -> None:
    client = server.client(who)
    query = client.get("/api/query").json()
    for _ in range(count):
        query = answer(client, query, there(query["location"]), confirmed=True).json()["next"]


def test_after_three_marks_the_moving_image_looks_as_the_fixed_one(browser: Any, tmp_path: Path) -> None:
    """Mirrored and turned back on the screen; a click on it is stored at the right place of the image."""
    with served(make_turned(tmp_path / "turned"), "ada") as server:
        place_over_the_wire(server, "ada", 4, lambda point: [point[1], point[0]])
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        page.wait_for_function("() => globalThis.warpgauge.store.state.pose !== null")
        sheet.settle()
        assert sheet.state()["pose"]["mirrored"]
        page.keyboard.press("0")
        page.keyboard.down("h")
        sheet.settle()
        views = sheet.state()["views"]
        points = np.random.default_rng(1).uniform(60, 240, (60, 2))
        fixed = canvas_pixels(sheet, "fixed", points)
        moving = canvas_pixels(sheet, "moving", points[:, ::-1])
        assert np.median(np.abs(fixed - moving)) < 12
        # Right on the screen is right in both: the picture itself is turned, not only its marks.
        turn = np.array(views["moving"]["2"]["turn"])
        np.testing.assert_allclose(turn, [[0, 1], [1, 0]], atol=1e-9)
        box = sheet.box("moving")
        sheet.press_at("moving", box["width"] / 2 + 40, box["height"] / 2 - 25)
        view = sheet.state()["views"]["moving"]["2"]
        wanted = turn.T @ np.array([40, -25]) / view["scale"] + view["centre"]
        np.testing.assert_allclose(sheet.state()["mark"]["point"], wanted, atol=0.6 / view["scale"])
        assert sheet.problems == []
        sheet.close()


def test_a_picture_that_is_turned_by_an_odd_angle_has_no_seams(browser: Any, tmp_path: Path) -> None:
    """A uniform image of several tiles, shown turned by 20 degrees: every pixel within it has its colour."""
    for side in ("fixed", "moving"):
        Image.fromarray(np.full((700, 700, 3), 200, np.uint8)).save(tmp_path / f"{side}.png")
    points = np.random.default_rng(2).uniform(200, 500, (40, 2))
    Project.create(tmp_path / "p", fixed=tmp_path / "fixed.png", moving=tmp_path / "moving.png", candidates=points,
                   targets=points, settings={"guided_start": False}).close()  # fmt: skip
    angle = np.deg2rad(20)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    with served(tmp_path / "p", "ada") as server:
        place_over_the_wire(server, "ada", 4, lambda point: (turn @ (np.array(point) - 350) + 350).tolist())
        sheet = open_sheet(browser, server, "ada")
        sheet.page.wait_for_function("() => Math.abs(globalThis.warpgauge.store.state.pose?.degrees) === 20")
        for key in ("0", "+", "+"):
            sheet.page.keyboard.press(key)
        sheet.page.evaluate("() => globalThis.warpgauge.store.set({ query: null, rows: [], hidden: true })")
        sheet.settle()
        lowest = sheet.page.evaluate(
            "() => { const canvas = document.querySelector('#moving canvas'); const { width, height } = canvas;"
            " const { data } = canvas.getContext('2d').getImageData(width / 2 - 150, height / 2 - 150, 300, 300);"
            " return data.reduce((low, value, i) => (i % 4 === 3 ? low : Math.min(low, value)), 255); }"
        )
        assert lowest >= 198
        sheet.close()


def test_the_review_filters_and_the_end_tells_what_was_reached(browser: Any, tmp_path: Path) -> None:
    """A slip among good marks is flagged, found by its filter and named on the last page; marks go home as a file."""
    with served(make_tissue_project(tmp_path / "lesion", budget=9), "ada,ben") as server:
        client = server.client("ada")
        query = client.get("/api/query").json()
        for k in range(9):
            x, y = query["location"]
            slip = 45.0 if k == 6 else 0.0
            query = answer(client, query, [x + 7 + slip, y - 4], confirmed=True).json()["next"]
        sheet = Sheet(browser, server.links["ada"])
        page = sheet.page
        page.locator("#finish button[data-look]").first.wait_for()
        sheet.settle()
        says(page.locator("#finish [data-reached]"), "9 of the budget of 9 landmarks are placed.")
        assert "nats" not in page.locator("#finish").text_content()
        with page.expect_download() as taken:
            page.locator("#finish button[data-download=mine]").click()
        assert taken.value.suggested_filename == "lesion-ada.csv"
        table = Path(taken.value.path()).read_text().splitlines()
        assert len(table) == 1 + 9
        assert page.locator("#finish button[data-download]").count() == 1, "those of others are the organiser's"
        page.locator("#finish button[data-act=review]").click()
        page.locator("#drawer tbody tr").first.wait_for()
        assert not page.locator("#finish .sheet").count()
        sheet.settle()
        assert page.locator("#drawer tbody tr").count() == 9
        # The list keeps the keyboard: a filter, an order or a leaf chosen by key keeps the focus.
        focused = "() => { const { dataset, tagName } = document.activeElement;"
        focused += " return dataset.filter ?? dataset.order ?? dataset.leaf ?? tagName; }"
        for chosen, name in (("[data-filter=flagged]", "flagged"), ("[data-order=distance]", "distance")):
            page.locator(chosen).focus()
            page.keyboard.press("Enter")
            assert page.evaluate(focused) == name
        assert 1 <= page.locator("#drawer tbody tr").count() < 9
        away = [float(text) for text in page.locator("#drawer tbody td.num:nth-child(4)").all_text_contents()]
        assert away == sorted(away, reverse=True)
        page.locator("[data-leaf=list]").focus()
        page.keyboard.press("ArrowRight")
        page.locator("#drawer svg.chart").wait_for()
        assert page.evaluate(focused) == "progress"
        page.keyboard.press("ArrowLeft")
        # A row leads to its answer, and the keyboard to the images; Escape closes the drawer.
        page.locator("#drawer tbody tr").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("() => globalThis.warpgauge.store.state.query?.answer?.kind === 'place'")
        sheet.settle()
        assert page.evaluate(focused) == "CANVAS"
        page.locator("button[data-choice=back]").wait_for()
        page.keyboard.press("Escape")
        assert page.locator("#drawer").is_hidden()
        assert sheet.problems == []
        sheet.close()


def test_the_organiser_sees_people_at_work_and_settles_what_disagrees(browser: Any, tmp_path: Path) -> None:
    """Live, in the two panes: only disagreements are listed, names are hidden until all is settled, then told."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada,ben") as server:
        place_over_the_wire(server, "ada", 3, lambda point: [point[0] + 7, point[1] - 4])
        place_over_the_wire(server, "ben", 2, lambda point: [point[0] + 7, point[1] + point[0] / 10])
        sheet = open_sheet(browser, server)
        page = sheet.page
        # It opens on the people; nothing asks the organiser for spots, and a click marks nothing.
        page.locator("[data-rater=ben]", has_text="2 of 30 placed").wait_for()
        assert page.locator("[data-rater=organiser]").count() == 0, "who has not marked anything has no card"
        sheet.press_at("moving", 200, 200)
        assert sheet.state()["mark"] is None
        says(page.locator("#message"), "Close Organiser")
        place_over_the_wire(server, "ben", 1, lambda point: [point[0] + 7, point[1] - 4])
        page.locator("[data-rater=ben]", has_text="3 of 30 placed").wait_for()
        # The third question, whose marks agree, is not listed; the largest disagreement is first.
        listed = page.locator("table.places").first
        apart = [float(text) for text in listed.locator("td.num").all_text_contents()]
        assert len(apart) == 2
        assert apart == sorted(apart, reverse=True)
        listed.locator("tr[data-place]").first.click()
        judging = page.locator(".judging")
        says(judging.locator("[data-apart]"), "farther apart than their ±")
        rows = [row.text_content() for row in judging.locator("tr[data-mark]").all()]
        assert [text.partition("±")[0] for text in rows] == ["Rater A", "Rater B"]
        # Both marks are in sight in the pane, at the scale of both; the wheel zooms there.
        sheet.settle()
        state = sheet.state()
        for mark in state["judged"]["marks"]:
            view = state["views"]["moving"]["2"]
            assert (np.abs(np.subtract(mark["point"], view["centre"])) * view["scale"] < view["height"] / 2).all()
        box = sheet.box("moving")
        page.mouse.move(box["x"] + 200, box["y"] + 200)
        sheet.wheel(-200)
        assert sheet.state()["scale"] > state["scale"]
        # Where excluding is refused nothing is settled.
        refused = {"status": 422, "json": {"error": "That mark was changed meanwhile."}}
        page.route("**/exclude", lambda route: route.fulfill(**refused))
        judging.locator("[data-act=keep]").first.click()
        says(page.locator("#note"), "changed meanwhile")
        assert not any(one["locked"] for one in server.client().get("/api/locations").json()["locations"])
        page.unroute("**/exclude")
        judging.locator("[data-act=keep]").first.click()
        judging.locator("[data-state=settled]").wait_for()
        assert "ada" not in judging.text_content()
        # Settled and asked again, it is open until it is decided anew.
        judging.locator("[data-act=ask]").last.click()
        judging.locator("[data-state=reopened]").wait_for()
        page.locator("table.places tr[data-place]").first.click()
        page.wait_for_function("() => document.querySelectorAll('.judging tr[data-mark]').length === 2")
        if judging.locator("[data-act=resolve]:not(:disabled)").count():
            judging.locator("[data-act=keep]").first.click()
            judging.locator("[data-state=settled]").wait_for()
        # Nothing is open any more: now the names are told.
        page.locator("#drawer", has_text="No open disagreement is left").wait_for()
        says(judging, "ada")
        says(judging, "ben")
        with page.expect_download() as taken:
            page.locator("button[data-download=fused]").click()
        assert taken.value.suggested_filename == "lesion-fused.csv"
        # Closed, the organiser may answer too.
        page.keyboard.press("Escape")
        sheet.wait_for_query()
        assert page.locator("[data-command=accept]").is_enabled()
        assert [one for one in sheet.problems if "422" not in one] == []
        sheet.close()


def test_the_mark_of_another_rater_is_looked_at_and_not_switched_off(browser: Any, tmp_path: Path) -> None:
    """An organiser's list has a box for their own marks only; a click on ada's shows it and opens nothing."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada") as server:
        for who in ("ada", "launcher"):
            place_over_the_wire(server, who, 1, lambda point: [point[0] + 7, point[1] - 4])
        sheet = open_sheet(browser, server)
        page = sheet.page
        page.keyboard.press("d")
        hers = page.locator("tr[data-query]", has_text="ada")
        own = page.locator("tr[data-query]", has_not_text="ada")
        assert hers.locator("input").count() == 0
        asked = page.locator("#query-number").get_attribute("data-number")
        hers.click()
        sheet.settle()
        assert page.locator("#query-number").get_attribute("data-number") == asked
        own.locator("input").click()
        own.locator("input:not(:checked)").wait_for()
        sheet.settle()
        rows = server.client().get("/api/list").json()["rows"]
        assert {row["rater"] or "organiser": row["disabled"] for row in rows} == {"ada": False, "organiser": True}
        sheet.close()


# The server answers before the panes have their sizes, or after.
SIZES_LAST = """() => {
  const Real = globalThis.ResizeObserver;
  globalThis.ResizeObserver = class extends Real {
    constructor(tell) { super((...found) => setTimeout(() => tell(...found), 700)); }
  };
}"""
QUESTION_LAST = """() => {
  const real = globalThis.fetch;
  globalThis.fetch = async (address, ...more) => {
    if (String(address).endsWith("/api/query")) await new Promise((go) => setTimeout(go, 700));
    return real(address, ...more);
  };
}"""


@pytest.mark.parametrize("order", [SIZES_LAST, QUESTION_LAST], ids=["sizes last", "question last"])
def test_both_images_show_a_question_at_the_same_place_of_the_screen(browser: Any, tmp_path: Path, order: str) -> None:
    """Once something is known, the expected match stands where the queried point does, whatever arrives first."""
    with served(make_tissue_project(tmp_path / "lesion", size=(1600, 1300))) as server:
        place_over_the_wire(server, "launcher", 6, lambda point: (bend(np.array(point) / 0.5) * 0.5).tolist())
        sheet = open_sheet(browser, server, script=f"({order})()")
        # The pose, and with it how the moving image is turned, comes with the list, after the first picture.
        sheet.page.wait_for_function("() => globalThis.warpgauge.store.state.pose !== null")
        sheet.settle()
        state = sheet.state()
        query, views = state["query"], state["views"]
        at = []
        for side, point in (("fixed", query["location"]), ("moving", query["prediction"]["mean"])):
            view = views[side]["2"]
            turn = np.array(view.get("turn") or np.eye(2))
            at.append(turn @ (np.array(point) - view["centre"]) * view["scale"])
            assert min(view["width"], view["height"]) / view["scale"] >= 2 * 40 * 0.5
        np.testing.assert_allclose(at[0], at[1], atol=1.0)
        # Going back names the answer, and one button leads to the open question again.
        sheet.page.keyboard.press("Backspace")
        sheet.page.locator("button[data-choice=back]").click()
        sheet.wait_for_query(query["number"])
        sheet.close()


def test_the_organiser_sees_how_exact_each_rater_is(browser: Any, tmp_path: Path) -> None:
    """Control questions with known matches give a certificate with intervals; the rater's page is silent about them."""
    folder = make_tissue_project(tmp_path / "lesion", budget=60)
    points = np.array([[60.0, 60.0], [120.0, 90.0], [200.0, 150.0], [90.0, 180.0]])
    with Project.open(folder) as project:
        add_controls(project, points, bend(points / 0.5) * 0.5, "organiser")
    with served(folder, "ada") as server:
        while True:  # one question in eight is a control, drawn by a seed that nobody knows
            place_over_the_wire(server, "ada", 6, lambda at: (bend(np.array(at) / 0.5) * 0.5 + [2.0, 0.0]).tolist())
            (ada,) = [one for one in server.client().get("/api/raters").json()["raters"] if one["name"] == "ada"]
            if ada["certificate"] is not None and ada["certificate"]["controls"] >= 2:
                break
        sheet = open_sheet(browser, server)
        card = sheet.page.locator("[data-rater=ada]")
        card.locator("[data-certificate]").first.wait_for()
        told = card.text_content()
        assert "known matches in the drawn region" in told
        assert "bias x 2 (2 to 2)" in told
        assert sheet.page.locator("#drawer td", has_text="control").count() >= 2
        sheet.close()
        sheet = open_sheet(browser, server, "ada")
        assert "control" not in sheet.page.locator("body").text_content().lower()
        sheet.close()


def test_the_organiser_chooses_the_places_that_all_are_asked(browser: Any, tmp_path: Path) -> None:
    """Before anybody has answered: circles in the first image alone, one click each; raters then see exact places."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada,ben") as server:
        sheet = open_sheet(browser, server)
        page = sheet.page
        page.locator("[data-act=choose]").click()
        chosen = []
        for count in range(2):
            says(page.locator("#message"), f"{count} chosen.")
            sheet.settle()
            circle = sheet.state()["choosing"]
            view = sheet.state()["views"]["fixed"]["2"]
            x, y = ((circle["point"][k] - view["centre"][k]) * view["scale"] for k in (0, 1))
            off = 0.5 * circle["radius"] * view["scale"]
            inwards = -1 if circle["point"][0] > 160 else 1
            sheet.press_at("fixed", x + view["width"] / 2 + inwards * off, y + view["height"] / 2)
            chosen.append(circle["point"][0] + inwards * off / view["scale"])
        says(page.locator("#message"), "2 chosen.")
        page.locator("[data-act=choose]").click()
        assert sheet.state()["choosing"] is None
        for who in ("ada", "ben"):
            query = server.client(who).get("/api/query").json()
            assert query["radius"] == 0
            assert min(abs(query["location"][0] - x) for x in chosen) < 1 / view["scale"]
        assert sheet.problems == []
        sheet.close()
