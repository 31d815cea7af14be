"""Scores of transforms: time grows with the number of targets, memory hardly; how both grow with annotations."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import Row

_CODE = """
import sys, time
sys.path.insert(0, {path!r})
import bench_evaluate
print(*bench_evaluate.measured({count}))
"""
FEW = 10_000
MANY = 100_000


def case(count: int) -> tuple[Any, dict[str, Any], np.ndarray]:
    """A judge of 8 transforms from 60 annotations, and targets spread over the image."""
    import warpgauge as wg

    rng = np.random.default_rng(40)
    extent = 1000.0
    fixed = rng.uniform(0, extent, (60, 2))

    def moved(points: np.ndarray, size: float, phase: float = 0.0) -> np.ndarray:
        return np.asarray(points) + size * np.sin(np.asarray(points)[:, ::-1] / 150.0 + phase)

    given = wg.Annotations(fixed, moved(fixed, 12.0) + rng.normal(0, 1, fixed.shape), [np.eye(2)] * 60)
    transforms = {f"method {n}": (lambda points, n=n: moved(points, 12.0 - n, 0.05 * n)) for n in range(8)}
    posterior = wg.default_posterior(given, [extent, extent], smallest=20.0)
    return wg.judge(posterior, transforms), transforms, rng.uniform(0, extent, (count, 2))


def measured(count: int) -> tuple[float, float, float]:
    """Seconds by the clock and of the processor, and megabytes at the peak above what there was before."""
    import warpgauge as wg

    def kilobytes(key: str) -> int:
        with Path("/proc/self/status").open() as lines:
            return int(next(line for line in lines if line.startswith(key)).split()[1])

    judge, transforms, targets = case(count)
    wg.evaluate(judge, transforms, targets[:2000])
    before = kilobytes("VmRSS")
    clock = time.perf_counter()
    processor = time.process_time()
    wg.evaluate(judge, transforms, targets)
    spent = time.perf_counter() - clock, time.process_time() - processor
    return *spent, (kilobytes("VmHWM") - before) / 1000


def _in_a_process(count: int) -> tuple[float, float, float]:
    code = _CODE.format(path=sys.path[0], count=count)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    clock, processor, memory = map(float, done.stdout.split())
    return clock, processor, memory


def _many_annotations() -> Row:
    """Posterior, judge and evaluation of three transforms at 500 targets."""
    import warpgauge as wg

    rng = np.random.default_rng(41)
    extent = 200.0

    def moved(points: np.ndarray, size: float, phase: float = 0.0) -> np.ndarray:
        return np.asarray(points) + size * np.sin(np.asarray(points)[:, ::-1] * 7 / extent + phase)

    fixed = rng.uniform(0, extent, (300, 3))
    noise = np.stack([np.diag([factor, 1.0, 1.0]) for factor in rng.uniform(1.0, 4.0, 300)])
    annotations = wg.Annotations(fixed, moved(fixed, 2.4) + rng.normal(0, 1, fixed.shape), noise)
    transforms = {f"method {n}": (lambda at, n=n: moved(at, 2.4 - n, 0.05 * n)) for n in range(3)}
    began = time.perf_counter()
    posterior = wg.default_posterior(annotations, [extent] * 3, smallest=extent / 50)
    wg.evaluate(wg.judge(posterior, transforms), transforms, rng.uniform(0, extent, (500, 3)))
    spent = time.perf_counter() - began
    return Row("posterior, judge and evaluate, 300 anisotropic landmarks, 3D", "10 s", spent, 10.0, spent / 10.0, 1.0)


def run() -> list[Row]:
    return [*_many_targets(), _many_annotations()]


def _many_targets() -> list[Row]:
    few = [_in_a_process(FEW) for _ in range(2)]
    many = [_in_a_process(MANY) for _ in range(2)]
    clock = [min(one[0] for one in found) for found in (many, few)]
    processor = [min(one[1] for one in found) for found in (many, few)]
    memory = max(one[2] for one in many)
    work = f"evaluate, 8 transforms, {MANY:,} targets"
    return [
        Row(work, f"the same with {FEW:,}", *clock, clock[0] / clock[1], 12.0, "", processor[0] / processor[1]),
        Row(f"{work}: memory, MB", "1000 MB", None, None, memory / 1000, 1.0, f"{memory:.0f} MB"),
    ]
