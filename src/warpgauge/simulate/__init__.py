"""Simulation as in the paper: known deformations of images, and annotators who know the truth."""

from warpgauge.simulate.annotators import (
    Annotator,
    Answer,
    EllipseAnnotator,
    ExpertAnnotator,
    ExpertPanel,
    IsotropicAnnotator,
    SimulatedAnswers,
)
from warpgauge.simulate.deformation import deformation_of, random_deformation
from warpgauge.simulate.images import warp_image
from warpgauge.simulate.velocity import VelocityField, random_velocity

__all__ = [
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
