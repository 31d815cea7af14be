"""``python -m paper NAME``: run a study and print what it found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from paper import NAMES, find_experiment
from paper.experiment import compute_seconds, run_experiment
from warpgauge.errors import WarpgaugeError


def _studies() -> list[tuple[str, str]]:
    """Return each study with its summary and the folders of data that it needs."""
    rows = []
    for name in NAMES:
        try:
            study = find_experiment(name)
        except WarpgaugeError as error:  # one study that lacks a library must not hide the others
            rows.append((name, f"cannot be loaded: {error}"))
        else:
            needs = f" (needs {', '.join(study.needs)})" if study.needs else ""
            rows.append((name, f"{study.summary}{needs}"))
    return rows


class _Command(click.Command):
    """A command whose help ends with the studies."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Studies"):
            formatter.write_dl(_studies())
        super().format_epilog(ctx, formatter)


@click.command(
    cls=_Command,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="""\b
Examples:
  python -m paper strategies --data data --jobs 2 --out results
  python -m paper strategies --data data --dataset cima --runs 100 --out results""",
)
@click.argument("name")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    envvar="WARPGAUGE_DATA",
    help="Directory of the public data sets; WARPGAUGE_DATA by default.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for numbers, figures and what was computed.")
@click.option("--runs", type=int, help="Runs per dataset; the study's own number by default.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Parallel processes.")
@click.option("--fresh", is_flag=True, help="Compute every run anew; by default what is done is used again.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same files.")
@click.option("--quick", is_flag=True, help="Run a small version for a quick look.")
@click.option(
    "--dataset", "datasets", multiple=True, help="Only this dataset of the study; may be given several times."
)
def command(name: str, **options: Any) -> None:
    """Repeat a study of the paper, or one of ours.

    Writes the numbers of the study NAME to OUT/NAME.json and figures to OUT/NAME-*.png and .svg, and prints the
    findings. Finished runs are kept in OUT/runs, so you can interrupt and resume a study. The result depends on the
    data and the seed, not on the number of jobs. docs/paper describes the findings of each study.
    """
    chosen = find_experiment(name)
    out = options["out"]
    if out is None:
        raise click.UsageError("Give a folder for numbers and figures with --out.")
    if options["data"] is None and chosen.needs:
        raise click.UsageError(f"The study {name} reads {', '.join(chosen.needs)}: give their folder with --data.")
    with click.progressbar(length=1, label=f"running {name}", file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        findings = run_experiment(
            chosen,
            options["data"] or Path(),
            out,
            runs=options["runs"],
            jobs=options["jobs"],
            fresh=options["fresh"],
            seed=options["seed"],
            quick=options["quick"],
            datasets=options["datasets"],
            progress=show,
        )
    for sentence in findings.sentences:
        click.echo(sentence)
    click.echo(f"\nAll numbers: {out / name}.json (the runs took {compute_seconds(out, name):.0f} s of one core)")


def run(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code; a failure is one sentence on standard error."""
    try:
        command.main(args=arguments, prog_name="python -m paper", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return int(leaving.exit_code)
    except click.Abort:
        click.echo("paper: stopped; finished runs are kept.", err=True)
        return 1
    except click.ClickException as error:
        error.show()
        return int(error.exit_code)
    except WarpgaugeError as error:
        click.echo(f"paper: {error}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run())
