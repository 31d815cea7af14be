"""Every command is documented, and has an example."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

import warpgauge
from warpgauge.cli.app import COMMANDS, app

CONTEXTS = [click.Context(app.get_command(click.Context(app), name), info_name=name) for name in COMMANDS]


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda one: one.info_name)
def test_every_command_has_a_summary_and_an_example_that_names_it(context: click.Context) -> None:
    text = context.get_help()
    assert context.command.help
    assert f"warpgauge {context.info_name}" in text.split("Example")[1]


def test_the_promised_commands_are_there() -> None:
    promised = (
        "demo new align info annotate suggest undo import export register add-transform remove-transform evaluate "
        "report map certify unseal gate new-study benchmark verify copy"
    )
    assert set(promised.split()) <= set(COMMANDS)


def test_the_package_runs_as_a_module() -> None:
    """Where the script is not on the path, `python -m warpgauge` is the same program, with its exit code."""
    words = [sys.executable, "-m", "warpgauge"]
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"warpgauge, version {warpgauge.__version__}\n"
    refused = subprocess.run([*words, "info", "nowhere"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "nowhere" in refused.stderr


def test_shell_completion_offers_commands() -> None:
    """What bash asks the program when a user types `warpgauge exp<TAB>`."""
    executable = Path(sys.executable).with_name("warpgauge")
    environment = {
        **os.environ,
        "_WARPGAUGE_COMPLETE": "bash_complete",
        "COMP_WORDS": "warpgauge exp",
        "COMP_CWORD": "1",
    }
    done = subprocess.run([executable], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,export"]


def test_the_help_page_loads_nothing_heavy() -> None:
    code = "import sys\nfrom warpgauge.cli.app import run\nrun(['--help'])\nprint(sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Measure how good" in done.stdout
    for heavy in ("numpy", "numba", "scipy", "rich", "warpgauge.cli.project"):
        assert f"'{heavy}'" not in done.stderr
