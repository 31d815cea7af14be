"""QuPath's GeoJSON: points of one image in pixels, whose corner (not centre) is 0, so that 0.5 is the first centre.

A file is a ``FeatureCollection``, a list of features, or one feature. ``Point`` and ``MultiPoint`` geometries are
points; ``properties.name`` names them. Other geometries are not landmarks and are refused.
"""

from __future__ import annotations

import json
import re
from typing import Any

from warpgauge.io.formats import Files
from warpgauge.io.landmarks.base import NAMES, SPECIFICATION, Format, Side, Start, Table, stack
from warpgauge.io.landmarks.text import coordinates, fail, load_json, shown, words

_CORNER = 0.5


def _fits(start: Start) -> bool:
    # Quotes within a name are escaped, so this stands in no other JSON.
    return start.line.startswith(("{", "[")) and re.search(r'"type"\s*:\s*"Feature', start.text) is not None


def _parse(text: str, name: str, d: int | None) -> Table:
    content = load_json(text, name)
    if isinstance(content, dict) and content.get("type") == "FeatureCollection":
        content = content.get("features")
    points: list[list[float]] = []
    names: list[str] = []
    for number, feature in enumerate(content if isinstance(content, list) else [content], start=1):
        geometry = feature.get("geometry") if isinstance(feature, dict) else None
        if not isinstance(geometry, dict):
            fail(name, None, f"feature {number} has no geometry", "export the points again")
        kind = geometry.get("type")
        if kind not in ("Point", "MultiPoint"):
            fail(name, None, f"feature {number} is a {shown(kind)}, not a Point", "export point annotations only")
        placed = geometry.get("coordinates")
        placed = [placed] if kind == "Point" else placed
        if not isinstance(placed, list) or not all(isinstance(point, list) and len(point) == 2 for point in placed):
            fail(name, None, f"the coordinates of feature {number} are not x and y", "export the points again")
        properties = feature.get("properties")
        label = properties.get("name") if isinstance(properties, dict) else None
        for point in placed:
            points.append(coordinates(map(str, point), name, 1))
            names.append(words(label, name, 1) if isinstance(label, str) else "")
    return Table(
        fixed=Side(stack(points, name) - _CORNER, "index", names=tuple(names) if any(names) else None),
        assumptions=["Coordinates are pixels of the full image, whose corner is 0, as QuPath writes them."],
    )


def _render(table: Table) -> str:
    features: list[dict[str, Any]] = []
    for row, point in enumerate(table.fixed.points + _CORNER):
        properties = {"objectType": "annotation"}
        if table.fixed.names and table.fixed.names[row]:
            properties["name"] = table.fixed.names[row]
        geometry = {"type": "Point", "coordinates": point.tolist()}
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1) + "\n"


FORMAT = Format(
    name="qupath",
    title="QuPath GeoJSON file",
    written=(
        Files("QuPath", ".geojson", "0.5", "one file per image", "pixels from the corner", "px", SPECIFICATION),
    ),
    fits=_fits,
    parse=_parse,
    render=_render,
    frames=("index",),
    endings=(".geojson",),
    holds=frozenset({NAMES}),
    dimensions=(2,),
    pixels=True,
    scalable=True,
)  # fmt: skip
