"""Evaluation: candidate transforms in; scores, intervals, ranks, diagnostics and classical metrics out."""

from __future__ import annotations

from warpgauge.core.scoring import RankDistribution
from warpgauge.evaluation.diagnostics import Diagnostics, Outlier, benjamini_hochberg, diagnose
from warpgauge.evaluation.further import FurtherAnnotations, further_annotations
from warpgauge.evaluation.jacobian import Regularity, default_step, jacobian_determinants, regularity
from warpgauge.evaluation.reliability import Trust, trust
from warpgauge.evaluation.residual import residual_posterior, residual_samples
from warpgauge.evaluation.result import Evaluation, TransformScores, norm_name
from warpgauge.evaluation.scores import evaluate
from warpgauge.evaluation.statistics import Interval, summaries
from warpgauge.evaluation.ties import tied_groups
from warpgauge.evaluation.variations import Sensitivity, Variation, sensitivity

__all__ = [
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
    "default_step",
    "diagnose",
    "evaluate",
    "further_annotations",
    "jacobian_determinants",
    "norm_name",
    "regularity",
    "residual_posterior",
    "residual_samples",
    "sensitivity",
    "summaries",
    "tied_groups",
    "trust",
]
