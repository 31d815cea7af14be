"""What the commands print: tables and notes for people, JSON for programs, and progress."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from warpgauge.display import number
from warpgauge.errors import told
from warpgauge.io.files import plain

__all__ = ["json_option", "number", "print_facts", "print_json", "print_table", "progress", "quoted"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def quoted(path: object) -> str:
    """Return a path as it has to be typed: in quotes where a shell would cut it."""
    return shlex.quote(str(path))


def print_json(value: Any) -> None:
    """Print JSON to standard output."""
    click.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def _console() -> Console:
    # Without a terminal rich would fold at 80 columns; a pipe or a file gets whole lines.
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=160)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    """Print a table; numbers stand to the right."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        numeric = all(isinstance(row[position], int | float | np.number) or row[position] is None for row in rows)
        table.add_column(column, justify="right" if numeric and rows else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, str) else number(cell) for cell in row))
    console = _console()
    if title:  # not as the table's own title, which would be folded to the width of the table
        console.print(title, style="italic", markup=False, soft_wrap=True)
    console.print(table)


def print_facts(facts: Mapping[str, Any], title: str | None = None) -> None:
    """Print names and values below each other; arguments that the library names are shown as options."""
    from warpgauge.cli.app import Options

    if title:
        click.echo(title)
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            lines = [told(item, Options()) for item in value]
        elif isinstance(value, list):
            lines = [", ".join(number(item) for item in value) or "none"]
        else:
            lines = [told(value, Options()) if isinstance(value, str) else number(value)]
        for place, line in enumerate(lines):
            click.echo(f"  {'' if place else name:<{width}}  {line}")


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Return a function (done, total) that shows a bar on standard error once the work has taken a second."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeRemainingColumn(),
        console=console, transient=True,
    )  # fmt: skip
    started = time.monotonic()
    task = bar.add_task(label, total=None)
    shown = False

    def advance(done: int, total: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started > 1:
            bar.start()
            shown = True
        bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        if shown:
            bar.stop()
