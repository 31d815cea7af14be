"""The results of a project: ``add-transform``, ``remove-transform``, ``rename-transform``, ``register``, ``align``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from warpgauge.cli.arguments import cluster_options, executor_for, project_argument, rater_option, resume_option
from warpgauge.cli.output import json_option, number, print_facts, print_json, print_table, progress
from warpgauge.display import counted
from warpgauge.errors import SuspiciousDataWarning
from warpgauge.io.transforms import FORMATS
from warpgauge.project.transforms import IDENTITY

if TYPE_CHECKING:
    from warpgauge.compute import Executor
    from warpgauge.io.transforms import Transform
    from warpgauge.project import Project
    from warpgauge.registration import RegistrationResult

# Fewer annotations say too little about a transform.
_FEWEST = 3
_MOST_OUTSIDE = 0.5


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
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--format", "format_", type=click.Choice(sorted(FORMATS)), help="Format; detected by default.")
@click.option("--direction", type=click.Choice(["fixed_to_moving", "moving_to_fixed"]), help="What the file maps.")
@click.option("--layout", help="Layout of an array or Learn2Reg file, if the file does not state it.")
@click.option("--components", help="Order of the vector components of an array, if the file does not state it.")
@click.option("--convention", type=click.Choice(["relative", "absolute"]), help="Displacements or positions.")
@click.option("--frame", help="Frame of the vectors, if the file does not state it.")
@click.option(
    "--scale",
    type=float,
    help="Multiply all coordinates of the transform by this: 0.25 for one made on images four times as large.",
)
@click.option("--replace", is_flag=True, help="Replace the transform that has this name already.")
@json_option
def add_transform(
    project: Path, name: str, files: tuple[Path, ...], replace: bool, as_json: bool, **options: Any
) -> None:
    """Add a registration result to PROJECT.

    FILES are copied into PROJECT as the transform NAME; several files form a chain, applied to points in this order. A
    file that cannot be read is not added. The transform is then compared with the annotations. You are warned if a
    common misreading (inverse, flipped axes, voxels instead of mm, another scale) fits clearly better, if the transform
    is worse than no transform at all, or if it maps most targets outside the moving image.
    """
    from warpgauge.project import Project

    told = {key.rstrip("_"): value for key, value in options.items() if value is not None}
    with Project.open(project) as opened:
        opened.add_transform(name, files, options=told, replace=replace)
        added = opened.transform(name)
        facts: dict[str, Any] = {"name": name, **added.description.to_dict(), **compared(opened, name, added)}
    if as_json:
        print_json(facts)
        return
    facts.pop("source", None)
    print_facts({key: f"{number(value)} {opened.units}" if "error" in key else value for key, value in facts.items()})


def compared(project: Project, name: str, transform: Transform) -> dict[str, float]:
    """Compare a transform with the annotations and the targets of a project; warn of what is probably not meant.

    Returns
    -------
    dict
        Mean error at the annotations with the transform and without any, in world units; empty with few annotations.
    """
    from warpgauge.io.transforms import check_transform
    from warpgauge.io.transforms.check import share_outside
    from warpgauge.session import Session

    outside = share_outside(transform, project.targets, project.moving_grid)
    if outside > _MOST_OUTSIDE:
        warnings.warn(
            f"{name}: {outside:.0%} of the {len(project.targets)} targets are mapped outside the moving image or not "
            f"at all; check that the transform belongs to these images, and its direction, units and scale.",
            SuspiciousDataWarning,
            stacklevel=2,
        )
    annotations = Session(project).annotations()
    if len(annotations) < _FEWEST:
        return {}
    named = transform.described(source=name, units=project.units)
    check = check_transform(named, annotations, reference=project.fixed_grid, moving=project.moving_grid)
    return {
        "mean error at the annotations": check.as_given.mean_error,
        "mean error without any transform": check.readings[1].mean_error,
    }


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


@click.command("rename-transform", epilog="\b\nExample:\n  warpgauge rename-transform lesion result1 bspline")
@project_argument
@click.argument("name")
@click.argument("new_name")
@json_option
def rename_transform(project: Path, name: str, new_name: str, as_json: bool) -> None:
    """Rename the transform NAME of PROJECT to NEW_NAME."""
    from warpgauge.project import Project

    with Project.open(project) as opened:
        opened.rename_transform(name, new_name)
        left = opened.transform_names()
    print_json({"renamed": name, "transforms": left}) if as_json else click.echo(f"{name} is now called {new_name}")


# ``warpgauge register``: run real registrations on a project's images and add the results.

# Likeness is compared on images of this size.
_SHOWN = {2: 512, 3: 96}


def _settings(preset: str, one_modality: bool) -> list[Any]:
    from warpgauge.registration import DEFAULT_SETTINGS, paper_grid

    if preset == "standard":
        return list(DEFAULT_SETTINGS)
    return list(paper_grid(one_modality=one_modality, quick=preset == "paper-quick"))


@click.command(
    epilog="""\b
Examples:
  warpgauge register lesion
  warpgauge register lung --preset paper-quick --one-modality --jobs 2
  warpgauge register lesion --preset paper --time-limit 1800
  warpgauge register lesion --preset paper --scheduler tcp://10.0.0.1:8786"""
)
@project_argument
@click.option(
    "--preset",
    type=click.Choice(["standard", "paper-quick", "paper"]),
    default="standard",
    show_default=True,
    help="standard: rigid, affine, B-splines, demons on reduced images. paper: 30 settings of elastix on the images as "
    "they are; paper-quick: 6 of them with fewer iterations.",
)
@click.option("--one-modality", is_flag=True, help="Also mean squares, for images of one modality (paper).")
@click.option("--jobs", type=int, default=2, show_default=True, help="Registrations that run in parallel.")
@click.option(
    "--time-limit", type=float, default=3600.0, show_default=True, help="Seconds that each registration may take."
)
@cluster_options
@resume_option("run those too whose result the project has already")
@click.option("--again", is_flag=True, help="The same as --fresh.")
@json_option
def register(project: Path, preset: str, as_json: bool, **options: Any) -> None:
    """Run standard registrations on the images of PROJECT.

    Runs every setting of a preset and adds the results as transforms. The expected duration is printed first. Each
    registration runs in its own process, so a crash or a timeout ends only that one. At the end, each result is
    compared with no registration (identity): by the mean error at the annotations, if there are at least three, and by
    the similarity of the images' edges. Needs SimpleITK (the extra "registration") or itk-elastix (the extra
    "elastix").
    """
    from warpgauge.maps import write_map
    from warpgauge.project import Project
    from warpgauge.registration import reduced_gray, run_registrations, write_input

    with Project.open(project) as opened:
        known, resume = opened.transform_names(), options["resume"] and not options["again"]
        wanted = _settings(preset, options["one_modality"])
        settings = [one for one in wanted if not resume or one.name not in known]
        if 0 < len(settings) < len(wanted):
            kept = [one.name for one in wanted if one not in settings]
            them = "it" if len(kept) == 1 else "them"
            click.echo(
                f"note: the project has {', '.join(kept)} already; --fresh runs {them} again and replaces {them}.",
                err=True,
            )
        folder = opened.folder / "registration"
        folder.mkdir(exist_ok=True)
        inputs = []
        for role in ("fixed", "moving"):
            path = folder / f"{role}.nrrd"
            if preset == "standard":
                write_map(*reduced_gray(opened.image(role)), path)
            else:
                write_input(opened.image(role), path)
            inputs.append(path)
        executor = _executor(options)

        def add(result: RegistrationResult) -> None:
            if result.path is not None:
                opened.add_transform(result.name, result.path, replace=True)

        with executor, progress("registering") as show:
            _announce(settings, opened, executor.workers)
            results = run_registrations(
                inputs[0],
                inputs[1],
                settings,
                folder,
                executor=executor,
                time_limit=options["time_limit"],
                progress=show,
                finished=add,
            )
        rows = _compared(opened, results) if settings else []
        units = opened.units
    failed = [one for one in results if one.path is None]
    if as_json:
        print_json(rows)
    elif not settings:
        click.echo("The project already has all results of this preset; --fresh runs them again.")
    else:
        columns = ["registration", "seconds", "result", f"error in {units}", "similarity"]
        print_table(columns, [[row[key] for key in ("name", "seconds", "result", "error", "likeness")] for row in rows])
        click.echo(
            "\nerror: mean error at the annotations; similarity: correlation of the images' edges; identity: no "
            "registration."
        )
    for row in rows:
        if "worse" in str(row["result"]):
            click.echo(f"note: {row['name']} is worse than no registration.", err=True)
    if failed and len(failed) == len(results):
        raise click.exceptions.Exit(1)


def _executor(options: dict[str, Any]) -> Executor:
    """Return where to run: in other processes even where one job at a time is asked for, as a crash ends them."""
    from warpgauge.compute import ProcessPool

    if options["scheduler"] is None and options["cluster"] is None:
        return ProcessPool(options["jobs"])
    return executor_for(options["jobs"], options["scheduler"], options["cluster"])


def _announce(settings: list[Any], project: Project, jobs: int) -> None:
    """Print the expected duration, if the settings have an estimate."""
    known = [one.seconds(project.fixed_grid.size) for one in settings if hasattr(one, "seconds")]
    if known:
        wall = max(*known, sum(known) / max(1, jobs))
        click.echo(
            f"{counted(len(settings), 'registration')}, {jobs} at a time; about {number(round(wall))} s on an idle "
            "machine.",
            err=True,
        )


def _compared(project: Project, results: list[RegistrationResult]) -> list[dict[str, Any]]:
    """Return a row for doing nothing and for each result, with what became of it."""
    from warpgauge.io.transforms import AffineTransform
    from warpgauge.registration import Likeness, reduced_gray
    from warpgauge.session import Session

    annotations = Session(project).annotations()
    shown = _SHOWN[project.d]
    alike = Likeness(*(reduced_gray(project.image(role), shown) for role in ("fixed", "moving")))

    def measured(transform: Any) -> tuple[float | None, float]:
        error = None
        if len(annotations) >= _FEWEST:
            errors = np.linalg.norm(transform.map(annotations.fixed_points) - annotations.moving_points, axis=1)
            error = float(np.nanmean(errors)) if np.isfinite(errors).any() else None
        return error, alike(transform)

    nothing = measured(AffineTransform(np.eye(project.d), np.zeros(project.d)))
    rows = [{"name": IDENTITY, "seconds": 0.0, "result": "", "error": nothing[0], "likeness": nothing[1]}]
    for one in results:
        row: dict[str, Any] = {"name": one.name, "seconds": round(one.seconds, 1), "error": None, "likeness": None}
        row["result"] = one.problem
        if one.path is not None:
            row["error"], row["likeness"] = measured(project.transform(one.name))
            row["result"] = "added; worse than nothing" if _is_worse(row, nothing) else "added"
        rows.append(row)
    return rows


def _is_worse(row: dict[str, Any], nothing: tuple[float | None, float]) -> bool:
    """Return whether the annotations say that it is worse than doing nothing or, without them, the images."""
    if nothing[0] is not None:
        return row["error"] is None or bool(row["error"] > nothing[0])
    return not row["likeness"] >= nothing[1]


# ``warpgauge align``: a rough alignment of the two images, proposed, shown, and accepted or refused.

PICTURE = "alignment.png"


def propose(project: Project) -> dict[str, Any]:
    """Propose an alignment, draw it, and return its description."""
    from warpgauge.errors import MissingExtraError
    from warpgauge.project.transforms import write_picture

    found = project.propose_alignment()
    picture: str | None = str(project.folder / PICTURE)
    try:
        write_picture(project, found, project.folder / PICTURE)
    except MissingExtraError:
        picture = None
    return {"alignment": f"proposed: {found.method}", "picture": picture}


@click.command(
    epilog="""\b
Examples:
  warpgauge align lesion
  warpgauge align lesion --yes --rater ann
  warpgauge align lesion --no"""
)
@project_argument
@click.option("--yes/--no", "accepted", default=None, help="Accept or refuse what was proposed.")
@rater_option
@json_option
def align(project: Path, accepted: bool | None, rater: str, as_json: bool) -> None:
    """Propose a rough alignment of the two images.

    Tries rotations and mirror images, and refines the best by a similarity transform. Look at the picture: it shows the
    fixed image, the aligned moving image, and a checkerboard of both. Then accept (--yes) or refuse (--no) the
    proposal. Once accepted, questions and predictions in PROJECT start from it, with a wide uncertainty. The log
    records who accepted it.
    """
    from warpgauge.project import Project

    with Project.open(project) as opened:
        if accepted is None:
            facts = propose(opened)
        else:
            event = opened.answer_alignment(accepted, rater)
            said = "accepted" if accepted else "refused"
            facts = {"alignment": f"{said} by {rater}: {event.payload['method']}"}
    if as_json:
        print_json(facts)
        return
    print_facts(facts)
    if accepted is None:
        click.echo(f"\nIs it right? warpgauge align {project} --yes   (or --no)")
