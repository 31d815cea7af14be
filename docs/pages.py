"""Pages that are built from the program at `make docs`: the command reference and the tables of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from warpgauge.cli.app import app
from warpgauge.io.formats import rows
from warpgauge.io.images.reader import FORMATS as IMAGES
from warpgauge.io.landmarks.registry import FORMATS as LANDMARKS
from warpgauge.io.transforms import NOT_READ, TABLE

MANY = 4
_HEAD = """# Command reference

Every command has `--help`. Options that many commands share are listed once:

{shared}

Shell completion: `eval "$(_WARPGAUGE_COMPLETE=bash_source warpgauge)"` in bash, `zsh_source` in zsh, and
`_WARPGAUGE_COMPLETE=fish_source warpgauge | source` in fish.
"""


def _context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    """Make a context as a call would, settings of the command and its parents included."""
    return command.make_context(name, [], parent, resilient_parsing=True)


def root_context() -> click.Context:
    """Return the context of the program itself."""
    return _context(app, "warpgauge")


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """Walk through a command and all of its subcommands."""
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from commands(child, _context(child, name, context))


def reference() -> str:
    """Return the page as Markdown; options that at least `MANY` commands have in the same words are listed once."""
    contexts = list(commands(app, root_context()))
    options = [one for context in contexts for one in context.command.params if isinstance(one, click.Option)]
    seen = Counter((one.opts[0], one.help) for one in options if one.help)
    shared = {key: text for (key, text), number in seen.items() if number >= MANY}
    lines = [f"- `{name}`: {text}" for name, text in sorted(shared.items())]
    parts = [_HEAD.format(shared="\n".join(lines))]
    for context in contexts:
        context.terminal_width = context.max_content_width = 100
        with _without(context.command, shared) as taken:
            also = f"\n\n  Also: {', '.join(taken)}" if taken else ""
            parts.append(f"## {context.command_path}\n\n```text\n{context.get_help()}{also}\n```\n")
    return "\n".join(parts)


@contextmanager
def _without(command: click.Command, shared: Mapping[str, str | None]) -> Iterator[list[str]]:
    """Take the shared options, and that of help, off a command for a while; yield the names of those taken."""
    before, helped = command.params, command.add_help_option
    taken = [one for one in before if isinstance(one, click.Option) and shared.get(one.opts[0], "") == one.help]
    command.params = [one for one in before if one not in taken]
    command.add_help_option = False
    try:
        yield [one.opts[0] for one in taken]
    finally:
        command.params, command.add_help_option = before, helped


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def formats() -> str:
    """Return the page of formats as Markdown."""
    columns = ("program", "files", "format", "version", "direction", "frame", "unit", "verified", "needs")
    transforms = [list(row.values()) for row in rows(TABLE)]
    landmarks = [list(row.values()) for row in rows(LANDMARKS.values())]
    parts = ["### Transform files\n", table(columns, transforms), "\n### Not read\n"]
    parts += [
        table(("file", "what to do"), list(NOT_READ.items())),
        "\n### Landmark files\n",
        table(columns, landmarks),
        "\n### Images\n",
        table(columns, [list(row.values()) for row in rows(IMAGES)]),
    ]
    return "\n".join(parts) + "\n"
