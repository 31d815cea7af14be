"""Running real registrations whose results can be evaluated, each in a separate process."""

from warpgauge.registration.elastix import ElastixSetting, paper_grid
from warpgauge.registration.patch_match import PatchMatch, gray_sampler, local_map, match_patch
from warpgauge.registration.pipeline import DEFAULT_SETTINGS, PipelineSetting, reduced_gray, write_input
from warpgauge.registration.programs import RegistrationResult, RegistrationSetting, run_registrations
from warpgauge.registration.rough_alignment import Likeness
from warpgauge.registration.simpleitk import DEMO_SETTINGS, SimpleItkSetting

__all__ = [
    "DEFAULT_SETTINGS",
    "DEMO_SETTINGS",
    "ElastixSetting",
    "Likeness",
    "PatchMatch",
    "PipelineSetting",
    "RegistrationResult",
    "RegistrationSetting",
    "SimpleItkSetting",
    "gray_sampler",
    "local_map",
    "match_patch",
    "paper_grid",
    "reduced_gray",
    "run_registrations",
    "write_input",
]
