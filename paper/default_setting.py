"""The paper's default setting, which most studies vary: half of the landmarks, a 1 px disc, weights learned elsewhere.

One run is one random split of one pair. The weights come from the same stains of another region (CIMA), from another
case (COPDgene, 4DCT), from another deformation (brain), or from ten annotations of the pair itself (dense).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from paper import brains
from paper.curves import Halves, disc, exact_answers, halves, paper_prior, paper_scales, rng_for
from paper.datasets import DATASETS, Floats, LandmarkPair
from paper.experiment import Run
from warpgauge.errors import InvalidInputError

Scales = Callable[[LandmarkPair], Floats]

CURVES = tuple(name for name, one in DATASETS.items() if one.longest)  # the sets of the error curves
QUICK_RUNS = 6
QUICK_COUNT = 20
TEN = 10  # first annotations of the dense set, by farthest points
_TRAINING_BRAINS = 1_000_000  # added to a deformation's seed: no training deformation is ever tested on


@dataclass(frozen=True, eq=False)
class Setting:
    """One run's data: the pair, what may be annotated of it, and the pair that the weights are learned on.

    ``lessons`` are the landmarks of the teacher that are learned from, all by default; ``first`` is what all strategies
    ask first.
    """

    pair: LandmarkPair
    halves: Halves
    teacher: LandmarkPair
    lessons: tuple[int, ...] | None = None
    first: tuple[int, ...] = ()

    @property
    def answers(self) -> wg.Annotations:
        """The default annotator's answers: the given matches, with the disc."""
        return exact_answers(self.halves.fixed, self.halves.moving, disc(self.pair))

    def prior(self, family: str = "wendland", scales: Scales = paper_scales) -> wg.TransformationPrior:
        """Return the paper's model with the weights (and the scales, which are in pixels) of the training pair."""
        if self.lessons is None:
            return _learned(self.teacher, family, scales)
        return _fitted(self.teacher, np.array(self.lessons), family, scales)


def _fitted(teacher: LandmarkPair, rows: Any, family: str, scales: Scales) -> wg.TransformationPrior:
    lessons = exact_answers(teacher.fixed[rows], teacher.moving[rows], disc(teacher))
    return paper_prior(teacher, [lessons], family=family, scales=scales(teacher))


@lru_cache(maxsize=64)
def _learned(teacher: LandmarkPair, family: str, scales: Scales) -> wg.TransformationPrior:
    """Learn from all landmarks of a pair; kept, since the same pair teaches for many runs."""
    return _fitted(teacher, np.arange(len(teacher)), family, scales)


def plan(data: Path, names: Sequence[str], runs: int, seed: int, quick: bool) -> list[Run]:
    """Return ``runs`` runs for each dataset; pairs, training pairs and splits take turns."""
    planned = []
    for name in names:
        for at in range(min(runs, QUICK_RUNS) if quick else runs):
            split = int(np.random.SeedSequence(seed, spawn_key=(at,)).generate_state(1)[0])
            count = QUICK_COUNT if quick else DATASETS[name].longest  # or what the landmarks allow
            parameters = {"dataset": name, "split": split, "count": count, **_choice(data, name, at, split)}
            planned.append(Run(f"{name}-{seed}-{at:04d}-{count}", parameters))
    return planned


def _choice(data: Path, name: str, at: int, split: int) -> dict[str, object]:
    """Return the pair and the training pair of one run."""
    if name == "brain":
        return {"pair": split, "training": split + _TRAINING_BRAINS}
    if name == "dense":
        return {}
    pairs = DATASETS[name].testable(data)
    if not pairs:
        raise InvalidInputError(f"No pair of {name!r} in the data has another one to train on.")
    pair = pairs[at % len(pairs)]
    others = DATASETS[name].training(pair, pairs)
    return {"pair": pair.name, "training": others[at // len(pairs) % len(others)].name}


def setting(data: Path, run: Run) -> Setting:
    """Load what one run needs."""
    name = str(run.parameters["dataset"])
    split = int(run.parameters["split"])
    if name == "dense":
        return _dense(split)
    if name == "brain":
        pair = brains.brain(int(run.parameters["pair"]))
        other = brains.brain(int(run.parameters["training"]), dense=1)
        lessons = rng_for(split, 2).permutation(len(other))[: len(other) // 2]
        return Setting(pair, halves(pair, split), other, tuple(lessons.tolist()))
    by = {pair.name: pair for pair in DATASETS[name].all_pairs(data)}
    pair, other = (_named(by, str(run.parameters[key])) for key in ("pair", "training"))
    return Setting(pair, halves(pair, split), other)


def _named(by: dict[str, LandmarkPair], name: str) -> LandmarkPair:
    if name not in by:
        raise InvalidInputError(f"The data have no pair {name!r}, which this run is about.")
    return by[name]


def _dense(split: int) -> Setting:
    """Learn from the pair itself: a random annotation and nine farthest from the former, which all strategies share."""
    pair = brains.dense()
    parts = halves(pair, split)
    anything = wg.TransformationPrior(wg.KernelBundle("wendland", [1.0], [1.0]))  # plays no part in distances
    suggester = wg.Suggester(anything, parts.fixed, strategy="farthest", seed=split)
    first: list[int] = []
    for _ in range(TEN):
        first.append(suggester.suggest())
        suggester.record(first[-1])
    return Setting(pair, parts, pair, tuple(parts.rows[first].tolist()), tuple(first))
