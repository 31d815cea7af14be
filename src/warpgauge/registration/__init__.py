"""Running real registrations, so that there is something to measure: each in a process of its own."""

from warpgauge.registration.runner import RegistrationResult, run_registrations
from warpgauge.registration.simpleitk import DEMO_SETTINGS, SimpleItkSetting

__all__ = ["DEMO_SETTINGS", "RegistrationResult", "SimpleItkSetting", "run_registrations"]
