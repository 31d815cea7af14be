"""What runs by itself: ``register``, ``demo``."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from warpgauge.cli.options import NEW, json_option, project_argument
from warpgauge.cli.output import next_steps, note, print_json, print_verdict, progress, quoted
from warpgauge.core.parallel import thread_count
from warpgauge.display import counted, text_table
from warpgauge.io.files import content_hash

if TYPE_CHECKING:
    from warpgauge.project import Project
    from warpgauge.registration import RegistrationResult

# A result that moves no target by more than this share of a pixel, on average, did nothing.
STILL = 0.1
# Likeness is compared on images of this size.
_SHOWN = {2: 512, 3: 96}


@click.command(
    epilog="""\b
Examples:
  warpgauge register lesion
  warpgauge register lung --jobs 2 --time-limit 1800"""
)
@project_argument
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=thread_count,
    show_default="one for each processor",
    help="Registrations that run in parallel, each with one thread.",
)
@click.option(
    "--time-limit", type=float, default=3600.0, show_default=True, help="Seconds that each registration may take."
)
@click.option("--fresh", is_flag=True, help="Also run those again that an earlier call made.")
@json_option
def register(project: Path, jobs: int, time_limit: float, fresh: bool, as_json: bool) -> None:
    """Run standard registrations on the images of PROJECT.

    A similarity, an affine map, three B-splines and demons, on reduced images. Each result is added as a reference
    named standard-... as soon as it is there: what is finished before Ctrl-C is kept, and the next run does the rest.
    Your own transforms are never touched. Each registration runs in its own process, so a crash or a timeout ends only
    that one. At the end, each is compared with no registration (identity): by the mean error at the annotations, if
    there are at least three, and by the similarity of the images' edges. One that did nothing is not added. Needs
    SimpleITK (the extra "registration").
    """
    from warpgauge.project import Project
    from warpgauge.registration import NAMES, run_standard, write_reduced

    with Project.open(project) as opened:
        home = opened.folder / "registration"
        home.mkdir(exist_ok=True)
        known = [name for name in NAMES if name in opened.transform_names()]
        own = [name for name in known if not _made_here(opened, name, home)]
        if own:
            note(f"{', '.join(own)} of the project was not made by warpgauge register and is left alone.")
        again = set() if fresh else set(known)
        names = [name for name in NAMES if name not in own and name not in again]
        results: list[RegistrationResult] = []
        still: set[str] = set()
        if names:
            click.echo(f"{counted(len(names), 'registration')}, {jobs} at a time ...", err=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch, progress("registering") as show:
            work = Path(scratch)
            fixed = write_reduced(opened.image("fixed"), work / "fixed.nrrd")
            moving = write_reduced(opened.image("moving"), work / "moving.nrrd")

            def add(result: RegistrationResult) -> None:
                results.append(result)
                show(len(results), len(names))
                if result.path is None:
                    return
                if _did_nothing(opened, result.path):
                    still.add(result.name)
                    return
                kept = home / result.path.name
                shutil.copyfile(result.path, kept)
                opened.add_transform(result.name, kept, replace=result.name in known, reference=True)

            if names:
                run_standard(
                    fixed, moving, work / "results", names=names, jobs=jobs, time_limit=time_limit, finished=add
                )
        results.sort(key=lambda result: names.index(result.name))
        rows = _compared(opened, results, still) if results else []
        units = opened.units
    if as_json:
        print_json(rows)
    elif not results:
        click.echo("The project has all standard registrations already; --fresh runs them again.")
    else:
        columns = ["registration", "seconds", "result", f"error in {units}", "similarity"]
        cells = [[row[key] for key in ("name", "seconds", "result", "error", "likeness")] for row in rows]
        click.echo(text_table(columns, cells))
        click.echo("error: mean at the annotations; similarity: correlation of the images' edges.")
        next_steps(f"warpgauge evaluate {quoted(project)}")
    if results and all(result.path is None for result in results):
        raise click.exceptions.Exit(1)


def _made_here(project: Project, name: str, home: Path) -> bool:
    """Return whether a transform of the project is what an earlier call of ``register`` made."""
    record = project.state.transforms[name]
    file = home / f"{name}.h5"
    return record.reference and file.is_file() and record.hashes == (content_hash(file),)


def _did_nothing(project: Project, file: Path) -> bool:
    from warpgauge.io.transforms import read_transform

    targets = project.targets
    moved = read_transform(file, reference=project.fixed_grid, moving=project.moving_grid).map(targets) - targets
    return float(np.nanmean(np.linalg.norm(moved, axis=1))) < STILL * project.fixed_grid.pixel


def _compared(project: Project, results: list[RegistrationResult], still: set[str]) -> list[dict[str, Any]]:
    """Return a row for no registration and for each result, with what became of it."""
    from warpgauge.io.transforms import AffineTransform
    from warpgauge.project.transforms import IDENTITY
    from warpgauge.registration import Likeness, reduced_gray
    from warpgauge.session import Session
    from warpgauge.session.doubts import FEWEST

    annotations = Session(project).annotations()
    alike = Likeness(*(reduced_gray(project.image(role), _SHOWN[project.d]) for role in ("fixed", "moving")))

    def row(name: str, seconds: float, result: str, transform: Any) -> dict[str, Any]:
        error = None
        if transform is not None and len(annotations) >= FEWEST:
            errors = np.linalg.norm(transform.map(annotations.fixed_points) - annotations.moving_points, axis=1)
            error = float(np.nanmean(errors)) if np.isfinite(errors).any() else None
        likeness = None if transform is None else alike(transform)
        return {"name": name, "seconds": round(seconds, 1), "result": result, "error": error, "likeness": likeness,
                "worse": False}  # fmt: skip

    before = row(IDENTITY, 0.0, "", AffineTransform(np.eye(project.d), np.zeros(project.d)))
    rows = [before]
    for result in results:
        if result.path is None:
            rows.append(row(result.name, result.seconds, str(result.problem), None))
        elif result.name in still:
            rows.append(row(result.name, result.seconds, "did nothing; not added", None))
        else:
            found = row(result.name, result.seconds, "added", project.transform(result.name))
            if before["error"] is not None:
                found["worse"] = found["error"] is None or bool(found["error"] > before["error"])
            else:
                found["worse"] = not found["likeness"] >= before["likeness"]
            if found["worse"]:
                found["result"] = "added; worse than nothing"
            rows.append(found)
    return rows


@click.command(
    epilog="""\b
Examples:
  warpgauge demo
  warpgauge demo --dim 3 --out demo-3d"""
)
@click.option("--dim", type=click.Choice(["2", "3"]), default="2", show_default=True, help="2: histology. 3: brain.")
@click.option("--out", type=NEW, default=Path("demo-output"), show_default=True)
@click.option("--queries", type=int, default=40, show_default=True, help="Suggestions that the expert answers.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the deformation and of the expert.")
@click.option("--jobs", type=int, help="Registrations that run in parallel; by default one per core.")
@json_option
def demo(dim: str, out: Path, queries: int, seed: int, jobs: int | None, as_json: bool) -> None:
    """Run a complete example, from images to a ranking.

    Deforms a real image, annotates it by a simulated expert, registers it with several settings, and ranks them. The
    true deformation is known here, so the ranking from 40 uncertain annotations is compared with the true one. Needs no
    server and no download. Running it again clears the output folder.
    """
    from warpgauge.demo import run_demo

    result = run_demo(
        int(dim),
        out,
        queries=queries,
        seed=seed,
        jobs=jobs,
        say=lambda sentence: click.echo(sentence, err=as_json),
        bar=progress,
    )
    if as_json:
        print_json(result.to_dict())
        return
    print_verdict(f"\n{result}")
    next_steps(
        "warpgauge new my-project --fixed FIXED --moving MOVING   (your own images)",
        f"warpgauge info {quoted(result.folder / 'project')}   (the project that was just made)",
    )
