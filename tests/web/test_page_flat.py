"""A complete 2D session in a real browser, against the real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpgauge.core.annotations import ellipse_from_covariance
from warpgauge.project import Placement, Project, Skip
from web.page_tools import Shared, Sheet, bend, click_radius, last_drawn, make_tissue_project, open_sheet, says
from web.server_tools import Served, served

SPACING = 0.5  # um a pixel
PIXEL = """([x, y]) => {
  const context = document.querySelector("#moving canvas").getContext("2d");
  return [...context.getImageData(x, y, 1, 1).data].slice(0, 3);
}"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    names = [f"rater{k}" for k in range(9)]
    with served(make_tissue_project(tmp_path_factory.mktemp("flat") / "lesion"), ",".join(names)) as running:
        yield Shared(running, names)


def truth_on_screen(sheet: Sheet) -> tuple[float, float]:
    """Where the true match of the query is, in pixels of the moving canvas."""
    state = sheet.state()
    point = bend(np.array(state["query"]["location"]) / SPACING) * SPACING
    return to_screen(state["views"]["moving"]["2"], point)


def to_screen(view: dict[str, Any], point: Any) -> tuple[float, float]:
    return tuple((point[k] - view["centre"][k]) * view["scale"] + view[("width", "height")[k]] / 2 for k in (0, 1))  # type: ignore[return-value]


def stored(folder: Path, query: int, who: str) -> Any:
    with Project.open(folder) as project:
        return project.state.placement(who, query) or project.state.answer(who, query)


def edits(folder: Path) -> list[int | None]:
    """The queries whose placement was changed, in the order of the log."""
    with Project.open(folder) as project:
        return [event.query for event in project.events() if event.kind == "edit"]


def check_drawn_is_stored(answer: Any, view: dict[str, Any], drawn: dict[str, Any]) -> None:
    """The stored covariance is the drawn ellipse to a hundredth of an image pixel."""
    assert isinstance(answer, Placement)
    x, y = to_screen(view, answer.point)
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


def test_click_drag_edit_skip_undo_redo_and_reload_from_an_empty_project(browser: Any, server: Served, me: str) -> None:
    """A whole session: every kind of answer reaches the log, undo and redo take it back and forth, a reload resumes."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    # Enter without a mark writes nothing and says what to do.
    page.keyboard.press("Enter")
    says(page.locator("#message"), "Click the match")
    # 1: a click, the default disc
    radius = click_radius(sheet)
    sheet.press_at("moving", *truth_on_screen(sheet))
    sheet.accept()
    first = stored(server.folder, 0, me)
    assert isinstance(first, Placement)
    half_lengths, _ = ellipse_from_covariance(first.covariance_world, first.alpha)
    np.testing.assert_allclose(half_lengths, [radius, radius], rtol=1e-9)
    with Project.open(server.folder) as project:
        duration = project.state.answer(me, 0).stamp.duration
    assert duration is not None
    assert duration > 0
    says(page.locator("#saved"), "saved ")
    # 2: a drag
    start = truth_on_screen(sheet)
    sheet.drag("moving", start, (start[0] + 40, start[1] + 30))
    scale = sheet.state()["views"]["moving"]["2"]["scale"]
    sheet.accept()
    half_lengths, axes = ellipse_from_covariance(stored(server.folder, 1, me).covariance_world)
    np.testing.assert_allclose(half_lengths[0] * scale, 50, atol=0.01)
    np.testing.assert_allclose(np.abs(axes[:, 0]), [0.8, 0.6], atol=1e-3)
    # 3: skipped with a reason and a note
    page.keyboard.press("s")
    page.locator("dialog input").fill("a fold")
    page.locator("dialog h2").click()
    page.keyboard.press("3")
    sheet.wait_for_query(4)
    third = stored(server.folder, 2, me)
    assert isinstance(third, Skip)
    assert (third.reason, third.text) == ("torn_or_missing", "a fold")
    # undo: the skip is taken back and its query shown; redo: it is there again, and the open question comes back
    page.keyboard.press("z")
    sheet.wait_for_query(3)
    assert stored(server.folder, 2, me) is None
    page.keyboard.press("Shift+Z")
    page.wait_for_function("() => document.getElementById('message').textContent.startsWith('Done again')")
    sheet.settle()
    assert isinstance(stored(server.folder, 2, me), Skip)
    sheet.wait_for_query(4)
    assert sheet.state()["query"]["answer"] is None
    # the former ones, an edit of one that is stored
    page.keyboard.press("Backspace")
    sheet.wait_for_query(3)
    page.keyboard.press("Backspace")
    sheet.wait_for_query(2)
    before = stored(server.folder, 1, me)
    page.keyboard.press("Shift+ArrowRight")
    sheet.accept()
    number = sheet.state()["query"]["number"]
    after = stored(server.folder, 1, me)
    assert after != before
    assert edits(server.folder) == [1]
    view_scale = sheet.state()["views"]["moving"]["2"]["scale"]
    assert after.point[0] > before.point[0]
    assert after.point[1] == pytest.approx(before.point[1])
    assert view_scale > 0
    # a draft that is not accepted survives a reload, and so does the place in the work
    sheet.press_at("moving", *truth_on_screen(sheet))
    draft = sheet.state()["mark"]
    page.reload()
    sheet.wait_for_query(number)
    assert sheet.state()["mark"]["point"] == pytest.approx(draft["point"])
    assert stored(server.folder, number - 1, me) is None
    page.keyboard.press("Escape")
    assert sheet.state()["mark"] is None
    # the list shows what was done
    page.locator("#moving .planes canvas").focus()
    page.keyboard.press("d")
    page.wait_for_selector("#drawer tr[data-query='2']")
    assert page.locator("#drawer tbody tr").count() == 3
    says(page.locator("#drawer tr[data-query='2']"), "skipped: torn or missing")
    page.locator("#drawer tr[data-query='0']").click()
    sheet.wait_for_query(1)
    # disable it, see that the model drops it
    page.locator("#drawer tr[data-query='0'] input").click()
    page.wait_for_selector("#drawer tr[data-query='0'].off")
    with Project.open(server.folder) as project:
        assert project.state.cells[(me, 0)].disabled
    assert sheet.problems == []
    assert all(url.startswith((server.base, "about:", "data:", "blob:")) for url in sheet.requests)
    sheet.close()


@pytest.mark.parametrize("notches", [-6, 0, 5, 14])
def test_the_stored_covariance_is_the_drawn_ellipse_at_every_zoom(
    browser: Any, server: Served, me: str, notches: int
) -> None:
    """Drawn by a drag, stretched and turned by handles and keys: what is stored is what the canvas was told."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    for _ in range(abs(notches)):
        page.keyboard.press("+" if notches > 0 else "-")
    box = sheet.box("moving")
    middle = (box["width"] / 2, box["height"] / 2)
    sheet.drag("moving", middle, (middle[0] + 70.3, middle[1] - 33.7))
    drawn = last_drawn(sheet)
    end = (drawn["x"] + drawn["a"] * np.cos(drawn["angle"]), drawn["y"] + drawn["a"] * np.sin(drawn["angle"]))
    sheet.drag("moving", end, (middle[0] + 41.4, middle[1] + 88.8))  # stretches and turns
    drawn = last_drawn(sheet)
    np.testing.assert_allclose(
        [drawn["x"] + drawn["a"] * np.cos(drawn["angle"]), drawn["y"] + drawn["a"] * np.sin(drawn["angle"])],
        [middle[0] + 41.4, middle[1] + 88.8],
        atol=0.02,
    )
    for key in ("}", "}", "}", ")", "]", "Alt+ArrowLeft"):
        page.keyboard.press(key)
    drawn = last_drawn(sheet)
    view = sheet.state()["views"]["moving"]["2"]
    sheet.accept()
    check_drawn_is_stored(stored(server.folder, 0, me), view, drawn)
    # Looked at again, it is drawn from what is stored, in the same place of the image.
    page.keyboard.press("Backspace")
    sheet.wait_for_query(1)
    view = sheet.state()["views"]["moving"]["2"]
    check_drawn_is_stored(stored(server.folder, 0, me), view, last_drawn(sheet))
    assert sheet.problems == []
    sheet.close()


def test_the_picture_lies_where_the_view_says(browser: Any, server: Served, me: str) -> None:
    """A pixel of the canvas shows the sample of the image that the view puts there, at several zooms."""
    from PIL import Image

    picture = np.asarray(Image.open(server.folder.parent / "Ki67.png")).astype(int)
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    page.keyboard.press("h")
    page.evaluate(
        "() => globalThis.warpgauge.stage.setColours('moving', "
        "{windows: [0, 1, 2].map(() => ({low: 0, high: 255})), invert: false, gamma: 1, channel: 'colour', shown: []})"
    )
    for notches in (12, 6):  # so large that samples are drawn as squares
        box = sheet.box("moving")
        page.mouse.move(box["x"] + 300, box["y"] + 300)
        sheet.wheel(*[-100] * notches)
        sheet.settle()
        view = sheet.state()["views"]["moving"]["2"]
        rng = np.random.default_rng(notches)
        compared = 0
        for x, y in np.floor(rng.uniform(60, 500, (60, 2))) + 0.5:  # the middle of a screen pixel
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


def test_a_fast_click_and_a_jitter_under_four_pixels_are_clicks(browser: Any, server: Served, me: str) -> None:
    """A movement of 3 pixels places the default disc; of 5 pixels it draws."""
    sheet = open_sheet(browser, server, me)
    sheet.drag("moving", (200, 200), (203, 200))
    disc = np.array(sheet.state()["mark"]["shape"])
    radius = click_radius(sheet)
    np.testing.assert_allclose(disc, np.eye(2) * radius**2)
    sheet.drag("moving", (400, 300), (400, 305))
    scale = sheet.state()["views"]["moving"]["2"]["scale"]
    np.testing.assert_allclose(np.array(sheet.state()["mark"]["shape"])[1, 1], (5 / scale) ** 2, rtol=1e-9)
    sheet.close()


def test_local_undo_goes_back_through_what_is_drawn_before_what_is_stored(
    browser: Any, server: Served, me: str
) -> None:
    """Z takes back one edit after the other, then the stored answer; nothing that is not accepted reaches the log."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    sheet.press_at("moving", 200, 200)
    one = sheet.state()["mark"]
    page.keyboard.press("b")
    two = sheet.state()["mark"]
    assert np.linalg.det(two["shape"]) > np.linalg.det(one["shape"])
    page.keyboard.press("z")
    assert sheet.state()["mark"] == one
    page.keyboard.press("z")
    assert sheet.state()["mark"] is None
    page.keyboard.press("Shift+Z")
    page.keyboard.press("Shift+Z")
    assert sheet.state()["mark"] == two
    with Project.open(server.folder) as project:
        assert not [key for key in project.state.cells if key[0] == me]
    sheet.close()
