"""OME-Zarr (NGFF 0.4 on Zarr 2 and NGFF 0.5 on Zarr 3), multiscale, 2D and 3D, read by chunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats, Units
from warpgauge.io.images.frame import Frame, length_unit
from warpgauge.io.images.stored import Array, Region, RegionReader, StoredImage, StoredLevel, channel_names
from warpgauge.io.zarr_files import open_array, zarr_attributes

_VERSIONS = ("0.4", "0.5")


def open_ome_zarr(folder: Path) -> StoredImage:
    """Describe an OME-Zarr image."""
    notes: list[str] = []
    if (folder / ".zarray").is_file():
        raise FileFormatError(f"{folder.name!r} is a bare Zarr array without the OME description of an image.")
    attributes = zarr_attributes(folder)
    multiscale = _multiscale(folder, attributes, notes)
    items = _list(folder, multiscale, "axes")
    axes = _axes(folder, items)
    datasets = _list(folder, multiscale, "datasets")
    arrays = [_array(folder, dataset) for dataset in datasets]
    _check_arrays(folder, axes, arrays)
    sizes = dict(zip(axes, arrays[0].shape, strict=True))
    _check_sizes(folder, sizes, notes)
    spatial = [axis for axis in ("z", "y", "x") if axis != "z" or sizes.get("z", 1) > 1]
    placed = [_placed(folder, multiscale, dataset, axes, spatial) for dataset in datasets]
    units, factors = _units(items, spatial, notes)
    frame = _frame(folder, tuple(sizes[axis] for axis in reversed(spatial)), placed[0], units, factors)
    levels = tuple(_level(array, axes, spatial, place, placed[0]) for array, place in zip(arrays, placed, strict=True))
    dtype = np.dtype(arrays[0].dtype).newbyteorder("=")
    dtype = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    channels = int(sizes.get("c", 1))
    names = channel_names(folder, channels, _labels(attributes))
    return StoredImage(folder, "OME-Zarr", frame, dtype, channels, tuple(levels), (folder,), notes, names=names)


def _labels(attributes: dict[str, Any]) -> list[str]:
    """Return the labels that the description for viewers (omero) gives to the channels."""
    ome = attributes.get("ome", attributes)
    omero = ome.get("omero") if isinstance(ome, dict) else None
    listed = omero.get("channels") if isinstance(omero, dict) else None
    if not isinstance(listed, list):
        return []
    return [str(channel.get("label", "")) if isinstance(channel, dict) else "" for channel in listed]


def _multiscale(folder: Path, attributes: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    ome = attributes.get("ome", attributes)
    listed = ome.get("multiscales") if isinstance(ome, dict) else None
    if not isinstance(listed, list) or not listed or not isinstance(listed[0], dict):
        inside = (
            "a plate or a collection; give the folder of one image in it" if attributes else "not an OME-Zarr image"
        )
        raise FileFormatError(f"{folder.name!r} has no 'multiscales' description, so it is {inside}.")
    multiscale: dict[str, Any] = listed[0]
    version = str(ome.get("version", multiscale.get("version", "0.4")))
    if version not in _VERSIONS:
        raise FileFormatError(
            f"{folder.name!r} is of OME-Zarr version {version[:20]!r}, but {' and '.join(_VERSIONS)} are read; "
            f"convert it."
        )
    if len(listed) > 1:
        notes.append(f"The file holds {len(listed)} multiscale images; only the first is read.")
    return multiscale


def _list(folder: Path, owner: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = owner.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise FileFormatError(f"{folder.name!r} has no proper list of {key} in its OME description; it is damaged.")
    return value


def _axes(folder: Path, items: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the names of the axes in array order."""
    names = tuple(str(item.get("name")) for item in items)
    if len(set(names)) != len(names) or any(name not in "tczyx" or len(name) != 1 for name in names):
        raise FileFormatError(f"{folder.name!r} has the axes {names}, but t, c, z, y, x are expected, each once.")
    spatial = [name for name in names if name in "zyx"]
    if spatial not in (["y", "x"], ["z", "y", "x"]):
        raise FileFormatError(f"{folder.name!r} has the spatial axes {spatial}, but y, x or z, y, x are expected.")
    return names


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


def _check_arrays(folder: Path, axes: tuple[str, ...], arrays: list[Any]) -> None:
    """Refuse levels that are not of one image."""
    for array in arrays:
        if len(array.shape) != len(axes):
            raise FileFormatError(f"{folder.name!r} has an array of shape {array.shape} for the axes {axes}.")
    if "c" in axes and len({array.shape[axes.index("c")] for array in arrays}) > 1:
        raise FileFormatError(f"{folder.name!r} has levels with different numbers of channels; it is damaged.")
    kinds = dict.fromkeys(str(np.dtype(array.dtype).newbyteorder("=")) for array in arrays)
    if len(kinds) > 1:
        raise FileFormatError(f"{folder.name!r} has levels of different types ({', '.join(kinds)}).")


def _check_sizes(folder: Path, sizes: dict[str, int], notes: list[str]) -> None:
    """Refuse more than one plane or volume."""
    if sizes.get("t", 1) > 1:
        raise FileFormatError(
            f"{folder.name!r} has {sizes['t']} time points, but one is expected; extract one of them."
        )
    if sizes.get("c", 1) > 1 and sizes.get("z", 1) > 1:
        raise FileFormatError(
            f"{folder.name!r} has {sizes['c']} channels in 3D, but a volume of one channel is expected; extract one."
        )
    if sizes.get("c", 1) == 3:
        notes.append("The three channels are read as red, green, blue.")
    if sizes.get("z") == 1:
        notes.append("The z axis has one element and is left out: the image is 2D.")


def _placed(
    folder: Path, multiscale: dict[str, Any], dataset: dict[str, Any], axes: tuple[str, ...], spatial: list[str]
) -> tuple[Floats, Floats]:
    """Return scale and translation of a level along x, y[, z]: those of the dataset, then those of all datasets."""
    scale = np.ones(len(axes))
    translation = np.zeros(len(axes))
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
                f"of {len(axes)} finite numbers is expected."
            )
        if kind == "scale":
            scale = scale * values
            translation = translation * values
        else:
            translation = translation + values
    chosen = [axes.index(axis) for axis in reversed(spatial)]
    if np.any(scale[chosen] <= 0):
        raise FileFormatError(
            f"{folder.name!r} has the scale {scale[chosen].tolist()} along x, y[, z], which is not positive."
        )
    return scale[chosen], translation[chosen]


def _units(items: list[dict[str, Any]], spatial: list[str], notes: list[str]) -> tuple[Units | None, Floats]:
    """Return the unit of all lengths and, for x, y[, z], the factors that turn those of the file into it."""
    stated = {str(item["name"]): str(item["unit"]) for item in items if "unit" in item}
    lengths = [length_unit(stated.get(axis, "")) for axis in reversed(spatial)]
    units = [length for length in lengths if length is not None]
    if len(units) < len(lengths):
        if stated:
            notes.append(f"The units {stated} are not lengths for every spatial axis.")
        return None, np.ones(len(spatial))
    if len({unit for unit, _ in units}) == 1:
        return units[0][0], np.array([factor for _, factor in units])
    notes.append("The axes have different units; all are turned into um.")
    return "um", np.array([factor * (1000.0 if unit == "mm" else 1.0) for unit, factor in units])


def _frame(
    folder: Path, size: tuple[int, ...], placed: tuple[Floats, Floats], units: Units | None, factors: Floats
) -> Frame:
    spacing = placed[0] * factors
    origin = placed[1] * factors
    if not np.all(np.isfinite(spacing)) or not np.all(np.isfinite(origin)) or np.any(spacing <= 0):
        raise FileFormatError(f"{folder.name!r} has the spacing {spacing.tolist()}, which is not positive and finite.")
    if units is None and np.all(spacing == 1) and np.all(origin == 0):
        return Frame(size)
    return Frame(size, spacing, origin, units=units)


def _level(
    array: Any, axes: tuple[str, ...], spatial: list[str], placed: tuple[Floats, Floats], base: tuple[Floats, Floats]
) -> StoredLevel:
    size = tuple(int(array.shape[axes.index(axis)]) for axis in reversed(spatial))
    step = placed[0] / base[0]
    offset = (placed[1] - base[1]) / base[0]
    return StoredLevel(size, _reader(array, axes, spatial), tuple(step.tolist()), tuple(offset.tolist()))


def _reader(array: Any, axes: tuple[str, ...], spatial: list[str]) -> RegionReader:
    def read(region: Region) -> Array:
        parts = dict(zip(spatial, region, strict=True))
        index = tuple(slice(None) if axis == "c" else parts.get(axis, 0) for axis in axes)
        part = np.asarray(array[index])
        part = part.astype(np.uint8 if part.dtype.kind == "b" else part.dtype.newbyteorder("="), copy=False)
        if "c" not in axes:
            return part
        channel = [axis for axis in axes if axis == "c" or axis in spatial].index("c")
        return part.squeeze(axis=channel) if part.shape[channel] == 1 else np.moveaxis(part, channel, -1)

    return read
