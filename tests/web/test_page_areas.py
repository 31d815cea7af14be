"""Areas in the page: an organiser draws them on the fixed image, and everybody sees them with the regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.candidates.outlines import inside
from warpgauge.project import Project
from web.page_tools import Sheet, make_tissue_project, open_sheet
from web.server_tools import Served, served

CORNERS = [(90.0, 60.0), (210.0, 70.0), (200.0, 150.0), (100.0, 140.0)]


def press(sheet: Sheet, point: tuple[float, float]) -> None:
    """Click a world point of the fixed image."""
    view = sheet.state()["views"]["fixed"]["2"]
    x, y = (np.subtract(point, view["centre"]) * view["scale"] + [view["width"] / 2, view["height"] / 2]).tolist()
    sheet.press_at("fixed", x, y)


def drawing(browser: Any, server: Served) -> Sheet:
    """Open the page with the whole image in view, and begin to draw."""
    sheet = open_sheet(browser, server)
    sheet.page.keyboard.press("0")
    sheet.settle()
    sheet.page.keyboard.press("Shift+A")
    sheet.page.wait_for_function("() => globalThis.warpgauge.store.state.task === 'area'")
    return sheet


def test_an_organiser_draws_where_nothing_has_a_match_and_erases_it_again(browser: Any, tmp_path: Path) -> None:
    """Corners by clicks, the last one back by Backspace, the choice by the keyboard; then no question lies there."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada") as server:
        sheet = drawing(browser, server)
        page = sheet.page
        for corner in [*CORNERS[:3], (20.0, 20.0)]:
            press(sheet, corner)
        page.keyboard.press("Backspace")
        press(sheet, CORNERS[3])
        drawn = np.array(sheet.state()["corners"])
        assert np.abs(drawn - CORNERS).max() < 1
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.activeElement.dataset.choice") == "missing"
        page.keyboard.press("Enter")
        page.wait_for_function("() => globalThis.warpgauge.store.state.areas.length === 1")
        sheet.settle()
        with Project.open(server.folder) as project:
            ((number, kept),) = project.state.outlines.items()
            assert kept.what == "missing"
            assert np.allclose(kept.corners, drawn)
            assert kept.stamp.rater == "organiser"
        hatched = page.evaluate("() => globalThis.warpgauge.stage.overlays.kept.get('areas 2').value.missing.width")
        assert hatched > 0
        page.keyboard.press("Escape")
        sheet.wait_for_query()
        ada = server.client("ada")
        asked = [ada.get("/api/query").json()["location"]]
        assert not inside(drawn.tolist(), asked).any()
        assert ada.post("/api/areas", json={"what": "missing", "corners": CORNERS}).status_code == 403
        page.keyboard.press("Shift+A")
        page.locator(f"button[data-choice=erase-{number}]").click()
        page.wait_for_function("() => globalThis.warpgauge.store.state.areas.length === 0")
        with Project.open(server.folder) as project:
            assert project.state.outlines == {}
        assert sheet.problems == []
        sheet.close()


def test_what_cannot_be_an_area_stays_to_be_mended_and_raters_have_no_such_tool(browser: Any, tmp_path: Path) -> None:
    with served(make_tissue_project(tmp_path / "lesion"), "ada") as server:
        sheet = drawing(browser, server)
        page = sheet.page
        for corner in (CORNERS[0], CORNERS[2], CORNERS[1], CORNERS[3]):
            press(sheet, corner)
        page.locator("button[data-choice=piece]").click()
        page.wait_for_function("() => document.getElementById('message').textContent.includes('cross each other')")
        assert len(sheet.state()["corners"]) == 4
        for _ in range(3):
            page.keyboard.press("Backspace")
        for corner in CORNERS[1:]:
            press(sheet, corner)
        page.locator("button[data-choice=piece]").click()
        page.wait_for_function("() => globalThis.warpgauge.store.state.areas.length === 1")
        with Project.open(server.folder) as project:
            assert project.regions is not None
            assert project.regions(np.array([[150.0, 100.0], [20.0, 20.0]])).tolist() == [1, 0]
        sheet.close()
        rater = open_sheet(browser, server, "ada")
        rater.page.keyboard.press("Shift+A")
        assert rater.state()["task"] == "answer"
        rater.close()
