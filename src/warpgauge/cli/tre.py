"""``warpgauge tre``: target registration errors of transform files at landmark files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.options import (
    EXISTING,
    FILE,
    NEW_FILE,
    convention_option,
    direction_option,
    json_option,
    transform_format_option,
)
from warpgauge.cli.output import paragraph, print_json
from warpgauge.errors import InvalidInputError
from warpgauge.io.transforms.reader import Direction


class _Tre(click.Command):
    """Exit code 1 is an outcome (``--fail-above``), so that every failure but wrong usage ends with 3."""

    failure_code = 3
    usage_code = 2


@click.command(
    cls=_Tre,
    epilog="""\b
Examples:
  warpgauge tre fixed.txt moving.txt TransformParameters.1.txt
  warpgauge tre pairs.csv affine.tfm bspline.h5 --per-landmark errors.csv
  warpgauge tre a.txt b.txt f.mha --spacing 0.97,0.97,2.5 --size 256,256,94
  warpgauge tre pairs.csv 1Warp.nii.gz 0Affine.mat --chain --fail-above 2""",
)
@click.argument("fixed", type=FILE)
@click.argument("others", nargs=-1, type=EXISTING, metavar="MOVING [TRANSFORM]...")
@click.option("--chain", is_flag=True, help="The transform files are one transform, applied to points in this order.")
@click.option("--fixed-image", type=EXISTING, help="Where a file counts voxels, or a field stands on its grid.")
@click.option("--moving-image", type=EXISTING, help="If its grid is not that of the fixed image.")
@click.option(
    "--spacing", help="With --size, instead of the images: voxel size x,y[,z] of both, for landmarks in voxels."
)
@click.option("--size", help="With --spacing: voxels along x,y[,z].")
@click.option("--units", type=click.Choice(["px", "um", "mm"]), help="Units of the landmarks, if no file says them.")
@click.option("--frame", help="What landmarks are, if the files do not say: LPS, RAS, image, index, index1 or scaled.")
@click.option("--match", help="How the landmarks of two files correspond: row, name or index.")
@transform_format_option
@direction_option
@click.option("--scale", type=float, help="Multiply all coordinates of the transforms by this.")
@convention_option
@click.option("--field-frame", help="Of fields whose files do not say: LPS, RAS or index.")
@click.option("--axes", help="Of arrays, if two orders fit: zyx or xyz.")
@click.option("--read-as", metavar="READING", help="Take another reading of the files, one that this command named.")
@click.option("--per-landmark", type=NEW_FILE, help="Write a CSV with the errors of every landmark.")
@click.option(
    "--fail-above", type=float, help="Exit with 1 if a mean error is above this, or a landmark is not mapped."
)
@json_option
def tre(
    fixed: Path,
    others: tuple[Path, ...],
    chain: bool,
    fixed_image: Path | None,
    moving_image: Path | None,
    spacing: str | None,
    size: str | None,
    units: str | None,
    frame: str | None,
    match: str | None,
    format_: str | None,
    direction: Direction | None,
    scale: float | None,
    convention: str | None,
    field_frame: str | None,
    axes: str | None,
    read_as: str | None,
    per_landmark: Path | None,
    fail_above: float | None,
    as_json: bool,
) -> None:
    """Print the target registration errors of transforms at landmarks.

    FIXED and MOVING are landmark files of the two images, or FIXED alone holds the pairs; the other files are
    transforms, each judged by itself. No project and no images are needed, but for files that count voxels. Without a
    transform: the error before registration.

    Where another reading of the files fits far better (the other direction, axes exchanged, LPS for RAS, positions for
    displacements, voxels), it is named with the option that takes it; nothing is changed. Exit codes: 0 success, 1 only
    by --fail-above, 2 wrong usage, 3 a failure (one sentence explains why).
    """
    from warpgauge.evaluation.tre import has_pairs
    from warpgauge.evaluation.tre import tre as measure

    landmarks: dict[str, Any] = {
        "units": units,
        "frame": frame,
        "match": match,
        "fixed_image": _described(spacing, size, units, fixed_image),
        "moving_image": moving_image,
    }
    given: dict[str, Any] = {
        "format": format_,
        "scale": scale,
        "convention": convention,
        "frame": field_frame,
        "axes": axes,
    }
    moving: Path | None = None
    files = list(others)
    if not has_pairs(fixed, **landmarks):
        if not others:
            raise InvalidInputError(
                f"{fixed.name!r} holds the landmarks of one image; give the file of the moving image after it."
            )
        moving = files.pop(0)
    transforms: list[Any] = [files] if chain and files else files
    result = measure(
        fixed,
        moving,
        transforms,
        transform_options={name: value for name, value in given.items() if value is not None},
        read_as=read_as,
        direction=direction or "fixed_to_moving",
        **landmarks,
    )
    if per_landmark is not None:
        per_landmark.write_text(result.per_landmark(), encoding="utf-8", newline="")
    if as_json:
        print_json(result.to_dict())
    else:
        for line in result.table():
            click.echo(line)
        for sentence in result.sentences():
            click.echo(paragraph(sentence))
    summaries = [transform.summary for transform in result.transforms] or [result.before]
    if fail_above is not None and any(one.outside or not one.mean <= fail_above for one in summaries):
        raise click.exceptions.Exit(1)


def _described(spacing: str | None, size: str | None, units: str | None, image: Path | None) -> Any:
    """Return the fixed image, or the grid that --spacing and --size describe."""
    from warpgauge.geometry import Grid

    if spacing is None and size is None:
        return image
    if spacing is None or size is None or image is not None:
        raise InvalidInputError(
            "--spacing and --size together stand for an image; give both, or --fixed-image, which has them."
        )
    try:
        numbers = [float(part) for part in spacing.split(",")]
        counts = [int(part) for part in size.split(",")]
    except ValueError:
        raise InvalidInputError(
            f"--spacing {spacing!r} and --size {size!r} are numbers such as 0.97,0.97,2.5 and 256,256,94."
        ) from None
    return Grid(tuple(counts), numbers, units=units or ("mm" if len(counts) == 3 else "px"))  # type: ignore[arg-type]
