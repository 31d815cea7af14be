"""Studies: comparison of many methods over many pairs, with uncertainty."""

from warpgauge.study.challenges import official_figures
from warpgauge.study.description import Method, Pair, Study, StudySettings, Submissions, read_study
from warpgauge.study.pairs import PairOutcome
from warpgauge.study.result import MethodResult, StudyResult, summarise
from warpgauge.study.runner import results_folder, run_study
from warpgauge.study.statistics import Bootstrap, PairedTest, hierarchical_bootstrap, holm, paired_tests
from warpgauge.study.submission import SubmissionCheck, check_submission, evaluate_submission
from warpgauge.study.templates import NewStudy, new_study

__all__ = [
    "Bootstrap",
    "Method",
    "MethodResult",
    "NewStudy",
    "Pair",
    "PairOutcome",
    "PairedTest",
    "Study",
    "StudyResult",
    "StudySettings",
    "SubmissionCheck",
    "Submissions",
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
