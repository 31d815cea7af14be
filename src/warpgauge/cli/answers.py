"""``suggest``, ``place``, ``skip``, ``undo``, ``redo``: the loop from a script, without the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from warpgauge.cli.output import json_option, number, print_facts, print_json
from warpgauge.cli.projects import project_argument, rater_option
from warpgauge.errors import InvalidInputError

if TYPE_CHECKING:
    from warpgauge.session import Query, Saved


def numbers(text: str, what: str) -> list[float]:
    """Read ``1.5,2,3`` as numbers."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(f"{what} must be numbers separated by commas, such as 12.5,80, got {text!r}.") from None


def query_facts(query: Query, units: str) -> dict[str, Any]:
    """Say what a query asks, as plain values."""
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
@click.option("--beyond", is_flag=True, help="Go on although a stop rule is met.")
@json_option
def suggest(project: Path, rater: str, beyond: bool, as_json: bool) -> None:
    """Say which location of the fixed image to annotate next, why, and where the model expects its match."""
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        session = Session(opened, rater)
        query = session.next_query(beyond=beyond)
        reasons = () if query is not None else session.progress().reasons
        units = opened.units
    if query is None:
        sentence = " ".join(reasons) or "every candidate has been asked."
        if as_json:
            print_json({"done": True, "reasons": list(reasons)})
        else:
            click.echo(f"Nothing is left to ask: {sentence}")
        return
    facts = query_facts(query, units)
    if as_json:
        print_json({"done": False, **facts})
        return
    print_facts(facts)
    example = ",".join(number(value) for value in facts.get("predicted", facts["point"]))
    who = "" if rater == "organiser" else f" --rater {rater}"  # else the answer would be another person's
    click.echo(f"\nAnswer: warpgauge place {project} {query.number} {example}{who}")
    click.echo(f"    or: warpgauge skip {project} {query.number} --reason not_visible{who}")


@click.command(
    epilog="""\b
Examples:
  warpgauge place lesion 0 120.5,88 --rater ann
  warpgauge place lesion 1 300,212 --radius 3
  warpgauge place lesion 2 41,97.5 --ellipse 12,2 --angle 30
  warpgauge place lung 5 -40.1,12,-88.5 --covariance 1,0,0,0,1,0,0,0,4"""
)
@project_argument
@click.argument("query", type=int)
@click.argument("point")
@rater_option
@click.option("--radius", type=float, help="Radius of the disc or ball that holds the match, in world units.")
@click.option("--ellipse", help="Half-lengths of its axes, in world units: a,b or a,b,c.")
@click.option("--angle", type=float, default=0.0, help="Turn of a 2D ellipse, in degrees from x towards y.")
@click.option("--covariance", help="The covariance itself, row by row.")
@click.option("--alpha", type=float, help="The ellipse holds the match with probability 1 - alpha.")
@json_option
def place(project: Path, query: int, point: str, rater: str, as_json: bool, **options: Any) -> None:
    """Save that the match of QUERY lies at POINT (x,y[,z] in the moving image's world), with its uncertainty."""
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        saved = Session(opened, rater).place(
            query,
            numbers(point, "POINT"),
            covariance=_covariance(options["covariance"], opened.d),
            ellipse=_ellipse(options["ellipse"], options["angle"], opened.d),
            radius=options["radius"],
            alpha=options["alpha"],
        )
    _told(saved, as_json)


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
    """Save that the match of QUERY cannot be told, and why."""
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        saved = Session(opened, rater).skip(query, reason, text)
    _told(saved, as_json)


def _step(project: Path, rater: str, as_json: bool, kind: str) -> None:
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        session = Session(opened, rater)
        saved = session.undo() if kind == "undo" else session.redo()
    if saved is None:
        raise InvalidInputError(f"{rater} has nothing to {kind}.")
    _told(saved, as_json)


@click.command(epilog="\b\nExample:\n  warpgauge undo lesion --rater ann")
@project_argument
@rater_option
@json_option
def undo(project: Path, rater: str, as_json: bool) -> None:
    """Take the rater's last action back."""
    _step(project, rater, as_json, "undo")


@click.command(epilog="\b\nExample:\n  warpgauge redo lesion --rater ann")
@project_argument
@rater_option
@json_option
def redo(project: Path, rater: str, as_json: bool) -> None:
    """Do again what was last undone."""
    _step(project, rater, as_json, "redo")


def _told(saved: Saved, as_json: bool) -> None:
    facts = {"query": saved.query, "action": saved.event.kind, "generation": saved.generation, "time": saved.time}
    print_json(facts) if as_json else click.echo(f"saved: {facts['action']} of query {saved.query} at {saved.time}")
