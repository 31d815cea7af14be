"""``warpgauge unseal``: open the sealed answers for a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import project_argument, rater_option
from warpgauge.cli.output import json_option, print_facts, print_json
from warpgauge.errors import InvalidInputError


@click.command(
    epilog="""\b
Examples:
  warpgauge unseal trial
  warpgauge unseal trial --rater ada"""
)
@project_argument
@rater_option
@click.option("--yes", is_flag=True, help="Open them even though there is no registration that they could test.")
@json_option
def unseal(project: Path, rater: str, yes: bool, as_json: bool) -> None:
    """Open the sealed answers of PROJECT for a verdict, permanently.

    Add all registrations first: the opened answers test those for having seen the other answers, and cannot test what
    is added or replaced later. From then on they are used like all others. Only organisers may do this. To write a
    certificate of an audit at the same time, use warpgauge certify --unseal.
    """
    from warpgauge.project import Project
    from warpgauge.session.seals import sealed_answers
    from warpgauge.session.seals import unseal as opened_by

    with Project.open(project) as opened:
        tested = [name for name in opened.transform_names() if name not in opened.reference_names()]
        count = sealed_answers(opened.state)
        if count and not tested and not yes:
            raise InvalidInputError(
                f"The project has no registration yet that its {count} sealed answers could test, and afterwards it is "
                f"too late; add the registrations first (warpgauge add-transform), or add --yes."
            )
        entry = opened_by(opened, rater)
    facts: dict[str, Any] = {"opened": count, "by": rater, "time": entry.time, "they test": tested or "nothing"}
    print_json(facts) if as_json else print_facts(facts)
    if not as_json:
        click.echo(f"\nNext: warpgauge evaluate {project}")
