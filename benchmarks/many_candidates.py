"""Suggestions among a million candidates and more on one core: ``python benchmarks/many_candidates.py 1e6 1e7``.

Of each number and kind of noise it prints processor seconds of suggest and record (the median of the last 20 steps, and
the slowest of all) and the most memory that its process had.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

STEPS = 60
KINDS = (("entropy", True), ("entropy", False), ("information", True), ("information", False))


def measure(count: int, strategy: str, isotropic: bool) -> None:
    from bench_core import EXTENT, covariances, prior

    import warpgauge as wg
    from warpgauge.core.suggestion import compile_loops

    compile_loops()
    rng = np.random.default_rng(0)
    suggester = wg.Suggester(prior(3), rng.uniform(0, EXTENT, (count, 3)), strategy=strategy)
    times = []
    for noise in covariances(STEPS, 3, isotropic, rng):
        start = time.process_time()
        suggester.record(suggester.suggest(), noise)
        times.append(time.process_time() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{count:,} candidates, {strategy}, {'isotropic' if isotropic else 'anisotropic'}: median "
        f"{statistics.median(times[-20:]):.3f} s, slowest {max(times):.2f} s, {memory:.2f} GB",
        flush=True,
    )


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[2] in ("entropy", "information"):
        measure(int(sys.argv[1]), sys.argv[2], sys.argv[3] == "isotropic")
        return
    names = ("WARPGAUGE_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, "1")}
    for count in sys.argv[1:] or ["1e6"]:
        for strategy, isotropic in KINDS:  # each in a process of its own, for its memory
            noise = "isotropic" if isotropic else "anisotropic"
            command = [sys.executable, __file__, str(int(float(count))), strategy, noise]
            subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    main()
