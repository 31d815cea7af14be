"""Rough alignment, and standard registrations to compare others with, each in a separate process."""

from warpgauge.registration.rough_alignment import Likeness
from warpgauge.registration.standard import (
    NAMES,
    PREFIX,
    RegistrationResult,
    reduced_gray,
    run_standard,
    write_reduced,
)

__all__ = ["NAMES", "PREFIX", "Likeness", "RegistrationResult", "reduced_gray", "run_standard", "write_reduced"]
