"""ITK's text transform files (``.tfm``, ``.txt``), as written by ITK, SimpleITK, ANTs and Slicer."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, SuspiciousDataWarning
from warpgauge.geometry import Floats
from warpgauge.io.files import read_text
from warpgauge.io.transforms.base import Transform
from warpgauge.io.transforms.chain import Chain
from warpgauge.io.transforms.itk_kinds import COMPOSITE, itk_transform, split_type
from warpgauge.io.transforms.lattice import Vectors

FORMAT = "ITK text"
SIGNATURE = b"#Insight Transform File"
# A dense field written as text has some 20 bytes a number; this is a field of 256^3.
_LIMIT = 2**30


@dataclass
class Entry:
    """One transform of an ITK file, as stored."""

    type_name: str
    parameters: Vectors | None = None
    fixed_parameters: Floats | None = None


def read_itk_text(path: Path) -> Transform:
    """Read an ITK text transform file."""
    text = read_text(path, "ITK transform file", _LIMIT)
    if not text.startswith(SIGNATURE.decode()):
        raise FileFormatError(
            f"{path.name!r} is no ITK transform file: its first line is not '#Insight Transform File V1.0'."
        )
    if not text.endswith("\n"):
        warnings.warn(
            f"{path.name} does not end with a line end, as ITK writes it, so its last number may be cut; check it.",
            SuspiciousDataWarning,
            stacklevel=4,
        )
    return combine(_entries(text, path.name), FORMAT, path.name)


def _entries(text: str, name: str) -> list[Entry]:
    entries: list[Entry] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise FileFormatError(f"{name!r}, line {number}: expected 'Key: values', got {line[:60]!r}.")
        if key == "Transform":
            entries.append(Entry(value.strip()))
        elif key in ("Parameters", "FixedParameters"):
            if not entries:
                raise FileFormatError(f"{name!r}, line {number}: {key!r} comes before any 'Transform:' line.")
            numbers = _numbers(value, name, number)
            if key == "Parameters":
                entries[-1].parameters = numbers
            else:
                entries[-1].fixed_parameters = numbers
        else:
            raise FileFormatError(f"{name!r}, line {number}: unknown key {key[:60]!r} in an ITK transform file.")
    return entries


def _numbers(value: str, name: str, line: int) -> Floats:
    try:
        return np.array(value.split(), dtype=np.float64)
    except ValueError as error:
        raise FileFormatError(f"{name!r}, line {line}: some of its values are no numbers.") from error


def combine(entries: list[Entry], file_format: str, name: str) -> Transform:
    """Make one transform of the entries of a file.

    A composite stands first and has no parameters; its members follow, and **the last of them is applied first**.
    """
    if not entries:
        raise FileFormatError(f"{name!r} holds no transform.")
    kinds = [split_type(entry.type_name, name)[0] for entry in entries]
    if kinds[0] != COMPOSITE:
        if len(entries) > 1:
            raise AmbiguousFileError(
                f"{name!r} holds {len(entries)} transforms without a CompositeTransform that says how to apply them; "
                f"split it and give read_transform a list in the order of application to points."
            )
        return _one(entries[0], file_format, name)
    if COMPOSITE in kinds[1:]:
        raise FileFormatError(f"{name!r} holds a composite within a composite, which ITK does not write; flatten it.")
    if len(entries) == 1:
        raise FileFormatError(f"{name!r} holds a composite without members, so it maps nothing.")
    members = [_one(entry, file_format, name) for entry in reversed(entries[1:])]
    if len({member.d for member in members}) > 1:
        raise FileFormatError(f"{name!r} mixes 2D and 3D transforms in one composite.")
    chain = Chain(members)
    note = "ITK composites apply the last stored transform first; the members are listed in the order of application."
    return chain.described(source=name, assumptions=(note, *chain.description.assumptions))


def _one(entry: Entry, file_format: str, name: str) -> Transform:
    if entry.parameters is None or entry.fixed_parameters is None:
        missing = "parameters" if entry.parameters is None else "fixed parameters"
        raise FileFormatError(f"{name!r} has no {missing} of its {entry.type_name[:60]}; it is truncated.")
    return itk_transform(entry.type_name, entry.parameters, entry.fixed_parameters, file_format, name)
