"""Evaluation: candidate transforms in; scores, intervals, ranks, diagnostics and classical metrics out."""

from __future__ import annotations

from warpgauge.core.scoring import RankDistribution
from warpgauge.evaluation.averaging import CandidateAverage, candidate_average, reference
from warpgauge.evaluation.diagnostics import Diagnostics, Outlier, benjamini_hochberg, diagnose
from warpgauge.evaluation.further import FurtherAnnotations, further_annotations, further_by_growth
from warpgauge.evaluation.jacobian import Regularity, default_step, jacobian_determinants, regularity
from warpgauge.evaluation.reliability import Trust, trust
from warpgauge.evaluation.result import Evaluation, TransformScores
from warpgauge.evaluation.scores import evaluate
from warpgauge.evaluation.statistics import Interval, norm_name, summaries
from warpgauge.evaluation.ties import tied_groups
from warpgauge.evaluation.variations import Sensitivity, Variation, sensitivity

__all__ = [
    "CandidateAverage",
    "Diagnostics",
    "Evaluation",
    "FurtherAnnotations",
    "Interval",
    "Outlier",
    "RankDistribution",
    "Regularity",
    "Sensitivity",
    "TransformScores",
    "Trust",
    "Variation",
    "benjamini_hochberg",
    "candidate_average",
    "default_step",
    "diagnose",
    "evaluate",
    "further_annotations",
    "further_by_growth",
    "jacobian_determinants",
    "norm_name",
    "reference",
    "regularity",
    "sensitivity",
    "summaries",
    "tied_groups",
    "trust",
]
