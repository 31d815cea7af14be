"""Defects that were put in on purpose: each is found by the tests that are named beside it (``make mutants``).

``tests/mutants.toml`` holds one table for each defect: ``what`` (in words), ``file`` (below src/warpgauge), ``old`` and
``new`` (text that stands there exactly once, and what replaces it), ``tests`` (files or node ids below tests), and
``seconds`` where a test would not end with the defect. The package is copied, changed and tested; a defect that no test
finds makes the command fail.

    python tests/mutants.py                  all of them
    python tests/mutants.py frame sign       those whose name holds one of these words
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"


def is_found(defect: dict[str, Any], place: Path) -> bool:
    """Whether the tests fail once the defect stands in a copy of the package."""
    source = place / "src"
    shutil.rmtree(source, ignore_errors=True)  # always the same folder: its compiled loops are used again
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "warpgauge" / str(defect["file"])
    text = path.read_text("utf-8")
    if text.count(str(defect["old"])) != 1:
        raise SystemExit(f"{defect['what']}: the text to change does not stand exactly once in {defect['file']}.")
    path.write_text(text.replace(str(defect["old"]), str(defect["new"])), "utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(source), str(TESTS), str(TESTS.parent)]),
        "NUMBA_CACHE_DIR": str(place / "numba"),
        "XDG_STATE_HOME": str(place / "state"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    command += ["--timeout", str(defect.get("seconds", 600))]
    done = subprocess.run(
        [*command, *(str(TESTS / one) for one in defect["tests"])],
        cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(f"{defect['what']}: the tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def main(words: list[str]) -> int:
    """Try the defects and return how many were not found."""
    defects = tomllib.loads((TESTS / "mutants.toml").read_text("utf-8"))
    chosen = {name: one for name, one in defects.items() if not words or any(word in name for word in words)}
    missed = 0
    with tempfile.TemporaryDirectory() as place:
        for name, defect in chosen.items():
            found = is_found(defect, Path(place))
            missed += not found
            print(f"{'found ' if found else 'MISSED'}  {name}: {defect['what']}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} defects are found")
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
