"""The options by which every command that runs many jobs is told where to run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from warpgauge.compute import Executor, choose_executor

_Command = TypeVar("_Command", bound=Callable[..., Any])

_SCHEDULER = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run on the workers of a Dask scheduler, as in tcp://host:8786 (docs/scaling.md).",
)
_CLUSTER = click.option("--cluster", metavar="local:N", help="Run on N Dask workers of this machine.")


def cluster_options(command: _Command) -> _Command:
    """Add ``--scheduler`` and ``--cluster``, beside the command's own ``--jobs``."""
    return _SCHEDULER(_CLUSTER(command))


def resume_option(fresh: str) -> Callable[[_Command], _Command]:
    """Return the pair ``--resume/--fresh``; ``fresh`` says what the latter does."""
    words = f"Go on where an earlier run ended (the default); or {fresh}."
    return click.option("--resume/--fresh", default=True, help=words)


def executor_for(jobs: int, scheduler: str | None, cluster: str | None) -> Executor:
    """Return the executor that the options name."""
    return choose_executor(jobs, scheduler=scheduler, cluster=cluster)
