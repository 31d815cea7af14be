"""The annotator over loopback: placements, tiles, fifty raters at once, and the page, each against its budget."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import browser
import httpx
import numpy as np
import tifffile
import zarr
from timing import Row

from warpgauge.geometry import Grid
from warpgauge.project import Event, Placement, Project
from warpgauge.project.events import Ask, Place
from warpgauge.session.prior import default_prior, fit_event

CANDIDATES, ANNOTATIONS = 20_000, 200
SIDE = 20_000  # pixels of the large image
RATERS, EACH = 50, 4
GIANT, SLICES, ACROSS, CHUNK = (100_000, 80_000), 2_000, 1_024, 64  # a slide (columns, rows), and a volume
PLACEMENT_SECONDS, TILE_SECONDS, WARPED_SECONDS, OPEN_SECONDS = 0.1, 0.02, 0.1, 3.0
OPENINGS = 3
_MAIN = """
import sys
from warpgauge.web import serve
serve(sys.argv[1], raters=[name for name in sys.argv[2].split(",") if name] or None, open_browser=False,
      echo=lambda line: print(line, flush=True))
"""


@contextmanager
def _served(folder: Path, raters: str = "") -> Iterator[dict[str, str]]:
    """A server in a process of its own; gives the links by name."""
    command = [sys.executable, "-c", _MAIN, str(folder), raters]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    links: dict[str, str] = {}
    assert process.stdout is not None
    for line in process.stdout:
        words = line.split()
        if line.startswith("The annotator is at"):
            links["organiser"] = words[4]
        elif line.startswith("Link for"):
            links[words[2]] = words[-1]
        elif line.startswith("Press Ctrl-C"):
            break
    try:
        yield links
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def _client(link: str) -> httpx.Client:
    client = httpx.Client(base_url=link.partition("/?")[0], timeout=120, trust_env=False)
    assert client.get(link).status_code == 303
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
            new.append(Place(**about, placement=Placement.drawn(**_placement(rng, grid, point))))
        # As after a session of so many answers: the last refit was at 163 of them, the next is due at 244.
        prior = default_prior(grid, project.settings)
        project.append(*new, fit_event(prior, "organiser", source="annotations", annotations=163))


def _placement(rng: np.random.Generator, grid: Grid, point: np.ndarray) -> dict[str, Any]:
    offset = 0.01 * grid.diagonal * np.sin(point / grid.diagonal * 6)
    factor = rng.normal(size=(2, 2)) + 2 * np.eye(2)
    return {"point": (point + offset).tolist(), "covariance": (factor @ factor.T).tolist(), "alpha": 0.01}


def _placements(folder: Path, grid: Grid) -> Row:
    rng, times = np.random.default_rng(3), []
    with _served(folder) as links:
        client = _client(links["organiser"])
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
    rng, times = np.random.default_rng(4), []
    with _served(folder) as links:
        client = _client(links["organiser"])
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


def _warped(folder: Path) -> Row:
    """Time the third pane's picture while a mark is dragged, at the size that it has then and at 512 x 512."""
    times: dict[int, list[float]] = {256: [], 512: []}
    with _served(folder) as links:
        client = _client(links["organiser"])
        x, y = client.get("/api/query").json()["location"]
        for size, seconds in times.items():
            for k in range(20):
                mark = f"{x},{y};{x + 0.3 * k},{y};1,0,0,1"
                start = time.perf_counter()
                reply = client.get("/api/warped", params={"level": 3, "part": f"512,512,{size},{size}", "mark": mark})
                seconds.append(time.perf_counter() - start)
                assert reply.status_code == 200, reply.text
    note = f"median of 20; the half-size picture shown during a drag {1000 * statistics.median(times[256]):.0f} ms"
    work = f"warped 512 x 512 with a dragged mark, {ANNOTATIONS} annotations, over HTTP"
    return _budget(work, statistics.median(times[512]), WARPED_SECONDS, note)


def _crowd(folder: Path) -> Row:
    names = [f"rater{k}" for k in range(RATERS)]
    saved: list[int] = []
    problems: list[str] = []
    with _served(folder, ",".join(names)) as links:
        clients = [_client(links[name]) for name in names]
        queries = [client.get("/api/query").json() for client in clients]
        gate = threading.Barrier(RATERS + 1)

        def work(which: int) -> None:
            query = queries[which]
            gate.wait()
            for _ in range(EACH):
                body = {"point": query["location"], "covariance": [[1, 0], [0, 1]], "alpha": 0.01,
                        "generation": query["generation"]}  # fmt: skip
                reply = clients[which].post(f"/api/query/{query['query']}/place", json=body)
                if reply.status_code != 200:
                    problems.append(reply.text)
                    return
                saved.append(reply.json()["saved"]["generation"])
                query = reply.json()["next"]

        threads = [threading.Thread(target=work, args=(k,)) for k in range(RATERS)]
        for thread in threads:
            thread.start()
        gate.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        spent = time.perf_counter() - start
        for client in clients:
            client.close()
    with Project.open(folder) as project:
        logged = [event.generation for event in project.events() if event.kind == "place"]
    if problems or sorted(saved) != logged or len(logged) != RATERS * EACH:
        raise RuntimeError(f"{len(problems)} errors, {len(logged)} of {RATERS * EACH} events in the log")
    note = f"all {len(logged)} acknowledged events are in the log once, 0 errors"
    work_name = f"{RATERS} raters posting {EACH} placements each at once"
    return _budget(work_name, spent, RATERS * EACH * PLACEMENT_SECONDS, note)


def _page(folder: Path) -> list[Row]:
    """The page in Chromium, where there is one."""
    with _served(folder) as links, browser.browser() as found:
        if found is None:
            return [Row("the page in a browser", "", None, None, None, None, "Chromium or playwright is not installed")]
        first = browser.first_pictures(found, links["organiser"])
        frames, tiles = browser.pan(found, links["organiser"])
    load = f"load of the machine {os.getloadavg()[0] / (os.cpu_count() or 1):.1f} a core"
    median, slow = browser.summary(frames)
    title = f"pan over a {SIDE} x {SIDE} TIFF in Chromium, 95 % of the frames"
    note = f"median {1000 * median:.1f} ms; {' and '.join(map(str, tiles))} tiles of {(SIDE // 256 + 1) ** 2}; {load}"
    return [
        _budget("first picture, from the link with an empty cache until both images are complete, in Chromium",
                statistics.median(first), browser.FIRST_SECONDS, f"median of {len(first)}; {load}"),
        _budget(title, slow, browser.FRAME_SECONDS, note),
    ]  # fmt: skip


def _write_slide(path: Path) -> None:
    """A slide of 100,000 x 80,000 RGB pixels with its pyramid; one compressed tile per level is repeated.

    The tiles of the fine levels are plain, so that the file stays small.
    """
    rng = np.random.default_rng(5)
    sizes = [(-(-GIANT[1] // 2**k), -(-GIANT[0] // 2**k)) for k in range(9)]
    with tifffile.TiffWriter(path, bigtiff=True) as file:
        for level, (rows, columns) in enumerate(sizes):
            tile = np.full((256, 256, 3), 200, np.uint8)
            if level > 3:
                tile = rng.integers(100, 255, tile.shape, dtype=np.uint8)
            packed = zlib.compress(tile.tobytes())
            options: dict[str, Any] = {"subifds": len(sizes) - 1} if level == 0 else {"subfiletype": 1}
            file.write(
                (packed for _ in range(-(-rows // 256) * -(-columns // 256))), shape=(rows, columns, 3), dtype=np.uint8,
                tile=(256, 256), photometric="rgb", compression="zlib", metadata=None, **options,
            )  # fmt: skip


def _write_volume(folder: Path) -> None:
    """An OME-Zarr volume of 2,000 slices with its pyramid; all chunks of a level are links to one file."""
    root = zarr.open_group(folder, mode="w", zarr_format=2)
    noise = np.random.default_rng(6).integers(0, 2000, (CHUNK,) * 3, dtype=np.uint16)
    datasets = []
    for level in range(5):
        shape = tuple(-(-n // 2**level) for n in (SLICES, ACROSS, ACROSS))
        array = root.create_array(str(level), shape=shape, chunks=(CHUNK,) * 3, dtype="uint16",
                                  chunk_key_encoding={"name": "v2", "separator": "."})  # fmt: skip
        array[:CHUNK, :CHUNK, :CHUNK] = noise
        first = folder / str(level) / "0.0.0"
        for at in np.ndindex(*(-(-n // CHUNK) for n in shape)):
            if any(at):
                os.link(first, first.with_name(".".join(map(str, at))))
        scale = [{"type": "scale", "scale": [2.0**level] * 3}]
        datasets.append({"path": str(level), "coordinateTransformations": scale})
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    root.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]


def _opened(folder: Path, found: Any) -> float:
    """Seconds from the start of ``warpgauge annotate`` until both images are complete in a browser that is open."""
    command = [sys.executable, "-m", "warpgauge", "annotate", str(folder), "--no-browser"]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            link = next(line.split()[4] for line in process.stdout if line.startswith("The annotator is at"))
            browser.first_picture(found, link)
            return time.perf_counter() - start
        finally:
            process.terminate()


def _giants(folder: Path) -> list[Row]:
    """Very large images with a pyramid, from the command to the picture."""
    _write_slide(folder / "slide.tif")
    _write_volume(folder / "volume.zarr")
    rng, rows = np.random.default_rng(7), []
    names = {"slide.tif": GIANT, "volume.zarr": (ACROSS, ACROSS, SLICES)}
    with browser.browser() as found:
        for name, size in names.items() if found is not None else ():
            points = rng.uniform(0.1, 0.9, (2000, len(size))) * size
            project = folder / f"{name}-project"
            both = folder / name
            Project.create(project, fixed=both, moving=both, candidates=points, targets=points).close()
            times = [_opened(project, found) for _ in range(OPENINGS)]
            load = os.getloadavg()[0] / (os.cpu_count() or 1)
            note = f"median of {OPENINGS}, largest {max(times):.1f} s; load of the machine {load:.1f} a core"
            work = f"{name} of {' x '.join(map(str, size))}, from `warpgauge annotate` until both images are complete"
            rows.append(_budget(work, statistics.median(times), OPEN_SECONDS, note))
    shutil.rmtree(folder / "volume.zarr")  # many links to one file
    return rows


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
        crowd = _project(folder / "crowd", folder / "large.tif", SIDE)
        return [_placements(one, grid), _tiles(one), _warped(one), _crowd(crowd), *_page(one), *_giants(folder)]
