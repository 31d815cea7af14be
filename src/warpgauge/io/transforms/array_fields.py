"""Fields in NumPy arrays, which hold numbers only: the caller supplies the grid and the layout."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, say
from warpgauge.geometry import Grid
from warpgauge.io.files import existing_file, foreign_decoder
from warpgauge.io.numpy_files import read_array
from warpgauge.io.transforms.base import BY_SIGNATURE, NO, Format, Options
from warpgauge.io.transforms.field import DisplacementField, Vectors
from warpgauge.io.transforms.field_files import FRAMES, StoredField, as_floats, finish_field, settled, world_word
from warpgauge.io.transforms.field_meaning import AmbiguousFieldError, Meaning

LAYOUTS = {2: ("cxy", "xyc", "cyx", "yxc"), 3: ("cxyz", "xyzc", "czyx", "zyxc")}


def read_array_field(path: Path, options: Options) -> DisplacementField:
    """Read a field from ``.npy`` or ``.npz``; its vectors stand on the reference grid.

    The layout is given as in ``"zyxc"``, with ``c`` for the components, or follows from the shape; the order of the
    components, as in ``"xyz"``, and their frame have to be given.
    """
    name, reference = path.name, options.reference
    if reference is None:
        raise AmbiguousFileError(
            f"{name!r} holds numbers without a place in the world; give {say('reference')}, a Grid."
        )
    axes, components, frame, notes = _choices(name, _numpy_shape(path), reference, options)
    sizes = dict(zip("xyz", reference.size, strict=False)) | {"c": reference.d}
    values = load_numpy(path, tuple(sizes[axis] for axis in axes))
    # To components first, then array order z, y, x.
    order = [axes.index(axis) for axis in "c" + "zyx"[3 - reference.d :]]
    vectors = values.transpose(order)
    reverse = components != "xyz"[: reference.d]
    vectors = np.ascontiguousarray(vectors[::-1] if reverse else vectors)
    notes.append(f"The array is read with axes {axes!r} and components {components!r}.")
    stored = StoredField(name, "NumPy", vectors, reference, None, notes)
    chosen, absolute = settled(stored, replace(options, frame=frame), "")
    if options.convention is None:
        notes.append(f"The vectors are taken as displacements; give {say('convention', 'absolute')} for positions.")
    return finish_field(stored, chosen, absolute=absolute, moving=options.moving)


def _choices(name: str, shape: tuple[int, ...], reference: Grid, options: Options) -> tuple[str, str, str, list[str]]:
    """Return layout, components and frame; what is still open is asked for at once."""
    d, notes = reference.d, list[str]()
    forward = "xyz"[:d]
    sizes = dict(zip("xyz", reference.size, strict=False)) | {"c": d}
    for key, value, known in (
        ("layout", options.layout, LAYOUTS[d]),
        ("components", options.components, (forward, forward[::-1])),
        ("frame", options.frame, FRAMES),
    ):
        if value is not None and value not in known:
            raise InvalidInputError(
                f"{say(key)} of a {d}D array must be one of {', '.join(map(repr, known))}, got {value!r}."
            )
    layouts = [one for one in LAYOUTS[d] if shape == tuple(sizes[axis] for axis in one)]
    if options.layout is not None:
        layouts = [options.layout]
    elif not layouts:
        wanted = " or ".join(sorted({str(tuple(sizes[axis] for axis in one)) for one in LAYOUTS[d]}))
        raise FileFormatError(
            f"{name!r} holds an array of shape {shape[:8]}, but a field on the reference grid has the shape {wanted}."
        )
    elif len(layouts) == 1:
        notes.append(f"Only the axes {layouts[0]!r} fit the shape of the array.")
    pixels_are_world = np.array_equal(reference.affine, np.eye(d + 1))
    frames = [world_word(d)] + ["RAS"] * (d == 3) + ["index"] * (not pixels_are_world)
    orders = [forward, forward[::-1]] if options.components is None else [options.components]
    frames = frames if options.frame is None else [options.frame]
    choices = {"layout": layouts, "components": orders, "frame": frames}
    open_ones = {key: values for key, values in choices.items() if len(values) > 1}
    if open_ones:
        asked = ", ".join(f"{say(key)} ({' or '.join(values)})" for key, values in open_ones.items())
        raise AmbiguousFieldError(
            f"{name!r} holds numbers only, so their meaning has to be given: {asked}.", _all(choices)
        )
    return layouts[0], orders[0], frames[0], notes


def _all(choices: dict[str, list[str]]) -> list[Meaning]:
    """Return every combination of the choices."""
    return [
        Meaning("displacements", dict(zip(choices, chosen, strict=True)))
        for chosen in itertools.product(*choices.values())
    ]


def _numpy_shape(path: Path) -> tuple[int, ...]:
    """Return the shape of the one array of a NumPy file, without its values."""
    found: list[tuple[int, ...]] = []

    class _Enough(Exception):  # noqa: N818  # ends the reading, is no error
        pass

    def take(shape: tuple[int, ...]) -> None:
        found.append(tuple(shape))
        raise _Enough

    file = existing_file(path, "field")
    with foreign_decoder(file, "a NumPy array"), suppress(_Enough):
        read_array(file, take)
    return found[0]


def load_numpy(path: Path, wanted: tuple[int, ...] | None = None) -> Vectors:
    """Load the one array of a ``.npy`` or ``.npz`` file, of the wanted shape if one is given."""
    file = existing_file(path, "field")
    with foreign_decoder(file, "a NumPy array"):
        values = read_array(file, lambda shape: _check_shape(file.name, shape, wanted))
    return as_floats(values, file.name)


def _check_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...] | None) -> None:
    if wanted is not None and tuple(shape) != wanted:
        raise FileFormatError(
            f"{name!r} holds an array of shape {tuple(shape)[:8]}, but the reference grid and the layout ask for "
            f"{wanted}."
        )


TAKES = frozenset({"layout", "components", "convention", "frame"})
FORMAT = Format(
    "numpy",
    read_array_field,
    lambda head, suffix: BY_SIGNATURE if head.startswith((b"\x93NUMPY", b"PK\x03\x04")) else NO,
    TAKES,
    on_reference=True,
)
