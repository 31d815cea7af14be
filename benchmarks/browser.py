"""The annotator's page in a real browser: how soon it shows something, and how smoothly it pans."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FIRST_SECONDS, FRAME_SECONDS = 1.0, 1 / 30
VISITS, FRAMES, SCALES = 7, 120, (0.2, 1.0)
_WATCH = """
const timer = setInterval(() => {
  const planes = [...document.querySelectorAll(".planes canvas")].filter((plane) => plane.offsetParent !== null);
  const asked = Boolean(document.getElementById("query-number")?.dataset.number);
  if (planes.length < 2 || !asked || !planes.every((plane) => plane.dataset.complete === "true")) return;
  globalThis.pictureAt = performance.now();
  clearInterval(timer);
}, 4);
"""
_LOOK = """(scale) => {
  const pane = globalThis.warpgauge.stage.planesOf("fixed")[0];
  pane.view = { ...pane.view, centre: [6000, 6000], scale };
}"""
_PAN = """async (frames) => {
  const pane = globalThis.warpgauge.stage.planesOf("fixed")[0];
  const times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let k = 0; k < frames; k++) {
    pane.pan([-20, -8]);
    const now = await new Promise(requestAnimationFrame);
    times.push((now - last) / 1000);
    last = now;
  }
  return times;
}"""
_COMPLETE = (
    "() => [...document.querySelectorAll('.planes canvas')].filter((c) => c.offsetParent !== null)"
    ".every((c) => c.dataset.complete === 'true')"
)


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, or None where it or playwright is not installed."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        yield None
        return
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield found
        finally:
            found.close()


def first_pictures(found: Any, link: str) -> list[float]:
    """Seconds from the click on the link until both images are complete, each time with an empty cache."""
    return [first_picture(found, link) for _ in range(VISITS)]


def first_picture(found: Any, link: str) -> float:
    """Seconds from the click on the link until both images are complete, with an empty cache."""
    context = found.new_context(viewport={"width": 1280, "height": 720})
    context.add_init_script(_WATCH)
    page = context.new_page()
    page.goto(link)
    page.wait_for_function("() => globalThis.pictureAt")
    spent = page.evaluate("() => globalThis.pictureAt") / 1000
    context.close()
    return float(spent)


def pan(found: Any, link: str) -> tuple[list[float], list[int]]:
    """Seconds of each frame while a view of 640 x 560 moves by 2400 x 960 screen pixels; tiles asked for, by scale."""
    context = found.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: "/fixed/tile" in request.url and asked.append(request.url))
    page.goto(link)
    page.wait_for_function("() => globalThis.warpgauge?.store.state.query")
    times: list[float] = []
    counts: list[int] = []
    for scale in SCALES:
        page.evaluate(_LOOK, scale)
        page.wait_for_function(_COMPLETE)
        page.wait_for_load_state("networkidle")
        before = len(asked)
        times += page.evaluate(_PAN, FRAMES)
        page.wait_for_function(_COMPLETE)
        counts.append(len(asked) - before)
    context.close()
    return times, counts


def summary(times: list[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    return statistics.median(times), sorted(times)[int(0.95 * (len(times) - 1))]
