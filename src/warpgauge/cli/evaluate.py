"""``warpgauge evaluate``: which registration is best, by how much, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.output import json_option, print_json, print_table
from warpgauge.cli.projects import chosen_transforms, project_argument

if TYPE_CHECKING:
    from warpgauge.core.process import Posterior
    from warpgauge.evaluation import Evaluation, TransformScores, Trust
    from warpgauge.project import Project


centre_option = click.option(
    "--centre",
    type=click.Choice(["consensus", "prior"]),
    default="consensus",
    show_default=True,
    help="About what the truth is modelled: the median of the transforms, or the project's prior as in the paper.",
)


def scored(
    project: Project, chosen: dict[str, Any], options: dict[str, Any]
) -> tuple[Posterior, Evaluation, Trust | None]:
    """Evaluate transforms on a project; give the posterior that was used, what was found, and how far to trust it."""
    from warpgauge.evaluation import evaluate as score
    from warpgauge.evaluation import trust
    from warpgauge.evaluation.consensus import consensus_posterior, consensus_trust
    from warpgauge.evaluation.residual import FEWEST
    from warpgauge.session import Session

    plain = posterior = Session(project).posterior()
    believed = None
    if options["centre"] == "consensus" and project.settings.model != "paper" and len(plain.annotations):
        posterior = consensus_posterior(plain, chosen)
        believed = consensus_trust(plain, posterior, chosen, project.targets)
    elif len(plain.annotations):
        believed = trust(plain, chosen, project.targets)
    result = score(
        posterior,
        chosen,
        project.targets,
        samples=options["samples"],
        seed=options["seed"],
        tolerance=options["tolerance"],
        diagonal=project.fixed_grid,
        candidates=project.candidates,
        residual=len(posterior.annotations) >= FEWEST,
    )
    return posterior, result, believed


def disagreement(result: Evaluation) -> str | None:
    """Warn where the sizes of the errors clearly put another transform first than the ranking does.

    The ranking is made about a common centre, the sizes about each transform itself; when they contradict each other
    the annotations are too few, or the centre is poor, and the ranking is not to be relied on.
    """
    sized = {name: one.residual["rms"] for name, one in result.scores.items() if one.residual}
    first = result.ranking("2")[0]
    if first not in sized:
        return None
    smallest = min(sized, key=lambda name: sized[name].median)
    if sized[smallest].high >= sized[first].low:
        return None
    return (
        f"CAUTION: by its own residuals {smallest} has a clearly smaller error ({sized[smallest].low:.2f} to "
        f"{sized[smallest].high:.2f}) than {first} ({sized[first].low:.2f} to {sized[first].high:.2f}), which the "
        "ranking puts first; do not rely on the ranking, annotate more."
    )


def rms_interval(one: TransformScores) -> tuple[float, float]:
    """90 % interval of the RMS error: from the transform's own residuals where it has them, else from the posterior."""
    interval = (one.residual or {}).get("rms") or one.statistics["rms"]
    return interval.low, interval.high


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
    'score' the paper's, against the posterior mean. The interval is meant to hold the true RMS error with 90 %
    probability; with eight annotations or more it is made from each transform's own residuals.
    """
    from warpgauge.project import Project

    with Project.open(project) as opened:
        chosen = chosen_transforms(opened, transforms)
        result, believed = scored(opened, chosen, options)[1:]
        units = opened.units
    decided = _decide(result, options["fail_above"], options["probability"])
    if as_json:
        print_json(
            {
                **result.to_dict(),
                "caution": disagreement(result),
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
    columns = ["transform", "landmarks", "score", "90 % interval", "P(best)", "rank", "group", "outside"]
    if result.tolerance is not None:
        columns.append(f"> {result.tolerance:g} {units}")
    rows = []
    for row in sorted(result.rows(), key=lambda one: one["posterior_2"]):
        cells: list[Any] = [
            row["transform"],
            row["landmark_2"],
            row["posterior_2"],
            "{:.3g} to {:.3g}".format(*rms_interval(result.scores[row["transform"]])),
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
    if (caution := disagreement(result)) is not None:
        click.echo(caution)
