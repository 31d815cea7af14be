"""Studies: comparison of many methods over many pairs, with uncertainty."""

from __future__ import annotations

from warpgauge.study.challenges import NewStudy, new_study, official_figures
from warpgauge.study.container import write_container
from warpgauge.study.description import (
    MethodSpec,
    ModelSettings,
    PairSpec,
    Study,
    StudySettings,
    read_study,
)
from warpgauge.study.pairs import PairOutcome
from warpgauge.study.result import MethodResult, StudyResult, summarise
from warpgauge.study.runner import Progress, gate_study, run_study
from warpgauge.study.statistics import Bootstrap, PairedTest, hierarchical_bootstrap, holm, paired_tests
from warpgauge.study.submission import evaluate_submission

__all__ = [
    "Bootstrap",
    "MethodResult",
    "MethodSpec",
    "ModelSettings",
    "NewStudy",
    "PairOutcome",
    "PairSpec",
    "PairedTest",
    "Progress",
    "Study",
    "StudyResult",
    "StudySettings",
    "evaluate_submission",
    "gate_study",
    "hierarchical_bootstrap",
    "holm",
    "new_study",
    "official_figures",
    "paired_tests",
    "read_study",
    "run_study",
    "summarise",
    "write_container",
]
