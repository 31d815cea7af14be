"""Coordinate transformations of OME-NGFF 0.6 (RFC-5): a Zarr group whose ``ome`` metadata holds one of them.

Numbers follow the axes of the coordinate systems, usually (z), y, x; here points are (x, y[, z]), so every matrix and
every component axis is reordered by the names of the axes of type ``space``. The world is that of the OME-Zarr images:
scale times index plus translation, in the units of the axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from warpgauge.core.arrays import Floats
from warpgauge.errors import AmbiguousFileError, FileFormatError, say
from warpgauge.geometry import Grid, Units
from warpgauge.io.files import foreign_decoder, require
from warpgauge.io.images.frame import length_unit
from warpgauge.io.limits import check_memory, check_parts, size_on_disk
from warpgauge.io.transforms.base import Description, Format, Transform, world_frame
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.field_files import StoredField, as_floats, finish_field
from warpgauge.io.transforms.linear import AffineTransform
from warpgauge.io.zarr_arrays import open_array, zarr_attributes

FORMAT = "OME-NGFF"
VERSIONS = ("0.6", "0.6rc0", "0.6.dev4")
_FIELDS = {"displacements": "displacement", "coordinates": "coordinate"}
_ORDERS = {"nearest": 0, "linear": 1}
_DEEPEST = 20
_CHUNK = 64


@dataclass(frozen=True)
class _Axes:
    """Spatial axes in the order of the numbers: names, and the unit and its factor where all have one."""

    names: tuple[str, ...]
    units: Units | None
    factor: float = 1.0

    @property
    def to_xyz(self) -> list[int]:
        """Position of x, y[, z] among the axes."""
        return [self.names.index(name) for name in "xyz"[: len(self.names)]]


def is_transformation(folder: Path) -> bool:
    """Return whether a Zarr group is a transformation on its own: ``coordinateTransformations``, and no image."""
    ome = zarr_attributes(folder).get("ome")
    return isinstance(ome, Mapping) and "coordinateTransformations" in ome and "multiscales" not in ome


def read_ngff(folder: Path, reference: Grid | None = None) -> Transform:
    """Read the one coordinate transformation of a group; an identity may have its dimension from the reference only."""
    ome = zarr_attributes(folder).get("ome")
    if not isinstance(ome, Mapping):
        raise FileFormatError(f"{folder.name!r} has no ome metadata, so it is not an OME-NGFF transformation.")
    if str(ome.get("version")) not in VERSIONS:
        raise FileFormatError(
            f"{folder.name!r} is of OME-NGFF version {ome.get('version')!r}; transformations on their own exist from "
            f"0.6 on, and {', '.join(VERSIONS)} are read."
        )
    listed = ome.get("coordinateTransformations")
    if not isinstance(listed, list) or len(listed) != 1:
        count = len(listed) if isinstance(listed, list) else 0
        raise AmbiguousFileError(
            f"{folder.name!r} holds {count} coordinate transformations, but one is expected; split the group."
        )
    reader = _Reader(folder, ome.get("coordinateSystems"), reference)
    return reader.top(listed[0])


class _Reader:
    """Reads a transformation with the coordinate systems and arrays of its group."""

    def __init__(self, folder: Path, systems: Any, reference: Grid | None) -> None:
        self.folder, self.name, self.reference = folder, folder.name, reference
        self.systems = {str(one.get("name")): one for one in systems or () if isinstance(one, Mapping)}
        self.notes: list[str] = []
        self.parts = 0

    def top(self, entry: Any) -> Transform:
        """Read the outermost transformation; its systems say the order of the axes."""
        if not isinstance(entry, Mapping):
            self.fail("its transformation is not a JSON object")
        axes = [self.axes_of(entry.get(key)) for key in ("input", "output")]
        known = next((one for one in axes if one is not None), None)
        if all(axes) and axes[0] != axes[1]:
            self.fail(f"its input axes {axes[0]} and output axes {axes[1]} differ in order or unit, which is not read")
        if known is None:
            known = self.guessed_axes(entry)
        made = self.read(entry, known, 0)
        words = (*made.description.assumptions, *self.notes)
        return made.described(format=FORMAT, source=self.name, assumptions=words)

    def fail(self, problem: str) -> NoReturn:
        """Raise the one sentence."""
        raise FileFormatError(f"{self.name!r}: {problem}.")

    def axes_of(self, identifier: Any) -> _Axes | None:
        """Return the spatial axes of the coordinate system that an entry names, None where it is not described."""
        name = identifier.get("name") if isinstance(identifier, Mapping) else identifier
        system = self.systems.get(str(name))
        if system is None:
            return None
        return _spatial(self.name, system.get("axes"))

    def guessed_axes(self, entry: Mapping[str, Any]) -> _Axes:
        d = self.dimension(entry)
        names = ("z", "y", "x")[3 - d :]
        self.notes.append(
            f"The file describes no coordinate systems; its axes are taken as {', '.join(names)}, as those of images."
        )
        return _Axes(names, None)

    def dimension(self, entry: Mapping[str, Any]) -> int:
        """Return the dimension of a transformation by its numbers, or by its field."""
        kind = str(entry.get("type"))
        if kind in _FIELDS:
            return len(self.field_axes(entry)[0].names)
        if kind == "sequence" and entry.get("transformations"):
            return max(self.dimension(one) for one in entry["transformations"])
        if kind == "bijection" and isinstance(entry.get("forward"), Mapping):
            return self.dimension(entry["forward"])
        values = entry.get(kind)
        if isinstance(values, list) and len(values) in (2, 3):
            return len(values)
        if self.reference is not None:
            return self.reference.d
        raise AmbiguousFileError(f"{self.name!r} does not say its dimension; give {say('reference')}, the fixed grid.")

    def read(self, entry: Any, axes: _Axes, depth: int) -> Transform:
        """Read a transformation whose numbers follow the given axes."""
        if not isinstance(entry, Mapping) or depth > _DEEPEST:
            self.fail("a transformation within it is not a JSON object, or nested too deeply")
        kind, d = str(entry.get("type")), len(axes.names)
        if kind in _FIELDS:
            return self.field(entry, axes)
        if kind == "sequence":
            parts = entry.get("transformations")
            if not isinstance(parts, list) or not parts:
                self.fail("a sequence within it has no transformations")
            self.parts += len(parts)
            check_parts(self.name, self.parts)
            members = [self.read(one, axes, depth + 1) for one in parts]
            return members[0] if len(members) == 1 else Chain(members)
        if kind == "bijection":
            return self.read(entry.get("forward"), axes, depth + 1)
        matrix, offset = self.linear(entry, kind, d)
        order = axes.to_xyz
        about = Description(
            format=FORMAT,
            kind=kind,
            frame=world_frame(d),
            units=axes.units or "px",
            source=self.name,
        )
        return AffineTransform(matrix[np.ix_(order, order)], axes.factor * offset[order], about)

    def linear(self, entry: Mapping[str, Any], kind: str, d: int) -> tuple[Floats, Floats]:
        """Return matrix and offset of a linear transformation, in the order of the file."""
        zero = np.zeros(d)
        if kind == "identity":
            return np.eye(d), zero
        if kind == "scale":
            return np.diag(self.numbers(entry, kind, (d,))), zero
        if kind == "translation":
            return np.eye(d), self.numbers(entry, kind, (d,))
        if kind == "rotation":
            return self.numbers(entry, kind, (d, d)), zero
        if kind == "affine":
            values = self.numbers(entry, kind, (d, d + 1))
            return values[:, :d], values[:, d]
        if kind != "mapAxis":
            self.fail(f"it has a transformation of type {kind!r}, which is not read")
        picked = entry.get(kind)
        if not isinstance(picked, list) or sorted(picked) != list(range(d)):
            self.fail(f"mapAxis must name each of the {d} axes once")
        return np.eye(d)[picked], zero

    def numbers(self, entry: Mapping[str, Any], kind: str, shape: tuple[int, ...]) -> Floats:
        """Return the numbers of an entry, which stand in it or in an array that it names."""
        values: ArrayLike = entry[kind] if kind in entry else self.array(entry.get("path"), shape)
        try:
            found = np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            found = np.empty(0)
        if found.shape != shape or not np.isfinite(found).all():
            self.fail(f"its {kind} must be {' x '.join(map(str, shape))} finite numbers")
        return found

    def array(self, path: Any, shape: tuple[int, ...] | None = None) -> Any:
        """Load an array below the group."""
        place = self.below(path)
        with foreign_decoder(place, "a Zarr array"):
            node = open_array(place)
            if shape is not None and tuple(node.shape) != shape:
                return np.empty(0)
            check_memory(self.name, math.prod(node.shape) * node.dtype.itemsize, lambda: size_on_disk(place))
            return np.asarray(node[...])

    def below(self, path: Any) -> Path:
        """Return a node that an entry names, which must lie in the group."""
        if not isinstance(path, str) or not path:
            self.fail("a transformation within it names no path")
        place = (self.folder / str(path)).resolve()
        if not place.is_relative_to(self.folder.resolve()):
            self.fail(f"the path {path!r} leads out of the group")
        if not place.is_dir():
            self.fail(f"there is no {path!r} in it")
        return place

    def field_axes(self, entry: Mapping[str, Any]) -> tuple[_Axes, int, Mapping[str, Any], Path]:
        """Return the spatial axes of a field, the position of its components, its finest level, and its folder."""
        place = self.below(entry.get("path"))
        ome = zarr_attributes(place).get("ome")
        images = ome.get("multiscales") if isinstance(ome, Mapping) else None
        if not isinstance(images, list) or not images or not isinstance(images[0], Mapping):
            self.fail(f"the field {place.name!r} is not a multiscale image, so that nobody knows where it lies")
        image: Mapping[str, Any] = images[0]
        levels = image.get("datasets")
        systems = image.get("coordinateSystems")
        listed = systems[0].get("axes") if isinstance(systems, list) and systems else image.get("axes")
        wanted = _FIELDS[str(entry["type"])]
        if not isinstance(listed, list) or not isinstance(levels, list) or not levels:
            self.fail(f"the field {place.name!r} lacks axes or datasets")
        at = [n for n, axis in enumerate(listed) if axis.get("type") == wanted]
        if len(at) != 1:
            self.fail(f"the field {place.name!r} must have one axis of type {wanted!r}")
        return _spatial(self.name, listed), at[0], levels[0], place

    def field(self, entry: Mapping[str, Any], axes: _Axes) -> Transform:
        """Read displacements or coordinates: component i belongs to axis i of the output system."""
        own, at, level, place = self.field_axes(entry)
        if own.names != axes.names:
            self.fail(f"the field's axes {own.names} differ from those of its coordinate system, {axes.names}")
        interpolation = str(entry.get("interpolation", "linear"))
        if interpolation not in _ORDERS:
            self.fail(f"its field is to be interpolated by {interpolation!r}; linear and nearest are read")
        values = as_floats(self.array(f"{place.relative_to(self.folder.resolve())}/{level.get('path')}"), self.name)
        d = len(axes.names)
        if values.ndim != d + 1 or values.shape[at] != d:
            self.fail(f"the field has the shape {values.shape}, but {d} components over {d} axes are expected")
        scale, translation = self.placed(level, values.ndim)
        spatial = [n for n in range(values.ndim) if n != at]
        order = axes.to_xyz
        chosen = [spatial[n] for n in order]
        grid = Grid(
            tuple(values.shape[n] for n in chosen),
            own.factor * scale[chosen],
            own.factor * translation[chosen],
            units=own.units or axes.units or "px",
        )
        vectors = values.transpose([at, *chosen[::-1]])[order].astype(np.float64) * own.factor
        stored = StoredField(self.name, FORMAT, np.ascontiguousarray(vectors), grid, "LPS")
        return finish_field(stored, "LPS", absolute=entry["type"] == "coordinates", order=_ORDERS[interpolation])

    def placed(self, level: Mapping[str, Any], count: int) -> tuple[Floats, Floats]:
        """Return scale and translation of the finest level, for all of its axes."""
        scale, translation = np.ones(count), np.zeros(count)
        for step in _flat(level.get("coordinateTransformations")):
            kind = str(step.get("type"))
            if kind == "identity":
                continue
            if kind not in ("scale", "translation"):
                self.fail(f"its field is placed by a {kind!r}; a scale and a translation are read")
            values = self.numbers(step, kind, (count,))
            if kind == "scale":
                scale, translation = scale * values, translation * values
            else:
                translation = translation + values
        return scale, translation


def _flat(steps: Any) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, Mapping):
            found += _flat(step.get("transformations")) if step.get("type") == "sequence" else [step]
    return found


def _spatial(name: str, axes: Any) -> _Axes:
    """Return the axes of type space; they must be named x, y[, z] and share a unit."""
    listed: Sequence[Mapping[str, Any]] = [one for one in axes or () if isinstance(one, Mapping)]
    spatial = [one for one in listed if one.get("type") == "space"]
    names = tuple(str(one.get("name")) for one in spatial)
    if sorted(names) not in (["x", "y"], ["x", "y", "z"]):
        raise FileFormatError(f"{name!r} has the spatial axes {names}, but x, y or x, y, z are expected.")
    units = [length_unit(str(one.get("unit", ""))) for one in spatial]
    known = {unit for unit in units if unit is not None}
    if len(known) == 1 and None not in units:
        unit, factor = known.pop()
        return _Axes(names, unit, float(factor))
    if known:
        raise FileFormatError(f"{name!r} has spatial axes of different units; give all of them the same.")
    return _Axes(names, None)


def write_ngff(transform: Transform, folder: Path, nodes: Grid | None, vectors: Floats | None) -> None:
    """Write a transformation on its own into a new group, with both coordinate systems.

    A linear transform is written as affine matrices, any other by ``vectors`` (component x first) sampled at ``nodes``.
    """
    zarr = require("zarr", "zarr")
    d = transform.d
    units = transform.description.units if nodes is None else nodes.units
    names = ("z", "y", "x")[3 - d :]
    ends = {"input": {"name": "fixed"}, "output": {"name": "moving"}}
    root = zarr.create_group(store=str(folder), zarr_format=3)
    if nodes is None or vectors is None:
        parts = [{"type": "affine", "affine": _in_array_order(part)} for part in linear_parts(transform)]
        entry: dict[str, Any] = (
            {**parts[0], **ends} if len(parts) == 1 else {"type": "sequence", "transformations": parts, **ends}
        )
    else:
        entry = {"type": "displacements", "path": "field", "interpolation": "linear", **ends}
        _write_field(root, nodes, vectors, names, units)
    systems = [{"name": name, "axes": _axes(names, units)} for name in ("fixed", "moving")]
    root.attrs["ome"] = {"version": "0.6", "coordinateSystems": systems, "coordinateTransformations": [entry]}


def linear_parts(transform: Transform) -> list[AffineTransform]:
    """Return the members of a linear transform in the order of application; none where one is not linear."""
    if isinstance(transform, Chain):
        parts = [linear_parts(part) for part in transform.transforms]
        return [one for part in parts for one in part] if all(parts) else []
    return [transform] if isinstance(transform, AffineTransform) else []


def _in_array_order(part: AffineTransform) -> list[list[float]]:
    matrix = np.column_stack([part.matrix[::-1, ::-1], part.offset[::-1]])
    return [[float(value) for value in row] for row in matrix]


def _axes(names: Sequence[str], units: str) -> list[dict[str, str]]:
    unit = {"um": {"unit": "micrometer"}, "mm": {"unit": "millimeter"}}.get(units, {})
    return [{"name": name, "type": "space", **unit} for name in names]


def _write_field(root: Any, nodes: Grid, vectors: Floats, names: Sequence[str], units: str) -> None:
    group = root.create_group("field")
    axes = [{"name": "c", "type": "displacement"}, *_axes(names, units)]
    placed = [
        {"type": "scale", "scale": [1.0, *(float(one) for one in nodes.spacing[::-1])]},
        {"type": "translation", "translation": [0.0, *(float(one) for one in nodes.origin[::-1])]},
    ]
    ends = {"input": {"path": "0"}, "output": {"name": "physical"}}
    level = {"path": "0", "coordinateTransformations": [{"type": "sequence", "transformations": placed, **ends}]}
    image = {"name": "field", "coordinateSystems": [{"name": "physical", "axes": axes}], "datasets": [level]}
    group.attrs["ome"] = {"version": "0.6", "multiscales": [image]}
    chunks = (nodes.d, *(min(n, _CHUNK) for n in nodes.shape))
    array = group.create_array("0", shape=vectors.shape, chunks=chunks, dtype="float64", dimension_names=["c", *names])
    array[...] = vectors[::-1]  # component i belongs to axis i


# A folder, which the registry recognises by its metadata.
NGFF = Format("ngff", lambda path, options: read_ngff(path, options.reference))
