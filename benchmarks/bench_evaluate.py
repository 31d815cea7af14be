"""Scores of transforms: time grows with the number of targets, memory hardly; how both grow with annotations."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from timing import Row, threads

_CODE = """
import sys, time
sys.path.insert(0, {path!r})
import bench_evaluate
print(*bench_evaluate.measured({count}))
"""
FEW, MANY = 10_000, 100_000


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
    clock, processor = time.perf_counter(), time.process_time()
    wg.evaluate(judge, transforms, targets)
    spent = time.perf_counter() - clock, time.process_time() - processor
    return *spent, (kilobytes("VmHWM") - before) / 1000


def _in_a_process(count: int) -> tuple[float, float, float]:
    code = _CODE.format(path=sys.path[0], count=count)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    clock, processor, memory = map(float, done.stdout.split())
    return clock, processor, memory


def annotated(count: int, d: int, isotropic: bool, trusted: bool) -> float:
    """Processor time of posterior, judge and evaluation of three transforms at 500 targets, with trust where asked."""
    import warpgauge as wg
    from warpgauge.evaluation.diagnostics import trust

    rng, extent = np.random.default_rng(41), 1000.0 if d == 2 else 200.0

    def moved(points: np.ndarray, size: float, phase: float = 0.0) -> np.ndarray:
        return np.asarray(points) + size * np.sin(np.asarray(points)[:, ::-1] * 7 / extent + phase)

    fixed, noise = rng.uniform(0, extent, (count, d)), np.stack([np.eye(d)] * count)
    noise[:, 0, 0] *= 1.0 if isotropic else rng.uniform(1.0, 4.0, count)
    given = wg.Annotations(fixed, moved(fixed, 0.012 * extent) + rng.normal(0, 1, fixed.shape), noise)
    transforms = {f"method {n}": (lambda at, n=n: moved(at, 0.012 * extent - n, 0.05 * n)) for n in range(3)}
    targets = rng.uniform(0, extent, (500, d))
    began = time.process_time()
    posterior = wg.default_posterior(given, [extent] * d, smallest=extent / 50)
    truth = wg.judge(posterior, transforms)
    wg.evaluate(truth, transforms, targets)
    if trusted:
        trust(posterior, transforms, targets, judged_by=truth)
    return time.process_time() - began


def growth(many: int, few: int, d: int, isotropic: bool, trusted: bool, limit: float) -> Row:
    """Time with many annotations against few, one thread, of the processor."""
    with threads(1), threadpool_limits(1):
        annotated(20, d, isotropic, trusted)
        short, long = (
            min(annotated(few, d, isotropic, trusted) for _ in range(2)),
            annotated(many, d, isotropic, trusted),
        )
    kind = f"{d}D, {'isotropic' if isotropic else 'anisotropic'}, one thread, processor time"
    work = f"posterior, judge and evaluate{' with trust' if trusted else ''}, {many} annotations, {kind}"
    return Row(work, f"the same with {few}", long, short, long / short, limit, "", long / short)


def run() -> list[Row]:
    grown = [growth(200, 50, 2, isotropic, True, 8.0) for isotropic in (True, False)]
    grown += [growth(300, 60, 3, isotropic, False, 10.0) for isotropic in (True, False)]
    return [*_many_targets(), *grown]


def _many_targets() -> list[Row]:
    few, many = [_in_a_process(FEW) for _ in range(2)], [_in_a_process(MANY) for _ in range(2)]
    clock = [min(one[0] for one in found) for found in (many, few)]
    processor = [min(one[1] for one in found) for found in (many, few)]
    memory = max(one[2] for one in many)
    work = f"evaluate, 8 transforms, {MANY:,} targets"
    return [
        Row(work, f"the same with {FEW:,}", *clock, clock[0] / clock[1], 12.0, "", processor[0] / processor[1]),
        Row(f"{work}: memory, MB", "1000 MB", None, None, memory / 1000, 1.0, f"{memory:.0f} MB"),
    ]
