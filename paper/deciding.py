"""How many answers it takes until the right best of several registrations is named with P > 0.95.

Questions come by entropy (the map's), at random, or as a project asks once it has transforms: half of them, or nine in
ten, drawn where they are expected to decide. After so many answers the best is named by five cross-fitted models, by
one model of all annotations, or by a paired t test of the squared errors; by a verdict the leader of the five models'
scores is named where it beats each other transform with a probability of 0.95. Every landmark may be asked and is a
target.

Pairs were divided by dataset before anything was tried: on those of development the asking and the calls were chosen,
those of confirmation were run once, with other seeds, as were simulated pairs. The rule, written before that run:
calls go by one model if, of all pairs of confirmation and simulation with questions by entropy and eight splits from
seed 9001 on, (1) one model names more of them rightly by 18 and by 30 answers than five models do, (2) at most 5 % of
its first calls are wrong, and of the first calls of verdicts by it at most 5 %, or no larger a share than by five
models, and (3) beside a panel of references bent methods are called best in no more cases (study ``panel``, seed 8000).
The aim, 60 % of the answers, is reached if one model has named as many by 18 answers as five models by 30, and by 14 as
five by 24, with at least the same share of right calls.

In that run its share was lower (65 of 68 right, five models 36 of 37). On pairs of development (seeds 301 to 306) four
of its five wrong first calls came by 18 answers, and it was overconfident up to 14 answers, not from 18 on. Its draws
are now widened by 14 / n below 14 answers. That was fixed before pairs on which nothing was ever run (``untouched``),
and those of confirmation with new splits, were run with seeds from 12001 on, asked by entropy and as a project asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.spatial import cKDTree

import warpgauge as wg
from paper.curves import rng_for
from paper.datasets import Floats
from paper.evaluation import by_entropy
from paper.experiment import Experiment, Findings, Result, Run
from paper.registration_sets import RegistrationSet, contest
from warpgauge.audit import contest_sizes, sequential_draw

SURE = 0.95
SAMPLES = 400
LOOKS = (8, 11, 14, 18, 24, 30)
ASKING = ("entropy", "both", "decide", "random")
CALLS = ("one model", "five models", "t test", "verdict by one", "verdict by five")
FLOOR = 0.1
# Share of the questions that decide, by the way of asking; how many questions come first, without whose answers a model
# cannot tell where a question decides; and questions of a round.
DECIDING = {"entropy": 0.0, "both": 0.5, "decide": 0.9}
FIRST = 6
DECIDING_ROUND = 3
# Questions are drawn by this power of what they are expected to tell: the best ones most often.
SHARPNESS = 2.0
# Joint samples of the truth, and places at which they are drawn at most; others take the value of the nearest one.
_SAMPLES = 300
_MOST_PLACES = 400
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
    """Plan ``runs`` splits of every pair: only the first asks at random, too."""
    return [
        Run(
            f"{part}-{name}-{case}-{seed + at}".replace(" ", "-"),
            {"dataset": part, "set": name, "case": case, "seed": seed + at, "asking": ASKING[: 3 if at else None]},
        )
        for part, pairs in PAIRS.items()
        for name, case in (pairs[:1] if quick else pairs)
        for at in range(1 if quick else runs)
        if not (quick and part == "simulation")  # it takes a minute to register
    ]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Ask in every way, and name the best in every way."""
    about = {**run.parameters, "dataset": run.parameters["set"], "whole": True}
    met = contest(data, about)
    seed = int(run.parameters["seed"])
    most = min(LOOKS[-1], len(met.answers) // 2)
    best = int(met.true_scores(2.0).argmin())
    found = {}
    for way in run.parameters["asking"]:
        rows = questions(met, way, most, seed)
        found[way] = [looked_at(met, rows[:n], best) for n in LOOKS if n <= most]
    return {"looks": found, "transforms": len(met.names), "targets": len(met.targets)}


def questions(met: RegistrationSet, way: str, count: int, seed: int) -> list[int]:
    """Return the landmarks that are asked for, in order."""
    rng = rng_for(seed, 77)
    if way == "random":
        return [int(one) for one in rng.permutation(len(met.answers))[:count]]
    suggester = by_entropy(met, seed)
    rows = list[int]()
    drawn = list[int]()
    share = DECIDING[way]
    while len(rows) < count:
        step = len(rows) - FIRST
        decides = step >= 0 and int((step + 1) * share + 1e-9) > int(step * share + 1e-9)
        if decides and not drawn:
            drawn = drawn_questions(met, rows, rng)
            for row in drawn:
                suggester.skip(row)
        rows.append(drawn.pop(0) if decides else suggester.suggest())
        if decides:
            suggester.restore(rows[-1])
        suggester.record(rows[-1])
    return rows


def drawn_questions(met: RegistrationSet, rows: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Draw a round of questions that decide, as a project does."""
    left = np.setdiff1d(np.arange(len(met.answers)), rows)
    noise = met.answers.covariances.mean(axis=0)
    places = met.answers.fixed_points[left]
    sizes = deciding_sizes(posterior(met, rows), places, met.at_answers[:, left], noise)
    return [int(one) for one in left[sequential_draw(sizes, DECIDING_ROUND, rng)[0]]]


def deciding_sizes(known: Any, places: Floats, mapped: Floats, noise: Floats) -> Floats:
    """Return sizes to draw questions by that decide which transform is best, (n,), adding up to 1.

    A quarter is drawn as for a certificate, the rest by what an answer is expected to tell.

    Parameters
    ----------
    known : warpgauge.core.Posterior
    places : (n, d) array
    mapped : (K, n, d) array
        The transforms there.
    noise : (d, d) array
        Covariance of a placement.
    """
    sizes = contest_sizes(mapped, known.mean(places), known.covariance(places) + noise, FLOOR)
    rows = np.arange(len(places))
    if len(rows) > _MOST_PLACES:
        rows = np.sort(np.random.default_rng(0).choice(len(places), _MOST_PLACES, replace=False))
    told = best_information(known.sample(places[rows], _SAMPLES), mapped[:, rows], noise)
    told = told[cKDTree(places[rows]).query(places)[1]] ** SHARPNESS
    return np.asarray(0.25 * sizes + 0.75 * told / told.sum() if told.sum() > 0 else sizes)


def best_information(samples: Floats, mapped: Floats, noise: Floats, answers: int = 32, seed: int = 0) -> Floats:
    """Return what an answer at each place is expected to tell about which transform is best, in nats, (n,).

    ``H(P_best) - E_y H(P_best | y)``. P_best is over joint samples of the truth, in each of which the transform with
    the smallest mean squared error is the best. An answer y is a sample with noise; given it, the differences of the
    mean squared errors, which are linear in the truth, are moved by their regression on the answer (exact where samples
    are Gaussian), so that no model is fitted again. Weighing samples by the likelihood instead leaves a few of them
    wherever placements are sharp, and information that is not there.

    Parameters
    ----------
    samples : (S, n, d) array
        Joint samples of the true matches at the places.
    mapped : (K, n, d) array
        The transforms there.
    noise : (d, d) array
        Covariance of a placement.
    answers : int
        Answers that are tried at each place, from so many of the samples.
    seed : int
        Of the noise.
    """
    S, n, d = samples.shape
    # What all transforms share cancels; the rest is linear in the truth.
    scores = np.stack([np.square(one - samples).sum(axis=(1, 2)) for one in mapped], axis=1)
    scores -= scores.mean(axis=1, keepdims=True)
    centred = scores - scores.mean(axis=0)
    root = np.linalg.cholesky(noise)
    rng = np.random.default_rng(seed)
    tried = np.linspace(0, S - 1, min(answers, S)).astype(np.int64)
    errors, drawn = (rng.standard_normal((count, d)) @ root.T for count in (S, len(tried)))
    before = float(_entropies(_shares(scores[None])[0]))
    found = np.empty(n)
    for place in range(n):
        here = samples[:, place]
        apart = here - here.mean(axis=0)
        slope = np.linalg.solve(apart.T @ apart / S + noise, apart.T @ centred / S)  # (d, K)
        known = (here[tried] + drawn) @ slope  # (answers, K)
        found[place] = before - _entropies(_shares(known[:, None] + scores - (here + errors) @ slope)).mean()
    return np.maximum(found, 0.0)


def _shares(scores: Floats) -> Floats:
    """Return in which share of (a, S, K) scores each transform has the smallest, (a, K)."""
    best = scores.argmin(axis=2)
    return np.stack([(best == k).mean(axis=1) for k in range(scores.shape[2])], axis=1)


def _entropies(chances: Floats) -> Floats:
    """Entropy, in nats, of distributions along the last axis."""
    return np.asarray(-(chances * np.log(np.where(chances > 0, chances, 1.0))).sum(axis=-1))


def posterior(met: RegistrationSet, rows: Sequence[int]) -> Any:
    """Return what a session knows from some answers."""
    smallest = (10.0 if met.d == 2 else 4.0) * met.pixel
    return wg.default_posterior(met.answers[list(rows)], met.extent, smallest=smallest)


def looked_at(met: RegistrationSet, rows: Sequence[int], best: int) -> dict[str, Any]:
    """Return for each way of calling how sure it is of the best and whether it is right; and the map's error."""
    known = posterior(met, rows)
    judge = wg.judge(known, met.transforms)
    compared = judge.compared(met.transforms, met.targets)
    one = _squares(met, judge.truth(compared, SAMPLES, len(rows), whole=True).matches)
    five = _squares(met, judge.truth(compared, SAMPLES).matches)
    leader = int(np.median(five, axis=1).argmin())
    calls = {
        "one model": _best(one),
        "five models": _best(five),
        "t test": t_test(met, rows),
        "verdict by one": _lead(one, leader),
        "verdict by five": _lead(five, leader),
    }
    return {
        "n": len(rows),
        "map": float(np.sqrt(np.square(known.mean(met.targets) - met.truth).sum(axis=1).mean())),
        **{name: [float(each.max()), bool(each.argmax() == best)] for name, each in calls.items()},
    }


def _squares(met: RegistrationSet, draws: Floats) -> Floats:
    """Return the summed squared errors of each transform in each draw of the truth, (K, S)."""
    return np.stack([np.square(one - draws).sum(axis=(1, 2)) for one in met.mapped])


def _best(squares: Floats) -> Floats:
    """Return in which share of draws of the truth each transform has the smallest squared error."""
    return np.asarray(np.bincount(squares.argmin(axis=0), minlength=len(squares)) / squares.shape[1])


def _lead(squares: Floats, leader: int) -> Floats:
    """Return for the leader the least share of draws in which it beats another transform, 0 for the others."""
    found = np.zeros(len(squares))
    found[leader] = np.delete((squares[leader] < squares).mean(axis=1), leader).min()
    return found


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
    """Sum up by part: how many are named by n answers, how many of them rightly, and what the map loses."""
    numbers: dict[str, Any] = {}
    told = []
    for part in dict.fromkeys(str(run.parameters["dataset"]) for run, _ in results):
        own = [found["looks"] for run, found in results if run.parameters["dataset"] == part]
        rows = {
            f"{way}, {call}": _named([one for one in own if way in one], way, call) for way in ASKING for call in CALLS
        }
        maps = {
            way: {n: _map_ratio(own, way, n) for n in (14, 18, 30)} for way in ASKING if way != "entropy"
        }  # fmt: skip
        numbers[part] = {"pairs": len(own), "named": rows, "map over entropy's": maps}
        for name, row in rows.items():
            shares = ", ".join(f"{right} of {named} by {n}" for n, named, right in row["by"])
            told.append(f"{part}, {name}: of {row['cases']} named rightly {shares}; mean answers {row['mean']:.1f}.")
        told += [f"{part}, {way}: map error over entropy's {one}." for way, one in maps.items()]
    return Findings(numbers, {}, told)


def _named(cases: Sequence[dict[str, Any]], way: str, call: str) -> dict[str, Any]:
    """Count at each look what was named by then; a case that is never rightly named counts with the last look."""
    first = [next(((look["n"], look[call][1]) for look in case[way] if look[call][0] > SURE), None) for case in cases]
    by = [
        (n, sum(one is not None and one[0] <= n for one in first),
         sum(one is not None and one[0] <= n and one[1] for one in first))
        for n in LOOKS
    ]  # fmt: skip
    answers = [one[0] if one is not None and one[1] else LOOKS[-1] for one in first]
    return {"cases": len(cases), "by": by, "mean": float(np.mean(answers)) if answers else float("nan")}


def _map_ratio(cases: Sequence[dict[str, Any]], way: str, n: int) -> float | None:
    """Geometric mean of the map's error over that of entropy's questions."""
    errors = [
        tuple(next((look["map"] for look in case[one] if look["n"] == n), None) for one in (way, "entropy"))
        for case in cases
        if way in case
    ]
    ratios = [np.log(one / other) for one, other in errors if one is not None and other is not None]
    return float(np.exp(np.mean(ratios))) if ratios else None


EXPERIMENT = Experiment(
    "deciding",
    "how many answers until the right best registration is named?",
    1,
    plan,
    compute,
    report,
    ("cima", "copdgene", "dirlab4dct", "elastix-lung"),
)
