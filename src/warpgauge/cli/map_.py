"""``warpgauge map``: dense maps, as numbers in the fixed image's frame and as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from warpgauge.cli.arguments import NEW, chosen_transforms, project_argument
from warpgauge.cli.output import json_option, print_facts, print_json, progress
from warpgauge.errors import InvalidInputError

_OF_POSTERIOR = ("mean", "entropy", "sd")
# Drawn faded and hatched where the annotations say little.
_FADED = ("blended", "exceedance")
_OF_TRANSFORM = ("error", "exceedance", "significance", "blended")
_PICTURES = (".png", ".svg")
# A map for the eye needs no more elements than this along its longest side, unless asked for.
_LONGEST = {2: 1024, 3: 128}


@click.command(
    "map",
    epilog="""\b
Examples:
  warpgauge map lesion sd sd.png
  warpgauge map lesion error error.nii.gz --transform bspline --full
  warpgauge map lesion blended blended.png --transform bspline
  warpgauge map lung exceedance over2mm.nii.gz --transform bspline --tolerance 2""",
)
@project_argument
@click.argument("kind", type=click.Choice([*_OF_POSTERIOR, *_OF_TRANSFORM]))
@click.argument("out", type=NEW)
@click.option("--transform", "name", help="The transform to map, for error, exceedance, significance and blended.")
@click.option("--tolerance", type=float, help="Largest acceptable error in world units, for exceedance.")
@click.option("--full", is_flag=True, help="Every pixel of the fixed image; by default a coarser grid over it.")
@click.option("--title", default="", help="Title of a picture.")
@json_option
def map_(project: Path, kind: str, out: Path, as_json: bool, **options: Any) -> None:
    """Write a map of errors or uncertainty over the fixed image.

    KIND is mean (displacement of the posterior mean), entropy, sd (standard deviation in world units); or, of a
    transform, error (the score e(x)), exceedance (probability of an error above --tolerance), significance
    (Benjamini-Hochberg-adjusted p-values) or blended (error, faded where the annotations say too little). OUT ends in
    .nii.gz, .nrrd, .zarr or .tif for numbers in the right frame, or in .png or .svg for a picture with legend and
    scale bar.
    """
    from warpgauge.evaluation import project_posterior
    from warpgauge.project import Project

    _check_request(kind, out, options)
    with Project.open(project) as opened:
        posterior = project_posterior(opened)
        grid = opened.fixed_grid
        if not options["full"]:
            grid = grid.coarsened(max(1.0, max(grid.size) / _LONGEST[grid.d]))
        facts: dict[str, Any] = {"written": str(out), "kind": kind, "size": list(grid.size), "units": opened.units}
        facts |= _whole(opened, posterior, kind, grid, out, options)
    print_json(facts) if as_json else print_facts(facts)


def _check_request(kind: str, out: Path, options: dict[str, Any]) -> None:
    if kind == "blended" and out.suffix.lower() not in _PICTURES:
        raise InvalidInputError("A blended map is a picture: give OUT a name that ends in .png or .svg.")
    if kind in _OF_TRANSFORM and options["name"] is None:
        raise InvalidInputError(f"A map of kind {kind} needs --transform NAME.")
    if kind == "exceedance" and options["tolerance"] is None:
        raise InvalidInputError("An exceedance map needs --tolerance, the error that counts in world units.")


def _whole(project: Any, posterior: Any, kind: str, grid: Any, out: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Make a map in memory and write it as one file; return its range."""
    from warpgauge.maps.dense import masked

    chosen = chosen_transforms(project, (options["name"],)) if kind in _OF_TRANSFORM else {}
    with progress(f"{kind} map") as show:
        array = masked(_array(kind, posterior, chosen, grid, options["tolerance"], show), grid, project.missing)
    if out.suffix.lower() in _PICTURES:
        _draw(project, posterior, kind, array, grid, out, options)
    else:
        from warpgauge.maps import write_map

        _note_lost_frame(grid, out)
        write_map(array.astype(np.float32), grid, out, drop_frame=True)
    known = array[np.isfinite(array)]
    if not known.size or kind == "mean":
        return {}
    return {"smallest": float(known.min()), "largest": float(known.max())}


def _note_lost_frame(grid: Any, out: Path) -> None:
    """Warn about parts of the frame that the output format cannot store."""
    suffix = out.suffix.lower()
    if suffix not in (".tif", ".tiff", ".zarr"):
        return
    turned = not np.array_equal(grid.direction, np.eye(grid.d))
    moved = suffix != ".zarr" and bool(np.any(grid.origin != 0))
    lost = [words for words, given in (("the direction of its axes", turned), ("its origin", moved)) if given]
    if lost:
        origin = (
            f" (the first element lies at {', '.join(f'{x:g}' for x in grid.origin)} {grid.units})" if moved else ""
        )
        click.echo(
            f"note: {out.name} holds the spacing of the map but not {' and '.join(lost)}{origin}; .nii.gz and .nrrd "
            "hold the whole frame.",
            err=True,
        )


def _array(kind: str, posterior: Any, chosen: dict[str, Any], grid: Any, tolerance: float | None, show: Any) -> Any:
    from warpgauge import maps

    if kind in _OF_POSTERIOR:
        makers = {"mean": maps.mean_map, "entropy": maps.entropy_map, "sd": maps.standard_deviation_map}
        return makers[kind](posterior, grid, progress=show)
    (transform,) = chosen.values()
    if kind == "exceedance" and tolerance is not None:
        return maps.exceedance_map(posterior, transform, grid, tolerance, progress=show)
    if kind == "significance":
        return maps.significance_map(posterior, transform, grid, progress=show)
    return maps.error_map(posterior, transform, grid, progress=show)


def _draw(project: Any, posterior: Any, kind: str, array: Any, grid: Any, out: Path, options: dict[str, Any]) -> None:
    from warpgauge import maps
    from warpgauge.maps.pictures import Picture, displayable, map_picture, save_picture

    names = {"sd": "standard deviation", "mean": "displacement", "blended": "error"}
    values = np.linalg.norm(array, axis=-1) if kind == "mean" else array
    below = maps.warped_image(project.image("fixed"), lambda points: points, grid)
    faded: dict[str, Any] = {}
    if kind in _FADED:
        faded = {
            "entropy": maps.entropy_map(posterior, grid),
            "limits": maps.entropy_limits(posterior, pixel=project.fixed_grid.pixel),
        }
    drawn = Picture(
        {options["name"] or kind: values},
        grid,
        names.get(kind, kind),
        image=displayable(below),
        points=posterior.annotations.fixed_points,
        tolerance=options["tolerance"],
        labels=maps.region_labels(posterior, grid),
        **faded,
    )
    save_picture(map_picture(drawn, title=options["title"]), out)
