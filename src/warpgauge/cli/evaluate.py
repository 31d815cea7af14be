"""``warpgauge evaluate``: which registration is best, by how much, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.output import json_option, print_json, print_table
from warpgauge.cli.projects import chosen_transforms, project_argument

if TYPE_CHECKING:
    from warpgauge.core.process import Posterior
    from warpgauge.evaluation import CandidateAverage, Evaluation, Trust
    from warpgauge.project import Project


centre_option = click.option(
    "--centre",
    type=click.Choice(["candidates", "prior"]),
    default="candidates",
    show_default=True,
    help="What the truth is taken to be near to: one of the transforms (which one, the annotations say), or the "
    "project's prior as in the paper.",
)


@dataclass(frozen=True, eq=False)
class Scored:
    """What was found about a project's transforms.

    Attributes
    ----------
    posterior : Posterior
        What the annotations alone say.
    judged_by : Posterior or CandidateAverage
        What the scores were made with.
    evaluation : Evaluation
    trust : Trust or None
        None without annotations.
    """

    posterior: Posterior
    judged_by: Posterior | CandidateAverage
    evaluation: Evaluation
    trust: Trust | None


def scored(project: Project, chosen: dict[str, Any], options: dict[str, Any]) -> Scored:
    """Evaluate transforms on a project."""
    from warpgauge.evaluation import CandidateAverage, reference, trust
    from warpgauge.evaluation import evaluate as score
    from warpgauge.session import Session

    posterior = Session(project).posterior()
    centre = "prior" if project.settings.model == "paper" else options["centre"]
    judged_by = reference(posterior, chosen, centre)
    believed = None
    if len(posterior.annotations):
        averaged = isinstance(judged_by, CandidateAverage)
        believed = trust(posterior, chosen, project.targets, averaged=averaged)
    result = score(
        judged_by,
        chosen,
        project.targets,
        samples=options["samples"],
        seed=options["seed"],
        tolerance=options["tolerance"],
        diagonal=project.fixed_grid,
        candidates=project.candidates,
    )
    return Scored(posterior, judged_by, result, believed)


@click.command(
    epilog="""\b
Examples:
  warpgauge evaluate lesion
  warpgauge evaluate lesion bspline affine identity --tolerance 5
  warpgauge evaluate lung bspline --fail-above 2.0 --probability 0.95   (for other people's CI)"""
)
@project_argument
@click.argument("transforms", nargs=-1)
@click.option(
    "--tolerance", type=float, help="Also give the share of targets with an error above this, in world units."
)
@click.option("--samples", type=int, default=1000, show_default=True, help="Posterior samples behind the intervals.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--fail-above", type=float, help="Exit with 1 unless the RMS error of every transform is below this ...")
@click.option("--probability", type=float, default=0.95, show_default=True, help="... with at least this probability.")
@centre_option
@json_option
def evaluate(project: Path, transforms: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Score and rank TRANSFORMS (by default all of PROJECT; files and 'identity' may be named too).

    Errors are in world units over the project's targets. 'landmarks' is the classical RMS error at the annotations,
    'error' the estimate of the true RMS error over all targets, with the interval that is meant to hold it with 90 %
    probability. With '--centre prior' (and in projects with '--model paper') it is the paper's score, against the
    posterior mean.
    """
    from warpgauge.project import Project

    with Project.open(project) as opened:
        chosen = chosen_transforms(opened, transforms)
        found = scored(opened, chosen, options)
        result, believed = found.evaluation, found.trust
        units = opened.units
    decided = _decide(result, options["fail_above"], options["probability"])
    if as_json:
        print_json(
            {
                **result.to_dict(),
                "trust": None if believed is None else believed.sentence,
                "passed": decided,
            }
        )
    else:
        _show(result, believed, units)
        if decided is not None:
            for name, (probability, passed) in decided.items():
                limit = f"{options['fail_above']:g} {units}"
                word = "passes" if passed else "FAILS"
                click.echo(f"{word}: {name} has an RMS error below {limit} with probability {probability:.3f}")
    if decided is not None and not all(passed for _, passed in decided.values()):
        raise click.exceptions.Exit(1)


def _decide(result: Any, limit: float | None, needed: float) -> dict[str, tuple[float, bool]] | None:
    if limit is None:
        return None
    chances = {name: result.probability_below(name, limit, "rms") for name in result.scores}
    return {name: (chance, chance >= needed) for name, chance in chances.items()}


def _show(result: Any, believed: Any, units: str) -> None:
    if believed is not None:
        click.echo(believed.sentence + "\n")
    columns = ["transform", "landmarks", "error", "90 % interval", "P(best)", "rank", "group", "outside"]
    if result.tolerance is not None:
        columns.append(f"> {result.tolerance:g} {units}")
    rows = []
    for row in sorted(result.rows(), key=lambda one: one["posterior_2"]):
        cells: list[Any] = [
            row["transform"],
            row["landmark_2"],
            row["posterior_2"],
            "{:.3g} to {:.3g}".format(row["rms_low"], row["rms_high"]),
            f"{row['probability_best_2']:.3f}",
            f"{row['expected_rank_2']:.1f}",
            row["group"],
            f"{row['outside']:.1%}",
        ]
        if result.tolerance is not None:
            cells.append(f"{row['above_tolerance']:.1%}")
        rows.append(cells)
    title = f"RMS error over {result.targets} targets in {units}, from {result.annotations} annotations"
    print_table(columns, rows, title)
    click.echo(f"\n{result.verdict}")
