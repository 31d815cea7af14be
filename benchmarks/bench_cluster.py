"""Many jobs and large maps: what a second worker gains, what a shard and a job cost, and what a lost worker loses.

``PYTHONPATH=$PWD python benchmarks/bench_cluster.py [--only NAME]`` runs these figures alone and prints the load of the
machine beside them: a second worker gains nothing while other work takes the second core. Processor time is given
where it says more.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_core import EXTENT, annotations, prior
from timing import Row

import warpgauge as wg
from paper.experiment import Experiment, Findings, Run, run_experiment
from warpgauge.compute import Executor, InProcess, ProcessPool
from warpgauge.compute.cluster import DaskCluster
from warpgauge.core.parallel import one_blas_thread, only_one_thread
from warpgauge.core.process import Posterior
from warpgauge.io.stores import place_of
from warpgauge.maps.sharded import ShardedMap, fill_shard, write_sharded_map

_JOBS = 1000


def shifted(points: np.ndarray) -> np.ndarray:
    return points + 1.0


def transform() -> Callable[[np.ndarray], np.ndarray]:
    return shifted


def posterior(isotropic: bool = False) -> Posterior:
    return prior(3).condition(annotations(100, 3, isotropic, np.random.default_rng(20)))


def cube(side: int) -> wg.Grid:
    return wg.Grid((side,) * 3, [EXTENT / side] * 3)


def measured_fill(task: ShardedMap, job: Any) -> tuple[float, float, int]:
    """Seconds by the clock and of the processor for one shard, and the largest memory of the process in bytes."""
    clock, processor = time.perf_counter(), time.process_time()
    fill_shard(task, job)
    return time.perf_counter() - clock, time.process_time() - processor, _peak()


def _peak() -> int:
    """Largest memory of this process in bytes; ``ru_maxrss`` would count that of the process which started it, too."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def second_worker(side: int = 256) -> Iterator[Row]:
    """An error map of 256^3 with one and with two workers; both kinds, each warmed by a small map before."""
    given = posterior(isotropic=True)
    makers: dict[str, Callable[[int], Executor]] = {"processes": ProcessPool, "Dask workers": DaskCluster.local}
    for name, make in makers.items():
        times = []
        for count in (1, 2):
            with tempfile.TemporaryDirectory() as folder, make(count) as executor:
                options = {"transform": transform, "executor": executor}
                write_sharded_map("error", given, cube(160), Path(folder) / "warm.ome.zarr", **options)
                start = time.perf_counter()
                write_sharded_map("error", given, cube(side), Path(folder) / "map.ome.zarr", **options)
                times.append(time.perf_counter() - start)
        yield Row(
            f"sharded error map of {side}^3, L = 100, isotropic: 2 {name}",
            f"1 of them ({times[0] / times[1]:.2f} times as fast; at least 1.7 is aimed at)",
            times[1],
            times[0],
            times[1] / times[0],
            1 / 1.7,
        )


def lost_worker(side: int = 192) -> Iterator[Row]:
    """An error map on two Dask workers, one killed when the first shard is there, against the local run's bytes."""
    given = posterior()
    with tempfile.TemporaryDirectory() as folder, DaskCluster.local(2) as cluster:
        local, remote = Path(folder) / "local" / "map.ome.zarr", Path(folder) / "remote" / "map.ome.zarr"
        for place in (local, remote):
            place.parent.mkdir()
        write_sharded_map("error", given, cube(side), local, transform=transform, executor=InProcess())
        killed: list[int] = []

        def kill(done: int, total: int) -> None:
            if done > total / 4 and not killed:
                killed.append(cluster.processes()[0])
                os.kill(killed[0], signal.SIGKILL)

        write_sharded_map("error", given, cube(side), remote, transform=transform, executor=cluster, progress=kill)
        files = sorted(file.relative_to(local) for file in local.rglob("*") if file.is_file())
        there = sorted(file.relative_to(remote) for file in remote.rglob("*") if file.is_file())
        differ = sum((local / file).read_bytes() != (remote / file).read_bytes() for file in files)
    yield Row(
        f"sharded error map of {side}^3 on 2 Dask workers, one killed at a quarter",
        f"the local run: {differ} of {len(files)} files differ (same names: {files == there}; killed: {bool(killed)})",
        None,
        None,
        float(differ + (files != there) + (not killed)),
        0.0,
    )


def virtual_terabyte(samples: int = 5) -> Iterator[Row]:
    """Shards spread over a map of 1 TB (6,300^3 float32), by one Dask worker: memory, and time per shard."""
    grid = cube(6300)
    with tempfile.TemporaryDirectory() as folder, DaskCluster.local(1) as cluster:
        task = ShardedMap("error", posterior(), grid, place_of(Path(folder) / "map.ome.zarr"), transform)
        shards = list(task.levels[0].shards())
        chosen = [shards[k] for k in np.linspace(0, len(shards) - 1, samples).astype(int)]
        # The last shard of an axis is cut off by the grid: take whole ones.
        last = max(shards)
        chosen = [tuple(min(i, n - 1) for i, n in zip(shard, last, strict=True)) for shard in chosen]
        from warpgauge.maps import sharded

        sharded._prepare(task, fresh=False)
        jobs = {str(k): (0, shard) for k, shard in enumerate([chosen[samples // 2], *chosen])}
        found = {one.id: one.result() for one in cluster.run(measured_fill, jobs, task)}
        size = sum(file.stat().st_size for file in (Path(folder) / "map.ome.zarr" / "0").rglob("*") if file.is_file())
    rows = [found[str(k)] for k in range(1, samples + 1)]  # the first one compiled the loops
    processor = [row[1] for row in rows]
    peak = max(row[2] for row in found.values())
    yield Row(
        f"a worker's largest memory in {samples} shards of 256^3 of a virtual map of 1 TB ({len(shards)} shards)",
        f"1 GB ({peak / 1e6:.0f} MB)",
        None,
        None,
        peak / 1e9,
        1.0,
        note=f"processor time {min(processor):.0f} to {max(processor):.0f} s per shard, the longer the more "
        f"annotations are within reach; {size / samples / 1e6:.0f} MB stored per shard",
    )


def constant_time(pieces: int = 6) -> Iterator[Row]:
    """Chunks of 64^3 at the centre of maps of 10 GB, 100 GB and 1 TB: the cost does not grow with the map.

    At the centre, since a chunk costs more the more annotations are within the kernel's reach.
    """
    given, times = posterior(), {}
    with only_one_thread(), one_blas_thread():
        for name, side in (("10 GB", 1360), ("100 GB", 2924), ("1 TB", 6300)):
            task = ShardedMap("error", given, cube(side), place_of(Path("never-written.ome.zarr")), transform)
            middle = side // 2
            found = []
            for k in range(pieces):
                low = middle - 64 * (pieces // 2 - k)
                region = (slice(low, low + 64), slice(middle, middle + 64), slice(middle, middle + 64))
                start = time.process_time()
                task.value(task.grid.region_points(region))
                found.append(time.process_time() - start)
            times[name] = min(found)
    told = ", ".join(f"{name}: {1e3 * taken:.0f} ms" for name, taken in times.items())
    yield Row(
        f"processor time of a chunk of 64^3 at the centre of maps of three sizes ({told}), the slowest",
        "the fastest",
        max(times.values()),
        min(times.values()),
        max(times.values()) / min(times.values()),
        1.25,
    )


def _plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    return [Run(f"job-{k}", {"k": k}) for k in range(runs)]


def _compute(data: Path, run: Run) -> dict[str, Any]:
    """A job that does nothing but leave a mark of having been run."""
    with (data / f"{run.key}.mark").open("a") as stream:
        stream.write("x")
    return {"k": run.parameters["k"]}


def _report(results: Any) -> Findings:
    return Findings({"sum": sum(result["k"] for _, result in results)})


SMALL = Experiment("small", "many jobs that do nothing", _JOBS, _plan, _compute, _report)


def study(folder: Path, kind: str, runs: int = _JOBS) -> tuple[float, float]:
    """Run the study of small jobs with 2 workers; seconds by the clock and of this process, without their start."""
    executor = DaskCluster.local(2) if kind == "dask" else ProcessPool(2)
    with executor:
        list(executor.run(_warm, {str(k): k for k in range(8)}))
        start, own = time.perf_counter(), time.process_time()
        run_experiment(SMALL, folder / "data", folder / "out", executor=executor, runs=runs)
        return time.perf_counter() - start, time.process_time() - own


def _warm(shared: None, job: int) -> int:
    return job


def small_jobs() -> Iterator[Row]:
    """A study of 1,000 jobs that do nothing, each result stored: seconds per job."""
    for kind, name in (("pool", "2 processes"), ("dask", "2 Dask workers")):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "data").mkdir()
            taken, own = (seconds / _JOBS for seconds in study(Path(folder), kind))
        yield Row(
            f"overhead of a job in a study of {_JOBS} jobs, {name}",
            f"20 ms ({1e3 * taken:.1f} ms; {1e3 * own:.1f} ms of processor time of client and scheduler)",
            taken,
            0.02,
            taken / 0.02,
            1.0,
        )


def killed_study() -> Iterator[Row]:
    """The same study, its process killed with -9 midway, and run again: how many jobs ran twice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        code = f"import bench_cluster, pathlib; bench_cluster.study(pathlib.Path({name!r}), 'dask')"
        command = [sys.executable, "-c", f"if __name__ == '__main__': {code}"]
        process = subprocess.Popen(command, cwd=Path(__file__).parent)
        stored = folder / "out" / "runs" / "small"
        while process.poll() is None and len(list(stored.glob("*.json"))) < _JOBS // 2:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kept = {file.stem for file in stored.glob("*.json")}
        time.sleep(3)  # the orphaned workers end
        run_experiment(SMALL, folder / "data", folder / "out", runs=_JOBS)
        marks = {file.stem: len(file.read_text()) for file in (folder / "data").glob("*.mark")}
    again = sum(marks[key] > 1 for key in kept)
    running = sum(count > 1 for key, count in marks.items() if key not in kept)
    yield Row(
        f"stored jobs of a study of {_JOBS} that ran again after kill -9 at {len(kept)} of them",
        f"none ({len(marks)} jobs ran; {running} that were running or not yet stored when it was killed ran twice)",
        None,
        None,
        float(again + (len(marks) != _JOBS)),
        0.0,
    )


FIGURES = {
    one.__name__: one for one in (lost_worker, constant_time, virtual_terabyte, small_jobs, killed_study, second_worker)
}


def run() -> Iterator[Row]:
    for figure in FIGURES.values():
        yield from figure()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(FIGURES), nargs="+", default=list(FIGURES))
    parser.add_argument("--json", type=Path, default=Path("bench-output/cluster.json"))
    arguments = parser.parse_args()
    rows = []
    for name in arguments.only:
        before = os.getloadavg()[0]
        for row in FIGURES[name]():
            load = [round(value, 1) for value in (before, os.getloadavg()[0])]
            rows.append({**row.to_dict(), "load": load})
            reached = "reached" if row.reached else "MISSED"
            print(f"{row.ratio:8.2f} (at most {row.limit:.2f}) {reached}  {row.work}\n    against {row.bound}", end="")
            print(f"  {row.note}\n    load {load} on {os.cpu_count()} cores", flush=True)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    # Jobs are functions of the module, not of the script, so that workers find them.
    sys.path.insert(0, str(Path(__file__).parent))
    import bench_cluster

    bench_cluster.main()
