"""A study of many small pairs and methods: what it costs at first, when it is run again, and with one more method.

Run ``python benchmarks/bench_study.py FOLDER --pairs 1000 --methods 30 --minutes 9`` until it says that it is complete:
what is finished is kept, so that a run ends in time and the next one goes on. Every pair is a random smooth deformation
with 10 landmarks (SD 0.5 px), 40 targets and 100 samples; every method is a displacement field on a 17 x 17 grid, the
deformation plus a smooth error of its own size. Two methods are references. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import warpgauge as wg
from warpgauge.geometry import Grid
from warpgauge.io.landmarks import write_landmarks
from warpgauge.io.transforms import DisplacementField, write_transform
from warpgauge.report import write_leaderboard
from warpgauge.study import Study, pair_store, read_study, run_study, runner

SIDE, NODES, LANDMARKS, TARGETS = 256.0, 17, 10, 40
SETTINGS = "[settings]\nsd = 0.5\nsamples = 100\n\n"


def smooth(points: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    """Return displacements of a root mean square of about ``size``: a few waves across the image."""
    found = np.zeros_like(points)
    for _ in range(4):
        wave, phase = rng.normal(0, 4 / SIDE, (2, 2)), rng.uniform(0, 2 * np.pi, 2)
        found += np.sin(points @ wave + phase)
    return size * found / 2


def make(folder: Path, pairs: int, methods: int) -> Path:
    """Write the files of a study that are not there yet, and one method more than it names."""
    grid = Grid((NODES, NODES), spacing=(SIDE / (NODES - 1),) * 2)
    nodes = np.stack(np.meshgrid(*[np.arange(NODES)] * 2), axis=2).reshape(-1, 2) * SIDE / (NODES - 1)
    names = [f"method{k:02d}" for k in range(methods + 1)]
    for name in ["pairs", *names]:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for n in range(pairs):
        if (folder / names[-1] / f"pair{n:04d}.nrrd").exists():
            continue
        rng = np.random.default_rng([28, n])
        points, seed = rng.uniform(8, SIDE - 8, (LANDMARKS + TARGETS, 2)), int(rng.integers(1 << 30))
        fixed = points[:LANDMARKS]
        true = fixed + smooth(fixed, 8.0, np.random.default_rng(seed))
        moving = true + rng.normal(0, 0.5, fixed.shape)
        write_landmarks(wg.Landmarks(fixed, moving), folder / "pairs" / f"pair{n:04d}.json")
        write_landmarks(wg.Landmarks(points[LANDMARKS:]), folder / "pairs" / f"targets{n:04d}.json")
        for k, name in enumerate(names):
            own = np.random.default_rng([28, n, k])
            moves = smooth(nodes, 8.0, np.random.default_rng(seed)) + smooth(nodes, 0.5 + 0.1 * k, own)
            field = DisplacementField(moves.reshape(NODES, NODES, 2).transpose(2, 0, 1), grid)
            write_transform(field, folder / name / f"pair{n:04d}.nrrd")
    text = 'name = "many pairs"\n\n' + SETTINGS
    for n in range(pairs):
        text += f'[[pair]]\nname = "pair{n:04d}"\nlandmarks = "pairs/pair{n:04d}.json"\n'
        text += f'targets = "pairs/targets{n:04d}.json"\ngroup = "{"ab"[n % 2]}"\n\n'
    for k, name in enumerate(names):
        text += f'[[method]]\nname = "{name}"\ntransform = "{{method}}/{{pair}}.nrrd"\n'
        text += "reference = true\n\n" if k in (5, 15) else "\n"
    path = folder / "study.toml"
    path.write_text(text)
    return path


class TimeUpError(Exception):
    """The minutes of this run are over; what is finished is kept."""


def timed(study: Study, out: Path, workers: int, until: float) -> dict[str, Any]:
    """Run a study and return seconds, processor seconds, and how many pairs were computed."""

    def watch(_: object) -> None:
        if time.monotonic() > until:
            raise TimeUpError

    start, used = time.monotonic(), _processor()
    with clocked(workers) as parts:
        result = run_study(study, out, workers=workers, progress=watch)
    ran = time.monotonic() - start
    board = write_leaderboard(out / "leaderboard.html", result)
    (out / "study.json").write_text(result.to_json())
    return {
        "seconds": ran,
        "processor_seconds": _processor() - used,
        **{f"{name}_processor_seconds": seconds for name, seconds in parts.items()},
        "computed": len(result.computed),
        "seconds_with_pages": time.monotonic() - start,
        "leaderboard_bytes": board.stat().st_size,
        "json_bytes": (out / "study.json").stat().st_size,
        "verdict": result.verdict,
    }


@contextmanager
def clocked(workers: int) -> Iterator[dict[str, float]]:
    """Count the processor time of evaluation, keys, loading, saving and statistics, where all is in one process."""
    parts: dict[str, float] = {}
    if workers > 1:
        yield parts
        return

    def counting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return work(*given, **options)
            finally:
                parts[name] = parts.get(name, 0.0) + time.process_time() - start

        return counted

    with (
        patch.object(runner, "compute_pair", counting("evaluation", runner.compute_pair)),
        patch.object(pair_store, "job_keys", counting("keys", pair_store.job_keys)),
        patch.object(runner.Shelf, "of", counting("loading", runner.Shelf.of)),
        patch.object(runner.Shelf, "put", counting("saving", runner.Shelf.put)),
        patch.object(runner, "summarise", counting("statistics", runner.summarise)),
    ):
        yield parts


def _processor() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def main() -> None:
    """Run what is not finished: the study, the study again, and the study with one more method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--methods", type=int, default=30)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=9.0)
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    whole = read_study(make(given.folder, given.pairs, given.methods))
    few = replace(whole, methods=whole.methods[:-1])
    record = given.folder / "measured.json"
    found: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
    for what, study in (("first", few), ("again", few), ("one more", whole)):
        if found.get(what, {}).get("complete"):
            continue
        start, used = time.monotonic(), _processor()
        earlier = found.get(what, {"parts": []})["parts"]
        try:
            one: dict[str, Any] = {**timed(study, given.folder / "out", given.workers, until), "complete": True}
        except TimeUpError:
            one = {"seconds": time.monotonic() - start, "processor_seconds": _processor() - used}
        memory = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        one["largest_megabytes"] = [round(one) for one in memory]
        found[what] = {"parts": [*earlier, one], "complete": one.get("complete", False)}
        record.write_text(json.dumps(found, indent=1))
        if not one.get("complete"):
            break
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
