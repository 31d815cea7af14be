"""``suggest``, ``place``, ``skip``, ``undo``, ``redo``: the loop from a script, without the page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from warpgauge.cli.arguments import project_argument, rater_option
from warpgauge.cli.output import json_option, number, print_facts, print_json, quoted
from warpgauge.errors import InvalidInputError

if TYPE_CHECKING:
    from warpgauge.project import Placement, Project
    from warpgauge.session import Query, Saved, Session
    from warpgauge.session.answers import Question


def numbers(text: str, what: str) -> list[float]:
    """Read ``1.5,2,3`` as numbers."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(f"{what} must be numbers separated by commas, such as 12.5,80, got {text!r}.") from None


def query_facts(query: Query, units: str) -> dict[str, Any]:
    """Return what a query asks, as plain values."""
    facts: dict[str, Any] = {
        "query": query.number,
        "point": list(query.point),
        "position": query.position,
        "total": query.total,
        "gain": query.gain,
        "why": query.why,
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

    Prints the point of the fixed image, why it was chosen, and where the model expects its match.
    """
    from warpgauge.evaluation import AuditWatch
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        watch = AuditWatch(opened)
        session = Session(opened, rater, decided=watch.certified, excluded=watch.excluded)
        query = session.next_query(beyond=beyond)
        reasons = () if query is not None else session.progress(rater).reasons
        verdict = watch.verdict()
        audit = None if verdict is None else verdict.sentence
        units, farthest = opened.units, opened.settings.move_within * opened.fixed_grid.diagonal
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
    example = ",".join(number(value) for value in facts.get("predicted", facts["point"]))
    who = "" if rater == "organiser" else f" --rater {rater}"  # else the answer would be another person's
    click.echo(f"\nAnswer: warpgauge place {quoted(project)} {query.number} {example}{who}")
    click.echo(f"    or: warpgauge skip {quoted(project)} {query.number} --reason not_visible{who}")
    if farthest > 0:
        near = ",".join(number(value) for value in query.point)
        click.echo(
            f"    or, at a place that you recognise within {number(farthest)} {units}: "
            f"warpgauge place {quoted(project)} {query.number} {example} --at {near}{who}"
        )


@click.command(
    context_settings={"ignore_unknown_options": True},  # a coordinate may begin with a minus sign
    epilog="""\b
Examples:
  warpgauge place lesion 0 120.5,88 --rater ann
  warpgauge place lesion 1 300,212 --radius 3
  warpgauge place lesion 2 41,97.5 --ellipse 12,2 --angle 30
  warpgauge place lesion 3 64,70 --at 61.5,72        (the queried point moved to 61.5,72)
  warpgauge place lesion --at 210,95 --match 214,90  (a landmark of your own choice)
  warpgauge place lung 5 -40.1,12,-88.5 --covariance 1,0,0,0,1,0,0,0,4""",
)
@project_argument
@click.argument("query", required=False)
@click.argument("point", required=False)
@rater_option
@click.option("--at", "fixed", help="The point that you marked in the fixed image: x,y[,z] in world coordinates.")
@click.option("--match", help="Its match in the moving image; the same as POINT.")
@click.option("--radius", type=float, help="Uncertainty: radius of a disc or ball around the match, in world units.")
@click.option("--ellipse", help="Uncertainty: half-lengths of the axes of an ellipse, in world units: a,b or a,b,c.")
@click.option("--angle", type=float, default=0.0, help="Rotation of a 2D ellipse, in degrees from x towards y.")
@click.option("--covariance", help="Uncertainty: covariance matrix, row by row.")
@click.option("--alpha", type=float, help="The disc or ellipse contains the match with probability 1 - alpha.")
@click.option("--yes", is_flag=True, help="Keep a placement that looks like a slip without being asked.")
@json_option
def place(project: Path, query: str | None, point: str | None, rater: str, as_json: bool, **options: Any) -> None:
    """Save the match of a point, with its uncertainty.

    POINT is the match: x,y[,z] in world coordinates of the moving image. QUERY is the number that suggest printed; use
    --at if you marked another point near the queried one. Without QUERY, --at is a landmark of your own choice.

    On a terminal you are asked to confirm a placement outside the moving image, or far from where your other landmarks
    predict it. In a script it is saved with a warning. The log flags it either way.
    """
    from warpgauge.project import Project
    from warpgauge.session import Session, UnconfirmedError

    number, match = _asked(query, point, options["match"], options["fixed"])
    fixed = None if options["fixed"] is None else numbers(options["fixed"], "--at")
    with Project.open(project) as opened:
        session = Session(opened, rater, question=_question(opened) if _asks() else None)
        placement = session.drawn(
            match,
            _covariance(options["covariance"], opened.d),
            ellipse=_ellipse(options["ellipse"], options["angle"], opened.d),
            radius=options["radius"],
            alpha=options["alpha"],
            fixed=fixed,
        )
        try:
            saved = _place(session, number, placement, options["yes"])
        except UnconfirmedError as error:
            click.confirm(str(error), abort=True, err=True)
            saved = _place(session, number, placement, True)
    _told(saved, as_json)


def _place(session: Session, number: int | None, placement: Placement, confirmed: bool) -> Saved:
    if number is not None:
        return session.place(number, placement, confirmed=confirmed)
    assert placement.fixed is not None
    return session.volunteer(placement.fixed, placement, confirmed=confirmed)


def _asks() -> bool:
    """Return whether there is a terminal to ask on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _question(project: Project) -> Question:
    """Return the function that words the question about a placement that looks like a slip."""
    return lambda doubt, rater: doubt.question(project.units, hide_prediction=project.settings.hide_prediction)


def _asked(
    query: str | None, point: str | None, match: str | None, fixed: str | None
) -> tuple[int | None, list[float]]:
    """Return which query is answered, None for a landmark of one's own choice, and where the match lies."""
    for given in (query, point):
        if given is not None and given.startswith("--"):
            raise click.NoSuchOption(given)
    if query is not None and point is None and match is None and fixed is not None:
        query, point = None, query  # place PROJECT --at X,Y MATCH
    if point is not None and match is not None:
        raise InvalidInputError("POINT and --match both say where the match lies; give one of them.")
    where = point if point is not None else match
    if where is None or (query is None and fixed is None):
        raise InvalidInputError(
            "place needs a QUERY and the POINT of its match, or --at and --match for a landmark of your own choice."
        )
    if query is None:
        return None, numbers(where, "--match")
    if not query.isdecimal():
        raise InvalidInputError(f"QUERY must be the number of a query, such as 3, got {query!r}.")
    return int(query), numbers(where, "POINT")


def _covariance(text: str | None, d: int) -> Any:
    if text is None:
        return None
    values = numbers(text, "--covariance")
    if len(values) != d * d:
        raise InvalidInputError(f"--covariance of a {d}D point has {d * d} numbers, row by row, got {len(values)}.")
    return np.reshape(values, (d, d))


def _ellipse(text: str | None, angle: float, d: int) -> Any:
    if text is None:
        return None
    lengths = numbers(text, "--ellipse")
    if len(lengths) != d:
        raise InvalidInputError(f"--ellipse of a {d}D point has {d} half-lengths, got {len(lengths)}.")
    axes = np.eye(d)
    if d == 2:
        turn = np.deg2rad(angle)
        axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    elif angle:
        raise InvalidInputError("--angle turns 2D ellipses; give a turned ellipsoid by --covariance.")
    return lengths, axes


@click.command(epilog="\b\nExample:\n  warpgauge skip lesion 4 --reason torn_or_missing --rater ann")
@project_argument
@click.argument("query", type=int)
@rater_option
@click.option(
    "--reason",
    type=click.Choice(["not_visible", "ambiguous", "torn_or_missing", "outside_image", "other"]),
    default="not_visible",
    show_default=True,
)
@click.option("--text", default="", help="A remark.")
@json_option
def skip(project: Path, query: int, rater: str, reason: str, text: str, as_json: bool) -> None:
    """Skip QUERY because its match cannot be determined, and save the reason."""
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        saved = Session(opened, rater).skip(query, reason, text)
    _told(saved, as_json)


def _step(project: Path, rater: str, as_json: bool, kind: str, *, imported: bool = False) -> None:
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        session = Session(opened, rater)
        if imported:
            saved = session.undo_import()
        else:
            saved = session.undo() if kind == "undo" else session.redo()
        steps = opened.state.done if kind == "undo" else opened.state.undone
        others = [who for who, done in steps.items() if done]
    if saved is None and imported:
        raise InvalidInputError("There is no import to undo: no rater's last action is an import.")
    if saved is None:
        hint = f"; {' and '.join(others)} {'has' if len(others) == 1 else 'have'}: add --rater {others[0]}"
        raise InvalidInputError(f"{rater} has nothing to {kind}{hint if others else ''}.")
    _told(saved, as_json)


@click.command(epilog="\b\nExample:\n  warpgauge undo lesion --rater ann")
@project_argument
@rater_option
@click.option("--import", "imported", is_flag=True, help="Take the last import back, whoever its raters are.")
@json_option
def undo(project: Path, rater: str, imported: bool, as_json: bool) -> None:
    """Undo the rater's last action; an import is one action."""
    _step(project, rater, as_json, "undo", imported=imported)


@click.command(epilog="\b\nExample:\n  warpgauge redo lesion --rater ann")
@project_argument
@rater_option
@json_option
def redo(project: Path, rater: str, as_json: bool) -> None:
    """Redo the rater's last undone action."""
    _step(project, rater, as_json, "redo")


def _told(saved: Saved, as_json: bool) -> None:
    facts = {"query": saved.query, "action": saved.event.kind, "generation": saved.generation, "time": saved.time}
    what = f"query {saved.query}"
    if saved.count > 1:
        facts["answers"], what = saved.count, f"an import of {saved.count} answers"
    print_json(facts) if as_json else click.echo(f"saved: {facts['action']} of {what} at {saved.time}")
