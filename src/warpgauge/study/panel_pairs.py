"""Pairs that are judged beside references, and `compute_pair`, which chooses how a pair is evaluated.

Beside references, what is said of a method depends on the annotations, the references and the method alone. So it is
computed once and kept, and a new submission costs its own evaluation only: what the model of the truth said at the
targets is kept as well (`KeptFit`). Without references, all methods of a pair are evaluated together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.parallel import one_blas_thread
from warpgauge.evaluation import Comparison, Evaluation, diagnose
from warpgauge.evaluation.flags import EXCLUDED
from warpgauge.evaluation.judge import Judge, judge_of
from warpgauge.evaluation.project_evaluation import BASELINE, MARGIN_PX
from warpgauge.evaluation.scores import Scoring, scored
from warpgauge.evaluation.verdict import UNSEEN
from warpgauge.study import pair_store
from warpgauge.study.kept import KeptFit
from warpgauge.study.outcome import Figures, Ground, PairOutcome, joined
from warpgauge.study.pairs import (
    Gathered,
    Job,
    broken_among,
    compute_together,
    figures_of,
    gathered,
    ground_of,
    usable,
)

# Of a method's scores, what depends on the other methods.
_OF_COMPANY = ("probability_best", "expected_rank", "rank_probabilities")
# Of an evaluation, what does not.
_OF_PAIR = (
    "annotations", "targets", "samples", "seed", "tolerance", "diagonal", "norms", "units", "baseline", "margin",
    "sampled_targets", "candidate_weights", "region", "known", "missed", "level", "target_set",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class PanelPair:
    """A pair beside its references: what it says itself, the model's answers, and the figures of methods by name.

    ``model`` is empty where it was kept already.
    """

    ground: Ground
    methods: dict[str, Figures] = field(default_factory=dict)
    model: dict[str, Floats] = field(default_factory=dict)

    def outcome(self, pair: str, names: Sequence[str]) -> PairOutcome:
        """Return the outcome of the pair for some methods, in order."""
        found = joined(pair, self.ground, {name: self.methods[name] for name in names})
        seen = all(one["vetted"] for one in found.evaluation["transforms"].values())
        return replace(found, evaluation={**found.evaluation, "assumptions": [] if seen else [UNSEEN]})


def compute_pair(job: Job) -> PairOutcome | PanelPair:
    """Evaluate one pair: the wanted methods beside its references, or all methods together where there are none."""
    model = None if job.kept is None else pair_store.load_model(job.kept)
    ground = None if job.kept is None or model is None else pair_store.load_ground(job.kept)
    known = model if model is not None and ground is not None else {}
    with gathered(job, known) as given:
        if given.compared.panel and given.centre != "prior":
            found = _beside_references(job, given, known, ground)
            if found is not None:
                return found
        if job.wanted is None:
            return compute_together(job, given)
    return compute_pair(replace(job, wanted=None, kept=None))


def _beside_references(job: Job, given: Gathered, model: dict[str, Floats], ground: Ground | None) -> PanelPair | None:
    """Evaluate methods beside the panel; one that cannot be evaluated is missing. None if the panel says nothing."""
    always = {BASELINE, *given.compared.panel}
    try:
        found = _evaluated(job, given, model, ground)
    except Exception:
        broken = broken_among(
            lambda names: _evaluated(job, given.of({*names, *always}, {}), model, ground),
            set(given.compared.transforms) - always,
        )
        if not broken:
            raise
        left = [name for name in given.compared.transforms if name not in broken]
        found = _evaluated(job, given.of(left, broken), model, ground)
    if found is None:
        return None
    return replace(found, model={}) if ground is not None else found


@one_blas_thread()
def _evaluated(job: Job, given: Gathered, model: dict[str, Floats], ground: Ground | None) -> PanelPair | None:
    compared, missing = usable(job, given)
    truth = judge_of(compared, lambda evidence: KeptFit.remembering(evidence, model))
    if not (isinstance(truth, Judge) and truth.panel):
        return None
    opened = compared.opened()
    # Scores without flagged annotations are of the whole company; here the flags themselves are enough.
    plain = replace(truth, flags=tuple(flag for flag in truth.flags if flag.row is None))
    always = [BASELINE, *opened.panel]
    wanted = [one.name for one in job.methods if job.wanted is None or one.name in job.wanted]
    figures: dict[str, Figures] = {}
    if ground is None or set(wanted) & set(always):
        panel = scored(plain, opened.beside_panel(always), _how(job, opened))
        if ground is None:
            ground = ground_of(job, given, opened, panel, _about_pair(job, opened, truth, panel), _trusted(opened))
        names = [name for name in wanted if name in always]
        found = figures_of(job, given, opened, panel, names, missing, ground)
        figures |= _told(found, panel, opened)
    rest = [name for name in wanted if name in opened.transforms and name not in always]
    result = scored(plain, opened.beside_panel(rest), _how(job, opened)) if rest else None
    left = [name for name in wanted if name in rest or name in missing]
    if left:
        found = figures_of(job, given, opened, result, left, missing, ground)
        figures |= found if result is None else _told(found, result, opened)
    return PanelPair(ground, figures, model)


def _how(job: Job, compared: Comparison) -> Scoring:
    grid, settings = compared.scene.grid, job.study.settings
    return Scoring(
        samples=settings.samples,
        seed=settings.seed,
        tolerance=settings.tolerance,
        diagonal=None if grid is None else grid.diagonal,
        margin=0.0 if grid is None else MARGIN_PX * grid.pixel,
        further=0,
    )


def _trusted(compared: Comparison) -> tuple[str, str]:
    """Return the verdict and sentence of the calibration."""
    found = diagnose(compared.posterior)
    return found.verdict, found.sentence


def _about_pair(job: Job, compared: Comparison, truth: Judge, result: Evaluation) -> dict[str, Any]:
    """Return what an evaluation says of the pair, and of transforms that are no methods of the study."""
    every, names = result.to_dict(), {one.name for one in job.study.methods}
    flags = (*truth.flags, *(flag for flag in result.flags if flag not in truth.flags))
    others = [name for name in result.scores if name not in names]
    return {
        **{key: every[key] for key in _OF_PAIR if key in every},
        "panel": list(compared.panel),
        "flags": [one.to_dict() for one in flags if one.transform in (None, *others) and one.code != EXCLUDED],
        "transforms": {name: _own(result, name) for name in others},
        "read_as": {name: compared.transforms[name].description.to_dict() for name in others},
    }


def _told(figures: Mapping[str, Figures], result: Evaluation, compared: Comparison) -> dict[str, Figures]:
    """Add to the figures of methods what an evaluation says of each."""
    found = {}
    for name, one in figures.items():
        if one.missing is None:
            about = {
                "transforms": _own(result, name),
                "read_as": compared.transforms[name].description.to_dict(),
                "flags": [flag.to_dict() for flag in result.flags if flag.transform == name],
            }
            found[name] = replace(one, about=about)
        else:
            found[name] = one
    return found


def _own(result: Evaluation, name: str) -> dict[str, Any]:
    """Return the scores of a method without what depends on the others."""
    found = {key: value for key, value in result.scores[name].to_dict().items() if key not in _OF_COMPANY}
    # Of one column: the sum over the rows of a table depends on how many columns it has, in its last bits.
    squared = float(np.mean(np.square(np.array(result.draws["rms"][:, list(result.scores).index(name)]))))
    return {**found, "expected_squared_error": squared, "root_expected_squared_error": float(np.sqrt(squared))}
