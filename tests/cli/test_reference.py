"""Every command is documented, has an example, and the generated page is up to date."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from warpgauge.cli.app import COMMANDS, app
from warpgauge.cli.reference import commands, reference, root_context

ROOT = Path(__file__).parent.parent.parent
CONTEXTS = list(commands(app, root_context()))


def test_the_command_reference_is_up_to_date() -> None:
    """If this fails: python -m warpgauge.cli.reference > docs/commands.md."""
    assert (ROOT / "docs" / "commands.md").read_text() == reference()


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda one: one.command_path)
def test_every_command_has_a_summary_and_an_example_that_names_it(context: click.Context) -> None:
    text = context.get_help()
    assert context.command.help
    if not isinstance(context.command, click.Group):
        assert "Example" in text
        assert (
            f"{context.command_path} " in text.split("Example")[1] or context.command_path in text.split("Example")[1]
        )


def test_the_promised_commands_are_there() -> None:
    promised = (
        "demo new info suggest annotate import export fit add-transform evaluate map report simulate verify convert"
    )
    assert set(promised.split()) <= set(COMMANDS)


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
    assert done.stdout.split() == ["plain,export", "plain,experiment"]
