"""Seeing: window and level, overlays with their legends, linked views, keys and buttons, themes, nothing that jumps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_tools import call
from web.page_tools import Sheet, bend, make_tissue_project, make_volume_project, open_sheet
from web.server_tools import Served, answer, served

SPACING = 0.5
BOXES = """() => Object.fromEntries(
  [...document.querySelectorAll("header, main, footer, .pane, canvas, #commands, #saved, #message, #alpha")].map(
    (element, i) => {
      const { x, y, width, height } = element.getBoundingClientRect();
      return [i + element.id, [x, y, width, height]];
    }))"""
# What moved by itself, and how far: a session's sum of the browser's layout shifts, with the elements that moved.
SHIFT = """() => { globalThis.shifts = []; new PerformanceObserver(list => { for (const entry of list.getEntries())
  globalThis.shifts.push([entry.value, ...entry.sources.map(({ node }) => node?.id || node?.className || `${node}`)]);
  }).observe({type: 'layout-shift', buffered: true}); }"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(make_tissue_project(tmp_path_factory.mktemp("seeing") / "lesion")) as running:
        yield running


def picture_of(sheet: Sheet, side: str) -> np.ndarray:
    """Return the pixels of a canvas, a coarse sample of them."""
    data = sheet.page.evaluate(
        """side => { const canvas = document.querySelector(`#${side} canvas`);
        const {width, height} = canvas; const all = canvas.getContext('2d').getImageData(0, 0, width, height).data;
        const out = []; for (let i = 0; i < all.length; i += 4 * 37) out.push(all[i], all[i + 1], all[i + 2]);
        return out; }""",
        side,
    )
    return np.array(data, dtype=float).reshape(-1, 3)


def place_truly(sheet: Sheet, count: int) -> None:
    """Answer queries with their true matches."""
    for _ in range(count):
        click_truly(sheet)
        sheet.accept()


def click_truly(sheet: Sheet) -> None:
    """Mark the true match of the question, without accepting it."""
    sheet.settle()
    state = sheet.state()
    view = state["views"]["moving"]["2"]
    point = bend(np.array(state["query"]["location"]) / SPACING) * SPACING
    at = [(point[k] - view["centre"][k]) * view["scale"] + view[("width", "height")[k]] / 2 for k in (0, 1)]
    sheet.press_at("moving", *at)


def save_screenshot(sheet: Sheet, name: str) -> None:
    """Keep a picture for the documentation, where WARPGAUGE_SCREENSHOTS names a folder."""
    folder = os.environ.get("WARPGAUGE_SCREENSHOTS")
    if folder:
        sheet.page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_window_and_level_are_instant_and_by_channel(browser: Any, server: Served) -> None:
    """Moving a slider recolours what is in memory without a request; one channel alone can be changed."""
    sheet = open_sheet(browser, server)
    page = sheet.page
    before = picture_of(sheet, "moving")
    asked = len(sheet.requests)
    page.locator("button[data-contrast=moving]").click()
    page.locator(".popover button", has_text="Red").click()
    page.locator(".popover input[data-end=bright]").evaluate(
        "e => { e.value = 60; e.dispatchEvent(new Event('input')); }"
    )
    sheet.settle()
    after = picture_of(sheet, "moving")
    assert len(sheet.requests) == asked
    assert after[:, 0].mean() > before[:, 0].mean() + 10
    # Marks are drawn over the picture; apart from them green and blue stay.
    assert np.median(np.abs(after[:, 1:] - before[:, 1:])) == 0
    page.locator(".popover button", has_text="Reset").click()
    sheet.settle()
    assert np.abs(picture_of(sheet, "moving") - before).max() == 0
    box = sheet.box("fixed")
    plain = picture_of(sheet, "fixed")
    page.keyboard.down("Control")
    sheet.drag("fixed", (200, 200), (320, 200))
    page.keyboard.up("Control")
    sheet.settle()
    assert picture_of(sheet, "fixed").std() != pytest.approx(plain.std(), rel=1e-3)
    assert box["width"] == sheet.box("fixed")["width"]
    sheet.close()


def test_overlays_legends_and_linked_views(browser: Any, tmp_path: Path) -> None:
    """Each overlay changes the picture and can be taken off; maps explain themselves; linked views follow the model."""
    with served(make_tissue_project(tmp_path / "lesion")) as server:
        sheet = open_sheet(browser, server, color_scheme="dark")
        page = sheet.page
        place_truly(sheet, 9)
        sheet.drag("moving", (330, 290), (392, 238))
        box = sheet.box("moving")
        page.mouse.move(box["x"] + 332, box["y"] + 292)
        page.mouse.move(box["x"] + 20, box["y"] + 20)
        sheet.settle()
        page.keyboard.press("Escape")
        page.keyboard.press("0")
        sheet.settle()
        for key, side in (
            ("m", "fixed"),
            ("o", "fixed"),
            ("k", "fixed"),
            ("g", "moving"),
            ("j", "moving"),
        ):
            plain = picture_of(sheet, side)
            page.keyboard.press(key)
            sheet.settle()
            laid = picture_of(sheet, side)
            assert np.abs(laid - plain).max() > 8, key
            if key == "m":
                legend = page.locator(".legend").text_content()
                assert "not enough annotations" in legend
                assert "sure" in legend
            page.keyboard.press(key)
            sheet.settle()
            if key == "m":
                assert page.locator(".legend").count() == 0
            assert np.abs(picture_of(sheet, side) - plain).max() == 0, key
        # The lens while W is held.
        box = sheet.box("fixed")
        page.mouse.move(box["x"] + 300, box["y"] + 250)
        plain = picture_of(sheet, "fixed")
        page.keyboard.down("w")
        sheet.settle()
        assert np.abs(picture_of(sheet, "fixed") - plain).max() > 8
        page.keyboard.up("w")
        # Linked: the moving view shows the match of what the fixed view shows.
        page.keyboard.press("l")
        sheet.wheel(-100, -100, -100)
        sheet.drag("fixed", (300, 250), (250, 300), button="right")
        sheet.settle()
        views = sheet.state()["views"]
        fixed, moving = np.array(views["fixed"]["2"]["centre"]), np.array(views["moving"]["2"]["centre"])
        expected = bend(fixed / SPACING) * SPACING
        assert np.linalg.norm(moving - expected) < 6, "within what nine annotations can tell"
        assert views["moving"]["2"]["scale"] == pytest.approx(views["fixed"]["2"]["scale"])
        assert sheet.problems == []
        sheet.close()


def test_what_the_moving_image_does_not_cover_is_hatched_and_not_dark(browser: Any, tmp_path: Path) -> None:
    """Seen through a model that shifts by a third of the image, what is uncovered stays in sight under hatching."""
    with served(make_tissue_project(tmp_path / "lesion", size=(400, 320))) as server:
        sheet = open_sheet(browser, server)
        page = sheet.page
        client = server.client()
        query = client.get("/api/query").json()
        placed = 0
        while placed < 6:
            x, y = query["location"]
            if x + 60 < 199:
                placed += 1
                query = answer(client, query, [x + 60, y]).json()["next"]
            else:
                body = {"reason": "outside_image", "text": "", "generation": query["generation"]}
                query = client.post(f"/api/query/{query['query']}/skip", json=body).json()["next"]
        page.reload()
        sheet.wait_for_query(query["number"])
        page.keyboard.press("0")
        page.keyboard.press("h")
        page.keyboard.press("j")
        sheet.settle()
        view = sheet.state()["views"]["fixed"]["2"]
        plain = block_of(sheet, view, (155, 60), (190, 100))  # um: the moving image ends at 200 - 60
        page.keyboard.press("o")
        sheet.settle()
        laid = block_of(sheet, view, (155, 60), (190, 100))
        same = np.abs(laid - plain).max(axis=-1) == 0
        assert 0.4 < same.mean() < 0.9, "the fixed image between the lines"
        assert laid[~same].max(axis=-1).mean() > 60, "lines, not a dark picture"
        covered = block_of(sheet, view, (20, 60), (80, 100))
        page.keyboard.press("o")
        sheet.settle()
        assert (np.abs(covered - block_of(sheet, view, (20, 60), (80, 100))).max(axis=-1) > 0).mean() > 0.9
        assert sheet.problems == []
        sheet.close()


def block_of(sheet: Sheet, view: dict[str, Any], low: tuple[float, float], high: tuple[float, float]) -> np.ndarray:
    """Return the pixels of the fixed canvas between two world points."""
    corners = [
        [round((p[k] - view["centre"][k]) * view["scale"] + view[("width", "height")[k]] / 2) for k in (0, 1)]
        for p in (low, high)
    ]
    (x0, y0), (x1, y1) = corners
    data = sheet.page.evaluate(
        "([x, y, w, h]) => [...document.querySelector('#fixed canvas').getContext('2d').getImageData(x, y, w, h).data]",
        [x0, y0, x1 - x0, y1 - y0],
    )
    return np.array(data, dtype=float).reshape(y1 - y0, x1 - x0, 4)[..., :3]


def test_nothing_jumps_and_everything_fits_at_1280_by_720(browser: Any, tmp_path: Path) -> None:
    """Placing, skipping and messages move no element; there is no scroll bar and nothing is cut off at 1280 x 720."""
    with served(make_tissue_project(tmp_path / "lesion")) as server:
        sheet = open_sheet(browser, server)
        page = sheet.page
        page.evaluate(SHIFT)
        boxes = page.evaluate(BOXES)
        place_truly(sheet, 2)
        page.keyboard.press("Enter")  # a warning appears
        after = page.evaluate(BOXES)
        for name, box in boxes.items():
            if not name.endswith(("message", "saved", "alpha")):
                assert after[name] == box, name
        shifts = page.evaluate("() => globalThis.shifts")
        assert sum(shift[0] for shift in shifts) < 0.01, shifts
        overflow = page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert overflow == [1280, 720]
        for selector in ("#commands button", "#saved", "#alpha", "#top button:visible", ".pane-head button:visible"):
            for element in page.locator(selector).all():
                box = element.bounding_box()
                assert box is not None, selector
                assert box["x"] >= 0, selector
                assert box["x"] + box["width"] <= 1280, selector
                assert box["y"] + box["height"] <= 720, selector
        sheet.close()


def test_nothing_moves_when_messages_choices_and_lists_arrive(browser: Any, tmp_path: Path) -> None:
    """Over a session with warnings, a question about a slip, going back, maps and the review: no layout shift."""
    with served(make_tissue_project(tmp_path / "lesion", blind=False)) as server:
        sheet = open_sheet(browser, server)
        page = sheet.page
        page.evaluate(SHIFT)

        def check(what: str) -> None:
            sheet.settle()
            moved = page.evaluate("() => globalThis.shifts.splice(0)")
            assert sum(shift[0] for shift in moved) < 0.002, (what, moved)

        check("opening")
        for k in range(4):
            place_truly(sheet, 1)
            check(f"answer {k + 1}")
        page.keyboard.press("Enter")
        check("a warning")
        page.keyboard.press("s")
        page.locator("dialog[open]").wait_for()
        page.keyboard.press("1")
        sheet.wait_for_query(6)
        check("a skip")
        page.keyboard.press("0")
        sheet.settle()
        page.keyboard.press("-")
        page.keyboard.press("-")
        sheet.press_at("moving", sheet.box("moving")["width"] - 12, 30)
        page.keyboard.press("Enter")
        page.locator("button[data-choice=keep]").wait_for()
        check("a choice")
        page.locator("button[data-choice=change]").click()
        page.keyboard.press("Escape")
        page.keyboard.press("Backspace")
        sheet.wait_for_query(5)
        check("a former answer")
        page.locator("button[data-choice=back]").click()
        sheet.wait_for_query(6)
        page.keyboard.press("m")
        page.wait_for_selector(".legend")
        check("a map and back")
        page.keyboard.press("d")
        sheet.settle()
        page.evaluate("() => globalThis.shifts.splice(0)")  # the images make room for the review
        for leaf in ("progress", "compare", "list"):
            page.locator(f"button[data-leaf={leaf}]").click()
            check(leaf)
        place_truly(sheet, 1)
        check("an answer beside the review")
        sheet.close()


def test_all_keys_are_listed_and_all_are_buttons_and_focus_is_visible(browser: Any, server: Served) -> None:
    """The overlay on ? names every key of the design; each entry is a button that does it; Tab shows where one is."""
    sheet = open_sheet(browser, server)
    page = sheet.page
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    keys = set(page.locator("dialog kbd").all_text_contents())
    signs = "Enter S N ⌫ Z ⇧Z H L C G M W + - 0 D Space I E B [ ] ⇧[ ⇧] ( ) K J O U A Q T ? Esc ←"
    wanted = set(signs.split())
    assert wanted <= keys, wanted - keys
    buttons = page.locator("dialog .group button")
    assert buttons.count() >= len(wanted)
    named = {page.locator("dialog .arrows button").nth(n).get_attribute("aria-label") for n in range(16)}
    assert {"Nudge left by 10 screen pixels", "Nudge up by 0.1 image pixel", "Move the view down"} <= named
    buttons.filter(has_text="Magnifier").click()
    assert sheet.state()["magnifier"] is True
    page.evaluate("() => { globalThis.written = []; }")
    box = sheet.box("moving")
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    # The magnifier says its own scale, a fourth of the length for the same screen pixels, beside that of the picture.
    page.wait_for_function("() => new Set(globalThis.written.filter((text) => text.endsWith('µm'))).size >= 2")
    page.locator("#moving .planes canvas").focus()
    page.keyboard.press("Shift+Tab")
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    dark = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    page.locator("#moving .planes canvas").focus()
    page.keyboard.press("t")
    assert page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor") != dark
    sheet.close()


def test_progress_list_and_presets(browser: Any, tmp_path: Path) -> None:
    """The drawer shows the curve and the stop rules; the edge preset lies along the edge of the picture."""
    with served(make_tissue_project(tmp_path / "lesion")) as server:
        sheet = open_sheet(browser, server, color_scheme="dark")
        page = sheet.page
        place_truly(sheet, 4)
        page.locator("#drawer-button").click()
        page.wait_for_selector("#drawer tbody tr")
        sheet.settle()
        page.locator("button[data-leaf=progress]").click()
        page.wait_for_selector("#drawer svg polyline")
        sheet.settle()
        text = page.locator("#drawer .leaf").text_content()
        assert "4 marks placed" in text
        assert "budget" in text
        page.locator("#drawer-button").click()
        click_truly(sheet)
        page.keyboard.press("e")
        values, _ = np.linalg.eigh(np.array(sheet.state()["mark"]["shape"]))
        assert values[1] / values[0] > 30
        page.keyboard.press("a")
        assert sheet.state()["mark"]["alpha"] == 0.05
        page.locator("#alpha").select_option("0.32")
        assert sheet.state()["mark"]["alpha"] == 0.32
        page.keyboard.press("Escape")
        place_truly(sheet, 1)
        assert sheet.problems == []
        sheet.close()


def test_fields_of_the_browser_follow_the_theme_of_the_page(browser: Any, server: Served) -> None:
    """Also where the system's own is another one: an empty box must not look as if it were ticked."""
    sheet = open_sheet(browser, server, color_scheme="dark")
    told = "() => getComputedStyle(document.querySelector('#alpha')).colorScheme"
    assert sheet.page.evaluate(told) == "dark"
    sheet.page.keyboard.press("t")
    assert sheet.page.evaluate(told) == "light"
    sheet.close()


def test_screens_of_volumes_and_of_the_light_theme(browser: Any, tmp_path: Path) -> None:
    """Overlays work in every plane of a volume without trouble."""
    with served(make_volume_project(tmp_path / "body")) as server:
        sheet = open_sheet(browser, server, color_scheme="dark")
        page = sheet.page
        for number in (1, 2, 3):
            sheet.press_at("moving", 180 + 20 * number, 250 + 15 * number)
            sheet.accept()
        box = sheet.box("moving")
        middle = (box["width"] * 0.45, box["height"] * 0.5)
        sheet.drag("moving", middle, (middle[0] + 50, middle[1] - 36))
        sheet.settle()
        save_screenshot(sheet, "annotating-3d")
        for key in ("m", "c", "g", "k"):
            page.keyboard.press(key)
            sheet.settle()
        assert page.locator(".legend").count() == 1
        # Linked: every plane's middle shows the match of its counterpart's middle, also after a pan in one of them.
        page.keyboard.press("l")
        sheet.settle()
        sheet.drag("fixed", (150, 120), (120, 150), 1, button="right")
        sheet.settle()
        for axis in (0, 1, 2):
            fixed, moving = (middle_of_plane(sheet, side, axis) for side in ("fixed", "moving"))
            text = ",".join(repr(float(value)) for value in fixed)
            expected = np.array(server.client().get(f"/api/linked?from=fixed&points={text}").json()["points"][0])
            normal = np.array(sheet.state()["project"]["images"]["moving"]["direction"])[:, axis]
            away = expected - moving
            # Along the normal the plane stands at its slice; the map is carried on linearly from the crosshair.
            assert np.linalg.norm(away - normal * (normal @ away)) < 1.0, axis
            views = sheet.state()["views"]
            assert views["moving"][str(axis)]["scale"] == pytest.approx(views["fixed"][str(axis)]["scale"])
        assert sheet.problems == []
        sheet.close()


def middle_of_plane(sheet: Sheet, side: str, axis: int) -> np.ndarray:
    """World point in the middle of a plane, from its view and its slice."""
    found = sheet.page.evaluate(
        """([side, axis]) => {
        const { view, depth, plane } = globalThis.warpgauge.stage.panes.find(p => p.side === side && p.axis === axis);
        const full = [...view.centre, depth];
        return plane.toWorld.map((row, i) => row.reduce((sum, v, k) => sum + v * full[k], plane.frame.origin[i])); }""",
        [side, axis],
    )
    return np.array(found)


def test_added_transforms_are_compared_and_their_maps_explained(browser: Any, tmp_path: Path) -> None:
    """Compare ranks a good above a bad transform; the error and blended maps of one are drawn with words."""
    folder = make_tissue_project(tmp_path / "lesion", size=(400, 320), blind=False)
    for name, shift in (("good", (7.0, -4.0)), ("bad", (40.0, 30.0))):
        path = tmp_path / f"{name}.tfm"
        path.write_text(
            "#Insight Transform File V1.0\n#Transform 0\nTransform: TranslationTransform_double_2_2\n"
            f"Parameters: {shift[0]} {shift[1]}\nFixedParameters:\n"
        )
        call("add-transform", folder, name, path)
    with served(folder) as server:
        sheet = open_sheet(browser, server)
        page = sheet.page
        place_truly(sheet, 6)
        page.locator("#drawer-button").click()
        page.locator("button[data-leaf=compare]").click()
        page.wait_for_selector("#drawer table.compare tbody tr")
        names = page.locator("#drawer tbody tr td:first-child").all_text_contents()
        assert names == ["1. good", "2. identity", "3. bad"]
        page.keyboard.press("Escape")
        sheet.settle()
        plain = picture_of(sheet, "fixed")
        for kind in ("error", "blended"):
            row = page.locator("#drawer tbody tr", has_text="bad")
            row.locator(f"button[data-map={kind}]").click()
            sheet.settle()
            page.locator(".legend", has_text="bad").wait_for()
            words = page.locator(".legend").text_content()
            assert "agrees" in words
            assert "contradicts" in words
            assert np.abs(picture_of(sheet, "fixed") - plain).max() > 8
        assert sheet.problems == []
        sheet.close()
