"""More than three channels: which are shown, and in which colours, from the file to the picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from command_tools import call
from web.page_tools import Sheet, open_sheet
from web.server_tools import Served, served

NAMES = ["DAPI", "CD3", "CD8", "CD20", "panCK"]
# Each channel is bright in a square of its own, a hundred pixels wide, on noise; 1000 + 500 k is the brightest.
CORNERS = [(40, 40), (180, 40), (320, 40), (40, 180), (180, 180)]


def write_five(path: Path, shift: int) -> None:
    rng = np.random.default_rng(3)
    planes = rng.integers(100, 140, (5, 320, 460)).astype(np.uint16)
    for k, (x, y) in enumerate(CORNERS):
        planes[k, y + shift : y + shift + 100, x : x + 100] += 900 + 500 * k
    told = {
        "axes": "CYX", "Channel": {"Name": NAMES}, "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm",
        "PhysicalSizeY": 0.5, "PhysicalSizeYUnit": "µm",
    }  # fmt: skip
    tifffile.imwrite(path, planes, photometric="minisblack", metadata=told)


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server of a project of two images of five channels, made as a user makes it."""
    place = tmp_path_factory.mktemp("five")
    for name, shift in (("fixed", 0), ("moving", 8)):
        write_five(place / f"{name}.ome.tif", shift)
    images = ["--fixed", place / "fixed.ome.tif", "--moving", place / "moving.ome.tif"]
    said = call("new", place / "p", *images, "--set", "guided-start=false")
    assert "5 (DAPI, CD3, CD8, CD20, panCK); grey is their mean" in said
    with served(place / "p", "ada") as server:
        yield server


def colour_at(sheet: Sheet, side: str, k: int) -> list[int]:
    """The colour that the canvas has in the middle of the square of a channel."""
    sheet.settle()
    view = sheet.state()["views"][side]["2"]
    x, y = CORNERS[k]
    at = [(0.5 * (c + 50) - view["centre"][i]) * view["scale"] for i, c in enumerate((x, y))]
    return sheet.page.evaluate(
        "([side, x, y]) => { const c = document.querySelector(`#${side} canvas[data-axis='2']`);"
        " return [...c.getContext('2d').getImageData(c.width / 2 + x, c.height / 2 + y, 1, 1).data.slice(0, 3)]; }",
        [side, *at],
    )


def test_channels_are_chosen_as_colours_by_image_and_remembered(browser: Any, five: Served) -> None:
    """The first three at first; another one in another colour, by keys; the other image stays; a reload keeps it."""
    sheet = open_sheet(browser, five, "ada")
    page = sheet.page
    page.keyboard.press("0")
    seen = [np.argmax(colour_at(sheet, "fixed", k)) for k in range(3)]
    assert seen == [2, 1, 0], "blue, green, red"
    assert max(colour_at(sheet, "fixed", 3)) < 60, "CD20 is not shown"
    page.locator("[data-command=view]").click()
    look = page.locator("[data-look=fixed]")
    look.get_by_label("Show CD3", exact=True).focus()
    page.keyboard.press("Space")
    look.get_by_label("Show CD20").focus()
    page.keyboard.press("Space")
    look.get_by_label("Colour of CD20").select_option("yellow")
    red, green, blue = colour_at(sheet, "fixed", 3)
    assert min(red, green) > 150
    assert blue < 60
    assert max(colour_at(sheet, "fixed", 1)) < 60, "CD3 is hidden now"
    assert np.argmax(colour_at(sheet, "moving", 1)) == 1, "in the other image it is not"
    assert any("channels=0%2C2%2C3" in url and "/fixed/" in url for url in sheet.requests)
    # Sliders change the channel that was taken last.
    dark = "e => { e.value = e.max; e.dispatchEvent(new Event('input')); }"
    look.locator("[data-end=dark]").evaluate(dark)
    assert max(colour_at(sheet, "fixed", 3)) < 60
    assert np.argmax(colour_at(sheet, "fixed", 0)) == 2
    look.locator("[data-act=reset]").click()
    look.get_by_label("Show CD3", exact=True).uncheck()
    look.get_by_label("Show CD20").check()
    page.reload()
    sheet.wait_for_query()
    page.keyboard.press("0")
    assert max(colour_at(sheet, "fixed", 1)) < 60
    assert np.argmax(colour_at(sheet, "fixed", 3)) == 1
    assert sheet.problems == []
    sheet.close()


def test_channels_of_a_tile_are_those_asked_for_and_nonsense_is_refused(five: Served) -> None:
    """Bytes: 3,0 gives the samples of these, in this order; the warped picture likewise; 5, -1 and 7 at once do not."""
    written = tifffile.imread(five.folder.parent / "fixed.ome.tif")
    client = five.client("ada")
    answer = client.get("/api/images/fixed/tile", params={"channels": "3,0"})
    assert answer.headers["X-Channels"] == "2"
    samples = np.frombuffer(answer.content, "<u2").reshape(256, 256, 2)
    np.testing.assert_array_equal(samples, np.moveaxis(written[[3, 0], :256, :256], 0, -1))
    other = client.get("/api/images/fixed/tile", params={"channels": "0,3"})
    assert other.headers["ETag"] != answer.headers["ETag"]
    warped = client.get("/api/warped", params={"channels": "4", "part": "0,0,64,64"})
    assert (warped.status_code, warped.headers["X-Channels"]) == (200, "1")
    for wrong in ("5", "-1", "0,1,2,3,4,0,1", ",", "one"):
        assert client.get("/api/images/fixed/tile", params={"channels": wrong}).status_code in (400, 422), wrong
