"""Simulation as in the paper: known deformations of images, and annotators who know the truth."""

from __future__ import annotations

from warpgauge.simulate.annotators import (
    CIMA_LOG_MEAN,
    CIMA_LOG_SD,
    EllipseAnnotator,
    ExpertAnnotator,
    ExpertPanel,
    GrossErrorAnnotator,
    IsotropicAnnotator,
    SkippingAnnotator,
)
from warpgauge.simulate.answers import SKIP_REASONS, Annotator, Answer, SimulatedAnswers
from warpgauge.simulate.deformation import InverseDeformation, SimulatedDeformation, random_deformation
from warpgauge.simulate.sliding import SlidingDeformation, random_sliding
from warpgauge.simulate.velocity import VelocityField, random_velocity
from warpgauge.simulate.warped_images import warp_image

__all__ = [
    "CIMA_LOG_MEAN",
    "CIMA_LOG_SD",
    "SKIP_REASONS",
    "Annotator",
    "Answer",
    "EllipseAnnotator",
    "ExpertAnnotator",
    "ExpertPanel",
    "GrossErrorAnnotator",
    "InverseDeformation",
    "IsotropicAnnotator",
    "SimulatedAnswers",
    "SimulatedDeformation",
    "SkippingAnnotator",
    "SlidingDeformation",
    "VelocityField",
    "random_deformation",
    "random_sliding",
    "random_velocity",
    "warp_image",
]
