"""``warpgauge benchmark``: many pairs, many methods, one table."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.compute import cluster_options, executor_for, resume_option
from warpgauge.cli.output import json_option, print_table, progress
from warpgauge.cli.projects import trust_option


@click.command(
    epilog="""\b
Examples:
  warpgauge benchmark study.toml --out results --jobs 2
  warpgauge benchmark study.toml --out results --scheduler tcp://10.0.0.1:8786"""
)
@trust_option
@click.argument("study", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder for results; STUDY-results beside it by default.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Pairs at a time.")
@cluster_options
@resume_option("compute every pair anew")
@json_option
def benchmark(
    study: Path,
    out: Path | None,
    jobs: int,
    scheduler: str | None,
    cluster: str | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Evaluate every method of STUDY (a TOML file, see docs/study.md) on every pair, and compare the methods.

    A hierarchical bootstrap over pairs carries each pair's own uncertainty; missing cases are shown and handled by the
    rule that the study states. Finished pairs are kept, so that a run can be interrupted and resumed.
    """
    from warpgauge.study import run_study

    folder = out or study.with_name(f"{study.stem}-results")
    with executor_for(jobs, scheduler, cluster) as executor, progress("evaluating pairs") as show:
        result = run_study(
            study, folder, executor=executor, fresh=not resume, progress=lambda at: show(at.done, at.total)
        )
    (folder / "study.json").write_text(result.to_json())
    if as_json:
        click.echo(result.to_json())
        return
    columns = ["method", "rank", "mean rank", "90 % interval", "P(first)", "mean score", "cases", "missing"]
    rows = [
        [one.name, one.rank, one.mean_rank, f"{one.rank_interval.low:.3g} to {one.rank_interval.high:.3g}",
         f"{one.probability_first:.3f}", one.mean_score, one.cases, one.missing]
        for one in result.methods
    ]  # fmt: skip
    if result.baseline is not None:
        before = result.baseline
        rows.append([before["method"], "baseline", "-", "-", "-", before["mean_score"], before["cases"], 0])
    print_table(columns, rows)
    click.echo(f"\n{result.verdict}\nAll numbers: {folder / 'study.json'}")
