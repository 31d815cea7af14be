"""Studies: comparison of many methods over many pairs, with uncertainty."""

from __future__ import annotations

from warpgauge.study.bootstrap import Bootstrap, hierarchical_bootstrap
from warpgauge.study.comparisons import PairedTest, holm, paired_tests
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
from warpgauge.study.running import Progress, run_study

__all__ = [
    "Bootstrap",
    "MethodResult",
    "MethodSpec",
    "ModelSettings",
    "PairOutcome",
    "PairSpec",
    "PairedTest",
    "Progress",
    "Study",
    "StudyResult",
    "StudySettings",
    "hierarchical_bootstrap",
    "holm",
    "paired_tests",
    "read_study",
    "run_study",
    "summarise",
]
