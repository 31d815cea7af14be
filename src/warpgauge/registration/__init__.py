"""Running real registrations whose results can be evaluated, each in a separate process."""

from warpgauge.registration.patch_match import PatchMatch, gray_sampler, local_map, match_patch
from warpgauge.registration.pipeline import DEFAULT_SETTINGS, PipelineSetting, reduced_gray, write_input
from warpgauge.registration.programs import (
    DEMO_SETTINGS,
    ElastixSetting,
    RegistrationResult,
    RegistrationSetting,
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
