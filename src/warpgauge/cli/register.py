"""``warpgauge register``: run real registrations on a project's images and add what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.output import json_option, print_json, print_table, progress
from warpgauge.cli.projects import companions, project_argument


def _settings(preset: str, one_modality: bool) -> list[Any]:
    from warpgauge.registration import DEMO_SETTINGS, paper_grid

    if preset == "simpleitk":
        return list(DEMO_SETTINGS)
    return list(paper_grid(one_modality=one_modality, quick=preset == "paper-quick"))


@click.command(
    epilog="""\b
Examples:
  warpgauge register lesion --preset simpleitk
  warpgauge register lung --preset paper-quick --one-modality --jobs 2
  warpgauge register lesion --preset paper --time-limit 1800"""
)
@project_argument
@click.option(
    "--preset",
    type=click.Choice(["simpleitk", "paper-quick", "paper"]),
    default="simpleitk",
    show_default=True,
    help="simpleitk: affine, B-splines, demons. paper: 30 settings of elastix; paper-quick: 6 that run in minutes.",
)
@click.option("--one-modality", is_flag=True, help="Also mean squares, for images of one modality (paper).")
@click.option("--jobs", type=int, default=2, show_default=True, help="Registrations at a time.")
@click.option("--time-limit", type=float, default=3600.0, show_default=True, help="Seconds for each.")
@click.option("--again", is_flag=True, help="Run those too whose result the project has already.")
@json_option
def register(project: Path, preset: str, as_json: bool, **options: Any) -> None:
    """Register the images of PROJECT in every setting of a preset and add the results as transforms.

    They run away from this process, so that one that crashes or takes too long costs only itself. Needs
    "warpgauge[registration]" (SimpleITK) or "warpgauge[elastix]".
    """
    from warpgauge.project import Project
    from warpgauge.registration import run_registrations, write_input

    with Project.open(project) as opened:
        known = {name for name, record in opened.state.transforms.items() if record.files}
        settings = [
            one for one in _settings(preset, options["one_modality"]) if options["again"] or one.name not in known
        ]
        folder = opened.folder / "registration"
        folder.mkdir(exist_ok=True)
        inputs = [write_input(opened.image(role), folder / f"{role}.nrrd") for role in ("fixed", "moving")]
        with progress("registering") as show:
            results = run_registrations(
                inputs[0],
                inputs[1],
                settings,
                folder,
                jobs=options["jobs"],
                time_limit=options["time_limit"],
                progress=show,
            )
        for one in results:
            if one.path is not None:
                files = [one.path, *companions(one.path)]
                opened.add_transform(one.name, files, options={"sources": 1})
    failed = [one for one in results if one.path is None]
    if as_json:
        print_json([{"name": r.name, "seconds": r.seconds, "problem": r.problem} for r in results])
    else:
        rows = [[r.name, f"{r.seconds:.1f}", r.problem or "added"] for r in results]
        print_table(["registration", "seconds", "result"], rows)
        if not settings:
            click.echo("The project has all results of this preset already; --again runs them anew.")
    if failed and len(failed) == len(results):
        raise click.exceptions.Exit(1)
