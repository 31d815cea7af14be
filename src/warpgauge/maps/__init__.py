"""Dense maps over a grid, made block by block: memory is bounded by the block, whatever the grid."""

from warpgauge.core.tails import adjusted_significance
from warpgauge.maps.blending import blended_map, entropy_limits, known_share
from warpgauge.maps.dense import (
    entropy_map,
    error_map,
    exceedance_map,
    masked,
    mean_map,
    significance_map,
    standard_deviation_map,
)
from warpgauge.maps.exceedance import exceedance_probability
from warpgauge.maps.map_files import write_map
from warpgauge.maps.pictures import (
    OKABE_ITO,
    Picture,
    displayable,
    map_picture,
    picture_bytes,
    save_picture,
)
from warpgauge.maps.planes import Plane, orthogonal_planes, picture_grid, region_labels
from warpgauge.maps.warping import warped_image

__all__ = [
    "OKABE_ITO",
    "Picture",
    "Plane",
    "adjusted_significance",
    "blended_map",
    "displayable",
    "entropy_limits",
    "entropy_map",
    "error_map",
    "exceedance_map",
    "exceedance_probability",
    "known_share",
    "map_picture",
    "masked",
    "mean_map",
    "orthogonal_planes",
    "picture_bytes",
    "picture_grid",
    "region_labels",
    "save_picture",
    "significance_map",
    "standard_deviation_map",
    "warped_image",
    "write_map",
]
