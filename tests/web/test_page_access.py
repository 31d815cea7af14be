"""For everybody: axe-core finds no violation in light and dark; nothing is cut off in small windows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from web.page_tools import Sheet, make_tissue_project, open_sheet
from web.server_tools import Served, answer, served

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
KINDS = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']"
RULES = f"""async () => (await axe.run(document, {{runOnly: {KINDS}}}))
  .violations.map(({{id, nodes}}) => id + ": " + nodes.map((node) => node.target.join(" ")).join(", "))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = make_tissue_project(tmp_path_factory.mktemp("access") / "lesion", blind=False)
    with served(folder, "ada") as running:
        client = running.client("ada")
        query = client.get("/api/query").json()
        answer(client, query, query["location"], confirmed=True)
        yield running


def complaints(sheet: Sheet) -> list[str]:
    """Return what axe-core complains about; fail in CI where it is not installed, skip elsewhere."""
    if not AXE.exists():
        reason = "axe-core is not installed (npm install); the page cannot be checked"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    sheet.settle()
    # The page allows no scripts but its own: the checker comes in through the driver.
    sheet.page.evaluate(AXE.read_text())
    found: list[str] = sheet.page.evaluate(RULES)
    return found


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_finds_no_violation_in_any_part_of_the_page(browser: Any, server: Served, scheme: str) -> None:
    """Organiser, question, mark, warning, list, progress, comparison, View, keys, reasons."""
    sheet = open_sheet(browser, server, color_scheme=scheme)
    page = sheet.page
    page.wait_for_selector("#drawer .card")
    found = complaints(sheet)
    page.keyboard.press("Escape")
    sheet.press_at("moving", 260, 240)
    found += complaints(sheet)
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")  # a warning: nothing is marked
    for leaf in ("list", "progress", "compare"):
        if page.locator("#drawer").is_hidden():
            page.keyboard.press("d")
        page.locator(f"button[data-leaf={leaf}]").click()
        found += complaints(sheet)
    page.locator("[data-command=view]").click()
    found += complaints(sheet)
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    found += complaints(sheet)
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    page.locator("#reasons").wait_for()
    found += complaints(sheet)
    assert found == [], "\n".join(found)
    sheet.close()


@pytest.mark.parametrize(
    ("width", "height"),
    [(820, 1180), (700, 900), (900, 600), (1024, 768), (1180, 820), (1280, 720), (1440, 900)],
)
def test_nothing_is_cut_off_on_tablets_and_small_windows(browser: Any, server: Served, width: int, height: int) -> None:
    """Every button lies within the window, large enough for a finger, on nothing else; nothing scrolls sideways."""
    sheet = open_sheet(browser, server, "ada", width=width, height=height)
    page = sheet.page
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    named = page.locator("#bottom .name:visible").all_text_contents()
    assert named == ["Accept", "Cannot tell", "Undo", "Fit"]
    box = sheet.box("moving")
    sheet.press_at("moving", box["width"] / 2, box["height"] / 2)
    boxes = []
    for element in page.locator("#bottom button:visible, #top button:visible, #message, #query-number").all():
        box = element.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["y"] + box["height"] <= height
        boxes.append(box)
    for element in page.locator("#commands button").all():
        box = element.bounding_box()
        assert min(box["width"], box["height"]) >= 40, "large enough for a finger"
    # Nothing lies on something else.
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            across = one["x"] + one["width"] <= other["x"] + 0.5 or other["x"] + other["width"] <= one["x"] + 0.5
            down = one["y"] + one["height"] <= other["y"] + 0.5 or other["y"] + other["height"] <= one["y"] + 0.5
            assert across or down, (one, other)
    # The reasons for a skip stand in the place of the bottom bar: the images stay in sight, and as bright as they are.
    page.keyboard.press("Escape")
    before = page.locator("#stage").bounding_box()
    page.keyboard.press("s")
    page.locator("#reasons").wait_for()
    asked = page.locator("#bottom").bounding_box()
    assert asked["y"] + asked["height"] == pytest.approx(height)
    if width > 820:
        assert page.locator("#stage").bounding_box() == before
    for button in page.locator("#bottom button").all():
        box = button.bounding_box()
        assert box["y"] >= asked["y"]
        assert box["y"] + box["height"] <= height
        assert button.evaluate("(one) => one.scrollWidth <= one.clientWidth + 1"), "whole"
    page.keyboard.press("Escape")
    page.keyboard.press("d")
    page.wait_for_selector("#drawer tbody tr")
    sheet.settle()
    wide, room = page.evaluate("() => ['scrollWidth', 'clientWidth'].map((k) => document.querySelector('.leaf')[k])")
    assert wide <= room, "the list of the review"
    for side in ("fixed", "moving"):
        assert sheet.box(side)["width"] > 150
        assert sheet.box(side)["height"] > 150
    sheet.close()
