"""Running real registrations whose results can be evaluated, each in a separate process."""

from warpgauge.registration.pipeline import DEFAULT_SETTINGS, PipelineSetting, reduced_gray, write_input
from warpgauge.registration.programs import (
    DEMO_SETTINGS,
    ElastixSetting,
    RegistrationResult,
    SimpleItkSetting,
    paper_grid,
    run_registrations,
)
from warpgauge.registration.rough_alignment import Likeness

__all__ = [
    "DEFAULT_SETTINGS",
    "DEMO_SETTINGS",
    "ElastixSetting",
    "Likeness",
    "PipelineSetting",
    "RegistrationResult",
    "SimpleItkSetting",
    "paper_grid",
    "reduced_gray",
    "run_registrations",
    "write_input",
]
