"""Large tiled images in a real browser: only what is visible is asked for, finer when one zooms in, nothing stale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import tifffile

from warpgauge.project import Project
from web.page_tools import Sheet, open_sheet, wait_in_page
from web.server_tools import Served, lattice, served

SIZE = 4096
TILE = 256


def write_pyramid(path: Path) -> None:
    """A tiled TIFF with its pyramid, whose pixels say where they are: squares of 16 with a brightness of their own."""
    rows, columns = np.indices((SIZE, SIZE)) // 16
    full = ((rows * 7 + columns * 13) % 200 + 30).astype(np.uint8)
    with tifffile.TiffWriter(path) as file:
        for level in range(5):
            part = full[:: 2**level, :: 2**level]
            options: dict[str, Any] = {"subifds": 4} if level == 0 else {"subfiletype": 1}
            file.write(part, tile=(TILE, TILE), photometric="minisblack", compression="zlib", metadata=None, **options)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("large")
    write_pyramid(folder / "large.tif")
    points = lattice((300, 300), (SIZE - 300, SIZE - 300), (9, 8))
    Project.create(folder / "p", fixed=folder / "large.tif", moving=folder / "large.tif", candidates=points,
                   targets=points,
                   settings={"guided_start": False}).close()  # fmt: skip
    with served(folder / "p", "ada,ben") as running:
        yield running


def tiles_asked(sheet: Sheet, side: str, since: int) -> list[dict[str, int]]:
    """Return the tiles of an image that the browser asked for."""
    found = []
    for url in sheet.requests[since:]:
        parts = urlsplit(url)
        if parts.path.endswith(f"/api/images/{side}/tile"):
            found.append({name: int(value[0]) for name, value in parse_qs(parts.query).items() if name != "v"})
    return found


def touching(view: dict[str, Any], tile: dict[str, int]) -> bool:
    """Whether a tile overlaps what a view shows, from the definition of a pyramid with pixel centres at integers."""
    step = 2 ** tile["level"]
    for k, name in ((0, "column"), (1, "row")):
        low = tile[name] * TILE * step - 0.5
        half = view[("width", "height")[k]] / 2 / view["scale"]
        if low > view["centre"][k] + half + step or low + TILE * step < view["centre"][k] - half - step:
            return False
    return True


def view_of(sheet: Sheet, side: str) -> dict[str, Any]:
    return sheet.state()["views"][side]["2"]


def test_only_visible_tiles_are_asked_for_and_zooming_in_asks_for_finer_ones(browser: Any, server: Served) -> None:
    """At each zoom all tiles asked for are in sight, no more than cover the view, finer and finer down to level 0."""
    sheet = open_sheet(browser, server, "ada")
    page = sheet.page
    page.keyboard.press("0")
    box = sheet.box("fixed")
    page.mouse.move(box["x"] + 300, box["y"] + 250)
    page.keyboard.press("0")
    sheet.settle()
    finest = []
    for _ in range(4):
        since, start = len(sheet.requests), view_of(sheet, "fixed")
        sheet.wheel(-100, -100, -100)
        sheet.settle()
        view = view_of(sheet, "fixed")
        asked = tiles_asked(sheet, "fixed", since)
        level = min(tile["level"] for tile in asked) if asked else finest[-1]
        finest.append(level)
        assert TILE * 2**level * view["scale"] > 0.5 * TILE, "no finer than the screen can show"
        final = [tile for tile in asked if tile["level"] == level]
        across = int(view["width"] / (TILE * 2**level * view["scale"])) + 2
        down = int(view["height"] / (TILE * 2**level * view["scale"])) + 2
        assert len(final) <= 2.6 * across * down, "those of the last zoom and of one before"
        assert all(touching(start, tile) for tile in asked), (
            "zooming in, nothing beyond the first view comes into sight"
        )
        assert not asked or any(touching(view, tile) for tile in final)
    assert finest == sorted(finest, reverse=True)
    assert finest[-1] == 0
    assert finest[0] >= 1
    every = [tuple(sorted(tile.items())) for tile in tiles_asked(sheet, "fixed", 0)]
    assert len(every) < 0.35 * (SIZE // TILE) ** 2, "far from the whole image"
    sheet.close()


def test_panning_asks_for_what_comes_into_view_and_nothing_twice(browser: Any, server: Served) -> None:
    """A pan by half a view at full resolution asks for new tiles only, all of them in sight on the way."""
    sheet = open_sheet(browser, server, "ben")
    page = sheet.page
    page.evaluate(
        """() => { const { store } = globalThis.warpgauge;
        store.set({ scale: 1, centres: { ...store.state.centres, fixed: { 2: [1500, 1500] } } }); }"""
    )
    sheet.settle()
    before, since = view_of(sheet, "fixed"), len(sheet.requests)
    known = {tuple(sorted(tile.items())) for tile in tiles_asked(sheet, "fixed", 0)}
    sheet.drag("fixed", (450, 300), (150, 260))
    sheet.settle()
    after = view_of(sheet, "fixed")
    np.testing.assert_allclose([after["centre"][k] - before["centre"][k] for k in (0, 1)], [300, 40], atol=1e-6)
    asked = tiles_asked(sheet, "fixed", since)
    assert asked
    assert all(tile["level"] == 0 or not touching(before, tile) for tile in asked)
    way = [{**before, "centre": [1500 + part * 300, 1500 + part * 40]} for part in (0, 0.3, 0.7, 1)]
    assert all(any(touching(view, tile) for view in way) for tile in asked)
    assert not known & {tuple(sorted(tile.items())) for tile in asked}
    assert len({tuple(sorted(tile.items())) for tile in asked}) == len(asked)
    # The picture is that of the new place: the brightness of the square in the middle of the view.
    shown = page.evaluate(
        """() => { const canvas = document.querySelector('#fixed canvas');
        return [...canvas.getContext('2d').getImageData(70, 60, 1, 1).data].slice(0, 1); }"""
    )[0]
    index = [round((at - after[size] / 2) / after["scale"] + after["centre"][k])
             for k, (at, size) in enumerate(((70.5, "width"), (60.5, "height")))]  # fmt: skip
    value = (index[1] // 16 * 7 + index[0] // 16 * 13) % 200 + 30
    low, high = sheet.state()["project"]["images"]["fixed"]["window"]
    expected = np.clip((value - low) / (high - low) * 255, 0, 255)
    assert abs(shown - expected) <= 2
    sheet.close()


def test_tiles_that_nobody_wants_any_more_are_given_up_and_never_drawn(browser: Any, server: Served) -> None:
    """While the server is slow the view goes elsewhere: requests for the former place end, and it is not drawn."""
    sheet = open_sheet(browser, server)
    page = sheet.page
    held: list[Any] = []

    def slow(route: Any) -> None:
        query = {name: value[0] for name, value in parse_qs(urlsplit(route.request.url).query).items()}
        if query.get("level") == "0" and int(query["row"]) >= 8:
            held.append(route)  # never answered: the former place
        else:
            route.continue_()

    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.route("**/api/images/fixed/tile*", slow)
    jump = """centre => { const { store } = globalThis.warpgauge;
        store.set({ scale: 1.5, centres: { ...store.state.centres, fixed: { 2: centre } } }); }"""
    page.evaluate(jump, [2900, 3100])
    wait_in_page(page, lambda: len(held) >= 4)
    page.evaluate(jump, [700, 900])
    sheet.settle()
    wait_in_page(page, lambda: len(failed) >= 4)
    assert all(int(parse_qs(urlsplit(url).query)["row"][0]) >= 8 for url in failed)
    kept = page.evaluate("() => [...globalThis.warpgauge.stage.sources.fixed.tiles.keys()]")
    assert not [key for key in kept if key.split("/")[2] == "0" and int(key.split("/")[3]) >= 8]
    page.unroute("**/api/images/fixed/tile*")
    # Asked for again when one comes back.
    page.evaluate(jump, [2900, 3100])
    sheet.settle()
    sheet.close()


def test_the_picture_comes_before_the_question(browser: Any, server: Served) -> None:
    """While the first question is still computed, both images are there already, whole; it is asked for after that."""
    desk = server.launch.site.projects.latest()
    sheet = Sheet(browser, server.links["ben"])
    sheet.wait_for_query(1)
    sheet.requests.clear()
    with desk.lock:  # as the model does while it works
        sheet.page.reload()
        sheet.page.wait_for_function(
            "() => ['fixed', 'moving'].every("
            "side => document.querySelector(`#${side} canvas`)?.dataset.complete === 'true')"
        )
        state = sheet.state()
        assert state["query"] is None
        # Pixels of the images, not the surround: the squares of `write_pyramid` have many brightnesses.
        for side in ("fixed", "moving"):
            shown = sheet.page.evaluate(
                "side => { const canvas = document.querySelector(`#${side} canvas`);"
                " const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
                " return new Set(data.filter((_, i) => i % 4 === 0)).size; }",
                side,
            )
            assert shown > 50
        paths = [url.partition("/pair/p")[2].partition("?")[0] for url in sheet.requests]
        first_tiles = max(paths.index(f"/api/images/{side}/tile") for side in ("fixed", "moving"))
        wait_in_page(sheet.page, lambda: any(url.endswith("/api/query") for url in sheet.requests))
        asked = [url.partition("/pair/p")[2].partition("?")[0] for url in sheet.requests]
        assert asked.index("/api/query") > first_tiles
        assert not {"/api/list", "/api/progress"} & set(asked)
    sheet.wait_for_query(1)
    assert not sheet.problems
    sheet.close()
