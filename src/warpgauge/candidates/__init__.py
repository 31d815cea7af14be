"""Where to ask and where to measure: salient points of an image, and sets of target points.

`find_candidates` gives corners that a person can find again, `targets_from_domain`, `targets_from_mask`,
`targets_from_labels` and `targets_from_file` give the points at which the transformation matters; `structure_tensors`
says how well a place is fixed in each direction.
"""

from warpgauge.candidates.corners import Candidates, find_candidates
from warpgauge.candidates.gray import to_gray
from warpgauge.candidates.targets import (
    targets_from_domain,
    targets_from_file,
    targets_from_labels,
    targets_from_mask,
)
from warpgauge.candidates.tensors import structure_tensors

__all__ = [
    "Candidates",
    "find_candidates",
    "structure_tensors",
    "targets_from_domain",
    "targets_from_file",
    "targets_from_labels",
    "targets_from_mask",
    "to_gray",
]
