"""``warpgauge new-study`` and ``benchmark``: many pairs and methods; ``experiment`` says where the studies went."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warpgauge.cli.arguments import cluster_options, executor_for, resume_option, trust_option
from warpgauge.cli.output import json_option, print_facts, print_json, print_table, progress
from warpgauge.errors import InvalidInputError
from warpgauge.io.files import one_line, require

if TYPE_CHECKING:
    from warpgauge.study import StudyResult

# ``warpgauge new-study``: a study for data in the layout of a known challenge.


@click.command(
    "new-study",
    epilog="""\b
Examples:
  warpgauge new-study anhir.toml --like anhir --data dataset_medium.csv
  warpgauge new-study lung.toml --like learn2reg --data LungCT/LungCT_dataset.json
  warpgauge new-study acrobat.toml --like acrobat --data acrobat_points.csv --sd 8""",
)
@click.argument("study", type=click.Path(path_type=Path))
@click.option(
    "--like",
    required=True,
    type=click.Choice(["anhir", "learn2reg", "acrobat"]),
    help="Challenge whose layout the data have.",
)
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
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
    figures beside the scores, and "warpgauge benchmark STUDY --container DIR" makes an evaluation container.
    """
    from warpgauge.study import new_study as make

    made = make(study, like, data, sd=sd)
    for one in made.left_out[:5]:
        click.echo(f"note: left out {one}.", err=True)
    if len(made.left_out) > 5:
        click.echo(f"note: left out {len(made.left_out) - 5} more for such reasons.", err=True)
    if made.by_labels:
        click.echo("note: no pair has landmarks, so methods will be ranked by the overlap of labels alone.", err=True)
    facts = {"study": str(made.path), "pairs": len(made.pairs), "left out": len(made.left_out)}
    print_json({**facts, "pairs": list(made.pairs), "left_out": list(made.left_out)}) if as_json else print_facts(facts)


# Logging of a study's results to MLflow, where asked for.


def mlflow_logger(uri: str) -> Callable[[StudyResult, Path], None]:
    """Return a function that logs each method of a result as a run, in an experiment with the study's name."""
    mlflow = require("mlflow", "mlflow")

    def log(result: StudyResult, numbers: Path) -> None:
        try:
            client = mlflow.MlflowClient(tracking_uri=uri)
            found = client.get_experiment_by_name(result.study.name)
            experiment = found.experiment_id if found else client.create_experiment(result.study.name)
            for row in result.rows():
                run = client.create_run(experiment, run_name=row["method"]).info.run_id
                client.set_tag(run, "verdict", result.verdict)
                for name, value in row.items():
                    if isinstance(value, int | float):
                        client.log_metric(run, _key(name), float(value))
                client.log_param(run, "method", row["method"])
                client.log_param(run, "norm", str(result.study.settings.norm))
                client.log_artifact(run, str(numbers))
                client.set_terminated(run)
        except mlflow.exceptions.MlflowException as error:
            raise InvalidInputError(f"MLflow at {uri!r} did not take the results: {one_line(error)}") from error

    return log


def _key(name: str) -> str:
    """Return a name that MLflow takes for a metric: letters, digits, and a few other signs."""
    return "".join(sign if sign.isalnum() or sign in "_-./ " else "_" for sign in name)


# ``warpgauge benchmark``: many pairs, many methods, one table.


@click.command(
    epilog="""\b
Examples:
  warpgauge benchmark study.toml --out results --jobs 2
  warpgauge benchmark study.toml --out results --scheduler tcp://10.0.0.1:8786
  warpgauge benchmark study.toml --leaderboard leaderboard.html
  warpgauge benchmark study.toml --container evaluation   (a container for a challenge site; nothing is computed)"""
)
@trust_option
@click.argument("study", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder for results; STUDY-results beside it by default.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Pairs that are evaluated in parallel.")
@cluster_options
@resume_option("compute every pair anew")
@click.option(
    "--leaderboard", type=click.Path(dir_okay=False, path_type=Path), help="Also write a static, sortable HTML page."
)
@click.option(
    "--mlflow", metavar="URI", help="Also log every method as a run to this MLflow tracking server or folder."
)
@click.option(
    "--container",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write an evaluation container as grand-challenge.org expects it to this new folder, and do nothing else.",
)
@json_option
def benchmark(
    study: Path,
    out: Path | None,
    jobs: int,
    scheduler: str | None,
    cluster: str | None,
    resume: bool,
    leaderboard: Path | None,
    mlflow: str | None,
    container: Path | None,
    as_json: bool,
) -> None:
    """Compare methods over the pairs of a study.

    Evaluates every method of STUDY (a TOML file, see docs/study.md) on every pair. Intervals come from a hierarchical
    bootstrap over the pairs, which includes the uncertainty of each pair. Missing cases are listed and handled by the
    study's rule. Finished pairs are kept, so you can interrupt and resume a run.
    """
    if container is not None:
        _write_container(study, container, as_json)
        return
    from warpgauge.report.page import report_path
    from warpgauge.study import run_study

    if leaderboard is not None:
        report_path(leaderboard)  # before anything is computed
    logger = None if mlflow is None else mlflow_logger(mlflow)
    folder = out or study.with_name(f"{study.stem}-results")
    with executor_for(jobs, scheduler, cluster) as executor, progress("evaluating pairs") as show:
        result = run_study(
            study, folder, executor=executor, fresh=not resume, progress=lambda at: show(at.done, at.total)
        )
    (folder / "study.json").write_text(result.to_json())
    if leaderboard is not None:
        from warpgauge.report import write_leaderboard

        write_leaderboard(leaderboard, result)
    if logger is not None:
        logger(result, folder / "study.json")
    if as_json:
        click.echo(result.to_json())
        return
    for sentence in result.sentences_before:
        click.echo(sentence)
    print_table(*result.table(), result.title)
    click.echo(f"\n{result.verdict}\nAll numbers: {folder / 'study.json'}")
    if leaderboard is not None:
        click.echo(f"Leaderboard: {leaderboard}")


def _write_container(study: Path, container: Path, as_json: bool) -> None:
    from warpgauge.study import read_study, write_container

    described = read_study(study)
    folder = write_container(described, container)
    facts = {"container": str(folder), "pairs": len(described.pairs), "next": f"docker build {folder}"}
    print_json(facts) if as_json else print_facts(facts)


# ``warpgauge experiment``: where the paper's studies are now.


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Example, in a clone of the repository:
  warpgauge experiment strategies   is now   python -m paper strategies --data data --out results""",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def experiment(words: tuple[str, ...]) -> None:
    """Say where the paper's studies went: python -m paper."""
    raise click.ClickException(
        "The paper's studies are no longer installed with warpgauge: run 'python -m paper "
        f"{' '.join(words) or '--help'}' in a clone of its repository."
    )
