"""The ``warpgauge`` command: finds its subcommands, and turns every error into one sentence and an exit code.

Messages of the library are shown in the words of the command line: ``match='name'`` becomes ``--match name``.
"""

from __future__ import annotations

import ast
import atexit
import importlib
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import click

from warpgauge._version import __version__
from warpgauge.errors import ANY, WarpgaugeError, WarpgaugeWarning, Wording, told

# Arguments of the library, and the options that stand for them in messages, the likelier first.
OPTIONS: dict[str, tuple[str, ...]] = {
    "accept_changed": ("--accept-changed",),
    "components": ("--components",),
    "convention": ("--convention",),
    "dimension": ("--dimension",),
    "direction": ("--direction",),
    "fixed_grid": ("--fixed-image",),
    "format": ("--format", "--from"),
    "frame": ("--frame",),
    "fresh": ("--fresh",),
    "grid": ("--reference", "--fixed-image"),
    "layout": ("--layout",),
    "lossy": ("--lossy",),
    "match": ("--match",),
    "moving": ("--moving-image",),
    "moving_grid": ("--moving-image",),
    "reference": ("--reference", "--fixed-image"),
    "replace": ("--replace",),
    "scale": ("--scale",),
    "spacing": ("--spacing",),
    "units": ("--units",),
}


class Options(Wording):
    """Names arguments as options of the command line.

    Parameters
    ----------
    available : collection of str
        The options of the command at hand; among several that could stand for an argument, the one it has is named.
    """

    def __init__(self, available: Collection[str] = ()) -> None:
        self.available = available

    def argument(self, name: str, value: Any) -> str:
        """Return the option that stands for an argument, with its value; other arguments stay as Python has them."""
        if name not in OPTIONS:
            return super().argument(name, value)
        choices = OPTIONS[name]
        chosen = next((one for one in choices if one in self.available), choices[0])
        if value is None or value is True or value == ANY:
            return chosen
        return f"{chosen} {value:g}" if isinstance(value, float) else f"{chosen} {value}"

    def relink(self, role: str, accept: bool) -> str:
        """Return the command that links an image of a project again."""
        return f"warpgauge relink PROJECT --{role.replace('_', '-')} PATH{' --accept-changed' if accept else ''}"


# Groups of the help page, and in each the commands: module of this package, and function in it.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "demo": ("demo", "demo"),
        "new": ("new", "new"),
        "align": ("align", "align"),
        "info": ("info", "info"),
        "formats": ("formats", "formats"),
    },
    "Annotate": {
        "annotate": ("annotate", "annotate"),
        "suggest": ("annotation", "suggest"),
        "undo": ("annotation", "undo"),
        "import": ("landmarks", "import_"),
        "export": ("landmarks", "export"),
    },
    "Compare": {
        "register": ("register", "register"),
        "add-transform": ("transforms", "add_transform"),
        "remove-transform": ("transforms", "remove_transform"),
        "unseal": ("unseal", "unseal"),
        "evaluate": ("evaluate", "evaluate"),
        "certify": ("certify", "certify"),
        "gate": ("gate", "gate"),
        "tre": ("tre", "tre"),
        "map": ("map_", "map_"),
        "report": ("report", "report"),
    },
    "Many pairs": {
        "new-study": ("new_study", "new_study"),
        "check-submission": ("check_submission", "check_submission"),
        "benchmark": ("benchmark", "benchmark"),
        "serve": ("serve", "serve"),
    },
    "Look after": {
        "copy": ("maintenance", "copy"),
        "recover": ("maintenance", "recover"),
        "verify": ("maintenance", "verify"),
        "relink": ("maintenance", "relink"),
    },
}
COMMANDS: dict[str, tuple[str, str]] = {name: place for group in GROUPS.values() for name, place in group.items()}
# What the bare command says.
BEGIN = """\
warpgauge demo                                  try it: a made pair, three registrations, annotations, a report
warpgauge new PROJECT --fixed A --moving B      begin with your own images
warpgauge --help                                all commands"""


class _Lazy(click.Group):
    """A group that imports a subcommand's module only when that subcommand is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(f"warpgauge.cli.{module}"), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{cmd_name} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            limit = formatter.width - 6 - width
            lines = [(name, click.Command(name, help=_help_text(name)).get_short_help_str(limit)) for name in group]
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in lines])


@cache
def _docstrings(module: str) -> dict[str, str]:
    """Docstrings of the functions of a module of this package, read from its source: importing it takes far longer."""
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text("utf-8"))
    return {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}


def _help_text(command_name: str) -> str:
    module, function = COMMANDS[command_name]
    return _docstrings(module).get(function, "")


@click.command(
    cls=_Lazy,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
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


def _called(arguments: Sequence[str] | None) -> click.Command:
    """Return the command that the arguments call."""
    command: click.Command = app
    for word in sys.argv[1:] if arguments is None else arguments:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word) or command
    return command


def _show_note(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    prefix = "note" if issubclass(category, WarpgaugeWarning) else f"note ({category.__name__})"
    click.echo(f"{prefix}: {told(message, Options())}", err=True)


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


def _failed(failure: BaseException, command: click.Command) -> int:
    """Say why a command failed, and return the exit code: its ``failure_code``, where it has one for every failure."""
    code = 1
    if isinstance(failure, click.Abort):
        click.echo("warpgauge: stopped; everything that was already saved is kept.", err=True)
    elif isinstance(failure, click.ClickException):
        failure.show()
        code = int(failure.exit_code)
    elif isinstance(failure, WarpgaugeError):
        options = {option for parameter in command.params for option in parameter.opts}
        click.echo(f"warpgauge: {told(failure, Options(options))}", err=True)
    elif isinstance(failure, OSError):
        click.echo(f"warpgauge: {failure.filename or 'a file'}: {failure.strerror or failure}.", err=True)
    elif not hasattr(command, "failure_code"):
        raise failure
    else:
        traceback.print_exception(failure)
    if isinstance(failure, click.UsageError) and hasattr(command, "usage_code"):
        return int(command.usage_code)
    return int(getattr(command, "failure_code", code))


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
