"""Running real registrations, so that there is something to measure: each in a process of its own."""

from warpgauge.registration.elastix import ElastixSetting, paper_grid
from warpgauge.registration.inputs import write_input
from warpgauge.registration.runner import RegistrationResult, run_registrations
from warpgauge.registration.simpleitk import DEMO_SETTINGS, SimpleItkSetting

__all__ = [
    "DEMO_SETTINGS",
    "ElastixSetting",
    "RegistrationResult",
    "SimpleItkSetting",
    "paper_grid",
    "run_registrations",
    "write_input",
]
