"""Colour scales: perceptually uniform, and distinct with every kind of colour vision.

The scales themselves are matplotlib's (extra ``report``), imported when a colour is first asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpgauge.errors import InvalidInputError, MissingExtraError
from warpgauge.extras import install_advice

# One scale for each kind of map, so that two kinds are never taken for one another.
ERROR_COLOURS = "plasma"  # none of its colours is grey, so that it shows on any grey image
ENTROPY_COLOURS = "viridis"
PROBABILITY_COLOURS = "magma"
SCALES = (ERROR_COLOURS, ENTROPY_COLOURS, PROBABILITY_COLOURS)

# Okabe and Ito's colours, for methods and marks.
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A7F00")


def matplotlib() -> Any:
    """Import matplotlib's object-oriented part, or say which extra brings it."""
    try:
        import matplotlib as library
        import matplotlib.backends.backend_agg
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError(
            f"Pictures need the library matplotlib, which is not installed; {install_advice('report')}."
        ) from error
    return library


def coloured(values: ArrayLike, low: float, high: float, colours: str) -> NDArray[np.uint8]:
    """Red, green and blue of values between ``low`` and ``high``, (*shape, 3) of 0 to 255; beyond them the end's."""
    if colours not in SCALES:
        raise InvalidInputError(f"The colour scale must be one of {', '.join(SCALES)}, got {colours!r}.")
    if not low < high:
        raise InvalidInputError(f"A colour scale needs two ascending ends, got {low!r} and {high!r}.")
    scale = matplotlib().colormaps[colours]
    share = (np.asarray(values, dtype=np.float64) - low) / (high - low)
    return np.asarray(scale(share, bytes=True)[..., :3])
