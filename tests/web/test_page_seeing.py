"""Seeing: the View menu, what is laid over the images, keys and buttons, themes, nothing that jumps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_tools import call
from web.page_tools import Sheet, bend, make_tissue_project, on_screen, open_sheet, says
from web.server_tools import Served, answer, served

SPACING = 0.5
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
    location = np.array(sheet.state()["query"]["location"])
    sheet.press_at("moving", *on_screen(sheet, "moving", bend(location / SPACING) * SPACING))


def test_window_level_and_stain_are_instant_and_the_menu_closes_by_itself(browser: Any, server: Served) -> None:
    """A slider, a stain, a right drag recolour what is in memory without a request; Escape or a click closes it."""
    sheet = open_sheet(browser, server)
    page = sheet.page
    page.keyboard.press("0")
    sheet.settle()
    before, fixed = picture_of(sheet, "moving"), picture_of(sheet, "fixed")
    asked = len(sheet.requests)
    page.locator("[data-command=view]").click()
    look = page.locator("[data-look=moving]")
    look.locator("input[data-end=bright]").evaluate("e => { e.value = 60; e.dispatchEvent(new Event('input')); }")
    sheet.settle()
    assert picture_of(sheet, "moving").mean() > before.mean() + 10
    look.locator("[data-act=reset]").click()
    look.locator("select[data-stain=moving]").select_option("haematoxylin")
    sheet.settle()
    grey = picture_of(sheet, "moving")
    assert np.median(np.abs(grey - grey[:, :1])) == 0
    look.get_by_label("Invert").check()
    sheet.settle()
    assert (np.abs(picture_of(sheet, "moving") + grey - 255) <= 1).mean() > 0.4
    look.locator("[data-act=reset]").click()
    sheet.settle()
    assert np.abs(picture_of(sheet, "moving") - before).max() == 0
    assert np.abs(picture_of(sheet, "fixed") - fixed).max() == 0, "each image has its own"
    page.keyboard.press("Escape")
    page.locator("[data-look=moving]").wait_for(state="detached")
    page.locator("[data-command=view]").click()
    page.keyboard.press("d")
    page.locator("[data-look=moving]").wait_for(state="detached")  # panels never lie over each other
    page.locator("[data-command=view]").click()
    assert page.locator("#drawer").is_hidden()
    sheet.drag("fixed", (200, 200), (320, 200), button="right")
    page.locator("[data-look=moving]").wait_for(state="detached")
    sheet.settle()
    assert picture_of(sheet, "fixed").std() != pytest.approx(fixed.std(), rel=1e-3)
    assert [url for url in sheet.requests[asked:] if "/tile" in url] == []
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
        page.evaluate("() => globalThis.warpgauge.store.set({ query: null, rows: [] })")
        sheet.settle()
        view = sheet.state()["views"]["fixed"]["2"]
        plain = block_of(sheet, view, (155, 60), (190, 100))  # um: the moving image ends at 200 - 60
        page.keyboard.down("w")
        sheet.settle()
        laid = block_of(sheet, view, (155, 60), (190, 100))
        same = np.abs(laid - plain).max(axis=-1) == 0
        assert 0.4 < same.mean() < 0.9, "the fixed image between the lines"
        assert laid[~same].max(axis=-1).mean() > 60, "lines, not a dark picture"
        covered = block_of(sheet, view, (20, 60), (80, 100))
        page.keyboard.up("w")
        sheet.settle()
        assert np.abs(block_of(sheet, view, (155, 60), (190, 100)) - plain).max() == 0
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


def test_nothing_moves_when_messages_choices_and_lists_arrive(browser: Any, tmp_path: Path) -> None:
    """Over a session with warnings, a question about a slip, going back and the review: no layout shift."""
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
        page.locator("#reasons").wait_for()
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
        check("an earlier answer")
        page.locator("button[data-choice=back]").click()
        sheet.wait_for_query(6)
        page.keyboard.press("d")
        sheet.settle()
        page.evaluate("() => globalThis.shifts.splice(0)")  # the images make room for the review
        for leaf in ("progress", "compare", "list"):
            page.locator(f"button[data-leaf={leaf}]").click()
            check(leaf)
        assert "5 marks placed" not in page.locator("#drawer .leaf").text_content()
        place_truly(sheet, 1)
        check("an answer beside the review")
        sheet.close()


def test_all_keys_are_listed_and_all_are_buttons_and_the_theme_changes(browser: Any, server: Served) -> None:
    """The list on ? names every key of the design, about 25; each is a button; Enter there does nothing."""
    sheet = open_sheet(browser, server, color_scheme="dark")
    page = sheet.page
    click_truly(sheet)
    page.keyboard.press("?")
    dialog = page.locator("dialog#keys[open]")
    dialog.wait_for()
    page.keyboard.press("Enter")
    assert sheet.state()["query"]["number"] == 1
    keys = [text.replace(" ", "") for text in dialog.locator("kbd").all_text_contents()]
    wanted = "Enter S Z ⇧Z Esc Space ←→↑↓ ⇧←→↑↓ [ ] 0 + − 1 2 3 4 5 ⌫ N Q D H W T ?"
    assert sorted(keys) == sorted(wanted.split())
    dialog.locator("button", has_text="Larger ring").click()
    assert sheet.state()["ring"] == 2
    assert not page.locator("dialog#keys[open]").count()
    # Every control of the page during a question, and that the keyboard shows where it is.
    page.keyboard.press("Escape")
    controls = page.locator("button:visible, select:visible, input:visible, a:visible").all_text_contents()
    assert [text.strip() for text in controls] == [
        "Review",
        "View",
        "Organiser",
        "AcceptEnter",
        "Cannot tellS",
        "UndoZ",
        "Fit",
    ]
    page.locator("#moving .planes canvas").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") == "solid"
    scheme = "() => getComputedStyle(document.querySelector('button')).colorScheme"
    assert page.evaluate(scheme) == "dark"
    page.locator("#moving .planes canvas").focus()
    page.keyboard.press("t")
    assert page.evaluate(scheme) == "light"
    sheet.close()


def test_added_transforms_are_compared_and_their_maps_explained(browser: Any, tmp_path: Path) -> None:
    """The verdict first, then a line for each with one map; the map of what is known, too; each in words."""
    folder = make_tissue_project(tmp_path / "lesion", size=(400, 320), blind=False)
    for name, shift in (("good", (7.0, -4.0)), ("bad", (40.0, 30.0))):
        path = tmp_path / f"{name}.tfm"
        path.write_text(
            "#Insight Transform File V1.0\n#Transform 0\nTransform: TranslationTransform_double_2_2\n"
            f"Parameters: {shift[0]} {shift[1]}\nFixedParameters:\n"
        )
        call("add-transform", folder, name, path)
    with served(folder) as server:
        sheet = open_sheet(browser, server, width=1024, height=700)
        page = sheet.page
        place_truly(sheet, 6)
        page.keyboard.press("d")
        page.locator("button[data-leaf=compare]").click()
        page.wait_for_selector("#drawer table.compare tbody tr")
        assert page.locator("#drawer .leaf > :first-child").get_attribute("class") == "verdict"
        names = page.locator("#drawer tbody tr td:first-child").all_text_contents()
        assert [name.partition(" ")[2] for name in names] == ["good", "identity", "bad"]
        wide, room = page.evaluate(
            "() => ['scrollWidth', 'clientWidth'].map((k) => document.querySelector('.leaf')[k])"
        )
        assert wide <= room
        sheet.settle()
        plain = picture_of(sheet, "fixed")
        for chosen, words in (("bad", ["bad", "agrees", "contradicts"]), ("entropy", ["sure", "not enough answers"])):
            page.locator(f"button[data-map={chosen}]").click()
            for word in words:
                says(page.locator(".legend"), word)
            sheet.settle()
            assert np.abs(picture_of(sheet, "fixed") - plain).max() > 8
        page.locator("button[data-map=entropy]").click()
        page.locator(".legend").wait_for(state="detached")
        sheet.settle()
        assert np.abs(picture_of(sheet, "fixed") - plain).max() == 0
        page.locator("button[data-leaf=progress]").click()
        says(page.locator("#drawer .leaf"), "6 marks placed")
        page.locator("#drawer svg polyline").wait_for()
        says(page.locator("#drawer .verdict"), "BEST good")
        page.locator("#organiser-button").click()
        page.locator("#drawer h2", has_text="People").wait_for()
        assert page.locator("#drawer .verdict > div").count() >= 3
        assert sheet.problems == []
        sheet.close()
