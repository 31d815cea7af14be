"""The annotator's page in a real browser: how soon it shows something."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FIRST_SECONDS = 1.0
VISITS = 7
_WATCH = """
const timer = setInterval(() => {
  const planes = [...document.querySelectorAll(".planes canvas")].filter((plane) => plane.offsetParent !== null);
  const asked = Boolean(document.getElementById("query-number")?.dataset.number);
  if (planes.length < 2 || !asked || !planes.every((plane) => plane.dataset.complete === "true")) return;
  globalThis.pictureAt = performance.now();
  clearInterval(timer);
}, 4);
"""


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
