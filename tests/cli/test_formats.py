"""The table of files, the page made from it, the grouped help, and what the bare command says."""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner

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


def test_a_newcomers_commands_print_at_most_ten_lines_and_the_next_command(tmp_path: Path) -> None:
    """On the path of the README, notes included; the rows of the table of `evaluate`, one per method, come on top."""
    import numpy as np
    from PIL import Image
    from scipy import ndimage

    texture = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(140, 160)), 2)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(texture[10:110, 10:130]).save(tmp_path / "fixed.png")
    Image.fromarray(texture[13:113, 6:126]).save(tmp_path / "moving.png")
    fixed = np.random.default_rng(1).uniform([10, 10], [100, 80], (20, 2)).round(1)
    rows = [f"{x},{y},{x + 4},{y - 3}" for x, y in fixed.tolist()]
    (tmp_path / "pairs.csv").write_text("\n".join(["fixed_x,fixed_y,moving_x,moving_y", *rows, ""]))
    for name, shift in (("good", 4.1), ("fair", 3.0), ("poor", 2.0)):
        (tmp_path / f"{name}.txt").write_text(f"1 0 {shift}\n0 1 -3\n0 0 1\n")
    project = tmp_path / "p"
    steps: dict[str, list[object]] = {
        "new": ["--fixed", tmp_path / "fixed.png", "--moving", tmp_path / "moving.png"],
        "import": [tmp_path / "pairs.csv", "--radius", 2],
        "add-transform": [tmp_path / f"{name}.txt" for name in ("good", "fair", "poor")],
        "evaluate": [],
        "suggest": [],
    }
    for command, words in steps.items():
        result = CliRunner().invoke(app, [command, str(project), *map(str, words)])
        assert result.exit_code == 0, result.output
        lines = result.output.splitlines()
        assert len(lines) <= 10 + 4 * (command == "evaluate"), command
        assert command == "evaluate" or any(line.startswith("Next: warpgauge ") for line in lines), command
