"""Candidates and targets: salient points of an image to annotate, and points at which errors are measured.

`find_candidates` gives corners that a person can find again, `targets_from_domain`, `targets_from_mask`,
`targets_from_labels` and `targets_from_file` give the points at which the transformation matters. `find_foreground`
separates the tissue or body from glass, air and padding.
"""

from warpgauge.candidates.corners import Candidates, find_candidates
from warpgauge.candidates.foreground import Foreground, find_foreground, foreground_from_mask
from warpgauge.candidates.regions import LabelRegions
from warpgauge.candidates.structure import to_gray
from warpgauge.candidates.targets import (
    targets_from_domain,
    targets_from_file,
    targets_from_labels,
    targets_from_mask,
)

__all__ = [
    "Candidates",
    "Foreground",
    "LabelRegions",
    "find_candidates",
    "find_foreground",
    "foreground_from_mask",
    "targets_from_domain",
    "targets_from_file",
    "targets_from_labels",
    "targets_from_mask",
    "to_gray",
]
