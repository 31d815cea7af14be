"""3D Slicer's point lists: ``.mrk.json`` and the older ``.fcsv``, one file per image, LPS or RAS in mm.

In ``.fcsv`` the second line names the frame; old versions wrote 0 for RAS and 1 for LPS. A control point whose status
is not "defined" has no position yet and is kept as a pending row.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np

from warpgauge.display import counted, csv_text
from warpgauge.io.landmarks.base import NAMES, PENDING, FileFrame, Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.model import LARGEST_COORDINATE
from warpgauge.io.landmarks.text import (
    coordinates,
    csv_rows,
    fail,
    lines,
    load_json,
    number_text,
    shown,
    words,
)

_SCHEMA = (
    "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/"
    "markups-schema-v1.0.3.json#"
)
_FRAME_WORDS: dict[str, FileFrame] = {"LPS": "LPS", "RAS": "RAS", "1": "LPS", "0": "RAS"}
_FCSV_COLUMNS = "id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID"
_DEFINED = "2"  # the code of a placed point in the unnamed 15th column of newer .fcsv files
_LABEL, _STATUS = 11, 14


def _parse_json(text: str, name: str, d: int | None) -> Table:
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


def _render_json(table: Table) -> str:
    """Write one point list."""
    side = table.fixed
    markup: dict[str, Any] = {"type": "Fiducial", "coordinateSystem": side.frame}
    if side.units in ("mm", "um"):
        markup["coordinateUnits"] = side.units
    markup["controlPoints"] = [_control(side, row) for row in range(len(table))]
    return json.dumps({"@schema": _SCHEMA, "markups": [markup]}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


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


JSON = Format(
    name="slicer-json",
    title="Slicer .mrk.json file",
    parse=_parse_json,
    render=_render_json,
    write_frame=one_frame("LPS", "RAS"),
    holds=frozenset({NAMES, PENDING}),
    dimensions=(3,),
)
FCSV = replace(JSON, name="slicer-fcsv", title="Slicer .fcsv file", parse=_parse_fcsv, render=_render_fcsv)
