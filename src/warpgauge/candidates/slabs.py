"""Masks and labels that may not fit in memory, a few planes at a time; they have ``shape`` and plain slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_SLAB_ELEMENTS = 2**23


def slabs(shape: tuple[int, ...], multiple: int = 1) -> Iterator[tuple[int, int]]:
    """Yield bounds along the first axis that hold a few million elements each, and begin at a multiple of a number."""
    plane = int(np.prod(shape[1:], dtype=np.int64))
    step = multiple * max(1, _SLAB_ELEMENTS // (multiple * plane))
    for low in range(0, shape[0], step):
        yield low, min(low + step, shape[0])


def count_nonzero(mask: Any) -> int:
    """Count the elements of a mask that are not zero."""
    return sum(int(np.count_nonzero(np.asarray(mask[low:high]))) for low, high in slabs(tuple(mask.shape)))
