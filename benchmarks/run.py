"""``make bench``: every figure as a ratio against its bound, measured in this run, as a table and as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

MODULES = ("bench_core", "bench_transforms", "bench_maps", "bench_web", "bench_peers")


def cell(value: float | None, digits: str) -> str:
    return "" if value is None else format(value, digits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=MODULES, help="one module instead of all")
    parser.add_argument("--json", type=Path, default=Path("bench-output/bench.json"), help="where the JSON goes")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    rows: list[dict[str, Any]] = []
    for name in [arguments.only] if arguments.only else MODULES:
        for row in importlib.import_module(name).run():
            rows.append(row if isinstance(row, dict) else row.to_dict())
            last = rows[-1]
            reached = {True: "reached", False: "MISSED", None: ""}[last.get("reached")]
            print(
                f"{cell(last.get('ratio'), '8.2f')} x  (at most {cell(last.get('limit'), '.2f') or '-'})  {reached:8s}"
            )
            print(f"    {last['work']}\n    against {last['bound']}", end="")
            if last.get("seconds") is not None:
                print(f": {last['seconds'] * 1e3:.2f} ms against {last['bound_seconds'] * 1e3:.2f} ms", end="")
            print(f"\n    {last['note']}" if last.get("note") else "", flush=True)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {"processor": platform.processor() or platform.machine(), "python": platform.python_version()}
    arguments.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2))
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
