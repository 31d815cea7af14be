"""``warpgauge new-study``: a study for data in the layout of a known challenge."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.arguments import FILE, NEW
from warpgauge.cli.output import json_option, print_facts, print_json


@click.command(
    "new-study",
    epilog="""\b
Examples:
  warpgauge new-study anhir.toml --like anhir --data dataset_medium.csv
  warpgauge new-study lung.toml --like learn2reg --data LungCT/LungCT_dataset.json
  warpgauge new-study acrobat.toml --like acrobat --data acrobat_points.csv --sd 8""",
)
@click.argument("study", type=NEW)
@click.option(
    "--like",
    required=True,
    type=click.Choice(["anhir", "learn2reg", "acrobat"]),
    help="Challenge whose layout the data have.",
)
@click.option(
    "--data",
    required=True,
    type=FILE,
    help="ANHIR: the cover table. Learn2Reg: TASK_dataset.json (landmarks or labels, or both, are beside the images). "
    "ACROBAT: the table of points with the true he_x, he_y; a column 'annotator' names who placed them.",
)
@click.option(
    "--sd",
    type=float,
    help="Standard deviation of a landmark in world units; by default 0.05 % of ANHIR's diagonal, 1 mm, 10 µm.",
)
@json_option
def new_study(study: Path, like: str, data: Path, sd: float | None, as_json: bool) -> None:
    """Write a STUDY.toml for data of ANHIR, Learn2Reg or ACROBAT.

    Submissions are expected in the layout of that challenge. "warpgauge benchmark STUDY" then shows its official
    figures beside the scores.
    """
    from warpgauge.study import new_study as make

    made = make(study, like, data, sd=sd)
    for one in made.left_out[:5]:
        click.echo(f"note: left out {one}.", err=True)
    if len(made.left_out) > 5:
        click.echo(f"note: left out {len(made.left_out) - 5} more for such reasons.", err=True)
    facts = {"study": str(made.path), "pairs": len(made.pairs), "left out": len(made.left_out)}
    print_json({**facts, "pairs": list(made.pairs), "left_out": list(made.left_out)}) if as_json else print_facts(facts)
