"""Simulation as in the paper: known deformations of images, and annotators who know the truth."""

from __future__ import annotations

from warpgauge.simulate.annotators import (
    CIMA_LOG_MEAN,
    CIMA_LOG_SD,
    EllipseAnnotator,
    ExpertAnnotator,
    ExpertPanel,
    IsotropicAnnotator,
)
from warpgauge.simulate.answers import SKIP_REASONS, Annotator, Answer, SimulatedAnswers
from warpgauge.simulate.deformation import deformation_of, random_deformation
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
    "IsotropicAnnotator",
    "SimulatedAnswers",
    "VelocityField",
    "deformation_of",
    "random_deformation",
    "random_velocity",
    "warp_image",
]
