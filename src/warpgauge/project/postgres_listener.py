"""A thread that hears from PostgreSQL when another server has written to one of the open projects (LISTEN, NOTIFY)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from warpgauge.io.files import require
from warpgauge.project.postgres_connection import CHANNEL, connect

_LOOK_SECONDS = 0.5  # between two checks whether to end
_AGAIN_SECONDS = 1.0  # after a lost connection
_listeners: dict[tuple[str, int], _Listener] = {}
_lock = threading.Lock()


def listen(address: str, project_id: str, wake: Callable[[], None]) -> Callable[[], None]:
    """Have ``wake`` called when events of a project were written; all projects of a database share one connection.

    Parameters
    ----------
    address : str
        Of the database.
    project_id : str
    wake : callable
        Called from another thread, also once after each connection: something may have been missed before it.

    Returns
    -------
    callable
        Ends that; with the last project of the database the thread and its connection end.
    """
    key = address, os.getpid()
    with _lock:
        listener = _listeners.get(key)
        if listener is None:
            listener = _listeners[key] = _Listener(address)
        listener.wakes.append((project_id, wake))
    wake()  # where the connection stood already

    def stop() -> None:
        with _lock:
            with suppress(ValueError):
                listener.wakes.remove((project_id, wake))
            ends = not listener.wakes and _listeners.get(key) is listener
            if ends:
                del _listeners[key]
        if ends:
            listener.stop()

    return stop


class _Listener:
    """Begins at once, and again after a lost connection; ``wakes`` are project and what to call."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.wakes: list[tuple[str, Callable[[], None]]] = []
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
        for _, wake in list(self.wakes):
            wake()
        while not self._over.is_set():
            for notice in connection.notifies(timeout=_LOOK_SECONDS):
                for project_id, wake in list(self.wakes):
                    if project_id == notice.payload:
                        wake()
                if self._over.is_set():
                    return
