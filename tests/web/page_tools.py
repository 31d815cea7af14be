"""A real browser for the tests of the page, and images that show something."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from warpgauge.project import Project
from web.server_tools import Served, lattice

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Whether nothing is under way any more: no answer is waited for, all is drawn, and every visible plane has its tiles.
# It must hold in several frames on end, since one thing leads to the next.
SETTLED = """() => {
  const { stage, store, opened } = globalThis.warpgauge ?? {};
  const calm = opened && store.state.writing === "idle" && stage.api.underway === 0 && !stage.scheduled
    && Object.values(stage.sources).every((source) => source.loading.size === 0)
    && [...document.querySelectorAll(".planes canvas")].every(
      (canvas) => canvas.offsetParent === null || canvas.dataset.complete === "true");
  globalThis.calm = calm ? (globalThis.calm ?? 0) + 1 : 0;
  return globalThis.calm > 3;
}"""
# The state, and by side and axis what a plane shows: its middle, its scale, its size, how it is turned.
STATE = """() => {
  const { stage, store } = globalThis.warpgauge;
  const views = { fixed: {}, moving: {} };
  for (const pane of stage.panes) views[pane.side][pane.axis] = pane.view;
  return JSON.parse(JSON.stringify({ ...store.state, views }));
}"""
# On a machine ten times slower than ours.
PATIENCE = 120_000  # milliseconds

# Counts what the hand did as it arrives in the page, which may be later than it was sent.
COUNTS = """
globalThis.arrived = { wheel: 0, pointerdown: 0, pointerup: 0 };
for (const kind of Object.keys(globalThis.arrived)) {
  addEventListener(kind, () => setTimeout(() => (globalThis.arrived[kind] += 1)), { capture: true, passive: true });
}
"""

# Keeps what the page drew last as one's own ellipse and as the prediction's, and the words that it wrote into its
# pictures: the canvas itself is asked, not the page's state.
SPY = """
globalThis.drawn = [];
globalThis.expected = null; // the region of the prediction, likewise
const ellipse = CanvasRenderingContext2D.prototype.ellipse;
CanvasRenderingContext2D.prototype.ellipse = function (x, y, a, b, angle, ...rest) {
  this.lastEllipse = { x, y, a, b, angle, axis: Number(this.canvas.dataset.axis) };
  return ellipse.call(this, x, y, a, b, angle, ...rest);
};
const stroke = CanvasRenderingContext2D.prototype.stroke;
CanvasRenderingContext2D.prototype.stroke = function (...rest) {
  if (this.lastEllipse && this.strokeStyle === "#f0e442" && this.getLineDash().length === 0) {
    globalThis.drawn.push(this.lastEllipse);
    globalThis.drawn = globalThis.drawn.slice(-30);
  }
  if (this.lastEllipse && this.strokeStyle === "#56b4e9") globalThis.expected = this.lastEllipse;
  if (this.strokeStyle === "#f0e442") this.lastEllipse = null;
  return stroke.call(this, ...rest);
};
globalThis.written = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  globalThis.written.push(text);
  return fillText.call(this, text, ...rest);
};
"""


def find_browser() -> str:
    """Return the path of Chromium; without one, fail in CI and skip elsewhere."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        reason = "no Chromium is installed (Debian: apt-get install chromium); the page cannot be tested"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@contextmanager
def launched() -> Iterator[Any]:
    """Launch Chromium for the length of a with block."""
    path = find_browser()
    playwright = pytest.importorskip("playwright.sync_api") if not os.environ.get("CI") else _playwright()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def _playwright() -> Any:
    import playwright.sync_api

    return playwright.sync_api


class Sheet:
    """A page that a person has open, with what it said to the console and asked of the network."""

    def __init__(self, browser: Any, link: str, *, width: int = 1280, height: int = 720, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": height}, **options)
        self.context.add_init_script(COUNTS)
        self.context.set_default_timeout(PATIENCE)
        self._watch(self.context.new_page(), link)

    def _watch(self, page: Any, link: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(link)

    def second_tab(self, link: str) -> Sheet:
        """Open another tab of the same browser."""
        other = object.__new__(Sheet)
        other.context = self.context
        other._watch(self.context.new_page(), link)
        return other

    def wait_for_query(self, number: int | None = None) -> None:
        """Wait until a query is on the screen, a certain one where a number is given, and nothing is under way."""
        self.page.wait_for_function(
            "number => { const shown = document.getElementById('query-number')?.dataset.number;"
            " return Number(shown) > 0 && (number === null || shown === String(number)); }",
            arg=number,
        )
        self.settle()

    def settle(self) -> None:
        """Wait until nothing is under way: what is read then stays as it is until somebody does something."""
        self.page.evaluate("() => { globalThis.calm = 0; }")
        self.page.wait_for_function(SETTLED)

    def accept(self) -> None:
        """Press Enter and wait for another query; where the page asks whether it is a slip, keep it."""
        before = self.page.evaluate("() => document.getElementById('query-number')?.dataset.number")
        moved = "document.getElementById('query-number')?.dataset.number !== before"
        self.page.keyboard.press("Enter")
        self.page.wait_for_function(
            f"before => {moved} || document.querySelector('button[data-choice=keep]')?.offsetParent", arg=before
        )
        if self.page.locator("button[data-choice=keep]").count():
            self.page.locator("button[data-choice=keep]").click()
        self.page.wait_for_function(f"before => {moved}", arg=before)
        self.wait_for_query()

    def wheel(self, *notches: float) -> None:
        """Turn the wheel under the pointer, and wait until the page has it."""
        for delta in notches:
            before = self.page.evaluate("() => globalThis.arrived.wheel")
            self.page.mouse.wheel(0, delta)
            self.page.wait_for_function("before => globalThis.arrived.wheel > before", arg=before)

    def state(self) -> dict[str, Any]:
        """Return the state of the page and what each plane shows, which tests may read and never change."""
        return self.page.evaluate(STATE)

    def box(self, side: str, axis: int = 2) -> dict[str, float]:
        """Where the canvas of a plane is."""
        found = self.page.locator(f"#{side} canvas[data-axis='{axis}']").bounding_box()
        assert found is not None
        return found

    def press_at(self, side: str, x: float, y: float, axis: int = 2) -> None:
        """Click a position within a plane."""
        box = self.box(side, axis)
        self.page.mouse.click(box["x"] + x, box["y"] + y)

    def drag(self, side: str, start: tuple[float, float], end: tuple[float, float], axis: int = 2, **how: Any) -> None:
        """Drag from one position to another within a plane."""
        box = self.box(side, axis)
        self.page.mouse.move(box["x"] + start[0], box["y"] + start[1])
        self.page.mouse.down(**how)
        for part in (0.3, 0.7, 1.0):
            at = [start[k] + part * (end[k] - start[k]) for k in (0, 1)]
            self.page.mouse.move(box["x"] + at[0], box["y"] + at[1])
        self.page.mouse.up(**how)

    def close(self) -> None:
        """Close it; it must not have had any trouble."""
        self.context.close()


def open_sheet(browser: Any, server: Served, who: str = "launcher", *, script: str = "", **options: Any) -> Sheet:
    """Follow a person's link, with an eye on what the canvas is told to draw, and wait for the first query.

    A script runs in the page before its own.
    """
    sheet = Sheet(browser, "about:blank", **options)
    sheet.context.add_init_script(SPY + script)
    sheet.page.goto(server.links[who])
    # A question, or, for an organiser beside raters, the people.
    shown = "document.getElementById('query-number')?.dataset.number"
    sheet.page.wait_for_function(f"() => Number({shown}) > 0 || {shown} === 'organiser'")
    sheet.settle()
    return sheet


class Shared:
    """One server for several tests: each is another blind rater, for whom nothing has been answered yet."""

    def __init__(self, server: Served, names: list[str]) -> None:
        self.server, self._names = server, iter(names)

    def newcomer(self) -> str:
        """Return the name of a rater who has not done anything."""
        return next(self._names)


def wait_in_page(page: Any, condition: Callable[[], bool]) -> None:
    """Wait for something that events of the page tell, such as the requests that it made."""
    end = time.monotonic() + PATIENCE / 1000
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        page.wait_for_timeout(20)


def says(element: Any, text: str, *, whole: bool = False) -> None:
    """Wait until what a locator finds holds a text, or is it: the screen follows the state by a frame."""
    found = _playwright().expect(element)
    (found.to_have_text if whole else found.to_contain_text)(text, timeout=PATIENCE)


def ring_radius(sheet: Sheet, pixels: float = 4) -> float:
    """Radius in world units of a ring of so many screen pixels at this zoom: never below half an image pixel."""
    state = sheet.state()
    return max(
        pixels / state["views"]["moving"]["2"]["scale"], min(state["project"]["images"]["moving"]["spacing"]) / 2
    )


def on_screen(sheet: Sheet, side: str, point: Any) -> tuple[float, float]:
    """Where a world point is on the canvas of a 2D image, by the page's own view and turn."""
    view = sheet.state()["views"][side]["2"]
    turn = np.array(view.get("turn") or np.eye(2))
    at = turn @ (np.asarray(point) - view["centre"]) * view["scale"]
    return at[0] + view["width"] / 2, at[1] + view["height"] / 2


def last_drawn(sheet: Sheet, axis: int = 2) -> dict[str, Any]:
    """Return what the canvas of a plane was last told to draw as one's own ellipse, in its own pixels."""
    sheet.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return sheet.page.evaluate("axis => globalThis.drawn.filter(one => one.axis === axis).at(-1)", axis)


def written_now(sheet: Sheet) -> set[str]:
    """Draw everything again, and return what the page writes into its pictures then."""
    return set(
        sheet.page.evaluate(
            "() => { globalThis.written = []; globalThis.warpgauge.stage.drawSoon(); return new Promise(done =>"
            " requestAnimationFrame(() => requestAnimationFrame(() => done(globalThis.written)))); }"
        )
    )


def tissue(size: tuple[int, int], seed: int) -> np.ndarray:
    """Something like stained tissue, as red, green, blue: nuclei on a smooth ground with holes."""
    rng = np.random.default_rng(seed)
    shape = (size[1], size[0])
    ground = ndimage.gaussian_filter(rng.normal(size=shape), 24)
    ground = (ground - ground.min()) / np.ptp(ground)
    spots = np.zeros(shape)
    rows, columns = rng.integers(0, shape[0], 900), rng.integers(0, shape[1], 900)
    spots[rows, columns] = rng.uniform(0.5, 1, 900)
    nuclei = np.clip(ndimage.gaussian_filter(spots, 2.2) * 26, 0, 1)
    fibres = np.abs(np.sin(14 * ndimage.gaussian_filter(rng.normal(size=shape), 14) * 14)) ** 6
    hole = ndimage.gaussian_filter(rng.normal(size=shape), 30) > 0.017
    colour = np.array([238, 214, 226])[None, None] - ground[..., None] * np.array([22, 70, 38])
    colour = colour - fibres[..., None] * np.array([18, 52, 20]) - nuclei[..., None] * np.array([120, 130, 60])
    colour[hole] = (243, 242, 244)
    return np.clip(colour + rng.normal(0, 3, colour.shape), 0, 255).astype(np.uint8)


def bend(points: np.ndarray) -> np.ndarray:
    """The true map of the synthetic pair, fixed to moving, pixels."""
    x, y = points[..., 0], points[..., 1]
    return np.stack([x + 14 + 9 * np.sin(y / 90), y - 8 + 7 * np.cos(x / 110)], axis=-1)


def make_tissue_project(folder: Path, *, size: tuple[int, int] = (640, 520), **settings: Any) -> Path:
    """Make a 2D project whose images are related by a known map, in pixels of 0.5 um."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fixed = tissue(size, 3)
    rows, columns = np.indices(fixed.shape[:2])
    moving_index = np.stack([columns, rows], axis=-1).astype(float)
    guess = moving_index.copy()
    for _ in range(30):
        guess += moving_index - bend(guess)
    warped = [
        ndimage.map_coordinates(fixed[..., c].astype(float), [guess[..., 1], guess[..., 0]], order=1, mode="nearest")
        for c in range(3)
    ]
    # Another stain: the channels are mixed, so that the images do not look alike.
    mixed = np.stack([warped[1] * 0.55 + 100, warped[0] * 0.8 + 20, warped[2] * 0.45 + warped[1] * 0.5], axis=-1)
    Image.fromarray(fixed).save(folder.parent / "He.png")
    Image.fromarray(np.clip(mixed, 0, 255).astype(np.uint8)).save(folder.parent / "Ki67.png")
    points = lattice((40, 40), (size[0] - 60, size[1] - 50), (9, 8)) * 0.5
    Project.create(
        folder,
        fixed=folder.parent / "He.png",
        moving=folder.parent / "Ki67.png",
        candidates=points,
        targets=points,
        spacing=0.5,
        units="um",
        settings={"budget": 30, "guided_start": False, **settings},
    ).close()
    return folder


def oblique_affine(turn: float, spacing: tuple[float, float, float]) -> np.ndarray:
    """Index to world (RAS, as NIfTI has it) of a turned and anisotropic volume."""
    a, b = turn, -0.7 * turn
    about_z = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    about_x = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    affine = np.eye(4)
    affine[:3, :3] = about_z @ about_x * spacing
    affine[:3, 3] = [-30.0, -42.0, 11.0]
    return affine


def make_volume_project(folder: Path, **settings: Any) -> Path:
    """Make a 3D project of oblique volumes with voxels of 0.8 x 1.0 x 2.5 mm."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(4)
    for name, turn, shift in (("fixed", 0.3, 0.0), ("moving", 0.35, 1.5)):
        shape = (90, 80, 36)
        x, y, z = (np.asarray(axis, dtype=float) for axis in np.indices(shape))
        body = 500 * (((x - 45 - shift) / 36) ** 2 + ((y - 40) / 32) ** 2 + ((z - 18) / 15) ** 2 < 1)
        body += 350 * (((x - 38) / 9) ** 2 + ((y - 33 - shift) / 14) ** 2 + ((z - 16) / 6) ** 2 < 1)
        body += 250 * (np.hypot(x - 58, y - 46 + 0.3 * z) < 6)
        texture = ndimage.gaussian_filter(np.random.default_rng(9).normal(size=shape), 2) * 900
        data = ndimage.gaussian_filter(body, 0.7) + texture * (body > 0) + rng.normal(0, 8, shape)
        image = nib.Nifti1Image(data.astype(np.int16), oblique_affine(turn, (0.8, 1.0, 2.5)))
        image.header.set_xyzt_units("mm")
        nib.save(image, folder.parent / f"{name}.nii.gz")
    Project.create(
        folder,
        fixed=folder.parent / "fixed.nii.gz",
        moving=folder.parent / "moving.nii.gz",
        candidates={"kind": "domain", "count": 60},
        targets={"kind": "domain", "count": 60},
        settings={"budget": 12, "guided_start": False, **settings},
    ).close()
    return folder
