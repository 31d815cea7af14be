"""The command reference, generated from the commands: ``python -m warpgauge.cli.reference > docs/commands.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from warpgauge.cli.app import app

_HEAD = """# Command reference

Generated from the commands themselves (`python -m warpgauge.cli.reference > docs/commands.md`); a test compares them.

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
    """Return the page as Markdown."""
    parts = [_HEAD]
    for context in commands(app, root_context()):
        context.terminal_width = context.max_content_width = 100
        parts.append(f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(reference())
