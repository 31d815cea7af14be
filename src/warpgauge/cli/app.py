"""The ``warpgauge`` command: finds its subcommands, and turns every error into one sentence and an exit code."""

from __future__ import annotations

import atexit
import difflib
import importlib
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from warpgauge._version import __version__
from warpgauge.errors import WarpgaugeError, WarpgaugeWarning

# Groups of the help page, what a newcomer needs first; in each the commands: module of this package, and a summary. The
# function has the command's name with underscores, and one behind it where Python has that name itself.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "First steps": {
        "demo": ("run", "Run a complete example, from images to a ranking."),
        "new": ("project", "Make a project from two images."),
        "import": ("data", "Import landmarks into a project."),
        "add-transform": ("data", "Add registration results to a project."),
        "evaluate": ("verdict", "Score and rank transforms, with their uncertainty."),
        "report": ("verdict", "Write an HTML report: verdict, table, maps."),
    },
    "Annotate": {
        "annotate": ("annotate", "Open the annotators' page in the browser."),
        "suggest": ("answers", "Suggest the next place to annotate."),
        "undo": ("answers", "Take back an answer, a landmark or an import."),
        "export": ("data", "Write the landmarks of a project to a file."),
        "align": ("project", "Propose a rough alignment of the two images."),
    },
    "Compare": {
        "register": ("run", "Run standard registrations to compare with."),
        "remove-transform": ("data", "Remove a transform from a project."),
        "tre": ("tre", "Print target registration errors of files."),
        "map": ("verdict", "Write a map of errors or uncertainty."),
    },
    "Prove": {
        "certify": ("verdict", "Compare transforms by random audit questions."),
        "unseal": ("answers", "Open the sealed answers for a verdict."),
        "gate": ("verdict", "Test whether a transform is worse than another."),
    },
    "Many pairs": {
        "new-study": ("studies", "Write a study for the data of a challenge."),
        "benchmark": ("studies", "Compare methods over the pairs of a study."),
    },
    "Look after": {
        "info": ("project", "Describe a project or a file."),
        "verify": ("project", "Check that a project is intact, or mend it."),
        "copy": ("project", "Move the log to PostgreSQL, or back."),
    },
}
COMMANDS = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}
# What the bare command says.
BEGIN = """\
warpgauge demo                                  try it: a made pair, registrations, annotations, a report
warpgauge new PROJECT --fixed A --moving B      begin with your own images
warpgauge --help                                all commands"""


class Commands(click.Group):
    """A group that imports a subcommand's module only when that subcommand is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"warpgauge.cli.{COMMANDS[cmd_name]}")
        name = cmd_name.replace("-", "_")
        command = getattr(module, name if hasattr(module, name) else f"{name}_")
        if not isinstance(command, click.Command):
            raise TypeError(f"{cmd_name} is not a command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            if near:
                raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group; the summaries fit into 80 columns."""
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in group.items()])


@click.command(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="warpgauge")
@click.pass_context
def app(context: click.Context) -> None:
    """Measure how good a deformable registration is, and how certain that is, from a few uncertain landmarks.

    Every command has --help with examples. Results go to standard output, notes and progress to standard error. With
    --json, standard output is JSON only. Exit codes: 0 success, 1 failure (one sentence explains why), 2 wrong usage.
    """
    if context.invoked_subcommand is None:
        click.echo(BEGIN)


def _called(arguments: Sequence[str] | None) -> click.Command | None:
    """Return the command that was called."""
    words = [word for word in (sys.argv[1:] if arguments is None else arguments) if not word.startswith("-")]
    return app.get_command(click.Context(app), words[0]) if words else None


def _show_note(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    prefix = "note" if issubclass(category, WarpgaugeWarning) else f"note ({category.__name__})"
    click.echo(f"{prefix}: {message}", err=True)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    warnings.showwarning = _show_note  # one line without the source code of the library
    try:
        result = app.main(args=arguments, prog_name="warpgauge", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return int(leaving.exit_code)
    except (Exception, SystemExit) as failure:
        return _failed(failure, _called(arguments))
    return result if isinstance(result, int) else 0


def _failed(failure: Any, command: click.Command | None) -> int:
    """Say why a command failed in one sentence, and return the exit code.

    A command of which 1 is an outcome has a ``failure_code`` for every failure, and may have a ``usage_code``.
    """
    code = 1
    failure_code: int | None = getattr(command, "failure_code", None)
    if isinstance(failure, click.Abort):
        click.echo("warpgauge: stopped; everything that was already saved is kept.", err=True)
    elif isinstance(failure, click.ClickException):
        failure.show()
        code = failure.exit_code
    elif isinstance(failure, WarpgaugeError):
        click.echo(f"warpgauge: {failure}", err=True)
    elif isinstance(failure, OSError):
        click.echo(f"warpgauge: {failure.filename or 'a file'}: {failure.strerror or failure}.", err=True)
    elif failure_code is None:
        raise failure
    else:
        traceback.print_exception(failure)
    if isinstance(failure, click.UsageError):
        code = failure_code = getattr(command, "usage_code", failure_code or code)
    return code if failure_code is None else failure_code


def main() -> None:
    """Entry point of the installed command."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: worker processes are ended too
    code = run()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # what is left is the interpreter's own ending
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process with an exit code.

    The interpreter's own ending stops a background thread in the middle of whatever it does, and one that is inside
    the compiler at that moment (a server that ends soon after its start) makes the C++ library abort the process.
    """
    if any(thread.daemon for thread in threading.enumerate()):
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):  # a pipe that nobody reads any more
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
