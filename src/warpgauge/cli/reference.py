"""The command reference, generated from the commands: ``python -m warpgauge.cli.reference > docs/commands.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from warpgauge.cli.app import app

SHARED = {"--cluster", "--json", "--scheduler", "--trust"}
_HEAD = """# Command reference

Generated from the commands themselves (`python -m warpgauge.cli.reference > docs/commands.md`); a test compares them.
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
    """Return the page as Markdown."""
    found: dict[str, str] = {}
    parts = []
    for context in commands(app, root_context()):
        context.terminal_width = context.max_content_width = 100
        with _without_shared(context.command) as shared:
            parts.append(f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n")
        found |= {one.opts[0]: one.help or "" for one in shared if isinstance(one, click.Option)}
    lines = [f"- `{name}`: {text}" for name, text in sorted(found.items())]
    return "\n".join([_HEAD.format(shared="\n".join(lines)), *parts])


@contextmanager
def _without_shared(command: click.Command) -> Iterator[list[click.Parameter]]:
    """Take the options that many commands share, and that of help, off a command for a while; yield what was taken."""
    before, helped = command.params, command.add_help_option
    command.params = [one for one in before if not SHARED & set(one.opts)]
    command.add_help_option = False
    try:
        yield [one for one in before if SHARED & set(one.opts)]
    finally:
        command.params, command.add_help_option = before, helped


if __name__ == "__main__":
    sys.stdout.write(reference())
