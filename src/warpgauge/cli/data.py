"""What goes into a project and out of it: ``import``, ``export``, ``add-transform``, ``remove-transform``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from warpgauge.cli.options import (
    FILE,
    NEW,
    convention_option,
    direction_option,
    json_option,
    landmark_format_option,
    project_argument,
    transform_format_option,
)
from warpgauge.cli.output import next_steps, note, print_facts, print_json, quoted
from warpgauge.display import counted, joined, number, text_table
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.io.landmarks import Landmarks, write_landmarks
from warpgauge.io.landmarks.pairing import MATCHES
from warpgauge.io.transforms import AmbiguousFieldError

if TYPE_CHECKING:
    from warpgauge.io.transforms import Transform
    from warpgauge.project import Project


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
@landmark_format_option
@click.option("--frame", help="What the numbers are: LPS, RAS, image, index, index1 or scaled.")
@click.option("--scale", type=float, help="Multiply the numbers by this.")
@click.option(
    "--radius",
    type=click.FloatRange(min=0, min_open=True),
    help="Radius, in world units, within which the true match lies with 99 % probability, where the file states no "
    "uncertainty. By default that of a plain click (setting default-radius).",
)
@click.option(
    "--match",
    type=click.Choice(MATCHES),
    help="How the points of two files correspond; by name or index where both files have the same ones, else by row.",
)
@click.option("--shared", is_flag=True, help="Ask the other raters for these locations too.")
@click.option("--force", is_flag=True, help="Import although the landmarks are probably wrong.")
@json_option
def import_(
    project: Path,
    file: Path,
    moving_file: Path | None,
    rater: str | None,
    format_: str | None,
    frame: str | None,
    scale: float | None,
    radius: float | None,
    match: str | None,
    shared: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Import landmarks from other programs into PROJECT.

    MOVING_FILE is for formats with one file per image. Either all landmarks are imported or none. Rows without an
    uncertainty get that of --radius, or of a plain click; inactive rows stay inactive. Landmarks that are probably
    wrong are refused unless you add --force: most points outside, rows in another order, fixed and moving exchanged,
    another scale, indices instead of world points, exchanged axes, other images. One undo reverts the whole import.
    Several raters (a column "rater", or one import each) who marked the same landmarks give one location each, with
    several marks; a constant offset between raters is named, and so is a landmark that one of them marked far away.
    """
    from warpgauge.io.landmarks import read_landmarks
    from warpgauge.project import Ask, Project
    from warpgauge.session import Session
    from warpgauge.session.agreement import far_marks, offsets_of
    from warpgauge.session.import_checks import copied_marks, import_problems
    from warpgauge.session.model import view_of

    with Project.open(project) as opened:
        reread = partial(
            read_landmarks,
            file,
            moving_file,
            fixed_grid=opened.fixed_grid,
            moving_grid=opened.moving_grid,
            format=format_,
            frame=frame,
            scale=scale,
            match=match,
        )
        found = reread()
        named = found.raters is not None and any(found.raters)
        session = Session(opened)
        problems = import_problems(opened, found, reread)
        if problems:
            sentence = f"{file.name!r}: {'; '.join(problems)}"
            if not force:
                raise InvalidInputError(f"{sentence}; correct it, or add --force if it is intended.")
            note(sentence)
        copies = copied_marks(session, found)
        found, uncertain = _with_uncertainty(found, opened, radius)
        events = session.import_landmarks(found, rater or (None if named else "import"), shared=shared)
        for sentence in copies:
            note(f"{file.name!r}: {sentence} (warpgauge undo takes this import back).")
        located = view_of(opened).located
        offsets = offsets_of(located)
        # As in the user's file: by the name there, or by the row.
        placed = [event.generation for event in events if event.kind == "place"]
        names = found.names or ("",) * len(placed)
        labels = {at: name or f"landmark {row}" for row, (at, name) in enumerate(zip(placed, names, strict=False), 1)}
        far = [mark for mark in far_marks(located) if mark.mark.generation in labels]
        _compare_all(opened)
        units = opened.units
    kinds = [event.kind for event in events]
    raters = sorted({event.rater for event in events if event.kind in ("place", "skip")})
    facts: dict[str, Any] = {
        "placed": kinds.count("place"),
        "skipped": kinds.count("skip"),
        "new locations": sum(isinstance(event, Ask) and event.same_as is None for event in events),
        "raters": raters,
        "offsets": [
            f"{one.rater} lies {one.size:.3g} {units} from the others "
            f"({', '.join(f'{v:.3g} ± {e:.2g}' for v, e in zip(one.offset, one.error, strict=True))})"
            for one in offsets
        ]
        or "none found",
        "far from others": [
            f"{labels[one.mark.generation]} of {one.mark.rater} lies {one.distance:.3g} {units} from where "
            f"{joined(one.others)} marked it"
            for one in far
        ]
        or "none found",
        "read as": found.format,
        "assumptions": [*found.assumptions, *uncertain],
    }
    if as_json:
        print_json(facts)
        return
    skipped = f" and {counted(facts['skipped'], 'skip')}" if facts["skipped"] else ""
    whom = f"the {'rater' if len(raters) == 1 else 'raters'} {joined(raters)}"
    click.echo(f"{counted(facts['placed'], 'landmark')}{skipped} of {whom}, read as {found.format}.")
    for sentence in [*facts["assumptions"], *(facts["offsets"] if offsets else [])]:
        click.echo(f"  {sentence}")
    for sentence in facts["far from others"] if far else []:
        note(f"{sentence}: is it the same landmark?")
    whose = f"--rater {quoted(raters[0])}" if len(raters) == 1 else "--import"
    next_steps(
        f"warpgauge add-transform {quoted(project)} NAME=FILE ...   (registration results)",
        f"warpgauge undo {quoted(project)} {whose}   (takes this import back)",
    )


def _with_uncertainty(found: Landmarks, project: Project, radius: float | None) -> tuple[Landmarks, list[str]]:
    """Return the landmarks, with the radius as uncertainty where they have none, and a note about it."""
    from warpgauge.core.annotations import confidence_radius
    from warpgauge.session.prior import default_radius

    bare = ~found.has_covariance
    if found.moving_points is None or not bare.any():
        return found, []
    bare &= np.isfinite(found.moving_points).all(axis=1)
    grid = project.fixed_grid
    settings = project.settings
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
        f"{number(size)} {grid.units} with {100 * (1 - settings.alpha):g} % probability{change}."
    ]


def _compare_all(project: Project) -> None:
    """Compare the transforms with the landmarks, now that they are there."""
    from warpgauge.project import ProjectError

    for name in project.transform_names():
        with suppress(ProjectError):  # one that cannot be read: every other command says so
            _compared(project, name, project.transform(name))


@click.command(
    epilog="""\b
Examples:
  warpgauge export lesion pairs.csv
  warpgauge export lesion fused.csv --fused
  warpgauge export lesion fixed.mrk.json moving.mrk.json --rater ann --lossy"""
)
@project_argument
@click.argument("out", type=NEW)
@click.argument("moving_out", type=NEW, required=False)
@click.option("--rater", help="Only landmarks of this rater; all raters by default.")
@click.option("--fused", is_flag=True, help="Write what the model uses: one annotation per location, raters fused.")
@landmark_format_option
@click.option("--frame", help="Frame to write, where the format has a choice.")
@click.option("--lossy", is_flag=True, help="Leave out what the format cannot hold, and say what that was.")
@json_option
def export(
    project: Path,
    out: Path,
    moving_out: Path | None,
    rater: str | None,
    fused: bool,
    format_: str | None,
    frame: str | None,
    lossy: bool,
    as_json: bool,
) -> None:
    """Write the landmarks of PROJECT to a file.

    Uncertainties, raters and skips are included if the format can hold them; plain CSV can.
    """
    from warpgauge.project import Project
    from warpgauge.session import Session
    from warpgauge.session.seals import sealed_answers

    with Project.open(project) as opened:
        found = Session(opened).landmarks(rater, fused=fused)
        if sealed_answers(opened.state):
            note(
                "sealed answers are left out; warpgauge unseal opens them for a verdict, once all registrations are "
                "added."
            )
        lost = write_landmarks(
            found,
            out,
            moving_out,
            fixed_grid=opened.fixed_grid,
            moving_grid=opened.moving_grid,
            format=format_,
            frame=frame,
            lossy=lossy,
        )
    if lost:
        note(f"{out.name} leaves out: {', '.join(lost)}.")
    written = [str(path) for path in (out, moving_out) if path is not None]
    facts = {"points": len(found), "skips": len(found.skips), "written": written, "left out": list(lost) or "nothing"}
    print_json(facts) if as_json else print_facts(facts)


@click.command(
    "add-transform",
    epilog="""\b
Examples:
  warpgauge add-transform lesion bspline TransformParameters.1.txt
  warpgauge add-transform lesion affine=affine.tfm bspline=bspline.h5
  warpgauge add-transform lesion results/*.h5     (named as their files)
  warpgauge add-transform lesion ants 1Warp.nii.gz 0Affine.mat   (a chain)
  warpgauge add-transform lesion full-size transform.h5 --scale 0.25
  warpgauge add-transform lung vxm disp.npz --convention learn2reg""",
)
@project_argument
@click.argument("files", nargs=-1, required=True, metavar="NAME FILE... | NAME=FILE... | FILE...")
@transform_format_option
@direction_option
@convention_option
@click.option("--axes", help="Order of the axes of an array, if two fit: zyx or xyz.")
@click.option("--frame", help="Frame of the vectors, if the file does not state it.")
@click.option("--scale", type=float, help="Multiply coordinates: 0.25 for a transform of images four times as large.")
@click.option("--replace", is_flag=True, help="Replace the transform that has this name already.")
@click.option("--reference", is_flag=True, help="It never saw an annotation: the others are judged beside it.")
@json_option
def add_transform(
    project: Path,
    files: tuple[str, ...],
    format_: str | None,
    direction: str | None,
    convention: str | None,
    axes: str | None,
    frame: str | None,
    scale: float | None,
    replace: bool,
    reference: bool,
    as_json: bool,
) -> None:
    """Add registration results to PROJECT.

    Files are copied into PROJECT as transforms. With one NAME, several files form a chain, applied to points in this
    order. Nothing is added if a file cannot be read. Each transform is then compared with the annotations: you are
    warned if another reading of the file (the inverse, exchanged axes, LPS for RAS, positions for displacements, voxels
    for mm, another scale) fits far better, with the options that read it so, if the transform is worse than none, if it
    hardly moves anything, or if it maps most targets outside the moving image.
    """
    from warpgauge.io.transforms import read_transform
    from warpgauge.project import Project

    given: dict[str, Any] = {
        "format": format_,
        "direction": direction,
        "convention": convention,
        "axes": axes,
        "frame": frame,
        "scale": scale,
    }
    options = {name: value for name, value in given.items() if value is not None}
    named = _named_files(files)
    added: list[dict[str, Any]] = []
    with Project.open(project) as opened:
        if len(named) > 1:  # all or none
            taken = [name for name in named if name in opened.transform_names()]
            if taken and not replace:
                raise InvalidInputError(
                    f"The project has a transform {taken[0]!r} already; choose another name, or pass --replace. None "
                    "was added."
                )
            for paths in named.values():
                read_transform(paths[0], reference=opened.fixed_grid, moving=opened.moving_grid, **options)
        for name, paths in named.items():
            try:
                opened.add_transform(name, paths, options=options, replace=replace, reference=reference)
            except AmbiguousFieldError as error:
                raise _tried(opened, paths, error, options) from None
            transform = opened.transform(name)
            added.append({"name": name, **transform.description.to_dict(), **_compared(opened, name, transform)})
        units = opened.units
        unread = "" if scale is not None else opened.image("fixed").print_note
    if unread:
        note(f"{unread} --replace.")
    if as_json:
        print_json(added[0] if len(added) == 1 else added)
        return
    if len(added) == 1:
        (facts,) = added
        errors = ""
        if _ERROR in facts:
            errors = f"; mean error at the landmarks {number(facts[_ERROR])} {units}, {number(facts[_BEFORE])} without"
        click.echo(f"{facts['name']}: {facts['format']}, {facts['kind']}{errors}")
        for sentence in facts["assumptions"]:
            click.echo(f"  {sentence}")
    else:
        rows = [[facts["name"], facts.get(_ERROR), facts["format"]] for facts in added]
        if _BEFORE in added[0]:
            rows.append(["(none)", added[0][_BEFORE], "error: mean at the landmarks"])
        click.echo(text_table(["transform", f"error in {units}", "read as"], rows))
    next_steps(f"warpgauge evaluate {quoted(project)}")


_ERROR = "mean error at the annotations"
_BEFORE = "mean error without any transform"


def _named_files(words: Sequence[str]) -> dict[str, list[Path]]:
    """Return the files of each transform: NAME FILE..., NAME=FILE..., or files that give the names themselves."""
    if all("=" in word for word in words):
        pairs = [(name, [Path(file)]) for name, _, file in (word.partition("=") for word in words)]
    elif all(Path(word).exists() for word in words):
        pairs = [(_stem(Path(word)), [Path(word)]) for word in words]
    elif len(words) > 1:
        pairs = [(words[0], [Path(word) for word in words[1:]])]
    else:
        raise InvalidInputError(f"There is no file {words[0]!r}; give NAME FILE, NAME=FILE ..., or files.")
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError(f"Two files would have the name {twice!r}; name them as NAME=FILE.")
    for name, paths in pairs:
        missing = [path for path in paths if not path.exists()]
        if missing:
            raise InvalidInputError(f"There is no file {str(missing[0])!r} for the transform {name!r}.")
    return named


def _stem(path: Path) -> str:
    """Return a file's name without its ending, ``.nii.gz`` and the like taken whole."""
    inner = Path(path.stem).suffix if path.suffix == ".gz" else ""
    return path.stem.removesuffix(inner)


def _tried(
    project: Project, files: Sequence[Path], error: AmbiguousFieldError, options: Mapping[str, Any]
) -> AmbiguousFieldError:
    """Return the error with what each reading does to the annotations, if there are enough."""
    from warpgauge.io.misreadings import tried_meanings
    from warpgauge.session import Session
    from warpgauge.session.doubts import FEWEST

    annotations = Session(project).annotations()
    if len(annotations) < FEWEST or len(files) > 1:  # options are for all files of a chain
        return error
    grids = (project.fixed_grid, project.moving_grid)
    points = (annotations.fixed_points, annotations.moving_points)
    return tried_meanings(files[0], error, *points, grids=grids, **options)


def _compared(project: Project, name: str, transform: Transform) -> dict[str, float]:
    """Compare a transform with the annotations and the targets of a project; warn of probable mistakes.

    Returns
    -------
    dict
        Mean error at the annotations with the transform and without any, in world units; empty with few annotations.
    """
    from warpgauge.evaluation.flags import doubt
    from warpgauge.session import Session
    from warpgauge.session.doubts import checked, transform_findings

    annotations = Session(project).annotations()
    grids = (project.fixed_grid, project.moving_grid)
    check = checked(transform, annotations, grids)
    findings = transform_findings(transform.map(project.targets), project.targets, annotations, grids, check)
    for one in findings:
        warnings.warn(doubt(one, name, project.units).sentence, SuspiciousDataWarning, stacklevel=2)
    if check is None:
        return {}
    return {_ERROR: check.given, _BEFORE: check.before}


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
    if as_json:
        print_json({"removed": name, "transforms": left})
    else:
        click.echo(f"removed {name}; the project has now: {', '.join(left) or 'no transform'}")
