"""What a panel of references and sealed answers are worth: intervals, bent transforms, and the leak test.

Every set is judged with n annotations at random places: all transforms together, and beside panels of six, of the three
worst and of the three best. Nothing is sealed, so that no method is vetted. Then a middling method is bent to the
annotations by a share of its residuals there: how probable is it to be called the best, and does the leak test find it
with few sealed answers?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator

import warpgauge as wg
from paper.curves import rng_for
from paper.datasets import Floats, looked_up
from paper.evaluation import base_posterior
from paper.experiment import Experiment, Findings, Result, Run
from paper.registration_sets import RegistrationSet, contest
from warpgauge.evaluation import Evaluation, leak_tests

Rows = NDArray[np.int64]
COUNTS, SAMPLES, OPEN = (10, 20, 40), 400, 20
PANELS = ("all together", "six", "three worst", "three best")
SHARES = {"honest": 0.0, "a quarter": 0.25, "half": 0.5, "wholly": 0.97}
SEALED = (5, 10, 15)


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ``runs`` splits of elastix-lung and of each COPDgene case."""
    count = 1 if quick else runs
    sets: list[dict[str, Any]] = [{"dataset": "elastix-lung", "seed": seed + at} for at in range(count)]
    sets += [
        {"dataset": "copdgene", "case": case, "seed": seed + at}
        for case in range(1 if quick else 5)
        for at in range(count)
    ]
    return [Run(f"{one['dataset']}-{one.get('case', 0)}-{one['seed']}", one) for one in sets]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Judge one set with every panel and number of annotations, and try to win it by bending."""
    met, rng = contest(data, run.parameters), rng_for(int(run.parameters["seed"]), 11)
    order = rng.permutation(len(met.answers))
    six = rng.permutation(len(met.names))[: min(6, len(met.names) - 2)].tolist()
    ranked = np.argsort(met.true_scores(2.0)).tolist()
    panels = {"all together": [], "six": six, "three worst": ranked[-3:], "three best": ranked[:3]}
    judged = [
        one
        for n in COUNTS
        if n <= len(order)
        for name, members in panels.items()
        for one in _judged(met, order[:n], name, [met.names[k] for k in members])
    ]
    middle = met.names[ranked[len(ranked) // 2]]
    references = [name for name in met.names if name != middle][:6]
    return {"judged": judged, "bent": _bent_wins(met, order[:OPEN], middle, references), "leaks": _leaks(met, order)}


def _judged(met: RegistrationSet, rows: Rows, panel: str, members: Sequence[str]) -> list[dict[str, Any]]:
    """Score every transform outside the panel."""
    given, true = met.answers[rows], dict(zip(met.names, met.true_scores(2.0), strict=True))
    classical = np.sqrt(np.mean(np.square(met.at_answers[:, rows] - given.moving_points).sum(axis=2), axis=1))
    found = _evaluated(met, given, met.transforms, members)
    result = []
    for k, name in enumerate(met.names):
        if name in members:
            continue
        (low, high), score = found.scores[name].interval["2"], found.scores[name].score["2"]
        width = high - low + 20 * max(low - true[name], 0) + 20 * max(true[name] - high, 0)
        result.append({
            "panel": panel, "n": len(rows), "held": bool(low <= true[name] <= high), "above": bool(true[name] > high),
            "interval_score": float(width / true[name]), "error": float(abs(score - true[name]) / true[name]),
            "landmark_error": float(abs(classical[k] - true[name]) / true[name]),
        })  # fmt: skip
    return result


def _evaluated(
    met: RegistrationSet, given: wg.Annotations, transforms: Mapping[str, Any], panel: Sequence[str]
) -> Evaluation:
    judge = wg.judge(base_posterior(met, given), transforms, panel=list(panel) or None)
    return wg.evaluate(judge, transforms, met.targets, samples=SAMPLES, regularity_over=False, further=0)


def _bend(points: Floats, residuals: Floats) -> Callable[[Floats], Floats]:
    """Return the spline that takes residuals at points everywhere; of least bending energy."""
    kernel = "thin_plate_spline" if points.shape[1] == 2 else "linear"
    return RBFInterpolator(points, residuals, kernel=kernel, degree=1)  # type: ignore[no-any-return]


def _bent_wins(met: RegistrationSet, rows: Rows, name: str, references: Sequence[str]) -> dict[str, Any]:
    """Return how probable a bent method is to be called the best, with and without a panel."""
    given, k = met.answers[rows], met.names.index(name)
    bend = _bend(given.fixed_points, given.moving_points - met.at_answers[k, rows])
    places = np.concatenate([given.fixed_points, met.targets])
    own = np.concatenate([met.at_answers[k, rows], met.mapped[k]])
    true, result = met.true_scores(2.0), {}
    for what, share in SHARES.items():
        values = own + share * bend(places)
        transforms = {**met.transforms, "bent": looked_up(places, values)}
        error = wg.displacement_norm(values[len(rows) :] - met.truth, 2)
        result[what] = {
            "truly_best": bool(error < true.min()),
            "with_panel": _evaluated(met, given, transforms, references).scores["bent"].probability_best["2"],
            "without": _evaluated(met, given, transforms, ()).scores["bent"].probability_best["2"],
        }
    return result


def _leaks(met: RegistrationSet, order: Rows) -> list[dict[str, Any]]:
    """Test methods that are bent by each share, with 20 open answers and few sealed ones."""
    found = []
    for sealed in SEALED:
        rows = order[: OPEN + sealed]
        if len(rows) < OPEN + sealed:
            continue
        points, answers = met.answers.fixed_points[rows], met.answers.moving_points[rows]
        residuals, hidden = answers - met.at_answers[:, rows], np.arange(len(rows)) >= OPEN
        references, methods = residuals[:5], residuals[5:8]
        for what, share in SHARES.items():
            tried = [one - share * _bend(points[:OPEN], one[:OPEN])(points) for one in methods]
            tests = leak_tests(np.stack(tried), references, points, hidden)
            found += [{"sealed": sealed, "bent": what, "leaked": test.leaked} for test in tests]
    return found


def report(results: Sequence[Result]) -> Findings:
    """Sum up by set, panel and number of annotations."""
    numbers: dict[str, Any] = {"intervals": [], "bent": {}, "leaks": {}}
    sentences = []
    for dataset in dict.fromkeys(run.parameters["dataset"] for run, _ in results):
        every = [one for run, found in results if run.parameters["dataset"] == dataset for one in found["judged"]]
        for panel in PANELS:
            rows = []
            for n in COUNTS:
                own = [one for one in every if one["panel"] == panel and one["n"] == n]
                if own:
                    row = {
                        key: float(np.mean([one[key] for one in own])) for key in own[0] if key not in ("panel", "n")
                    }
                    rows.append({"dataset": dataset, "panel": panel, "n": n, "cases": len(own), **row})
            numbers["intervals"] += rows
            told = ", ".join(f"{row['held']:.0%} of {row['cases']} at n = {row['n']}" for row in rows)
            sentences.append(f"{dataset}, {panel}: 90 % intervals of the methods hold {told}.")
    for what in SHARES:
        own = [found["bent"][what] for _, found in results]
        wrong = {how: sum(one[how] > 0.5 and not one["truly_best"] for one in own) for how in ("with_panel", "without")}
        numbers["bent"][what] = {"cases": len(own), **wrong}
        sentences.append(
            f"Bent {what}: wrongly the best with a probability above 0.5 in {wrong['with_panel']} of {len(own)} cases "
            f"beside a panel, in {wrong['without']} without."
        )
    for sealed in SEALED:
        for what in SHARES:
            tests = [
                one for _, found in results for one in found["leaks"] if (one["sealed"], one["bent"]) == (sealed, what)
            ]
            if tests:
                share = float(np.mean([one["leaked"] for one in tests]))
                numbers["leaks"][f"{sealed} sealed, {what}"] = {"cases": len(tests), "found": share}
                sentences.append(f"{sealed} sealed answers, bent {what}: found in {share:.0%} of {len(tests)}.")
    return Findings(numbers, {}, sentences)


EXPERIMENT = Experiment(
    "panel",
    "what are a panel of references and sealed answers worth?",
    4,
    plan,
    compute,
    report,
    ("copdgene", "elastix-lung"),
)
