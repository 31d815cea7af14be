"""Transform files of registration programs, read as maps from fixed to moving points."""

from __future__ import annotations

from warpgauge.io.transforms.formats import FORMATS, NOT_READ, TABLE, companion_files, detect_format
from warpgauge.io.transforms.inverse import NumericalInverse
from warpgauge.io.transforms.lattice import BSplineTransform, DisplacementField, LandmarkSpline
from warpgauge.io.transforms.mapped_points import MappedPoints
from warpgauge.io.transforms.meaning import AmbiguousFieldError
from warpgauge.io.transforms.objects import Convention, as_transform, can_map
from warpgauge.io.transforms.reader import read_transform
from warpgauge.io.transforms.transform import AffineTransform, Chain, Description, FunctionTransform, Transform
from warpgauge.io.transforms.writer import write_transform

__all__ = [
    "FORMATS",
    "NOT_READ",
    "TABLE",
    "AffineTransform",
    "AmbiguousFieldError",
    "BSplineTransform",
    "Chain",
    "Convention",
    "Description",
    "DisplacementField",
    "FunctionTransform",
    "LandmarkSpline",
    "MappedPoints",
    "NumericalInverse",
    "Transform",
    "as_transform",
    "can_map",
    "companion_files",
    "detect_format",
    "read_transform",
    "write_transform",
]
