"""``warpgauge evaluate``: which registration is best, by how much, and how certain that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import NEW_FILE, chosen_transforms, project_argument, seed_option
from warpgauge.cli.output import json_option, print_json, print_table
from warpgauge.display import csv_table
from warpgauge.evaluation.judge import CENTRES
from warpgauge.io.files import replace_text


def write_landmark_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the errors at every annotation as CSV."""
    replace_text(path, csv_table(list(rows[0]), [list(row.values()) for row in rows]))


centre_option = click.option(
    "--centre",
    type=click.Choice(CENTRES),
    default=CENTRES[0],
    show_default=True,
    help="Centre of the model of the truth: the transforms themselves (weighted by the annotations), or the project's "
    "prior as in the paper.",
)
margin_option = click.option(
    "--margin",
    type=float,
    help="Smallest difference of two errors that matters, in world units; 0.1 pixels of the fixed image by default. "
    "Transforms that differ by less are tied.",
)
samples_option = click.option(
    "--samples", type=int, default=1000, show_default=True, help="Posterior samples behind the intervals."
)


@click.command(
    epilog="""\b
Examples:
  warpgauge evaluate lesion
  warpgauge evaluate lesion bspline affine identity --tolerance 5
  warpgauge evaluate brain --landmarks errors.csv
  warpgauge evaluate lung bspline --fail-above 2.0 --probability 0.95   (for use in CI)"""
)
@project_argument
@click.argument("transforms", nargs=-1)
@click.option(
    "--tolerance", type=float, help="Also report the share of targets with an error above this, in world units."
)
@samples_option
@seed_option
@click.option("--fail-above", type=float, help="Exit with 1 unless the RMS error of every transform is below this ...")
@click.option("--probability", type=float, default=0.95, show_default=True, help="... with at least this probability.")
@click.option(
    "--landmarks", type=NEW_FILE, help="Also write the error of every transform at every annotation to this CSV file."
)
@margin_option
@centre_option
@json_option
def evaluate(project: Path, transforms: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Score and rank transforms with their uncertainty.

    TRANSFORMS are names in PROJECT, or files; by default all of PROJECT are evaluated, with the identity as a baseline.
    Errors are in world units over the project's targets. In the table, 'landmarks' is the classical RMS error at the
    annotations; 'error' is the estimated true RMS error over all targets, with its 90 % interval; 'group' numbers the
    groups of tied transforms; 'outside' is the share of targets outside the transform's domain. With '--centre prior'
    (and in projects with '--model paper'), 'error' is the paper's score, against the posterior mean.
    """
    from warpgauge.evaluation import evaluate_project, landmark_table
    from warpgauge.project import Project

    limit, needed = options.pop("fail_above"), options.pop("probability")
    table = options.pop("landmarks")
    with Project.open(project) as opened:
        chosen = chosen_transforms(opened, transforms)
        # References stay beside the methods that are chosen: what is said of a method must not depend on the choice.
        references = {name: opened.transform(name) for name in opened.reference_names() if name not in chosen}
        found = evaluate_project(opened, {**chosen, **references}, **options)
    if table is not None:
        write_landmark_table(table, landmark_table(found.comparison))
    decided = _decide(found, [name for name in chosen if name in transforms or name != found.baseline],
                      limit, needed)  # fmt: skip
    if as_json:
        print_json({**found.to_dict(), "passed": decided})
    else:
        _show(found)
        if decided is not None:
            for name, (probability, passed) in decided.items():
                word = "passes" if passed else "FAILS"
                below = f"{limit:g} {found.units}"
                click.echo(f"{word}: {name} has an RMS error below {below} with probability {probability:.3f}")
    if decided is not None and not all(passed for _, passed in decided.values()):
        raise click.exceptions.Exit(1)


def _decide(result: Any, names: list[str], limit: float | None, needed: float) -> dict[str, tuple[float, bool]] | None:
    if limit is None:
        return None
    chances = {name: result.probability_below(name, limit, "rms") for name in names}
    return {name: (chance, chance >= needed) for name, chance in chances.items()}


def _show(found: Any) -> None:
    for sentence in found.sentences_before:
        click.echo(sentence)
    click.echo()
    columns, rows = found.table()
    print_table(columns, rows, found.title)
    click.echo(f"\n{found.sentence_after}")
