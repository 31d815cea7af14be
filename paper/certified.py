"""Study of certified verdicts: whether design-based intervals, decisions and gates hold what they promise.

Many audits are drawn from pairs with real registrations and a known truth: simulated 2D and 3D pairs with eight
registrations each, and elastix-lung, whose 50 sound landmarks are then the whole population. On the simulated pairs,
25 annotations chosen by Entropy are open: the judge predicts from them, and an attacker bends the worst registration
through them.

Constants (floor, rounds, kind of interval, mixture) were fixed on the simulated 2D pairs 1 to 3, which are not used
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator

import warpgauge as wg
from paper.certified_report import report
from paper.curves import rng_for
from paper.datasets import Floats, Ints, elastix_lung_registrations
from paper.evaluation import asked, base_posterior
from paper.experiment import Experiment, Run
from paper.registration_sets import RegistrationSet, contest
from warpgauge.core import (
    FEWEST_LOOKS,
    Draws,
    Predictions,
    balanced_order,
    disagreement_sizes,
    inclusion_probabilities,
    log_evidence,
    single_draws,
)
from warpgauge.evaluation import AuditData, design_verdict, gate_audit
from warpgauge.session import AUDIT_FLOOR, AUDIT_ROUND

COUNTS = (10, 20, 40, 60)
OPEN = 25  # annotations that are not sealed
METHODS = 3  # registrations compared in an audit, an attacker not counted
CAP = 96  # answers after which an audit gives up deciding
AUDITS = 520  # per dataset and question
GATE_COUNTS = (25, 40, 60)
_FIRST = {2: 4, 3: 1}  # first pair of each dimension: 2D pairs 1 to 3 were used to choose constants
_PAIRS_3D = 7
_WINS = (10, 15, 25, 40, 60)
_COST, _DRAWS = 40, 6


@dataclass(frozen=True, eq=False)
class Trial:
    """A population of targets with known truth, and what is known of it before the audit.

    Attributes
    ----------
    mapped : (K, N, d) array
        Registrations; the last one is the attacker's where there is one.
    truth, targets : (N, d) arrays
    sd : float
        Of a placement, and stated.
    centre : (N, d) array or None
        What the judge expects; None without open annotations.
    covariance : (N, d, d) array
        Posterior covariance, for the design.
    attacker : bool
    """

    mapped: Floats
    truth: Floats
    targets: Floats
    sd: float
    centre: Floats | None
    covariance: Floats
    attacker: bool

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.truth.shape[1])

    @property
    def squares(self) -> Floats:
        """True squared errors, (K, N)."""
        return np.asarray(np.square(self.mapped - self.truth).sum(axis=2))

    def predicted(self, mapped: Floats) -> Floats | None:
        """Squared errors that the judge expects of transforms, (K, N)."""
        return None if self.centre is None else np.asarray(np.square(mapped - self.centre).sum(axis=2))

    def sizes(self, mapped: Floats | None) -> Floats:
        """Sizes of the design: by disagreement of transforms, or even for None."""
        if mapped is None:
            return np.full(len(self.targets), 1 / len(self.targets))
        return disagreement_sizes(mapped, self.covariance + self.sd**2 * np.eye(self.d), AUDIT_FLOOR)


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan four questions on ``runs`` pairs of each dimension, and intervals on elastix-lung."""
    pairs: list[tuple[str, int]] = [("simulated 2D", seed + _FIRST[2] + at) for at in range(1 if quick else runs)]
    if not quick:
        pairs += [("simulated 3D", seed + _FIRST[3] + at) for at in range(min(runs, _PAIRS_3D))]
    planned = []
    for name, at in pairs:
        many = AUDITS // max(1, sum(other == name for other, _ in pairs))
        for kind in ("intervals", "model", "decisions", "gate", "cost"):
            count = 5 if quick else many
            planned.append(
                Run(
                    f"{name}-{at}-{kind}".replace(" ", "-"),
                    {"dataset": name, "seed": at, "kind": kind, "audits": count},
                )
            )
    lung = {"dataset": "elastix-lung", "seed": seed, "audits": 5 if quick else AUDITS}
    planned += [Run(f"lung-{kind}", {**lung, "kind": kind}) for kind in ("intervals", "decisions")]
    return planned


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Answer one question on one pair."""
    kind, seed, count = str(run.parameters["kind"]), int(run.parameters["seed"]), int(run.parameters["audits"])
    if kind in ("cost", "model"):
        return (cost if kind == "cost" else model)(contest(data, run.parameters), seed)
    trial = (
        lung_trial(data)
        if run.parameters["dataset"] == "elastix-lung"
        else open_trial(contest(data, run.parameters), seed)
    )
    rng = rng_for(seed, 20, ("intervals", "decisions", "gate").index(kind))
    if kind == "intervals":
        return {"audits": [intervals(trial, rng) for _ in range(count)]}
    if kind == "decisions":
        found: dict[str, Any] = {"audits": [decisions(trial, rng) for _ in range(count)]}
        if run.parameters["dataset"] != "elastix-lung":
            found["entropy"] = entropy_decisions(contest(data, run.parameters), seed)
        return found
    return {"audits": [gates(trial, rng) for _ in range(count)]}


def open_trial(met: RegistrationSet, seed: int) -> Trial:
    """Return a simulated pair with open annotations, the judge that knows them, and an attacker who does."""
    rows = asked(met, OPEN, seed)
    given, at = met.answers[rows], met.at_answers[:, rows]
    worst = int(np.argmax(np.square(at - given.moving_points).sum(axis=2).mean(axis=1)))
    bend = RBFInterpolator(given.fixed_points, given.moving_points - at[worst], kernel="thin_plate_spline")
    attacker = met.mapped[worst] + bend(met.targets)
    posterior = base_posterior(met, given)
    centre = wg.judge(posterior, met.transforms).mean(met.targets)
    sd = float(np.sqrt(given.covariances[0, 0, 0]))
    mapped = np.concatenate([met.mapped, attacker[None]])
    return Trial(mapped, met.truth, met.targets, sd, centre, posterior.covariance(met.targets), True)


def lung_trial(data: Path) -> Trial:
    """Return elastix-lung's 14 registrations: landmarks are the population, nothing is open, placements are exact."""
    _, fixed, moving, mapped = elastix_lung_registrations(data)
    return Trial(mapped, moving, fixed, 0.0, None, np.broadcast_to(np.eye(3), (len(fixed), 3, 3)), False)


def model(met: RegistrationSet, seed: int) -> dict[str, Any]:
    """Return whether the judge's 90 % intervals of the RMS error hold, given the open annotations, and their widths."""
    judge = wg.judge(base_posterior(met, met.answers[asked(met, OPEN, seed)]), met.transforms)
    found = wg.evaluate(judge, met.transforms, met.targets, samples=400, regularity_over=False, further=0)
    true = met.true_scores(2)
    bounds = np.array([found.scores[name].interval["2"] for name in met.names])
    return {
        "held": ((bounds[:, 0] <= true) & (true <= bounds[:, 1])).tolist(),
        "width": ((bounds[:, 1] - bounds[:, 0]) / true).tolist(),
    }


def drawn(trial: Trial, mapped: Floats | None, count: int, rng: np.random.Generator) -> tuple[Ints, Floats, Ints]:
    """Draw rounds as a session does: rows, inclusion probabilities within the whole round, and rounds."""
    sizes, length = trial.sizes(mapped), AUDIT_ROUND["uniform" if mapped is None else "disagreement"]
    rows: list[Ints] = []
    shares: list[Floats] = []
    rounds: list[Ints] = []
    left = np.arange(len(sizes))
    while sum(len(one) for one in rows) < count and len(left):
        size = min(length, len(left))
        own = inclusion_probabilities(sizes[left], size)
        order = balanced_order(trial.targets[left], own, rng)
        rows.append(left[order])
        shares.append(np.minimum(own[order], 1.0))
        rounds.append(np.full(size, len(rounds), dtype=np.int64))
        left = np.setdiff1d(left, left[order])
    return np.concatenate(rows), np.concatenate(shares), np.concatenate(rounds)


def beginning(found: tuple[Ints, Floats, Ints], n: int, population: int) -> Draws:
    """Return the first n draws, with the probability of the part of the last round that they use."""
    rows, shares, rounds = found
    lengths = np.bincount(rounds)
    used = np.bincount(rounds[:n], minlength=len(lengths))
    return Draws(rows[:n], np.minimum(1.0, shares[:n] * (used / lengths)[rounds[:n]]), rounds[:n], population)


def audit(trial: Trial, mapped: Floats, draws: Draws, matches: Floats, assisted: bool = True) -> AuditData:
    """Return an audit with answers at all draws."""
    n, K, rows = len(draws), len(mapped), draws.rows
    told = trial.predicted(mapped) if assisted else None
    return AuditData(
        tuple(f"{k}" for k in range(K)),
        draws,
        np.ones(n, dtype=bool),
        matches[:n],
        np.broadcast_to(trial.sd**2 * np.eye(trial.d), (n, trial.d, trial.d)),
        mapped[:, rows],
        None if told is None else told[:, rows],
        None if told is None else np.repeat(told.mean(axis=1)[:, None], n, axis=1),
        np.ones(n, dtype=bool),
    )


def placed(trial: Trial, rows: Ints, rng: np.random.Generator) -> Floats:
    """Return placements at targets."""
    return np.asarray(trial.truth[rows] + rng.normal(0, trial.sd, (len(rows), trial.d)))


def intervals(trial: Trial, rng: np.random.Generator) -> dict[str, Any]:
    """Draw one audit and compare its intervals with the truth, at every number of answers.

    Two designs: by disagreement with predictions, as a project with transforms has it; and even draws without any.
    """
    chosen = rng.choice(len(trial.mapped) - trial.attacker, METHODS, replace=False)
    honest = trial.mapped[chosen]
    mapped = np.concatenate([honest, trial.mapped[-1:]]) if trial.attacker else honest
    true = np.square(mapped - trial.truth).sum(axis=2).mean(axis=1)
    result: dict[str, Any] = {}
    for design in ("disagreement", "uniform"):
        # The design knows the registrations of the project; an attacker may come later.
        found = drawn(trial, honest if design == "disagreement" else None, max(COUNTS), rng)
        matches = placed(trial, found[0], rng)
        for n in COUNTS:
            if n < len(trial.targets):
                data = audit(trial, mapped, beginning(found, n, len(trial.targets)), matches, design == "disagreement")
                result[f"{design} {n}"] = _compared(data, true, trial.attacker)
    return result


def _compared(data: AuditData, true: Floats, attacker: bool) -> list[list[Any]]:
    """Rows of: kind, held, relative width, relative error of the estimate, decided, wrongly, that of its square."""
    verdict = design_verdict(data)
    rows = []
    last = data.names[-1] if attacker else None
    for one in verdict.methods:
        rms = float(np.sqrt(true[int(one.name)]))
        held = one.rms.low <= rms <= one.rms.high
        kind = "attacker rms" if one.name == last else "rms"
        error = one.rms.value / rms - 1
        rows.append([kind, bool(held), (one.rms.high - one.rms.low) / rms, error, 0, 0, (1 + error) ** 2 - 1])
    for pair in verdict.pairs:
        a, b = int(pair.first), int(pair.second)
        difference = float(true[a] - true[b])
        scale = float(true[a] + true[b]) / 2
        held = pair.squared.low <= difference <= pair.squared.high
        wrong = pair.better is not None and (pair.better == pair.first) != (difference < 0)
        kind = "attacker difference" if last in (pair.first, pair.second) else "difference"
        width = (pair.squared.high - pair.squared.low) / scale
        error = (pair.squared.value - difference) / scale
        rows.append([kind, bool(held), width, error, int(pair.better is not None), int(wrong), error])
    return rows


def decisions(trial: Trial, rng: np.random.Generator) -> dict[str, Any]:
    """Look after every answer until it is decided which of two is better.

    Once for two registrations, and once with the second one's errors scaled so that there is no difference.
    """
    pair = trial.mapped[rng.choice(len(trial.mapped) - trial.attacker, 2, replace=False)]
    sizes = np.sqrt(np.square(pair - trial.truth).sum(axis=2).mean(axis=1))
    equal = np.stack([pair[0], trial.truth + (pair[1] - trial.truth) * sizes[0] / sizes[1]])
    result: dict[str, Any] = {}
    for case, mapped in (("pair", pair), ("equal", equal)):
        true = np.square(mapped - trial.truth).sum(axis=2).mean(axis=1)
        for design in ("uniform", "disagreement"):
            found = drawn(trial, mapped if design == "disagreement" else None, CAP, rng)
            total = min(CAP, len(found[0]), len(trial.targets) - 1)
            matches = placed(trial, found[0], rng)
            for assisted in (False, True) if trial.centre is not None else (False,):
                name = f"{case}, {design}{', predictions' if assisted else ''}"
                result[name] = _first_look(trial, mapped, found, matches[:total], assisted, true, case == "equal")
    return result


def _first_look(
    trial: Trial, mapped: Floats, found: tuple[Ints, Floats, Ints], matches: Floats, assisted: bool, true: Floats,
    equal: bool,
) -> list[Any]:  # fmt: skip
    """Answers until decided (None where never), and whether that was wrong."""
    n = len(matches)
    draws = beginning(found, n, len(trial.targets))
    distances = np.square(mapped[:, draws.rows] - matches).sum(axis=2)
    told = trial.predicted(mapped) if assisted else None
    known = None if told is None else Predictions.everywhere(told[0] - told[1], draws)
    steps = single_draws(draws, distances[0] - distances[1], known)
    evidence = log_evidence(steps)
    sure = np.flatnonzero((evidence > np.log(20)) & (np.arange(1, n + 1) >= FEWEST_LOOKS))
    if not len(sure):
        return [None, False]
    first = int(sure[0])
    return [first + 1, bool(equal or (steps[: first + 1].sum() < 0) != (true[0] < true[1]))]


def entropy_decisions(met: RegistrationSet, seed: int) -> list[list[Any]]:
    """For every two registrations, the Entropy annotations until the judge is sure at 95 %, and whether it errs."""
    order, K = asked(met, max(_WINS), seed), len(met.names)
    rows = rng_for(seed, 21).choice(len(met.targets), min(200, len(met.targets)), replace=False)
    true = met.true_scores(2)
    found: dict[tuple[int, int], list[Any]] = {}
    for n in _WINS:
        judge = wg.judge(base_posterior(met, met.answers[order[:n]]), met.transforms)
        draws = judge.sample(met.targets[rows], 200)
        rms = np.sqrt(np.square(draws[:, None] - met.mapped[:, rows]).sum(axis=3).mean(axis=2))
        for a in range(K):
            for b in range(a):
                chance = float(np.mean(rms[:, a] < rms[:, b]))
                if (a, b) not in found and max(chance, 1 - chance) >= 0.95:
                    found[a, b] = [n, bool((chance > 0.5) != (true[a] < true[b]))]
    return [found.get((a, b), [None, False]) for a in range(K) for b in range(a)]


def gates(trial: Trial, rng: np.random.Generator) -> dict[str, Any]:
    """Gate a build that is as good as the baseline, and one whose RMS error is 20 % larger, with a margin of 10 %.

    A new build has the baseline's error field, mixed with a tenth (in variance) of another registration's.
    """
    chosen = rng.choice(len(trial.mapped) - trial.attacker, METHODS + 1, replace=False)
    project, others = trial.mapped[chosen[:METHODS]], trial.mapped[chosen[METHODS]]
    baseline = project[0]
    errors = baseline - trial.truth
    size = np.sqrt(np.square(errors).sum(axis=1).mean())
    other = others - trial.truth
    other = other * size / np.sqrt(np.square(other).sum(axis=1).mean())
    mixed = np.sqrt(0.9) * errors + np.sqrt(0.1) * other
    mixed = mixed * size / np.sqrt(np.square(mixed).sum(axis=1).mean())
    found = drawn(trial, project, max(GATE_COUNTS), rng)
    matches = placed(trial, found[0], rng)
    result: dict[str, Any] = {}
    for name, factor in (("as good", 1.0), ("20 % larger", 1.2)):
        mapped = np.stack([trial.truth + factor * mixed, baseline])
        for n in GATE_COUNTS:
            data = audit(trial, mapped, beginning(found, n, len(trial.targets)), matches)
            result[f"{name} {n}"] = gate_audit(data, "10%").code
    return result


def cost(met: RegistrationSet, seed: int) -> dict[str, Any]:
    """RMS errors of the posterior mean from 40 annotations: all by Entropy, or 30 % drawn at random, used or sealed.

    As in a session, Entropy knows where random questions were asked, also while their answers are sealed.
    """
    rng, sd = rng_for(seed, 22), float(np.sqrt(met.answers.covariances[0, 0, 0]))
    share, smallest = round(0.3 * _COST), {2: 10.0, 3: 4.0}[met.d] * met.pixel
    without = met.answers[asked(met, _COST, seed)]
    result: dict[str, Any] = {"without": [], "audit": [], "sealed": []}
    for _ in range(_DRAWS):
        rows = balanced_order(met.targets, np.full(len(met.targets), share / len(met.targets)), rng)
        random = wg.Annotations.isotropic(met.targets[rows], met.truth[rows] + rng.normal(0, sd, (share, met.d)), sd)
        suggester = wg.Suggester(
            base_posterior(met, wg.Annotations.empty(met.d)).prior,
            met.answers.fixed_points,
            strategy="entropy",
            seed=seed,
        )
        slots, chosen = set(rng.choice(_COST, share, replace=False).tolist()), list[int]()
        for step in range(_COST):
            if step in slots:
                suggester.record_at(random.fixed_points[step - len(chosen)])
            else:
                chosen.append(suggester.suggest())
                suggester.record(chosen[-1])
        fewer = met.answers[chosen]
        together = wg.Annotations(
            np.concatenate([fewer.fixed_points, random.fixed_points]),
            np.concatenate([fewer.moving_points, random.moving_points]),
            np.concatenate([fewer.covariances, random.covariances]),
        )
        unseen = np.setdiff1d(np.arange(len(met.targets)), rows)
        for name, given in (("without", without), ("audit", together), ("sealed", fewer)):
            mean = wg.default_posterior(given, met.extent, smallest=smallest).mean(met.targets[unseen])
            result[name].append(wg.displacement_norm(mean - met.truth[unseen], 2))
    return result


EXPERIMENT = Experiment(
    "certified",
    "do verdicts from random, sealed questions hold what they promise?",
    10,
    plan,
    compute,
    report,
    ("elastix-lung",),
)
