"""Evaluation: candidate transforms in; scores, intervals, ranks, diagnostics and classical metrics out."""

from __future__ import annotations

from warpgauge.core.scoring import RankDistribution
from warpgauge.evaluation.further import FurtherAnnotations, further_annotations
from warpgauge.evaluation.jacobian import Regularity, default_step, jacobian_determinants, regularity
from warpgauge.evaluation.result import Evaluation, TransformScores, norm_name
from warpgauge.evaluation.scores import evaluate
from warpgauge.evaluation.statistics import Interval, summaries
from warpgauge.evaluation.ties import tied_groups

__all__ = [
    "Evaluation",
    "FurtherAnnotations",
    "Interval",
    "RankDistribution",
    "Regularity",
    "TransformScores",
    "default_step",
    "evaluate",
    "further_annotations",
    "jacobian_determinants",
    "norm_name",
    "regularity",
    "summaries",
    "tied_groups",
]
