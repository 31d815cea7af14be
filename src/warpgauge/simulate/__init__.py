"""Simulation as in the paper: known deformations of images, and annotators who know the truth."""

from warpgauge.simulate.annotators import (
    Annotator,
    Answer,
    EllipseAnnotator,
    ExpertAnnotator,
    ExpertPanel,
    IsotropicAnnotator,
)
from warpgauge.simulate.deformation import deformation_of, random_deformation, random_velocity
from warpgauge.simulate.images import warp_image

__all__ = [
    "Annotator",
    "Answer",
    "EllipseAnnotator",
    "ExpertAnnotator",
    "ExpertPanel",
    "IsotropicAnnotator",
    "deformation_of",
    "random_deformation",
    "random_velocity",
    "warp_image",
]
