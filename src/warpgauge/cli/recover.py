"""``warpgauge recover``: rebuild a damaged or lost log."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.output import json_option, print_json
from warpgauge.cli.projects import project_argument


@click.command(
    epilog="""\b
Examples:
  warpgauge recover lesion --mirror /backup/warpgauge
  warpgauge recover lesion --accept-loss"""
)
@project_argument
@click.option("--mirror", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of the mirror.")
@click.option("--accept-loss", is_flag=True, help="Go on where acknowledged events are gone for good.")
@json_option
def recover(project: Path, mirror: Path | None, accept_loss: bool, as_json: bool) -> None:
    """Rebuild the annotation log of PROJECT from what can be read of it and from a mirror.

    Stop the server first. The former log is kept beside the new one; where acknowledged events are in neither, nothing
    is changed unless you accept the loss. See annotate --mirror.
    """
    from warpgauge.project.recovery import recover_project

    done = recover_project(project, mirror, accept_loss=accept_loss)
    if as_json:
        print_json(vars(done))
    elif not done.kept:
        click.echo(f"The log is whole: {done.events} events; nothing was changed.")
    else:
        lost = f"; {done.lost} acknowledged events are lost" if done.lost else "; no acknowledged event is lost"
        click.echo(
            f"The log was rebuilt with {done.events} events ({done.from_log} from the log, {done.from_mirror} from the "
            f"mirror){lost}. The former log is kept as {done.kept}."
        )
