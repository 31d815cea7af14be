"""What the commands print: facts for people, JSON for programs, and progress."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import click

from warpgauge.display import number
from warpgauge.io.files import plain

_NAMED_LINE = re.compile(r"[A-Z]+ +")


def quoted(path: object) -> str:
    """Return a path as it has to be typed: in quotes where a shell would cut it."""
    return shlex.quote(str(path))


def print_json(value: Any) -> None:
    """Print JSON to standard output."""
    click.echo(json.dumps(plain(value), indent=2, allow_nan=False))


def print_facts(facts: Mapping[str, Any], title: str = "") -> None:
    """Print names and values below each other; a list of sentences has a line for each."""
    if title:
        click.echo(title)
    width = max((len(name) for name in facts), default=0)
    for name, value in facts.items():
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            lines = value
        elif isinstance(value, list):
            lines = [", ".join(number(item) for item in value) or "none"]
        else:
            lines = [value if isinstance(value, str) else number(value)]
        for place, line in enumerate(lines):
            click.echo(f"  {'' if place else name:<{width}}  {line}")


def paragraph(sentence: str, stream: TextIO | None = None, indent: int = 0) -> str:
    """Return a sentence in lines that fit the terminal, at most 100 columns; whole where nobody looks."""
    if not (stream or sys.stdout).isatty():
        return sentence
    width = min(100, shutil.get_terminal_size().columns)
    after = " " * indent  # before all lines but the first
    return textwrap.fill(sentence, width, subsequent_indent=after, break_long_words=False, break_on_hyphens=False)


def print_verdict(text: str) -> None:
    """Print a table and named lines, such as "BASIS  40 annotations"; the latter fit the terminal."""
    for line in text.splitlines():
        name = _NAMED_LINE.match(line)
        click.echo(line if name is None else paragraph(line, indent=name.end()))


def note(sentence: str) -> None:
    """Print a note to standard error."""
    click.echo(paragraph(f"note: {sentence}", sys.stderr), err=True)


def next_steps(*commands: str) -> None:
    """Name the commands that usually come next."""
    for place, command in enumerate(commands):
        click.echo(f"{'  or' if place else 'Next'}: {command}")


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Return a function (done, total) that shows a bar on a terminal once the work has taken a second."""
    started = time.monotonic()
    bar: Any = None

    def advance(done: int, total: int) -> None:
        nonlocal bar
        if bar is None and sys.stderr.isatty() and time.monotonic() - started > 1:
            bar = click.progressbar(length=total, label=label, file=sys.stderr)
            bar.render_progress()
        if bar is not None:
            bar.length = total
            bar.update(done - bar.pos)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.render_finish()
