"""How many answers it takes until the right best of several registrations is named with P > 0.95.

Questions come by entropy. After so many answers the best is named by one model of all annotations, as verdicts do, by
five cross-fitted models, from which sizes are drawn, or by a paired t test of the squared errors. Every landmark may be
asked and is a target.

Pairs were divided by dataset before anything was tried: on those of development the calls were chosen, those of
confirmation were run once, with other seeds, as were simulated pairs, and on those named ``untouched`` nothing was ever
run before. Questions that decide between the given methods were tried too and save no answers (commit dd7f47d).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import warpgauge as wg
from paper.datasets import Floats
from paper.evaluation import asked
from paper.experiment import Experiment, Findings, Result, Run
from paper.registration_sets import RegistrationSet, contest

SURE = 0.95
SAMPLES = 400
LOOKS = (8, 11, 14, 18, 24, 30)
CALLS = ("one model", "five models", "t test")
PAIRS: dict[str, list[tuple[str, Any]]] = {
    "development": [
        ("elastix-lung", 0),
        *((name, case) for name in ("copdgene", "network") for case in range(5)),
        *(("histology", f"lung-{one}") for one in ("lesion_1_CD31_He", "lesion_1_He_proSPC", "lesion_1_He_Ki67")),
        *(("histology", f"lung-{one}") for one in ("lobes_1_CD31_He", "lobes_1_He_Ki67", "lobes_1_He_proSPC")),
    ],
    "confirmation": [
        *(("dirlab4dct", case) for case in range(5)),
        *(("histology", f"lung-{one}") for one in ("lesion_3_CD31_He", "lesion_3_He_Ki67", "lesion_3_He_proSPC")),
        *(("histology", f"lung-{one}") for one in ("lobes_2_CD31_He", "lobes_2_He_Ki67", "lobes_2_He_proSPC")),
        *(("histology", f"mammary-gland_1_{one}") for one in ("CNEU_HE37", "ER_HE39", "HE37_PR")),
    ],
    "simulation": [("simulated 2D", 0)],
}
PAIRS["untouched"] = [
    *(("histology", f"lung-lesion_3_{one}") for one in ("CD31_Cc10", "CD31_Ki67", "CD31_proSPC", "Cc10_He")),
    *(("histology", f"lung-lesion_3_{one}") for one in ("Cc10_Ki67", "Cc10_proSPC", "Ki67_proSPC")),
    *(("histology", f"lung-lobes_2_{one}") for one in ("CD31_Cc10", "CD31_Ki67", "CD31_proSPC", "Cc10_He")),
    *(("histology", f"lung-lobes_2_{one}") for one in ("Cc10_Ki67", "Cc10_proSPC", "Ki67_proSPC")),
    *(("histology", f"mammary-gland_1_{one}") for one in ("CNEU_ER", "CNEU_HE39", "CNEU_PR", "ER_HE37", "ER_PR")),
    *(("histology", f"mammary-gland_1_{one}") for one in ("HE37_HE39", "HE39_PR")),
]


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ``runs`` splits of every pair."""
    return [
        Run(
            f"{part}-{name}-{case}-{seed + at}".replace(" ", "-"),
            {"dataset": part, "set": name, "case": case, "seed": seed + at},
        )
        for part, pairs in PAIRS.items()
        for name, case in (pairs[:1] if quick else pairs)
        for at in range(1 if quick else runs)
        if not (quick and part == "simulation")  # it takes a minute to register
    ]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Ask by entropy, and name the best in every way after each number of answers."""
    met = contest(data, {**run.parameters, "dataset": run.parameters["set"], "whole": True})
    most = min(LOOKS[-1], len(met.answers) // 2)
    best = int(met.true_scores(2.0).argmin())
    rows = asked(met, most, int(run.parameters["seed"]))
    looks = [looked_at(met, rows[:n], best) for n in LOOKS if n <= most]
    return {"looks": looks, "transforms": len(met.names), "targets": len(met.targets)}


def looked_at(met: RegistrationSet, rows: Sequence[int], best: int) -> dict[str, Any]:
    """Return for each way of calling how sure it is of the best, and whether it is right."""
    judge = wg.judge(met.default_posterior(met.answers[list(rows)]), met.transforms)
    compared = judge.compared(met.transforms, met.targets)
    calls = {
        "one model": _best(met, judge.truth(compared, SAMPLES, len(rows), whole=True)[0]),
        "five models": _best(met, judge.truth(compared, SAMPLES)[0]),
        "t test": t_test(met, rows),
    }
    return {
        "n": len(rows),
        **{name: [float(each.max()), bool(each.argmax() == best)] for name, each in calls.items()},
    }


def _best(met: RegistrationSet, draws: Floats) -> Floats:
    """Return in which share of draws of the truth each transform has the smallest squared error."""
    squares = np.stack([np.square(one - draws).sum(axis=(1, 2)) for one in met.mapped])
    return np.asarray(np.bincount(squares.argmin(axis=0), minlength=len(squares)) / squares.shape[1])


def t_test(met: RegistrationSet, rows: Sequence[int]) -> Floats:
    """Return for the leader one less the largest one-sided p against another transform, 0 for the others."""
    squares = np.square(met.at_answers[:, rows] - met.answers.moving_points[rows]).sum(axis=2)
    leader = int(squares.mean(axis=1).argmin())
    found = np.zeros(len(squares))
    behind = np.delete(squares, leader, axis=0) - squares[leader]
    spread = behind.std(axis=1, ddof=1) / np.sqrt(len(rows))
    found[leader] = float(stats.t.cdf((behind.mean(axis=1) / np.maximum(spread, 1e-12)).min(), len(rows) - 1))
    return found


def report(results: Sequence[Result]) -> Findings:
    """Sum up by part: how many are named by n answers, and how many of them rightly."""
    numbers: dict[str, Any] = {}
    told = []
    for part in dict.fromkeys(str(run.parameters["dataset"]) for run, _ in results):
        own = [found["looks"] for run, found in results if run.parameters["dataset"] == part]
        rows = {call: _named(own, call) for call in CALLS}
        numbers[part] = {"pairs": len(own), "named": rows}
        for name, row in rows.items():
            shares = ", ".join(f"{right} of {named} by {n}" for n, named, right in row["by"])
            told.append(f"{part}, {name}: of {row['cases']} named rightly {shares}; mean answers {row['mean']:.1f}.")
    return Findings(numbers, {}, told)


def _named(cases: Sequence[Sequence[dict[str, Any]]], call: str) -> dict[str, Any]:
    """Count at each look what was named by then; a case that is never rightly named counts with the last look."""
    first = [next(((look["n"], look[call][1]) for look in case if look[call][0] > SURE), None) for case in cases]
    by = [
        (n, sum(one is not None and one[0] <= n for one in first),
         sum(one is not None and one[0] <= n and one[1] for one in first))
        for n in LOOKS
    ]  # fmt: skip
    answers = [one[0] if one is not None and one[1] else LOOKS[-1] for one in first]
    return {"cases": len(cases), "by": by, "mean": float(np.mean(answers)) if answers else float("nan")}


EXPERIMENT = Experiment(
    "deciding",
    "how many answers until the right best registration is named?",
    1,
    plan,
    compute,
    report,
    ("cima", "copdgene", "dirlab4dct", "elastix-lung"),
)
