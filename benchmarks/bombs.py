"""Files that promise far more than they hold, through ``warpgauge info``: time, memory and the sentence.

``python benchmarks/bombs.py`` writes the bombs of ``tests/io/test_bombs.py`` and a few more, and prints a row for each.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


def _cpu() -> float:
    """Seconds of work of the commands so far: what else the machine does plays no part."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from fuzz import module

    tests = module("io/test_bombs.py")
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, make in tests.BOMBS.items():
            (Path(folder) / name).write_bytes(make())
            files[name] = Path(folder) / name
        for name, shape, chunks in (
            ("one-chunk.zarr", [50_000, 50_000], [50_000, 50_000]),
            ("chunks-of-1.zarr", [50_000, 50_000], [1, 1]),
            ("huge.zarr", [10**9, 10**9], [10**9, 10**9]),
        ):
            root = Path(folder) / name
            root.mkdir()
            (root / ".zgroup").write_text('{"zarr_format": 2}')
            axes = [{"name": axis, "type": "space"} for axis in "yx"]
            scale = [{"type": "scale", "scale": [1.0, 1.0]}]
            levels = [{"path": "0", "coordinateTransformations": scale}]
            (root / ".zattrs").write_text(
                json.dumps({"multiscales": [{"version": "0.4", "axes": axes, "datasets": levels}]})
            )
            tests.zarr_2(root / "0", shape=shape, chunks=chunks, dtype="|u1")
            files[name] = root
        table = Path(folder) / "million.csv"
        table.write_text("fixed_x,fixed_y,moving_x,moving_y\n" + "1,2,3,4\n" * 1_000_000)
        files["million.csv"] = table
        np.savez_compressed(Path(folder) / "zeros.npz", np.zeros((200, 1000, 1000)))
        files["zeros.npz"] = Path(folder) / "zeros.npz"
        for name, path in files.items():
            began = _cpu()
            done = subprocess.run(
                [str(Path(sys.executable).with_name("warpgauge")), "info", str(path)],
                capture_output=True,
                text=True,
                check=False,
            )
            row = {"file": name, "code": done.returncode, "seconds": round(_cpu() - began, 2)}
            row["largest_so_far_MB"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000)
            row["says"] = done.stderr.strip()[:160]
            bad += done.returncode != 1 or "Traceback" in done.stderr
            print(json.dumps(row), flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
