"""The figures of the maps: time, and memory above the result."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from bench_core import EXTENT, annotations, prior
from timing import Row, seconds

import warpgauge as wg


def error_map() -> Row:
    rng = np.random.default_rng(11)
    posterior = prior(2).condition(annotations(100, 2, False, rng))
    grid = wg.Grid((512, 512), [EXTENT / 512] * 2)
    spent = min(seconds(lambda: wg.error_map(posterior, lambda points: points + 1.0, grid)) for _ in range(3))
    return Row("error map of 512 x 512, L = 100, anisotropic", "1 s", spent, 1.0, spent, 1.0)


_MEMORY = """
import sys
import numpy as np
sys.path.insert(0, {path!r})
import bench_core as b
import warpgauge as wg

def peak():
    # Not ru_maxrss, which a process inherits from the one that started it.
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

rng = np.random.default_rng(7)
posterior = b.prior(3).condition(b.annotations(100, 3, True, rng))
wg.entropy_map(posterior, wg.Grid((16, 16, 16), [b.EXTENT / 16] * 3))
grid = wg.Grid((256, 256, 256), [b.EXTENT / 256] * 3)
before = peak()
result = wg.entropy_map(posterior, grid)
print(peak() - before - result.nbytes / 2**20)
"""


def entropy_memory() -> Row:
    """Peak resident memory of a process above what it had and above the result, in MB."""
    code = _MEMORY.format(path=sys.path[0])
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    megabytes = max(0.0, float(done.stdout))
    return Row(
        "entropy map of 256 x 256 x 256, L = 100, isotropic: memory above the result, MB",
        "1000 MB",
        None,
        None,
        megabytes / 1000,
        1.0,
        f"{megabytes:.0f} MB",
    )


def run() -> list[Row]:
    return [error_map(), entropy_memory()]
