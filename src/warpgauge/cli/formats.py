"""``warpgauge formats``: the files that are read, and how that was verified.

`page` makes the tables of the documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from warpgauge.cli.output import json_option, print_json, print_table
from warpgauge.io.known_files import LANDMARKS, NOT_READ, TRANSFORMS, KnownFile

_COLUMNS = ("program", "files", "format", "version", "direction", "frame", "unit", "verified", "options")


@click.command(epilog="\b\nExamples:\n  warpgauge formats\n  warpgauge formats landmarks\n  warpgauge formats --json")
@click.argument("kind", type=click.Choice(["transforms", "landmarks", "all"]), default="all")
@json_option
def formats(kind: str, as_json: bool) -> None:
    """List the transform and landmark files that are read: program, direction, frame, unit, and how verified."""
    chosen = {"transforms": TRANSFORMS, "landmarks": LANDMARKS}
    chosen = chosen if kind == "all" else {kind: chosen[kind]}
    if as_json:
        print_json({name: [asdict(one) for one in rows] for name, rows in chosen.items()} | {"not read": NOT_READ})
        return
    for name, rows in chosen.items():
        print_table(_COLUMNS[:-2], [_cells(one)[:-2] for one in rows], title=name)
        click.echo()
    click.echo("How each was verified, and what has to be given: docs/formats.md, or --json.")


def _cells(one: KnownFile) -> list[str]:
    return [str(value) for value in asdict(one).values()]


def _markdown(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def page() -> str:
    """Return the page of the documentation as Markdown."""
    columns = (*_COLUMNS[:-1], "needs")
    parts = ["### Transform files\n", _markdown([_cells(one) for one in TRANSFORMS], columns), "\n### Not read\n"]
    parts += [_markdown([list(pair) for pair in NOT_READ.items()], ("file", "what to do")), "\n### Landmark files\n"]
    return "\n".join([*parts, _markdown([_cells(one) for one in LANDMARKS], columns)]) + "\n"
