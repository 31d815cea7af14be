"""``warpgauge fit``: learn the model's weights from annotations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from warpgauge.cli.arguments import FOLDER, project_argument
from warpgauge.cli.output import json_option, print_facts, print_json, print_table
from warpgauge.errors import InvalidInputError


@click.command(
    epilog="""\b
Examples:
  warpgauge fit lesion
  warpgauge fit lesion3 --train lesion1 --train lesion2 --noise"""
)
@project_argument
@click.option(
    "--train", multiple=True, type=FOLDER, help="Learn from this other project instead; may be given several times."
)
@click.option("--noise", is_flag=True, help="Learn an extra noise variance as well.")
@json_option
def fit(project: Path, train: tuple[Path, ...], noise: bool, as_json: bool) -> None:
    """Learn the model's kernel weights from annotations.

    Projects do this automatically while you annotate. The default model averages the weights over a power law of the
    scale; a project made with --model paper fits them by leave-one-out. The log records the weights and their origin,
    and the next query uses them.
    """
    from warpgauge.project import Project
    from warpgauge.session import Session

    with Project.open(project) as opened:
        session = Session(opened)
        learned = session.fit_from(list(train), noise=noise) if train else session.refit(noise=noise)
        if learned is None:
            raise InvalidInputError("There are too few annotations to learn from; place some first, or use --train.")
        prior = session.prior()
        units = opened.units
    facts: dict[str, Any] = {"generation": learned.generation, "noise variance": prior.noise, **_plain(learned.told)}
    if as_json:
        print_json({**facts, "scales": prior.kernel.scales, "weights": prior.kernel.weights})
        return
    rows = [[scale, weight] for scale, weight in zip(prior.kernel.scales, prior.kernel.weights, strict=True)]
    print_table([f"scale ({units})", f"weight ({units}^2)"], rows)
    print_facts(facts)


def _plain(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a fit besides the weights themselves, nested values flattened one level."""
    facts: dict[str, Any] = {}
    for key, value in told.items():
        if key in ("weights", "scales", "noise"):
            continue
        if isinstance(value, dict):
            facts.update({f"{key} {name}": one for name, one in value.items() if not isinstance(one, dict | list)})
        elif not isinstance(value, list):
            facts[key] = value
    return facts
