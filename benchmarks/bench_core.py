"""The core's figures: each piece of work against the arithmetic or memory traffic that bounds it."""

from __future__ import annotations

import statistics

import numpy as np
from scipy.linalg import solve_triangular
from timing import Row, compare, seconds

import warpgauge as wg

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


def cold_suggestion() -> Row:
    """The first suggestion after L records, as when a server is started again."""
    rng = np.random.default_rng(8)
    d = 3
    points = rng.uniform(0, EXTENT, (100_000, d))

    def first(L: int) -> float:
        suggester = wg.Suggester(prior(d), points)
        rows = rng.choice(len(points), L, replace=False)
        for row, noise in zip(rows, covariances(L, d, True, rng), strict=True):
            suggester.record(int(row), noise)
        return seconds(suggester.suggest)

    first(200)
    pairs = [(first(200), first(100)) for _ in range(5)]
    ours = min(pair[0] for pair in pairs)
    theirs = min(pair[1] for pair in pairs)
    return Row(
        "first suggestion after 200 annotations at once, 100,000 candidates, 3D, isotropic",
        "the same after 100: at most twice as long if linear",
        ours,
        theirs,
        ours / theirs,
        2.0,
    )


def run() -> list[Row]:
    return [
        suggestion(100_000, 300, True, 1.0, 50),
        suggestion(1_000_000, 100, True, 2.0, 20),
        suggestion(100_000, 100, False, 1.5, 20),
        suggestion(100_000, 300, True, 1.0, 50, "information"),
        *outside_targets(),
        cold_suggestion(),
    ]
