"""NRRD with its data inside, or in a file next to a ``.nhdr``: samples and frame; 2D and 3D."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Units
from warpgauge.io.files import neighbour, read_head
from warpgauge.io.images.frame import Frame, frame_from_affine, length_unit
from warpgauge.io.images.samples import Block
from warpgauge.io.images.volume import Volume

_HEADER_LIMIT = 2**20
_TYPES = {
    "i1": ("signed char", "int8", "int8_t"),
    "u1": ("uchar", "unsigned char", "uint8", "uint8_t"),
    "i2": ("short", "short int", "signed short", "signed short int", "int16", "int16_t"),
    "u2": ("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"),
    "i4": ("int", "signed int", "int32", "int32_t"),
    "u4": ("uint", "unsigned int", "uint32", "uint32_t"),
    "i8": ("longlong", "long long", "long long int", "signed long long", "signed long long int", "int64", "int64_t"),
    "u8": ("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"),
    "f4": ("float",),
    "f8": ("double",),
}
_ALIASES = {"datafile": "data file", "byteskip": "byte skip", "lineskip": "line skip", "axismins": "axis mins"}
_TO_LPS = {
    "left-posterior-superior": (1, 1, 1), "lps": (1, 1, 1),
    "right-anterior-superior": (-1, -1, 1), "ras": (-1, -1, 1),
    "left-anterior-superior": (1, -1, 1), "las": (1, -1, 1),
}  # fmt: skip


def open_nrrd(path: Path) -> Volume:
    """Read the header of a NRRD file."""
    header = _Header(path)
    sizes = header.sizes()
    axis = header.axis_of_numbers(len(sizes))
    spatial = [place for place in range(len(sizes)) if place != axis]
    if len(spatial) not in (2, 3):
        raise FileFormatError(
            f"{path.name!r} has {len(spatial)} spatial axes (sizes {sizes}), but 2 or 3 are read; extract one image."
        )
    size = tuple(sizes[place] for place in spatial)
    frame = header.frame(spatial, size)
    count = 1 if axis is None else sizes[axis]
    block = header.block(size[::-1] if count == 1 else tuple(sizes[::-1]))
    # The first axis of the file is the last one of the array.
    first = axis is not None and axis > 0
    return Volume(
        path, "NRRD", frame, block, count, first, sizes=tuple(sizes), header=header.fields, notes=header.notes
    )


class _Header:
    """The fields of a header, where it ends, and sentences about what was assumed."""

    def __init__(self, path: Path) -> None:
        """Read up to the empty line; a detached header may end with the file."""
        self.path = path
        self.fields: dict[str, str] = {}
        self.notes: list[str] = []
        head = read_head(path, _HEADER_LIMIT)
        end = re.search(rb"\r?\n\r?\n", head)
        if end is None and path.stat().st_size > _HEADER_LIMIT:
            raise self.wrong(f"no end of its NRRD header within {_HEADER_LIMIT} bytes", "it is damaged")
        self.end = end.end() if end else len(head)
        lines = head[: end.start() if end else len(head)].decode("latin-1").splitlines()
        if not lines or not re.fullmatch(r"NRRD000\d", lines[0].strip()):
            raise FileFormatError(
                f"{path.name!r} does not start with a NRRD0001 to NRRD0005 line; it is damaged or mislabelled."
            )
        for number, line in enumerate(lines[1:], start=2):
            # A free key with its value, which says nothing about the samples, has ":=" between.
            key, mark, value = line.partition(":=" if ":=" in line else ":")
            if line.startswith("#") or not line.strip():
                continue
            if not mark:
                raise self.wrong(f"the header line {number} {line[:60]!r}", "'field: value' is expected")
            key = key.strip().lower()
            self.fields[f"{key}:=" if mark == ":=" else _ALIASES.get(key, key)] = value.strip()

    def wrong(self, has: str, expected: str) -> FileFormatError:
        return FileFormatError(f"{self.path.name!r} has {has}, but {expected}.")

    def need(self, key: str) -> str:
        if key not in self.fields:
            raise self.wrong(f"no field {key!r}", "every NRRD needs it; its header is damaged")
        return self.fields[key]

    def sizes(self) -> list[int]:
        """Return the sizes of the axes, fastest first."""
        text = self.need("sizes")
        words = text.split()
        if not 0 < len(words) <= 16 or not all(re.fullmatch(r"[0-9]{1,15}", word) and int(word) for word in words):
            raise self.wrong(f"sizes: {text[:80]!r}", "positive whole numbers are expected")
        dimension = self.fields.get("dimension", "none").strip()
        if dimension != str(len(words)):
            raise self.wrong(f"dimension {dimension[:20]!r}", f"{len(words)} sizes; its header is damaged")
        return [int(word) for word in words]

    def axis_of_numbers(self, axes: int) -> int | None:
        """Return the axis along which the numbers of a voxel stand, first or last in the file; None without one."""
        kinds = self.fields.get("kinds", "").lower().split() or ["???"] * axes
        if len(kinds) != axes:
            raise self.wrong(f"{len(kinds)} kinds for {axes} axes", "one for each is expected; its header is damaged")
        directions = re.findall(r"\([^()]*\)|\S+", self.fields.get("space directions", "").lower())
        placed = [True] * axes if len(directions) != axes else [entry != "none" for entry in directions]
        spatial = ("domain", "space", "???", "none")
        others = [axis for axis in range(axes) if kinds[axis] not in spatial or not placed[axis]]
        if others not in ([], [0], [axes - 1]):
            raise self.wrong(
                f"{len(others)} axes that are not spatial", "one, first or last, is read; extract one image"
            )
        return others[0] if others else None

    def block(self, shape: tuple[int, ...]) -> Block:
        """Return the block of the samples, in this file or in the one that the header names."""
        kind = self.need("type").lower()
        code = next((code for code, names in _TYPES.items() if kind in names), None)
        if code is None:
            raise self.wrong(f"samples of type {kind[:40]!r}", "an integer or float type is expected")
        endian = self.fields.get("endian", "").lower()
        if endian not in ("little", "big") and code[1] != "1":
            raise FileFormatError(
                f"{self.path.name!r} does not say endian: little or big, which its {kind} samples need."
            )
        dtype: np.dtype[Any] = np.dtype((">" if endian == "big" else "<") + code)
        name = self.fields.get("data file")
        if name is not None and (name.split(" ")[0].upper() == "LIST" or "%" in name):
            raise FileFormatError(
                f"{self.path.name!r} spreads its slices over several files; save it as one .nrrd file."
            )
        file = self.path if name is None else neighbour(self.path, name)
        start = self.end if name is None else 0
        encoding = self.need("encoding").lower()
        if encoding not in ("raw", "gzip", "gz"):
            raise self.wrong(f"encoding {encoding[:40]!r}", "raw and gzip are read; save it so")
        if self.fields.get("line skip", "0") != "0":
            raise self.wrong("lines before its samples (line skip)", "these are not read; save it again")
        skip = self.fields.get("byte skip", "0")
        if not re.fullmatch(r"-1|[0-9]{1,15}", skip):
            raise self.wrong(f"byte skip: {skip[:40]!r}", "a whole number is expected")
        if encoding != "raw":
            return Block(file, start, dtype, shape, "gzip", skip=max(int(skip), 0))
        block = Block(file, start + max(int(skip), 0), dtype, shape)
        return block.at_the_end() if skip == "-1" else block

    def frame(self, spatial: list[int], size: tuple[int, ...]) -> Frame:
        """Return the frame from ``space directions``, otherwise from ``spacings``, otherwise none."""
        d = len(size)
        axes = int(self.fields["dimension"])
        affine = np.eye(d + 1)
        if "space directions" in self.fields:
            text = self.fields["space directions"]
            columns = self.vectors("space directions", text, axes)
            if any(len(columns[place]) != d for place in spatial):
                raise self.wrong(f"space directions {text[:80]!r}", f"one vector of {d} numbers each is expected")
            affine[:d, :d] = np.array([columns[place] for place in spatial]).T
            if "space origin" not in self.fields:
                self.notes.append("The header has no space origin; it is taken to be 0.")
            else:
                (origin,) = self.vectors("space origin", self.fields["space origin"], 1)
                if len(origin) != d:
                    raise self.wrong(f"space origin {self.fields['space origin'][:80]!r}", f"{d} numbers are expected")
                affine[:d, d] = origin
            affine[:d] *= np.array(self.signs(d))[:, None]
            units, factor = self.unit("space units", list(range(d)))
        elif "axis mins" in self.fields:
            raise self.wrong("axis mins to say where it lies", "'axis mins' are not read; save it with ITK")
        elif "spacings" in self.fields:
            text = self.fields["spacings"]
            try:
                values = np.array([float(word) for word in text.split()])
            except ValueError:
                values = np.empty(0)
            if values.shape != (axes,):
                raise self.wrong(f"spacings: {text[:80]!r}", f"{axes} numbers are expected")
            spacings = values[spatial]
            if not np.all(np.isfinite(spacings)):
                self.notes.append("The spacings are not known along every axis, so none is used.")
                return Frame(size)
            if np.any(spacings <= 0):
                raise self.wrong(f"spacings: {text[:80]!r}", "positive numbers are expected")
            affine[:d, :d] = np.diag(spacings)
            units, factor = self.unit("units", spatial)
        else:
            return Frame(size)
        affine[:d] *= factor
        return replace(frame_from_affine(self.path, affine, size, units), factor=factor)

    def vectors(self, key: str, text: str, count: int) -> list[list[float]]:
        """Read vectors ``(a,b,c)``; ``none`` has no numbers."""
        words = re.findall(r"\([^()]*\)|\S+", text)
        try:
            if len(words) != count:
                raise ValueError
            return [
                [] if word.lower() == "none" else [float(number) for number in word.strip("()").split(",")]
                for word in words
            ]
        except ValueError:
            raise self.wrong(f"{key} {text[:80]!r}", f"{count} vectors (a,b,c) are expected") from None

    def signs(self, d: int) -> tuple[int, ...]:
        """Return the factors that turn x, y[, z] of the file's world into LPS."""
        space = self.fields.get("space", "not named")
        if d == 2:
            return (1, 1)
        signs = _TO_LPS.get(space.lower())
        if signs is None:
            self.notes.append(f"The world of the file is {space!r}; it is read as LPS, as ITK does.")
        elif signs != (1, 1, 1):
            self.notes.append(f"The world {space!r} is turned into LPS.")
        return signs or (1, 1, 1)

    def unit(self, key: str, axes: list[int]) -> tuple[Units, float]:
        """Return the unit of length of some axes, and the factor that turns the file's numbers into it."""
        names = re.findall(r'"([^"]*)"', self.fields.get(key, ""))
        lengths = {length_unit(names[axis]) if axis < len(names) else None for axis in axes}
        length = lengths.pop() if len(lengths) == 1 else None
        if length is None:
            self.notes.append("The header does not say one unit of length for all axes; it is taken to be mm.")
        return length or ("mm", 1.0)
