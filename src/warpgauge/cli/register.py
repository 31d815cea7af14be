"""``warpgauge register``: run real registrations on a project's images and add the results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from warpgauge.cli.arguments import cluster_options, executor_for, project_argument, resume_option
from warpgauge.cli.output import json_option, number, print_json, print_table, progress
from warpgauge.core.parallel import thread_count
from warpgauge.display import counted
from warpgauge.project.transforms import IDENTITY
from warpgauge.session.doubts import FEWEST

if TYPE_CHECKING:
    from warpgauge.compute import Executor
    from warpgauge.project import Project
    from warpgauge.registration import RegistrationResult

# Pieces of work by which the machine is timed, and the processor seconds of all where the estimates were made.
_PIECES, _PIECES_TOOK = 30, 0.21
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
@click.option(
    "--jobs",
    type=int,
    default=thread_count,
    show_default="one for each processor",
    help="Registrations that run in parallel, each with one thread.",
)
@click.option(
    "--time-limit", type=float, default=3600.0, show_default=True, help="Seconds that each registration may take."
)
@cluster_options
@resume_option("run those too whose result the project has already")
@click.option("--again", is_flag=True, help="The same as --fresh.")
@json_option
def register(project: Path, preset: str, as_json: bool, **options: Any) -> None:
    """Run standard registrations on the images of PROJECT.

    Runs every setting of a preset and adds each result as a transform as soon as it is there: what is finished before
    Ctrl-C is kept, and the next run does the rest. The expected duration is printed first. Each registration runs in
    its own process, so a crash or a timeout ends only that one. At the end, each result is
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

        with executor, progress("registering") as show:
            forecast = _Forecast(settings, opened, executor.workers, show)
            forecast.tell()

            def add(result: RegistrationResult) -> None:
                if result.path is not None:
                    opened.add_transform(result.name, result.path, replace=True, reference=True)
                forecast.watch(result.name, 1.0)

            results = run_registrations(
                inputs[0],
                inputs[1],
                forecast.longest_first,
                folder,
                executor=executor,
                time_limit=options["time_limit"],
                finished=add,
                prepared=forecast.tell_again,
                watch=forecast.watch,
            )
        order = [one.name for one in settings]
        results.sort(key=lambda one: order.index(one.name))
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
        if row["worse"]:
            click.echo(f"note: {row['name']} is worse than no registration.", err=True)
    if failed and len(failed) == len(results):
        raise click.exceptions.Exit(1)


def _executor(options: dict[str, Any]) -> Executor:
    """Return where to run: always in other processes, so that a crash ends one registration only."""
    from warpgauge.compute import ProcessPool

    if options["scheduler"] is None and options["cluster"] is None:
        return ProcessPool(options["jobs"])
    return executor_for(options)


class _Forecast:
    """How long the registrations of a preset take, if the settings have an estimate, and how much of it is done."""

    def __init__(self, settings: list[Any], project: Project, jobs: int, show: Callable[[int, int], None]) -> None:
        self._jobs, self._show = jobs, show
        size = project.fixed_grid.size
        used = Counter(stage for one in settings for stage in getattr(one, "stages", ()))
        # In seconds of the machine on which the estimates were made; without estimates all settings count the same.
        self._stages: dict[str, float] = {}
        self._own = {one.name: one.seconds(size) if hasattr(one, "seconds") else 1.0 for one in settings}
        for one in settings:
            for stage in getattr(one, "stages", ()):
                seconds = one.seconds(size, stage)
                if used[stage] > 1:
                    self._stages[stage] = seconds
                else:  # made by the setting itself
                    self._own[one.name] += seconds
        self.longest_first = sorted(settings, key=lambda one: -self._own[one.name])
        self._shares: dict[str, float] = {}
        self._pace = _pace() if used else None

    def tell(self) -> None:
        """Print the expected duration, by how fast this machine is now."""
        if self._pace is not None:
            click.echo(
                f"{counted(len(self._own), 'registration')}, {self._jobs} at a time; about "
                f"{number(round(self._rest() * self._pace))} s if this machine stays as busy as it is now.",
                err=True,
            )

    def tell_again(self, stage: str, seconds: float) -> None:
        """Print what is left, by how long the first stage took on this machine."""
        self.watch(stage, 1.0)
        if stage == "start":
            rest = self._rest() * seconds / self._stages[stage]
            click.echo(f"The start took {number(round(seconds, 1))} s: about {number(round(rest))} s more.", err=True)

    def watch(self, name: str, share: float) -> None:
        """Show how much of all is done, in thousandths, after a share of one stage or setting."""
        self._shares[name] = max(share, self._shares.get(name, 0.0))
        every = {**self._stages, **self._own}
        done = sum(every[one] * part for one, part in self._shares.items())
        self._show(round(1000 * done / sum(every.values())), 1000)

    def _rest(self) -> float:
        """Seconds that are left: stages one after the other, then the settings side by side."""
        stages = sum(seconds * (1 - self._shares.get(one, 0.0)) for one, seconds in self._stages.items())
        own = list(self._own.values())
        return stages + max([*own, sum(own) / max(1, self._jobs)])


def _pace() -> float:
    """Return how many times longer than on the machine of the estimates some work takes now, by the clock."""
    from scipy import ndimage

    values = np.random.default_rng(0).uniform(size=(64, 64, 64)).astype(np.float32)
    at = np.random.default_rng(1).uniform(0, 63, (3, 200_000))
    ndimage.map_coordinates(values, at, order=1)
    started = time.monotonic()
    for _ in range(_PIECES):
        ndimage.map_coordinates(values, at, order=1)
    return (time.monotonic() - started) / _PIECES_TOOK


def _compared(project: Project, results: list[RegistrationResult]) -> list[dict[str, Any]]:
    """Return a row for no registration and for each result, with what became of it."""
    from warpgauge.io.transforms import AffineTransform
    from warpgauge.registration import Likeness, reduced_gray
    from warpgauge.session import Session

    annotations = Session(project).annotations()
    shown = _SHOWN[project.d]
    alike = Likeness(*(reduced_gray(project.image(role), shown) for role in ("fixed", "moving")))

    def measured(transform: Any) -> tuple[float | None, float]:
        error = None
        if len(annotations) >= FEWEST:
            errors = np.linalg.norm(transform.map(annotations.fixed_points) - annotations.moving_points, axis=1)
            error = float(np.nanmean(errors)) if np.isfinite(errors).any() else None
        return error, alike(transform)

    nothing = measured(AffineTransform(np.eye(project.d), np.zeros(project.d)))
    rows = [{"name": IDENTITY, "seconds": 0.0, "result": "", "error": nothing[0], "likeness": nothing[1],
             "worse": False}]  # fmt: skip
    for one in results:
        row: dict[str, Any] = {
            "name": one.name,
            "seconds": round(one.seconds, 1),
            "error": None,
            "likeness": None,
            "worse": False,
        }
        row["result"] = one.problem
        if one.path is not None:
            row["error"], row["likeness"] = measured(project.transform(one.name))
            row["worse"] = _is_worse(row, nothing)
            row["result"] = "added; worse than nothing" if row["worse"] else "added"
        rows.append(row)
    return rows


def _is_worse(row: dict[str, Any], nothing: tuple[float | None, float]) -> bool:
    """Return whether a result is worse than no registration, by the annotations or, without any, by the images."""
    if nothing[0] is not None:
        return row["error"] is None or bool(row["error"] > nothing[0])
    return not row["likeness"] >= nothing[1]
