"""OME-Zarr (NGFF 0.4 on Zarr 2 and NGFF 0.5 on Zarr 3), multiscale, 2D and 3D, read by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Units
from warpgauge.io.files import foreign_decoder
from warpgauge.io.images.channels import check_channels, is_colour, with_names
from warpgauge.io.images.frame import Frame, length_unit
from warpgauge.io.images.stored import Array, Region, RegionReader, StoredImage, StoredLevel
from warpgauge.io.zarr_arrays import DESCRIPTIONS, open_array, zarr_attributes

_VERSIONS = ("0.4", "0.5")


@dataclass(frozen=True)
class _Axes:
    """The axes of the arrays: ``names`` in array order, ``units`` of the spatial ones by name."""

    names: tuple[str, ...]
    units: dict[str, str]


def is_zarr(folder: Path) -> bool:
    """Return whether a folder is the root of a Zarr hierarchy."""
    return any((folder / mark).is_file() for mark in (*DESCRIPTIONS, ".zattrs"))


def open_ome_zarr(folder: Path) -> StoredImage:
    """Describe an OME-Zarr image."""
    notes: list[str] = []
    with foreign_decoder(folder, "OME-Zarr"):
        if (folder / ".zarray").is_file():
            raise FileFormatError(f"{folder.name!r} is a bare Zarr array without the OME description of an image.")
        attributes = zarr_attributes(folder)
        multiscale = _multiscale(folder, attributes, notes)
        axes = _axes(folder, multiscale)
        datasets = _list(folder, multiscale, "datasets")
        arrays = [_array(folder, dataset) for dataset in datasets]
        spatial, channels = _layout(folder, axes, arrays, notes)
        scales = [
            _placed(folder, multiscale, dataset, axes, spatial) for dataset in datasets
        ]  # scale and translation, x first
        size = _size(arrays[0], axes, spatial)
        units, factors = _units(axes, spatial, notes)
        frame = _frame(folder, size, scales[0], units, factors)
        levels = tuple(
            _level(array, axes, spatial, scale, scales[0]) for array, scale in zip(arrays, scales, strict=True)
        )
        dtype = _dtype(folder, arrays)
    suspicions = _unfinished(folder, attributes)
    named = () if is_colour(channels) else with_names(channels, _channel_names(attributes))
    return StoredImage(folder, "OME-Zarr", frame, dtype, channels, levels, (folder,), notes, suspicions, named)


def _channel_names(attributes: dict[str, Any]) -> list[str]:
    """Return the labels that the description for viewers (omero) gives to the channels."""
    ome = attributes.get("ome", attributes)
    omero = ome.get("omero") if isinstance(ome, dict) else None
    listed = omero.get("channels") if isinstance(omero, dict) else None
    found = listed if isinstance(listed, list) else []
    return [str(one.get("label", "")) if isinstance(one, dict) else "" for one in found]


def _unfinished(folder: Path, attributes: dict[str, Any]) -> list[str]:
    """Return a sentence on a map of warpgauge that was interrupted."""
    note = attributes.get("warpgauge")
    if not isinstance(note, dict) or note.get("complete") is not False:
        return []
    return [f"{folder.name!r} is a map that is not complete: shards that are missing read as NaN; finish it first."]


def _multiscale(folder: Path, attributes: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    ome = attributes.get("ome", attributes)
    found = ome.get("multiscales") if isinstance(ome, dict) else None
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        inside = (
            "a plate or a collection; give the folder of one image in it" if attributes else "not an OME-Zarr image"
        )
        raise FileFormatError(f"{folder.name!r} has no 'multiscales' description, so it is {inside}.")
    multiscale: dict[str, Any] = found[0]
    version = str(ome.get("version", multiscale.get("version", "0.4")))
    if version not in _VERSIONS:
        raise FileFormatError(
            f"{folder.name!r} is of OME-Zarr version {version[:20]!r}, but {' and '.join(_VERSIONS)} are read; "
            f"convert it."
        )
    if len(found) > 1:
        notes.append(f"The file holds {len(found)} multiscale images; only the first is read.")
    return multiscale


def _list(folder: Path, owner: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = owner.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise FileFormatError(f"{folder.name!r} has no proper list of {key} in its OME description; it is damaged.")
    return value


def _axes(folder: Path, multiscale: dict[str, Any]) -> _Axes:
    items = _list(folder, multiscale, "axes")
    names = tuple(str(item.get("name")) for item in items)
    if len(set(names)) != len(names) or any(name not in "tczyx" or len(name) != 1 for name in names):
        raise FileFormatError(f"{folder.name!r} has the axes {names}, but t, c, z, y, x are expected, each once.")
    spatial = [name for name in names if name in "zyx"]
    if spatial not in (["y", "x"], ["z", "y", "x"]):
        raise FileFormatError(f"{folder.name!r} has the spatial axes {spatial}, but y, x or z, y, x are expected.")
    return _Axes(names, {str(item["name"]): str(item["unit"]) for item in items if "unit" in item})


def _array(folder: Path, dataset: dict[str, Any]) -> Any:
    name = str(dataset.get("path", ""))
    parts = name.split("/")
    if not name or "\\" in name or ":" in name or any(part in ("", ".", "..") for part in parts):
        raise FileFormatError(f"{folder.name!r} names the array {name[:60]!r}, which is not inside its folder.")
    if not (folder / name).is_dir():
        raise FileFormatError(
            f"{folder.name!r} promises the level {name[:60]!r}, which is missing; copy the whole folder."
        )
    return open_array(folder / name)


def _layout(folder: Path, axes: _Axes, arrays: list[Any], notes: list[str]) -> tuple[tuple[str, ...], int]:
    """Return the spatial axes that count (a z of 1 does not) and the number of channels."""
    for array in arrays:
        if len(array.shape) != len(axes.names) or any(n < 1 for n in array.shape):
            raise FileFormatError(f"{folder.name!r} has an array of shape {array.shape} for the axes {axes.names}.")
    sizes = dict(zip(axes.names, arrays[0].shape, strict=True))
    time, channels, depth = sizes.get("t", 1), sizes.get("c", 1), sizes.get("z", 1)
    if time > 1:
        raise FileFormatError(f"{folder.name!r} has {time} time points, but one is expected; extract one of them.")
    if channels > 1 and depth > 1:
        raise FileFormatError(
            f"{folder.name!r} has {channels} channels in 3D, but a volume of one channel is expected; extract one."
        )
    check_channels(folder, channels)
    if any(dict(zip(axes.names, a.shape, strict=True)).get("c", 1) != channels for a in arrays):
        raise FileFormatError(f"{folder.name!r} has levels with different numbers of channels; it is damaged.")
    if channels == 3:
        notes.append("The three channels are read as red, green, blue.")
    if "z" in sizes and depth == 1:
        notes.append("The z axis has one element and is left out: the image is 2D.")
    return (("z",) if depth > 1 else ()) + ("y", "x"), int(channels)


def _size(array: Any, axes: _Axes, spatial: tuple[str, ...]) -> tuple[int, ...]:
    sizes = dict(zip(axes.names, array.shape, strict=True))
    return tuple(int(sizes[name]) for name in reversed(spatial))


def _placed(
    folder: Path, multiscale: dict[str, Any], dataset: dict[str, Any], axes: _Axes, spatial: tuple[str, ...]
) -> tuple[Floats, Floats]:
    """Return scale and translation of a level along x, y[, z]: those of the dataset, then those of all datasets."""
    scale, translation = np.ones(len(axes.names)), np.zeros(len(axes.names))
    own = dataset.get("coordinateTransformations", [])
    common = multiscale.get("coordinateTransformations", [])
    if not isinstance(own, list) or not isinstance(common, list):
        raise FileFormatError(f"{folder.name!r} has coordinateTransformations that are not a list; it is damaged.")
    for step in [*own, *common]:
        kind = step.get("type") if isinstance(step, dict) else None
        if kind == "identity":
            continue
        values = np.asarray(step.get(kind), dtype=np.float64) if kind in ("scale", "translation") else np.empty(0)
        if values.shape != scale.shape or not np.all(np.isfinite(values)):
            raise FileFormatError(
                f"{folder.name!r} has the coordinate transformation {str(step)[:80]!r}, but a scale or a translation "
                f"of {len(axes.names)} finite numbers is expected."
            )
        if kind == "scale":
            scale, translation = scale * values, translation * values
        else:
            translation = translation + values
    chosen = [axes.names.index(name) for name in reversed(spatial)]
    if np.any(scale[chosen] <= 0):
        raise FileFormatError(
            f"{folder.name!r} has the scale {scale[chosen].tolist()} along x, y[, z], which is not positive."
        )
    return scale[chosen], translation[chosen]


def _units(axes: _Axes, spatial: tuple[str, ...], notes: list[str]) -> tuple[Units | None, Floats]:
    named = [length_unit(axes.units.get(name, "")) for name in reversed(spatial)]
    if any(unit is None for unit in named):
        if axes.units:
            notes.append(f"The units {axes.units} are not lengths for every spatial axis.")
        return None, np.ones(len(spatial))
    known = [unit for unit in named if unit is not None]
    if len({unit[0] for unit in known}) == 1:
        return known[0][0], np.array([unit[1] for unit in known])
    notes.append("The axes have different units; all are turned into um.")
    return "um", np.array([unit[1] * (1000.0 if unit[0] == "mm" else 1.0) for unit in known])


def _frame(
    folder: Path, size: tuple[int, ...], placed: tuple[Floats, Floats], units: Units | None, factors: Floats
) -> Frame:
    spacing, origin = placed[0] * factors, placed[1] * factors
    if not np.all(np.isfinite(spacing)) or not np.all(np.isfinite(origin)) or np.any(spacing <= 0):
        raise FileFormatError(f"{folder.name!r} has the spacing {spacing.tolist()}, which is not positive and finite.")
    if units is None and np.all(spacing == 1) and np.all(origin == 0):
        return Frame(size)
    return Frame(size, spacing, origin, units=units)


def _dtype(folder: Path, arrays: list[Any]) -> np.dtype[Any]:
    kinds = {np.dtype(array.dtype).newbyteorder("=") for array in arrays}
    if len(kinds) > 1:
        raise FileFormatError(f"{folder.name!r} has levels of different types ({', '.join(map(str, kinds))}).")
    dtype = kinds.pop()
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise FileFormatError(
            f"{folder.name!r} has samples of type {dtype}, but integers and floats of up to 64 bits are read."
        )
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype


def _level(
    array: Any, axes: _Axes, spatial: tuple[str, ...], placed: tuple[Floats, Floats], base: tuple[Floats, Floats]
) -> StoredLevel:
    step, offset = placed[0] / base[0], (placed[1] - base[1]) / base[0]
    return StoredLevel(
        _size(array, axes, spatial), _reader(array, axes, spatial), tuple(step.tolist()), tuple(offset.tolist())
    )


def _reader(array: Any, axes: _Axes, spatial: tuple[str, ...]) -> RegionReader:
    def read(region: Region) -> Array:
        parts = dict(zip(spatial, region, strict=True))
        index: tuple[int | slice, ...] = tuple(
            slice(None) if name == "c" else parts.get(name, 0) for name in axes.names
        )
        part = np.asarray(array[index])
        part = part.astype(np.uint8 if part.dtype.kind == "b" else part.dtype.newbyteorder("="), copy=False)
        if "c" not in axes.names:
            return part
        channel = [name for name in axes.names if name == "c" or name in spatial].index("c")
        return part.squeeze(axis=channel) if part.shape[channel] == 1 else np.moveaxis(part, channel, -1)

    return read
