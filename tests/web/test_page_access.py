"""For everybody: axe-core finds no violation in light and dark; first visits; small windows."""

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
    folder = make_tissue_project(tmp_path_factory.mktemp("access") / "lesion", blind=False, snap=True)
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
    """Question, warning, drawer, overlays, dialogs, three panes, organiser."""
    sheet = open_sheet(browser, server, color_scheme=scheme)
    page = sheet.page
    found: list[str] = []
    sheet.press_at("moving", 260, 240)
    found += complaints(sheet)
    sheet.accept()
    page.keyboard.press("Enter")  # a warning: nothing is marked
    page.keyboard.press("d")
    page.wait_for_selector("#drawer tbody tr")
    found += complaints(sheet)
    page.locator("button[data-leaf=progress]").click()
    page.wait_for_selector("#drawer svg.chart")
    found += complaints(sheet)
    page.keyboard.press("d")
    page.locator("button[data-open=overlays]").click()
    page.locator("button[data-contrast=moving]").click()
    page.keyboard.press("m")
    page.wait_for_selector(".legend")
    page.keyboard.press("v")
    found += complaints(sheet)
    for key in ("?", "s"):
        page.keyboard.press(key)
        page.locator("dialog[open]").wait_for()
        found += complaints(sheet)
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog[open]", state="detached")
    page.wait_for_selector("#organiser-button[data-ready]")
    page.locator("#organiser-button").click()
    page.wait_for_selector("#organiser .card")
    found += complaints(sheet)
    assert found == [], "\n".join(found)
    sheet.close()


def test_a_first_visit_explains_itself_once_and_can_be_skipped(browser: Any, server: Served) -> None:
    """Three steps by Enter; after a reload they do not come again."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    page.goto(server.links["ada"])
    for step in (1, 2, 3):
        page.locator("dialog", has_text=f"Step {step} of 3").wait_for()
        page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]", state="detached")
    page.reload()
    page.wait_for_function("() => globalThis.warpgauge?.opened")
    assert page.locator("dialog[open]").count() == 0
    context.close()


def test_a_first_visit_tells_of_the_guided_start_and_its_buttons_work_by_keyboard(browser: Any, tmp_path: Path) -> None:
    """Where three places of one's own come first, the first step says so; Enter on Skip skips."""
    with served(make_tissue_project(tmp_path / "lesion", guided_start=True), "ada") as server:
        context = browser.new_context(viewport={"width": 1280, "height": 720})
        page = context.new_page()
        page.goto(server.links["ada"])
        page.locator("dialog", has_text="three spots that you know").wait_for()
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "Skip"
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.activeElement instanceof HTMLCanvasElement")
        assert page.locator("dialog[open]").count() == 0
        context.close()


@pytest.mark.parametrize(
    ("width", "height"),
    [(820, 1180), (700, 900), (900, 600), (1024, 768), (1180, 820), (1280, 720), (1440, 900)],
)
def test_nothing_is_cut_off_on_tablets_and_small_windows(browser: Any, server: Served, width: int, height: int) -> None:
    """Every button of the footer and of the heads lies within the window, and nothing scrolls sideways."""
    sheet = open_sheet(browser, server, width=width, height=height)
    page = sheet.page
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    assert page.evaluate(
        "() => document.getElementById('commands').scrollWidth <= document.getElementById('commands').clientWidth"
    )
    named = page.locator(
        "#top .name:visible, #commands .name:visible, .pane-head button .name:visible"
    ).all_text_contents()
    wanted = {"Accept", "Cannot tell", "Nearby", "Own point", "Snap", "Another", "Undo", "Redo", "Earlier"}
    wanted |= {"Hide", "Link", "Fit", "Image", "Overlays"}
    wanted |= {"Layout", "Theme", "Keys"} if width >= 1280 else set()
    assert wanted <= set(named), "every icon at the bottom has its name, whatever the width"
    for name in page.locator("#commands .name").all():
        assert name.evaluate("(one) => one.scrollWidth <= one.clientWidth"), "whole"
    # A mark, so that its size is said, and what the line above says of it.
    box = sheet.box("moving")
    sheet.press_at("moving", box["width"] / 2, box["height"] / 2)
    boxes = []
    told = "#alpha, #size-figure, #message, #saved"
    for element in page.locator(
        f"#commands button:visible, {told}, #top button:visible, .pane-head button:visible"
    ).all():
        box = element.bounding_box()
        assert box is not None
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
            apart = (
                one["x"] + one["width"] <= other["x"] + 0.5
                or other["x"] + other["width"] <= one["x"] + 0.5
                or one["y"] + one["height"] <= other["y"] + 0.5
                or other["y"] + other["height"] <= one["y"] + 0.5
            )
            assert apart, (one, other)
    # The reasons for a skip stand in the place of the bottom bar: the images stay in sight, and as bright as they are.
    page.keyboard.press("s")
    page.locator("dialog[open]").wait_for()
    asked = page.locator("dialog").bounding_box()
    assert asked["x"] == 0
    assert asked["y"] + asked["height"] == pytest.approx(height)
    if width > 820:
        images = page.locator("#stage").bounding_box()
        assert asked["y"] >= images["y"] + images["height"] - 1
    assert page.evaluate("() => getComputedStyle(document.querySelector('dialog'), '::backdrop').backgroundColor") == (
        "rgba(0, 0, 0, 0)"
    )
    for button in page.locator("dialog button, dialog input, dialog p").all():
        box = button.bounding_box()
        assert box["y"] >= asked["y"]
        assert box["y"] + box["height"] <= height
        assert button.evaluate("(one) => one.scrollWidth <= one.clientWidth + 1"), "whole"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.keyboard.press("d")
    page.wait_for_selector("#drawer tbody tr")
    sheet.settle()
    wide, room = page.evaluate("() => ['scrollWidth', 'clientWidth'].map((k) => document.querySelector('.leaf')[k])")
    assert wide <= room, "the list of the review"
    sheet.close()
