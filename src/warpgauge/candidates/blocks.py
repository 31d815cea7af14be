"""Overlapping blocks of a large array, each large enough that its core is the same as for the whole array."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpgauge.errors import InvalidInputError

_SMALLEST_CORE = 4


class Block(NamedTuple):
    """A part of an array: what to read, which part of that is the core, and where the core begins in the array."""

    read: tuple[slice, ...]
    core: tuple[slice, ...]
    start: tuple[int, ...]


def core_shape(shape: tuple[int, ...], halo: tuple[int, ...], elements: int) -> tuple[int, ...]:
    """Choose cores so that no block with its halo has more than ``elements`` elements.

    The longest axis is halved until the block fits, so the result depends on nothing but the arguments.
    """
    core = list(shape)

    def size() -> int:
        return int(np.prod([min(c + 2 * h, n) for c, h, n in zip(core, halo, shape, strict=True)], dtype=np.int64))

    while size() > elements:
        axis = int(np.argmax(core))
        if core[axis] <= _SMALLEST_CORE:
            raise InvalidInputError(
                f"A block of the image with its margin has {size()} elements, more than the {elements} that fit into "
                f"the given memory; allow more memory or a smaller sigma."
            )
        core[axis] = -(-core[axis] // 2)
    return tuple(core)


def blocks(shape: tuple[int, ...], halo: tuple[int, ...], core: tuple[int, ...]) -> Iterator[Block]:
    """Yield the blocks in array order."""
    for start in itertools.product(*(range(0, n, c) for n, c in zip(shape, core, strict=True))):
        read, inner = [], []
        for begin, n, c, h in zip(start, shape, core, halo, strict=True):
            low, end = max(0, begin - h), min(n, begin + c)
            read.append(slice(low, min(n, end + h)))
            inner.append(slice(begin - low, end - low))
        yield Block(tuple(read), tuple(inner), start)


def count_blocks(shape: tuple[int, ...], core: tuple[int, ...]) -> int:
    """Count the blocks."""
    return int(np.prod([-(-n // c) for n, c in zip(shape, core, strict=True)]))
