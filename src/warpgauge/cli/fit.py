"""``warpgauge fit``: learn the model's weights from annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import project_argument
from warpgauge.cli.output import json_option, print_facts, print_json, print_table


@click.command(
    epilog="""\b
Examples:
  warpgauge fit lesion
  warpgauge fit lesion3 --train lesion1 --train lesion2 --noise"""
)
@project_argument
@click.option(
    "--train",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Learn from this other project instead; may be given several times.",
)
@click.option("--noise", is_flag=True, help="Learn an extra noise variance as well.")
@json_option
def fit(project: Path, train: tuple[Path, ...], noise: bool, as_json: bool) -> None:
    """Learn the kernel's weights from PROJECT's annotations or from other projects.

    The default model averages them over a power law of the scale, given the annotations; a project made with --model
    paper fits them by leave-one-out. The weights are kept in the project's log with where they come from, and are used
    from the next query on.
    """
    from warpgauge.errors import InvalidInputError
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        session = Session(opened)
        event = session.fit_from(list(train), noise=noise) if train else session.refit(noise=noise)
        if event is None:
            raise InvalidInputError("There are too few annotations to learn from; place some first, or use --train.")
        prior = session.prior()
        units = opened.units
    facts: dict[str, Any] = {"generation": event.generation, "noise variance": prior.noise, **_plain(event.payload)}
    if as_json:
        print_json({**facts, "scales": prior.kernel.scales, "weights": prior.kernel.weights})
        return
    rows = [[scale, weight] for scale, weight in zip(prior.kernel.scales, prior.kernel.weights, strict=True)]
    print_table([f"scale ({units})", f"weight ({units}^2)"], rows)
    print_facts(facts)


def _plain(payload: Any) -> dict[str, Any]:
    """Return what the event says besides the weights themselves, nested values flattened one level."""
    facts: dict[str, Any] = {}
    for key, value in payload.items():
        if key in ("weights", "scales", "noise"):
            continue
        if isinstance(value, dict):
            facts.update({f"{key} {name}": one for name, one in value.items() if not isinstance(one, dict | list)})
        elif not isinstance(value, list):
            facts[key] = value
    return facts
