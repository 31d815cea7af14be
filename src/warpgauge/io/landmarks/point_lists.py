"""Lists of points, one file per image: DIR-Lab, transformix, QuPath's GeoJSON, and 3D Slicer's markups."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from warpgauge.display import counted
from warpgauge.geometry import Floats
from warpgauge.io.landmarks.base import NAMES, PENDING, FileFrame, Format, Side, Table, one_frame, stack, world_frame
from warpgauge.io.landmarks.model import LARGEST_COORDINATE
from warpgauge.io.landmarks.text import (
    coordinates,
    csv_rows,
    csv_text,
    fail,
    lines,
    load_json,
    number_text,
    shown,
    words,
)

# DIR-Lab landmarks (4DCT, COPDgene): one text file per image, three voxel indices per line, counted from 1.


def _parse_dirlab(text: str, name: str, d: int | None) -> Table:
    """Read the landmarks of one image."""
    rows = []
    for line, content in lines(text):
        tokens = content.split()
        if len(tokens) != 3:
            fail(
                name,
                line,
                f"{counted(len(tokens), 'column')}, but a DIR-Lab file has 3",
                "the file is cut or another format",
            )
        rows.append(coordinates(tokens, name, line))
    return Table(
        fixed=Side(stack(rows, name), "index1"),
        assumptions=["Coordinates are voxel indices x, y, z counted from 1; rows correspond."],
    )


def _render_dirlab(table: Table) -> str:
    """Write the landmarks of one image, separated by tabs."""
    return "".join("\t".join(number_text(value) for value in point) + "\n" for point in table.fixed.points)


DIRLAB = Format(
    name="dirlab",
    title="DIR-Lab text file",
    pairs=False,
    parse=_parse_dirlab,
    render=_render_dirlab,
    write_frame=one_frame("index1"),
    holds=frozenset(),
    dimensions=(3,),
)


# transformix point files: ``point`` (world) or ``index`` (voxels), the number of points, then one point per line.
#
# Without the keyword the file holds indices. transformix rounds indices to whole voxels; this reader does not.

TRANSFORMIX_KEYWORDS = ("point", "index")


def _parse_transformix(text: str, name: str, d: int | None) -> Table:
    """Read the points of one image."""
    content = lines(text)
    keyword = content[0][1] if content and content[0][1] in TRANSFORMIX_KEYWORDS else None
    rows = content[1:] if keyword else content
    if not rows or not (rows[0][1].isascii() and rows[0][1].isdigit() and len(rows[0][1]) < 12):
        found = shown(rows[0][1]) if rows else "the end of the file"
        fail(name, rows[0][0] if rows else None, f"the number of points should stand here, but there is {found}")
    count, body = int(rows[0][1]), rows[1:]
    if len(body) != count:
        fail(
            name,
            rows[0][0],
            f"the file announces {counted(count, 'point')} and holds {len(body)}",
            "it is cut or was edited",
        )
    points: list[list[float]] = []
    for line, row in body:
        tokens = row.split()
        if len(tokens) not in (2, 3) or len(tokens) != len(points[0] if points else tokens):
            fail(name, line, f"{counted(len(tokens), 'coordinate')}, but every point needs the same 2 or 3")
        points.append(coordinates(tokens, name, line))
    return _transformix_table(stack(points, name), keyword)


def _transformix_table(points: Floats, keyword: str | None) -> Table:
    assumptions = []
    if keyword is None:
        assumptions.append("The file has neither 'point' nor 'index'; as transformix does, its numbers are indices.")
    if keyword != "point" and np.any(points != np.round(points)):
        assumptions.append("Some indices lie between voxels; transformix itself would round them.")
    world: FileFrame = "LPS" if points.shape[1] == 3 else "image"
    side = Side(points, world if keyword == "point" else "index", frame_stated=keyword is not None)
    return Table(fixed=side, assumptions=assumptions)


def _render_transformix(table: Table) -> str:
    """Write the points of one image."""
    keyword = "index" if table.fixed.frame == "index" else "point"
    rows = (" ".join(number_text(value) for value in point) for point in table.fixed.points)
    return "\n".join([keyword, str(len(table)), *rows]) + "\n"


TRANSFORMIX = Format(
    name="transformix",
    title="transformix point file",
    pairs=False,
    parse=_parse_transformix,
    render=_render_transformix,
    write_frame=world_frame("index", "LPS", "image"),
    holds=frozenset(),
)


# QuPath's GeoJSON: points of one image in pixels, whose corner (not centre) is 0, so that 0.5 is the first centre.
#
# A file is a ``FeatureCollection``, a list of features, or one feature. ``Point`` and ``MultiPoint`` geometries are
# points; ``properties.name`` names them. Other geometries are not landmarks and are refused.

_CORNER = 0.5


def is_geojson(content: Any) -> bool:
    """Return whether parsed JSON is GeoJSON."""
    first = content[0] if isinstance(content, list) and content else content
    return isinstance(first, dict) and first.get("type") in ("FeatureCollection", "Feature")


def _features(content: Any, name: str) -> list[Any]:
    if isinstance(content, dict) and content.get("type") == "FeatureCollection":
        content = content.get("features")
    features = content if isinstance(content, list) else [content]
    for number, one in enumerate(features, start=1):
        if not isinstance(one, dict) or not isinstance(one.get("geometry"), dict):
            fail(name, None, f"feature {number} has no geometry", "export the points again")
    return features


def _parse_geojson(text: str, name: str, d: int | None) -> Table:
    """Read the points of one image."""
    points: list[list[float]] = []
    names: list[str] = []
    for number, feature in enumerate(_features(load_json(text, name), name), start=1):
        geometry, kind = feature["geometry"], feature["geometry"].get("type")
        if kind not in ("Point", "MultiPoint"):
            fail(name, None, f"feature {number} is a {shown(kind)}, not a Point", "export point annotations only")
        placed = geometry.get("coordinates")
        placed = [placed] if kind == "Point" else placed
        if not isinstance(placed, list) or not all(isinstance(one, list) and len(one) == 2 for one in placed):
            fail(name, None, f"the coordinates of feature {number} are not x and y", "export the points again")
        properties = feature.get("properties")
        label = properties.get("name", "") if isinstance(properties, dict) else ""
        label = words(label if isinstance(label, str) else "", name, 1)
        for one in placed:
            points.append(coordinates([str(value) for value in one], name, 1))
            names.append(label)
    return Table(
        fixed=Side(stack(points, name) - _CORNER, "index", names=tuple(names) if any(names) else None),
        assumptions=["Coordinates are pixels of the full image, whose corner is 0, as QuPath writes them."],
    )


def _render_geojson(table: Table) -> str:
    """Write the points of one image as QuPath reads them."""
    side = table.fixed
    features = []
    for row, point in enumerate(np.asarray(side.points) + _CORNER):
        label = side.names[row] if side.names else ""
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": point.tolist()},
                "properties": {"objectType": "annotation", **({"name": label} if label else {})},
            }
        )
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1) + "\n"


GEOJSON = Format(
    name="qupath",
    title="QuPath GeoJSON file",
    pairs=False,
    parse=_parse_geojson,
    render=_render_geojson,
    write_frame=one_frame("index"),
    holds=frozenset({NAMES}),
    dimensions=(2,),
    pixels=True,
    scalable=True,
)


# 3D Slicer's point lists: ``.mrk.json`` and the older ``.fcsv``, one file per image, LPS or RAS in mm.
#
# In ``.fcsv`` the second line names the frame; old versions wrote 0 for RAS and 1 for LPS. A control point whose status
# is not "defined" has no position yet and is kept as a pending row.

_SLICER_SCHEMA = (
    "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/"
    "markups-schema-v1.0.3.json#"
)
_FRAME_WORDS: dict[str, FileFrame] = {"LPS": "LPS", "RAS": "RAS", "1": "LPS", "0": "RAS"}
_FCSV_COLUMNS = "id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID"
_DEFINED = "2"  # the code of a placed point in the unnamed 15th column of newer .fcsv files
_LABEL, _STATUS = 11, 14


def _parse_slicer_json(text: str, name: str, d: int | None) -> Table:
    """Read the one point list of a ``.mrk.json`` file."""
    content = load_json(text, name)
    markups = content.get("markups") if isinstance(content, dict) else None
    if not isinstance(markups, list) or not all(isinstance(markup, dict) for markup in markups):
        fail(name, None, "has no list 'markups'", "this is not a Slicer .mrk.json file")
    lists = [markup for markup in markups if markup.get("type") == "Fiducial"]
    if len(lists) != 1:
        kinds = shown([markup.get("type") for markup in markups])
        fail(name, None, f"{len(lists)} point lists (types {kinds}), but one is read", "save each list to its own file")
    markup = lists[0]
    controls = markup.get("controlPoints")
    if not isinstance(controls, list) or not all(isinstance(control, dict) for control in controls):
        fail(name, None, "the point list has no list 'controlPoints'", "export it again")
    frame = markup.get("coordinateSystem")
    if frame not in ("LPS", "RAS", None):
        fail(name, None, f"the coordinate system is {shown(frame)}, not LPS or RAS", "export it again")
    assumptions = [] if frame else ["The file does not name its coordinate system; Slicer's default is LPS."]
    points = stack([_json_point(control, name, row) for row, control in enumerate(controls)], name)
    names = tuple(_json_label(control, name, row) for row, control in enumerate(controls))
    return Table(
        fixed=Side(points, frame or "LPS", frame is not None, _json_units(markup, name), names if any(names) else None),
        assumptions=assumptions,
    )


def _json_point(control: dict[str, Any], name: str, row: int) -> list[float]:
    if control.get("positionStatus", "defined") != "defined":
        return [math.nan] * 3
    position = control.get("position")
    good = isinstance(position, list) and len(position) == 3
    if not good or not all(type(x) in (int, float) and abs(x) <= LARGEST_COORDINATE for x in position or []):
        fail(name, None, f"the position of control point {row} (from 0) is {shown(position)}, not 3 finite numbers")
    return [float(x) for x in position or []]


def _json_label(control: dict[str, Any], name: str, row: int) -> str:
    label = control.get("label", "")
    if not isinstance(label, str):
        fail(name, None, f"the label of control point {row} (from 0) is {shown(label)}, not text")
    return words(label, name, None)


def _json_units(markup: dict[str, Any], name: str) -> str | None:
    units = markup.get("coordinateUnits")
    if isinstance(units, list) and units:
        units = units[0]  # the coded form is [code, coding scheme, meaning]
    if units not in ("mm", "um", None):
        fail(name, None, f"the coordinate units are {shown(units)}, not mm or um", "export it again")
    return str(units) if units else None


def _render_slicer_json(table: Table) -> str:
    """Write one point list."""
    side = table.fixed
    markup: dict[str, Any] = {"type": "Fiducial", "coordinateSystem": side.frame}
    if side.units in ("mm", "um"):
        markup["coordinateUnits"] = side.units
    markup["controlPoints"] = [_control(side, row) for row in range(len(table))]
    return (
        json.dumps({"@schema": _SLICER_SCHEMA, "markups": [markup]}, indent=1, ensure_ascii=False, allow_nan=False)
        + "\n"
    )


def _control(side: Side, row: int) -> dict[str, Any]:
    placed = not np.any(np.isnan(side.points[row]))
    control: dict[str, Any] = {"id": str(row + 1), "label": side.names[row] if side.names else ""}
    if placed:
        control["position"] = side.points[row].tolist()
    return control | {"positionStatus": "defined" if placed else "undefined"}


def _parse_fcsv(text: str, name: str, d: int | None) -> Table:
    """Read an ``.fcsv`` file."""
    header = [(line, content) for line, content in lines(text) if content.startswith("#")]
    frame, stated = _fcsv_frame(header, name)
    body = [(line, fields) for line, fields in csv_rows(text, name) if not fields[0].startswith("#")]
    points, names = [], []
    for line, fields in body:
        if len(fields) <= _LABEL:
            fail(
                name,
                line,
                f"{counted(len(fields), 'field')}, but an .fcsv row has at least {_LABEL + 1}",
                "the row is cut",
            )
        placed = len(fields) <= _STATUS or fields[_STATUS].strip() in ("", _DEFINED)
        points.append(coordinates(fields[1:4], name, line) if placed else [math.nan] * 3)
        names.append(words(fields[_LABEL], name, line))
    return Table(fixed=Side(stack(points, name), frame, stated, names=tuple(names) if any(names) else None))


def _fcsv_frame(header: list[tuple[int, str]], name: str) -> tuple[FileFrame, bool]:
    if not header:
        fail(name, 1, "the header lines that begin with '#' are missing", "this is not an .fcsv file of Slicer")
    for line, content in header:
        key, _, value = content.lstrip("# ").partition("=")
        if key.strip() == "columns" and value.strip() != _FCSV_COLUMNS:
            fail(name, line, f"the columns are {shown(value.strip())}", f"Slicer writes {_FCSV_COLUMNS}")
        if key.strip() == "CoordinateSystem":
            word = value.strip()
            if word not in _FRAME_WORDS:
                fail(name, line, f"the coordinate system is {shown(word)}, not LPS, RAS, 0 or 1", "export it again")
            return _FRAME_WORDS[word], True
    return "unknown", False


def _render_fcsv(table: Table) -> str:
    """Write an ``.fcsv`` file; unplaced points get the status column of newer versions."""
    side, rows = table.fixed, []
    for row, (point, placed) in enumerate(zip(side.points, side.placed, strict=True)):
        numbers = [number_text(value) for value in point] if placed else ["0", "0", "0"]
        label = side.names[row] if side.names else ""
        status = [] if np.all(side.placed) else [_DEFINED if placed else "0", "0"]
        rows.append([str(row + 1), *numbers, "0", "0", "0", "1", "1", "1", "0", label, "", "", *status])
    header = ["Markups fiducial file version = 4.11", f"CoordinateSystem = {side.frame}", f"columns = {_FCSV_COLUMNS}"]
    return "".join(f"# {line}\n" for line in header) + csv_text(rows)


SLICER_JSON = Format(
    name="slicer-json",
    title="Slicer .mrk.json file",
    pairs=False,
    parse=_parse_slicer_json,
    render=_render_slicer_json,
    write_frame=one_frame("LPS", "RAS"),
    holds=frozenset({NAMES, PENDING}),
    dimensions=(3,),
)
SLICER_FCSV = Format(
    name="slicer-fcsv",
    title="Slicer .fcsv file",
    pairs=False,
    parse=_parse_fcsv,
    render=_render_fcsv,
    write_frame=one_frame("LPS", "RAS"),
    holds=frozenset({NAMES, PENDING}),
    dimensions=(3,),
)
