"""Evaluation of transforms: scores, intervals, ranks, diagnostics and classical metrics."""

from __future__ import annotations

from warpgauge.core.annotation_budget import FurtherAnnotations, further_annotations, further_by_growth
from warpgauge.core.error_scores import Flag, Judgement, RankDistribution, Truth, norm_name
from warpgauge.core.sensitivity import Sensitivity, Variation, sensitivity
from warpgauge.evaluation.assessment import Assessment, assess, evaluate_project, project_posterior
from warpgauge.evaluation.audit import AuditData, audit_data
from warpgauge.evaluation.certificate import (
    Certificate,
    certify_project,
    check_certificate,
    project_certificate,
    read_certificate,
)
from warpgauge.evaluation.design_verdict import AuditWatch, DesignVerdict, design_verdict
from warpgauge.evaluation.gate import GateResult, gate_audit, gate_project
from warpgauge.evaluation.judge import Judge, judge
from warpgauge.evaluation.result import Evaluation, Interval, TransformScores, summaries
from warpgauge.evaluation.scores import evaluate, tied_groups
from warpgauge.evaluation.surrogate_metrics import Regularity, default_step, jacobian_determinants, regularity
from warpgauge.evaluation.trust import Diagnostics, Outlier, Trust, diagnose, trust
from warpgauge.evaluation.verdict import Outcome, Region, Verdict

__all__ = [
    "Assessment",
    "AuditData",
    "AuditWatch",
    "Certificate",
    "DesignVerdict",
    "Diagnostics",
    "Evaluation",
    "Flag",
    "FurtherAnnotations",
    "GateResult",
    "Interval",
    "Judge",
    "Judgement",
    "Outcome",
    "Outlier",
    "RankDistribution",
    "Region",
    "Regularity",
    "Sensitivity",
    "TransformScores",
    "Trust",
    "Truth",
    "Variation",
    "Verdict",
    "assess",
    "audit_data",
    "certify_project",
    "check_certificate",
    "default_step",
    "design_verdict",
    "diagnose",
    "evaluate",
    "evaluate_project",
    "further_annotations",
    "further_by_growth",
    "gate_audit",
    "gate_project",
    "jacobian_determinants",
    "judge",
    "norm_name",
    "project_certificate",
    "project_posterior",
    "read_certificate",
    "regularity",
    "sensitivity",
    "summaries",
    "tied_groups",
    "trust",
]
