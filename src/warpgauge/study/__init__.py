"""Studies: comparison of many methods over many pairs, with uncertainty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpgauge.study.challenge_figures import official_figures
from warpgauge.study.challenge_files import NewStudy, new_study
from warpgauge.study.description import (
    MethodSpec,
    ModelSettings,
    PairSpec,
    Study,
    StudySettings,
    SubmissionsSpec,
    read_study,
)
from warpgauge.study.outcome import PairOutcome
from warpgauge.study.result import MethodResult, StudyResult, summarise
from warpgauge.study.runner import Progress, results_folder, run_study
from warpgauge.study.statistics import Bootstrap, PairedTest, hierarchical_bootstrap, holm, paired_tests

if TYPE_CHECKING:
    from warpgauge.study.submission import evaluate_submission
    from warpgauge.study.submission_check import SubmissionCheck, check_submission

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
    "SubmissionCheck",
    "SubmissionsSpec",
    "check_submission",
    "evaluate_submission",
    "hierarchical_bootstrap",
    "holm",
    "new_study",
    "official_figures",
    "paired_tests",
    "read_study",
    "results_folder",
    "run_study",
    "summarise",
]


def __getattr__(name: str) -> Any:
    """Load what evaluation containers run only on demand: `python -m` warns of a module that is loaded before."""
    if name == "evaluate_submission":
        from warpgauge.study.submission import evaluate_submission

        return evaluate_submission
    if name in ("SubmissionCheck", "check_submission"):
        from warpgauge.study import submission_check

        return getattr(submission_check, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
