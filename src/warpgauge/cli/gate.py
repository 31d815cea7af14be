"""``warpgauge gate``: a regression test of a registration pipeline, for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import chosen_transforms, project_argument
from warpgauge.cli.output import json_option, print_json


class _Gate(click.Command):
    """A command whose failures all end with 3: 1 and 2 are outcomes."""

    failure_code = 3


@click.command(
    cls=_Gate,
    epilog="""\b
Examples:
  warpgauge gate trial build/new.tfm --against baseline.tfm --margin 0.1mm
  warpgauge gate trial bspline-2 --against bspline --margin 5% --ask 10""",
)
@project_argument
@click.argument("new")
@click.option("--against", required=True, help="Baseline: a transform of the project, or a file.")
@click.option("--margin", default="0", show_default=True, help="Accepted difference in RMS error: 0.1mm, 0.1 or 5%.")
@click.option("--level", type=float, default=0.95, show_default=True, help="One minus the error rate of codes 0 and 1.")
@click.option("--ask", type=click.IntRange(0), default=0, help="If undecided, draw so many questions for this pair.")
@json_option
def gate(project: Path, new: str, against: str, as_json: bool, **options: Any) -> None:
    """Test whether a transform is worse than a baseline.

    Compares the transform NEW with the baseline by the audit of PROJECT. Exit codes:
    0 proven to be not worse by the margin, 1 proven to be worse, 2 undecided (more audit answers are needed), 3 an
    error. Codes 0 and 1 are each wrong in at most 1 - level of the audits, whatever the shape of the errors and however
    often you look.

    With --ask, an undecided gate puts questions into the list that are drawn by where the two differ; those that still
    wait for an answer count, so that a repeated call does not add to them. Answer them with warpgauge annotate.
    """
    found = _gated(project, new, against, **options)
    print_json(found.to_dict()) if as_json else click.echo(found.sentence)
    if found.code:
        raise click.exceptions.Exit(found.code)


def _gated(project: Path, new: str, against: str, *, ask: int, **options: Any) -> Any:
    from warpgauge.evaluation import gate_project
    from warpgauge.project import Project

    with Project.open(project) as opened:
        first, second = (next(iter(chosen_transforms(opened, (name,)).values())) for name in (new, against))
        return gate_project(opened, first, second, ask=ask, **options)
