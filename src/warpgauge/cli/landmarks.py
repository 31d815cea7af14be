"""``warpgauge import`` and ``export``: landmarks into and out of a project."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from warpgauge.cli.arguments import FILE, NEW, project_argument
from warpgauge.cli.output import json_option, print_facts, print_json
from warpgauge.display import counted
from warpgauge.errors import InvalidInputError, Message
from warpgauge.io.landmarks import FORMAT_NAMES, Landmarks
from warpgauge.io.landmarks.pairing import MATCHES
from warpgauge.io.landmarks.writer import PROVENANCE, LandmarkLossError, write_landmarks

if TYPE_CHECKING:
    from warpgauge.project import Project
    from warpgauge.session.agreement import RaterOffset


lossy_option = click.option(
    "--lossy",
    is_flag=True,
    help="Leave out what the format to write cannot hold, and say what that was; image hashes are left out in any "
    "case.",
)
match_option = click.option(
    "--match",
    type=click.Choice(MATCHES),
    help="How the points of two files correspond; by name or index where both files have the same ones, else by row.",
)


def write_out(found: Landmarks, out: Path, moving_out: Path | None, *, lossy: bool, **options: Any) -> tuple[str, ...]:
    """Write landmarks and return what was left out, which is also printed to standard error.

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


@click.command(
    "import",
    epilog="""\b
Examples:
  warpgauge import lesion pairs.csv --rater ann
  warpgauge import lesion he.csv ki67.csv --rater PS --radius 4
  warpgauge import lung inhale.txt exhale.txt --rater dirlab --shared""",
)
@project_argument
@click.argument("file", type=FILE)
@click.argument("moving_file", type=FILE, required=False)
@click.option("--rater", help="Who placed them, if the file does not state it.")
@click.option("--format", type=click.Choice(FORMAT_NAMES), help="Format; detected by default.")
@click.option("--frame", help="What the numbers are: LPS, RAS, image, index, index1 or scaled.")
@click.option("--scale", type=float, help="Multiply the numbers by this.")
@click.option(
    "--radius",
    type=click.FloatRange(min=0, min_open=True),
    help="Uncertainty of landmarks that do not state one: radius, in world units, within which the true match lies "
    "with 99 % probability. By default that of a plain click (setting default-radius).",
)
@match_option
@click.option("--shared", is_flag=True, help="Ask the other raters for these locations too.")
@click.option("--force", is_flag=True, help="Import although the landmarks are probably wrong.")
@json_option
def import_(project: Path, file: Path, moving_file: Path | None, as_json: bool, **options: Any) -> None:
    """Import landmarks from other programs into PROJECT.

    MOVING_FILE is for formats with one file per image. Either all landmarks are imported or none. Rows without an
    uncertainty get that of --radius, or of a plain click; inactive rows stay inactive. Landmarks that are probably
    wrong are refused unless you add --force: most points outside, rows in another order, fixed and moving exchanged,
    another scale, indices instead of world points, flipped axes, other images. One undo reverts the whole import.
    Several raters (a column "rater", or one import each) who marked the same landmarks give one location each, with
    several marks; a constant offset between raters is named.
    """
    from warpgauge.io.landmarks import read_landmarks
    from warpgauge.project import Ask, Project
    from warpgauge.session import Session
    from warpgauge.session.import_checks import import_problems
    from warpgauge.session.reading import rater_offsets

    with Project.open(project) as opened:
        reread = partial(
            read_landmarks,
            file,
            moving_file,
            fixed_grid=opened.fixed_grid,
            moving_grid=opened.moving_grid,
            **{name: options[name] for name in ("format", "frame", "scale", "match")},
        )
        found = reread()
        who = options["rater"] or _only_rater(found)
        session = Session(opened)
        problems = import_problems(opened, found, reread)
        _refuse_problems(problems, file.name, options["force"])
        found, uncertain = _with_uncertainty(found, opened, options["radius"])
        events = session.import_landmarks(found, who, shared=options["shared"])
        offsets = rater_offsets(opened)
        _compared(opened)
    kinds = [event.kind for event in events]
    facts = {
        "placed": kinds.count("place"),
        "skipped": kinds.count("skip"),
        "new locations": sum(isinstance(event, Ask) and event.same_as is None for event in events),
        "raters": sorted({event.rater for event in events if event.kind in ("place", "skip")}),
        "offsets": [_offset(one, opened.units) for one in offsets] or "none found",
        "read as": found.format,
        "assumptions": [*found.assumptions, *uncertain],
    }
    if as_json:
        print_json(facts)
        return
    print_facts(facts)
    raters = {event.rater for event in events}
    whose = f"--rater {shlex.quote(raters.pop())}" if len(raters) == 1 else "--import"
    click.echo(f"\nTo undo this import: warpgauge undo {shlex.quote(str(project))} {whose}")


def _with_uncertainty(found: Landmarks, project: Project, radius: float | None) -> tuple[Landmarks, list[str]]:
    """Return the landmarks, with the radius as uncertainty where they have none, and a note about it."""
    from warpgauge.core.annotations import confidence_radius
    from warpgauge.session.prior import default_radius

    bare = ~found.has_covariance
    if found.moving_points is None or not bare.any():
        return found, []
    bare &= np.isfinite(found.moving_points).all(axis=1)
    grid, settings = project.fixed_grid, project.settings
    size = default_radius(grid, settings) if radius is None else radius
    if radius is not None:
        covariances = np.full((len(found), grid.d, grid.d), np.nan)
        if found.covariances is not None:
            covariances[:] = found.covariances
        covariances[bare] = (radius / confidence_radius(grid.d, settings.alpha)) ** 2 * np.eye(grid.d)
        found = replace(found, covariances=covariances)
    change = "" if radius is not None else " (--radius sets another)"
    return found, [
        f"{counted(int(bare.sum()), 'landmark')} without an uncertainty: each true match is taken to lie within "
        f"{size:g} {grid.units} with {100 * (1 - settings.alpha):g} % probability{change}."
    ]


def _refuse_problems(problems: list[str], name: str, force: bool) -> None:
    """Refuse landmarks that are probably wrong; with --force, only print why."""
    if not problems:
        return
    sentence = f"{name!r}: {'; '.join(problems)}"
    if not force:
        raise InvalidInputError(f"{sentence}; correct it, or add --force if it is intended.")
    click.echo(f"note: {Message(sentence)}.", err=True)


def _offset(found: RaterOffset, units: str) -> str:
    """Return a constant offset of a rater from the others in words, with its size and standard error."""
    parts = ", ".join(f"{value:.3g} ± {error:.2g}" for value, error in zip(found.offset, found.error, strict=True))
    return f"{found.rater} lies {found.size:.3g} {units} from the others ({parts})"


def _compared(project: Project) -> None:
    """Compare the transforms with the landmarks, now that they are there."""
    from warpgauge.cli.transforms import compared
    from warpgauge.project import ProjectError

    for name in project.transform_names():
        with suppress(ProjectError):  # one that cannot be read: every other command says so
            compared(project, name, project.transform(name))


def _only_rater(found: Any) -> str | None:
    """Return the rater 'import' where the file names nobody."""
    named = found.raters is not None and any(found.raters)
    return None if named else "import"


@click.command(
    epilog="""\b
Examples:
  warpgauge export lesion pairs.json
  warpgauge export lesion fused.csv --fused
  warpgauge export lesion fixed.mrk.json moving.mrk.json --rater ann --lossy"""
)
@project_argument
@click.argument("out", type=NEW)
@click.argument("moving_out", type=NEW, required=False)
@click.option("--rater", help="Only landmarks of this rater; all raters by default.")
@click.option("--fused", is_flag=True, help="Write what the model uses: one annotation per location, raters fused.")
@click.option("--format", type=click.Choice(FORMAT_NAMES), help="Format to write; chosen by the file name by default.")
@click.option("--frame", help="Frame to write, where the format has a choice.")
@lossy_option
@json_option
def export(project: Path, out: Path, moving_out: Path | None, as_json: bool, **options: Any) -> None:
    """Write the landmarks of PROJECT to a file.

    Uncertainties, raters and skips are included if the format can hold them.
    """
    from warpgauge.project import Project
    from warpgauge.session import Session
    from warpgauge.session.seals import sealed_answers

    with Project.open(project) as opened:
        found = Session(opened).landmarks(options["rater"], fused=options["fused"])
        if sealed_answers(opened.state):
            click.echo(
                "note: sealed answers are left out; warpgauge unseal opens them for a verdict, once all "
                "registrations are added.",
                err=True,
            )
        lost = write_out(
            found,
            out,
            moving_out,
            fixed_grid=opened.fixed_grid,
            moving_grid=opened.moving_grid,
            **{name: options[name] for name in ("format", "frame", "lossy")},
        )
    written = [str(path) for path in (out, moving_out) if path is not None]
    facts = {"points": len(found), "skips": len(found.skips), "written": written, "left out": list(lost) or "nothing"}
    print_json(facts) if as_json else print_facts(facts)
