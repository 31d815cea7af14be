"""A complete 3D session in a real browser: an oriented ellipsoid edited through its sections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from warpgauge.core.annotations import confidence_radius
from warpgauge.geometry import Grid
from warpgauge.project import Placement, Project
from web.page_tools import Shared, Sheet, last_drawn, make_volume_project, open_sheet
from web.server_tools import Served, served

# Index axes right and down, and which world axis (LPS) shall run right or down with which sign: the radiological habit.
LAYOUT = {2: ((0, 0, 1), (1, 1, 1)), 1: ((0, 0, 1), (2, 2, -1)), 0: ((1, 1, 1), (2, 2, -1))}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    names = [f"rater{k}" for k in range(6)]
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
            away = world - np.asarray(answer.moving)
            level = np.sqrt(away @ solve @ away) / gamma
            # How far the rim is off along the ray from the centre.
            assert abs(level - 1) * np.linalg.norm(away) < 0.01 * grid.spacing.min(), (axis, t, level)


def sections_now(sheet: Sheet) -> dict[int, Any]:
    views = sheet.state()["views"]["moving"]
    return {axis: (views[str(axis)], last_drawn(sheet, axis)) for axis in (0, 1, 2)}


def test_an_oriented_ellipsoid_is_edited_in_three_planes_and_stored_as_drawn(
    browser: Any, server: Served, me: str
) -> None:
    """A ball, stretched and turned in each plane: oblique volumes, anisotropic voxels, three zooms."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    page.keyboard.press("]")
    for zoom in (0, 3, -2):
        for _ in range(abs(zoom)):
            page.keyboard.press("+" if zoom > 0 else "-")
        box = sheet.box("moving", 2)
        middle = (box["width"] / 2, box["height"] / 2)
        sheet.press_at("moving", *middle)
        before = np.array(sheet.state()["mark"]["shape"])
        np.testing.assert_allclose(before, np.eye(3) * before[0, 0], atol=1e-9)
        for axis, turn in ((2, (31.0, -22.0)), (1, (19.0, 33.0)), (0, (-27.0, 24.0))):
            drawn = last_drawn(sheet, axis)
            # The handle of a small axis stands off by 22 pixels.
            arm = max(drawn["a"], 22.0)
            end = (drawn["x"] + arm * np.cos(drawn["angle"]), drawn["y"] + arm * np.sin(drawn["angle"]))
            sheet.drag("moving", end, (drawn["x"] + turn[0], drawn["y"] + turn[1]), axis)
            after = np.array(sheet.state()["mark"]["shape"])
            assert not np.allclose(after, before)
            assert np.linalg.eigvalsh(after).min() > 0
            before = after
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


def test_a_click_is_stored_in_the_voxel_under_the_pointer_in_every_plane(browser: Any, server: Served, me: str) -> None:
    """The world point of a click agrees with the grid of the volume, whichever plane is clicked."""
    sheet = open_sheet(browser, server, me)
    for number, axis in ((1, 2), (2, 1), (3, 0)):
        sheet.wait_for_query(number)
        box = sheet.box("moving", axis)
        x, y = round(box["width"] * 0.4) + 0.0, round(box["height"] * 0.55) + 0.0
        view, at = sheet.state()["views"]["moving"][str(axis)], slices(sheet)[axis]
        sheet.press_at("moving", x, y, axis)
        sheet.accept()
        answer, grid = stored(server.folder, number - 1, me)
        expected = screen_to_world(grid, view, axis, x, y, at)
        np.testing.assert_allclose(answer.moving, expected, atol=0.01 * grid.spacing.min())
        index = grid.world_to_index(np.asarray(answer.moving))
        assert abs(index[axis] - at) < 1e-6
    sheet.close()


def test_slices_planes_windows_and_reasons_by_hand_and_keys(browser: Any, server: Served, me: str) -> None:
    """Wheel and keys turn slices, Shift+wheel zooms all planes, a right drag sets the window; 1 to 5 as it is asked."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    box = sheet.box("moving", 2)
    page.mouse.move(box["x"] + 60, box["y"] + 300)
    start, first = slices(sheet)[2], sheet.state()["cross"]["fixed"]
    sheet.wheel(100)
    assert slices(sheet)[2] == start + 1
    assert sheet.state()["cross"]["fixed"] == first, "searching in the second image never moves the first"
    page.keyboard.press(",")
    page.keyboard.press(",")
    assert slices(sheet)[2] == start - 1
    scale = sheet.state()["scale"]
    page.keyboard.down("Shift")
    sheet.wheel(-100)
    page.keyboard.up("Shift")
    views = sheet.state()["views"]
    scales = [view["scale"] for side in ("fixed", "moving") for view in views[side].values()]
    assert min(scales) == max(scales) > scale, "all planes of both images"
    assert slices(sheet)[2] == start - 1
    window = sheet.state()["colours"]["moving"]["windows"][0]
    for button in ("right", "middle"):
        sheet.drag("moving", (60, 300), (110, 300), button=button)
        wider = sheet.state()["colours"]["moving"]["windows"][0]
        assert wider["high"] - wider["low"] > 1.2 * (window["high"] - window["low"])
        window = wider
    # The first image leads: slices turned there turn the second one's along.
    box = sheet.box("fixed", 2)
    page.mouse.move(box["x"] + 60, box["y"] + 300)
    at = slices(sheet)[2]
    sheet.wheel(100)
    assert abs(slices(sheet)[2] - at - 1) <= 1
    assert slices(sheet)[2] != at
    assert sheet.state()["mark"] is None
    for key, axis in (("1", 2), ("2", 1), ("3", 0)):
        page.keyboard.press(key)
        shown = page.locator("#moving canvas:visible")
        assert shown.count() == 1
        assert shown.get_attribute("data-axis") == str(axis)
    page.keyboard.press("0")
    assert page.locator("#moving canvas:visible").count() == 3
    # While the reasons are asked for, digits are reasons, and Escape and Cancel go back.
    for leave in ("Escape", "cancel"):
        page.keyboard.press("s")
        page.locator("#reasons").wait_for()
        page.locator("[data-choice=cancel]").click() if leave == "cancel" else page.keyboard.press(leave)
        page.locator("#reasons").wait_for(state="detached")
    page.keyboard.press("s")
    page.keyboard.press("2")
    sheet.wait_for_query(2)
    with Project.open(server.folder) as project:
        assert project.state.answer(me, 0).reason == "ambiguous"
    assert sheet.state()["maximised"] is None
    assert sheet.problems == []
    sheet.close()


def test_a_place_chosen_in_any_plane_takes_both_images_there(browser: Any, server: Served, me: str) -> None:
    """A click in the first image: its planes meet there, those of the second go along; stored with its match."""
    sheet = open_sheet(browser, server, me)
    box = sheet.box("fixed", 1)
    before = sheet.state()["cross"]["moving"]
    sheet.press_at("fixed", box["width"] / 2 + 30, box["height"] / 2 - 12, 1)
    sheet.settle()
    state = sheet.state()
    assert state["cross"]["fixed"] == state["own"]
    assert np.linalg.norm(np.subtract(state["cross"]["moving"], before)) > 1
    box = sheet.box("moving", 1)
    sheet.press_at("moving", box["width"] / 2 + 30, box["height"] / 2 - 12, 1)
    sheet.page.keyboard.press("Enter")
    sheet.page.wait_for_function("() => globalThis.warpgauge.store.state.own === null")
    with Project.open(server.folder) as project:
        ((_, cell),) = [(key, cell) for key, cell in project.state.cells.items() if key[0] == me]
        assert cell.placement is not None
    assert sheet.problems == []
    sheet.close()


def test_a_volume_is_shown_by_what_lies_within_the_body_and_not_by_the_air_around_it(server: Served, me: str) -> None:
    """The window begins above the noise of the air, and nothing of the body is clipped but its last half percent."""
    images = server.client(me).get("/api/project").json()["images"]
    for side in ("fixed", "moving"):
        samples = np.asarray(nib.load(server.folder.parent / f"{side}.nii.gz").dataobj)
        low, high = (end * images[side]["scale"] + images[side]["offset"] for end in images[side]["window"])
        body = samples[samples > 150]
        assert 40 < low < np.percentile(body, 25)
        assert np.percentile(body, 98) < high


def test_the_sliders_of_a_volume_span_the_values_that_it_has(browser: Any, server: Served, me: str) -> None:
    """Half the way of a slider is half of what occurs, not half of 16 bits; the numbers are those of the image."""
    sheet = open_sheet(browser, server, me)
    page = sheet.page
    page.locator("[data-command=view]").click()
    bright = page.locator("[data-look=moving] input[data-end=bright]")
    low, high = (float(bright.get_attribute(end)) for end in ("min", "max"))
    info = sheet.state()["project"]["images"]["moving"]
    assert high - low < 4 * (info["window"][1] - info["window"][0])
    bright.evaluate("e => { e.value = (Number(e.min) + Number(e.max)) / 2; e.dispatchEvent(new Event('input')); }")
    sheet.settle()
    shown = sheet.state()["colours"]["moving"]["windows"][0]["high"]
    assert shown == pytest.approx((low + high) / 2)
    told = float(page.locator("[data-look=moving] output").nth(1).text_content())
    assert told == pytest.approx(shown * info["scale"] + info["offset"], rel=0.01)
    sheet.close()
