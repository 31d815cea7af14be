"""The same work with every core busy against the machine as it is: threads must not wait for each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from bench_core import EXTENT, annotations, covariances, grid, prior
from timing import Row, busy_cores, seconds

import warpgauge as wg

REPEATS = 5
LIMIT = 2.5  # two processes share a core, so that 2 is what the scheduler alone costs


def works() -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(30)
    flat = prior(2).condition(annotations(100, 2, False, rng))
    solid = prior(3).condition(annotations(100, 3, True, rng))
    points, image = grid(512), wg.Grid((512, 512), [EXTENT / 512] * 2)
    volume = wg.Grid((64,) * 3, [EXTENT / 64] * 3)
    landmarks, model = annotations(150, 2, False, rng), prior(2, levels=9)
    candidates = rng.uniform(0, EXTENT, (20_000, 2))
    noises = covariances(120, 2, False, rng)
    suggester = wg.Suggester(prior(2), candidates)
    for noise in noises:
        suggester.record(suggester.suggest(), noise)

    def step() -> None:
        for _ in range(20):
            suggester.record(suggester.suggest(), noises[0])
        for _ in range(20):
            suggester.undo()

    return {
        "covariance on a 512 x 512 grid, L = 100, anisotropic": lambda: flat.covariance(points),
        "error map of 512 x 512, L = 100, anisotropic": lambda: wg.error_map(flat, lambda at: at + 1.0, image),
        "mean and deviation on 64 x 64 x 64, L = 100, isotropic": lambda: solid.mean_and_deviation(volume.points()),
        "leave-one-out fit, 150 landmarks, 10 iterations": lambda: wg.fit_kernel(model, landmarks, max_iterations=10),
        "20 suggestions and records, 20,000 candidates, L = 120": step,
    }


def run() -> list[Row]:
    todo = works()
    for work in todo.values():
        work()
    quiet = {name: min(seconds(work) for _ in range(REPEATS)) for name, work in todo.items()}
    with busy_cores():
        busy = {name: min(seconds(work) for _ in range(REPEATS)) for name, work in todo.items()}
    return [
        Row(f"{name}: every core busy", "the same before", busy[name], quiet[name], busy[name] / quiet[name], LIMIT)
        for name in todo
    ]
