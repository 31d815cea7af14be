"""Seeing and reviewing: the turned image, the live third pane, stains, the review, the end, the organiser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from warpgauge.project import Project
from warpgauge.session.control_questions import add_controls
from web.page_tools import Sheet, bend, make_tissue_project, make_volume_project, open_sheet, says, tissue, wait_in_page
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
    """Mirrored and turned back on the screen, toggled by Y; a click on it is stored at the right place of the image."""
    with served(make_turned(tmp_path / "turned"), "ada") as server:
        place_over_the_wire(server, "ada", 4, lambda point: [point[1], point[0]])
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        page.wait_for_function("() => globalThis.warpgauge.store.state.pose !== null")
        sheet.settle()
        says(page.locator("button[data-turned]"), "mirrored")
        for key in ("0", "h", "j"):
            page.keyboard.press(key)
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
        page.keyboard.press("y")
        assert sheet.state()["views"]["moving"]["2"].get("turn") is None
        assert sheet.problems == []
        sheet.close()


def test_after_the_guided_start_the_first_question_comes_turned_to_match(browser: Any, tmp_path: Path) -> None:
    """Also where the list of marks comes before the question; the line still asks the question."""
    with served(make_turned(tmp_path / "turned", guided_start=True), "ada") as server:
        sheet = Sheet(browser, server.links["ada"])
        page = sheet.page
        page.wait_for_function("() => document.getElementById('query-number').dataset.number === 'start'")
        sheet.settle()
        held: list[Any] = []

        def hold(route: Any) -> None:
            held.append(route)

        for k, (x, y) in enumerate(((60, 50), (350, 70), (180, 240))):
            for side, point in (("fixed", (x, y)), ("moving", (y, x))):
                view = sheet.state()["views"][side]["2"]
                at = (np.array(point) - view["centre"]) * view["scale"]
                sheet.press_at(side, at[0] + view["width"] / 2, at[1] + view["height"] / 2)
            if k == 2:
                page.route("**/api/query", hold)
            page.keyboard.press("Enter")
            if k < 2:
                page.wait_for_function("k => globalThis.warpgauge.store.state.start.volunteered === k", arg=k + 1)
                sheet.settle()
        page.wait_for_function("() => globalThis.warpgauge.store.state.rows.length === 3")
        wait_in_page(page, lambda: bool(held))
        held[0].continue_()
        sheet.wait_for_query()
        assert sheet.state()["views"]["moving"]["2"]["turn"] == [[0, 1], [1, 0]]
        words = page.locator("#message").text_content()
        assert "mirrored" in words
        assert "Where is this point?" in words
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
        says(sheet.page.locator("button[data-turned]"), "turned 20")
        for key in ("h", "j", "0", "+", "+"):
            sheet.page.keyboard.press(key)
        sheet.settle()
        lowest = sheet.page.evaluate(
            "() => { const canvas = document.querySelector('#moving canvas'); const { width, height } = canvas;"
            " const { data } = canvas.getContext('2d').getImageData(width / 2 - 150, height / 2 - 150, 300, 300);"
            " return data.reduce((low, value, i) => (i % 4 === 3 ? low : Math.min(low, value)), 255); }"
        )
        assert lowest >= 198
        sheet.close()


def pulled_tissue_takes_the_mark_along(sheet: Sheet, server: Served) -> None:
    """Tissue pulled by v in the warped image: the match of the point asked for moves by -J v, J from the model."""
    before, query = np.array(sheet.state()["mark"]["point"]), sheet.state()["query"]
    scale = sheet.state()["views"]["fixed"]["2"]["scale"]
    sheet.drag("warped", (120, 240), (150, 228))
    sheet.settle()
    after = np.array(sheet.state()["mark"]["point"])
    at, v = np.array(query["location"]), np.array([30.0, -12.0]) / scale
    ends = [",".join(map(str, point)) for point in (at + v / 2, at - v / 2)]
    mapped = np.array(server.client("ada").get("/api/linked", params={"points": ";".join(ends)}).json()["points"])
    np.testing.assert_allclose(after - before, mapped[1] - mapped[0], atol=0.03 * np.linalg.norm(v))
    sheet.page.keyboard.press("z")
    np.testing.assert_allclose(sheet.state()["mark"]["point"], before, atol=1e-9)


def test_the_third_pane_follows_a_mark_while_it_is_dragged(browser: Any, tmp_path: Path) -> None:
    """V opens it; during a drag new pictures come before anything is saved; every comparison draws another picture."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada") as server:
        place_over_the_wire(server, "ada", 4, lambda point: [point[0] + 7, point[1] - 4])
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        page.keyboard.press("v")
        third = page.locator("#warped canvas")
        third.wait_for()
        page.wait_for_function("() => Number(document.querySelector('#warped canvas').dataset.warped) > 0")
        asked = [url for url in sheet.requests if "/api/warped" in url]
        assert asked
        assert not any("mark=" in url for url in asked)
        box = sheet.box("moving")
        page.mouse.move(box["x"] + 150, box["y"] + 200)
        page.mouse.down()
        steps = iter(range(100_000))

        def follows() -> bool:
            """Drag on, until two pictures were asked for before the hand lets go."""
            page.mouse.move(box["x"] + 160 + 6 * (next(steps) % 12), box["y"] + 200)
            return sum("/api/warped" in url and "mark=" in url for url in sheet.requests) >= 2

        wait_in_page(page, follows)
        page.mouse.up()
        sheet.settle()
        pulled_tissue_takes_the_mark_along(sheet, server)
        seen = set()
        for _ in range(6):
            page.keyboard.press("c")
            sheet.settle()
            seen.add(page.evaluate("() => document.querySelector('#warped canvas').toDataURL().length"))
        assert len(seen) >= 4
        page.keyboard.press("v")
        assert page.locator("#fixed .planes canvas").is_hidden()
        page.keyboard.press("v")
        assert page.locator("#warped").is_hidden()
        assert sheet.problems == []
        sheet.close()


def test_stains_gamma_and_the_value_under_the_pointer(browser: Any, tmp_path: Path) -> None:
    """Haematoxylin alone is grey, gamma brightens, and the readout tells position and value of the image."""
    folder = make_tissue_project(tmp_path / "lesion")
    Image.new("RGB", (640, 520), (10, 200, 30)).save(tmp_path / "green.png")
    with served(folder, "ada", contexts=(f"moving={tmp_path / 'green.png'}",)) as server:
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        for key in ("0", "h"):
            page.keyboard.press(key)
        sheet.settle()
        points = np.random.default_rng(1).uniform(60, 200, (50, 2))
        # Another image of the same frame in its place, and back.
        plain = canvas_pixels(sheet, "moving", points)
        page.locator("#moving .planes canvas").focus()
        page.keyboard.press("Shift+V")
        sheet.settle()
        assert np.all(canvas_pixels(sheet, "moving", points) == [10, 200, 30])
        says(page.locator("select[data-context=moving] option:checked"), "green.png", whole=True)
        page.keyboard.press("Shift+V")
        sheet.settle()
        assert np.array_equal(canvas_pixels(sheet, "moving", points), plain)
        page.locator("button[data-contrast=moving]").click()
        page.locator("select[data-stain=moving]").select_option("haematoxylin")
        sheet.settle()
        grey = canvas_pixels(sheet, "moving", points)
        assert np.abs(grey - grey[:, :1]).max() == 0
        # The histogram, and Auto with it, are those of what is shown: nearly all of it lies between the ends.
        page.locator("button[data-act=auto]").click()
        sheet.settle()
        auto = canvas_pixels(sheet, "moving", points)
        assert auto.std() > 1.5 * grey.std()
        assert np.mean((auto > 2) & (auto < 253)) > 0.9
        page.locator("select[data-stain=moving]").select_option("first")
        sheet.settle()
        own = sheet.state()["colours"]["moving"]["stains"]
        assert np.linalg.norm(own, axis=1) == pytest.approx([1, 1])
        assert np.abs(canvas_pixels(sheet, "moving", points) - auto).mean() > 2
        page.locator("button", has_text="Reset").click()
        page.locator("select[data-stain=moving]").select_option("haematoxylin")
        sheet.settle()
        assert np.abs(canvas_pixels(sheet, "moving", points) - grey).max() == 0
        page.locator("input[data-end=gamma]").evaluate("e => { e.value = 2; e.dispatchEvent(new Event('input')); }")
        sheet.settle()
        assert canvas_pixels(sheet, "moving", points).mean() > grey.mean() + 5
        picture = np.asarray(Image.open(server.folder.parent / "He.png"))
        box, view = sheet.box("fixed"), sheet.state()["views"]["fixed"]["2"]
        x, y = 250, 220
        page.mouse.move(box["x"] + x, box["y"] + y)
        page.wait_for_function("() => document.querySelector('#fixed .readout').textContent.includes('R ')")
        sheet.settle()
        words = page.locator("#fixed .readout").text_content()
        world = [
            (v - view[s] / 2) / view["scale"] + view["centre"][k]
            for k, (v, s) in enumerate(((x, "width"), (y, "height")))
        ]
        assert f"x {world[0]:.1f}" in words
        i, j = (round(value / 0.5) for value in world)
        shown = [float(word) for word in words.split("·")[1].split() if word.isdigit()]
        assert shown == picture[j, i].tolist()
        sheet.close()


def test_the_review_filters_and_the_end_tells_what_to_do(browser: Any, tmp_path: Path) -> None:
    """A slip among good marks is flagged, found by its filter and by Shift+N, and named on the last page."""
    with served(make_tissue_project(tmp_path / "lesion", budget=9), "ada") as server:
        client = server.client("ada")
        query = client.get("/api/query").json()
        for k in range(9):
            x, y = query["location"]
            slip = 45.0 if k == 6 else 0.0
            query = answer(client, query, [x + 7 + slip, y - 4], confirmed=True).json()["next"]
        sheet = Sheet(browser, server.links["ada"])
        page = sheet.page
        page.locator("#finish h2").wait_for()
        page.locator("#finish button[data-look]").first.wait_for()
        sheet.settle()
        text = page.locator("#finish").text_content()
        assert "9" in text
        assert "matches placed" in text
        assert "nats" not in text
        assert "warpgauge add-transform" not in text, "no terminal is needed"
        # The marks go home as a file, with the numbers that the list shows.
        with page.expect_download() as taken:
            page.locator("#finish button[data-download=mine]").click()
        assert taken.value.suggested_filename == "lesion-ada.csv"
        table = Path(taken.value.path()).read_text().splitlines()
        assert len(table) == 1 + 9
        assert page.locator("#finish button[data-download]").count() == 1, "those of others are the organiser's"
        # Who comes for the first time when all is done is not told how to begin; Review shows the list, not the end.
        visit = browser.new_context()
        first = visit.new_page()
        first.goto(server.links["ada"])
        first.wait_for_function("() => globalThis.warpgauge?.opened")
        assert first.locator("#finish").is_visible()
        assert not first.locator("dialog[open]").count()
        first.locator("#drawer-button").click()
        first.locator("#drawer tbody tr").first.wait_for()
        assert not first.locator("#finish").is_visible()
        visit.close()
        page.locator("#finish button[data-act=review]").click()
        sheet.settle()
        told = page.locator("#drawer tbody tr [data-at]").first.text_content()
        numbers = [[f"{float(value):.1f}" for value in row.split(",")[:4]] for row in table[1:]]
        assert told.replace(" → ", ", ").split(", ") in numbers
        page.locator("button[data-filter=flagged]").click()
        assert page.locator("#drawer tbody tr").count() >= 1
        assert page.locator("#drawer tbody tr").count() < 9
        page.keyboard.press("Shift+N")
        page.wait_for_function("() => globalThis.warpgauge.store.state.query?.answer?.kind === 'place'")
        assert sheet.problems == []
        sheet.close()


def test_the_list_keeps_the_keyboard_and_gives_it_to_the_images(browser: Any, tmp_path: Path) -> None:
    """A filter, an order or a leaf chosen by key keeps the focus; a row, and anything clicked, leads to the images."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada") as server:
        place_over_the_wire(server, "ada", 4, lambda point: [point[0] + 7, point[1] - 4])
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        focused = "() => { const { dataset, tagName } = document.activeElement;"
        focused += " return dataset.filter ?? dataset.order ?? dataset.leaf ?? tagName; }"
        page.keyboard.press("d")
        for chosen in ("[data-filter=placed]", "[data-order=distance]"):
            page.locator(chosen).focus()
            page.keyboard.press("Enter")
            page.wait_for_function(
                "chosen => { const now = document.activeElement; return now.matches(chosen) && (now.ariaPressed"
                " === 'true' || now.closest('th')?.ariaSort === 'descending'); }",
                arg=chosen,
            )
        page.locator("[data-filter=all]").click()
        assert page.evaluate(focused) == "CANVAS"
        page.locator("#drawer tbody tr").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("() => globalThis.warpgauge.store.state.query?.answer?.kind === 'place'")
        sheet.settle()
        assert page.evaluate(focused) == "CANVAS"
        page.locator("[data-leaf=list]").focus()
        page.keyboard.press("ArrowRight")
        page.locator("#drawer svg.chart").first.wait_for()
        assert page.evaluate(focused) == "progress"
        assert sheet.problems == []
        sheet.close()


def test_the_organiser_sees_new_marks_by_themselves_sorted_with_units(browser: Any, tmp_path: Path) -> None:
    """Cards count what raters do without a reload; the largest disagreement is first; both pictures zoom together."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada,ben") as server:
        place_over_the_wire(server, "ada", 3, lambda point: [point[0] + 7, point[1] - 4])
        place_over_the_wire(server, "ben", 2, lambda point: [point[0] + 7, point[1] + point[0] / 10])
        sheet = open_sheet(browser, server)
        page = sheet.page
        page.wait_for_selector("#organiser-button[data-ready]")
        page.locator("#organiser-button").click()
        page.locator("[data-rater=ben]", has_text="2 of 30 placed").wait_for()
        # The largest disagreement is open at once, and stays in sight beside a list that is scrolled to its end.
        first = page.locator("tr[data-place]").first.get_attribute("data-place")
        assert page.locator("tr.here").get_attribute("data-place") == first
        page.evaluate("() => document.getElementById('organiser').scrollTo(0, 100_000)")
        box = page.locator("canvas.adjudicate").first.bounding_box()
        assert 0 <= box["y"] <= 720 - box["height"]
        assert page.locator("[data-rater=organiser]").count() == 0, "who has not marked anything has no card"
        place_over_the_wire(server, "ben", 1, lambda point: [point[0] + 7, point[1] - 4])
        page.locator("[data-rater=ben]", has_text="3 of 30 placed").wait_for()
        apart = [float(text) for text in page.locator("tr[data-place] td.num").all_text_contents() if text != "–"]
        assert apart == sorted(apart, reverse=True)
        says(page.locator("#organiser .questions th.num"), "µm")
        page.locator("tr[data-place]").first.click()
        pictures = page.locator("canvas.adjudicate")
        page.wait_for_function("() => document.querySelector('canvas.adjudicate')?.dataset.span")
        before = float(pictures.first.get_attribute("data-span"))
        pictures.first.hover()
        sheet.wheel(-200)
        page.wait_for_function(
            "before => [...document.querySelectorAll('canvas.adjudicate')].every(c => Number(c.dataset.span) < before)",
            arg=before,
        )
        spans = {canvas.get_attribute("data-span") for canvas in pictures.all()}
        assert len(spans) == 1
        # What a rater does meanwhile arrives, and the organiser still sees what they looked at.
        place_over_the_wire(server, "ben", 1, lambda point: [point[0] + 7, point[1] - 4])
        page.locator("[data-rater=ben]", has_text="4 of 30 placed").wait_for()
        page.wait_for_function("() => document.querySelector('canvas.adjudicate')?.dataset.span")
        assert {canvas.get_attribute("data-span") for canvas in pictures.all()} == spans
        rows = page.locator("#organiser tr", has=page.locator("button[data-act=keep]"))
        assert [row.text_content()[:7] for row in rows.all()] == ["Rater A", "Rater B"]
        # Marks far apart are not taken together by default; those that agree are.
        together = page.locator("button[data-act=resolve]")
        assert together.get_attribute("class") == ""
        says(page.locator("[data-apart]"), "farther apart than their ±")
        page.locator("tr[data-place]", has_text="2 placed").last.click()
        page.wait_for_selector("button.primary[data-act=resolve]")
        assert page.locator("[data-apart]").count() == 0
        # Settled, and asked again: the page says that it is open.
        row = page.locator("tr[data-place].here")
        together.click()
        page.locator("[data-state=settled]").wait_for()
        says(row, "settled")
        page.locator("button[data-act=ask]").last.click()
        page.locator("[data-state=reopened]").wait_for()
        assert page.locator("[data-state=settled]").count() == 0
        says(row, "asked again")
        # Keep one, then ask the other again: open until that answer is there and it is decided anew.
        page.locator("button[data-act=keep]").first.click()
        page.locator("[data-state=settled]", has_text="One of the marks is taken").wait_for()
        page.locator("button[data-act=ask]").last.click()
        page.locator("[data-state=reopened]", has_text="One of the marks is taken").wait_for()
        place_over_the_wire(server, "ben", 1, lambda point: [point[0] + 9, point[1] - 4])
        page.locator("[data-rater=ben]", has_text="4 of 30 placed").wait_for()
        assert page.locator("[data-state=settled]").count() == 0
        says(row, "asked again")
        with page.expect_download() as taken:
            page.locator("#organiser button[data-download=fused]").click()
        assert taken.value.suggested_filename == "lesion-fused.csv"
        assert sheet.problems == []
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


def shared_by_two(server: Served) -> dict[str, Any]:
    """Return the location that two raters have answered."""
    (place,) = [one for one in server.client().get("/api/locations").json()["locations"] if len(one["marks"]) == 2]
    return place


def test_one_mark_is_kept_only_where_the_other_was_excluded(browser: Any, tmp_path: Path) -> None:
    """Where excluding is refused nothing is settled; and what is settled names nobody."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada,ben") as server:
        place_over_the_wire(server, "ada", 1, lambda point: [point[0] + 7, point[1] - 4])
        place_over_the_wire(server, "ben", 1, lambda point: [point[0] + 30, point[1] + 20])
        sheet = open_sheet(browser, server)
        page = sheet.page
        page.wait_for_selector("#organiser-button[data-ready]")
        page.locator("#organiser-button").click()
        refused = {"status": 422, "json": {"error": "Ben's mark was changed meanwhile."}}
        page.route("**/exclude", lambda route: route.fulfill(**refused))
        page.locator("button[data-act=keep]").first.click()
        says(page.locator("#organiser .judging > [role=status]"), "changed meanwhile")
        sheet.settle()
        place = shared_by_two(server)
        assert not place["locked"]
        page.unroute("**/exclude")
        page.locator("button[data-act=keep]").first.click()
        page.locator("[data-state=settled]").wait_for()
        place = shared_by_two(server)
        assert sorted(mark["excluded"] for mark in place["marks"]) == [False, True]
        words = page.locator("[data-state=settled]").text_content()
        assert not any(name in words for name in ("ada", "ben"))
        sheet.close()


def test_disagreements_in_volumes_are_seen_in_three_planes_slice_by_slice(browser: Any, tmp_path: Path) -> None:
    """The wheel turns the slices of both images, Shift+wheel zooms them, and each plane can be chosen."""
    with served(make_volume_project(tmp_path / "body"), "ada,ben") as server:
        for who, shift in (("ada", 0.0), ("ben", 4.0)):
            place_over_the_wire(server, who, 2, lambda point, shift=shift: [point[0], point[1] + shift, point[2]])
        sheet = open_sheet(browser, server)
        page = sheet.page
        page.locator("#organiser-button[data-ready]").click()
        page.locator("tr[data-place]").first.click()
        drawn = """() => [...document.querySelectorAll('canvas.adjudicate')].map(
            ({ dataset }) => [dataset.plane, Number(dataset.slice), Number(dataset.span)])"""
        page.wait_for_function(f"() => ({drawn})().every((one) => one[2] > 0)")
        before = page.evaluate(drawn)
        assert [one[0] for one in before] == ["2", "2"]
        page.locator("canvas.adjudicate").first.hover()
        sheet.wheel(100, 100)
        page.wait_for_function(f"before => ({drawn})().every((one, i) => one[1] === before[i][1] + 2)", arg=before)
        assert [one[2] for one in page.evaluate(drawn)] == [one[2] for one in before]
        page.keyboard.down("Shift")
        sheet.wheel(-100)
        page.keyboard.up("Shift")
        page.wait_for_function(f"before => ({drawn})().every((one, i) => one[2] < before[i][2])", arg=before)
        for axis in (1, 0):
            page.locator(f"button[data-plane='{axis}']").click()
            page.wait_for_function(f"axis => ({drawn})().every((one) => one[0] === axis)", arg=str(axis))
        assert sheet.problems == []
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
    folder = make_tissue_project(tmp_path / "lesion")
    points = np.array([[60.0, 60.0], [120.0, 90.0], [200.0, 150.0], [90.0, 180.0]])
    with Project.open(folder) as project:
        add_controls(project, points, bend(points / 0.5) * 0.5, "organiser")
    with served(folder, "ada") as server:
        place_over_the_wire(server, "ada", 16, lambda point: (bend(np.array(point) / 0.5) * 0.5 + [2.0, 0.0]).tolist())
        sheet = open_sheet(browser, server)
        sheet.page.locator("#organiser-button[data-ready]").click()
        card = sheet.page.locator("[data-rater=ada]")
        card.locator("[data-certificate]").first.wait_for()
        told = card.text_content()
        assert "of 2 known matches in the drawn region" in told
        assert "bias x 2 (2 to 2)" in told
        assert sheet.page.locator("#organiser td", has_text="control").count() == 2
        sheet.close()
        sheet = open_sheet(browser, server, "ada")
        assert "control" not in sheet.page.locator("body").text_content().lower()
        sheet.close()
