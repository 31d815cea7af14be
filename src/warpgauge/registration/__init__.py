"""Running real registrations whose results can be evaluated, each in a separate process."""

from warpgauge.registration.elastix import ElastixSetting, paper_grid
from warpgauge.registration.pipeline import DEFAULT_SETTINGS, PipelineSetting, reduced_gray, write_input
from warpgauge.registration.rough_alignment import Likeness
from warpgauge.registration.runner import RegistrationResult, run_registrations
from warpgauge.registration.simpleitk import DEMO_SETTINGS, SimpleItkSetting

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
