"""A process that runs one registration after the other, so that the programs behind them are loaded once."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

_GOODBYE = 10.0  # seconds for a process to end by itself


class Setting(Protocol):
    """A way to register two images; picklable, so that it can cross to another process."""

    @property
    def name(self) -> str:
        """Name of the result."""
        ...

    def run(self, fixed: Path, moving: Path, folder: Path) -> Path:
        """Register and give the file of a transform that maps fixed to moving points."""
        ...


@dataclass(frozen=True)
class RegistrationResult:
    """What became of one registration: ``path`` on success, ``problem`` (a sentence) otherwise."""

    name: str
    path: Path | None
    seconds: float
    problem: str | None = None


def _serve(fixed: Path, moving: Path, connection: Connection) -> None:
    """Run what comes through the connection until it is closed; what happens in the new process."""
    os.environ["ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS"] = "1"  # the processes share the cores among them
    while True:
        try:
            setting, folder = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        connection.send(_answer(setting, fixed, moving, folder))


def _answer(setting: Setting, fixed: Path, moving: Path, folder: Path) -> tuple[str, str]:
    try:
        return "done", str(setting.run(fixed, moving, folder))
    except BaseException as error:  # whatever it is, the parent must hear of it
        (folder / "error.log").write_text(traceback.format_exc())
        return "failed", f"{type(error).__name__}: {str(error).strip().splitlines()[-1] if str(error).strip() else ''}"


@dataclass
class Worker:
    """A process and the registration that it has at hand.

    After a crash or an end by force the worker is no longer ``usable``, and another one has to take its place. After an
    exception it goes on: the registration programs keep nothing between two calls.
    """

    fixed: Path
    moving: Path
    usable: bool = field(default=True, init=False)
    name: str | None = field(default=None, init=False)
    started: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(self.fixed, self.moving, theirs), daemon=True)
        self.process.start()
        theirs.close()  # so that a crash is seen as the end of the connection

    def begin(self, setting: Setting, folder: Path) -> None:
        """Hand over a registration; its time runs from here."""
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.started = setting.name, time.monotonic()
        with suppress(OSError):  # a process that has died since is found by `result`
            self.connection.send((setting, folder))

    def result(self, time_limit: float) -> RegistrationResult | None:
        """Return the outcome of the current registration, ended here if it took too long; None while it runs."""
        if self.name is None:
            return None
        seconds = time.monotonic() - self.started
        if self.connection.poll():
            found = self._received(self.name, seconds)
        elif seconds > time_limit:
            self.end()
            found = RegistrationResult(self.name, None, seconds, f"not finished within {time_limit:g} s, and ended")
        else:
            return None
        self.name = None
        return found

    def _received(self, name: str, seconds: float) -> RegistrationResult:
        try:
            word, value = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            self.end()
            return RegistrationResult(name, None, seconds, f"the process ended with code {code} and no result")
        return (
            RegistrationResult(name, Path(value), seconds)
            if word == "done"
            else RegistrationResult(name, None, seconds, value)
        )

    def dismiss(self) -> None:
        """Let a process that has nothing at hand end by itself, so that it gives back what it took; else end it."""
        if self.name is None:
            self.connection.close()  # which the process hears
            self.process.join(_GOODBYE)
        self.end()

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.usable = False
        self.process.kill()
        self.process.join()
        self.connection.close()
