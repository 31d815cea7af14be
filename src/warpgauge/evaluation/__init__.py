"""Evaluation of transforms: scores, intervals, ranks, verdicts, audits and classical metrics."""

from __future__ import annotations

from warpgauge.core.error_scores import RankDistribution, norm_name
from warpgauge.evaluation.audit import AuditData, AuditVerdict, audit_data, audit_verdict, project_audit
from warpgauge.evaluation.calibration import Trust
from warpgauge.evaluation.certificate import (
    AuditWatch,
    Certificate,
    certify_project,
    check_certificate,
    read_certificate,
)
from warpgauge.evaluation.comparison import Comparison, Scene, Values, known_targets
from warpgauge.evaluation.flags import Flag
from warpgauge.evaluation.gate import GateResult, gate_audit, gate_project
from warpgauge.evaluation.judge import Judge, judge
from warpgauge.evaluation.leaks import LeakTest, leak_tests
from warpgauge.evaluation.project_evaluation import (
    evaluate_comparison,
    evaluate_project,
    project_comparison,
    project_posterior,
)
from warpgauge.evaluation.regularity import Regularity, default_step, jacobian_determinants, regularity
from warpgauge.evaluation.result import Evaluation, Interval, TransformScores, summaries
from warpgauge.evaluation.scores import evaluate, tied_groups
from warpgauge.evaluation.verdict import Outcome, Verdict

__all__ = [
    "AuditData",
    "AuditVerdict",
    "AuditWatch",
    "Certificate",
    "Comparison",
    "Evaluation",
    "Flag",
    "GateResult",
    "Interval",
    "Judge",
    "LeakTest",
    "Outcome",
    "RankDistribution",
    "Regularity",
    "Scene",
    "TransformScores",
    "Trust",
    "Values",
    "Verdict",
    "audit_data",
    "audit_verdict",
    "certify_project",
    "check_certificate",
    "default_step",
    "evaluate",
    "evaluate_comparison",
    "evaluate_project",
    "gate_audit",
    "gate_project",
    "jacobian_determinants",
    "judge",
    "known_targets",
    "leak_tests",
    "norm_name",
    "project_audit",
    "project_comparison",
    "project_posterior",
    "read_certificate",
    "regularity",
    "summaries",
    "tied_groups",
]
