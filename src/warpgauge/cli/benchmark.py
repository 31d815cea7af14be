"""``warpgauge benchmark``: many pairs, many methods, one table."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.arguments import FILE, NEW, NEW_FILE, cluster_options, resume_option, trust_option
from warpgauge.cli.output import json_option, print_table, progress
from warpgauge.compute import choose_executor
from warpgauge.io.files import replace_text


@click.command(
    epilog="""\b
Examples:
  warpgauge benchmark study.toml --out results --jobs 2
  warpgauge benchmark study.toml --out results --scheduler tcp://10.0.0.1:8786
  warpgauge benchmark study.toml --leaderboard leaderboard.html"""
)
@trust_option
@click.argument("study", type=FILE)
@click.option("--out", type=NEW, help="Folder for results; STUDY-results beside it by default.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Pairs that are evaluated in parallel.")
@cluster_options
@resume_option("compute every pair anew")
@click.option("--leaderboard", type=NEW_FILE, help="Also write a static, sortable HTML page.")
@json_option
def benchmark(
    study: Path,
    out: Path | None,
    jobs: int,
    scheduler: str | None,
    cluster: str | None,
    resume: bool,
    leaderboard: Path | None,
    as_json: bool,
) -> None:
    """Compare methods over the pairs of a study.

    Evaluates every method of STUDY (a TOML file, see docs/study.md) on every pair. Intervals come from a hierarchical
    bootstrap over the pairs, which includes the uncertainty of each pair. Missing cases are listed and handled by the
    study's rule. Finished pairs are kept, so you can interrupt and resume a run.
    """
    from warpgauge.report.page import report_path
    from warpgauge.study import results_folder, run_study

    if leaderboard is not None:
        report_path(leaderboard)  # before anything is computed
    folder = out or results_folder(study)
    with choose_executor(jobs, scheduler=scheduler, cluster=cluster) as executor, progress("evaluating pairs") as show:
        result = run_study(
            study, folder, executor=executor, fresh=not resume, progress=lambda at: show(at.done, at.total)
        )
    replace_text(folder / "study.json", result.to_json())
    if leaderboard is not None:
        from warpgauge.report import write_leaderboard

        write_leaderboard(leaderboard, result)
    if as_json:
        click.echo(result.to_json())
        return
    for sentence in result.sentences_before:
        click.echo(sentence)
    print_table(*result.table(), result.title)
    click.echo(f"\n{result.verdict}\nAll numbers: {folder / 'study.json'}")
    if leaderboard is not None:
        click.echo(f"Leaderboard: {leaderboard}")
