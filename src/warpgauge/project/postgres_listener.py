"""A thread that hears from PostgreSQL when another server has written to a project (LISTEN and NOTIFY)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from warpgauge.io.files import require
from warpgauge.project.postgres_connection import CHANNEL, connect

_LOOK_SECONDS = 0.5  # between two checks whether to end
_AGAIN_SECONDS = 1.0  # after a lost connection


class Listener:
    """Calls back when events of a project were written; begins at once, and again after a lost connection.

    Parameters
    ----------
    address : str
        Of the database.
    project_id : str
    wake : callable
        Called from this thread, also once after each connection: something may have been missed before it.
    """

    def __init__(self, address: str, project_id: str, wake: Callable[[], None]) -> None:
        self._address, self._id, self._wake = address, project_id, wake
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warpgauge-listen", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and its connection."""
        self._over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(10)

    def _run(self) -> None:
        psycopg = require("psycopg", "postgres")
        while not self._over.is_set():
            connection = None
            try:
                connection = connect(self._address)
                connection.execute(f"LISTEN {CHANNEL}")
                self._hear(connection)
            except psycopg.Error:
                self._over.wait(_AGAIN_SECONDS)  # requests say what is wrong; this only tries again
            finally:
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()

    def _hear(self, connection: Any) -> None:
        self._wake()
        while not self._over.is_set():
            for notice in connection.notifies(timeout=_LOOK_SECONDS):
                if notice.payload == self._id:
                    self._wake()
                if self._over.is_set():
                    return
