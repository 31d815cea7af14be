"""Are slips found from one rater's marks alone? Slips planted among true landmarks of real pairs.

Eleven or twenty landmarks at random places stand for the marks of one rater, each stated to a pixel (or voxel). Some
are moved: by 3, 10 or 30 times the standard deviation with which the others predict them, alone or several in the same
direction, or to the match of the nearest other mark. Measured: the share of slips that are found over all marks at the
end, and of one that is placed last when it is placed; and how many sound marks are suspected.

The level and the share of the core in `warpgauge.core.slips` were chosen on other pairs: CIMA's lung-lesion_1 and
lung-lobes_1, DIR-Lab 4DCT 1 to 3, and AFIDs pairs whose first subject is one of the first eight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from paper.curves import rng_for
from paper.datasets import DATASETS, Floats, LandmarkPair
from paper.experiment import Experiment, Findings, Result, Run
from warpgauge.core import Posterior, screen

Learn = Callable[[wg.Annotations], Posterior]
# Name, how many marks are moved, and by how many predicted standard deviations; None: to the nearest other match.
KINDS: dict[str, tuple[int, float | None]] = {
    "none": (0, 0.0),
    "1 by 3 sigma": (1, 3.0),
    "1 by 10 sigma": (1, 10.0),
    "1 by 30 sigma": (1, 30.0),
    "2 by 10 sigma": (2, 10.0),
    "3 by 10 sigma": (3, 10.0),
    "4 by 10 sigma": (4, 10.0),
    "4 by 30 sigma": (4, 30.0),
    "1 neighbour": (1, None),
    "2 neighbours": (2, None),
}
COUNTS = (11, 20)
CHOSEN_ON = {"cima": ("lung-lesion_1", "lung-lobes_1"), "dirlab4dct": ("case1", "case2", "case3")}
SETS = ("cima", "dirlab4dct", "copdgene", "afids")


def reported(name: str, data: Path) -> list[LandmarkPair]:
    """Return the pairs of a set on which nothing was chosen."""
    pairs = DATASETS[name].all_pairs(data)
    if name == "afids":
        subjects = sorted({pair.group for pair in pairs})
        return [pair for pair in pairs if pair.group in subjects[15:]]
    return [pair for pair in pairs if pair.group not in CHOSEN_ON.get(name, ())]


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ``runs`` draws of landmarks of each set, each with every kind of slip."""
    return [
        Run(f"{name}-{count}-{seed + at}", {"dataset": name, "count": count, "seed": seed + at})
        for name in (SETS[:1] if quick else SETS)
        for count in (COUNTS[:1] if quick else COUNTS)
        for at in range(2 if quick else runs)
    ]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Plant every kind of slip among one draw of landmarks."""
    name = str(run.parameters["dataset"])
    count = int(run.parameters["count"])
    seed = int(run.parameters["seed"])
    rng = rng_for(seed, SETS.index(name))
    pairs = reported(name, data)
    pair = pairs[int(rng.integers(len(pairs)))]
    rows = rng.choice(len(pair), count, replace=False)
    marks = wg.Annotations.isotropic(pair.fixed[rows], pair.moving[rows], pair.pixel)
    learn = _learner(pair)
    sound = screen(marks, learn)
    if sound is None:
        raise ValueError(f"{count} marks are too few")
    sigma = np.sqrt(np.trace(sound.covariances, axis1=1, axis2=2) / pair.d)
    return {
        "pair": pair.name,
        "detectable": sound.detectable,
        "sigma": float(np.median(sigma)),
        **{kind: _found(marks, kind, sigma, learn, rng) for kind in KINDS},
    }


def _learner(pair: LandmarkPair) -> Learn:
    def learn(given: wg.Annotations) -> Posterior:
        return wg.default_posterior(given, pair.extent, 10 * pair.pixel, center=pair.middle)

    return learn


def _found(
    marks: wg.Annotations, kind: str, sigma: Floats, learn: Learn, rng: np.random.Generator
) -> dict[str, int | bool]:
    """Plant slips and screen: how many of them, and of the sound marks, are suspected."""
    several, length = KINDS[kind]
    moving = marks.moving_points.copy()
    wrong = rng.choice(len(marks), several, replace=False)
    direction = rng.normal(size=marks.d)
    direction /= np.linalg.norm(direction)
    for row in wrong:
        if length is None:
            away = np.linalg.norm(marks.moving_points - marks.moving_points[row], axis=1)
            away[row] = np.inf
            moving[row] = marks.moving_points[int(np.argmin(away))]
        else:
            moving[row] += length * sigma[row] * direction
    given = wg.Annotations(marks.fixed_points, moving, np.asarray(marks.covariances))
    found = screen(given, learn)
    suspect = np.zeros(len(marks), dtype=bool) if found is None else found.suspect
    sound = np.setdiff1d(np.arange(len(marks)), wrong)
    return {
        "slips": several,
        "found": int(suspect[wrong].sum()),
        "sound": len(sound),
        "suspected": int(suspect[sound].sum()),
        "asked": _asked(given, int(wrong[0]) if several else 0, learn),
    }


def _asked(given: wg.Annotations, last: int, learn: Learn) -> bool:
    """Return whether the rater is asked about a mark when it is placed after all others."""
    others = np.setdiff1d(np.arange(len(given)), [last])
    known = screen(given[others], learn)
    if known is None:
        return False
    at = given.fixed_points[[last]]
    residual = given.moving_points[last] - known.posterior.mean(at)[0]
    covariance = known.posterior.annotation_covariance(at, np.asarray(given.covariances)[[last]])[0]
    return bool(residual @ np.linalg.solve(covariance, residual) > known.limit)


def report(results: Sequence[Result]) -> Findings:
    """Sum up by set, number of marks and kind of slip."""
    numbers: dict[str, Any] = {}
    sentences = []
    suspected = sound = 0
    for name in SETS:
        for count in COUNTS:
            own = [
                found for run, found in results if (run.parameters["dataset"], run.parameters["count"]) == (name, count)
            ]
            if not own:
                continue
            rows = {kind: _summed([one[kind] for one in own]) for kind in KINDS}
            numbers[f"{name} {count}"] = {
                "runs": len(own),
                "detectable": float(np.median([one["detectable"] for one in own])),
                "sigma": float(np.median([one["sigma"] for one in own])),
                **rows,
            }
            suspected += sum(one["none"]["suspected"] for one in own)
            sound += sum(one["none"]["sound"] for one in own)
            told = ", ".join(f"{kind} {row['found']:.0%}" for kind, row in rows.items() if row["found"] is not None)
            sentences.append(
                f"{DATASETS[name].title}, {count} marks, {len(own)} draws: found {told}; of sound marks alone "
                f"{rows['none']['suspected']:.1%} are suspected, and {rows['none']['asked']:.1%} asked about when "
                f"placed last (1 by 10 sigma: {rows['1 by 10 sigma']['asked']:.0%}); a slip is detectable from "
                f"{numbers[f'{name} {count}']['detectable']:.3g} {DATASETS[name].units} on (median)."
            )
    if sound:
        sentences.append(f"Of {sound} sound marks, {suspected} ({suspected / sound:.2%}) are suspected.")
    return Findings(numbers, {}, sentences)


def _summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    slips = sum(row["slips"] for row in rows)
    return {
        "found": sum(row["found"] for row in rows) / slips if slips else None,
        "suspected": sum(row["suspected"] for row in rows) / sum(row["sound"] for row in rows),
        "asked": float(np.mean([row["asked"] for row in rows])),
    }


EXPERIMENT = Experiment(
    "slips",
    "are slips found from one rater's marks alone?",
    12,
    plan,
    compute,
    report,
    ("afids", "cima", "copdgene", "dirlab4dct"),
)
