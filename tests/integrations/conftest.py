"""Fixtures of the tests against other programs; the other tests' conftest is not loaded (--confcutdir)."""

from __future__ import annotations

import os
import tempfile

import pytest

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="warpgauge-integrations-")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run where a test was skipped: this environment is there for what others skip."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped") and session.exitstatus == pytest.ExitCode.OK:
        reporter.write_line("\na test was skipped, but make integrations has to run them all", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
