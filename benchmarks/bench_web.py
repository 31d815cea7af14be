"""The annotator over loopback: placements, tiles, and the page, each against its budget."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import tifffile
from timing import Row

from warpgauge.geometry import Grid
from warpgauge.project import Event, Placement, Project
from warpgauge.project.events import Ask, Place
from warpgauge.session.prior import default_prior, fit_event

CANDIDATES = 20_000
ANNOTATIONS = 200
SIDE = 20_000  # pixels of the large image
PLACEMENT_SECONDS = 0.1
TILE_SECONDS = 0.02
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
_MAIN = """
import sys
from warpgauge.web import serve
serve(sys.argv[1], open_browser=False, echo=lambda line: print(line, flush=True))
"""


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """A server in a process of its own; gives the organiser's link."""
    command = [sys.executable, "-c", _MAIN, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("The annotator is at"):
            link = line.split()[4]
        elif line.startswith("Press Ctrl-C"):
            break
    try:
        yield link
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def _client(link: str) -> httpx.Client:
    client = httpx.Client(timeout=120, trust_env=False, follow_redirects=True)
    page = client.get(link)
    assert page.status_code == 200
    client.base_url = page.url
    return client


def _write_tiles(path: Path) -> None:
    """A large tiled TIFF with its pyramid: one tile of noise, repeated, so that it is written quickly."""
    tile = np.random.default_rng(0).integers(0, 255, (256, 256), dtype=np.uint8)
    sizes = [SIDE // 2**k for k in range(7)]
    with tifffile.TiffWriter(path, bigtiff=True) as file:
        for level, size in enumerate(sizes):
            count = (-(-size // 256)) ** 2
            options: dict[str, Any] = {"subifds": len(sizes) - 1} if level == 0 else {"subfiletype": 1}
            file.write(
                (tile for _ in range(count)), shape=(size, size), dtype=np.uint8, tile=(256, 256),
                photometric="minisblack", compression="zlib", metadata=None, **options,
            )  # fmt: skip


def _project(folder: Path, images: Path, extent: float) -> Path:
    points = np.random.default_rng(1).uniform(20, extent - 20, (CANDIDATES, 2))
    targets = {"kind": "domain", "count": 2000}
    Project.create(folder, fixed=images, moving=images, candidates=points, targets=targets).close()
    return folder


def _annotate(folder: Path, grid: Grid) -> None:
    """Answer the first queries as an expert would, with ellipses, straight into the log."""
    rng = np.random.default_rng(2)
    with Project.open(folder) as project:
        new: list[Event] = []
        for number in range(ANNOTATIONS):
            candidate = number * (CANDIDATES // ANNOTATIONS)
            point = project.candidates[candidate]
            about: dict[str, Any] = {"rater": "organiser", "query": number}
            new.append(Ask(**about, point=tuple(point.tolist()), candidate=candidate, origin="suggested", gain=1.0))
            answer = _placement(rng, grid, point)
            placement = Placement.drawn(answer["point"], answer["covariance"], alpha=answer["alpha"])
            new.append(Place(**about, placement=placement))
        # As after a session of so many answers: the last refit was at 163 of them, the next is due at 244.
        prior = default_prior(grid, project.settings)
        project.append(*new, fit_event(prior, "organiser", source="annotations", annotations=163))


def _placement(rng: np.random.Generator, grid: Grid, point: np.ndarray) -> dict[str, Any]:
    offset = 0.01 * grid.diagonal * np.sin(point / grid.diagonal * 6)
    factor = rng.normal(size=(2, 2)) + 2 * np.eye(2)
    return {"point": (point + offset).tolist(), "covariance": (factor @ factor.T).tolist(), "alpha": 0.01}


def _placements(folder: Path, grid: Grid) -> Row:
    rng = np.random.default_rng(3)
    times = []
    with _served(folder) as link:
        client = _client(link)
        query = client.get("/api/query").json()
        for step in range(18):
            body = {**_placement(rng, grid, np.asarray(query["location"])), "generation": query["generation"]}
            start = time.perf_counter()
            reply = client.post(f"/api/query/{query['query']}/place", json=body)
            spent = time.perf_counter() - start
            assert reply.status_code == 200, reply.text
            query = reply.json()["next"]
            if step >= 3:
                times.append(spent)
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    note = f"median of {len(times)}, largest {1000 * max(times):.0f} ms; load of the machine {load:.1f} a core"
    work = f"placement with the next suggestion, {CANDIDATES} candidates, {ANNOTATIONS} annotations, over HTTP"
    return _budget(work, statistics.median(times), PLACEMENT_SECONDS, note)


def _tiles(folder: Path) -> Row:
    rng = np.random.default_rng(4)
    times = []
    with _served(folder) as link:
        client = _client(link)
        client.get("/api/images/fixed/tile?level=6")
        for _ in range(60):
            level = int(rng.integers(0, 5))
            row, column = (int(value) for value in rng.integers(0, SIDE // 2**level // 256, 2))
            start = time.perf_counter()
            reply = client.get(f"/api/images/fixed/tile?level={level}&row={row}&column={column}")
            times.append(time.perf_counter() - start)
            assert len(reply.content) == 256 * 256
    note = f"median of {len(times)} tiles never asked before, largest {1000 * max(times):.0f} ms"
    return _budget(f"tile of a {SIDE} x {SIDE} TIFF, over HTTP", statistics.median(times), TILE_SECONDS, note)


@contextmanager
def _browser() -> Iterator[Any]:
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


def _first_picture(found: Any, link: str) -> float:
    """Seconds from the click on the link until both images are complete, with an empty cache."""
    context = found.new_context(viewport={"width": 1280, "height": 720})
    context.add_init_script(_WATCH)
    page = context.new_page()
    page.goto(link)
    page.wait_for_function("() => globalThis.pictureAt")
    spent = page.evaluate("() => globalThis.pictureAt") / 1000
    context.close()
    return float(spent)


def _page(folder: Path) -> Row:
    """The page in Chromium, where there is one."""
    work = "first picture, from the link with an empty cache until both images are complete, in Chromium"
    with _served(folder) as link, _browser() as found:
        if found is None:
            return Row(work, "", None, None, None, None, "Chromium or playwright is not installed")
        first = [_first_picture(found, link) for _ in range(VISITS)]
    load = f"load of the machine {os.getloadavg()[0] / (os.cpu_count() or 1):.1f} a core"
    return _budget(work, statistics.median(first), FIRST_SECONDS, f"median of {len(first)}; {load}")


def _budget(work: str, seconds: float, bound: float, note: str) -> Row:
    return Row(work, f"{bound:g} s", seconds, bound, seconds / bound, 1.0, note)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_tiles(folder / "large.tif")
        one = _project(folder / "one", folder / "large.tif", SIDE)
        with Project.open(one) as project:
            grid = project.fixed_grid
        _annotate(one, grid)
        return [_placements(one, grid), _tiles(one), _page(one)]
