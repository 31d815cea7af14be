"""Fixtures that all tests share."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from postgres_tools import Postgres, find_program

# No deadline: a shared machine may stall any single example. Derandomised: a failure must repeat.
settings.register_profile(
    "warpgauge", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("warpgauge")
# Files are damaged anew in every run; what a run found is repeated by its seed, which all its processes share.
os.environ.setdefault("WARPGAUGE_SEED", str(secrets.randbelow(2**32)))
# Tests against torch and others have an environment of their own: make integrations.
collect_ignore = ["integrations"]
# Which projects are trusted is recorded per person: not in the home of whoever runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="warpgauge-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)


def pytest_report_header() -> str:
    """Say the seed of the damaged files."""
    return f"damaged files: WARPGAUGE_SEED={os.environ['WARPGAUGE_SEED']}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it again where something failed; the first lines may be far away, or not shown."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(pytest_report_header())


@pytest.fixture(autouse=True)
def _no_draws_of_other_tests() -> None:
    """A certificate names draws about the same images elsewhere; tests share their images."""
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]) / "warpgauge" / "draws", ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, started when the first test needs it; without PostgreSQL a reason, or a failure with CI."""
    missing = "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if find_program("initdb") is None:
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of real data, or skip with the reason when it is not at hand."""
    folder = os.environ.get("WARPGAUGE_DATA")
    if not folder:
        pytest.skip("WARPGAUGE_DATA is not set: tests on real data need its folder")
    path = Path(folder)
    if not path.is_dir():
        pytest.skip(f"WARPGAUGE_DATA points to {path.name!r}, which is not a folder")
    return path
