"""``warpgauge certify`` and ``warpgauge gate``: verdicts that rest on random, sealed questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import chosen_transforms, trust_option
from warpgauge.cli.output import json_option, print_json, print_table
from warpgauge.errors import InvalidInputError, WarpgaugeError

# ``warpgauge certify``: the verdict of random, sealed questions beside that of the model.

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


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
@click.argument("project", type=_FOLDER, required=False)
@click.argument("transforms", nargs=-1)
@click.option("--check", type=_FILE, help="Check this certificate, and compare it with PROJECT if you name one.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the certificate (JSON) here.")
@click.option("--by", "signed_off_by", default="", help="Name of the person responsible; written into the certificate.")
@click.option("--unseal", is_flag=True, help="Open the sealed answers permanently: they are then used like all others.")
@click.option(
    "--level", type=float, default=0.95, show_default=True, help="Confidence level of intervals and decisions."
)
@click.option("--seed", type=int, default=0, show_default=True)
@json_option
def certify(
    project: Path | None, transforms: tuple[str, ...], check: Path | None, as_json: bool, **options: Any
) -> None:
    """Compare transforms by random audit questions.

    TRANSFORMS are names in PROJECT; by default all are compared. The audit's verdict relies only on the random draw of
    its questions (see warpgauge new --audit) and is printed beside the model's verdict. If the two contradict each
    other, a sentence explains what that means.
    """
    if check is not None:
        _check(check, project, as_json)
        return
    if project is None:
        raise click.UsageError("Name a PROJECT, or a certificate with --check.")
    from warpgauge.evaluation import certify_project
    from warpgauge.io.files import replace_text
    from warpgauge.project import Project

    out = options.pop("out")
    if options["unseal"] and out is None:
        raise InvalidInputError("--unseal opens the answers permanently; give a file for the certificate: --out FILE.")
    with Project.open(project) as opened:
        found = certify_project(opened, chosen_transforms(opened, transforms), **options)
    if out is not None:
        replace_text(out, found.to_json())
    if as_json:
        print_json(found.content)
        return
    _show(found, out)


def _show(found: Any, out: Path | None) -> None:
    columns, rows = found.table()
    print_table(columns, rows, found.title)
    click.echo()
    for sentence in found.sentences:
        click.echo(sentence, err=sentence.startswith("note:"))
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


# ``warpgauge gate``: a regression test of a registration pipeline, for continuous integration.

_FAILED = 3


class _WrongCallError(click.UsageError):
    """A wrong call of the gate."""

    exit_code = _FAILED


class _Gate(click.Command):
    """A command whose wrong calls end with 3: 1 and 2 are outcomes."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **options)
        except click.UsageError as error:
            raise _WrongCallError(error.message, error.ctx) from error


@click.command(
    cls=_Gate,
    epilog="""\b
Examples:
  warpgauge gate trial build/new.tfm --against baseline.tfm --margin 0.1mm
  warpgauge gate trial bspline-2 --against bspline --margin 5%
  warpgauge gate study.toml new --against baseline --margin 0.1mm""",
)
@trust_option
@click.argument("project", type=click.Path(exists=True, path_type=Path))
@click.argument("new")
@click.option("--against", required=True, help="Baseline: a transform of the project, a file, or a study's method.")
@click.option("--margin", default="0", show_default=True, help="Accepted difference in RMS error: 0.1mm, 0.1 or 5%.")
@click.option("--level", type=float, default=0.95, show_default=True, help="One minus the error rate of codes 0 and 1.")
@json_option
def gate(project: Path, new: str, against: str, margin: str, level: float, as_json: bool) -> None:
    """Test whether a transform is worse than a baseline.

    Compares the transform NEW with the baseline by the audit of PROJECT (a project folder or a STUDY.toml). Exit codes:
    0 not worse by the margin, 1 worse, 2 undecided (more audit answers are needed), 3 an error. Codes 0 and 1 are each
    wrong in at most 1 - level of the audits.
    """
    try:
        found = _gated(project, new, against, margin, level)
    except WarpgaugeError as error:
        click.echo(f"warpgauge: {error}", err=True)
        raise click.exceptions.Exit(_FAILED) from None
    print_json(found.to_dict()) if as_json else click.echo(found.sentence)
    if found.code:
        raise click.exceptions.Exit(found.code)


def _gated(project: Path, new: str, against: str, margin: str, level: float) -> Any:
    from warpgauge.evaluation import gate_project
    from warpgauge.project import Project
    from warpgauge.study import gate_study, read_study

    if project.is_file():
        return gate_study(read_study(project), new, against, margin=margin, level=level)
    with Project.open(project) as opened:
        first, second = (next(iter(chosen_transforms(opened, (name,)).values())) for name in (new, against))
        return gate_project(opened, first, second, margin=margin, level=level)
