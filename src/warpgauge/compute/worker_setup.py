"""What a Dask worker of this machine loads when it starts: Ctrl-C reaches the whole group, and its owner decides."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Ignore interrupts; called by Dask in the worker's main thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
