"""3D Slicer's point lists: ``.mrk.json`` and the older ``.fcsv`` (only read), one file per image, LPS or RAS in mm.

In ``.fcsv`` the second line names the frame; old versions wrote 0 for RAS and 1 for LPS. A control point whose status
is not "defined" has no position yet.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from warpgauge.display import counted
from warpgauge.io.formats import Files
from warpgauge.io.landmarks.base import NAMES, SPECIFICATION, FileFrame, Format, Side, Table, stack
from warpgauge.io.landmarks.model import LARGEST_COORDINATE
from warpgauge.io.landmarks.text import coordinates, csv_rows, fail, lines, load_json, shown, words

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
    units = markup.get("coordinateUnits")
    if isinstance(units, list) and units:
        units = units[0]  # the coded form is [code, coding scheme, meaning]
    if units not in ("mm", "um", None):
        fail(name, None, f"the coordinate units are {shown(units)}, not mm or um", "export it again")
    points = stack([_position(control, name, row) for row, control in enumerate(controls)], name)
    names = []
    for row, control in enumerate(controls):
        label = control.get("label", "")
        if not isinstance(label, str):
            fail(name, None, f"the label of control point {row} (from 0) is {shown(label)}, not text")
        names.append(words(label, name, None))
    return Table(
        fixed=Side(points, frame or "LPS", frame is not None, units, tuple(names) if any(names) else None),
        presumed=[] if frame else ["The file does not name its coordinate system; Slicer's default is LPS."],
    )


def _position(control: dict[str, Any], name: str, row: int) -> list[float]:
    if control.get("positionStatus", "defined") != "defined":
        return [math.nan] * 3
    position = control.get("position")
    numbers = position if isinstance(position, list) else []
    if len(numbers) != 3 or not all(type(x) in (int, float) and abs(x) <= LARGEST_COORDINATE for x in numbers):
        fail(name, None, f"the position of control point {row} (from 0) is {shown(position)}, not 3 finite numbers")
    return [float(x) for x in numbers]


def _render_json(table: Table) -> str:
    side = table.fixed
    markup: dict[str, Any] = {"type": "Fiducial", "coordinateSystem": side.frame}
    if side.units in ("mm", "um"):
        markup["coordinateUnits"] = side.units
    markup["controlPoints"] = [
        {
            "id": str(row + 1),
            "label": side.names[row] if side.names else "",
            "position": point.tolist(),
            "positionStatus": "defined",
        }
        for row, point in enumerate(side.points)
    ]
    return json.dumps({"@schema": _SCHEMA, "markups": [markup]}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _parse_fcsv(text: str, name: str, d: int | None) -> Table:
    frame: FileFrame = "unknown"
    header = [(line, content) for line, content in lines(text) if content.startswith("#")]
    if not header:
        fail(name, 1, "the header lines that begin with '#' are missing", "this is not an .fcsv file of Slicer")
    for line, content in header:
        key, _, value = (part.strip() for part in content.lstrip("# ").partition("="))
        if key == "columns" and value != _FCSV_COLUMNS:
            fail(name, line, f"the columns are {shown(value)}", f"Slicer writes {_FCSV_COLUMNS}")
        if key == "CoordinateSystem":
            if value not in _FRAME_WORDS:
                fail(name, line, f"the coordinate system is {shown(value)}, not LPS, RAS, 0 or 1", "export it again")
            frame = _FRAME_WORDS[value]
            break
    points = []
    names = []
    for line, fields in csv_rows(text, name):
        if fields[0].startswith("#"):
            continue
        if len(fields) <= _LABEL:
            problem = f"{counted(len(fields), 'field')}, but an .fcsv row has at least {_LABEL + 1}"
            fail(name, line, problem, "the row is cut")
        placed = len(fields) <= _STATUS or fields[_STATUS].strip() in ("", _DEFINED)
        points.append(coordinates(fields[1:4], name, line) if placed else [math.nan] * 3)
        names.append(words(fields[_LABEL], name, line))
    return Table(Side(stack(points, name), frame, frame != "unknown", names=tuple(names) if any(names) else None))


JSON = Format(
    name="slicer-json",
    title="Slicer .mrk.json file",
    written=(Files("3D Slicer", ".mrk.json", "5", "one file per image", "as stated", "as stated", SPECIFICATION),),
    fits=lambda start: start.line.startswith("{") and '"markups"' in start.text,
    parse=_parse_json,
    render=_render_json,
    frames=("LPS", "RAS"),
    endings=(".mrk.json",),
    holds=frozenset({NAMES}),
    dimensions=(3,),
)
FCSV = Format(
    name="slicer-fcsv",
    title="Slicer .fcsv file",
    written=(Files("3D Slicer", ".fcsv", "5", "one file per image", "as stated", "mm", SPECIFICATION),),
    fits=lambda start: re.match(r"#\s*(Markups|CoordinateSystem|columns)\b", start.line) is not None,
    parse=_parse_fcsv,
    endings=(".fcsv",),
    dimensions=(3,),
)
