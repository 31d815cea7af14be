"""Many pairs: ``new-study``, ``benchmark``."""

from __future__ import annotations

from pathlib import Path

import click

from warpgauge.cli.options import FILE, FOLDER, NEW, NEW_FILE, json_option, trust_option
from warpgauge.cli.output import next_steps, note, paragraph, print_facts, print_json, progress, quoted
from warpgauge.display import counted, text_table
from warpgauge.io.files import replace_text

MOST_REASONS = 5  # why a case is missing, on the terminal


@click.command(
    "new-study",
    epilog="""\b
Examples:
  warpgauge new-study anhir.toml --like anhir --data dataset_medium.csv
  warpgauge new-study lung.toml --like learn2reg --data LungCT_dataset.json
  warpgauge new-study acrobat.toml --like acrobat --data points.csv --sd 8""",
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
    help="ANHIR: the cover table. Learn2Reg: TASK_dataset.json (landmarks are beside the images). ACROBAT: the table "
    "of points with the true he_x, he_y; a column 'annotator' names who placed them.",
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
    for reason in made.left_out[:5]:
        note(f"left out {reason}.")
    if len(made.left_out) > 5:
        note(f"left out {len(made.left_out) - 5} more for such reasons.")
    facts = {"study": str(made.path), "pairs": len(made.pairs), "left out": len(made.left_out)}
    if as_json:
        print_json({**facts, "pairs": list(made.pairs), "left_out": list(made.left_out)})
        return
    print_facts(facts)
    next_steps(f"warpgauge benchmark {quoted(made.path)}")


@click.command(
    epilog="""\b
Examples:
  warpgauge benchmark study.toml --out results --jobs 2
  warpgauge benchmark study.toml --out results --scheduler tcp://10.0.0.1:8786
  warpgauge benchmark study.toml --report study.html --leaderboard board.html
  warpgauge benchmark study.toml --check team   (nothing is scored)"""
)
@trust_option
@click.argument("study", type=FILE)
@click.option("--out", type=NEW, help="Folder for results; STUDY-results beside it by default.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Pairs that are evaluated in parallel.")
@click.option("--scheduler", metavar="ADDRESS", help="Run on the workers of a Dask scheduler, as in tcp://host:8786.")
@click.option("--fresh", is_flag=True, help="Compute every pair anew; by default what is done is used again.")
@click.option("--report", type=NEW_FILE, help="Also write a report: an HTML page, and its numbers as JSON.")
@click.option("--leaderboard", type=NEW_FILE, help="Also write a static, sortable HTML page.")
@click.option("--check", type=FOLDER, help="Only check the files of one submission, in this folder.")
@json_option
def benchmark(
    study: Path,
    out: Path | None,
    jobs: int,
    scheduler: str | None,
    fresh: bool,
    report: Path | None,
    leaderboard: Path | None,
    check: Path | None,
    as_json: bool,
) -> int:
    """Compare methods over the pairs of a study.

    Evaluates every method of STUDY (a TOML file, see docs/study.md) on every pair. Intervals come from a hierarchical
    bootstrap over the pairs, which includes the uncertainty of each pair. Missing cases are listed and handled by the
    study's rule. Finished pairs are kept, so you can interrupt and resume a run.

    With --check, nothing is scored: it looks at the names, number, finite values, coverage, units, frames and folding
    of the files of one submission, without the landmarks, and ends with code 1 if anything would count as missing or be
    misread.
    """
    from warpgauge.report import write_leaderboard, write_study_report
    from warpgauge.report.page import report_path
    from warpgauge.study import results_folder, run_study

    if check is not None:
        return _check(study, check, as_json)
    for page in (report, leaderboard):
        if page is not None:
            report_path(page)  # before anything is computed
    folder = out or results_folder(study)
    with progress("evaluating pairs") as show:
        result = run_study(study, folder, workers=jobs, scheduler=scheduler, fresh=fresh, progress=show)
    replace_text(folder / "study.json", result.to_json())
    if report is not None:
        write_study_report(report, result)
    if leaderboard is not None:
        write_leaderboard(leaderboard, result)
    if as_json:
        click.echo(result.to_json())
        return 0
    for sentence in result.sentences_before:
        click.echo(sentence)
    click.echo(text_table(*result.table(), result.title))
    click.echo(f"\n{paragraph(result.verdict)}")
    missing = [(one.name, method, why) for one in result.outcomes for method, why in one.missing.items()]
    for pair, method, why in missing[:MOST_REASONS]:
        click.echo(f"missing: {method} on {pair}: {why.rstrip('.')}.")
    if len(missing) > MOST_REASONS:
        click.echo(f"missing: {len(missing) - MOST_REASONS} more, with the reasons in the JSON.")
    click.echo(f"All numbers: {folder / 'study.json'}")
    for name, page in (("Report", report), ("Leaderboard", leaderboard)):
        if page is not None:
            click.echo(f"{name}: {page}")
    return 0


def _check(study: Path, submission: Path, as_json: bool) -> int:
    """Print what is wrong with the files of a submission, and return the exit code."""
    from warpgauge.study import check_submission

    found = check_submission(study, submission)
    if as_json:
        print_json(found.to_dict())
        return 0 if found.fit else 1
    for problem in found.problems:
        click.echo(f"{'problem' if problem.serious else 'note'}: {problem.sentence}")
    serious = sum(problem.serious for problem in found.problems)
    result = "all can be scored" if found.fit else f"{counted(serious, 'problem')} to mend before it is submitted"
    click.echo(f"{counted(len(found.pairs), 'pair')} checked: {result}.")
    return 0 if found.fit else 1
