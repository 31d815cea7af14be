"""A report opened in a real browser: it asks nobody for anything, shows every picture, and prints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.maps import write_map
from warpgauge.report import write_report
from web.page_tools import launched

pytest.importorskip("matplotlib")


def bent(points: np.ndarray) -> np.ndarray:
    return points + 4 * np.sin(points[:, ::-1] / 25)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report about transforms judged by their average, with maps."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(3)
    fixed = rng.uniform(0, 100, (25, 2))
    annotations = wg.Annotations.isotropic(fixed, bent(fixed) + rng.normal(0, 0.5, fixed.shape), 0.5)
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [30.0, 60.0], [5.0, 5.0]))
    posterior = prior.condition(annotations, calibrate=True)
    transforms = {"near": lambda x: bent(x) + 0.5, "shift": lambda x: x + 1.0, "none": lambda x: x}
    targets = rng.uniform(5, 95, (80, 2))
    average = wg.judge(posterior, transforms)
    grid = wg.Grid((50, 40), [2.0, 2.5], units="mm")
    image = wg.read_image(write_map(rng.uniform(size=grid.shape), grid, folder / "fixed.nrrd"))
    return write_report(
        folder / "report.html",
        evaluation=wg.evaluate(average, transforms, targets, samples=100),
        fixed=image,
    )


def test_no_request_leaves_and_every_picture_is_shown(page_file: Path) -> None:
    """The only file asked for is the report itself, with scripts allowed and without any network."""
    with launched() as browser:
        context = browser.new_context(offline=True)
        page = context.new_page()
        asked, said = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.goto(page_file.as_uri())
        page.wait_for_load_state("networkidle")
        assert [url for url in asked if not url.startswith("data:")] == [page_file.as_uri()]
        assert said == []
        pictures = page.locator("img, svg[role=img], figure svg")
        assert pictures.count() >= 5
        sizes = [box for at in range(pictures.count()) if (box := pictures.nth(at).bounding_box()) is not None]
        assert len(sizes) == pictures.count()
        assert all(box["width"] > 50 and box["height"] > 50 for box in sizes)
        assert page.evaluate("[...document.images].every(one => one.complete && one.naturalWidth > 0 && one.alt)")
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        assert len(page.pdf()) > 20_000


def test_the_verdict_stands_on_the_first_screen(page_file: Path) -> None:
    """At 1280 x 720 a reader sees the sentence that says who is best without scrolling."""
    with launched() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(page_file.as_uri())
        box = page.locator(".verdict").first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 720
        assert "near" in page.locator(".verdict").first.inner_text()
        page.screenshot(path=page_file.with_suffix(".png"), full_page=True)


def test_many_methods_fit_1100_px_and_long_tables_fold_but_print(tmp_path: Path) -> None:
    """Fourteen methods with long names: no table is wider than the page, folded or open; print shows what is folded."""
    rng = np.random.default_rng(8)
    fixed = rng.uniform(0, 100, (30, 3))
    annotations = wg.Annotations.isotropic(fixed, fixed + 2 + rng.normal(0, 0.5, fixed.shape), 0.5)
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", [60.0], [5.0]))
    posterior = prior.condition(annotations)
    names = [f"IMPACT.bspline.ASGD.gradient-descent_{at:03d}{'x' * at}" for at in range(14)]
    transforms = {name: lambda x, at=at: x + 2 + 0.1 * at for at, name in enumerate(names)}
    found = wg.evaluate(posterior, transforms, rng.uniform(0, 100, (40, 3)), samples=50)
    file = write_report(tmp_path / "report.html", found, maps=False)
    wider = "[...document.querySelectorAll('.wide')].filter(x => x.scrollWidth > x.clientWidth).map(x => x.innerText)"
    cell = "#annotation-list tbody tr:last-child td"
    with launched() as browser:
        for width in (1100, 1440):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(file.as_uri())
            assert page.evaluate(wider) == []
            assert not page.locator(cell).first.is_visible()
            assert page.locator("#scores tbody td").first.is_visible()
            page.locator("summary", has_text="30 annotations: distance").click()
            assert page.locator(cell).first.is_visible()
            page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
            assert page.evaluate(wider) == []
            page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = false; })")
            page.emulate_media(media="print")
            shown = f"document.querySelector('{cell}').checkVisibility({{contentVisibilityAuto: true}})"
            page.wait_for_function(shown)  # what is hidden comes with the next frame
            box = page.locator(cell).first.bounding_box()
            assert box is not None
            assert box["height"] > 5
