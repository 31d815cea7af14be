"""elastix: transform parameter files, and their chains of initial transforms ``T1(T0(x))``, ``T0`` the initial one.

``GridDirection`` is stored by columns, affine matrices by rows. Parameter files, of the old text form or TOML, are read
as tables of texts.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from warpgauge.errors import FileFormatError, InvalidInputError, say, warn_suspicious
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import allowed, finite_numbers, one_line, read_text
from warpgauge.io.transforms.itk import grid_of_numbers, turn_2d, turn_euler, turn_versor
from warpgauge.io.transforms.lattice import BSplineTransform, LandmarkSpline
from warpgauge.io.transforms.meaning import Options
from warpgauge.io.transforms.transform import AffineTransform, Chain, Transform, centred

_NO_INITIAL = "NoInitialTransform"
_INITIAL_KEYS = ("InitialTransformParameterFileName", "InitialTransformParametersFileName")
_LONGEST_CHAIN = 50
_TEXT = re.compile(rb"^\s*\(\s*[A-Za-z]\w*\s+\S", re.MULTILINE)
_TOML = re.compile(rb"^\s*[A-Za-z]\w*\s*=\s*\S", re.MULTILINE)
_NOTES = ("elastix maps fixed points to moving points in the world of the images (LPS in 3D).",)
_KNOWN = (
    "TranslationTransform, EulerTransform, SimilarityTransform, AffineTransform, AffineLogTransform, "
    "BSplineTransform, RecursiveBSplineTransform and SplineKernelTransform"
)
_INSTEAD = {
    "DeformationFieldTransform": "give the field that DeformationFieldFileName names",
    "File": "give the ITK file that TransformFileName names",
}


def is_elastix(head: bytes, suffix: str) -> bool:
    """Return whether a file looks like transform parameters, in text or TOML."""
    if b"\0" in head:
        return False
    toml = _TOML.search(head) is not None and (suffix == ".toml" or b"Transform" in head)
    return toml or _TEXT.search(head) is not None


def read_elastix(path: Path, options: Options) -> Transform:
    """Read a transform parameter file, the last of a chain, and all the initial transforms that it names.

    The grids of the images are used only where the file ignored their directions.
    """
    tables = _tables(path)
    members: list[Transform] = []
    notes = [note for _, note in tables if note]
    for table, _ in tables:
        member = _transform(table)
        if members and members[0].d != member.d:
            raise FileFormatError(f"{table.path.name!r} is {member.d}D, but its initial transform is {members[0].d}D.")
        members.append(member)
    transform = members[0] if len(members) == 1 else Chain(members)
    transform = transform.described(*notes)
    for table, _ in tables:
        if not table.flag("UseDirectionCosines", True):
            return _with_directions(transform, table, options)
    return transform


def initial_files(path: Path) -> list[Path]:
    """List the files that a parameter file draws in, itself not included."""
    return [table.path.resolve() for table, _ in _tables(path)[:-1]]


def _tables(path: Path) -> list[tuple[ParameterTable, str]]:
    """Return the parameter files of a chain, the initial one first, and what is said of where each was found."""
    chain: list[tuple[ParameterTable, str]] = []
    seen: list[Path] = []
    note = ""
    while True:
        if path.resolve() in seen:
            names = " -> ".join(file.name for file in (*seen, path))
            raise FileFormatError(
                f"{path.name!r} names itself as its initial transform through {names}; break the circle."
            )
        if len(seen) >= _LONGEST_CHAIN:
            raise FileFormatError(
                f"{path.name!r} ends a chain of {_LONGEST_CHAIN} initial transforms; that is too long."
            )
        seen.append(path.resolve())
        table = read_parameters(path)
        chain.insert(0, (table, note))
        recorded = [table.text(key) for key in _INITIAL_KEYS if key in table]
        if len(set(recorded)) > 1:
            raise FileFormatError(f"{path.name!r} names two initial transforms, {recorded[0]!r} and {recorded[1]!r}.")
        if not recorded or recorded[0] == _NO_INITIAL:
            return chain
        how = table.text("HowToCombineTransforms", "Compose")
        if how != "Compose":
            advice = "; write the field with transformix -def all" if how == "Add" else ""
            raise FileFormatError(
                f"{path.name!r}: HowToCombineTransforms must be 'Compose' to be read, got {how[:40]!r}{advice}."
            )
        path, note = beside(table.path, recorded[0], "initial transform")


def _with_directions(transform: Transform, table: ParameterTable, options: Options) -> Transform:
    """Account for ``UseDirectionCosines "false"``: elastix then worked with ``origin + spacing * index``."""
    d = transform.d
    if options.reference is not None and options.moving is not None:
        chain = Chain([_drop_direction(options.reference), transform, _drop_direction(options.moving).inverse()])
        note = "Registered without directions (UseDirectionCosines false); those of the given grids are put back."
        return chain.described(note, assumptions=transform.description.assumptions)
    note = (
        'UseDirectionCosines is "false": points are origin + spacing * index of each image, its direction ignored; '
        f"give {say('reference')} and {say('moving')} to map true world points."
    )
    direction = table.numbers("Direction", d * d).reshape(d, d).T if "Direction" in table else np.eye(d)
    if not np.allclose(direction, np.eye(d), atol=1e-6):
        warn_suspicious(f"{table.path.name}: {note}")
    return transform.described(note, frame="world without direction cosines")


def _drop_direction(grid: Grid) -> AffineTransform:
    """Return the map from the true world to the one that ignores the direction: same index, direction = identity."""
    back = np.linalg.inv(grid.direction)
    return AffineTransform(back, grid.origin - back @ grid.origin, "direction removed")


def _transform(table: ParameterTable) -> Transform:
    """Build the transform of one file, without its initial transform."""
    name = table.path.name
    kind = table.text("Transform")
    d = table.integer("FixedImageDimension", table.integer("MovingImageDimension", 0))
    if d not in (2, 3) or table.integer("MovingImageDimension", d) != d:
        raise FileFormatError(
            f"{name!r} is for images of {table.text('FixedImageDimension', '?')} and "
            f"{table.text('MovingImageDimension', '?')} dimensions, but both must be 2 or both 3."
        )
    if kind in _INSTEAD:
        raise FileFormatError(f"{name!r} is a {kind} of elastix, which is not read; {_INSTEAD[kind]}.")
    try:
        if kind in ("BSplineTransform", "RecursiveBSplineTransform"):
            return _bspline(table, d)
        if kind == "SplineKernelTransform":
            return _landmark_spline(table, d)
        return _linear(table, kind, d)
    except InvalidInputError as error:
        raise FileFormatError(f"{name!r}: its {kind} is not valid: {str(error).rstrip('.')}.") from error


def _parameters(table: ParameterTable, count: int | None = None) -> Floats:
    """Return the parameters, of which the file may promise a number, and the kind of the transform another."""
    name = table.path.name
    if table.flag("UseBinaryFormatForTransformationParameters", False):
        raise FileFormatError(
            f"{name!r} keeps its parameters in a binary file, which is not read; write it again with "
            f'(UseBinaryFormatForTransformationParameters "false").'
        )
    values = table.numbers("TransformParameters")
    promised = table.integer("NumberOfParameters", values.size)
    if promised != values.size:
        raise FileFormatError(
            f"{name!r} promises {promised} TransformParameters, but has {values.size}; it is truncated or was edited."
        )
    if count is not None and values.size != count:
        raise FileFormatError(
            f"{name!r}: a transform of this kind and dimension has {count} parameters, but the file has {values.size}."
        )
    return values


def _linear(table: ParameterTable, kind: str, d: int) -> Transform:
    from scipy.linalg import expm

    if kind == "TranslationTransform":
        return AffineTransform(np.eye(d), _parameters(table, d), "translation", notes=_NOTES)
    if kind == "EulerTransform":
        p = _parameters(table, 3 if d == 2 else 6)
        matrix = turn_2d(p[0]) if d == 2 else turn_euler(p[:3], table.flag("ComputeZYX", False))
        shift = p[-d:]
    elif kind == "SimilarityTransform":
        p = _parameters(table, 4 if d == 2 else 7)
        matrix = p[0] * turn_2d(p[1]) if d == 2 else p[6] * turn_versor(p[:3])
        shift = p[2:] if d == 2 else p[3:6]
    elif kind in ("AffineTransform", "AffineLogTransform"):
        p = _parameters(table, d * d + d)
        matrix = p[: d * d].reshape(d, d)
        if kind == "AffineLogTransform":
            matrix = np.asarray(expm(matrix))
        shift = p[d * d :]
    else:
        raise FileFormatError(f"{table.path.name!r} holds a {kind[:60]!r}, which is not read; known are {_KNOWN}.")
    matrix, offset = centred(matrix, table.numbers("CenterOfRotationPoint", d), shift)
    return AffineTransform(matrix, offset, f"{kind.removesuffix('Transform')} (affine)", notes=_NOTES)


def _bspline(table: ParameterTable, d: int) -> Transform:
    name = table.path.name
    if table.flag("UseCyclicTransform", False):
        raise FileFormatError(f"{name!r} is a cyclic B-spline (over time), which is not read.")
    size = table.numbers("GridSize", d)
    values = _parameters(table)
    if d * float(np.prod(size)) != values.size:
        raise FileFormatError(
            f"{name!r}: a control grid of {' x '.join(f'{n:g}' for n in size)} needs {d * np.prod(size):.0f} "
            f"parameters, but the file has {values.size}."
        )
    # elastix writes matrices by columns; files older than 4.2 have no GridDirection.
    direction = table.numbers("GridDirection", d * d).reshape(d, d).T if "GridDirection" in table else np.eye(d)
    grid = grid_of_numbers(size, table.numbers("GridSpacing", d), table.numbers("GridOrigin", d), direction)
    if "GridIndex" in table:
        grid = replace(grid, origin=grid.index_to_world(table.numbers("GridIndex", d)))
    order = table.integer("BSplineTransformSplineOrder", 3)
    return BSplineTransform(values.reshape(d, *grid.shape), grid, order, notes=_NOTES)


def _landmark_spline(table: ParameterTable, d: int) -> Transform:
    kernel = table.text("SplineKernelType")
    target = _parameters(table)
    source = table.numbers("FixedImageLandmarks")
    if source.size != target.size or source.size == 0 or source.size % d:
        raise FileFormatError(
            f"{table.path.name!r} has {source.size} numbers of fixed landmarks and {target.size} of moving ones, but "
            f"both must be the same multiple of {d}."
        )
    return LandmarkSpline(
        source.reshape(-1, d),
        target.reshape(-1, d),
        kernel if d == 3 else "ThinPlateR2LogRSpline",  # the only one that elastix has in 2D, whatever the file says
        stiffness=table.number("SplineRelaxationFactor", 0.0),
        notes=_NOTES,
    )


_TOKEN = re.compile(r'"([^"]*)"|([^\s"]+)')
_KEY = re.compile(r"[A-Za-z_]\w*\Z")
_TEXT_LIMIT = 2**28


class ParameterTable:
    """Values of one parameter file by key, texts or numbers, with errors that name the file."""

    def __init__(self, path: Path, values: dict[str, list[Any]]) -> None:
        self.path = path
        self._values = values

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str, default: str | None = None) -> str:
        """Return the one value of a key, or the default where the key is missing."""
        values = self._values.get(key)
        if values is None or not values:
            if default is None:
                raise FileFormatError(f"{self.path.name!r} has no value of {key!r}, which its transform needs.")
            return default
        return _plain(values[0])

    def flag(self, key: str, default: bool) -> bool:
        """Return a value that is "true" or "false"."""
        text = self.text(key, "true" if default else "false").lower()
        if text not in ("true", "false"):
            raise FileFormatError(f'{self.path.name!r}: {key!r} must be "true" or "false", got {text[:40]!r}.')
        return text == "true"

    def numbers(self, key: str, count: int | None = None) -> Floats:
        """Return finite numbers of a key, ``count`` of them where that is given."""
        if key not in self._values:
            raise FileFormatError(f"{self.path.name!r} has no value of {key!r}, which its transform needs.")
        return finite_numbers(self._values[key], self.path.name, f"the values of {key!r}", count).reshape(-1)

    def number(self, key: str, default: float) -> float:
        """Return one finite number, or the default where the key is missing."""
        return float(self.numbers(key, 1)[0]) if key in self._values else default

    def integer(self, key: str, default: int) -> int:
        """Return one integer, or the default where the key is missing."""
        value = self.number(key, default)
        if value != int(value):
            raise FileFormatError(f"{self.path.name!r}: {key!r} must be an integer, got {value:g}.")
        return int(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_parameters(path: Path) -> ParameterTable:
    """Read a parameter file of elastix, in text or TOML form by its content."""
    text = read_text(path, "elastix parameter file", _TEXT_LIMIT)
    if path.suffix.lower() == ".toml" or not text.lstrip().startswith(("(", "//")):
        return ParameterTable(path, _toml(text, path.name))
    return ParameterTable(path, _classic(text, path.name))


def _toml(text: str, name: str) -> dict[str, list[Any]]:
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{name!r} is neither an elastix text nor a TOML file: {one_line(error)}.") from error
    return {key: value if isinstance(value, list) else [value] for key, value in table.items()}


def _classic(text: str, name: str) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _without_comment(raw).strip()
        if not line:
            continue
        if not (line.startswith("(") and line.endswith(")")):
            raise FileFormatError(f"{name!r}, line {number}: expected '(Key values)', got {line[:60]!r}.")
        key, entries = _entry(line[1:-1], name, number)
        if key in values:
            raise FileFormatError(f"{name!r}, line {number}: {key!r} appears twice; remove one.")
        values[key] = entries
    return values


def _without_comment(line: str) -> str:
    """Cut a line at the first ``//`` that does not stand within quotation marks."""
    if "//" not in line:
        return line
    parts = line.split('"')
    for i in range(0, len(parts), 2):  # every second part lies within quotation marks
        if "//" in parts[i]:
            return '"'.join([*parts[:i], parts[i].partition("//")[0]])
    return line


def _entry(body: str, name: str, line: int) -> tuple[str, list[Any]]:
    if body.count('"') % 2:
        raise FileFormatError(f"{name!r}, line {line}: a quotation mark is missing.")
    if '"' in body:
        tokens = [quoted or bare for quoted, bare in _TOKEN.findall(body)]
    else:
        tokens = body.split()
    if len(tokens) < 2 or _KEY.match(tokens[0]) is None:
        raise FileFormatError(f"{name!r}, line {line}: expected a key and at least one value within the brackets.")
    return tokens[0], list(tokens[1:])


def beside(file: Path, recorded: str, what: str) -> tuple[Path, str]:
    """Find a file that another one names, and say where it was found if that is not where it was recorded.

    An absolute name is taken as it is where such a file exists. Otherwise the name is looked up from the folder of the
    naming file, not from the current one, and then its last part alone: files travel without their folders.
    """
    if recorded.isdigit():
        raise FileFormatError(
            f"{file.name!r} names its {what} by the number {recorded[:20]} instead of a file, as elastix does in "
            f"memory; write the name of that file there, or read the files one by one and join them with Chain."
        )
    # The last part by the rules of Windows, which split at both kinds of slash.
    bare = PureWindowsPath(recorded).name
    note = f"The {what} is recorded as {recorded!r}, which is not there; {bare!r} next to {file.name!r} is used."
    try:
        # Joining an absolute name gives that name, whatever stands before it.
        if allowed(file.parent / recorded) and (file.parent / recorded).is_file():
            return file.parent / recorded, ""
        if bare and allowed(file.parent / bare) and (file.parent / bare).is_file():
            return file.parent / bare, note
    except (OSError, ValueError):
        pass  # a recorded text that no file system takes as a name is simply not found
    raise FileFormatError(
        f"{file.name!r} names the {what} {recorded[:120]!r}, which is neither there nor next to it; copy it beside "
        f"{file.name!r}."
    )
