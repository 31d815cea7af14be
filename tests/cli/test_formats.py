"""The table of files, the page made from it, the grouped help, and what the bare command says."""

from __future__ import annotations

from pathlib import Path

import click

from command_tools import ask, call
from warpgauge.cli.app import COMMANDS, GROUPS, app
from warpgauge.io.landmarks import FORMAT_NAMES
from warpgauge.io.transforms import FORMATS


def test_every_format_is_in_the_table_and_every_row_is_a_format() -> None:
    """A format cannot be added without saying who writes it and how it was verified."""
    told = ask("info", "--formats")
    named = {name for row in told["transforms"] for name in row["format"].split(", ")}
    assert named == set(FORMATS) - {"callable"}
    assert {name for row in told["landmarks"] for name in row["format"].split(", ")} == set(FORMAT_NAMES)
    assert all(
        row["verified"] and row["version"] for rows in ("transforms", "landmarks", "images") for row in told[rows]
    )


def test_the_table_is_printed() -> None:
    assert "NiftyReg" in call("info", "--formats")


def test_help_has_groups_at_80_columns_and_the_bare_command_three_lines() -> None:
    """``--help`` shows every command with a whole summary, a newcomer's first; without an argument there are three."""
    text = app.get_help(click.Context(app, info_name="warpgauge", terminal_width=80))
    places = [text.index(f"{title}:") for title in GROUPS]
    assert places == sorted(places)
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.split("First steps:")[1]
    for name in COMMANDS:
        command = app.get_command(click.Context(app), name)
        assert command is not None
        page = command.get_help(click.Context(command, info_name=f"warpgauge {name}", terminal_width=80))
        assert max(map(len, page.splitlines())) <= 80, name
    for name, (_, summary) in (entry for group in GROUPS.values() for entry in group.items()):
        assert f"\n  {name} " in text
        assert summary in text
    assert "Did you mean 'evaluate'" in call("evaluat", code=2)
    lines = call().strip().split("\n")
    assert len(lines) == 3
    assert lines[0].startswith("warpgauge demo")


def test_hints_quote_paths(tmp_path: Path) -> None:
    """A project in a folder with a space is quoted wherever a command is proposed."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(1)
    for side in ("fixed", "moving"):
        blocks = np.kron(rng.integers(0, 255, (12, 12)), np.ones((10, 10))).astype(np.uint8)
        Image.fromarray(blocks).save(tmp_path / f"{side}.png")
    folder = tmp_path / "my project"
    said = call("new", folder, "--fixed", tmp_path / "fixed.png", "--moving", tmp_path / "moving.png")
    assert f"Next: warpgauge import '{folder}'" in said
    assert f"warpgauge annotate '{folder}'" in said
    assert f"warpgauge annotate '{folder}'" in call("suggest", folder)
