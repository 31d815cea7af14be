"""Starting: processor time of new processes, which other work on the machine hardly changes, against a budget."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from timing import Row

REPEATS = 5


def _processor_seconds(command: list[str], environment: dict[str, str] | None = None) -> float:
    """User and system time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **(environment or {})})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _row(work: str, budget: float, command: list[str], environment: dict[str, str] | None = None) -> Row:
    spent = min(_processor_seconds(command, environment) for _ in range(REPEATS))
    return Row(work, f"{budget} s of processor time", spent, budget, spent / budget, 1.0)


def import_of_the_package() -> Row:
    ours, bound = (
        min(_processor_seconds([sys.executable, "-c", f"import {name}"]) for _ in range(REPEATS))
        for name in ("warpgauge", "numpy")
    )
    return Row("import warpgauge", "import numpy", ours, bound, ours / bound, 1.0)


def first_question() -> Row:
    """`suggest` in a project that was just made, with nothing compiled: the cache of the loops is an empty folder."""
    program = str(Path(sys.executable).with_name("warpgauge"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pixels = np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
        for image in ("fixed.png", "moving.png"):
            Image.fromarray(pixels).save(folder / image)
        new = [program, "new", str(folder / "project")]
        new += ["--fixed", str(folder / "fixed.png"), "--moving", str(folder / "moving.png")]
        subprocess.run(new, check=True, capture_output=True)
        command = [program, "suggest", str(folder / "project"), "--json"]
        empty = {"NUMBA_CACHE_DIR": str(folder / "loops")}
        return _row("first question of a new project, nothing compiled before", 1.5, command, empty)


def _large_picture(path: Path, seed: int, side: int = 5000) -> None:
    """A disc of coloured texture on a light background, as a slide is."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(60, 200, (side // 10, side // 10, 3), dtype=np.uint8))
    pixels = np.array(coarse.resize((side, side), Image.Resampling.BICUBIC))
    axis = np.linspace(-1, 1, side)
    pixels[axis[:, None] ** 2 + axis**2 > 0.6] = 240
    pixels += rng.integers(0, 6, (side, side, 1), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def new_of_large_pictures() -> Row:
    """`new` on two pictures of 5,000 x 5,000 pixels against decoding one of them."""
    program = str(Path(sys.executable).with_name("warpgauge"))
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / "fixed.png", Path(name) / "moving.png"]
        for seed, file in enumerate(files):
            _large_picture(file, seed)
        new = [program, "new", f"{name}/project", "--fixed", str(files[0]), "--moving", str(files[1])]
        decoding = []
        making = []
        for _ in range(3):
            start = time.process_time()
            with Image.open(files[0]) as picture:
                picture.load()
            decoding.append(time.process_time() - start)
            shutil.rmtree(f"{name}/project", ignore_errors=True)
            making.append(_processor_seconds(new))
    ours = min(making)
    bound = min(decoding)
    return Row("new, two png of 5,000 x 5,000", "decoding one of them", ours, bound, ours / bound, 6.0)


def run() -> list[Row]:
    program = str(Path(sys.executable).with_name("warpgauge"))
    return [
        import_of_the_package(),
        _row("warpgauge --help", 0.3, [program, "--help"]),
        first_question(),
        new_of_large_pictures(),
    ]
