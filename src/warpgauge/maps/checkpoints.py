"""Checkpoints: maps that are filled block by block on disk and continued after an interruption.

A checkpoint is an ``.npy`` file and a note of what is done (the same name with ``.json`` behind it). The note carries a
key, a hash of everything the values depend on. A note with another key belongs to another map and is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.files import replace_file
from warpgauge.io.transforms.base import Transform

_SCHEMA = 1
_open_memmap: Any = np.lib.format.open_memmap  # numpy gives it no types
_PROBES = 64  # points at which a transform's values enter the key: two transforms may share a description


def map_key(kind: str, posterior: Posterior, grid: Grid, transform: Transform | None = None, **settings: Any) -> str:
    """Hash of what a map depends on: posterior, grid, the transform's description and values, and settings.

    Of the transform, its description and its values at some points of the grid enter.
    """
    probes = grid.index_to_world(_spread_indices(grid))
    prior, given = posterior.prior, posterior.annotations
    plain = {
        "schema": _SCHEMA,
        "kind": kind,
        "settings": settings,
        **prior.kernel.identity(np.concatenate([given.fixed_points, probes])),
        "prior": [prior.mean if isinstance(prior.mean, str) else "callable", prior.noise, prior.linear_sd],
        "center": None if prior.center is None else np.asarray(prior.center, dtype=np.float64).tolist(),
        "translation_sd": prior.translation_sd,
        "tails": prior.tails,
        "scale": posterior.scale,
        "size": list(grid.size),
        "affine": grid.affine.tolist(),
        "units": grid.units,
        "description": None if transform is None else asdict(transform.description),
    }
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode())
    for array in (given.fixed_points, given.moving_points, given.covariances, posterior.mean(probes)):
        digest.update(np.ascontiguousarray(array).tobytes())
    if transform is not None:
        digest.update(np.ascontiguousarray(transform.map(probes)).tobytes())
    return f"sha256:{digest.hexdigest()}"


def _spread_indices(grid: Grid) -> Floats:
    """Return some indices all over the grid, always the same ones."""
    rng = np.random.default_rng(0)
    return np.asarray(rng.uniform(0, 1, (_PROBES, grid.d)) * (np.asarray(grid.size) - 1))


class Checkpoint:
    """The array of a map on disk, float64, and which of its blocks are finished.

    ``path`` is the ``.npy`` file, next to which the note lies; ``key`` comes from `map_key`.
    """

    def __init__(self, path: str | os.PathLike[str], shape: tuple[int, ...], key: str) -> None:
        self.path = Path(path)
        if self.path.suffix != ".npy":
            raise InvalidInputError(f"A resumable map is kept in a file that ends in .npy, not {self.path.name!r}.")
        if not self.path.parent.is_dir():
            raise InvalidInputError(f"There is no folder {str(self.path.parent)!r} to keep the map in; make it first.")
        self.note = self.path.with_name(self.path.name + ".json")
        self._key = key
        self.finished = self._finished_blocks() if self.note.is_file() else set()
        try:
            self.array = self._opened(shape)
        except OSError as error:
            raise InvalidInputError(f"{self.path.name!r} cannot be written: {error.strerror or error}.") from error

    def _finished_blocks(self) -> set[int]:
        try:
            note = json.loads(self.note.read_text("utf-8"))
            key, blocks = note["key"], {int(block) for block in note["finished"]}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FileFormatError(
                f"{self.note.name!r} is not the note of a resumable map; delete it and {self.path.name!r} to start "
                f"anew."
            ) from error
        if key != self._key:
            raise InvalidInputError(
                f"{self.path.name!r} belongs to a map of another posterior, grid, transform or setting; delete it and "
                f"{self.note.name!r} to start again, or give another file."
            )
        return blocks

    def _opened(self, shape: tuple[int, ...]) -> Any:
        if self.finished and self.path.is_file():
            try:
                array = _open_memmap(self.path, mode="r+")
            except ValueError as error:
                raise FileFormatError(
                    f"{self.path.name!r} is damaged; delete it and {self.note.name!r} to start again."
                ) from error
            if array.shape != shape or array.dtype != np.float64:
                raise FileFormatError(
                    f"{self.path.name!r} has shape {array.shape} instead of {shape}; delete it to start again."
                )
            return array
        self.finished = set()
        return _open_memmap(self.path, mode="w+", dtype=np.float64, shape=shape)

    def finish(self, block: int) -> None:
        """Note that a block is on disk: first its numbers, then the note, so that the note never promises too much."""
        self.array.flush()
        self.finished.add(block)
        replace_file(self.note, json.dumps({"key": self._key, "finished": sorted(self.finished)}).encode())
