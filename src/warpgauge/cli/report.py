"""``warpgauge report``: one self-contained HTML file about a project or a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import EXISTING, NEW, NEW_FOLDER, chosen_transforms, seed_option, trust_option
from warpgauge.cli.evaluate import centre_option, margin_option, samples_option
from warpgauge.cli.output import json_option, print_facts, print_json, progress
from warpgauge.errors import InvalidInputError


@click.command(
    epilog="""\b
Examples:
  warpgauge report lesion
  warpgauge report lesion --out lesion.html --tolerance 5
  warpgauge report study.toml --out study.html
  warpgauge report study.toml --results results   (of warpgauge benchmark study.toml --out results)"""
)
@trust_option
@click.argument("source", type=EXISTING)
@click.option("--out", type=NEW, help="File to write; report/report.html in the project by default.")
@click.option(
    "--results",
    type=NEW_FOLDER,
    help="For a study: folder with results of benchmark, used if up to date; STUDY-results by default.",
)
@click.option("--tolerance", type=float, help="Largest acceptable error in world units.")
@samples_option
@seed_option
@click.option("--no-maps", is_flag=True, help="Write a report without maps.")
@margin_option
@centre_option
@json_option
def report(source: Path, out: Path | None, as_json: bool, **options: Any) -> None:
    """Write an HTML report: verdict, table, intervals, maps, calibration.

    SOURCE is a project folder or a STUDY.toml. The report is one self-contained HTML file, with a JSON file of all
    numbers beside it. If the model is overconfident, the report says so before it shows a ranking.
    """
    if options["results"] is not None and not source.is_file():
        raise InvalidInputError(f"--results belongs to a study, but {source.name!r} is a project folder; leave it out.")
    written = _study(source, out, options["results"]) if source.is_file() else _project(source, out, options)
    facts = {"report": str(written), "numbers": str(written.with_suffix(".json"))}
    print_json(facts) if as_json else print_facts(facts)


def _study(source: Path, out: Path | None, results: Path | None) -> Path:
    from warpgauge.report import write_study_report
    from warpgauge.report.page import report_path
    from warpgauge.study import results_folder, run_study

    aim = report_path(out or source.with_suffix(".html"))  # before anything is computed
    folder = results or results_folder(source)
    with progress("evaluating pairs") as show:
        result = run_study(source, folder, progress=lambda at: show(at.done, at.total))
    if result.cached:
        pairs = len(result.cached) + len(result.computed)
        click.echo(f"note: {len(result.cached)} of {pairs} pairs were taken from {folder}.", err=True)
    return Path(write_study_report(aim, result))


def _project(source: Path, out: Path | None, options: dict[str, Any]) -> Path:
    from warpgauge.project import Project
    from warpgauge.report import write_project_report

    wanted = {name: options[name] for name in ("samples", "seed", "tolerance", "margin", "centre")}
    with Project.open(source) as opened:
        chosen_transforms(opened, ())  # refuses a project without any
        return write_project_report(opened, out, maps=not options["no_maps"], **wanted)
