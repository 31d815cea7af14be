"""``warpgauge certify``: the verdict of random, sealed questions beside that of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import FILE, FOLDER, NEW_FILE, chosen_transforms, seed_option, trust_option
from warpgauge.cli.output import json_option, print_json, print_table
from warpgauge.errors import InvalidInputError


@click.command(
    epilog="""\b
Examples:
  warpgauge certify trial
  warpgauge certify trial bspline demons --out trial.json --by "A. Organiser"
  warpgauge certify trial --unseal --out trial.json   (opens the sealed answers)
  warpgauge certify --check trial.json                (anywhere, without the project)
  warpgauge certify --check trial.json trial"""
)
@trust_option
@click.argument("project", type=FOLDER, required=False)
@click.argument("transforms", nargs=-1)
@click.option("--check", type=FILE, help="Check this certificate, and compare it with PROJECT if you name one.")
@click.option("--out", type=NEW_FILE, help="Write the certificate (JSON) here.")
@click.option("--by", "signed_off_by", default="", help="Name of the person responsible; written into the certificate.")
@click.option("--unseal", is_flag=True, help="Open the sealed answers permanently: they are then used like all others.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence level of bounds and decisions.")
@seed_option
@json_option
def certify(
    project: Path | None, transforms: tuple[str, ...], check: Path | None, as_json: bool, **options: Any
) -> None:
    """Compare transforms by random audit questions.

    TRANSFORMS are names in PROJECT; by default all are compared. The audit's verdict relies only on the random draw of
    its questions (see warpgauge new --audit), whatever the shape of the errors and however often you look, and is
    printed beside the model's verdict. If the two contradict each other, a sentence explains what that means.
    """
    if check is not None:
        _check(check, project, as_json)
        return
    if project is None:
        raise click.UsageError("Name a PROJECT, or a certificate with --check.")
    from warpgauge.evaluation import certify_project
    from warpgauge.project import Project

    out = options["out"]
    if options["unseal"] and out is None:
        raise InvalidInputError("--unseal opens the answers permanently; give a file for the certificate: --out FILE.")
    with Project.open(project) as opened:
        found = certify_project(opened, chosen_transforms(opened, transforms), **options)
    if as_json:
        print_json(found.content)
        return
    _show(found, out)


def _show(found: Any, out: Path | None) -> None:
    columns, rows = found.table()
    print_table(columns, rows, found.title)
    click.echo()
    for sentence in found.sentences:
        click.echo(sentence, err=sentence in found.notes)
    if out is not None:
        click.echo(f"Certificate: {out} ({found.content['digest'][:19]}...)")


def _check(path: Path, folder: Path | None, as_json: bool) -> None:
    from warpgauge.evaluation import check_certificate, read_certificate
    from warpgauge.project import Project

    content = read_certificate(path)
    if folder is None:
        problems = check_certificate(content)
    else:
        with Project.open(folder) as opened:
            problems = check_certificate(content, opened)
    covered = "answers and verdict" if content["answers"] is not None else "digest (the answers are sealed)"
    if as_json:
        print_json({"confirmed": not problems, "problems": problems, "verdict": content["verdict"]})
    elif not problems:
        click.echo(f"Confirmed: {covered}{' and project' if folder else ''}.\n{content['verdict']}")
    else:
        for problem in problems:
            click.echo(f"NOT CONFIRMED: {problem}")
    if problems:
        raise click.exceptions.Exit(1)
