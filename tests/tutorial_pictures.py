"""Make the tutorials' pictures anew: ``.venv/bin/python tests/tutorial_pictures.py [PAGE ...]``.

The pages are researcher, expert and organiser; and what the front page, the README and the page on annotating show:
tissue, the annotator with two stains of scikit-image's immunohistochemistry section (acquired at the Center for
Microscopy And Molecular Imaging; no known copyright restrictions), volumes, the annotator with the template brain of
nilearn, and demo, the maps of the demonstration.

Runs the pages as the tests do, keeps the pictures that their commands write, and looks at the annotator and at the
reports with Chromium. The pictures are scaled and reduced to a palette, so that each stays below 200 kB.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import warpgauge as wg
from tutorial_tools import PAGES, Page
from warpgauge.cli.app import run
from warpgauge.demo import DemoPair, answer_queries, make_pair
from warpgauge.io.transforms import Transform
from web.page_tools import Sheet, launched

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH = 1000  # pixels
MAP = 760  # of a map: its smooth colours need a large palette
LARGEST = 200_000  # bytes
EDGE = (356.0, 275.0)  # about where the epithelium of the expert's image ends


def keep(source: Path, name: str, *, marks: bool = False, prefix: str = "tutorial-", width: int = WIDTH) -> None:
    """Scale a picture to the width of a page and write it with a palette."""
    picture = Image.open(source).convert("RGB")
    if picture.width > width:
        picture = picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)
    aim = IMAGES / f"{prefix}{name}.png"
    # MAXCOVERAGE keeps colours that only a few pixels have, those of marks; k-means brings the rest near the truth.
    method, steps = (Image.Quantize.MAXCOVERAGE, 3) if marks else (Image.Quantize.MEDIANCUT, 3)
    for colours in (256, 128, 64, 32):
        picture.quantize(colours, method=method, kmeans=steps, dither=Image.Dither.NONE).save(aim, optimize=True)
        if aim.stat().st_size < LARGEST:
            break
    print(f"{aim.name}: {aim.stat().st_size / 1000:.0f} kB")


def shot(sheet: Sheet, name: str, **options: Any) -> None:
    """Keep what the browser shows, once it has drawn it; a report has drawn all when it is loaded."""
    if sheet.page.evaluate("() => Boolean(globalThis.warpgauge)"):
        sheet.settle()
    path = Path(f"{name}-screen.png")
    sheet.page.screenshot(path=str(path))
    keep(path, name, marks=True, **options)


def report(browser: Any, path: str, name: str, height: int) -> None:
    """Keep the upper part of a report."""
    sheet = Sheet(browser, Path(path).resolve().as_uri(), width=WIDTH, height=height)
    shot(sheet, name)
    sheet.close()


def screen_of(sheet: Sheet, side: str, point: np.ndarray) -> tuple[float, float]:
    """Where a point of an image's world is on its canvas, in 2D."""
    view = sheet.state()["views"][side]["2"]
    x, y = (
        (point[k] - view["centre"][k]) * view["scale"] + view[length] / 2
        for k, length in enumerate(("width", "height"))
    )
    return x, y


def researcher(browser: Any, folder: Path) -> None:
    """Keep two maps and the report."""
    Page(PAGES / "researcher.md", folder).run()
    for name in ("affine", "bspline"):
        keep(folder / f"{name}.png", name, width=MAP)
    report(browser, "lesion/report/report.html", "report", 900)


def _list(sheet: Sheet) -> None:
    sheet.page.locator("#finish button[data-act=review]").click()  # all is answered
    sheet.page.wait_for_selector("#drawer tbody tr")
    shot(sheet, "list")


def _question(sheet: Sheet, truth: Transform) -> None:
    """Place a ring at the open question."""
    sheet.page.keyboard.press("0")
    sheet.settle()
    sheet.page.keyboard.press("]")
    sheet.press_at("moving", *screen_of(sheet, "moving", truth.map([sheet.state()["query"]["location"]])[0]))
    _aside(sheet)
    shot(sheet, "annotate")


def _ellipse(sheet: Sheet, truth: Transform) -> None:
    """At a question on the edge of the epithelium, draw an ellipse along that edge."""
    sheet.page.locator("#finish button[data-act=review]").click()
    with wg.Project.open("practice") as project:
        asked = np.array([query.point for query in project.state.queries])
    number = int(np.linalg.norm(asked - EDGE, axis=1).argmin())
    sheet.page.locator(f"#drawer tr[data-query='{number}']").click()
    sheet.page.wait_for_function("() => globalThis.warpgauge.store.state.query?.answer")
    sheet.page.keyboard.press("d")
    sheet.page.wait_for_selector("#drawer", state="hidden")
    sheet.page.keyboard.press("Escape")
    sheet.page.keyboard.press("0")
    for _ in range(6):
        sheet.page.keyboard.press("+")
    sheet.settle()
    box = sheet.box("fixed")
    sheet.drag("fixed", screen_of(sheet, "fixed", asked[number]), (box["width"] / 2, box["height"] / 2))
    sheet.settle()
    x, y = screen_of(sheet, "moving", truth.map(asked[[number]])[0])
    sheet.press_at("moving", x, y)
    sheet.drag("moving", (x + 22, y), (x + 60, y + 45))
    _aside(sheet)
    shot(sheet, "ellipse")


def _aside(sheet: Sheet) -> None:
    """Take the pointer off the images, so that its ring does not hide the mark."""
    sheet.page.locator("#bottom").hover(position={"x": 700, "y": 20})


def expert(browser: Any, folder: Path) -> None:
    """Show a question after some answers; the list, and an ellipse, at the end of the tutorial."""
    page = Page(PAGES / "expert.md", folder)
    page.run()
    truth = page.names["pair"].truth
    for look in (_list, lambda sheet: _ellipse(sheet, truth)):
        page.visit = lambda links, look=look: _open_and(browser, links[0], look)
        page._annotate("warpgauge annotate practice --rater ann")
    _some_answers(folder / "some" / "practice", page.names["pair"], 8, 0.5)
    page.visit = lambda links: _open_and(browser, links[0], lambda sheet: _question(sheet, truth))
    page._annotate("warpgauge annotate some/practice --rater ann")


def _some_answers(project: Path, pair: DemoPair, count: int, scale: float) -> None:
    """Make a project in which a simulated expert has answered the first questions."""
    project.parent.mkdir(exist_ok=True)
    images = {"fixed": pair.fixed, "moving": pair.moving}
    with wg.Project.create(project, **images, targets=400, settings={"budget": 30}) as made:
        session = wg.Session(made, "ann")
        session.skip_start()
        answer_queries(session, pair.truth, count, scale=scale)


def _volume(sheet: Sheet, truth: Transform) -> None:
    """Mark the true match by a ball, then by an ellipsoid, in the axial plane."""
    match = truth.map([sheet.state()["query"]["location"]])[0]
    plane = sheet.page.evaluate(
        "() => { const panes = globalThis.warpgauge.stage.panes;"
        " const { plane, view } = panes.find(one => one.side === 'moving' && one.axis === 2);"
        " return { to: plane.toWorld, origin: plane.frame.origin, ...view }; }"
    )
    where = np.linalg.solve(np.array(plane["to"]), match - plane["origin"])[:2]
    size = np.array([plane["width"], plane["height"]])
    x, y = (where - plane["centre"]) * plane["scale"] + size / 2
    sheet.page.keyboard.press("]")
    sheet.press_at("moving", x, y)
    _aside(sheet)
    shot(sheet, "annotate-3d")
    sheet.drag("moving", (x + 22, y), (x + 50, y + 30))
    _aside(sheet)
    shot(sheet, "3d", prefix="annotating-")


def volumes(browser: Any, folder: Path) -> None:
    """Show two brains after a few answers of a simulated expert."""
    pair = make_pair(3, folder, seed=2)
    _some_answers(folder / "brains", pair, 8, 0.3)
    page = Page(PAGES / "expert.md", folder)
    page.visit = lambda links: _open_and(browser, links[0], lambda sheet: _volume(sheet, pair.truth))
    page._annotate("warpgauge annotate brains --rater ann")


def demo(browser: Any, folder: Path) -> None:
    """Keep the blended maps of the demonstration."""
    assert run(["demo", "--out", str(folder / "demo-output")]) == 0
    keep(folder / "demo-output" / "maps" / "blended.png", "blended", prefix="demo-", width=900)


def _adjudication(sheet: Sheet) -> None:
    sheet.page.locator("tr[data-place='3']").first.click()
    sheet.page.wait_for_selector(".judging")
    shot(sheet, "adjudication")


def _open_and(browser: Any, link: str, look: Callable[[Sheet], None], **size: int) -> None:
    sheet = Sheet(browser, link, **{"height": 640, **size})
    sheet.settle()
    look(sheet)
    sheet.close()


def organiser(browser: Any, folder: Path) -> None:
    """Show the organiser's view of the location where the raters differ, and the study's report."""
    page = Page(PAGES / "organiser.md", folder)
    page.run()
    with wg.Project.open("projects/case2") as project:  # as it was before the organiser decided
        wg.Session(project).include(3, of="bob", rater="organiser")
    page.visit = lambda links: _open_and(browser, links[0], _adjudication)
    page._annotate("warpgauge annotate projects/case2 --raters ann,bob --no-browser")
    report(browser, "study.html", "study", 1200)


def _stained(folder: Path) -> Transform:
    """Write two stains of the section, one of them deformed, as colour pictures; return the true transformation."""
    from skimage.color import hed2rgb, rgb2hed
    from skimage.data import immunohistochemistry

    densities = rgb2hed(immunohistochemistry())
    grid = wg.Grid((512, 512))
    truth = wg.simulate.random_deformation(grid, 12.0, 110.0, seed=4)
    for name, shares in (("H", (1.0, 0.0, 0.1)), ("DAB", (0.35, 0.0, 1.0))):
        colours = hed2rgb(densities * shares)
        if name == "DAB":
            channels = [wg.simulate.warp_image(colours[..., k], grid, truth, fill=1.0) for k in range(3)]
            colours = np.stack(channels, axis=-1)
        Image.fromarray((255 * np.clip(colours, 0, 1)).astype(np.uint8)).save(folder / f"{name}.png")
    return truth


def _tissue(sheet: Sheet, truth: Transform) -> None:
    """Place a ring at the open question; then show the map of the uncertainty, and the list."""
    sheet.page.keyboard.press("0")
    sheet.settle()
    sheet.page.keyboard.press("]")
    sheet.press_at("moving", *screen_of(sheet, "moving", truth.map([sheet.state()["query"]["location"]])[0]))
    _aside(sheet)
    shot(sheet, "2d", prefix="annotating-", width=1200)
    sheet.page.keyboard.press("Escape")
    sheet.page.evaluate("() => globalThis.warpgauge.store.set({ map: { kind: 'entropy', transform: null } })")
    sheet.page.wait_for_selector(".legend")
    shot(sheet, "map", prefix="annotating-")
    sheet.page.evaluate("() => globalThis.warpgauge.store.set({ map: null })")
    sheet.page.keyboard.press("d")
    sheet.page.wait_for_selector("#drawer tbody tr")
    shot(sheet, "list", prefix="annotating-")


def tissue(browser: Any, folder: Path) -> None:
    """Let a simulated expert answer questions until one is in the middle, and keep what the page then shows."""
    truth, rng = _stained(folder), np.random.default_rng(0)
    files = {"fixed": folder / "H.png", "moving": folder / "DAB.png"}
    with wg.Project.create(folder / "colon", **files, targets=400, settings={"budget": 30, "seed": 2}) as project:
        session, placed = wg.Session(project, "ann"), 0
        session.skip_start()
        query = session.next_query()
        while placed < 12 or np.abs(np.subtract(query.point, 256)).max() > 110:
            answer = wg.simulate.EllipseAnnotator(scale=0.6).answer(query.point, truth.map([query.point])[0], rng)
            session.place(query, answer.placement, covariance=answer.covariance)
            query, placed = session.next_query(), placed + 1
    page = Page(PAGES / "expert.md", folder)
    page.visit = lambda links: _open_and(browser, links[0], lambda sheet: _tissue(sheet, truth), width=1440, height=720)
    page._annotate("warpgauge annotate colon --rater ann")


def main(names: list[str]) -> None:
    """Run the pages that are named, or all."""
    pages = {one.__name__: one for one in (researcher, expert, organiser, tissue, volumes, demo)}
    for name in names or pages:
        with tempfile.TemporaryDirectory() as folder, launched() as browser:
            os.chdir(folder)
            pages[name](browser, Path(folder))
            os.chdir(ROOT)


if __name__ == "__main__":
    main(sys.argv[1:])
