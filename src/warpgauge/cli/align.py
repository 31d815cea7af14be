"""``warpgauge align``: a rough alignment of the two images, proposed, shown, and accepted or refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.arguments import project_argument, rater_option
from warpgauge.cli.output import json_option, print_facts, print_json, quoted

if TYPE_CHECKING:
    from warpgauge.project import Project

PICTURE = "alignment.png"


def propose(project: Project) -> dict[str, Any]:
    """Propose an alignment, draw it, and return its description."""
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
    """Propose a rough alignment of the two images.

    Tries rotations and mirror images, and refines the best by a similarity transform. Look at the picture: it shows the
    fixed image, the aligned moving image, and a checkerboard of both. Then accept (--yes) or refuse (--no) the
    proposal. Once accepted, questions and predictions in PROJECT start from it, with a wide uncertainty. The log
    records who accepted it.
    """
    from warpgauge.project import Project

    with Project.open(project) as opened:
        if accepted is None:
            facts = propose(opened)
        else:
            opened.answer_alignment(accepted, rater)
            record = opened.state.alignment
            assert record is not None
            facts = {"alignment": f"{record.status} by {rater}: {record.method}"}
    if as_json:
        print_json(facts)
        return
    print_facts(facts)
    if accepted is None:
        click.echo(f"\nIs it right? warpgauge align {quoted(project)} --yes   (or --no)")
