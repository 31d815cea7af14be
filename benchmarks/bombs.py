"""Hostile files and projects through the commands: time, memory and the sentence of each.

``python benchmarks/bombs.py`` writes files that promise far more than they hold, that never end, that lead elsewhere or
that are nested without bounds (``bomb_images.py``, ``bomb_points.py``, ``bomb_projects.py``), runs a command on each in
a process of its own, and prints a row for each. Expected is a result or one sentence, within 10 s of processor time and
2 GB of memory; a command that waits for ever is ended after ``--wait`` seconds and counts as late.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SECONDS, MEGABYTES, LONGEST = 10.0, 2000, 500
Make = Callable[[Path], list[str]]  # writes into a folder and returns the arguments of a command


def cases() -> Iterator[tuple[str, Make]]:
    """Return all cases by name."""
    import bomb_images
    import bomb_points
    import bomb_projects

    for module in (bomb_images, bomb_points, bomb_projects):
        yield from module.CASES.items()


def attempt(arguments: list[str], folder: Path, wait: float) -> dict[str, Any]:
    """Run a command in a fork of this process, which has everything imported, and return what became of it."""
    output = folder / "output.txt"
    child = os.fork()
    if child == 0:
        code = 99
        try:
            with output.open("w") as stream:
                os.dup2(stream.fileno(), 1)
                os.dup2(stream.fileno(), 2)
            from warpgauge.cli.app import run

            code = run(arguments)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end, waits = time.monotonic() + wait, False
    while True:
        found, status, used = os.wait4(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() > end:
            waits = True
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    text = output.read_text(errors="replace").strip()
    return {
        "code": os.waitstatus_to_exitcode(status),
        "seconds": round(used.ru_utime + used.ru_stime, 2),
        "MB": round(used.ru_maxrss / 1000),
        "waits": waits,
        "says": text[-2000:],
    }


def wrong(row: dict[str, Any]) -> str:
    """Return what is wrong with a row, or nothing."""
    lines = [line for line in row["says"].splitlines() if line.startswith("warpgauge: ")]
    if row["waits"]:
        return "waits"
    if row["code"] not in (0, 1, 2) or "Traceback" in row["says"]:
        return "traceback" if row["code"] == 99 else f"code {row['code']}"
    if row["code"] == 1 and not lines and "problem" not in row["says"]:
        return "no sentence"
    if any(
        len(one) > LONGEST for line in row["says"].splitlines() for one in line.split(". ")
    ):  # a verdict has several
        return "too long"
    if row["seconds"] > SECONDS:
        return "late"
    return "too much memory" if row["MB"] > MEGABYTES else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--wait", type=float, default=120.0, help="seconds by the clock after which a command is ended")
    parser.add_argument("--json", type=Path, default=Path("bench-output/bombs.json"), help="where the JSON goes")
    arguments = parser.parse_args()
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parent.parent / "tests")]
    import scipy.stats  # noqa: F401  what a command would import, before the forks

    from warpgauge.cli.app import COMMANDS

    for name in ("info", "verify", "suggest", "evaluate"):
        importlib.import_module(f"warpgauge.cli.{COMMANDS[name][0]}")
    importlib.import_module("warpgauge.session")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"a process that has imported everything takes {own:.0f} MB")
    rows: list[dict[str, Any]] = []
    for name, make in cases():
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="warpgauge-bomb-") as place:
            folder = Path(place)
            os.environ["XDG_STATE_HOME"] = str(folder / "state")
            (folder / "case").mkdir()
            row = {"case": name, **attempt(make(folder / "case"), folder, arguments.wait)}
        row["wrong"] = wrong(row)
        rows.append(row)
        shown = " ".join(row["says"].split())
        print(
            f"{row['wrong'] or 'ok':16s} {row['seconds']:6.2f} s {row['MB']:5d} MB  {name}: {shown[:170]}", flush=True
        )
    bad = [row for row in rows if row["wrong"]]
    most, longest = max(row["MB"] for row in rows), max(row["seconds"] for row in rows)
    print(f"{len(rows)} cases, {len(bad)} wrong; at most {longest:.2f} s of processor time and {most} MB")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(rows, indent=1))
    return len(bad)


if __name__ == "__main__":
    sys.exit(main())
