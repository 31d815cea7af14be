"""``warpgauge align``: a rough alignment of the two images, proposed, shown, and accepted or refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.arguments import project_argument, rater_option
from warpgauge.cli.output import json_option, print_facts, print_json

if TYPE_CHECKING:
    from warpgauge.project import Project

PICTURE = "alignment.png"


def propose(project: Project) -> dict[str, Any]:
    """Propose an alignment, draw it, and return what there is to say about it."""
    from warpgauge.errors import MissingExtraError
    from warpgauge.project.alignments import write_picture

    found = project.propose_alignment()
    picture: str | None = str(project.folder / PICTURE)
    try:
        write_picture(project, found, project.folder / PICTURE)
    except MissingExtraError:
        picture = None
    return {"alignment": f"proposed: {found.method}", "picture": picture}


@click.command(
    epilog="""\b
Examples:
  warpgauge align lesion
  warpgauge align lesion --yes --rater ann
  warpgauge align lesion --no"""
)
@project_argument
@click.option("--yes/--no", "accepted", default=None, help="Accept or refuse what was proposed.")
@rater_option
@json_option
def align(project: Path, accepted: bool | None, rater: str, as_json: bool) -> None:
    """Propose a rough alignment of the two images of a PROJECT, or accept (--yes) or refuse (--no) it.

    Turns and mirrorings are tried, then a similarity is refined. Look at the picture: the fixed image, the moving one
    laid on it, and a checkerboard of both. Once accepted, questions and predictions start from it, with a wide
    uncertainty; the log records who accepted it.
    """
    from warpgauge.project import Project

    with Project.open(project) as opened:
        if accepted is None:
            facts = propose(opened)
        else:
            event = opened.answer_alignment(accepted, rater)
            said = "accepted" if accepted else "refused"
            facts = {"alignment": f"{said} by {rater}: {event.payload['method']}"}
    if as_json:
        print_json(facts)
        return
    print_facts(facts)
    if accepted is None:
        click.echo(f"\nIs it right? warpgauge align {project} --yes   (or --no)")
