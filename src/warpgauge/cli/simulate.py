"""``warpgauge simulate``: deform an image by a known field, or let a simulated expert annotate a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from warpgauge.cli.arguments import EXISTING, NEW, project_argument, rater_option, seed_option
from warpgauge.cli.output import json_option, print_facts, print_json, progress
from warpgauge.errors import InvalidInputError


@click.group()
def simulate() -> None:
    """Make images with a known deformation, and let simulated experts annotate."""


@simulate.command(
    epilog="""\b
Examples:
  warpgauge simulate deform he.png deformed.tif --amplitude 12 --spacing 96 --truth truth.nrrd"""
)
@click.argument("image", type=EXISTING)
@click.argument("out", type=NEW)
@click.option("--amplitude", type=float, required=True, help="SD of the velocity at the control points, world units.")
@click.option("--spacing", type=float, required=True, help="Distance of the control points, world units.")
@seed_option
@click.option("--truth", type=NEW, help="Write the true displacements (fixed to moving) here: .nii.gz, .nrrd or .mha.")
@json_option
def deform(image: Path, out: Path, as_json: bool, **options: Any) -> None:
    """Deform IMAGE by a smooth random deformation.

    Writes the deformed image to OUT (.nrrd, .nii.gz or .tif) in the image's frame. Only .tif can store that an image
    is in pixels; for other formats a note says which unit readers will assume.
    """
    from warpgauge.candidates import to_gray
    from warpgauge.io.images import read_image
    from warpgauge.io.transforms import write_transform
    from warpgauge.maps import write_map
    from warpgauge.simulate import random_deformation, warp_image

    source = read_image(image)
    gray, rule = to_gray(source.read(), source.grid.d)
    truth = random_deformation(source.grid, options["amplitude"], options["spacing"], options["seed"])
    write_map(warp_image(gray.astype(np.float32), source.grid, truth, fill=float(np.median(gray))), source.grid, out)
    if options["truth"] is not None:
        write_transform(truth, options["truth"], grid=source.grid)
    read_as = read_image(out).grid.units
    if read_as != source.grid.units:
        click.echo(
            f"note: {out.name} cannot say that it is in {source.grid.units} and will be read as {read_as}; "
            f"give warpgauge new --units {source.grid.units}, or write .tif.",
            err=True,
        )
    points = source.grid.points()
    lengths = np.linalg.norm(truth.map(points) - points, axis=1)
    facts = {
        "written": str(out),
        "grey": rule,
        "mean displacement": float(np.nanmean(lengths)),
        "largest displacement": float(np.nanmax(lengths)),
    }
    print_json(facts) if as_json else print_facts(facts)


@simulate.command(
    epilog="""\b
Example:
  warpgauge simulate annotate lesion --truth truth.nrrd --count 40 --user ellipses"""
)
@project_argument
@click.option("--truth", type=EXISTING, required=True, help="The true transform.")
@click.option("--count", type=int, default=40, show_default=True, help="Queries to answer.")
@click.option(
    "--user",
    type=click.Choice(["isotropic", "ellipses"]),
    default="ellipses",
    show_default=True,
    help="isotropic: the default disc. ellipses: the paper's log-normal ellipses, in pixels.",
)
@click.option("--scale", type=float, default=1.0, show_default=True, help="Factor on the size of the ellipses.")
@seed_option
@rater_option
@json_option
def annotate(project: Path, truth: Path, rater: str, as_json: bool, **options: Any) -> None:
    """Let a simulated expert answer the next queries of PROJECT.

    The expert knows the true transform and makes errors like the users in the paper.
    """
    from warpgauge.demo.simulated_expert import answer_queries
    from warpgauge.io.transforms import read_transform
    from warpgauge.project import Project
    from warpgauge.session import Session

    if options["count"] < 1:
        raise InvalidInputError(f"--count must be at least 1, got {options['count']}.")
    with Project.open(project) as opened:
        session = Session(opened, rater)
        real = read_transform(truth, reference=opened.fixed_grid, moving=opened.moving_grid)
        with progress("answering") as show:
            told = answer_queries(
                session, real, options["count"], options["user"], options["scale"], options["seed"], show
            )
        after = session.progress()
    facts = {**told, "mean sd over the targets": after.mean_sd, "units": after.units}
    print_json(facts) if as_json else print_facts(facts)
