"""Many raters on two servers and PostgreSQL: what is lost, how long an answer takes, what it costs.

Run with ``PYTHONPATH=tests python benchmarks/servers.py``; takes about ten minutes. It starts a PostgreSQL server
of its own on a loopback port, whose writes reach the disk. ``--before FOLDER`` names the sources of an earlier version
(its ``src``), against which the SQLite path is timed in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from postgres_tools import Postgres, free_port
from project.test_survival import QUERIES, kill_at_random
from project.tools import grid_points, query, write_images
from project.zygote import Zygote
from warpgauge.core.suggestion import compile_loops
from warpgauge.project import Project
from warpgauge.project.log_copy import copy_log
from web.load_tools import AppServer, Load, answer_all, check_log, cookie
from web.server_tools import make_flat

# Writes in a process of its own, so that two versions of warpgauge can be timed in turn.
_APPENDS = """
import sys, time, json
sys.path[:0] = sys.argv[2:3]
from warpgauge.project import Placement, Project
from warpgauge.project.events import Ask, Edit, Place
times = []
with Project.open(sys.argv[1], check_images=False) as project:
    number = len(project.state.queries)
    project.append(Ask(rater="ada", query=number, point=(9.0, 9.0), origin="given"))
    mark = Placement.drawn([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], alpha=0.01)
    project.append(Place(rater="ada", query=number, placement=mark))
    for k in range(int(sys.argv[3])):
        start = time.perf_counter()
        moved = Placement.drawn([float(k), 2.0], [[1.0, 0.0], [0.0, 1.0]], alpha=0.01)
        project.append(Edit(rater="ada", query=number, placement=moved))
        project.state
        times.append(time.perf_counter() - start)
print(json.dumps(times))
"""


def _quantiles(seconds: list[float]) -> dict[str, float]:
    p50, p95, p99 = (float(1000 * np.quantile(seconds, q)) for q in (0.5, 0.95, 0.99))
    return {"p50_ms": round(p50, 1), "p95_ms": round(p95, 1), "p99_ms": round(p99, 1),
            "largest_ms": round(1000 * max(seconds), 1)}  # fmt: skip


def _processor_seconds(process: int) -> float:
    """Return the processor time that a process has used, in user and system mode."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _crowd(
    place: Path,
    address: str,
    raters: int,
    each: int,
    pause: float,
    events: Callable[[AppServer, AppServer], list[tuple[float, Callable[[], object]]]],
) -> dict[str, Any]:
    """Have raters answer on two servers, and hold the log against what was acknowledged."""
    folder = make_flat(place / "project", budget=each, refit="never")
    copy_log(folder, address)
    names = [f"rater{k}" for k in range(raters)]
    first = AppServer(folder, free_port(), raters=names)
    second = AppServer(folder, free_port())

    def cookie_of(token: str) -> Callable[[str], dict[str, str]]:
        return lambda base: cookie(folder, base, token)

    headers = {name: cookie_of(token) for name, token in first.tokens.items()}
    try:
        used = -_processor_seconds(second.process.pid)
        limit = 3 * each * pause + 300
        load: Load = answer_all([first.base, second.base], headers, each, pause, events(first, second), limit=limit)
        used += _processor_seconds(second.process.pid)
    except BaseException:
        first.kill()
        second.kill()
        raise
    if first.process.poll() is None:
        second_answers = len(load.acknowledged) / 2
    else:
        second_answers = 0.75 * len(load.acknowledged)  # half of the first half, and all of the second
    found = check_log(folder, load, raters, each)
    first.stop()
    second.stop()
    return {
        "raters": raters,
        "answers_each": each,
        "mean_pause_s": pause,
        **found,
        **_quantiles(load.seconds),
        "seconds": round(load.spent, 1),
        "answers_per_s": round(len(load.seconds) / load.spent, 1),
        "processor_ms_per_answer": round(1000 * used / second_answers, 1),
        "looked_again_after": dict(load.refusals),
        "sentences": sorted(load.sentences)[:4],
        "load_per_core": round(os.getloadavg()[0] / (os.cpu_count() or 1), 1),
    }


def _killed(address: str, raters: int, each: int, pause: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        return _crowd(Path(name), address, raters, each, pause, lambda first, second: [(0.5, first.kill)])


def _restarted(server: Postgres, raters: int, each: int, pause: float) -> dict[str, Any]:
    def restart() -> None:
        server.stop()
        time.sleep(2.0)
        server.start()

    with tempfile.TemporaryDirectory() as name:
        return _crowd(
            Path(name), server.url, raters, each, pause, lambda first, second: [(0.25, server.cut), (0.5, restart)]
        )


def _appends(folder: Path, source: Path | None, count: int) -> list[float]:
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    command = [sys.executable, "-c", _APPENDS, str(folder), "" if source is None else str(source), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return [float(value) for value in json.loads(done.stdout)]


def _costs(address: str, before: Path | None, rounds: int, count: int) -> dict[str, Any]:
    """Time to write one answer: in SQLite, in an earlier version's SQLite, in PostgreSQL; in turn."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        paths = {"sqlite": make_flat(place / "sqlite"), "postgres": make_flat(place / "postgres")}
        copy_log(paths["postgres"], address)
        if before is not None:
            made = subprocess.run(
                [sys.executable, "-c", "import sys; from pathlib import Path; from web.server_tools import make_flat; "
                 "make_flat(Path(sys.argv[1]))", str(place / "before")],
                env={**os.environ, "PYTHONPATH": f"{before}{os.pathsep}{Path(__file__).parent.parent / 'tests'}"},
                check=False, capture_output=True, text=True,
            )  # fmt: skip
            if made.returncode:
                raise RuntimeError(made.stderr)
            paths["before"] = place / "before"
        times: dict[str, list[float]] = {kind: [] for kind in paths}
        for _ in range(rounds):
            for kind, path in paths.items():
                times[kind] += _appends(path, before if kind == "before" else None, count)
    found: dict[str, Any] = {kind: _quantiles(values) for kind, values in times.items()}
    if before is not None:
        found["sqlite_against_before"] = round(
            statistics.median(times["sqlite"]) / statistics.median(times["before"]), 3
        )
    return found


def _kills(address: str, kills: int) -> dict[str, int]:
    """Kill processes that write to the database at random moments; raise where an acknowledged action is missing."""
    with tempfile.TemporaryDirectory() as name, Zygote() as zygote:
        place = Path(name)
        fixed, moving = write_images(place / "pictures")
        options: dict[str, Any] = {"candidates": grid_points(), "database": address}
        with Project.create(place / "project", fixed=fixed, moving=moving, **options) as project:
            project.append(*(query(number, (number * 3.0, 5.0)) for number in range(QUERIES)))
        told = kill_at_random(zygote, project.folder, place, kills, seed=21)
    return {"processes killed with -9": kills, "acknowledged actions": told, "lost or doubled": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--raters", type=int, default=200)
    parser.add_argument("--each", type=int, default=20, help="answers of each rater")
    parser.add_argument("--pause", type=float, default=20.0, help="mean seconds between two answers of a rater")
    parser.add_argument("--before", type=Path, help="sources of an earlier version, its src folder")
    parser.add_argument("--only", choices=("costs", "killed", "restarted", "kills"), nargs="+")
    parser.add_argument("--json", type=Path, default=Path("bench-output/servers.json"))
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers are ended
    compile_loops()  # as `warpgauge prepare` does: raters must not wait for the compiler of a fresh installation
    server = Postgres(durable=True)
    wanted = arguments.only or ("costs", "killed", "restarted", "kills")
    result: dict[str, Any] = {}
    try:
        if "costs" in wanted:
            result["cost of one answer in the log"] = _costs(server.url, arguments.before, 5, 200)
        if "killed" in wanted:
            result["one of two servers killed"] = _killed(server.url, arguments.raters, arguments.each, arguments.pause)
        if "restarted" in wanted:
            result["database cut off and restarted"] = _restarted(
                server, max(1, arguments.raters // 4), max(2, arguments.each // 2), arguments.pause / 5
            )
        if "kills" in wanted:
            result["writers killed"] = _kills(server.url, 50)
    finally:
        server.close()
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1)
    arguments.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
