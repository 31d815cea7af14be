"""Evaluation of transforms: scores, intervals, ranks, verdicts, audits and classical metrics."""

from warpgauge.core.error_scores import norm_name
from warpgauge.evaluation.audit import AuditData, AuditVerdict, project_audit
from warpgauge.evaluation.calibration import Trust
from warpgauge.evaluation.certificate import AuditWatch, certify_project, check_certificate, read_certificate
from warpgauge.evaluation.comparison import Comparison, Scene
from warpgauge.evaluation.gate import gate_project
from warpgauge.evaluation.judge import Judge, judge
from warpgauge.evaluation.leaks import leak_tests
from warpgauge.evaluation.project_evaluation import (
    evaluate_comparison,
    evaluate_project,
    project_comparison,
    project_posterior,
)
from warpgauge.evaluation.result import Evaluation, Interval, TransformScores
from warpgauge.evaluation.scores import evaluate
from warpgauge.evaluation.verdict import Verdict

__all__ = [
    "AuditData",
    "AuditVerdict",
    "AuditWatch",
    "Comparison",
    "Evaluation",
    "Interval",
    "Judge",
    "Scene",
    "TransformScores",
    "Trust",
    "Verdict",
    "certify_project",
    "check_certificate",
    "evaluate",
    "evaluate_comparison",
    "evaluate_project",
    "gate_project",
    "judge",
    "leak_tests",
    "norm_name",
    "project_audit",
    "project_comparison",
    "project_posterior",
    "read_certificate",
]
