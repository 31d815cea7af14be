"""Answers: ``suggest``, ``undo``, ``unseal``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.options import json_option, project_argument, rater_option
from warpgauge.cli.output import next_steps, print_facts, print_json, quoted
from warpgauge.display import counted, number
from warpgauge.errors import InvalidInputError

if TYPE_CHECKING:
    from warpgauge.session import Saved, Session


@click.command(
    epilog="""\b
Examples:
  warpgauge suggest lesion
  warpgauge suggest lesion --rater ann --json"""
)
@project_argument
@rater_option
@click.option("--beyond", is_flag=True, help="Continue although a stop rule is met.")
@json_option
def suggest(project: Path, rater: str, beyond: bool, as_json: bool) -> None:
    """Suggest the next location to annotate.

    Prints the point of the fixed image, how far from it you may choose a place, and where the model expects its match.
    """
    from warpgauge.evaluation import AuditWatch
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        watch = AuditWatch(opened)
        session = Session(opened, rater)
        query = session.next_query(beyond=beyond)
        reasons = () if query is not None else session.progress(rater).reasons
        verdict = watch.verdict()
        units = opened.units
    audit = None if verdict is None else verdict.sentence
    facts: dict[str, Any] = {"done": query is None}
    if query is None:
        facts["reasons"] = list(reasons)
    else:
        facts |= {
            "query": query.number,
            "point": list(query.point),
            "radius": query.radius,
            "position": query.position,
            "total": query.total,
            "gain": query.gain,
            "generation": query.generation,
            "units": units,
        }
        if query.prediction is not None:
            facts["predicted"] = query.prediction.mean.tolist()
            facts["predicted_sd"] = query.prediction.sd
            facts["predicted_inside"] = query.prediction.inside
    facts["audit"] = audit
    if as_json:
        print_json(facts)
        return
    if query is None:
        click.echo(f"Nothing is left to ask: {' '.join(reasons) or 'every candidate has been asked.'}")
        return
    of = "" if query.total is None else f" of {query.total}"
    click.echo(f"Question {query.position}{of}: what matches {_place(query.point)} of the fixed image?")
    if query.radius:
        click.echo(f"  Any place within {number(query.radius)} {units} of it will do.")
    if query.prediction is not None:
        expected = _place(query.prediction.mean.tolist())
        deviation = f"{number(query.prediction.sd)} {units}"
        click.echo(f"  By the answers of {rater} alone it is expected at {expected}, standard deviation {deviation}.")
    if audit is not None:
        click.echo(f"Audit: {audit}")
    next_steps(f"warpgauge annotate {quoted(project)}   (in Python: warpgauge.Session.place)")


def _place(point: Sequence[float]) -> str:
    return f"({', '.join(number(x) for x in point)})"


@click.command(
    epilog="""\b
Examples:
  warpgauge undo lesion --rater ann
  warpgauge undo lesion --landmark PC
  warpgauge undo lesion --landmark 29 --rater ann
  warpgauge undo lesion --import"""
)
@project_argument
@rater_option
@click.option("--landmark", metavar="NAME", help="Take this landmark out of the model, by its name or its number.")
@click.option("--import", "imported", is_flag=True, help="Take the last import back, whoever its raters are.")
@json_option
def undo(project: Path, rater: str, landmark: str | None, imported: bool, as_json: bool) -> None:
    """Undo the rater's last action, one landmark, or the last import.

    A landmark that is taken out stays in the log: undo again brings it back.
    """
    from warpgauge.project import Project
    from warpgauge.session import Session

    if imported and landmark is not None:
        raise click.UsageError("--landmark and --import are two ways to undo; give one of them.")
    with Project.open(project) as opened:
        session = Session(opened, rater)
        if landmark is not None:
            saved: Saved | None = _taken_out(session, landmark, rater)
        elif imported:
            saved = session.undo_import()
        else:
            saved = session.undo()
        others = [who for who, done in opened.state.done.items() if done]
    if saved is None and imported:
        raise InvalidInputError("There is no import to undo: no rater's last action is an import.")
    if saved is None:
        hint = ""
        if others:
            hint = f"; {' and '.join(others)} {'has' if len(others) == 1 else 'have'}: add --rater {others[0]}"
        raise InvalidInputError(f"{rater} has nothing to undo{hint}.")
    facts = {"query": saved.query, "action": saved.event.kind, "generation": saved.generation, "time": saved.time}
    if saved.count > 1:
        facts["answers"] = saved.count
    if as_json:
        print_json(facts)
    elif landmark is not None:
        click.echo(f"The landmark {landmark} of {saved.event.rater} is left out from now on.")
        next_steps(f"warpgauge undo {quoted(project)} --rater {quoted(saved.event.rater)}   (brings it back)")
    elif saved.count > 1:
        click.echo(f"An import of {counted(saved.count, 'answer')} is taken back.")
    else:
        click.echo(f"The last action of {saved.event.rater} is taken back; it was about landmark {saved.query + 1}.")


def _taken_out(session: Session, landmark: str, rater: str) -> Saved:
    """Take a landmark out of the model, by its name or the number that verdicts say: that of the rater, or the only."""
    from warpgauge.project import ORGANISER

    state = session.project.state
    named = [query.number for query in state.queries if query.name == landmark]
    if not named:
        named = [query.number for query in state.queries if str(query.location + 1) == landmark]
    cells = [(who, number) for who, number in state.cells if number in named]
    own = [(who, number) for who, number in cells if who == rater]
    found = own or (cells if rater == ORGANISER else [])
    if not found:
        names = [query.name for query in state.queries if query.name][:5]
        some = f"; its names begin with {', '.join(names)}" if names else ""
        raise InvalidInputError(f"There is no landmark {landmark!r} of {rater} in the project{some}.")
    if len(found) > 1:
        who = ", ".join(sorted({name for name, _ in found}))
        raise InvalidInputError(f"The landmark {landmark!r} was placed by {who}: name one of them with --rater.")
    who, number = found[0]
    return session.disable(number, rater=who)


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
    is added or replaced later. From then on they are used like all others. Only organisers may do this.
    """
    from warpgauge.project import Project
    from warpgauge.session.seals import sealed_answers
    from warpgauge.session.seals import unseal as open_answers

    with Project.open(project) as opened:
        tested = [name for name in opened.transform_names() if name not in opened.reference_names()]
        count = sealed_answers(opened.state)
        if count and not tested and not yes:
            raise InvalidInputError(
                f"The project has no registration yet that its {count} sealed answers could test, and afterwards it is "
                f"too late; add the registrations first (warpgauge add-transform), or add --yes."
            )
        entry = open_answers(opened, rater)
    facts: dict[str, Any] = {"opened": count, "by": rater, "time": entry.time, "they test": tested or "nothing"}
    if as_json:
        print_json(facts)
        return
    print_facts(facts)
    next_steps(f"warpgauge evaluate {quoted(project)}")
