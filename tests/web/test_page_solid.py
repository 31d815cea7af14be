"""A complete 3D session in a real browser: an oriented ellipsoid edited through its sections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpgauge.core.annotations import confidence_radius
from warpgauge.geometry import Grid
from warpgauge.project import Placement, Project
from web.page_tools import Shared, Sheet, last_drawn, make_volume_project, open_sheet, says, written_now
from web.server_tools import Served, served

# Index axes right and down, and which world axis (LPS) shall run right or down with which sign: the radiological habit.
LAYOUT = {2: ((0, 0, 1), (1, 1, 1)), 1: ((0, 0, 1), (2, 2, -1)), 0: ((1, 1, 1), (2, 2, -1))}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    names = [f"rater{k}" for k in range(8)]
    with served(make_volume_project(tmp_path_factory.mktemp("solid") / "body"), ",".join(names)) as running:
        yield Shared(running, names)


def stored(folder: Path, query: int, who: str) -> tuple[Placement, Grid]:
    with Project.open(folder) as project:
        answer = project.state.placement(who, query)
        assert answer is not None
        return answer, project.moving_grid


def screen_directions(grid: Grid, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """World directions of right and down on the screen, from the convention alone."""
    found = []
    for index_axis, world_axis, wanted in LAYOUT[axis]:
        column = np.asarray(grid.direction)[:, index_axis]
        found.append(column if column[world_axis] * wanted > 0 else -column)
    return found[0], found[1]


def screen_to_world(grid: Grid, view: dict[str, Any], axis: int, x: float, y: float, slice_: int) -> np.ndarray:
    """Where a screen position of a plane lies in the world, written out independently of the page."""
    right, down = screen_directions(grid, axis)
    u = (x - view["width"] / 2) / view["scale"] + view["centre"][0]
    v = (y - view["height"] / 2) / view["scale"] + view["centre"][1]
    through = np.asarray(grid.direction)[:, axis] * grid.spacing[axis] * slice_
    return np.asarray(grid.origin) + u * right + v * down + through


def slices(sheet: Sheet) -> dict[int, int]:
    panes = sheet.page.evaluate(
        "() => globalThis.warpgauge.stage.panes.filter(p => p.side === 'moving').map(p => [p.axis, p.slice])"
    )
    return dict(panes)


def check_sections(found: tuple[Placement, Grid], seen: dict[int, Any], at: dict[int, int]) -> None:
    """Every section that was drawn lies on the stored ellipsoid, to a hundredth of the smallest voxel edge."""
    answer, grid = found
    covariance = answer.covariance_world
    gamma = confidence_radius(3, answer.alpha)
    solve = np.linalg.inv(covariance)
    for axis, (view, drawn) in seen.items():
        for t in np.linspace(0, 2 * np.pi, 9):
            along, across = drawn["a"] * np.cos(t), drawn["b"] * np.sin(t)
            x = drawn["x"] + along * np.cos(drawn["angle"]) - across * np.sin(drawn["angle"])
            y = drawn["y"] + along * np.sin(drawn["angle"]) + across * np.cos(drawn["angle"])
            world = screen_to_world(grid, view, axis, x, y, at[axis])
            away = world - np.asarray(answer.point)
            level = np.sqrt(away @ solve @ away) / gamma
            # How far the rim is off along the ray from the centre.
            assert abs(level - 1) * np.linalg.norm(away) < 0.01 * grid.spacing.min(), (axis, t, level)


def sections_now(sheet: Sheet) -> dict[int, Any]:
    views = sheet.state()["views"]["moving"]
    return {axis: (views[str(axis)], last_drawn(sheet, axis)) for axis in (0, 1, 2)}


def test_an_oriented_ellipsoid_is_edited_in_three_planes_and_stored_as_drawn(
    browser: Any, server: Served, me: str
) -> None:
    """Drawn in one plane, turned and stretched in the others: oblique volumes, anisotropic voxels, three zooms."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    for zoom in (0, 3, -2):
        for _ in range(abs(zoom)):
            page.keyboard.press("+" if zoom > 0 else "-")
        box = sheet.box("moving", 2)
        middle = (box["width"] / 2, box["height"] / 2)
        sheet.drag("moving", middle, (middle[0] + 31, middle[1] - 22))
        before = np.array(sheet.state()["mark"]["shape"])
        for axis, turn in ((1, (19.0, 33.0)), (0, (-27.0, 24.0))):
            drawn = last_drawn(sheet, axis)
            # The handle of a small axis stands off by 22 pixels.
            arm = max(drawn["a"], 22.0)
            end = (drawn["x"] + arm * np.cos(drawn["angle"]), drawn["y"] + arm * np.sin(drawn["angle"]))
            assert 0 < end[0] < sheet.box("moving", axis)["width"]
            sheet.drag("moving", end, (drawn["x"] + turn[0], drawn["y"] + turn[1]), axis)
            after = np.array(sheet.state()["mark"]["shape"])
            assert not np.allclose(after, before)
            assert np.linalg.eigvalsh(after).min() > 0
            before = after
        page.mouse.move(box["x"] + middle[0] + 2, box["y"] + middle[1] + 2)
        for key in ("}", ")", ")"):
            page.keyboard.press(key)
        seen, at = sections_now(sheet), slices(sheet)
        query = sheet.state()["query"]["query"]
        number = sheet.state()["query"]["number"]
        sheet.accept()
        found = stored(server.folder, query, me)
        check_sections(found, seen, at)
        # Really oriented: no axis of the ellipsoid is one of the image's.
        direction = np.asarray(found[1].direction)
        local = direction.T @ found[0].covariance_world @ direction
        assert np.abs(local[np.triu_indices(3, 1)]).min() > 1e-3
        page.keyboard.press("Backspace")
        sheet.wait_for_query(number)
        check_sections(found, sections_now(sheet), slices(sheet))
        page.keyboard.press("q")
        sheet.wait_for_query(number + 1)
    assert sheet.problems == []
    sheet.close()


def test_small_marks_are_scaled_at_the_rim_in_every_plane_and_a_move_is_told(
    browser: Any, server: Served, me: str
) -> None:
    """A ball of a few screen pixels: its rim scales and never moves it; at its centre the way is told before Accept."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    for axis in (2, 1, 0):
        page.keyboard.press("Escape")
        box = sheet.box("moving", axis)
        x, y = box["width"] / 2, box["height"] / 2
        sheet.press_at("moving", x, y, axis)
        sheet.settle()
        while last_drawn(sheet, axis)["a"] > 6:
            page.keyboard.press("[")
        before, drawn = sheet.state()["mark"], last_drawn(sheet, axis)
        sheet.drag("moving", (drawn["x"] + drawn["a"], drawn["y"]), (drawn["x"] + 34, drawn["y"]), axis)
        after = sheet.state()["mark"]
        np.testing.assert_allclose(after["point"], before["point"], atol=1e-9)
        assert np.linalg.det(after["shape"]) > 4 * np.linalg.det(before["shape"])
        drawn, scale = last_drawn(sheet, axis), sheet.state()["views"]["moving"][str(axis)]["scale"]
        sheet.drag("moving", (drawn["x"], drawn["y"]), (drawn["x"] + 12, drawn["y"] - 16), axis)
        way = np.linalg.norm(np.subtract(sheet.state()["mark"]["point"], before["point"]))
        assert way == pytest.approx(20 / scale, rel=1e-6)
        said = f"{float(f'{way:.2g}'):g} mm"
        says(page.locator("#message"), f"The mark is moved by {said}.")
        assert f"moved {said}" in written_now(sheet)
    sheet.close()


def test_a_click_is_stored_in_the_voxel_under_the_pointer_in_every_plane(browser: Any, server: Served, me: str) -> None:
    """The world point of a click agrees with the grid of the volume, whichever plane is clicked."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    for number, axis in ((1, 2), (2, 1), (3, 0)):
        sheet.wait_for_query(number)
        box = sheet.box("moving", axis)
        x, y = round(box["width"] * 0.4) + 0.0, round(box["height"] * 0.55) + 0.0
        view, at = sheet.state()["views"]["moving"][str(axis)], slices(sheet)[axis]
        box_left, box_top = box["x"], box["y"]
        page.mouse.click(box_left + x, box_top + y)
        sheet.accept()
        answer, grid = stored(server.folder, number - 1, me)
        expected = screen_to_world(grid, view, axis, x, y, at)
        np.testing.assert_allclose(answer.point, expected, atol=0.01 * grid.spacing.min())
        index = grid.world_to_index(np.asarray(answer.point))
        assert abs(index[axis] - at) < 1e-6
    sheet.close()


def buttons_of_a_reading_room(sheet: Sheet) -> None:
    """The middle button sets the window, Shift and the right one turn slices, Shift and a move take all along."""
    page, before = sheet.page, slices(sheet)
    window = sheet.state()["colours"]["moving"]["windows"][0]
    sheet.drag("moving", (60, 300), (110, 300), button="middle")
    wider = sheet.state()["colours"]["moving"]["windows"][0]
    assert wider["high"] - wider["low"] > 1.2 * (window["high"] - window["low"])
    assert slices(sheet) == before
    view = sheet.state()["views"]["moving"]["2"]
    page.keyboard.down("Shift")
    sheet.drag("moving", (60, 300), (60, 300 - 3 * 8), button="right")
    assert slices(sheet)[2] == before[2] - 3
    assert sheet.state()["views"]["moving"]["2"] == view, "nothing was panned"
    box = sheet.box("moving", 2)
    page.mouse.move(box["x"] + 150, box["y"] + 220)
    page.mouse.move(box["x"] + 160, box["y"] + 230)
    page.keyboard.up("Shift")
    now = slices(sheet)
    assert now[2] == before[2] - 3
    assert (now[0], now[1]) != (before[0], before[1])
    page.mouse.move(box["x"] + 60, box["y"] + 300)
    assert slices(sheet) == now, "without Shift they stay"
    assert sheet.state()["mark"] is None


def test_slices_by_wheel_and_keys_one_plane_alone(browser: Any, server: Served, me: str) -> None:
    """The wheel and the keys turn slices, Shift+wheel zooms, 1 2 3 show one plane and 0 all of them."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    box = sheet.box("moving", 2)
    page.mouse.move(box["x"] + 60, box["y"] + 300)
    start = slices(sheet)[2]
    sheet.wheel(100)
    assert slices(sheet)[2] == start + 1
    page.keyboard.press(",")
    page.keyboard.press(",")
    assert slices(sheet)[2] == start - 1
    scale = sheet.state()["views"]["moving"]["2"]["scale"]
    page.keyboard.down("Shift")
    sheet.wheel(-100)
    page.keyboard.up("Shift")
    assert sheet.state()["views"]["moving"]["2"]["scale"] > scale
    assert slices(sheet)[2] == start - 1
    buttons_of_a_reading_room(sheet)
    for key, axis in (("1", 2), ("2", 1), ("3", 0)):
        page.keyboard.press(key)
        shown = page.locator("#moving canvas:visible")
        assert shown.count() == 1
        assert shown.get_attribute("data-axis") == str(axis)
    page.keyboard.press("0")
    assert page.locator("#moving canvas:visible").count() == 3
    assert sheet.problems == []
    sheet.close()


def test_the_third_pane_shows_the_plane_that_is_looked_at(browser: Any, server: Served) -> None:
    """Beside both images the axial plane or the one shown alone; over them all three, each with its warped picture."""
    sheet = open_sheet(browser, server)
    page = sheet.page
    warped = page.locator("#warped canvas:visible")
    page.keyboard.press("v")
    for key, axis in (("1", "2"), ("2", "1"), ("3", "0")):
        page.keyboard.press(key)
        page.wait_for_function(
            "axis => Number(document.querySelector(`#warped canvas[data-axis='${axis}']`).dataset.warped) > 0", arg=axis
        )
        assert [one.get_attribute("data-axis") for one in warped.all()] == [axis]
    page.keyboard.press("v")
    page.keyboard.press("0")
    assert warped.count() == 3
    sheet.settle()
    box = warped.first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("() => document.querySelector('#warped .readout').textContent.includes('mm')")
    assert sheet.problems == []
    sheet.close()


def test_the_sliders_of_a_volume_span_the_values_that_it_has(browser: Any, server: Served, me: str) -> None:
    """Half the way of a slider is half of what occurs, not half of 16 bits; the numbers are those of the image."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    page.locator("button[data-contrast=moving]").click()
    bright = page.locator(".popover input[data-end=bright]")
    low, high = (float(bright.get_attribute(end)) for end in ("min", "max"))
    info = sheet.state()["project"]["images"]["moving"]
    window = info["window"]
    assert high - low < 4 * (window[1] - window[0])
    bright.evaluate("e => { e.value = (Number(e.min) + Number(e.max)) / 2; e.dispatchEvent(new Event('input')); }")
    sheet.settle()
    shown = sheet.state()["colours"]["moving"]["windows"][0]["high"]
    assert shown == pytest.approx((low + high) / 2)
    told = float(page.locator(".popover output").nth(1).text_content())
    assert told == pytest.approx(shown * info["scale"] + info["offset"], rel=0.01)
    sheet.close()
