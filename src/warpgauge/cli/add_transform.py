"""``warpgauge add-transform``: put a registration result into a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.output import json_option, number, print_facts, print_json
from warpgauge.cli.projects import companions, project_argument, read_added
from warpgauge.io.transforms import FORMATS


@click.command(
    "add-transform",
    epilog="""\b
Examples:
  warpgauge add-transform lesion bspline TransformParameters.1.txt
  warpgauge add-transform lesion ants 1Warp.nii.gz 0GenericAffine.mat
  warpgauge add-transform lung vxm disp.npz --format learn2reg --layout current""",
)
@project_argument
@click.argument("name")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--format", "format_", type=click.Choice(sorted(FORMATS)), help="Format; found out by default.")
@click.option("--direction", type=click.Choice(["fixed_to_moving", "moving_to_fixed"]), help="What the file maps.")
@click.option("--layout", help="Layout of an array or Learn2Reg file that does not say it.")
@click.option("--components", help="Order of the vector components of an array that does not say it.")
@click.option("--convention", type=click.Choice(["relative", "absolute"]), help="Displacements or positions.")
@click.option("--frame", help="Frame of the vectors, where the file does not say.")
@json_option
def add_transform(project: Path, name: str, files: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Read FILES as one transform (a chain in the order in which points pass it), copy them into PROJECT, call it NAME.

    It is read and compared with the annotations first: a reading that does not work is not added, and one that fits
    clearly worse than a usual misreading (inverse, axes flipped, voxels for mm) is warned of.
    """
    from warpgauge.io.transforms import check_transform, read_transform
    from warpgauge.project import Project
    from warpgauge.session import Session

    told = {key.rstrip("_"): value for key, value in options.items() if value is not None}
    with Project.open(project) as opened:
        sources: Any = files[0] if len(files) == 1 else list(files)
        read_transform(sources, reference=opened.fixed_grid, moving=opened.moving_grid, **told)
        extra = [path for file in files for path in companions(file) if path not in {f.resolve() for f in files}]
        opened.add_transform(name, [*files, *extra], options={"sources": len(files), **told})
        added = read_added(opened, name)
        annotations = Session(opened).annotations()
        facts: dict[str, Any] = {"name": name, **added.description.to_dict()}
        if len(annotations) >= 3:
            check = check_transform(added, annotations, reference=opened.fixed_grid, moving=opened.moving_grid)
            facts["mean error at the annotations"] = f"{number(check.as_given.mean_error)} {opened.units}"
    if as_json:
        print_json(facts)
        return
    facts.pop("source", None)
    print_facts(facts)
