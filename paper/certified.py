"""Study of what audits prove: how often proofs and gates are wrong, and how many answers they need.

Audits are drawn from 30 made populations (`paper.certified_populations`) and from real registrations: elastix-lung,
whose 50 sound landmarks are then the whole population, also with rare failures added to one of two registrations.
Everything is looked at after every answer, and a proof counts as wrong if it was wrong at any look.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paper.certified_populations import POPULATIONS
from paper.curves import rng_for
from paper.datasets import Floats, Ints, elastix_lung_registrations
from paper.experiment import Experiment, Findings, Result, Run
from warpgauge.audit import contest_sizes, proven, sequential_draw
from warpgauge.evaluation import AuditData

ALPHA = 0.05
CAP = 120
FLOOR = 0.1
DESIGNS = ("even", "by disagreement")
AUDITS = 200  # per run
MARGIN = 0.1
# Builds: errors of a baseline, and what the build changes; see `builds`.
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


def audit_of(errors: Floats, rows: Ints, probabilities: Floats) -> AuditData:
    """Return the audit of transforms with known errors (K, N, d), answered without error."""
    K, N, d = errors.shape
    n = len(rows)
    drawn = errors[:, rows]
    return AuditData(
        names=tuple(map(str, range(K))),
        population=N,
        rows=rows,
        probabilities=probabilities,
        matches=np.zeros((n, d)),
        mapped=drawn,
        asked=drawn,
        distances=np.array([[np.linalg.norm(a - b, axis=1).sum() for b in errors] for a in errors]),
        pending=np.zeros(n, dtype=bool),
        bets=np.ones((K, n), dtype=bool),
        sealed=np.ones(n, dtype=bool),
        undefined=np.zeros(K),
    )


def sizes_of(design: str, errors: Floats) -> Floats:
    """Return the sizes of a design; by disagreement without any prediction, as of a model that knows nothing."""
    _, N, d = errors.shape
    if design == "even":
        return np.ones(N)
    wide = np.broadcast_to(1e6 * np.eye(d), (N, d, d))
    return contest_sizes(errors, errors.mean(axis=0), wide, FLOOR)


def looked_at(errors: Floats, rng: np.random.Generator) -> dict[str, Any]:
    """Draw an audit of two transforms by each design, and look after every answer.

    Returns for each design the first look at which either transform is proven to be better (None where never), and
    whether that is wrong.
    """
    means = np.linalg.norm(errors, axis=2).mean(axis=1)
    equal = abs(means[0] - means[1]) <= 1e-9 * means.max()
    found: dict[str, Any] = {}
    for design in DESIGNS:
        rows, q = sequential_draw(sizes_of(design, errors), min(CAP, errors.shape[1]), rng)
        data = audit_of(errors, rows, q)
        # Two transforms: half of the error rate for each of the two claims.
        looks = [_first(proven(data.claim(better, 1 - better), ALPHA / 2)) for better in (0, 1)]
        proofs = [better for better in (0, 1) if looks[better] is not None]
        at = min((look for look in looks if look is not None), default=None)
        found[design] = [at, any(equal or means[better] > means[1 - better] for better in proofs)]
    return found


def _first(hits: Any) -> int | None:
    """Return at which look something is first said."""
    return int(hits.argmax()) + 1 if hits.any() else None


def builds(name: str, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Errors (800, 2) of a baseline and of a build; worse ones by exactly the stated share of the mean error."""
    baseline = rng.normal(size=(800, 2)) * np.sqrt(2)
    if "heavy" in name:
        baseline = rng.standard_t(2.5, size=(800, 2))
    change = 0.3 * rng.normal(size=(800, 2))
    lengths = np.linalg.norm(baseline, axis=1)
    if name == "10 % better":
        return baseline, 0.9 * baseline + 0.1 * change
    if name == "as good, smooth change":
        new = baseline + 0.25 * np.sqrt(np.square(baseline).sum(1).mean() / 2) * rng.normal(size=(800, 2))
        return baseline, new * lengths.sum() / np.linalg.norm(new, axis=1).sum()
    target = (1 + float(name[:2]) / 100) * lengths.sum()
    if "fails" not in name:
        new = baseline + change
        return baseline, new * target / np.linalg.norm(new, axis=1).sum()
    new = 0.97 * baseline + 0.2 * change
    rows = np.arange(round(800 * float(name.rsplit(" ", 2)[1]) / 100))
    # As large a failure, along each error, as makes the build worse by exactly the share.
    failed = np.linalg.norm(new[rows], axis=1)
    further = (target - np.linalg.norm(new, axis=1).sum()) / len(rows)
    new[rows] *= (1 + further / failed)[:, None]
    return baseline, new


def gated(name: str, rng: np.random.Generator) -> dict[str, int | None]:
    """Return the look at which a build passes a gate with a margin of 10 %, by each design; None where never."""
    baseline, new = builds(name, rng)
    errors = np.stack([new, baseline])
    found: dict[str, int | None] = {}
    for design in DESIGNS:
        rows, q = sequential_draw(sizes_of(design, errors), CAP, rng)
        found[design] = _first(proven(audit_of(errors, rows, q).claim(0, 1, share=MARGIN), ALPHA))
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
