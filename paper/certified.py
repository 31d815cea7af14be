"""Study of certified verdicts: how often exact verdicts and gates are wrong, and how many answers they need.

Audits are drawn from 30 made populations (`paper.certified_populations`) and from real registrations: elastix-lung,
whose 50 sound landmarks are then the whole population, also with rare failures added to one of two registrations.
Everything is looked at after every answer, and a decision counts as wrong if it was wrong at any look.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paper.certified_populations import POPULATIONS
from paper.curves import rng_for
from paper.datasets import Floats, elastix_lung_registrations
from paper.experiment import Experiment, Findings, Result, Run
from warpgauge.audit import (
    GateDraws,
    beyond_segment,
    contest_sizes,
    length_difference,
    log_wealth,
    pooled_tickets,
    proven,
    relative_gate_tickets,
    segment_bound,
    segment_difference,
    sequential_draw,
)
from warpgauge.evaluation import CLEAR, ladder_of

ALPHA, CAP = 0.05, 120
DIAGONAL, BEYOND, FLOOR = 400.0, 3.0, 0.1
DESIGNS = ("even", "by disagreement")
AUDITS = 200  # per run
MARGIN = 0.1
# Builds: errors of a baseline (RMS 2), and what the build changes; see `builds`.
BUILDS = (
    "10 % worse, smooth", "10 % worse, fails in 3 %", "10 % worse, fails in 1 %", "30 % worse, fails in 3 %",
    "50 % worse, fails in 2 %", "20 % worse, heavy tails", "as good, smooth change", "10 % better",
)  # fmt: skip


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ``runs`` times 200 audits of every population, build and kind of real pair."""
    count = 1 if quick else runs
    kinds = [("population", name) for name in POPULATIONS] + [("gate", name) for name in BUILDS]
    kinds += [("lung", name) for name in ("pairs", "pairs with failures in 4 %")]
    audits = 10 if quick else AUDITS
    return [
        Run(f"{kind}-{at}-{number}", {"dataset": kind, "name": name, "seed": seed + at, "audits": audits})
        for at in range(count)
        for number, (kind, name) in enumerate(kinds)
    ]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Draw many audits of one population."""
    kind, name, seed = (run.parameters[key] for key in ("dataset", "name", "seed"))
    rng = rng_for(int(seed), 30, sum(map(ord, str(name))))
    audits = int(run.parameters["audits"])
    if kind == "gate":
        return {"passed": [gated(str(name), rng) for _ in range(audits)]}
    if kind == "population":
        return {"audits": [looked_at(POPULATIONS[str(name)](rng), rng) for _ in range(audits)]}
    _, _, moving, mapped = elastix_lung_registrations(data)
    return {
        "audits": [looked_at(_lung_pair(mapped - moving, "failures" in str(name), rng), rng) for _ in range(audits)]
    }


def _lung_pair(errors: Floats, failures: bool, rng: np.random.Generator) -> Floats:
    """Two of the real registrations; with failures, the better one is far off at two neighbouring landmarks."""
    pair = errors[rng.choice(len(errors), 2, replace=False)].copy()
    if failures:
        sizes = np.square(pair).sum(axis=(1, 2))
        way = rng.normal(size=3)
        pair[int(sizes.argmin()), :2] += 2.2 * np.sqrt(sizes.max() / 2) * way / np.linalg.norm(way)
    return np.asarray(pair)


def looked_at(errors: Floats, rng: np.random.Generator) -> dict[str, Any]:
    """Draw an audit of two transforms by each design, and look after every answer.

    Returns for each design and method the first look at which something is decided (None where never) and whether it
    is wrong: "mean" and "squared" by their own measure, "better" by the squared error or the mean error.
    """
    first, second = errors
    truth = np.zeros_like(first)
    lengths = [float(np.linalg.norm(one, axis=1).mean()) for one in errors]
    squares = [float(np.square(one).sum(axis=1).mean()) for one in errors]
    order = {"mean": _sign(lengths), "squared": _sign(squares)}
    found: dict[str, Any] = {}
    for design in DESIGNS:
        sizes = np.ones(len(first)) if design == "even" else draw_sizes(errors)
        rows, q = sequential_draw(sizes, min(CAP, len(first)), rng)
        told = exact_looks(first, second, truth, rows, q)
        for name, (at, sign) in told.items():
            right = [order["mean"], order["squared"]] if name == "better" else [order[name]]
            found[f"{design}, exact, {name}"] = [at, at is not None and any(sign != one for one in right)]
    return found


def _sign(two: Sequence[float]) -> int:
    """1 where the first is smaller, -1 where the second is, 0 where they are equal."""
    return 0 if abs(two[0] - two[1]) <= 1e-9 * max(two) else (1 if two[0] < two[1] else -1)


def draw_sizes(errors: Floats) -> Floats:
    """Sizes of the design without any prediction: a model that knows nothing."""
    d = errors.shape[2]
    wide = np.broadcast_to(1e6 * np.eye(d), (errors.shape[1], d, d))
    return contest_sizes(errors, errors.mean(axis=0), wide, BEYOND, FLOOR)


def exact_looks(
    first: Floats, second: Floats, truth: Floats, rows: Any, q: Floats
) -> dict[str, tuple[int | None, int]]:
    """Return for each statement of an exact verdict the look at which it is first made, and for whom (1 or -1)."""
    apart = np.linalg.norm(second - first, axis=1)
    ladder = ladder_of(1.0, DIAGONAL)
    bounds = np.stack([apart, *(segment_bound(apart, one) for one in ladder)])
    losses = np.stack([
        length_difference(first[rows], second[rows], truth[rows]),
        *(segment_difference(first[rows], second[rows], truth[rows], one) for one in ladder),
    ])  # fmt: skip
    enough = np.log(2 / ALPHA)  # two transforms: half of the error rate for each direction
    seen = np.maximum.accumulate(beyond_segment(first[rows], second[rows], truth[rows]))
    step = np.searchsorted(ladder, seen)  # the step that cuts no answer short
    columns = np.arange(len(rows))
    said: dict[str, tuple[int | None, int]] = dict.fromkeys(("mean", "squared", "better"), (None, 0))
    for sign in (1, -1):
        given = pooled_tickets((bounds[:, rows] + sign * losses)[:, None], q[None], bounds.sum(axis=1))
        reached = np.maximum.accumulate(log_wealth(given), axis=1) >= enough
        steps = np.logical_and.accumulate(reached[1:], axis=0)
        whole, clear = (steps[np.minimum(step + more, len(ladder) - 1), columns] for more in (0, CLEAR))
        for name, hit in (("mean", reached[0]), ("squared", whole), ("better", clear & reached[0])):
            at = int(hit.argmax()) + 1 if hit.any() else None
            if at is not None and (said[name][0] is None or at < (said[name][0] or 0)):
                said[name] = at, sign
    return said


def builds(name: str, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Errors (800, 2) of a baseline and of a build; worse ones by exactly the stated share."""
    baseline = rng.normal(size=(800, 2)) * np.sqrt(2)
    if "heavy" in name:
        baseline = rng.standard_t(2.5, size=(800, 2))
    change = 0.3 * rng.normal(size=(800, 2))
    if name == "10 % better":
        return baseline, 0.9 * baseline + 0.1 * change
    if name == "as good, smooth change":
        new = baseline + 0.25 * np.sqrt(np.square(baseline).sum(1).mean() / 2) * rng.normal(size=(800, 2))
        return baseline, new * np.sqrt(np.square(baseline).sum() / np.square(new).sum())
    factor = 1 + float(name[:2]) / 100
    target = factor**2 * np.square(baseline).sum()
    if "fails" not in name:
        new = baseline + change
        return baseline, new * np.sqrt(target / np.square(new).sum())
    new = 0.97 * baseline + 0.2 * change
    rows = np.arange(round(800 * float(name.rsplit(" ", 2)[1]) / 100))
    # As large a failure, in one direction, as makes the build worse by exactly the share: a root of a parabola.
    way = np.array([1.0, 0.0])
    a, b, c = len(rows), 2 * (new[rows] @ way).sum(), np.square(new).sum() - target
    new[rows] += (-b + np.sqrt(b**2 - 4 * a * c)) / (2 * a) * way
    return baseline, new


def gated(name: str, rng: np.random.Generator) -> dict[str, int | None]:
    """Return the look at which a build passes a gate with a margin of 10 %, by each design; None where never."""
    baseline, new = builds(name, rng)
    change = new - baseline
    squares = np.square(change).sum(axis=1)
    found: dict[str, int | None] = {}
    for design, sizes in (("even", np.ones(800)), ("for the build", 0.9 * squares / squares.sum() + 0.1 / 800)):
        rows, q = sequential_draw(sizes, CAP, rng)
        bets, size = np.ones(len(rows), dtype=bool), np.array([800.0])
        draws = GateDraws(change[rows][None], -baseline[rows][None], q[None], size, float(squares.mean()), 0.0, bets)
        passed = proven(relative_gate_tickets(draws, MARGIN), ALPHA)
        found[design] = int(passed.argmax()) + 1 if passed[-1] else None
    return found


def report(results: Sequence[Result]) -> Findings:
    """Sum up by population and by build."""
    numbers: dict[str, Any] = {}
    sentences = []
    for name in dict.fromkeys((str(run.parameters["dataset"]), str(run.parameters["name"])) for run, _ in results):
        own = [found for run, found in results if (run.parameters["dataset"], run.parameters["name"]) == name]
        key = "passed" if name[0] == "gate" else "audits"
        rows = [one for part in own for one in part[key]]
        table: dict[str, Any] = {}
        for kind in rows[0]:
            if key == "passed":
                looks = [CAP + 1 if one[kind] is None else one[kind] for one in rows]
                wrong = float(np.mean([look <= CAP for look in looks]))
            else:
                looks = [CAP + 1 if one[kind][0] is None else one[kind][0] for one in rows]
                wrong = float(np.mean([one[kind][1] for one in rows]))
            table[kind] = {
                "audits": len(rows),
                "passed" if key == "passed" else "wrong": wrong,
                "decided": float(np.mean([look <= CAP for look in looks])),
                "median": float(np.median(looks)),
            }
        numbers[f"{name[0]}: {name[1]}"] = table
        told = "; ".join(
            f"{kind} {100 * one['passed' if key == 'passed' else 'wrong']:.1f} % "
            f"{'passed' if key == 'passed' else 'wrong'}, median {one['median']:.0f}"
            for kind, one in table.items()
        )
        sentences.append(f"{name[1]}, {len(rows)} audits: {told}.")
    return Findings(numbers, {}, sentences)


EXPERIMENT = Experiment(
    "certified",
    "do verdicts from random, sealed questions hold what they promise?",
    2,
    plan,
    compute,
    report,
    ("elastix-lung",),
)
