"""``make bench``: every figure as a ratio against its bound, measured in this run, as a table and as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

MODULES = (
    "bench_start",
    "bench_core",
    "bench_maps",
    "bench_evaluate",
    "bench_transforms",
    "bench_web",
    "bench_peers",
)


def cell(value: float | None, digits: str) -> str:
    return "" if value is None else format(value, digits)


def machine(load: list[float]) -> dict[str, Any]:
    """What the figures were measured on, with the load of the machine before and after (processes a core)."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    cores = os.cpu_count() or 1
    return {
        "processor": names[0] if info.is_file() and names else platform.machine(),
        "cores": cores,
        "load_per_core": [round(value / cores, 1) for value in load],
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
        "code": revision(),
    }


def revision() -> str:
    """The commit of the sources, where they are a git repository."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=10", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=MODULES, nargs="+", help="some modules instead of all")
    parser.add_argument("--json", type=Path, default=Path("bench-output/bench.json"), help="where the JSON goes")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    rows: list[dict[str, Any]] = []
    load = [os.getloadavg()[0]]
    took: dict[str, float] = {}
    for name in arguments.only or MODULES:
        began = time.perf_counter()
        for row in importlib.import_module(name).run():
            rows.append({"module": name, **row.to_dict()})
            last = rows[-1]
            reached = {True: "reached", False: "MISSED", None: ""}[last.get("reached")]
            print(
                f"{cell(last.get('ratio'), '8.2f')} x  (at most {cell(last.get('limit'), '.2f') or '-'})  {reached:8s}"
            )
            print(f"    {last['work']}\n    against {last['bound']}", end="")
            if last.get("seconds") is not None:
                print(f": {last['seconds'] * 1e3:.2f} ms against {last['bound_seconds'] * 1e3:.2f} ms", end="")
            print(f"\n    {last['note']}" if last.get("note") else "", flush=True)
        took[name] = time.perf_counter() - began
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    load.append(os.getloadavg()[0])
    about = {**machine(load), "minutes": {name: round(seconds / 60, 1) for name, seconds in took.items()}}
    result = {"machine": about, "rows": rows}
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
