"""What the hand and the keys do: a drag's second axis, the wheel, dialogs, focus, work without a mouse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from warpgauge.core.annotations import ellipse_from_covariance
from warpgauge.project import Placement, Project, Skip
from web.page_tools import Shared, Sheet, bend, make_tissue_project, make_volume_project, open_sheet, says, written_now
from web.server_tools import Served, served

SPACING = 0.5


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    names = [f"rater{k}" for k in range(15)]
    with served(make_tissue_project(tmp_path_factory.mktemp("hand") / "lesion"), ",".join(names)) as running:
        yield Shared(running, names)


def half_lengths(sheet: Sheet) -> np.ndarray:
    """Half-lengths of the mark that is drawn, in image pixels, longest first."""
    shape = np.array(sheet.state()["mark"]["shape"])
    return np.sqrt(np.linalg.eigvalsh(shape))[::-1] / SPACING


def stored(server: Served, query: int, who: str) -> Any:
    with Project.open(server.folder) as project:
        return project.state.placement(who, query) or project.state.answer(who, query)


def test_a_drag_is_half_as_wide_as_long_and_then_as_wide_as_the_expert_makes_it(
    browser: Any, server: Served, me: str
) -> None:
    """A drag of 41 pixels is no needle: across it is half, and later the share that the last accepted mark had."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    scale = sheet.state()["views"]["moving"]["2"]["scale"]
    sheet.drag("moving", (250, 250), (250 + 41 * SPACING * scale, 250))
    np.testing.assert_allclose(half_lengths(sheet), [41, 20.5], rtol=1e-6)
    for _ in range(10):
        page.keyboard.press("{")
    share = 0.5 * 1.15**-10
    np.testing.assert_allclose(half_lengths(sheet), [41, 41 * share], rtol=1e-6)
    sheet.accept()
    lengths, _ = ellipse_from_covariance(stored(server, 0, me).covariance_world)
    np.testing.assert_allclose(lengths / SPACING, [41, 41 * share], rtol=1e-6)
    scale = sheet.state()["views"]["moving"]["2"]["scale"]
    sheet.drag("moving", (250, 250), (250, 250 + 60 * SPACING * scale))
    np.testing.assert_allclose(half_lengths(sheet), [60, 60 * share], rtol=1e-6)
    sheet.close()


def test_a_click_is_as_sharp_as_image_and_hand_allow_and_then_the_experts_usual_size(
    browser: Any, server: Served, me: str
) -> None:
    """Far out a click claims no more than two screen pixels; near, the image's sharpness; later one's usual size."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    page.keyboard.press("0")
    scale = sheet.state()["views"]["moving"]["2"]["scale"]
    sharpness = sheet.state()["project"]["images"]["moving"]["sharpness"]
    assert 1 <= sharpness / SPACING <= 8
    sheet.press_at("moving", 200, 200)
    wanted = max(2 / scale, sharpness, sheet.state()["project"]["settings"]["default_radius"])
    np.testing.assert_allclose(half_lengths(sheet), wanted / SPACING, rtol=1e-9)
    title = page.locator("#size-figure").get_attribute("title")
    assert any(words in title for words in ("as sharp as the image is", "what a click can hit", "the project's"))
    for _ in range(3):
        sheet.press_at("moving", 200, 200)
        page.keyboard.press("b")
        sizes = half_lengths(sheet)
        sheet.accept()
    for _ in range(12):
        page.keyboard.press("+")
    sheet.press_at("moving", 300, 260)
    assert "your usual size" in page.locator("#size-figure").get_attribute("title")
    assert half_lengths(sheet)[0] > 1.5 * sharpness / SPACING
    assert half_lengths(sheet)[0] <= sizes[0] * 1.001
    sheet.close()


def test_a_drag_at_the_rim_of_a_small_mark_scales_it_and_never_moves_it(browser: Any, server: Served, me: str) -> None:
    """Marks of 5 and 8 screen pixels, caught at or just outside the rim: the centre stays to the last digit."""
    sheet = open_sheet(browser, server, me)
    scale = sheet.state()["views"]["moving"]["2"]["scale"]
    for wanted, outside in ((5.0, 0.0), (5.0, 3.0), (8.0, 0.0), (8.0, 3.0)):
        sheet.page.keyboard.press("Escape")
        sheet.press_at("moving", 250, 250)
        while half_lengths(sheet)[0] * SPACING * scale > wanted:
            sheet.page.keyboard.press("[")
        while half_lengths(sheet)[0] * SPACING * scale < wanted:
            sheet.page.keyboard.press("]")
        before, radius = sheet.state()["mark"]["point"], half_lengths(sheet)[0] * SPACING * scale
        sheet.drag("moving", (250 + radius + outside, 250), (290, 250))
        assert sheet.state()["mark"]["point"] == before
        np.testing.assert_allclose(half_lengths(sheet), 40 * radius / (radius + outside) / (SPACING * scale), rtol=0.02)
        assert "moved" not in sheet.page.locator("#message").text_content()
        # At the centre the same drag moves it, and its size stays.
        sizes = half_lengths(sheet)
        sheet.drag("moving", (250, 250), (270, 250))
        assert sheet.state()["mark"]["point"][0] == pytest.approx(before[0] + 20 / scale)
        np.testing.assert_allclose(half_lengths(sheet), sizes)
        # It is said by how much, in words and at the mark, also after a change of the size, until it is taken back.
        words = f"moved {float(f'{20 / scale:.2g}'):g} µm"
        says(sheet.page.locator("#message"), f"is moved by {words[6:]}.")
        sheet.page.keyboard.press("]")
        assert words in written_now(sheet)
        sheet.page.keyboard.press("[")
        sheet.page.keyboard.press("z")
        sheet.page.keyboard.press("z")
        assert not any("moved" in text for text in written_now(sheet))
    sheet.close()


def test_handles_are_shown_only_where_the_pointer_is_near(browser: Any, server: Served, me: str) -> None:
    """They would hide what is marked: away from the mark only the ellipse and its cross stay, near it they are back."""
    sheet = open_sheet(browser, server, me)
    page, box = sheet.page, sheet.box("moving")
    sheet.press_at("moving", 250, 250)

    def handles() -> int:
        """Pixels of the handles' dark middles around the mark, where the tissue is brighter than that."""
        sheet.settle()
        clip = {"x": box["x"] + 210, "y": box["y"] + 210, "width": 80, "height": 80}
        picture = np.asarray(Image.open(BytesIO(page.screenshot(clip=clip))).convert("RGB")).astype(int)
        return int(np.sum(np.all(np.abs(picture - 0x22) < 3, axis=-1)))

    near = handles()
    page.mouse.move(box["x"] + 450, box["y"] + 60)
    away = handles()
    page.mouse.move(box["x"] + 262, box["y"] + 255)
    assert near >= 4 * 10
    assert away == 0
    assert handles() >= 4 * 10
    sheet.close()


def test_magnification_overview_and_jumps_as_in_a_slide_viewer(browser: Any, server: Served, me: str) -> None:
    """Keys and the field set a magnification in um per screen pixel; the overview leads; < and > go along the marks."""
    sheet = open_sheet(browser, server, me, width=1440, height=900)
    page = sheet.page
    for x in (150, 260):
        sheet.press_at("moving", x, 260)
        sheet.accept()
    asked = sheet.state()["query"]["query"]
    page.keyboard.press("4")  # 20x: half a um per screen pixel
    for side in ("fixed", "moving"):
        assert sheet.state()["views"][side]["2"]["scale"] == pytest.approx(2.0)
        says(page.locator(f"[data-magnification={side}] option").first, "20×", whole=True)
    page.locator("[data-magnification=fixed]").select_option("40×")
    assert sheet.state()["views"]["fixed"]["2"]["scale"] == pytest.approx(4.0)
    assert sheet.state()["views"]["moving"]["2"]["scale"] == pytest.approx(2.0)
    # The overview shows where that is; a click in its middle leads to the middle of the image.
    sheet.settle()
    small = page.locator("[data-minimap=fixed]")
    small.wait_for(state="visible")
    box = small.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    np.testing.assert_allclose(sheet.state()["views"]["fixed"]["2"]["centre"], [159.75, 129.75], atol=2)
    assert sheet.state()["mark"] is None, "it did not go through to the image"
    page.keyboard.press("x")
    small.wait_for(state="hidden")
    page.keyboard.press("x")
    rows = {row["query"]: row for row in sheet.state()["rows"]}
    seen = []
    for key in ("<", ">", ">"):
        page.keyboard.press(key)
        state = sheet.state()
        seen.append(state["picked"])
        at = np.array(rows[state["picked"]]["point"])
        view = state["views"]["moving"]["2"]
        assert (np.abs(at - view["centre"]) * view["scale"] < np.array([view["width"], view["height"]]) / 2).all()
    first, second = sorted(rows)
    assert seen == [second, first, second]
    assert sheet.state()["query"]["query"] == asked, "the question stays"
    # The zoom that was chosen is there at the next question, too, unless the expected region needs more room.
    page.keyboard.press("q")
    sheet.settle()  # the question is asked for again: a mark that is put before it comes is cleared by it
    page.keyboard.press("5")
    sheet.press_at("moving", 340, 340)
    sheet.accept()
    state = sheet.state()
    view, region = state["views"]["moving"]["2"], 2 * max(state["query"]["prediction"]["ellipse"]["half_lengths"])
    assert view["scale"] == pytest.approx(min(4.0, min(view["width"], view["height"]) / region), rel=1e-3)
    page.keyboard.press("0")
    small.wait_for(state="hidden")  # all of the image is seen anyway
    page.mouse.move(sheet.box("moving")["x"] + 200, sheet.box("moving")["y"] + 200)
    for _ in range(20):
        page.keyboard.press("+")
    assert sheet.state()["views"]["moving"]["2"]["scale"] == pytest.approx(16 / SPACING)
    assert sheet.problems == []
    sheet.close()


def test_the_zoom_that_was_chosen_stays_at_the_next_question_and_after_a_reload(
    browser: Any, server: Served, me: str
) -> None:
    """Zoomed in by the wheel, accepted, opened anew: both images are seen as near as before."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    for side in ("fixed", "moving"):
        box = sheet.box(side)
        page.mouse.move(box["x"] + 200, box["y"] + 200)
        sheet.wheel(-120, -120, -120)

    def scales() -> list[float]:
        return [sheet.state()["views"][side]["2"]["scale"] for side in ("fixed", "moving")]

    before = page.evaluate("() => ({ ...globalThis.warpgauge.stage.working })")
    chosen = scales()
    page.reload()
    sheet.wait_for_query()
    assert page.evaluate("() => ({ ...globalThis.warpgauge.stage.working })") == before
    # Only a region that needs more room is seen from farther away.
    prediction = sheet.state()["query"]["prediction"]
    if prediction is None or 6 * max(prediction["ellipse"]["half_lengths"]) / 3 <= min(before.values()):
        np.testing.assert_allclose(scales(), chosen, rtol=1e-6)
    else:
        assert scales()[1] <= chosen[1]
    sheet.close()


def test_the_wheel_zooms_over_a_mark_and_never_edits(browser: Any, server: Served, me: str) -> None:
    """Over a fresh mark, over its handles and with Shift or Alt: the view changes, the mark does not."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    box = sheet.box("moving")
    sheet.drag("moving", (250, 250), (330, 250))
    mark = sheet.state()["mark"]
    for at, held in (((252, 252), None), ((330, 250), None), ((280, 255), "Shift"), ((280, 255), "Alt")):
        before = sheet.state()["views"]["moving"]["2"]["scale"]
        page.mouse.move(box["x"] + at[0], box["y"] + at[1])
        if held:
            page.keyboard.down(held)
        sheet.wheel(-100)
        assert sheet.state()["views"]["moving"]["2"]["scale"] > before
        if held:
            page.keyboard.up(held)
        page.keyboard.press("0")
        assert sheet.state()["mark"] == mark
    # With Alt a drag turns it, and keeps its lengths.
    sizes = half_lengths(sheet)
    page.keyboard.down("Alt")
    sheet.drag("moving", (250, 200), (300, 250))
    page.keyboard.up("Alt")
    assert sheet.state()["mark"]["shape"] != mark["shape"]
    assert sheet.state()["mark"]["point"] == pytest.approx(mark["point"])
    np.testing.assert_allclose(half_lengths(sheet), sizes, rtol=1e-9)
    sheet.close()


def test_what_is_pressed_in_a_dialog_does_nothing_else(browser: Any, tmp_path_factory: Any) -> None:
    """3D: 1 to 5 in the skip dialog choose a reason and leave the planes alone; Enter and Cancel work there."""
    folder = make_volume_project(tmp_path_factory.mktemp("dialog") / "body")
    with served(folder, "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        page.keyboard.press("s")
        page.locator("dialog[open]").wait_for()
        page.keyboard.press("Enter")  # nothing is chosen yet
        assert page.locator("dialog[open]").count() == 1
        page.keyboard.press("2")
        sheet.wait_for_query(2)
        assert stored(server, 0, "ada").reason == "ambiguous"
        assert sheet.state()["maximised"] is None
        page.keyboard.press("s")
        page.locator("dialog input").fill("12 hidden by a fold")
        sheet.accept()
        second = stored(server, 1, "ada")
        assert isinstance(second, Skip)
        assert (second.reason, second.text) == ("other", "12 hidden by a fold")
        page.keyboard.press("s")
        page.locator("dialog button", has_text="Cancel").click()
        page.wait_for_selector("dialog[open]", state="detached")
        assert stored(server, 2, "ada") is None
        assert sheet.state()["maximised"] is None
        assert sheet.problems == []
        sheet.close()


def test_enter_accepts_after_any_button_and_not_within_the_list_of_keys(browser: Any, server: Served, me: str) -> None:
    """After a click on Fit or Hide, Enter accepts instead of clicking again; in the overlay of keys it does nothing."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    sheet.press_at("moving", 240, 240)
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    page.keyboard.press("Enter")
    sheet.settle()
    assert stored(server, 0, me) is None
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="detached")
    page.locator("#moving .pane-head button[aria-label=Fit]").click()
    page.locator("#commands button[data-command=hide]").click()
    assert sheet.state()["predictionHidden"] is True
    sheet.accept()
    assert isinstance(stored(server, 0, me), Placement)
    assert sheet.state()["predictionHidden"] is True
    sheet.close()


def test_a_whole_session_by_keyboard_alone(browser: Any, server: Served, me: str) -> None:
    """Put, move, shape, accept, skip, go back, change, undo, look at the list: without a mouse."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    for number in (1, 2, 3):
        page.keyboard.press("0")
        page.keyboard.press("Space")
        assert sheet.state()["mark"] is not None
        state = sheet.state()
        view = state["views"]["moving"]["2"]
        wanted = bend(np.array(state["query"]["location"]) / SPACING) * SPACING
        away = (wanted - state["mark"]["point"]) * view["scale"]
        for k, (back, forth) in enumerate((("ArrowLeft", "ArrowRight"), ("ArrowUp", "ArrowDown"))):
            key = forth if away[k] > 0 else back
            tens, ones = divmod(round(abs(away[k])), 10)
            for _ in range(tens):
                page.keyboard.press(f"Shift+{key}")
            for _ in range(ones):
                page.keyboard.press(key)
        page.keyboard.press("]")
        sheet.accept()
        found = stored(server, number - 1, me)
        assert np.linalg.norm(np.array(found.point) - wanted) * view["scale"] < 1.5
    # Without a mark the arrows look around, with Ctrl always; Tab goes to the fixed image, the arrows then move that.
    page.keyboard.press("Escape")
    for _ in range(6):
        page.keyboard.press("+")
    centre = sheet.state()["views"]["moving"]["2"]["centre"]
    page.keyboard.press("ArrowRight")
    assert sheet.state()["views"]["moving"]["2"]["centre"][0] != centre[0]
    page.keyboard.press("s")
    skipped = sheet.state()["query"]["number"]
    page.keyboard.press("1")
    sheet.wait_for_query(skipped + 1)
    page.keyboard.press("Backspace")
    sheet.wait_for_query(skipped)
    page.keyboard.press("Backspace")
    sheet.wait_for_query(3)
    before = stored(server, 2, me)
    page.keyboard.press("Shift+ArrowDown")
    sheet.accept()
    assert stored(server, 2, me).point[1] > before.point[1]
    page.keyboard.press("z")
    sheet.wait_for_query(3)
    assert stored(server, 2, me).point == before.point
    page.keyboard.press("q")
    page.wait_for_function("() => globalThis.warpgauge.store.state.query.answer === null")
    sheet.settle()
    # Every control can be reached and shows where the keyboard is.
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "() => { const e = document.activeElement; const style = getComputedStyle(e);"
                " return [e.dataset.command ?? e.getAttribute('aria-label') ?? e.id, style.outlineStyle]; }"
            ).__str__()
        )
    for name in ("accept", "skip", "undo", "keys", "fixed image", "moving image", "Confidence"):
        assert any(f"'{name}', 'solid'" in one for one in reached), (name, sorted(reached))
    assert sheet.problems == []
    sheet.close()


FOCUS = """() => { const e = document.activeElement; const style = getComputedStyle(e);
  const box = e.getBoundingClientRect();
  const name = e.dataset.act ?? e.dataset.command ?? e.getAttribute("aria-label") ?? e.textContent.trim();
  return [name, style.outlineStyle !== "none" && box.width > 0 && box.height > 0]; }"""


def test_from_the_first_question_to_the_end_and_back_by_keys_alone(browser: Any, tmp_path: Path) -> None:
    """Marked with axes, skipped, undone, answered, finished; at the end every control is reached, seen, and works."""
    with served(make_tissue_project(tmp_path / "lesion", budget=2), "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        for key in ("Space", "]", "]", "}", ")"):
            page.keyboard.press(key)
        ellipse = half_lengths(sheet)
        assert ellipse[0] > 1.05 * ellipse[1]
        sheet.accept()
        found = stored(server, 0, "ada")
        drawn = ellipse_from_covariance(np.array(found.covariance), found.alpha)[0]
        np.testing.assert_allclose(drawn / SPACING, ellipse, rtol=1e-6)
        page.keyboard.press("s")
        page.keyboard.press("2")
        sheet.wait_for_query(3)
        assert stored(server, 1, "ada").reason == "ambiguous"
        page.keyboard.press("z")
        sheet.wait_for_query(2)
        assert stored(server, 1, "ada") is None
        page.keyboard.press("Space")
        page.keyboard.press("Enter")
        page.locator("#finish").or_(page.locator("button[data-choice=keep]")).first.wait_for()
        while page.locator("#finish").is_hidden():  # a slip is asked about: Enter keeps it once it can have been read
            page.keyboard.press("Enter")
            sheet.settle()
        sheet.settle()
        reached: dict[str, bool] = {}
        for _ in range(60):
            page.keyboard.press("Tab")
            name, visible = page.evaluate(FOCUS)
            reached[name] = visible
            if name == "undo":
                break
        assert {"review", "undo"} <= set(reached)
        assert all(visible for name, visible in reached.items() if name), reached
        page.keyboard.press("Enter")
        page.locator("#finish").wait_for(state="hidden")
        sheet.wait_for_query(2)
        assert isinstance(stored(server, 0, "ada"), Placement)
        assert stored(server, 1, "ada") is None
        assert sheet.problems == []
        sheet.close()


def test_going_back_says_so_shows_context_and_what_the_others_say(browser: Any, server: Served, me: str) -> None:
    """A former mark is named as one, at a zoom with context; moving it does not move where the others expect it.

    What was known at first stays what it was while answers come in.
    """
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    known_at_first = set()
    for _ in range(6):
        state = sheet.state()
        point = bend(np.array(state["query"]["location"]) / SPACING) * SPACING
        view = state["views"]["moving"]["2"]
        at = [(point[k] - view["centre"][k]) * view["scale"] + view[("width", "height")[k]] / 2 for k in (0, 1)]
        sheet.press_at("moving", *at)
        sheet.accept()
        known_at_first |= set(re.findall(r"\(was (.*)\)", page.locator("#uncertainty").text_content()))
    assert len(known_at_first) == 1
    page.keyboard.press("Backspace")
    page.wait_for_function("() => globalThis.warpgauge.store.state.query.answer !== null")
    last = sheet.state()["query"]["number"]
    sheet.wait_for_query(last)
    says(page.locator("#message"), "Your earlier answer 6 of 6.")
    state = sheet.state()
    view = state["views"]["moving"]["2"]
    assert view["scale"] * SPACING <= 8
    assert min(view["width"], view["height"]) / view["scale"] >= 80 * SPACING
    expected = np.array(state["query"]["prediction"]["mean"])
    # Moved away and looked at again, it is expected where it was expected before.
    for _ in range(12):
        page.keyboard.press("Shift+ArrowRight")
    sheet.accept()
    page.keyboard.press("Backspace")
    sheet.wait_for_query(last)
    moved = sheet.state()
    np.testing.assert_allclose(moved["query"]["prediction"]["mean"], expected, atol=1e-6)
    assert np.linalg.norm(np.array(moved["mark"]["point"]) - state["mark"]["point"]) > 1
    sheet.close()


def test_an_image_seen_whole_stays_whole_when_panes_come_and_go(browser: Any, server: Served, me: str) -> None:
    """Through all layouts and with the review open; a view that was zoomed keeps its zoom."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    page.keyboard.press("0")
    sheet.settle()
    first = sheet.state()["views"]["moving"]["2"]
    scales = {first["scale"]}
    for key in ("v", "d"):
        page.keyboard.press(key)
        sheet.settle()
        view = sheet.state()["views"]["moving"]["2"]
        # The image is 320 x 260 um; all of it is seen, and no more room is left than there is after Fit.
        assert view["scale"] == pytest.approx(0.96 * min(view["width"] / 320, view["height"] / 260), rel=1e-3)
        assert view["centre"] == pytest.approx(first["centre"])
        scales.add(view["scale"])
    assert len(scales) == 3
    page.keyboard.press("+")
    zoomed = sheet.state()["views"]["moving"]["2"]["scale"]
    page.keyboard.press("d")
    sheet.settle()
    assert sheet.state()["views"]["moving"]["2"]["scale"] == zoomed
    sheet.close()


def test_the_first_view_is_whole_and_panning_stays_at_the_image(browser: Any, server: Served, me: str) -> None:
    """Both images are seen whole at first; however far one drags, the middle of the view stays on the image."""
    sheet = open_sheet(browser, server, me)
    state = sheet.state()
    for side in ("fixed", "moving"):
        view, image = state["views"][side]["2"], state["project"]["images"][side]
        low = [(0 - view["centre"][k]) * view["scale"] + view[("width", "height")[k]] / 2 for k in (0, 1)]
        high = [low[k] + image["size"][k] * SPACING * view["scale"] for k in (0, 1)]
        assert min(low) >= 0
        assert high[0] <= view["width"]
        assert high[1] <= view["height"]
    for _ in range(4):
        sheet.drag("moving", (500, 400), (20, 20), button="right")
    view, image = sheet.state()["views"]["moving"]["2"], state["project"]["images"]["moving"]
    for k in (0, 1):
        assert -SPACING <= view["centre"][k] <= image["size"][k] * SPACING
    sheet.close()
