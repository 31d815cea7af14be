"""Places of the expert's own choice: the guided start, own points, points near the one asked for; slips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.project import Project
from web.page_tools import Sheet, bend, make_tissue_project, open_sheet, says, written_now
from web.server_tools import Served, served

SPACING = 0.5


def screen(sheet: Sheet, side: str, point: Any) -> tuple[float, float]:
    """Where a world point is on a canvas, by the page's own view and turn."""
    view = sheet.state()["views"][side]["2"]
    turn = np.array(view.get("turn") or np.eye(2))
    at = turn @ (np.asarray(point) - view["centre"]) * view["scale"]
    return at[0] + view["width"] / 2, at[1] + view["height"] / 2


def truth(point: Any) -> np.ndarray:
    return bend(np.asarray(point) / SPACING) * SPACING


def events(server: Served, who: str) -> list[Any]:
    """Return the rater's placements with the origin of their queries."""
    with Project.open(server.folder) as project:
        state = project.state
        cells = sorted((number, cell) for (name, number), cell in state.cells.items() if name == who)
        return [(state.queries[number], cell.placement) for number, cell in cells if cell.placement is not None]


def open_start(browser: Any, server: Served, who: str) -> Sheet:
    sheet = Sheet(browser, server.links[who])
    sheet.page.wait_for_function("() => document.getElementById('query-number').dataset.number === 'start'")
    sheet.settle()
    return sheet


def test_a_new_project_begins_with_three_places_of_ones_own(browser: Any, tmp_path: Path) -> None:
    """Fixed, moving, Enter, three times: stored as volunteered; then the first question comes."""
    with served(make_tissue_project(tmp_path / "lesion", guided_start=True), "ada,ben") as server:
        sheet = open_start(browser, server, "ada")
        page = sheet.page
        places = np.array([[60.0, 50.0], [250.0, 70.0], [150.0, 200.0]])
        for k, place in enumerate(places):
            says(page.locator("#message"), f"Place {k + 1} of 3")
            sheet.press_at("fixed", *screen(sheet, "fixed", place))
            says(page.locator("#message"), "moving image")
            sheet.press_at("moving", *screen(sheet, "moving", truth(place)))
            page.keyboard.press("Enter")
            if k < 2:
                page.wait_for_function(
                    "text => document.getElementById('message').textContent.includes(text)", arg=f"Place {k + 2} of 3"
                )
                sheet.settle()
        sheet.wait_for_query()
        found = events(server, "ada")
        assert [query.origin for query, _ in found] == ["volunteered"] * 3
        scale = sheet.state()["views"]["fixed"]["2"]["scale"]
        for (query, answer), place in zip(found, places, strict=True):
            np.testing.assert_allclose(query.point, place, atol=1.5 / scale)
            np.testing.assert_allclose(answer.point, truth(place), atol=3 / scale)
        assert sheet.problems == []
        sheet.close()
        # Another rater skips the start; it does not come again.
        other = open_start(browser, server, "ben")
        skip = other.page.locator("button[data-choice=skip-start]")
        before = skip.bounding_box()
        other.page.keyboard.press("Space")  # the sentence becomes longer, the button stays where it is
        other.page.wait_for_function("() => document.getElementById('message').textContent.startsWith('The arrows')")
        assert skip.bounding_box() == before
        skip.click()
        other.wait_for_query()
        other.page.reload()
        other.wait_for_query()
        assert events(server, "ben") == []
        other.close()


def world_at(sheet: Sheet, side: str, x: float, y: float) -> np.ndarray:
    """The world point of the fixed frame under a position of a pane, which looks where the fixed image does."""
    view, box = sheet.state()["views"]["fixed"]["2"], sheet.box(side)
    return np.array(view["centre"]) + (np.array([x, y]) - np.array([box["width"], box["height"]]) / 2) / view["scale"]


def test_a_point_of_ones_own_and_one_near_the_question(browser: Any, tmp_path: Path) -> None:
    """P saves places of one's own in a row and goes back to the question; F answers it at something near."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        page.keyboard.press("p")
        place = np.array([170.0, 120.0])
        sheet.press_at("fixed", *screen(sheet, "fixed", place))
        sheet.settle()  # the moving image goes to where the match is expected
        sheet.press_at("moving", *screen(sheet, "moving", truth(place)))
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.getElementById('message').textContent.startsWith('Saved.')")
        # The next one follows at once: in the warped image, where tissue is taken hold of and let go where it belongs.
        page.keyboard.press("v")
        page.wait_for_function("() => Number(document.querySelector('#warped canvas').dataset.warped) > 0")
        sheet.settle()
        sheet.drag("warped", (150, 200), (180, 215))
        sheet.settle()
        state = sheet.state()
        let_go = world_at(sheet, "warped", 180, 215)
        np.testing.assert_allclose(state["own"], let_go, atol=1e-6)
        held = world_at(sheet, "warped", 150, 200)
        expected = server.client("ada").get("/api/linked", params={"points": ",".join(map(str, held))}).json()["points"]
        np.testing.assert_allclose(state["mark"]["point"], expected[0], atol=1e-6)
        page.keyboard.press("Enter")
        page.wait_for_function("() => globalThis.warpgauge.store.state.own === null")
        page.keyboard.press("v")
        page.keyboard.press("v")
        page.keyboard.press("p")
        page.wait_for_function("() => globalThis.warpgauge.store.state.task === 'answer'")
        sheet.wait_for_query()
        assert [query.origin for query, _ in events(server, "ada")] == ["volunteered"] * 2
        asked = sheet.state()["query"]["query"]
        page.keyboard.press("f")
        page.keyboard.press("0")
        location = np.array(sheet.state()["query"]["location"])
        within = sheet.state()["project"]["settings"]["move_within"]
        inwards = np.array([160.0, 130.0]) - location
        inwards /= np.linalg.norm(inwards)
        sheet.press_at("fixed", *screen(sheet, "fixed", location + 1.5 * within * inwards))
        says(page.locator("#message"), "too far")
        near = location + 0.6 * within * inwards
        sheet.press_at("fixed", *screen(sheet, "fixed", near))
        sheet.settle()
        sheet.press_at("moving", *screen(sheet, "moving", truth(near)))
        page.keyboard.press("Enter")
        page.wait_for_function("number => globalThis.warpgauge.store.state.query?.query !== number", arg=asked)
        sheet.wait_for_query()
        with Project.open(server.folder) as project:
            answer = project.state.placement("ada", asked)
        scale = sheet.state()["views"]["fixed"]["2"]["scale"]
        np.testing.assert_allclose(answer.fixed, near, atol=3 / min(scale, 2))
        assert sheet.problems == []
        sheet.close()


def test_a_slip_is_asked_about_once_in_a_quiet_line(browser: Any, tmp_path: Path) -> None:
    """Far outside the image: keep or change, no dialog; change keeps the mark, keep saves and flags it."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        for _ in range(3):
            page.keyboard.press("-")
        box = sheet.box("moving")
        sheet.press_at("moving", box["width"] - 12, 30)
        page.keyboard.press("Enter")
        page.locator("button[data-choice=keep]").wait_for()
        assert page.locator("dialog[open]").count() == 0
        assert "warning" in page.locator("#message").get_attribute("class")
        says(page.locator("#message"), "outside")
        page.locator("button[data-choice=change]").click()
        assert sheet.state()["mark"] is not None
        assert events(server, "ada") == []
        page.keyboard.press("Enter")
        page.locator("button[data-choice=keep]").click()
        sheet.wait_for_query(2)
        assert len(events(server, "ada")) == 1
        page.keyboard.press("Backspace")
        sheet.wait_for_query(1)
        assert sheet.state()["query"]["answer"]["flagged"] is True
        assert sheet.problems == ["Failed to load resource: the server responded with a status of 409 (Conflict)"] * 2
        sheet.close()


def test_a_mark_that_is_not_saved_outlives_a_look_nearby(browser: Any, tmp_path: Path) -> None:
    """F or P, a mark there that is given up, and back, also by a reload: the mark of the question is there again."""
    with served(make_tissue_project(tmp_path / "lesion", move_within=0.12), "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page, location = sheet.page, sheet.state()["query"]["location"]
        sheet.press_at("moving", *screen(sheet, "moving", truth(location)))
        sheet.settle()
        drawn = sheet.state()["mark"]
        assert drawn is not None
        for key, task in (("f", "nearby"), ("p", "own"), ("f", "nearby")):
            page.keyboard.press(key)
            page.wait_for_function(f"() => globalThis.warpgauge.store.state.task === '{task}'")
            assert sheet.state()["mark"] is None
            sheet.press_at("fixed", *screen(sheet, "fixed", np.add(location, [3.0, 2.0])))
            sheet.press_at("moving", *screen(sheet, "moving", truth(np.add(location, [3.0, 2.0]))))
            page.keyboard.press(key)
            page.wait_for_function("() => globalThis.warpgauge.store.state.task === 'answer'")
            assert sheet.state()["mark"] == drawn
        page.keyboard.press("f")
        page.reload()
        page.wait_for_function("() => globalThis.warpgauge?.store?.state.mark")
        assert sheet.state()["mark"]["point"] == drawn["point"]
        sheet.accept()
        ((_, placement),) = events(server, "ada")
        assert (list(placement.point), placement.fixed) == (drawn["point"], None)
        sheet.close()


def test_places_nearby_that_stand_out_are_offered_with_their_cost_and_stored_as_moved(
    browser: Any, tmp_path: Path
) -> None:
    """Dots within the circle, each with what it costs; N or a click takes one, and the log has it as a moved answer."""
    with served(make_tissue_project(tmp_path / "lesion", move_within=0.12), "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page, chosen = sheet.page, []
        for turn in range(2):
            state = sheet.state()
            location, within = np.array(state["query"]["location"]), state["project"]["settings"]["move_within"]
            page.keyboard.press("f")
            page.wait_for_function("() => globalThis.warpgauge.store.state.offered.length > 0")
            sheet.settle()
            offered = sheet.state()["offered"]
            assert 1 <= len(offered) <= 3
            assert all(0 < np.linalg.norm(np.subtract(one["point"], location)) < within for one in offered)
            costs = {f"−{round(100 * (1 - one['keeps']))} %" for one in offered if one["keeps"] < 0.995}
            assert costs <= written_now(sheet)
            says(page.locator("#message"), "the dots stand out")
            if turn == 0:
                page.keyboard.press("n")
            else:
                x, y = screen(sheet, "fixed", offered[0]["point"])
                sheet.press_at("fixed", x + 5, y - 4)
            assert sheet.state()["own"] == offered[0]["point"]
            says(page.locator("#message"), "the one asked for. Now click the same spot")
            sheet.settle()
            sheet.press_at("moving", *screen(sheet, "moving", truth(offered[0]["point"])))
            sheet.accept()
            chosen.append(offered[0]["point"])
            assert sheet.state()["offered"] == []
        found = events(server, "ada")
        assert [list(placement.fixed) for _, placement in found] == chosen
        assert all(query.origin == "suggested" for query, _ in found)
        sheet.close()
