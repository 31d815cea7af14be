"""Results of runs on disk, each with a fingerprint of its inputs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpgauge._version import __version__
from warpgauge.experiments.experiment import Run
from warpgauge.io.plain import plain
from warpgauge.report.files import replace_text


def as_text(value: Any) -> str:
    """Return JSON text with numbers at full precision."""
    return json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def fingerprint(experiment: str, run: Run, hashes: Mapping[str, str]) -> str:
    """Return a hash of the run's parameters, the data and the version of the program."""
    known = [experiment, run.key, plain(run.parameters), __version__, dict(hashes)]
    return "sha256:" + hashlib.sha256(json.dumps(known, sort_keys=True, allow_nan=False).encode()).hexdigest()


def keep(place: Path, run: Run, mark: str, result: dict[str, Any], seconds: float) -> None:
    """Store a result, whole or not at all."""
    record = {"fingerprint": mark, "parameters": run.parameters, "seconds": seconds, "result": result}
    replace_text(place / f"{run.key}.json", as_text(record))


def kept_result(place: Path, run: Run, mark: str) -> dict[str, Any] | None:
    """Return the stored result of a run if it was made from the same parameters and data by the same version."""
    try:
        record = json.loads((place / f"{run.key}.json").read_text())
        result = record["result"] if record["fingerprint"] == mark else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return result if isinstance(result, dict) else None


def compute_seconds(out: str | os.PathLike[str], name: str) -> float:
    """Return the processor time, in seconds, that the kept runs of an experiment took together."""
    files = sorted((Path(out) / "runs" / name).glob("*.json"))
    return float(sum(json.loads(file.read_text())["seconds"] for file in files))
