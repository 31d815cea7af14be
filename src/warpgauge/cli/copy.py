"""``warpgauge copy``: move the log of a project between a file and a database."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.output import json_option, print_json
from warpgauge.cli.projects import project_argument


@click.command(
    epilog="""\b
Examples:
  warpgauge copy lesion postgresql://warpgauge@db.example.org/studies
  warpgauge copy lesion sqlite"""
)
@project_argument
@click.argument("target")
@json_option
def copy(project: Path, target: str, as_json: bool) -> None:
    """Copy the annotation log of PROJECT to TARGET and use it from there.

    TARGET is the address of a PostgreSQL database, for servers on several hosts, or "sqlite" for a file in the
    project's folder. Every event is copied as it is, and project.json then names the database. The former log is kept
    but takes no more events. A password is never stored: set PGPASSWORD, use a passfile (~/.pgpass), or put the whole
    address into WARPGAUGE_DATABASE. Needs the extra "postgres".
    """
    from warpgauge.project.stores import copy_log

    done = copy_log(project, target)
    if as_json:
        print_json(vars(done))
        return
    click.echo(f"{done.events} events were copied from {done.source} to {done.target}, which is used from now on.")
    click.echo(f"The former log is kept as {done.kept}.")
