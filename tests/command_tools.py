"""The command line within a test's own process."""

from __future__ import annotations

import io
import json
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from warpgauge.cli.app import run


def call(*arguments: object, code: int = 0) -> str:
    """Run a command as its entry point does and check its exit code; return what it printed, or its error."""
    out, err = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("default")  # notes are printed, as for a user
        result = run([str(one) for one in arguments])
    assert result == code, err.getvalue()
    return out.getvalue() if code == 0 else err.getvalue()


def ask(*arguments: object) -> Any:
    """Run a command with ``--json`` and return what it says."""
    return json.loads(call(*arguments, "--json"))
