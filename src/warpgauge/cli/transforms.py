"""The transforms of a project: ``add-transform``, ``remove-transform``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.arguments import EXISTING, array_options, project_argument
from warpgauge.cli.output import json_option, number, print_facts, print_json
from warpgauge.errors import SuspiciousDataWarning
from warpgauge.io.transforms import FORMATS
from warpgauge.io.transforms.field_meaning import AmbiguousFieldError

if TYPE_CHECKING:
    from warpgauge.io.transforms import Transform
    from warpgauge.project import Project


@click.command(
    "add-transform",
    epilog="""\b
Examples:
  warpgauge add-transform lesion bspline TransformParameters.1.txt
  warpgauge add-transform lesion ants 1Warp.nii.gz 0GenericAffine.mat
  warpgauge add-transform lesion full-size transform.h5 --scale 0.25
  warpgauge add-transform lung vxm disp.npz --format learn2reg --layout current""",
)
@project_argument
@click.argument("name")
@click.argument("files", nargs=-1, required=True, type=EXISTING)
@click.option("--format", "format_", type=click.Choice(sorted(FORMATS)), help="Format; detected by default.")
@click.option("--direction", type=click.Choice(["fixed_to_moving", "moving_to_fixed"]), help="What the file maps.")
@array_options
@click.option(
    "--scale",
    type=float,
    help="Multiply all coordinates of the transform by this: 0.25 for one made on images four times as large.",
)
@click.option("--replace", is_flag=True, help="Replace the transform that has this name already.")
@click.option(
    "--reference",
    is_flag=True,
    help="A reference that never saw an annotation: the other transforms are judged beside it.",
)
@json_option
def add_transform(
    project: Path,
    name: str,
    files: tuple[Path, ...],
    replace: bool,
    reference: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Add a registration result to PROJECT.

    FILES are copied into PROJECT as the transform NAME; several files form a chain, applied to points in this order. A
    file that cannot be read is not added. The transform is then compared with the annotations. You are warned if
    another reading of the file (the inverse, exchanged axes, LPS for RAS, positions for displacements, voxels for mm,
    another scale) fits far better, with the options that read it so, if the transform is worse than no transform at
    all, if it hardly moves anything, or if it maps most targets outside the moving image. Every verdict
    repeats such a warning.
    """
    from warpgauge.project import Project

    told = {key.rstrip("_"): value for key, value in options.items() if value is not None}
    with Project.open(project) as opened:
        try:
            opened.add_transform(name, files, options=told, replace=replace, reference=reference)
        except AmbiguousFieldError as error:
            raise _tried(opened, files, error, told) from None
        added = opened.transform(name)
        facts: dict[str, Any] = {"name": name, **added.description.to_dict(), **compared(opened, name, added)}
    if as_json:
        print_json(facts)
        return
    facts.pop("source", None)
    print_facts({key: f"{number(value)} {opened.units}" if "error" in key else value for key, value in facts.items()})


def _tried(
    project: Project, files: tuple[Path, ...], error: AmbiguousFieldError, options: dict[str, Any]
) -> AmbiguousFieldError:
    """Return the error with what each reading does to the annotations, if there are enough."""
    from warpgauge.io.misreadings import tried_meanings
    from warpgauge.session import Session
    from warpgauge.session.doubts import FEWEST

    annotations = Session(project).annotations()
    if len(annotations) < FEWEST or len(files) > 1:  # options are for all files of a chain
        return error
    points = annotations.fixed_points, annotations.moving_points
    return tried_meanings(files[0], error, *points, grids=(project.fixed_grid, project.moving_grid), **options)


def compared(project: Project, name: str, transform: Transform) -> dict[str, float]:
    """Compare a transform with the annotations and the targets of a project; warn of probable mistakes and note them.

    Returns
    -------
    dict
        Mean error at the annotations with the transform and without any, in world units; empty with few annotations.
    """
    from warpgauge.evaluation import Flag
    from warpgauge.session import Session
    from warpgauge.session.doubts import checked, transform_findings

    annotations = Session(project).annotations()
    grids = (project.fixed_grid, project.moving_grid)
    check = checked(transform, annotations, grids)
    findings = transform_findings(transform.map(project.targets), project.targets, annotations, grids, check)
    for one in findings:
        flag = Flag(one.code, transform=name, numbers=one.numbers, units=project.units, text=one.text)
        warnings.warn(flag.sentence, SuspiciousDataWarning, stacklevel=2)
    if check is None:
        return {}
    return {"mean error at the annotations": check.given, "mean error without any transform": check.before}


@click.command("remove-transform", epilog="\b\nExample:\n  warpgauge remove-transform lesion bspline")
@project_argument
@click.argument("name")
@json_option
def remove_transform(project: Path, name: str, as_json: bool) -> None:
    """Remove the transform NAME from PROJECT.

    Its files stay in the folder, and the log records the removal.
    """
    from warpgauge.project import Project

    with Project.open(project) as opened:
        opened.remove_transform(name)
        left = opened.transform_names()
    print_json({"removed": name, "transforms": left}) if as_json else click.echo(
        f"removed {name}; the project has now: {', '.join(left) or 'no transform'}"
    )
