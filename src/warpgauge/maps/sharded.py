"""Maps of any size, straight to a sharded, multiscale OME-Zarr: one job fills one shard.

The full resolution is evaluated, coarser levels are means of two elements along each axis of the next finer one. A
shard is written whole or not at all, and its bytes depend on nothing but the map, so that a run that was interrupted
goes on by what is there, and a cluster writes the same bytes as one process.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.compute import Executor, InProcess, report_progress
from warpgauge.core.arrays import Floats
from warpgauge.core.process import Posterior
from warpgauge.errors import FileFormatError, InvalidInputError, say
from warpgauge.geometry import Grid
from warpgauge.io.files import PathLike, check_folder, one_line, require
from warpgauge.io.images.pyramid import halve
from warpgauge.io.ome_zarr_levels import Level, ShardIndex, create_group, levels_of, open_level
from warpgauge.io.stores import Place, RemotePath, place_of, zarr_store
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.ome_field import NOTE, VECTORS
from warpgauge.io.zarr_arrays import zarr_attributes
from warpgauge.maps.checkpoints import map_key
from warpgauge.maps.dense import Progress, mapping, value_function

_TYPE = np.float32
_MOST_SHARDS = 2**26  # listed at most when a map is continued; all of them are its own


@dataclass(frozen=True)
class ShardedMap:
    """A map to be written: everything that a worker needs, small enough to be sent once.

    Parameters
    ----------
    kind : {"mean", "entropy", "sd", "error", "exceedance", "p"}
    posterior : Posterior
    grid : Grid
        Of the full resolution.
    place : path or address
        Ends in ``.zarr``; on a cluster, one that all workers reach.
    transform : callable, optional
        Returns the transform; called once per worker, which opens its files there. For ``error``, ``exceedance``
        and ``p``.
    tolerance : float, optional
        For ``exceedance``, in world units.
    """

    kind: str
    posterior: Posterior
    grid: Grid
    place: Place
    transform: Callable[[], Any] | None = None
    tolerance: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what each worker opens itself."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def components(self) -> int:
        """Length of the axis of components, 0 without one."""
        return self.grid.d if self.kind == "mean" else 0

    @cached_property
    def levels(self) -> list[Level]:
        """All levels, the full resolution first."""
        return levels_of(self.grid, self.components)

    @cached_property
    def _opened_transform(self) -> Transform | None:
        return None if self.transform is None else mapping(self.transform(), f"{self.kind}_map", self.grid.d)

    @cached_property
    def value(self) -> Callable[[Floats], Floats]:
        """The map's values at world points."""
        return value_function(self.kind, self.posterior, self._opened_transform, self.tolerance)

    @cached_property
    def key(self) -> str:
        """Hash of everything that the numbers depend on."""
        return map_key(self.kind, self.posterior, self.grid, self._opened_transform, tolerance=self.tolerance)

    def note(self, complete: bool) -> dict[str, Any]:
        """Return what the store says of the map."""
        about: dict[str, Any] = {"map": self.kind, "key": self.key, "tolerance": self.tolerance, "complete": complete}
        return {NOTE: {**about, **(VECTORS if self.components else {})}}

    @cached_property
    def arrays(self) -> list[Any]:
        """The arrays of all levels, opened for writing."""
        store = zarr_store(self.place, read_only=False)
        return [open_level(store, level) for level in self.levels]


@dataclass(frozen=True)
class Written:
    """Result of `write_sharded_map`: shards that already existed, and shards that were filled."""

    place: Place
    kept: int
    filled: int
    levels: int


def write_sharded_map(
    kind: str,
    posterior: Posterior,
    grid: Grid,
    place: PathLike,
    *,
    transform: Callable[[], Any] | None = None,
    tolerance: float | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    fresh: bool = False,
    drop_frame: bool = False,
) -> Written:
    """Write a map of any size as OME-Zarr 0.5, a shard at a time, in bounded memory.

    Parameters
    ----------
    kind, posterior, grid, transform, tolerance
        As for `ShardedMap`; ``transform`` is a function of a module (or a ``functools.partial`` of one) that returns
        the transform.
    place : path or address
        A folder, or ``s3://bucket/name.zarr``. One that holds shards of the same map is continued.
    executor : Executor, optional
        Where to run; this process by default.
    progress : callable, optional
        Called with (finished, all) elements.
    fresh : bool
        Replace what is there.
    drop_frame : bool
        OME-Zarr holds no direction of the axes; a turned grid is refused unless this says that the loss is meant.
    """
    if not np.array_equal(grid.direction, np.eye(grid.d)) and not drop_frame:
        raise InvalidInputError(
            "The map is not written: OME-Zarr cannot hold the direction of its axes; write .nrrd or .nii.gz, or pass "
            "drop_frame=True."
        )
    if grid.d != posterior.d:
        raise InvalidInputError(f"A {grid.d}D grid cannot map a {posterior.d}D posterior.")
    task = ShardedMap(kind, posterior, grid, _checked_place(place), transform, tolerance)
    _ = task.value  # so that a wrong request is refused before anything is written
    kept = _prepare(task, fresh)
    counts = [sum(1 for _ in level.shards()) for level in task.levels]
    filled = 0
    show = _Shown(task, progress)
    for number, level in enumerate(task.levels):
        missing = _missing(task, level, kept)
        show.start(number, missing)
        for name in _filled(task, number, missing, executor or InProcess(), show):
            filled += 1
            show.done(name)
    _write_attributes(task, complete=True)
    return Written(task.place, sum(counts) - filled, filled, len(task.levels))


def fill_shard(task: ShardedMap, job: tuple[int, ShardIndex]) -> None:
    """Make one shard and write it; what happens on a worker."""
    number, shard = job
    level = task.levels[number]
    region = level.region(shard)
    lead = (level.components,) if level.components else ()
    values = np.empty((*lead, *(part.stop - part.start for part in region)), _TYPE)
    pieces = list(_pieces(level, region))
    for done, piece in enumerate(pieces, start=1):
        inside = tuple(slice(p.start - r.start, p.stop - r.start) for p, r in zip(piece, region, strict=True))
        made = _evaluated(task, level, piece) if number == 0 else _halved(task, number, piece)
        values[(slice(None),) * len(lead) + inside] = made
        report_progress(done / len(pieces))
    zarr = require("zarr", "zarr")
    with zarr.config.set({"threading.max_workers": 1, "async.concurrency": 2}):
        task.arrays[number][(slice(None),) * len(lead) + region] = values


def _pieces(level: Level, region: tuple[slice, ...]) -> Iterator[tuple[slice, ...]]:
    """Split a shard into its chunks; the posterior is computed one chunk at a time."""
    axes = (range(part.start, part.stop, step) for part, step in zip(region, level.chunk, strict=True))
    for start in product(*axes):
        yield tuple(slice(s, min(s + c, part.stop)) for s, c, part in zip(start, level.chunk, region, strict=True))


def _evaluated(task: ShardedMap, level: Level, piece: tuple[slice, ...]) -> Any:
    shape = tuple(part.stop - part.start for part in piece)
    values = task.value(level.grid.region_points(piece)).astype(_TYPE)
    return np.moveaxis(values.reshape(*shape, -1), -1, 0) if level.components else values.reshape(shape)


def _halved(task: ShardedMap, number: int, piece: tuple[slice, ...]) -> Any:
    """Means of two along each axis of the next finer level."""
    finer = task.levels[number - 1]
    factors = [2 if n > 1 else 1 for n in finer.grid.shape]
    source = tuple(
        slice(part.start * f, min(part.stop * f, n))
        for part, f, n in zip(piece, factors, finer.grid.shape, strict=True)
    )
    lead = (slice(None),) if finer.components else ()
    block = np.asarray(task.arrays[number - 1][lead + source])
    if not finer.components:
        return halve(block, finer.grid.d)
    return np.stack([halve(one, finer.grid.d) for one in block])


def _name(number: int, shard: ShardIndex) -> str:
    return f"{number}/{'.'.join(map(str, shard))}"


def _filled(
    task: ShardedMap, number: int, missing: list[ShardIndex], executor: Executor, show: _Shown
) -> Iterator[str]:
    jobs = {_name(number, shard): (number, shard) for shard in missing}
    for outcome in executor.run(fill_shard, jobs, task, watch=show.partly if show.watched else None):
        outcome.result()
        yield outcome.id


class _Shown:
    """Progress in elements of all levels, those of running shards included, at the same cost for any number of shards.

    What is finished is one sum, and only running shards are looked at one by one.
    """

    def __init__(self, task: ShardedMap, progress: Progress | None) -> None:
        self._task, self._progress = task, progress
        self.watched = progress is not None
        self._total = sum(level.grid.count for level in task.levels)
        self._finished = 0
        self._sizes: dict[str, int] = {}  # of the shards that are not finished
        self._running: dict[str, float] = {}

    def start(self, number: int, missing: list[ShardIndex]) -> None:
        level = self._task.levels[number]
        self._sizes = {_name(number, s): _elements(level.region(s)) for s in missing}
        self._finished = sum(one.grid.count for one in self._task.levels[: number + 1]) - sum(self._sizes.values())
        self._running = {}
        self._tell()

    def partly(self, name: str, share: float) -> None:
        if name in self._sizes:
            self._running[name] = max(self._running.get(name, 0.0), share)
            self._tell()

    def done(self, name: str) -> None:
        self._running.pop(name, None)
        self._finished += self._sizes.pop(name)
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            running = sum(self._sizes[name] * share for name, share in self._running.items())
            self._progress(int(self._finished + running), self._total)


def _elements(region: tuple[slice, ...]) -> int:
    return int(np.prod([part.stop - part.start for part in region], dtype=np.int64))


def _checked_place(location: PathLike) -> Place:
    place = place_of(location)
    if not place.name.lower().endswith(".zarr"):
        raise InvalidInputError(f"{place.name!r} must end in .zarr (as in map.ome.zarr) to be written as OME-Zarr.")
    if isinstance(place, Path):
        check_folder(place)
        return place.resolve()
    if not place.url.startswith("s3://"):
        raise InvalidInputError(f"{place.url!r} can be read but not written; write to a folder or to s3://.")
    return place


def _prepare(task: ShardedMap, fresh: bool) -> set[str]:
    """Create the store, or check that what is there belongs to this map; return the keys that are there."""
    place = task.place
    if not place.exists():
        _refuse_stranger(place)
        _create(task)
        return set()
    found = zarr_attributes(place).get(NOTE)
    if not isinstance(found, dict) or "key" not in found:
        raise InvalidInputError(
            f"{place.name!r} is there already and is not a map that was written in shards; give another name, or "
            f"remove it."
        )
    if found["key"] != task.key or fresh:
        if not fresh:
            raise InvalidInputError(
                f"{place.name!r} holds a map of another posterior, grid, transform or setting; give another name, or "
                f"replace it by {say('fresh', True)}."
            )
        _remove(place)
        _create(task)
        return set()
    return set(_keys(place))


def _refuse_stranger(place: Place) -> None:
    if isinstance(place, Path) and place.is_symlink():
        raise InvalidInputError(f"{place.name!r} is a link to nowhere; remove it.")


def _create(task: ShardedMap) -> None:
    name = task.place.name.partition(".")[0]
    try:
        create_group(zarr_store(task.place, read_only=False), name, task.levels, _TYPE, task.note(complete=False))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{str(task.place)!r} cannot be written: {one_line(error)}.") from error


def _write_attributes(task: ShardedMap, complete: bool) -> None:
    zarr = require("zarr", "zarr")
    group = zarr.open_group(zarr_store(task.place, read_only=False), mode="r+", zarr_format=3)
    if group.attrs.get(NOTE, {}).get("complete") != complete:
        group.attrs.update(task.note(complete))


def _remove(place: Place) -> None:
    if isinstance(place, RemotePath):
        obstore = require("obstore", "remote")
        obstore.delete(place.store, [name for name, _, _ in place.objects(_MOST_SHARDS)])
    else:
        shutil.rmtree(place)


def _keys(place: Place) -> Iterator[str]:
    if isinstance(place, RemotePath):
        yield from (name for name, size, _ in place.objects(_MOST_SHARDS) if size)
        return
    for file in place.rglob("*"):
        # A shard that is being written has another name until it is complete.
        if file.is_file() and file.stat().st_size:
            yield file.relative_to(place).as_posix()


def _missing(task: ShardedMap, level: Level, kept: set[str]) -> list[ShardIndex]:
    if f"{level.path}/zarr.json" not in kept and kept:
        raise FileFormatError(f"{task.place.name!r} lacks its level {level.path}; remove it and start again.")
    return [shard for shard in level.shards() if level.key(shard) not in kept]
