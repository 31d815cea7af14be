"""Make the tutorials' pictures anew: ``.venv/bin/python tests/tutorial_pictures.py [PAGE ...]``.

Runs the pages as the tests do, keeps the pictures that their commands write, and looks at the annotator and at the
reports with Chromium. The pictures are scaled and reduced to a palette, so that each stays below 200 kB.

With ``--outputs`` what a command prints is written into the page where it differs from what stands there (but not where
the page has dots, nor into Python blocks): read the difference before you commit it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import tutorial_tools
import warpgauge as wg
from tutorial_tools import PAGES, Page
from web.page_tools import Sheet, launched

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH = 1000  # pixels


def keep(source: Path, name: str, colours: int = 200) -> None:
    """Scale a picture to the width of a page and write it with a palette."""
    picture = Image.open(source).convert("RGB")
    if picture.width > WIDTH:
        picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)
    aim = IMAGES / f"tutorial-{name}.png"
    reduced = picture.quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    reduced.save(aim, optimize=True)
    print(f"{aim.name}: {aim.stat().st_size / 1000:.0f} kB")


def shot(sheet: Sheet, name: str) -> None:
    """Keep what the browser shows, once it has drawn it."""
    sheet.page.wait_for_timeout(600)
    path = Path(f"{name}-screen.png")
    sheet.page.screenshot(path=str(path))
    keep(path, name)


def report(browser: Any, path: str, name: str, height: int) -> None:
    """Keep the upper part of a report."""
    sheet = Sheet(browser, Path(path).resolve().as_uri(), width=WIDTH, height=height)
    shot(sheet, name)
    sheet.close()


def screen_of(sheet: Sheet, point: np.ndarray) -> tuple[float, float]:
    """Where a point of the moving world is on its canvas, in 2D."""
    view = sheet.state()["views"]["moving"]["2"]
    x, y = (
        (point[k] - view["centre"][k]) * view["scale"] + view[side] / 2 for k, side in enumerate(("width", "height"))
    )
    return x, y


def researcher(browser: Any, folder: Path) -> None:
    """Keep two maps and the report."""
    Page(PAGES / "researcher.md", folder).run()
    for name in ("affine", "bspline"):
        keep(folder / f"{name}.png", name)
    report(browser, "lesion/report/report.html", "report", 900)


def _first_marks(sheet: Sheet) -> None:
    """Draw a click, then a long ellipse, at the true match of the first question; neither is accepted."""
    truth = wg.read_transform("truth.nrrd")
    x, y = screen_of(sheet, truth.map([sheet.state()["query"]["location"]])[0])
    sheet.press_at("moving", x, y)
    shot(sheet, "annotate")
    sheet.page.keyboard.press("Escape")
    box = sheet.box("moving")
    sheet.page.mouse.move(box["x"] + x, box["y"] + y)
    for _ in range(8):
        sheet.page.mouse.wheel(0, -100)
    sheet.page.wait_for_timeout(600)
    sheet.wait_for_picture()
    x, y = screen_of(sheet, truth.map([sheet.state()["query"]["location"]])[0])
    sheet.drag("moving", (x, y), (x - 60, y + 45))
    shot(sheet, "ellipse")


def _volume(sheet: Sheet) -> None:
    box = sheet.box("moving", 2)
    middle = (box["width"] / 2, box["height"] / 2)
    sheet.drag("moving", middle, (middle[0] + 18, middle[1] + 8))
    shot(sheet, "annotate-3d")


def expert(browser: Any, folder: Path) -> None:
    """Show the page in 2D and 3D while the tutorial runs, and the list at its end."""
    todo: list[Callable[[Sheet], None]] = [_first_marks, _volume]

    def visit(links: list[str]) -> None:
        sheet = Sheet(browser, links[0], height=640)
        sheet.wait_for_query()
        todo.pop(0)(sheet)
        sheet.close()

    page = Page(PAGES / "expert.md", folder, visit)
    page.run()
    page.visit = lambda links: _open_and(browser, links[0], _list)
    page._annotate("warpgauge annotate practice --rater ann")


def _list(sheet: Sheet) -> None:
    sheet.page.keyboard.press("Tab")
    sheet.page.wait_for_selector("#drawer tbody tr")
    shot(sheet, "list")


def _adjudication(sheet: Sheet) -> None:
    sheet.page.locator("#organiser-button").click()
    sheet.page.locator("tr[data-place='3']").click()
    sheet.page.wait_for_selector("#organiser .sides canvas")
    shot(sheet, "adjudication")


def _open_and(browser: Any, link: str, look: Callable[[Sheet], None]) -> None:
    sheet = Sheet(browser, link, height=640)
    sheet.page.wait_for_load_state("networkidle")
    sheet.page.wait_for_timeout(1000)
    look(sheet)
    sheet.close()


def organiser(browser: Any, folder: Path) -> None:
    """Show the organiser's view of the location where the raters differ, and the study's report."""
    page = Page(PAGES / "organiser.md", folder)
    page.run()
    page.visit = lambda links: _open_and(browser, links[0], _adjudication)
    page._annotate("warpgauge annotate projects/case2 --no-browser")
    report(browser, "study.html", "study", 900)


def renew_outputs() -> None:
    """Let a comparison that fails mend the page instead."""
    compare = tutorial_tools.check

    def mend(printed: str, expected: str, vary: float, where: str) -> None:
        try:
            compare(printed, expected, vary, where)
        except AssertionError:
            if not where or "..." in expected:
                raise
            page = PAGES / where.partition(",")[0]
            lines = [textwrap.fill(line, 118, replace_whitespace=False) for line in printed.rstrip().splitlines()]
            mended = "\n".join(line.rstrip() for line in lines)
            page.write_text(page.read_text("utf-8").replace(expected.rstrip(), mended, 1), "utf-8")
            print(f"{where}: written anew")

    tutorial_tools.check = mend


def main(names: list[str]) -> None:
    """Run the pages that are named, or all."""
    if "--outputs" in names:
        names.remove("--outputs")
        renew_outputs()
    for name in names or ["researcher", "expert", "organiser"]:
        with tempfile.TemporaryDirectory() as folder, launched() as browser:
            os.chdir(folder)
            {"researcher": researcher, "expert": expert, "organiser": organiser}[name](browser, Path(folder))
            os.chdir(ROOT)


if __name__ == "__main__":
    main(sys.argv[1:])
