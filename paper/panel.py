"""What a panel of references and sealed answers are worth: intervals, bent transforms, and the leak test.

Every pair is judged with n annotations at random places, and its other landmarks are the truth: all transforms
together, and beside panels of six, of the three worst and of the three best. Beside a panel the methods are judged
twice, as vetted and as unvetted ones. Then a middling method is bent to the annotations by a share of its residuals
there: how probable is it to be called the best, and does the leak test find it with few sealed answers?

Constants were fixed on some of the pairs (`DEVELOPMENT`), with seeds from 1000 on; the others were left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator

import warpgauge as wg
from paper.curves import rng_for
from paper.datasets import Floats, looked_up
from paper.evaluation import interval_scores
from paper.experiment import Experiment, Findings, Result, Run
from paper.registration_sets import RegistrationSet, contest
from warpgauge.evaluation import Evaluation, Judge, leak_tests

Rows = NDArray[np.int64]
COUNTS = (10, 20, 40)
SAMPLES = 400
OPEN = 20
PANELS = ("all together", "six", "three worst", "three best")
SHARES = {"a quarter": 0.25, "half": 0.5, "wholly": 0.97}
SEALED = (5, 10, 15)
NAMED = 0.95
# Fewer targets say little about an error over them; more take time.
FEWEST_TARGETS = 10
MOST_TARGETS = 120
PAIRS: dict[str, tuple[Any, ...]] = {
    "elastix-lung": (0,),
    "copdgene": (0, 1, 2, 3, 4),
    "network": (0, 1, 2, 3, 4),
    "dirlab4dct": (0, 1, 2, 3, 4),
    "histology": (
        "lung-lesion_1_CD31_He", "lung-lesion_1_He_proSPC", "lung-lobes_1_CD31_He", "lung-lobes_1_He_Ki67",
        "lung-lesion_3_CD31_He", "lung-lesion_3_He_Ki67", "lung-lobes_2_CD31_He", "lung-lobes_2_He_Ki67",
        "mammary-gland_1_CNEU_HE37", "mammary-gland_1_ER_HE39",
    ),
}  # fmt: skip
DEVELOPMENT = {
    "elastix-lung": {0},
    "copdgene": {0, 1, 2},
    "network": {0, 1, 2},
    "histology": {one for one in PAIRS["histology"] if one.startswith(("lung-lesion_1", "lung-lobes_1"))},
}


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ``runs`` splits of each pair, ten times as many of elastix-lung, which is one pair; one has the tricks."""
    found = []
    for dataset, cases in PAIRS.items():
        for case in cases[:1] if quick else cases:
            for at in range(1 if quick else runs * (10 if dataset == "elastix-lung" else 1)):
                about = {"dataset": dataset, "case": case, "seed": seed + at, "whole": True, "tricks": at == 0}
                found.append(Run(f"{dataset}-{case}-{seed + at}", about))
    return found


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Judge one pair with every panel and number of annotations, and try to win it by bending."""
    met = contest(data, run.parameters)
    rng = rng_for(int(run.parameters["seed"]), 11)
    order = rng.permutation(len(met.answers))
    six = rng.permutation(len(met.names))[: min(6, len(met.names) - 2)].tolist()
    judged = []
    for n in COUNTS:
        if len(order) - n >= FEWEST_TARGETS:
            held = held_out(met, order[n:][:MOST_TARGETS])
            ranked = np.argsort(held.true_scores(2.0)).tolist()
            panels = {"all together": [], "six": six, "three worst": ranked[-3:], "three best": ranked[:3]}
            for name, members in panels.items():
                judged += _judged(held, order[:n], name, [met.names[k] for k in members])
    if not run.parameters["tricks"]:
        return {"judged": judged, "bent": [], "leaks": []}
    held = held_out(met, order[OPEN:][:MOST_TARGETS])
    return {"judged": judged, "bent": _bent_wins(held, order[:OPEN]), "leaks": _leaks(met, order)}


def held_out(met: RegistrationSet, rows: Rows) -> RegistrationSet:
    """Return the set with some of its landmarks as targets."""
    return replace(met, targets=met.targets[rows], mapped=met.mapped[:, rows], truth=met.truth[rows])


def _judged(met: RegistrationSet, rows: Rows, panel: str, members: Sequence[str]) -> list[dict[str, Any]]:
    """Score every transform outside the panel, beside a panel as vetted and as unvetted."""
    given = met.answers[rows]
    true = met.true_scores(2.0)
    classical = np.sqrt(np.mean(np.square(met.at_answers[:, rows] - given.moving_points).sum(axis=2), axis=1))
    judge = _judge(met, given, met.transforms, members)
    result = []
    smallest = min(true[k] for k, name in enumerate(met.names) if name not in members)
    ways = {"": judge}
    if members and judge.panel:
        ways = {"vetted": replace(judge, vetted=frozenset(met.names)), "unvetted": judge}
    for way, one in ways.items():
        found = _evaluated(one, met, met.transforms)
        for k, name in enumerate(met.names):
            if name not in members:
                (low, high) = found.scores[name].interval["2"]
                score = found.scores[name].score["2"]
                width = interval_scores(np.array([[low, high]]), true[[k]])[0]
                result.append({
                    "panel": panel, "way": way, "n": len(rows), "held": bool(low <= true[k] <= high),
                    "above": bool(true[k] > high), "interval_score": float(width / true[k]),
                    "best": float(found.scores[name].probability_best["2"]),
                    "truly_best": bool(true[k] == smallest),
                    "error": float(abs(score - true[k])), "landmark_error": float(abs(classical[k] - true[k])),
                })  # fmt: skip
    return result


def _judge(met: RegistrationSet, given: wg.Annotations, transforms: Mapping[str, Any], panel: Sequence[str]) -> Judge:
    return wg.judge(met.default_posterior(given), transforms, panel=list(panel) or None)


def _evaluated(judge: Judge, met: RegistrationSet, transforms: Mapping[str, Any]) -> Evaluation:
    return wg.evaluate(judge, transforms, met.targets, (2,), samples=SAMPLES, regularity=False)


def _bend(points: Floats, residuals: Floats) -> Callable[[Floats], Floats]:
    """Return the spline that takes residuals at points everywhere; of least bending energy."""
    kernel = "thin_plate_spline" if points.shape[1] == 2 else "linear"
    return RBFInterpolator(points, residuals, kernel=kernel, degree=1)  # type: ignore[no-any-return]


def _bent_wins(met: RegistrationSet, rows: Rows) -> list[dict[str, Any]]:
    """Return how probable a bent method is to be called the best, without a panel and beside a good and a poor one."""
    given = met.answers[rows]
    true = met.true_scores(2.0)
    names = met.names
    ranked = np.argsort(true).tolist()
    k = ranked[len(ranked) // 2]
    panels = {"": [], "six": [one for one in names if one != names[k]][:6]}
    panels["three worst"] = [names[j] for j in ranked if j != k][-3:]
    bend = _bend(given.fixed_points, given.moving_points - met.at_answers[k, rows])
    places = np.concatenate([given.fixed_points, met.targets])
    own = np.concatenate([met.at_answers[k, rows], met.mapped[k]])
    result = []
    for what, share in SHARES.items():
        values = own + share * bend(places)
        transforms = {**met.transforms, "bent": looked_up(places, values)}
        truly = bool(wg.displacement_norm(values[len(rows) :] - met.truth, 2) < true.min())
        for panel, members in panels.items():
            found = _evaluated(_judge(met, given, transforms, members), met, transforms)
            best = found.scores["bent"].probability_best["2"]
            result.append({"bent": what, "panel": panel, "truly_best": truly, "best": best})
    return result


def _leaks(met: RegistrationSet, order: Rows) -> list[dict[str, Any]]:
    """Test methods that are bent by each share, with 20 open answers and few sealed ones."""
    found = []
    for sealed in SEALED:
        rows = order[: OPEN + sealed]
        if len(rows) < OPEN + sealed:
            continue
        points = met.answers.fixed_points[rows]
        answers = met.answers.moving_points[rows]
        residuals = answers - met.at_answers[:, rows]
        hidden = np.arange(len(rows)) >= OPEN
        chosen = rng_for(len(order), 12).permutation(len(residuals))
        kept = min(5, len(chosen) - 2)
        references = residuals[chosen[:kept]]
        methods = residuals[chosen[kept : kept + 3]]
        for what, share in {"honest": 0.0, **SHARES}.items():
            tried = [one - share * _bend(points[:OPEN], one[:OPEN])(points) for one in methods]
            tests = leak_tests(np.stack(tried), references, points, hidden)
            found += [{"sealed": sealed, "bent": what, "leaked": test.leaked} for test in tests]
    return found


def report(results: Sequence[Result]) -> Findings:
    """Sum up by set, panel and number of annotations, by pair, and by how far a method was bent."""
    intervals = _intervals(results)
    pairs = _by_pair(results)
    bent = _bent_counts(results)
    leaks = _leak_counts(results)
    numbers = {"intervals": intervals, "pairs": pairs, "bent": bent, "leaks": leaks}
    told = [
        f"{row['dataset']} ({row['pairs']}), {row['panel']} {row['way']}, n = {row['n']}: 90 % intervals hold "
        f"{row['held']:.0%} of {row['cases']} (standard error {row['held_error']:.0%}, {row['above']:.0%} above), "
        f"interval score {row['interval_score']:.2f}, score error {row['score_ratio']:.2f} of the landmarks'; "
        f"named with P > 0.95: {row['right']} of {row['named']} rightly."
        for row in intervals
    ]
    told += [
        f"Bent {where}: wrongly the best with a probability above 0.5 in {one['wrong']} of {one['cases']}."
        for where, one in bent.items()
    ]
    told += [f"{where}: found in {one['found']:.0%} of {one['cases']}." for where, one in leaks.items()]
    return Findings(numbers, {}, told)


def _developed(run: Run) -> bool:
    return run.parameters.get("case") in DEVELOPMENT.get(run.parameters["dataset"], set())


def _intervals(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row by set, kind of pair, panel, way and n; the standard error takes the splits as independent."""
    by: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    for run, found in results:
        pairs = "development pairs" if _developed(run) else "left-out pairs"
        for dataset, kind in ((run.parameters["dataset"], pairs), ("all sets", "all pairs"), ("all sets", pairs)):
            for one in found["judged"]:
                for n in (one["n"], "all"):
                    key = (dataset, kind, one["panel"], one["way"], n)
                    by.setdefault(key, {}).setdefault(run.key, []).append(one)
    rows = []
    for (dataset, kind, panel, way, n), splits in by.items():
        every = [one for split in splits.values() for one in split]
        means = {key: float(np.mean([one[key] for one in every])) for key in ("held", "above", "interval_score")}
        shares = [np.mean([one["held"] for one in split]) for split in splits.values()]
        rows.append({
            "dataset": dataset, "pairs": kind, "panel": panel, "way": way, "n": n, "cases": len(every), **means,
            "named": sum(one["best"] > NAMED for one in every),
            "right": sum(one["best"] > NAMED and one["truly_best"] for one in every),
            "held_error": float(np.std(shares) / np.sqrt(len(shares))),
            "score_ratio": float(np.sum([x["error"] for x in every]) / np.sum([x["landmark_error"] for x in every])),
        })  # fmt: skip
    return rows


def _by_pair(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """How often intervals hold in each pair, over all n, by panel and way."""
    by: dict[str, dict[str, list[bool]]] = {}
    for run, found in results:
        pair = f"{run.parameters['dataset']} {run.parameters.get('case', 0)}"
        for one in found["judged"]:
            key = f"{one['panel']} {one['way']}".strip()
            by.setdefault(pair, {}).setdefault(key, []).append(one["held"])
    return {pair: {key: float(np.mean(held)) for key, held in ways.items()} for pair, ways in by.items()}


def _bent_counts(results: Sequence[Result]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for _, found in results:
        for one in found["bent"]:
            where = f"{one['bent']}, " + (f"beside {one['panel']}" if one["panel"] else "without a panel")
            own = counts.setdefault(where, {"cases": 0, "wrong": 0})
            own["cases"] += 1
            own["wrong"] += one["best"] > 0.5 and not one["truly_best"]
    return counts


def _leak_counts(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    tests: dict[str, list[bool]] = {}
    for _, found in results:
        for one in found["leaks"]:
            tests.setdefault(f"{one['sealed']} sealed answers, {one['bent']}", []).append(one["leaked"])
    return {where: {"cases": len(each), "found": float(np.mean(each))} for where, each in tests.items()}


EXPERIMENT = Experiment(
    "panel",
    "what are a panel of references and sealed answers worth?",
    4,
    plan,
    compute,
    report,
    ("cima", "copdgene", "dirlab4dct", "elastix-lung"),
)
