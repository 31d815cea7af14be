"""Attempts to fool the judge: transforms that saw the annotations, wrong annotations, misstated noise, copies.

Twenty annotations at random places of pairs with real or realistic transforms. Each case changes one thing. Measured:
how often 90 % intervals of the honest transforms hold, what an attacker gets, and what is flagged. A person who looks
at what is flagged takes away what is wrong, and leaves what is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator

import warpgauge as wg
from paper.curves import rng_for
from paper.datasets import Floats, looked_up
from paper.evaluation import base_posterior
from paper.experiment import Experiment, Findings, Result, Run
from paper.registration_sets import RegistrationSet, contest
from warpgauge.evaluation import Evaluation

ATTACKS = ("none", "spline", "posterior mean", "bent worst", "one gross error", "two gross errors", "small ellipses",
           "large ellipses", "copies")  # fmt: skip
COUNT, SAMPLES, COPIES = 20, 400, 30
_ATTACKER = "attacker"


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan every attack on ``runs`` splits of each set."""
    count = 1 if quick else runs
    sets: list[dict[str, Any]] = [{"dataset": "elastix-lung", "seed": seed + at} for at in range(count)]
    sets += [{"dataset": "copdgene", "case": at % 5, "seed": seed + at} for at in range(count)]
    if not quick:
        sets += [{"dataset": "simulated 2D", "seed": seed + 1 + at} for at in range(count)]
    return [
        Run(f"{one['dataset']}-{one['seed']}-{attack}".replace(" ", "-"), {**one, "attack": attack})
        for one in sets
        for attack in ATTACKS
    ]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Judge one set under one attack."""
    met = contest(data, run.parameters)
    attack, rng = str(run.parameters["attack"]), rng_for(int(run.parameters["seed"]), 9)
    rows = rng.permutation(len(met.answers))[: min(COUNT, len(met.answers))]
    given, wrong = _changed(met, met.answers[rows], attack, rng)
    at, mapped = met.at_answers[:, rows], met.mapped
    names = list(met.names)
    added = _attacker(met, given, at, attack, rng)
    if added is not None:
        at, mapped = np.concatenate([at, added[0]]), np.concatenate([mapped, added[1]])
        names += [_ATTACKER] if len(added[0]) == 1 else [f"copy {k}" for k in range(len(added[0]))]
    places = np.concatenate([given.fixed_points, met.targets])
    values = np.concatenate([at, mapped], axis=1)
    transforms = {name: looked_up(places, one) for name, one in zip(names, values, strict=True)}
    found = _evaluated(met, given, transforms)
    flagged = sorted(flag.row for flag in found.flags if flag.row is not None)
    corrected = np.setdiff1d(np.arange(len(given)), sorted(set(wrong) & set(flagged)))
    looked_at = found if len(corrected) == len(given) else _evaluated(met, given[corrected], transforms)
    true = np.array([wg.displacement_norm(one - met.truth, 2) for one in mapped])
    best = np.array([found.scores[name].probability_best["2"] for name in names])
    return {
        "held": _held(found, met, true),
        "held_without_flagged": _held(found.without_flagged or found, met, true),
        "held_after_a_look": _held(looked_at, met, true),
        "transforms": len(met.names),
        "attacker": None if _ATTACKER not in names else {
            "best": float(best[-1]),
            "truly_best": bool(np.argmin(true) == len(true) - 1),
            "flagged": bool(found.scores[_ATTACKER].flags),
        },
        "honest_flagged": sum(bool(found.scores[name].flags) for name in met.names),
        "wrong": len(wrong),
        "wrong_flagged": len(set(wrong) & set(flagged)),
        "right_flagged": len(set(flagged) - set(wrong)),
        "family_best": float(best[len(met.names) // 2]),  # copies share one probability
    }  # fmt: skip


def _evaluated(met: RegistrationSet, given: wg.Annotations, transforms: Mapping[str, Any]) -> Evaluation:
    truth = wg.judge(base_posterior(met, given), transforms)
    return wg.evaluate(truth, transforms, met.targets, samples=SAMPLES, regularity_over=False, further=0)


def _held(found: Evaluation, met: RegistrationSet, true: Floats) -> int:
    """How many intervals of the honest transforms hold the true error."""
    intervals = [found.scores[name].interval["2"] for name in met.names]
    return int(sum(low <= one <= high for (low, high), one in zip(intervals, true, strict=False)))


def _changed(
    met: RegistrationSet, given: wg.Annotations, attack: str, rng: np.random.Generator
) -> tuple[wg.Annotations, list[int]]:
    """Return the annotations as the attack leaves them, and the rows that are grossly wrong."""
    moving, covariances = given.moving_points.copy(), given.covariances
    wrong: list[int] = []
    if attack.endswith(("gross error", "gross errors")):
        wrong = [int(row) for row in rng.choice(len(given), 1 if attack.startswith("one") else 2, replace=False)]
        direction = rng.normal(size=(len(wrong), met.d))
        size = 0.1 * float(np.linalg.norm(met.extent))
        moving[wrong] += size * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    if attack == "small ellipses":
        covariances = covariances / 9
    if attack == "large ellipses":
        covariances = covariances * 9
    return wg.Annotations(given.fixed_points, moving, covariances), wrong


def _attacker(
    met: RegistrationSet, given: wg.Annotations, at: Floats, attack: str, rng: np.random.Generator
) -> tuple[Floats, Floats] | None:
    """Return the added transforms at the annotations and at the targets; None where nothing is added."""
    fixed, moving = given.fixed_points, given.moving_points
    if attack == "spline":
        spline = RBFInterpolator(fixed, moving, kernel="thin_plate_spline")
        return spline(fixed)[None], spline(met.targets)[None]
    if attack == "posterior mean":
        posterior = base_posterior(met, given)
        return posterior.mean(fixed)[None], posterior.mean(met.targets)[None]
    if attack == "bent worst":
        worst = int(np.argmax(np.square(at - moving).sum(axis=2).mean(axis=1)))
        bend = RBFInterpolator(fixed, moving - at[worst], kernel="thin_plate_spline")
        return at[worst][None] + bend(fixed)[None], met.mapped[worst][None] + bend(met.targets)[None]
    if attack == "copies":
        middle = len(met.names) // 2
        # A hundredth of a pixel, smoothly varying: nothing that a person would call another transform.
        waves = [
            [0.01 * met.pixel * np.sin(points / float(met.extent.max()) * 6 + k) for k in range(COPIES)]
            for points in (fixed, met.targets)
        ]
        return at[middle] + np.array(waves[0]), met.mapped[middle] + np.array(waves[1])
    return None


def report(results: Sequence[Result]) -> Findings:
    """Sum up by attack."""
    numbers: dict[str, Any] = {}
    sentences = []
    for attack in ATTACKS:
        own = [found for run, found in results if run.parameters["attack"] == attack]
        if not own:
            continue
        total = sum(one["transforms"] for one in own)
        numbers[attack] = row = {
            "cases": len(own),
            "held": sum(one["held"] for one in own) / total,
            "held_without_flagged": sum(one["held_without_flagged"] for one in own) / total,
            "held_after_a_look": sum(one["held_after_a_look"] for one in own) / total,
            "honest_flagged": sum(one["honest_flagged"] for one in own) / total,
            "wrong": sum(one["wrong"] for one in own),
            "wrong_flagged": sum(one["wrong_flagged"] for one in own),
            "right_flagged": sum(one["right_flagged"] for one in own),
            "family_best": float(np.mean([one["family_best"] for one in own])),
        }
        attackers = [one["attacker"] for one in own if one["attacker"] is not None]
        text = f"{attack}: 90 % intervals of the other transforms hold in {row['held']:.0%} of {total}"
        if attackers:
            row["attacker_best"] = float(np.mean([one["best"] for one in attackers]))
            row["attacker_truly_best"] = sum(one["truly_best"] for one in attackers)
            row["attacker_flagged"] = sum(one["flagged"] for one in attackers)
            text += (
                f"; the attacker is best with probability {row['attacker_best']:.2f} on average, truly best in "
                f"{row['attacker_truly_best']} and flagged in {row['attacker_flagged']} of {len(attackers)} cases"
            )
        if row["wrong"]:
            text += (
                f", in {row['held_after_a_look']:.0%} once a person has taken away what is flagged and wrong, and in "
                f"{row['held_without_flagged']:.0%} without all that is flagged; {row['wrong_flagged']} of "
                f"{row['wrong']} wrong annotations are flagged, and {row['right_flagged']} right ones"
            )
        if row["honest_flagged"]:
            text += f"; {row['honest_flagged']:.0%} of these transforms are called too good to be true"
        sentences.append(text + ".")
    if {"none", "copies"} <= set(numbers):
        before, after = numbers["none"]["family_best"], numbers["copies"]["family_best"]
        sentences.append(f"Copies change the probability that their family is best from {before:.3f} to {after:.3f}.")
    return Findings(numbers, {}, sentences)


EXPERIMENT = Experiment(
    "attacks",
    "can the judge be fooled by transforms that have seen the annotations, wrong annotations, or copies?",
    8,
    plan,
    compute,
    report,
    ("copdgene", "elastix-lung"),
)
