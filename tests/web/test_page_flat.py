"""A 2D session in a real browser, against the real server: the circle, the ring, one scale, and what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from warpgauge.core.annotations import ellipse_from_covariance
from warpgauge.project import Placement, Project, Skip
from web.page_tools import (
    Shared,
    Sheet,
    bend,
    last_drawn,
    make_tissue_project,
    on_screen,
    open_sheet,
    ring_radius,
    says,
    written_now,
)
from web.server_tools import Served, served

SPACING = 0.5  # um a pixel
PIXEL = """([x, y]) => {
  const context = document.querySelector("#moving canvas").getContext("2d");
  return [...context.getImageData(x, y, 1, 1).data].slice(0, 3);
}"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    names = [f"rater{k}" for k in range(14)]
    with served(make_tissue_project(tmp_path_factory.mktemp("flat") / "lesion"), ",".join(names)) as running:
        yield Shared(running, names)


def truth(point: Any) -> np.ndarray:
    return bend(np.asarray(point) / SPACING) * SPACING


def click_truly(sheet: Sheet) -> None:
    """Mark the true match of the question, without accepting it."""
    sheet.press_at("moving", *on_screen(sheet, "moving", truth(sheet.state()["query"]["location"])))


def stored(folder: Path, query: int, who: str) -> Any:
    with Project.open(folder) as project:
        return project.state.placement(who, query) or project.state.answer(who, query)


def volunteered(folder: Path, who: str) -> list[tuple[Any, Placement]]:
    """The queries that a rater volunteered, with their placements."""
    with Project.open(folder) as project:
        state = project.state
        cells = sorted((number, cell) for (name, number), cell in state.cells.items() if name == who)
        found = [(state.queries[number], cell.placement) for number, cell in cells if cell.placement is not None]
        return [(query, placement) for query, placement in found if query.origin == "volunteered"]


def check_drawn_is_stored(answer: Any, view: dict[str, Any], drawn: dict[str, Any]) -> None:
    """The stored covariance is the drawn ellipse to a hundredth of an image pixel."""
    assert isinstance(answer, Placement)
    x, y = (
        (answer.moving[k] - view["centre"][k]) * view["scale"] + view[s] / 2 for k, s in ((0, "width"), (1, "height"))
    )
    pixel = SPACING * view["scale"]  # screen pixels for an image pixel
    assert abs(x - drawn["x"]) < 0.01 * pixel
    assert abs(y - drawn["y"]) < 0.01 * pixel
    half_lengths, axes = ellipse_from_covariance(answer.covariance_world, answer.alpha)
    long_first = sorted((drawn["a"], drawn["b"]), reverse=True)
    np.testing.assert_allclose(half_lengths * view["scale"], long_first, atol=0.01 * pixel)
    # The ends of the axes, not only their lengths.
    angle = drawn["angle"] if drawn["a"] >= drawn["b"] else drawn["angle"] + np.pi / 2
    end = np.array([np.cos(angle), np.sin(angle)]) * long_first[0]
    wanted = axes[:, 0] * half_lengths[0] * view["scale"]
    if long_first[0] > 1.001 * long_first[1]:
        assert min(np.abs(end - wanted).max(), np.abs(end + wanted).max()) < 0.01 * pixel


def test_a_session_from_an_empty_project_every_kind_of_answer_undo_redo_and_reload(
    browser: Any, server: Served, me: str
) -> None:
    """Exact places: click, skip, undo and redo, a change of what is stored, a draft, the list, switching off."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    says(page.locator("#message"), "Where is this place? Click it in the other image.")
    assert page.locator("[data-command=undo]").is_disabled()
    # Enter without a mark writes nothing and says what to do; so does a click on the cross in the wrong image.
    page.keyboard.press("Enter")
    says(page.locator("#message"), "Click the match in the other image first")
    x, y = on_screen(sheet, "fixed", sheet.state()["query"]["location"])
    sheet.press_at("fixed", x + 3, y)
    says(page.locator("#message"), "This is the place. Now click it in the other image.")
    # 1: a click stores the ring that was seen
    radius = ring_radius(sheet)
    click_truly(sheet)
    sheet.accept()
    first = stored(server.folder, 0, me)
    half_lengths, _ = ellipse_from_covariance(first.covariance_world, first.alpha)
    np.testing.assert_allclose(half_lengths, [radius, radius], rtol=1e-9)
    assert first.fixed is None
    with Project.open(server.folder) as project:
        duration = project.state.answer(me, 0).duration
    assert duration is not None
    assert duration > 0
    says(page.locator("#saved"), "✓ saved")
    # 2: skipped with a note and a reason
    page.keyboard.press("s")
    page.locator("#bottom input").fill("a fold")
    page.locator("#reasons").click()
    page.keyboard.press("Enter")  # nothing is chosen yet
    page.keyboard.press("3")
    sheet.wait_for_query(3)
    second = stored(server.folder, 1, me)
    assert isinstance(second, Skip)
    assert (second.reason, second.text) == ("torn_or_missing", "a fold")
    # undo: the skip is taken back and its query shown; redo: it is there again, and the open question comes back
    page.keyboard.press("z")
    sheet.wait_for_query(2)
    assert stored(server.folder, 1, me) is None
    page.keyboard.press("Shift+Z")
    says(page.locator("#message"), "Done again")
    sheet.wait_for_query(3)
    assert isinstance(stored(server.folder, 1, me), Skip)
    assert sheet.state()["query"]["answer"] is None
    # an earlier answer, changed
    for number in (2, 1):
        page.keyboard.press("Backspace")
        sheet.wait_for_query(number)
    says(page.locator("#message"), "Your earlier answer.")
    page.keyboard.press("Shift+ArrowRight")
    sheet.accept()
    assert stored(server.folder, 0, me).moving[0] > first.moving[0]
    assert stored(server.folder, 0, me).moving[1] == pytest.approx(first.moving[1])
    # a draft that is not accepted survives a reload, and so does the place in the work; Escape clears it
    number = sheet.state()["query"]["number"]
    click_truly(sheet)
    draft = sheet.state()["mark"]
    page.reload()
    sheet.wait_for_query(number)
    assert sheet.state()["mark"]["point"] == pytest.approx(draft["point"])
    assert stored(server.folder, 2, me) is None
    page.keyboard.press("Escape")
    assert sheet.state()["mark"] is None
    # the list shows what was done; an answer is switched off there
    page.keyboard.press("d")
    page.wait_for_selector("#drawer tr[data-query='1']")
    assert page.locator("#drawer tbody tr").count() == 2
    says(page.locator("#drawer tr[data-query='1']"), "skipped: torn or missing")
    page.locator("#drawer tr[data-query='0']").click()
    sheet.wait_for_query(1)
    page.locator("#drawer tr[data-query='0'] input").click()
    page.wait_for_selector("#drawer tr[data-query='0'].off")
    with Project.open(server.folder) as project:
        assert project.state.cells[(me, 0)].disabled
    assert sheet.problems == []
    assert all(url.startswith((server.base, "about:", "data:", "blob:")) for url in sheet.requests)
    sheet.close()


def test_one_rater_alone_chooses_the_place_in_the_circle_and_outside_it_is_a_landmark_of_their_own(
    browser: Any, tmp_path: Path
) -> None:
    """The circle as wide as the server says; the centre by default, a place within, one outside; a reload."""
    with served(make_tissue_project(tmp_path / "lesion"), "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        says(page.locator("#message"), "Mark something you recognise in the circle, in both images.")
        query = sheet.state()["query"]
        assert 0 < query["radius"] <= 0.15 * 260.5
        # The circle fills about a third of the pane, less where the expected region needs more room.
        view = sheet.state()["views"]["fixed"]["2"]
        share = 2 * query["radius"] * view["scale"] / min(view["width"], view["height"])
        assert 0.2 < share < 0.35
        click_truly(sheet)
        sheet.accept()
        assert stored(server.folder, query["query"], "ada").fixed is None
        # Within the circle, inwards from the border.
        query = sheet.state()["query"]
        inwards = np.array([160.0, 130.0]) - query["location"]
        inwards /= np.linalg.norm(inwards)
        near = np.array(query["location"]) + 0.6 * query["radius"] * inwards
        sheet.press_at("fixed", *on_screen(sheet, "fixed", near))
        says(page.locator("#message"), "Now click the same spot in the other image.")
        sheet.settle()
        sheet.press_at("moving", *on_screen(sheet, "moving", truth(near)))
        page.reload()
        sheet.wait_for_query(query["number"])
        np.testing.assert_allclose(sheet.state()["own"], near, atol=1 / view["scale"])
        sheet.accept()
        answer = stored(server.folder, query["query"], "ada")
        np.testing.assert_allclose(answer.fixed, near, atol=1 / view["scale"])
        np.testing.assert_allclose(answer.moving, truth(near), atol=2 / view["scale"])
        # Outside: the question stays, whatever is drawn there first can be given up, and what is saved counts at once.
        query = sheet.state()["query"]
        page.keyboard.press("0")
        sheet.settle()
        away = np.array(query["location"]) + 1.6 * query["radius"] * (np.array([160.0, 130.0]) - query["location"]) / (
            np.linalg.norm(np.array([160.0, 130.0]) - query["location"])
        )
        for last in (False, True):
            sheet.press_at("fixed", *on_screen(sheet, "fixed", away))
            sheet.settle()
            sheet.press_at("moving", *on_screen(sheet, "moving", truth(away)))
            says(page.locator("#message"), "a landmark of your own")
            if not last:
                page.keyboard.press("Escape")
                assert sheet.state()["own"] is None
        placed = sheet.state()["query"]["placed"]
        page.keyboard.press("Enter")
        page.wait_for_function("() => globalThis.warpgauge.store.state.own === null")
        sheet.settle()
        assert sheet.state()["query"]["query"] == query["query"]
        says(page.locator("#query-number"), f"{placed + 1} of 30")
        ((own, placement),) = volunteered(server.folder, "ada")
        np.testing.assert_allclose(own.point, away, atol=1 / sheet.state()["scale"])
        np.testing.assert_allclose(placement.moving, truth(away), atol=2 / sheet.state()["scale"])
        assert sheet.problems == []
        sheet.close()


def test_a_new_project_begins_with_three_pairs_that_settle_how_the_images_lie(browser: Any, tmp_path: Path) -> None:
    """Here, there, Enter, three times: stored; then the first question. Another rater skips the start."""
    with served(make_tissue_project(tmp_path / "lesion", guided_start=True), "ada,ben") as server:
        sheet = Sheet(browser, server.links["ada"])
        page = sheet.page
        places = np.array([[60.0, 50.0], [250.0, 70.0], [150.0, 200.0]])
        for k, place in enumerate(places):
            says(page.locator("#message"), f"Place {k + 1} of 3")
            sheet.settle()
            sheet.press_at("fixed", *on_screen(sheet, "fixed", place))
            says(page.locator("#message"), "other image")
            sheet.press_at("moving", *on_screen(sheet, "moving", truth(place)))
            page.keyboard.press("Enter")
        sheet.wait_for_query()
        found = volunteered(server.folder, "ada")
        for (query, answer), place in zip(found, places, strict=True):
            np.testing.assert_allclose(query.point, place, atol=2)
            np.testing.assert_allclose(answer.moving, truth(place), atol=3)
        assert sheet.state()["pose"]["scale"] == pytest.approx(1, abs=0.1)
        assert sheet.problems == []
        sheet.close()
        other = Sheet(browser, server.links["ben"])
        other.page.locator("button[data-choice=skip-start]").click()
        other.wait_for_query()
        other.page.reload()
        other.wait_for_query()
        assert volunteered(server.folder, "ben") == []
        other.close()


@pytest.mark.parametrize("notches", [-6, 0, 5, 14])
def test_the_stored_covariance_is_the_drawn_ellipse_at_every_zoom(
    browser: Any, server: Served, me: str, notches: int
) -> None:
    """A ring, made an ellipse and turned by its handles, moved by keys: what is stored is what the canvas was told."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    for _ in range(abs(notches)):
        page.keyboard.press("+" if notches > 0 else "-")
    box = sheet.box("moving")
    middle = (box["width"] / 2, box["height"] / 2)
    page.keyboard.press("]")
    sheet.press_at("moving", *middle)
    drawn = last_drawn(sheet)
    # The handle of a small axis stands off by 22 pixels; what lies between it and the axis stays.
    arm = max(drawn["a"], 22.0)
    sheet.drag("moving", (drawn["x"] + arm, drawn["y"]), (middle[0] + 41.4, middle[1] + 88.8))
    drawn = last_drawn(sheet)
    long = max(drawn["a"], drawn["b"])
    assert long == pytest.approx(np.hypot(41.4, 88.8) - (arm - 12 if arm > 12 else 0), abs=1.5)
    page.keyboard.press("ArrowLeft")
    drawn = last_drawn(sheet)
    view = sheet.state()["views"]["moving"]["2"]
    sheet.accept()
    check_drawn_is_stored(stored(server.folder, 0, me), view, drawn)
    # Looked at again, it is drawn from what is stored, in the same place of the image.
    page.keyboard.press("Backspace")
    sheet.wait_for_query(1)
    check_drawn_is_stored(stored(server.folder, 0, me), sheet.state()["views"]["moving"]["2"], last_drawn(sheet))
    assert sheet.problems == []
    sheet.close()


def test_the_cursor_is_a_ring_of_three_sizes_that_a_click_stores(browser: Any, server: Served, me: str) -> None:
    """Sharp, about, roughly by [ and ], before the click and after it; near, never below half an image pixel."""
    sheet = open_sheet(browser, server, me)
    page, box = sheet.page, sheet.box("moving")
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    for key, words, pixels in (("[", "sharp", 1.5), ("]", "about", 4), ("]", "roughly", 12), ("]", "roughly", 12)):
        page.keyboard.press(key)
        assert words in written_now(sheet)
        sheet.press_at("moving", 200, 200)
        radius = ring_radius(sheet, pixels)
        np.testing.assert_allclose(sheet.state()["mark"]["shape"], np.eye(2) * radius**2)
        said = f"± {float(f'{radius:.2g}'):g} µm"
        assert said in written_now(sheet)
        page.keyboard.press("Escape")
    sheet.drag("moving", (200, 200), (203, 200))  # a jitter is a click
    big = np.array(sheet.state()["mark"]["shape"])
    page.keyboard.press("[")
    np.testing.assert_allclose(np.array(sheet.state()["mark"]["shape"]), big / 9, rtol=1e-9)
    # What is drawn is taken back and brought again step by step, and nothing of it reaches the log.
    page.keyboard.press("z")
    np.testing.assert_allclose(sheet.state()["mark"]["shape"], big)
    page.keyboard.press("z")
    assert sheet.state()["mark"] is None
    page.keyboard.press("Shift+Z")
    np.testing.assert_allclose(sheet.state()["mark"]["shape"], big)
    for _ in range(30):
        page.keyboard.press("+")
    page.keyboard.press("Escape")
    page.keyboard.press("[")
    sheet.press_at("moving", 200, 200)
    np.testing.assert_allclose(sheet.state()["mark"]["shape"], np.eye(2) * (SPACING / 2) ** 2)
    with Project.open(server.folder) as project:
        assert not [key for key in project.state.cells if key[0] == me]
    sheet.close()


def test_handles_scale_at_the_rim_move_at_the_centre_and_hide_away_from_the_pointer(
    browser: Any, server: Served, me: str
) -> None:
    """Caught at or just outside the rim, the centre stays to the last digit; the wheel over a mark never edits."""
    sheet = open_sheet(browser, server, me)
    page, box = sheet.page, sheet.box("moving")
    scale = sheet.state()["views"]["moving"]["2"]["scale"]
    handles = "() => warpgauge.stage.planesOf('moving')[0].hand.showsHandles"
    for ring, outside in ((4, 0.0), (4, 3.0), (12, 0.0), (12, 3.0)):
        page.keyboard.press("Escape")
        for key in "[[]" if ring == 4 else "[[]]":
            page.keyboard.press(key)
        sheet.press_at("moving", 250, 250)
        before = sheet.state()["mark"]
        radius = np.sqrt(before["shape"][0][0]) * scale
        start, end = (250 + (radius + outside) * np.sqrt(0.5), 250 + 40 * np.sqrt(0.5))  # between two handles
        sheet.drag("moving", (start, start), (end, end))
        after = sheet.state()["mark"]
        assert after["point"] == before["point"]
        assert np.sqrt(after["shape"][0][0]) * scale == pytest.approx(40 * radius / (radius + outside), rel=0.02)
        sheet.drag("moving", (250, 250), (270, 250))
        assert sheet.state()["mark"]["point"][0] == pytest.approx(before["point"][0] + 20 / scale)
        np.testing.assert_allclose(sheet.state()["mark"]["shape"], after["shape"])
    assert page.evaluate(handles)
    page.mouse.move(box["x"] + 450, box["y"] + 60)
    assert not page.evaluate(handles)
    mark = sheet.state()["mark"]
    for at in ((272, 250), (310, 250)):
        before = sheet.state()["scale"]
        page.mouse.move(box["x"] + at[0], box["y"] + at[1])
        sheet.wheel(-100)
        assert sheet.state()["scale"] > before
        assert sheet.state()["mark"] == mark
    sheet.close()


def test_both_images_have_one_scale_and_the_first_leads(browser: Any, server: Served, me: str) -> None:
    """Whatever zooms, both zoom; a drag in the first takes both along, one in the second only itself; Fit; reload."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page

    def views() -> list[dict[str, Any]]:
        found = sheet.state()["views"]
        assert found["fixed"]["2"]["scale"] == pytest.approx(found["moving"]["2"]["scale"])
        return [found["fixed"]["2"], found["moving"]["2"]]

    start = views()
    location = sheet.state()["query"]["location"]
    for side in ("moving", "fixed"):
        before = on_screen(sheet, "fixed", location)
        box = sheet.box(side)
        page.mouse.move(box["x"] + 170, box["y"] + 210)
        sheet.wheel(-120, -120)
        if side == "moving":
            np.testing.assert_allclose(on_screen(sheet, "fixed", location), before, atol=0.5)
    near = views()
    assert near[0]["scale"] > 1.5 * start[0]["scale"]
    sheet.drag("moving", (300, 300), (260, 270))
    moved = views()
    assert moved[0] == near[0], "searching in the second image never moves the first"
    step = (np.subtract(near[1]["centre"], moved[1]["centre"])) * near[1]["scale"]
    np.testing.assert_allclose(step, [-40, -30], atol=0.1)
    sheet.drag("fixed", (300, 300), (330, 310))
    both = views()
    for k in (0, 1):
        step = (np.subtract(moved[k]["centre"], both[k]["centre"])) * both[k]["scale"]
        np.testing.assert_allclose(step, [30, 10], atol=0.1)
    assert sheet.state()["mark"] is None, "a drag marks nothing"
    # As near as the expert chose, after a reload too, unless the expected region needs more room.
    chosen = page.evaluate("() => globalThis.warpgauge.stage.working")
    page.reload()
    sheet.wait_for_query()
    assert page.evaluate("() => globalThis.warpgauge.stage.working") == chosen
    # Magnifications of a slide scanner, about the question; all of both images; the overview; the middle stays on it.
    page.keyboard.press("4")
    assert views()[0]["scale"] == pytest.approx(2.0), "20x: half a um per screen pixel"
    page.keyboard.press("0")
    for view in views():
        low = [-view["centre"][k] * view["scale"] + view[("width", "height")[k]] / 2 for k in (0, 1)]
        assert min(low) >= 0
        assert low[0] + 320 * view["scale"] <= view["width"]
        assert low[1] + 260 * view["scale"] <= view["height"]
    for _ in range(30):
        page.keyboard.press("+")
    assert views()[0]["scale"] == pytest.approx(16 / SPACING)
    page.keyboard.press("5")
    small = page.locator("[data-minimap=fixed]")
    small.wait_for(state="visible")
    box = small.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    np.testing.assert_allclose(views()[0]["centre"], [159.75, 129.75], atol=2)
    for _ in range(5):
        sheet.drag("fixed", (500, 400), (20, 20))
    assert 0 <= views()[0]["centre"][0] <= 320
    assert 0 <= views()[0]["centre"][1] <= 260
    sheet.close()


def test_the_picture_lies_where_the_view_says(browser: Any, server: Served, me: str) -> None:
    """A pixel of the canvas shows the sample of the image that the view puts there, at several zooms."""
    picture = np.asarray(Image.open(server.folder.parent / "Ki67.png")).astype(int)
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    page.keyboard.down("h")
    page.evaluate(
        "() => globalThis.warpgauge.stage.setColours('moving', "
        "{windows: [0, 1, 2].map(() => ({low: 0, high: 255})), invert: false, channel: 'colour', shown: []})"
    )
    for notches in (12, 6):  # so large that samples are drawn as squares
        box = sheet.box("moving")
        page.mouse.move(box["x"] + 300, box["y"] + 300)
        sheet.wheel(*[-100] * notches)
        page.mouse.move(box["x"] + 10, box["y"] + 60)
        sheet.settle()
        view = sheet.state()["views"]["moving"]["2"]
        rng = np.random.default_rng(notches)
        compared = 0
        for x, y in np.floor(rng.uniform(80, 480, (60, 2))) + 0.5:  # the middle of a screen pixel
            index = [
                ((v - view[s] / 2) / view["scale"] + view["centre"][k]) / SPACING
                for k, (v, s) in enumerate(((x, "width"), (y, "height")))
            ]
            near = np.abs(np.array(index) - np.round(index)) < 0.35  # well within a pixel
            i, j = (round(v) for v in index)
            if not near.all() or not (0 <= i < picture.shape[1] and 0 <= j < picture.shape[0]):
                continue
            shown = page.evaluate(PIXEL, [int(x), int(y)])
            compared += 1
            assert np.abs(np.array(shown) - picture[j, i]).max() <= 1, (x, y, index)
        assert compared > 10
    sheet.close()


def test_a_slip_is_asked_about_once_in_a_quiet_line(browser: Any, server: Served, me: str) -> None:
    """Far outside the image: keep or change; change keeps the mark, keep saves and flags; undo takes the line away."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    page.keyboard.press("0")
    for _ in range(3):
        page.keyboard.press("-")
    box = sheet.box("moving")
    sheet.press_at("moving", box["width"] - 12, 30)
    page.keyboard.press("Enter")
    page.locator("button[data-choice=keep]").wait_for()
    assert "warning" in page.locator("#message").get_attribute("class")
    says(page.locator("#message"), "outside")
    page.keyboard.press("z")
    page.locator("button[data-choice=keep]").wait_for(state="detached")
    page.keyboard.press("Shift+Z")
    page.keyboard.press("Enter")
    page.locator("button[data-choice=change]").click()
    assert sheet.state()["mark"] is not None
    assert stored(server.folder, 0, me) is None
    page.keyboard.press("Enter")
    page.locator("button[data-choice=keep]").click()
    sheet.wait_for_query(2)
    page.keyboard.press("Backspace")
    sheet.wait_for_query(1)
    assert sheet.state()["query"]["answer"]["flagged"] is True
    assert sheet.problems == ["Failed to load resource: the server responded with a status of 409 (Conflict)"] * 3
    sheet.close()


def test_a_whole_session_by_keyboard_alone(browser: Any, tmp_path: Path) -> None:
    """Put, move, size, accept, skip, go back, undo, finish, and at the end every control is reached and seen."""
    with served(make_tissue_project(tmp_path / "lesion", budget=3), "ada") as server:
        sheet = open_sheet(browser, server, "ada")
        page = sheet.page
        for number in (1, 2):
            page.keyboard.press("0")
            page.keyboard.press("Space")
            state = sheet.state()
            view, wanted = state["views"]["moving"]["2"], truth(state["query"]["location"])
            away = (wanted - state["mark"]["point"]) * view["scale"]
            for k, (back, forth) in enumerate((("ArrowLeft", "ArrowRight"), ("ArrowUp", "ArrowDown"))):
                tens, ones = divmod(round(abs(away[k])), 10)
                key = forth if away[k] > 0 else back
                for pressed in [f"Shift+{key}"] * tens + [key] * ones:
                    page.keyboard.press(pressed)
            page.keyboard.press("]")
            asked = state["query"]["query"]
            sheet.accept()
            assert np.linalg.norm(np.array(stored(server.folder, asked, "ada").moving) - wanted) * view["scale"] < 1.5
            assert sheet.state()["query"]["number"] == number + 1
        page.keyboard.press("s")
        page.keyboard.press("1")
        sheet.wait_for_query(4)
        page.keyboard.press("Backspace")
        sheet.wait_for_query(3)
        page.keyboard.press("q")
        sheet.wait_for_query(4)
        page.keyboard.press("Space")
        page.keyboard.press("Enter")
        finish, keep = page.locator("#finish .sheet"), page.locator("button[data-choice=keep]")
        finish.or_(keep).first.wait_for()
        while not finish.is_visible():  # a slip is asked about: Enter keeps it once it can have been read
            page.keyboard.press("Enter")
            sheet.settle()
        reached: dict[str, bool] = {}
        for _ in range(60):
            page.keyboard.press("Tab")
            name, seen = page.evaluate(
                "() => { const e = document.activeElement; const box = e.getBoundingClientRect();"
                " return [e.dataset.act ?? e.dataset.command ?? e.id,"
                " getComputedStyle(e).outlineStyle !== 'none' && box.width > 0]; }"
            )
            reached[name] = seen
            if name == "undo":
                break
        assert {"review", "undo"} <= set(reached)
        assert all(seen for name, seen in reached.items() if name), reached
        page.keyboard.press("Enter")
        finish.wait_for(state="detached")
        sheet.wait_for_query(4)
        assert sheet.problems == [] or all("409" in one for one in sheet.problems)
        sheet.close()
