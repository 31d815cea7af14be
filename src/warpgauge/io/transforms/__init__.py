"""Transform files of registration programs, read as maps from fixed to moving points."""

from __future__ import annotations

from warpgauge.io.transforms.base import Description, FunctionTransform, Transform
from warpgauge.io.transforms.chain import Chain, InverseChain, ScaledTransform, SumTransform
from warpgauge.io.transforms.field import DisplacementField
from warpgauge.io.transforms.in_memory import as_transform
from warpgauge.io.transforms.inverse import NumericalInverse
from warpgauge.io.transforms.linear import AffineTransform
from warpgauge.io.transforms.mapped_points import MappedPoints
from warpgauge.io.transforms.reader import read_transform
from warpgauge.io.transforms.registry import FORMATS, detect_format
from warpgauge.io.transforms.splines import BSplineTransform, KernelSpline
from warpgauge.io.transforms.writer import write_transform

__all__ = [
    "FORMATS",
    "AffineTransform",
    "BSplineTransform",
    "Chain",
    "Description",
    "DisplacementField",
    "FunctionTransform",
    "InverseChain",
    "KernelSpline",
    "MappedPoints",
    "NumericalInverse",
    "ScaledTransform",
    "SumTransform",
    "Transform",
    "as_transform",
    "detect_format",
    "read_transform",
    "write_transform",
]
