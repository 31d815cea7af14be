"""``warpgauge verify``: check the integrity of a project."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.output import json_option, print_json
from warpgauge.cli.projects import project_argument


@click.command(epilog="\b\nExample:\n  warpgauge verify lesion")
@project_argument
@json_option
def verify(project: Path, as_json: bool) -> None:
    """Check a PROJECT: hashes of images and transforms, the log's file and chain, and that it can be replayed.

    Nothing is repaired. The exit code is 1 when a problem was found.
    """
    from warpgauge.project.verify import verify_project

    report = verify_project(project)
    if as_json:
        print_json({"ok": report.ok, "problems": list(report.problems), "checked": list(report.checked)})
    else:
        for line in report.checked:
            click.echo(f"ok       {line}")
        for line in report.problems:
            click.echo(f"PROBLEM  {line}")
        click.echo("The project is whole." if report.ok else f"{len(report.problems)} problems were found.")
    if not report.ok:
        raise click.exceptions.Exit(1)
