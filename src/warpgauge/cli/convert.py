"""``warpgauge convert landmarks|transform``: from one program's file to another's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import EXISTING, NEW, array_options
from warpgauge.cli.landmarks import lossy_option, match_option, write_out
from warpgauge.cli.output import json_option, print_facts, print_json
from warpgauge.geometry import Grid
from warpgauge.io.landmarks import FORMAT_NAMES
from warpgauge.io.transforms import FORMATS


def _grid(image: Path | None) -> Grid | None:
    from warpgauge.io.images import read_image

    return None if image is None else read_image(image).grid


@click.group()
def convert() -> None:
    """Convert landmark or transform files between formats."""


@convert.command(
    epilog="""\b
Examples:
  warpgauge convert landmarks bigwarp.csv pairs.json
  warpgauge convert landmarks copd1_iBH.txt out.csv --moving copd1_eBH.txt \\
      --fixed-image iBH.nii.gz --moving-image eBH.nii.gz
  warpgauge convert landmarks pairs.json fixed.mrk.json --moving-out moving.mrk.json --lossy"""
)
@click.argument("source", type=EXISTING)
@click.argument("out", type=NEW)
@click.option("--moving", type=EXISTING, help="File of the moving points, for formats with one file per image.")
@click.option("--moving-out", type=NEW, help="File for the moving points, for such formats.")
@click.option("--from", "source_format", type=click.Choice(FORMAT_NAMES), help="Format to read; detected by default.")
@click.option(
    "--to", "out_format", type=click.Choice(FORMAT_NAMES), help="Format to write; chosen by the file name by default."
)
@click.option("--fixed-image", type=EXISTING, help="Fixed image, to convert between voxel indices and world points.")
@click.option("--moving-image", type=EXISTING, help="Moving image, likewise.")
@click.option("--frame", help="What the numbers of the source are: LPS, RAS, image, index, index1 or scaled.")
@click.option("--out-frame", help="Frame to write, where the format has a choice (RAS, index, ...).")
@click.option("--units", type=click.Choice(["px", "um", "mm"]), help="World units, if the source does not state them.")
@click.option("--scale", type=float, help="Multiply the source's numbers by this.")
@click.option("--dimension", type=click.Choice(["2", "3"]), help="For ANTs files whose z are all 0.")
@match_option
@click.option("--rater", help="Only this rater's rows; or, in a file that names none, who placed them.")
@lossy_option
@json_option
def landmarks(source: Path, out: Path, **options: Any) -> None:
    """Convert the landmarks in SOURCE to OUT.

    If the target format cannot hold everything, that is an error unless you add --lossy.
    """
    from warpgauge.io.landmarks import read_landmarks

    grids: dict[str, Any] = {f"{side}_grid": _grid(options[f"{side}_image"]) for side in ("fixed", "moving")}
    found = read_landmarks(
        source,
        options["moving"],
        format=options["source_format"],
        dimension=None if options["dimension"] is None else int(options["dimension"]),
        **grids,
        **{name: options[name] for name in ("frame", "units", "scale", "rater", "match")},
    )
    written = {"format": options["out_format"], "frame": options["out_frame"], "lossy": options["lossy"]}
    lost = write_out(found, out, options["moving_out"], **grids, **written)
    report = {
        "points": len(found),
        "read as": found.format,
        "written": [str(path) for path in (out, options["moving_out"]) if path is not None],
        "left out": list(lost) or "nothing",
        "assumptions": list(found.assumptions),
    }
    print_json(report) if options["as_json"] else print_facts(report)


@convert.command(
    epilog="""\b
Examples:
  warpgauge convert transform TransformParameters.0.txt field.nii.gz --reference fixed.nii.gz
  warpgauge convert transform 0GenericAffine.mat affine.tfm
  warpgauge convert transform 1Warp.nii.gz 0GenericAffine.mat chain.mha --reference fixed.nii.gz
  warpgauge convert transform field.nii.gz field.ome.zarr"""
)
@click.argument("sources", type=EXISTING, nargs=-1, required=True)
@click.argument("out", type=NEW)
@click.option(
    "--format", "source_format", type=click.Choice(sorted(FORMATS)), help="Format to read; detected by default."
)
@click.option("--reference", type=EXISTING, help="Image whose grid a field is sampled on (the fixed image).")
@click.option("--moving-image", type=EXISTING, help="Moving image, for formats that need its grid (FSL, Learn2Reg).")
@click.option(
    "--direction",
    type=click.Choice(["fixed_to_moving", "moving_to_fixed"]),
    default="fixed_to_moving",
    show_default=True,
    help="What the file maps; the other way is inverted.",
)
@array_options
@json_option
def transform(sources: tuple[Path, ...], out: Path, **options: Any) -> None:
    """Convert one transform, or a chain, to OUT.

    Several SOURCES form a chain, applied to points in this order.
    """
    from warpgauge.io.transforms import read_transform, write_transform

    reference = _grid(options["reference"])
    found = read_transform(
        sources[0] if len(sources) == 1 else list(sources),
        format=options["source_format"],
        direction=options["direction"],
        reference=reference,
        moving=_grid(options["moving_image"]),
        **{name: options[name] for name in ("layout", "components", "convention", "frame")},
    )
    written = write_transform(found, out, grid=reference)
    report = {"written": str(written), "dimension": found.d, **found.description.to_dict()}
    print_json(report) if options["as_json"] else print_facts(report)
