"""A PostgreSQL server of the tests' own: an ordinary user's, on a free loopback port, in a temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

ROLE = "warpgauge"
# No write reaches the disk: what is tested is what the program does, not what a power cut does to PostgreSQL.
_FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=60", "autovacuum=off",
         "listen_addresses=127.0.0.1", "unix_socket_directories=", "log_min_messages=warning")  # fmt: skip


def find_program(name: str) -> Path | None:
    """Return a program of PostgreSQL; Debian keeps the server's out of the path."""
    found = shutil.which(name)
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return Path(found) if found else places[-1] if places else None


def ordinary_user() -> dict[str, Any]:
    """Return as whom to run it: PostgreSQL refuses root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            person = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": person.pw_uid, "group": person.pw_gid, "extra_groups": []}
    raise RuntimeError("there is no user 'postgres' or 'nobody' to run PostgreSQL as")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Postgres:
    """A server; ``stop`` and ``start`` keep its data."""

    def __init__(self) -> None:
        program = find_program("initdb")
        assert program is not None
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="warpgauge-postgres-"))
        self._person = ordinary_user()
        self._process: subprocess.Popen[bytes] | None = None
        if self._person:
            os.chown(self._folder, self._person["user"], self._person["group"])
        command = [str(program), "-D", str(self._folder / "data"), "-A", "trust", "-U", ROLE, "--no-sync", "-E", "UTF8"]
        self._run([*command, "--locale=C", "--no-instructions"])
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/postgres"

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **self._person)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        program = find_program("postgres")
        command = [str(program), "-D", str(self._folder / "data"), "-p", str(self.port)]
        for option in _FAST:
            command += ["-c", option]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._person)
        end = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < end, "PostgreSQL did not start"
                time.sleep(0.05)

    def stop(self) -> None:
        """End it and cut all connections, as an administrator's restart does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)

    def crash(self) -> None:
        """End all its processes at once, without any of them finishing what it does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(60)

    def cut(self) -> int:
        """Cut all connections but this one, and return how many there were."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'warpgauge'"
            )
            return len(rows.fetchall())

    def lose(self, project: str, after: int) -> None:
        """Make the database what an older backup of it is: without the later events."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("ALTER TABLE warpgauge.events DISABLE TRIGGER USER")
            connection.execute("DELETE FROM warpgauge.events WHERE project = %s AND generation > %s", (project, after))
            if after == 0:
                connection.execute("DELETE FROM warpgauge.projects WHERE id = %s", (project,))
            connection.execute("ALTER TABLE warpgauge.events ENABLE TRIGGER USER")

    def new_database(self, name: str) -> str:
        """Make an empty database and return its address."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"{self.url.rpartition('/')[0]}/{name}"

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
