"""``warpgauge relink``: update the paths of a project's images."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.output import json_option, print_facts, print_json
from warpgauge.cli.paths import ImagePath
from warpgauge.cli.projects import project_argument
from warpgauge.errors import InvalidInputError
from warpgauge.io.stores import Place

_IMAGE = ImagePath()


@click.command(
    epilog="""\b
Examples:
  warpgauge relink lesion --moving /new/place/ki67.png
  warpgauge relink lesion --fixed he.tif --moving ki67.tif --accept-changed"""
)
@project_argument
@click.option("--fixed", type=_IMAGE, help="Where the fixed image is now.")
@click.option("--moving", type=_IMAGE, help="Where the moving image is now.")
@click.option("--fixed-mask", type=_IMAGE, help="Where the fixed image's mask is now.")
@click.option("--moving-mask", type=_IMAGE, help="Where the moving image's mask is now.")
@click.option("--accept-changed", is_flag=True, help="Take a file with another content; its frame must be the same.")
@json_option
def relink(project: Path, accept_changed: bool, as_json: bool, **images: Place | None) -> None:
    """Update the paths of images that were moved or renamed; the log of PROJECT records the change."""
    from warpgauge.project import Project

    if not any(images.values()):
        raise InvalidInputError("relink needs at least one of --fixed, --moving, --fixed-mask and --moving-mask.")
    with Project.open(project, check_images=False) as opened:
        opened.relink(accept_changed=accept_changed, **images)  # type: ignore[arg-type]  # options of that name only
        facts = {role: record.path for role, record in opened.document.images.items()}
        problems = opened.image_problems()
    print_json({"images": facts, "problems": problems}) if as_json else print_facts(facts)
    for problem in problems:
        click.echo(f"note: {problem}", err=True)
