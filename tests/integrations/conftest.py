"""Fixtures of the tests against other programs; the other tests' conftest is not loaded (--confcutdir)."""

from __future__ import annotations

import os
import tempfile

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="warpgauge-integrations-")
