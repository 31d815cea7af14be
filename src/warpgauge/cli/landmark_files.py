"""Options of the commands that read and write landmark files, and notes on what a format cannot store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.io.landmarks import Landmarks
from warpgauge.io.landmarks.pairing import MATCHES
from warpgauge.io.landmarks.writer import PROVENANCE, LandmarkLossError, write_landmarks

LOSSY_HELP = "Leave out what the format to write cannot hold, and say what that was; image hashes go without it."

lossy_option = click.option("--lossy", is_flag=True, help=LOSSY_HELP)
match_option = click.option(
    "--match",
    type=click.Choice(MATCHES),
    help="How the points of two files correspond; by name or index where both files have the same ones, else by row.",
)


def write_out(found: Landmarks, out: Path, moving_out: Path | None, *, lossy: bool, **options: Any) -> tuple[str, ...]:
    """Write landmarks and give what was left out, which is also said on standard error.

    Hashes of the images only say where the landmarks come from, so a format without them is not a reason to fail; what
    changes the landmarks needs ``--lossy``.
    """
    try:
        lost = write_landmarks(found, out, moving_out, lossy=True if lossy else PROVENANCE, **options)
    except LandmarkLossError as error:
        raise LandmarkLossError(error.title, error.lost, "add --lossy") from error
    if lost:
        click.echo(f"note: {out.name} leaves out: {', '.join(lost)}.", err=True)
    return lost
