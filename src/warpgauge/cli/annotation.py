"""``suggest`` and ``undo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warpgauge.cli.arguments import project_argument, rater_option
from warpgauge.cli.output import json_option, print_facts, print_json, quoted
from warpgauge.errors import InvalidInputError

if TYPE_CHECKING:
    from warpgauge.session import Query, Saved


def query_facts(query: Query, units: str) -> dict[str, Any]:
    """Return what a query asks, as plain values."""
    facts: dict[str, Any] = {
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
    return facts


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
        audit = None if verdict is None else verdict.sentence
        units = opened.units
    if query is None:
        sentence = " ".join(reasons) or "every candidate has been asked."
        if as_json:
            print_json({"done": True, "reasons": list(reasons), "audit": audit})
        else:
            click.echo(f"Nothing is left to ask: {sentence}")
        return
    facts = query_facts(query, units)
    if as_json:
        print_json({"done": False, **facts, "audit": audit})
        return
    print_facts(facts)
    if audit is not None:
        click.echo(f"\nAudit: {audit}")
    click.echo(f"\nAnswer it on the page: warpgauge annotate {quoted(project)}")


@click.command(epilog="\b\nExample:\n  warpgauge undo lesion --rater ann")
@project_argument
@rater_option
@click.option("--import", "imported", is_flag=True, help="Take the last import back, whoever its raters are.")
@json_option
def undo(project: Path, rater: str, imported: bool, as_json: bool) -> None:
    """Undo the rater's last action; an import is one action."""
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        session = Session(opened, rater)
        saved = session.undo_import() if imported else session.undo()
        others = [who for who, done in opened.state.done.items() if done]
    if saved is None and imported:
        raise InvalidInputError("There is no import to undo: no rater's last action is an import.")
    if saved is None:
        hint = f"; {' and '.join(others)} {'has' if len(others) == 1 else 'have'}: add --rater {others[0]}"
        raise InvalidInputError(f"{rater} has nothing to undo{hint if others else ''}.")
    _told(saved, as_json)


def _told(saved: Saved, as_json: bool) -> None:
    facts = {"query": saved.query, "action": saved.event.kind, "generation": saved.generation, "time": saved.time}
    what = f"query {saved.query}"
    if saved.count > 1:
        facts["answers"], what = saved.count, f"an import of {saved.count} answers"
    print_json(facts) if as_json else click.echo(f"saved: {facts['action']} of {what} at {saved.time}")
