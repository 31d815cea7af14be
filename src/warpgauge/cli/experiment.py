"""``warpgauge experiment``: the paper's studies and further ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import cluster_options, executor_for, resume_option
from warpgauge.cli.output import json_option, print_json, print_table, progress


@click.command(
    epilog="""\b
Example:
  warpgauge experiment strategies --data data --jobs 2 --out results
  warpgauge experiment strategies --data data --dataset cima --runs 100 --out results
  warpgauge experiment strategies --data data --cluster local:4 --out results
  warpgauge experiment --list"""
)
@click.argument("name", required=False)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    envvar="WARPGAUGE_DATA",
    help="Directory of the public data sets; WARPGAUGE_DATA by default.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for numbers, figures and what was computed.")
@click.option("--runs", type=int, help="Runs per dataset; the study's own number by default.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes at a time.")
@cluster_options
@resume_option("compute every run anew")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same files.")
@click.option("--quick", is_flag=True, help="A small version, to try it.")
@click.option(
    "--dataset", "datasets", multiple=True, help="Only this dataset of the study; may be given several times."
)
@click.option("--list", "show_list", is_flag=True, help="List the studies.")
@json_option
def experiment(name: str | None, show_list: bool, as_json: bool, **options: Any) -> None:
    """Run the study NAME: numbers to OUT/NAME.json, figures to OUT/NAME-*.png and .svg, what was found to the terminal.

    Finished runs are kept in OUT/runs, so that a study can be interrupted and resumed; the result depends on the data
    and the seed, not on the number of jobs. docs/reproduction.md describes what each study found.
    """
    from warpgauge.experiments import find_experiment
    from warpgauge.experiments.experiment import compute_seconds, run_experiment

    if show_list:
        _list(as_json)
        return
    if name is None:
        raise click.UsageError("Name a study, as in 'warpgauge experiment strategies'; --list shows them all.")
    chosen = find_experiment(name)
    out = options["out"]
    if out is None:
        raise click.UsageError("Give a folder for numbers and figures with --out.")
    if options["data"] is None and chosen.needs:
        raise click.UsageError(f"The study {name} reads {', '.join(chosen.needs)}: give their folder with --data.")
    where = executor_for(options["jobs"], options["scheduler"], options["cluster"])
    with where as executor, progress(f"running {name}") as show:
        findings = run_experiment(
            chosen,
            options["data"] or Path(),
            out,
            runs=options["runs"],
            executor=executor,
            fresh=not options["resume"],
            seed=options["seed"],
            quick=options["quick"],
            datasets=options["datasets"],
            progress=show,
        )
    if as_json:
        print_json({"experiment": name, "sentences": findings.sentences, "numbers": findings.numbers})
        return
    for sentence in findings.sentences:
        click.echo(sentence)
    click.echo(f"\nAll numbers: {out / name}.json (the runs took {compute_seconds(out, name):.0f} s of one core)")


def _list(as_json: bool) -> None:
    from warpgauge.experiments import NAMES, find_experiment

    rows: list[list[Any]] = []
    for name in NAMES:
        try:
            one = find_experiment(name)
        except ImportError as error:  # one study that lacks a library must not hide the others
            rows.append([name, f"cannot be loaded: {error}", "", None])
        else:
            rows.append([name, one.summary, ", ".join(one.needs), one.default_runs])
    keys = ("name", "summary", "needs", "runs")
    print_json([dict(zip(keys, row, strict=True)) for row in rows]) if as_json else print_table(keys, rows)
