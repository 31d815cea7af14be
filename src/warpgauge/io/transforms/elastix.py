"""Transform parameter files of elastix, with their chains of initial transforms.

A chain is ``Compose``, ``T1(T0(x))`` with ``T0`` the initial transform, or ``Add``, ``T0(x) + T1(x) - x``.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from warpgauge.errors import FileFormatError, SuspiciousDataWarning
from warpgauge.geometry import Grid
from warpgauge.io.transforms import linear
from warpgauge.io.transforms.base import Description, Transform
from warpgauge.io.transforms.chain import Chain, SumTransform
from warpgauge.io.transforms.elastix_kinds import named_files, own_transform
from warpgauge.io.transforms.elastix_parameters import ParameterTable, beside, read_parameters

_NO_INITIAL = "NoInitialTransform"
_INITIAL_KEYS = ("InitialTransformParameterFileName", "InitialTransformParametersFileName")
_LONGEST_CHAIN = 50


def read_elastix(path: Path, fixed: Grid | None = None, moving: Grid | None = None) -> Transform:
    """Read a transform parameter file and all the initial transforms that it names.

    Parameters
    ----------
    path : Path
        The last file of the chain.
    fixed, moving : Grid, optional
        Grids of the images; used only where the file ignored their directions.
    """
    transform, tables = _read_chain(path, ())
    ignored = [table for table in tables if not table.flag("UseDirectionCosines", True)]
    return _with_directions(transform, ignored[0], fixed, moving) if ignored else transform


def initial_files(path: Path) -> list[Path]:
    """List the files that a parameter file draws in, itself not included: initial transforms, fields, other data."""
    _, tables = _read_chain(path, ())
    return [table.path.resolve() for table in tables[:-1]] + [file for table in tables for file in named_files(table)]


def _read_chain(path: Path, seen: tuple[Path, ...]) -> tuple[Transform, list[ParameterTable]]:
    if path.resolve() in seen:
        names = " -> ".join(file.name for file in (*seen, path))
        raise FileFormatError(f"{path.name!r} names itself as its initial transform through {names}; break the circle.")
    if len(seen) >= _LONGEST_CHAIN:
        raise FileFormatError(f"{path.name!r} ends a chain of {_LONGEST_CHAIN} initial transforms; that is too long.")
    table = read_parameters(path)
    current = own_transform(table)
    recorded = [table.text(key) for key in _INITIAL_KEYS if key in table]
    if len(set(recorded)) > 1:
        raise FileFormatError(f"{path.name!r} names two initial transforms, {recorded[0]!r} and {recorded[1]!r}.")
    if not recorded or recorded[0] == _NO_INITIAL:
        return current, [table]
    file, note = beside(table.path, recorded[0], "initial transform")
    initial, tables = _read_chain(file, (*seen, path.resolve()))
    return _combined(initial, current, table, note), [*tables, table]


def _combined(initial: Transform, current: Transform, table: ParameterTable, note: str) -> Transform:
    if initial.d != current.d:
        raise FileFormatError(f"{table.path.name!r} is {current.d}D, but its initial transform is {initial.d}D.")
    how = table.text("HowToCombineTransforms", "Compose")
    if how not in ("Compose", "Add"):
        raise FileFormatError(f"{table.path.name!r}: HowToCombineTransforms is 'Compose' or 'Add', got {how[:40]!r}.")
    if how == "Add":
        combined: Transform = SumTransform(initial, current)
    else:
        parts = initial.transforms if isinstance(initial, Chain) else (initial,)
        combined = Chain([*parts, current])
    words = combined.description.assuming(note) if note else combined.description
    return combined.described(assumptions=words.assumptions, source=table.path.name)


def _with_directions(transform: Transform, table: ParameterTable, fixed: Grid | None, moving: Grid | None) -> Transform:
    """Account for ``UseDirectionCosines "false"``: elastix then worked with ``origin + spacing * index``."""
    d = transform.d
    if fixed is not None and moving is not None:
        enter, leave = _drop_direction(fixed), _drop_direction(moving).inverse()
        note = "Registered without directions (UseDirectionCosines false); those of the given grids are put back."
        chain = Chain([enter, transform, leave])
        return chain.described(source=table.path.name, assumptions=(note, *transform.description.assumptions))
    note = (
        'UseDirectionCosines is "false": points are origin + spacing * index of each image, its direction ignored; '
        "give reference= and moving= to map true world points."
    )
    direction = table.numbers("Direction", d * d).reshape(d, d).T if "Direction" in table else np.eye(d)
    if not np.allclose(direction, np.eye(d), atol=1e-6):
        warnings.warn(f"{table.path.name}: {note}", SuspiciousDataWarning, stacklevel=4)
    return transform.described(
        frame="world without direction cosines", assumptions=(note, *transform.description.assumptions)
    )


def _drop_direction(grid: Grid) -> linear.AffineTransform:
    """Return the map from the true world to the one that ignores the direction: same index, direction = identity."""
    back = np.linalg.inv(grid.direction)
    about = Description(kind="direction removed")
    return linear.AffineTransform(back, grid.origin - back @ grid.origin, about)
