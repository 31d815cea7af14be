"""Verdicts: ``evaluate``, ``report``, ``map``, ``certify``, ``gate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from warpgauge.cli.options import (
    FILE,
    FOLDER,
    NEW,
    NEW_FILE,
    chosen_transforms,
    json_option,
    project_argument,
    trust_option,
)
from warpgauge.cli.output import note, print_facts, print_json, print_verdict, progress
from warpgauge.display import lines_text
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation.judge import CENTRES

centre_option = click.option(
    "--centre",
    type=click.Choice(CENTRES),
    default=CENTRES[0],
    show_default=True,
    help="Centre of the model of the truth: the transforms themselves, or the project's prior as in the paper.",
)
margin_option = click.option(
    "--margin",
    type=float,
    help="Smallest difference of two errors that matters, in world units; 0.1 pixels of the fixed image by default.",
)
tolerance_option = click.option("--tolerance", type=float, help="Largest acceptable error, in world units.")


@click.command(
    epilog="""\b
Examples:
  warpgauge evaluate lesion
  warpgauge evaluate lesion bspline affine identity --tolerance 5
  warpgauge evaluate lung build/new.tfm --json"""
)
@project_argument
@click.argument("transforms", nargs=-1)
@tolerance_option
@margin_option
@centre_option
@json_option
def evaluate(
    project: Path,
    transforms: tuple[str, ...],
    tolerance: float | None,
    margin: float | None,
    centre: str,
    as_json: bool,
) -> None:
    """Score and rank transforms with their uncertainty.

    TRANSFORMS are names in PROJECT, or files; by default all of PROJECT are evaluated, with the identity as a baseline.
    Errors are in world units over the project's targets. In the table, 'landmarks' is the classical RMS error at the
    annotations; 'error' is the estimated true RMS error over all targets, with its 90 % interval; 'P(best)' is the
    probability of the smallest error, of copies together. Five lines follow: which is best, its error, the next, what
    this rests on, and what to bear in mind. With '--centre prior' (and in projects of the paper's model), 'error' is
    the paper's score, against the posterior mean.
    """
    from warpgauge.evaluation import evaluate_project
    from warpgauge.project import Project

    with Project.open(project) as opened:
        chosen = chosen_transforms(opened, transforms)
        # References stay beside the methods that are chosen: what is said of a method must not depend on the choice.
        references = {name: opened.transform(name) for name in opened.reference_names() if name not in chosen}
        found = evaluate_project(opened, {**chosen, **references}, tolerance=tolerance, margin=margin, centre=centre)
    print_json(found.to_dict()) if as_json else print_verdict(str(found))


@click.command(
    epilog="""\b
Examples:
  warpgauge report lesion
  warpgauge report lesion --out lesion.html --tolerance 5"""
)
@project_argument
@click.option("--out", type=NEW, help="File to write; report/report.html in the project by default.")
@tolerance_option
@margin_option
@centre_option
@click.option("--no-maps", is_flag=True, help="Write a report without maps.")
@json_option
def report(
    project: Path,
    out: Path | None,
    tolerance: float | None,
    margin: float | None,
    centre: str,
    no_maps: bool,
    as_json: bool,
) -> None:
    """Write an HTML report: verdict, table, intervals, maps, calibration.

    The report is one self-contained HTML file, with a JSON file of all numbers beside it. If the model is
    overconfident, the report says so before it shows a ranking. Of a study: warpgauge benchmark STUDY --report FILE.
    """
    from warpgauge.project import Project
    from warpgauge.report import write_project_report

    with Project.open(project) as opened:
        chosen_transforms(opened)  # refuses a project without any
        written = write_project_report(opened, out, maps=not no_maps, tolerance=tolerance, margin=margin, centre=centre)
    facts = {"report": str(written), "numbers": str(written.with_suffix(".json"))}
    print_json(facts) if as_json else print_facts(facts)


_OF_POSTERIOR = ("mean", "entropy", "sd")
_OF_TRANSFORM = ("error", "exceedance", "significance", "blended")
_FADED = ("blended", "exceedance")  # drawn faded and hatched where the annotations say little
_PICTURES = (".png", ".svg")
# A map for the eye needs no more elements than this along its longest side, unless asked for.
_LONGEST = {2: 1024, 3: 128}
_WORDS = {"sd": "standard deviation", "mean": "displacement", "blended": "error"}


@click.command(
    "map",
    epilog="""\b
Examples:
  warpgauge map lesion sd sd.png
  warpgauge map lesion error error.nii.gz --transform bspline --full
  warpgauge map lesion blended blended.png --transform bspline
  warpgauge map lung exceedance o.nii.gz --transform bspline --tolerance 2""",
)
@project_argument
@click.argument("kind", type=click.Choice([*_OF_POSTERIOR, *_OF_TRANSFORM]))
@click.argument("out", type=NEW)
@click.option("--transform", "name", help="The transform to map, for error, exceedance, significance and blended.")
@click.option("--tolerance", type=float, help="Largest acceptable error in world units, for exceedance.")
@click.option("--full", is_flag=True, help="Every pixel of the fixed image; by default a coarser grid over it.")
@json_option
def map_(
    project: Path, kind: str, out: Path, name: str | None, tolerance: float | None, full: bool, as_json: bool
) -> None:
    """Write a map of errors or uncertainty over the fixed image.

    KIND is mean (displacement of the posterior mean), entropy, sd (standard deviation in world units); or, of a
    transform, error (the score e(x)), exceedance (probability of an error above --tolerance), significance
    (Benjamini-Hochberg-adjusted p-values) or blended (error, faded where the annotations say too little). OUT ends in
    .nii.gz, .nrrd, .zarr or .tif for numbers in the right frame, or in .png or .svg for a picture with legend and
    scale bar.
    """
    from warpgauge import maps
    from warpgauge.evaluation import project_posterior
    from warpgauge.maps.dense import masked
    from warpgauge.project import Project

    picture = out.suffix.lower() in _PICTURES
    if kind == "blended" and not picture:
        raise InvalidInputError("A blended map is a picture: give OUT a name that ends in .png or .svg.")
    if kind in _OF_TRANSFORM and name is None:
        raise InvalidInputError(f"A map of kind {kind} needs --transform NAME.")
    if kind == "exceedance" and tolerance is None:
        raise InvalidInputError("An exceedance map needs --tolerance, the error that counts in world units.")
    with Project.open(project) as opened:
        posterior = project_posterior(opened)
        grid = opened.fixed_grid
        if not full:
            grid = grid.coarsened(max(1.0, max(grid.size) / _LONGEST[grid.d]))
        transform = None
        if name is not None and kind in _OF_TRANSFORM:
            (transform,) = chosen_transforms(opened, (name,)).values()
        with progress(f"{kind} map") as show:
            array = masked(_array(kind, posterior, transform, grid, tolerance, show), grid, opened.missing)
        if picture:
            _draw(opened, posterior, kind, array, grid, out, name, tolerance)
        else:
            _note_lost_frame(grid, out)
            maps.write_map(array.astype(np.float32), grid, out, drop_frame=True)
        units = opened.units
    facts: dict[str, Any] = {"written": str(out), "kind": kind, "size": list(grid.size), "units": units}
    known = array[np.isfinite(array)]
    if known.size and kind != "mean":
        facts |= {"smallest": float(known.min()), "largest": float(known.max())}
    print_json(facts) if as_json else print_facts(facts)


def _array(kind: str, posterior: Any, transform: Any, grid: Any, tolerance: float | None, show: Any) -> Any:
    from warpgauge import maps

    of_posterior = {"mean": maps.mean_map, "entropy": maps.entropy_map, "sd": maps.standard_deviation_map}
    if kind in of_posterior:
        return of_posterior[kind](posterior, grid, progress=show)
    if kind == "exceedance":
        assert tolerance is not None
        return maps.exceedance_map(posterior, transform, grid, tolerance, progress=show)
    made = maps.significance_map if kind == "significance" else maps.error_map
    return made(posterior, transform, grid, progress=show)


def _draw(
    project: Any, posterior: Any, kind: str, array: Any, grid: Any, out: Path, name: str | None, tolerance: float | None
) -> None:
    from warpgauge import maps
    from warpgauge.maps.pictures import Picture, displayable, map_picture, save_picture

    values = np.linalg.norm(array, axis=-1) if kind == "mean" else array
    below = maps.warped_image(project.image("fixed"), lambda points: points, grid)
    faded: dict[str, Any] = {}
    if kind in _FADED:
        faded["entropy"] = maps.entropy_map(posterior, grid)
        faded["limits"] = maps.entropy_limits(posterior, pixel=project.fixed_grid.pixel)
    drawn = Picture(
        {name or kind: values},
        grid,
        _WORDS.get(kind, kind),
        image=displayable(below),
        points=posterior.annotations.fixed_points,
        tolerance=tolerance,
        labels=maps.region_labels(posterior, grid),
        **faded,
    )
    save_picture(map_picture(drawn), out)


def _note_lost_frame(grid: Any, out: Path) -> None:
    """Warn about parts of the frame that the output format cannot store."""
    suffix = out.suffix.lower()
    if suffix not in (".tif", ".tiff", ".zarr"):
        return
    lost = []
    origin = ""
    if not np.array_equal(grid.direction, np.eye(grid.d)):
        lost.append("the direction of its axes")
    if suffix != ".zarr" and np.any(grid.origin != 0):
        lost.append("its origin")
        origin = f" (the first element lies at {', '.join(f'{x:g}' for x in grid.origin)} {grid.units})"
    if lost:
        note(
            f"{out.name} holds the spacing of the map but not {' and '.join(lost)}{origin}; .nii.gz and .nrrd hold the "
            "whole frame."
        )


@click.command(
    epilog="""\b
Examples:
  warpgauge certify trial
  warpgauge certify trial bspline demons --out trial.json --by "A. Organiser"
  warpgauge certify --check trial.json     (anywhere, without the project)
  warpgauge certify --check trial.json trial"""
)
@trust_option
@click.argument("project", type=FOLDER, required=False)
@click.argument("transforms", nargs=-1)
@click.option("--check", type=FILE, help="Check this certificate, and compare it with PROJECT if you name one.")
@click.option("--out", type=NEW_FILE, help="Write the certificate (JSON) here; this opens the answers permanently.")
@click.option("--by", "signed_off_by", default="", help="Name of the person responsible; written into the certificate.")
@json_option
def certify(
    project: Path | None,
    transforms: tuple[str, ...],
    check: Path | None,
    out: Path | None,
    signed_off_by: str,
    as_json: bool,
) -> None:
    """Compare transforms by random audit questions.

    TRANSFORMS are names in PROJECT; by default all are compared. Tells which of them may still be the best in mean
    error. What is proven relies only on the random draw of the questions (see warpgauge new --audit), whatever the
    shape of the errors and however often you look. What the model says stands beside it.
    """
    from warpgauge.evaluation import certify_project
    from warpgauge.project import Project

    if check is not None:
        _check(check, project, as_json)
        return
    if project is None:
        raise click.UsageError("Name a PROJECT, or a certificate with --check.")
    with Project.open(project) as opened:
        chosen = chosen_transforms(opened, transforms)
        found = certify_project(opened, chosen, out=out, signed_off_by=signed_off_by)
    if as_json:
        print_json(found.content)
        return
    print_verdict(str(found))
    if out is not None:
        click.echo(f"Certificate: {out} ({found.content['digest'][:19]}...)")


def _check(path: Path, folder: Path | None, as_json: bool) -> None:
    from warpgauge.evaluation import check_certificate, read_certificate
    from warpgauge.project import Project

    content = read_certificate(path)
    if folder is None:
        problems = check_certificate(content)
    else:
        with Project.open(folder) as opened:
            problems = check_certificate(content, opened)
    if as_json:
        print_json({"confirmed": not problems, "problems": problems, "lines": content["lines"]})
    elif not problems:
        click.echo(f"Confirmed: answers and verdict{' and project' if folder else ''}.\n{lines_text(content['lines'])}")
    else:
        for problem in problems:
            click.echo(f"NOT CONFIRMED: {problem}")
    if problems:
        raise click.exceptions.Exit(1)


class _Gate(click.Command):
    """A command whose failures all end with 3: 1 and 2 are outcomes."""

    failure_code = 3


@click.command(
    cls=_Gate,
    epilog="""\b
Example:
  warpgauge gate trial build/new.tfm --against baseline.tfm --margin 0.1mm""",
)
@project_argument
@click.argument("new")
@click.option("--against", required=True, help="Baseline: a transform of the project, or a file.")
@click.option("--margin", default="0", show_default=True, help="Accepted difference in mean error: 0.1mm, 0.1 or 5%.")
@click.option("--level", type=float, default=0.95, show_default=True, help="One minus the error rate of codes 0 and 1.")
@json_option
def gate(project: Path, new: str, against: str, margin: str, level: float, as_json: bool) -> None:
    """Test whether a transform is worse than a baseline.

    Compares the transform NEW with the baseline by the audit of PROJECT. Exit codes: 0 proven to be not worse by the
    margin, 1 proven to be worse, 2 undecided (more audit answers are needed), 3 an error. Codes 0 and 1 are each wrong
    in at most 1 - level of the audits, whatever the shape of the errors and however often you look.
    """
    from warpgauge.evaluation import gate_project
    from warpgauge.project import Project

    with Project.open(project) as opened:
        transforms = [next(iter(chosen_transforms(opened, (name,)).values())) for name in (new, against)]
        found = gate_project(opened, *transforms, margin=margin, level=level)
    print_json(found.to_dict()) if as_json else click.echo(found.sentence)
    if found.code:
        raise click.exceptions.Exit(found.code)
