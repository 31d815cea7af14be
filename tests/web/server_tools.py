"""Projects, and real servers of them in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import nibabel as nib
import numpy as np
from PIL import Image
from scipy import ndimage

from warpgauge.project import Project
from warpgauge.web import prepare
from warpgauge.web.catalogue import Catalogue

_MAIN = """
import sys
from warpgauge.web import serve
raters = [name for name in sys.argv[3].split(",") if name]
serve(sys.argv[1], port=int(sys.argv[2]), raters=raters, open_browser=False,
      echo=lambda line: print(line, flush=True))
"""


class Served:
    """A real server on a port of its own, in a thread, or in a process that can be killed."""

    def __init__(
        self,
        folder: Path,
        raters: str = "",
        port: int = 0,
        *,
        process: bool = False,
        **options: Any,
    ) -> None:
        self.folder, self.links = folder, dict[str, str]()
        self.process: subprocess.Popen[str] | None = None
        self._clients: list[httpx.Client] = []
        if process:
            self._start_process(raters, port)
        else:
            names = [name for name in raters.split(",") if name]
            self.launch = prepare(folder, port=port, raters=names, **options)
            self.links = {"launcher" if k == 0 else link.name: link.url for k, link in enumerate(self.launch.links)}
            self._thread = threading.Thread(target=self.launch.run)
            self._thread.start()
        self.base = self.links["launcher"].partition("/?")[0]
        self.port = int(self.base.rpartition(":")[2]) if process else self.launch.socket.getsockname()[1]
        # Where the annotator stands: of a project served alone it is below the project's own name.
        self.pair = f"{self.base}/{Catalogue(folder).only.address}" if (folder / "project.json").exists() else self.base

    def _start_process(self, raters: str, port: int) -> None:
        command = [sys.executable, "-c", _MAIN, str(self.folder), str(port), raters]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if line.startswith("The annotator is at"):
                self.links["launcher"] = words[4]
            elif line.startswith("Link for"):
                self.links[words[2]] = words[-1]
            elif line.startswith("Press Ctrl-C"):
                break
        assert self.links, "the server did not start"

    def client(self, who: str = "launcher", **options: Any) -> httpx.Client:
        """Return a browser that has followed the link of this person; addresses are those of the pair's page."""
        client = self.stranger(**options)
        assert client.get(self.links[who]).status_code == 303
        return client

    def stranger(self, base: str | None = None, **options: Any) -> httpx.Client:
        """Return a browser without a cookie, past any proxy."""
        client = httpx.Client(base_url=base or self.pair, timeout=300, trust_env=False, **options)
        self._clients.append(client)
        return client

    def manager(self) -> httpx.Client:
        """Return the organiser's browser at the page of all pairs."""
        return self.client(base=self.base)

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """End it as Ctrl-C would, and give the exit code."""
        for client in self._clients:
            client.close()
        if self.process is None:
            self.launch.stop()
            self._thread.join(30)
            assert not self._thread.is_alive()
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def served(folder: Path, raters: str = "", port: int = 0, *, process: bool = False, **options: Any) -> Iterator[Served]:
    """Serve a project for the length of a with block."""
    server = Served(folder, raters, port, process=process, **options)
    try:
        yield server
    finally:
        server.stop()


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.02)


def lattice(low: tuple[float, ...], high: tuple[float, ...], counts: tuple[int, ...]) -> np.ndarray:
    """Points of a regular lattice, jittered a little so that no two gains tie."""
    axes = [np.linspace(a, b, n) for a, b, n in zip(low, high, counts, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))
    return points + np.random.default_rng(5).uniform(-0.4, 0.4, points.shape)


def write_pictures(folder: Path, size: tuple[int, int] = (300, 280)) -> tuple[Path, Path]:
    """A grey fixed and a colour moving image, both with every sample different from its neighbours."""
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 255, size[::-1], dtype=np.uint8)).save(folder / "fixed.png")
    Image.fromarray(rng.integers(0, 255, (*size[::-1], 3), dtype=np.uint8)).save(folder / "moving.png")
    return folder / "fixed.png", folder / "moving.png"


def oblique_affine() -> np.ndarray:
    """Index to world of a volume that is turned about two axes and has voxels of 0.7 x 1.1 x 2.5 mm."""
    a, b = np.deg2rad(20), np.deg2rad(-35)
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]]) @ np.array(
        [[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]]
    )
    affine = np.eye(4)
    affine[:3, :3] = turn * [0.7, 1.1, 2.5]
    affine[:3, 3] = [-12.0, 34.0, -56.0]
    return affine


def write_volumes(folder: Path) -> tuple[Path, Path]:
    """A signed and a floating-point volume, anisotropic and oblique, with an extra margin in the moving one."""
    rng = np.random.default_rng(2)
    folder.mkdir(parents=True, exist_ok=True)
    # nibabel's arrays are [x, y, z] and its world is RAS; the reader turns both.
    fixed = nib.Nifti1Image(rng.integers(-1000, 2000, (40, 30, 20)).astype(np.int16), oblique_affine())
    moving = nib.Nifti1Image(rng.normal(0, 1, (44, 36, 22)).astype(np.float32), oblique_affine())
    for image in (fixed, moving):
        image.header.set_xyzt_units("mm")
    nib.save(fixed, folder / "fixed.nii.gz")
    nib.save(moving, folder / "moving.nii.gz")
    return folder / "fixed.nii.gz", folder / "moving.nii.gz"


def make_flat(folder: Path, **settings: object) -> Path:
    """Make a 2D project and give its folder."""
    fixed, moving = write_pictures(folder.parent / "pictures")
    points = lattice((20, 20), (280, 260), (10, 9))
    Project.create(folder, fixed=fixed, moving=moving, candidates=points, targets=points,
                   settings={"guided_start": False, **settings}).close()  # fmt: skip
    return folder


def make_solid(folder: Path, **settings: object) -> Path:
    """Make a 3D project of oblique volumes and give its folder."""
    fixed, moving = write_volumes(folder.parent / "volumes")
    project = Project.create(folder, fixed=fixed, moving=moving, candidates={"kind": "domain", "count": 60},
                             targets={"kind": "domain", "count": 60},
                             settings={"guided_start": False, **settings})  # fmt: skip
    project.close()
    return folder


def answer(client: httpx.Client, query: dict[str, Any], where: list[float], **more: Any) -> httpx.Response:
    """Place a query as the page does."""
    body = {
        "point": where,
        "covariance": np.eye(len(where)).tolist(),
        "alpha": 0.01,
        "duration": 2.5,
        "generation": query["generation"],
        **more,
    }
    return client.post(f"/api/query/{query['query']}/place", json=body)


def events_of(folder: Path) -> list[tuple[Any, ...]]:
    """Read the log without warpgauge: generation, rater, kind, query, payload."""
    connection = sqlite3.connect(folder / "annotations.sqlite")
    try:
        rows = connection.execute("SELECT generation, rater, kind, query, payload FROM events ORDER BY generation")
        return [(*row[:4], json.loads(row[4])) for row in rows.fetchall()]
    finally:
        connection.close()


def write_shifted(folder: Path, voxels: np.ndarray) -> tuple[Path, Path, np.ndarray]:
    """Write an oblique volume and itself shifted by whole voxels; give both and the shift in the (LPS) world."""
    rng = np.random.default_rng(8)
    whole = ndimage.gaussian_filter(rng.normal(0, 1, (60, 50, 40)), 1.5)
    whole = (2000 * whole / whole.std()).astype(np.int16)
    size, start = np.array([40, 30, 20]), np.array([8, 8, 8])
    # What is at voxel i of the fixed volume is at voxel i + shift of the moving one.
    parts = {"fixed": start, "moving": start - voxels}
    for name, corner in parts.items():
        block = whole[tuple(slice(a, a + n) for a, n in zip(corner, size, strict=True))]
        image = nib.Nifti1Image(block, oblique_affine())
        image.header.set_xyzt_units("mm")
        nib.save(image, folder / f"{name}.nii.gz")
    ras = oblique_affine()[:3, :3] @ voxels
    return folder / "fixed.nii.gz", folder / "moving.nii.gz", ras * [-1, -1, 1]
