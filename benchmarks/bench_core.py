"""The core's figures: each piece of work against the arithmetic or memory traffic that bounds it."""

from __future__ import annotations

import statistics
import subprocess
import sys

import numpy as np
from scipy.linalg import solve_triangular
from timing import Row, compare, seconds

import warpgauge as wg
from warpgauge.core.parallel import over_items

EXTENT = 1000.0


def prior(d: int, levels: int = 7) -> wg.TransformationPrior:
    return wg.TransformationPrior(wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=levels, weight=100.0))


def covariances(count: int, d: int, isotropic: bool, rng: np.random.Generator) -> np.ndarray:
    if isotropic:
        return rng.uniform(0.5, 2, count)[:, None, None] * np.eye(d)
    factors = rng.normal(size=(count, d, d))
    return factors @ factors.transpose(0, 2, 1) + 0.5 * np.eye(d)


def annotations(count: int, d: int, isotropic: bool, rng: np.random.Generator) -> wg.Annotations:
    fixed = rng.uniform(0, EXTENT, (count, d))
    return wg.Annotations(fixed, fixed + rng.normal(0, 10, (count, d)), covariances(count, d, isotropic, rng))


def suggestion(candidates: int, L: int, isotropic: bool, limit: float, last: int, strategy: str = "entropy") -> Row:
    """Median time of suggest + record over the ``last`` steps before L annotations.

    With ``"information"`` other chances are set before each suggestion, as a session does.
    """
    rng = np.random.default_rng(0)
    d = 3
    points = rng.uniform(0, EXTENT, (candidates, d))
    suggester = wg.Suggester(prior(d), points, strategy=strategy)
    # Most of the image can be answered, its right end less and less.
    share = np.clip((1.1 * EXTENT - points[:, 0]) / (0.3 * EXTENT), 0.0, 1.0)

    def step(noise: np.ndarray, chance: np.ndarray | None) -> None:
        if chance is not None:
            suggester.set_chance(chance)
        suggester.record(suggester.suggest(), noise)

    times = []
    for noise in covariances(L, d, isotropic, rng):
        chance = share * rng.uniform(0.95, 1.0) if strategy == "information" else None
        times.append(seconds(lambda noise=noise, chance=chance: step(noise, chance)))
    width = L if isotropic else L * d * d
    matrix = np.ones((width, candidates))
    vector = np.ones(width)
    bound = statistics.median(seconds(lambda: vector @ matrix) for _ in range(7))
    ours = statistics.median(times[-last:])
    kind = "isotropic" if isotropic else "anisotropic"
    doubles = f"{candidates:,} x {L}" + ("" if isotropic else f" x {d * d}")
    return Row(
        f"suggest + record, {candidates:,} candidates, 3D, {kind}, L = {L}"
        + (", weighed by chance" if strategy == "information" else ""),
        f"one pass over {doubles} doubles",
        ours,
        bound,
        ours / bound,
        limit,
        f"slowest step {max(times):.3f} s, first {times[0]:.4f} s",
    )


def outside_targets() -> list[Row]:
    rng = np.random.default_rng(1)
    d = 3
    N = 2000
    n = 10_000
    L = 100
    targets = rng.uniform(0, EXTENT, (N, d))
    candidates = rng.uniform(0, EXTENT, (n, d))
    model = prior(d)
    gram = model.kernel.matrix(targets, targets)
    right = np.asfortranarray(rng.normal(size=(N, n)))

    def bound() -> None:
        factor = np.linalg.cholesky(gram)
        solve_triangular(factor, right, lower=True, check_finite=False)

    setup = compare(
        f"set-up outside T: {N:,} targets, {n:,} candidates, 3D",
        lambda: wg.Suggester(model, candidates, targets),
        "one Cholesky and one triangular solve of that size",
        bound,
        2.0,
        repeats=3,
    )
    suggester = wg.Suggester(model, candidates, targets)
    noises = covariances(L, d, True, rng)
    times = [seconds(lambda noise=noise: suggester.record(suggester.suggest(), noise)) for noise in noises]
    big = np.ones((N, n))
    small = np.ones((L, n))
    u = np.ones(N)
    v = np.ones(L)

    def passes() -> None:
        u @ big
        v @ small
        v @ small

    ours = statistics.median(times[-20:])
    floor = statistics.median(seconds(passes) for _ in range(15))
    step = Row(
        f"suggest + record outside T, L = {L}",
        "one pass over N x n, two over n x L doubles",
        ours,
        floor,
        ours / floor,
        1.5,
    )
    return [setup, step]


def grid(side: int) -> np.ndarray:
    axis = np.linspace(0, EXTENT, side)
    x, y = np.meshgrid(axis, axis)
    return np.stack([x.reshape(-1), y.reshape(-1)], axis=1)


def covariance_on_grid() -> Row:
    rng = np.random.default_rng(2)
    d = 2
    L = 100
    side = 512
    posterior = prior(d).condition(annotations(L, d, False, rng))
    points = grid(side)
    return compare(
        f"covariance on a {side} x {side} grid, L = {L}, anisotropic",
        lambda: posterior.covariance(points),
        "its three matrix products alone, in blocks over threads",
        lambda: products(len(points), L, 3),
        1.0,
        repeats=9,
    )


def products(rows: int, L: int, count: int) -> None:
    """So many products of (rows, L) with (L, L), blocks of 1,000 rows over threads with one of BLAS each."""
    block = np.full((1000, L), 0.5)
    factors = [np.full((L, L), 0.5) for _ in range(count)]

    def worker() -> object:
        out = np.empty((1000, L))

        def work(_: int) -> None:
            for factor in factors:
                np.matmul(block, factor, out=out)

        return work

    over_items(worker, -(-rows // 1000))


def mean_on_grid() -> Row:
    rng = np.random.default_rng(3)
    d = 2
    L = 100
    side = 1024
    posterior = prior(d).condition(annotations(L, d, True, rng))
    points = grid(side)
    fixed = posterior.annotations.fixed_points
    kernel = posterior.prior.kernel
    step = 4000
    out = np.empty((step, L))

    def fill() -> None:
        for start in range(0, len(points), step):
            rows = points[start : start + step]
            kernel.matrix(rows, fixed, out[: len(rows)])

    return compare(
        f"mean on a {side} x {side} grid, L = {L}",
        lambda: posterior.mean(points),
        "filling the kernel block alone",
        fill,
        1.5,
    )


def cold_suggestion(candidates: int, d: int, isotropic: bool) -> Row:
    """The first suggestion after L records, as when a server is started again."""
    rng = np.random.default_rng(8)
    points = rng.uniform(0, EXTENT, (candidates, d))

    def first(L: int) -> float:
        suggester = wg.Suggester(prior(d), points)
        for row, noise in zip(rng.choice(candidates, L, replace=False), covariances(L, d, isotropic, rng), strict=True):
            suggester.record(int(row), noise)
        return seconds(suggester.suggest)

    first(200)
    pairs = [(first(200), first(100)) for _ in range(5)]
    ours = min(pair[0] for pair in pairs)
    theirs = min(pair[1] for pair in pairs)
    kind = "isotropic" if isotropic else "anisotropic"
    return Row(
        f"first suggestion after 200 annotations at once, {candidates:,} candidates, {d}D, {kind}",
        "the same after 100: at most twice as long if linear",
        ours,
        theirs,
        ours / theirs,
        2.0,
    )


_MEMORY = """
import sys
import numpy as np
sys.path.insert(0, {path!r})
import bench_core as b
rng = np.random.default_rng(5)
posterior = b.prior(2).condition(b.annotations(100, 2, False, rng))
small = b.grid(64)
posterior.entropy(small)
points = b.grid(4096)
def kilobytes(key):  # VmHWM, unlike ru_maxrss, is not inherited from the parent
    return int(next(line for line in open("/proc/self/status") if line.startswith(key)).split()[1])
with open("/proc/self/clear_refs", "w") as reset:  # the peak so far is that of making the points
    reset.write("5")
before = kilobytes("VmRSS")
result = posterior.entropy(points)
print((kilobytes("VmHWM") - before) / 1024 - result.nbytes / 2**20)
"""


def map_memory() -> Row:
    """Peak resident memory of a process above what it had with points and result, in MB."""
    code = _MEMORY.format(path=sys.path[0])
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    megabytes = max(0.0, float(done.stdout))
    return Row(
        "entropy map of 4096 x 4096 points, L = 100, anisotropic: memory above the result, MB",
        "500 MB",
        None,
        None,
        megabytes / 500,
        1.0,
        f"{megabytes:.0f} MB",
    )


_FIRST_CALL = """
import time, numpy as np, sys
sys.path.insert(0, {path!r})
import bench_core as b
import warpgauge as wg
rng = np.random.default_rng(0)
s = wg.Suggester(b.prior(3), rng.uniform(0, b.EXTENT, (100_000, 3)))
times = []
for _ in range(6):
    t = time.perf_counter(); s.record(s.suggest(), np.eye(3)); times.append(time.perf_counter() - t)
print(times[0], max(times[1:]))
"""


def first_call() -> Row:
    """The first suggest + record of a new process against the slowest of the next five."""
    code = _FIRST_CALL.format(path=sys.path[0])
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    first, later = (float(word) for word in done.stdout.split())
    return Row(
        "first suggest + record in a new process, 100,000 candidates",
        "slowest of the next five",
        first,
        later,
        first / later,
        1.5,
    )


def run() -> list[Row]:
    return [
        suggestion(100_000, 300, True, 1.0, 50),
        suggestion(1_000_000, 100, True, 0.4, 20),
        suggestion(100_000, 100, False, 1.5, 20),
        suggestion(100_000, 300, True, 1.0, 50, "information"),
        suggestion(100_000, 100, False, 1.5, 20, "information"),
        first_call(),
        *outside_targets(),
        cold_suggestion(100_000, 3, True),
        cold_suggestion(20_000, 2, False),
        covariance_on_grid(),
        mean_on_grid(),
        map_memory(),
    ]
