"""QuPath's GeoJSON: points of one image in pixels, whose corner (not centre) is 0, so that 0.5 is the first centre.

A file is a ``FeatureCollection``, a list of features, or one feature. ``Point`` and ``MultiPoint`` geometries are
points; ``properties.name`` names them. Other geometries are not landmarks and are refused.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from warpgauge.io.landmarks.base import NAMES, Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.text import coordinates, fail, load_json, shown, words

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


def _parse(text: str, name: str, d: int | None) -> Table:
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


def _render(table: Table) -> str:
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


FORMAT = Format(
    name="qupath",
    title="QuPath GeoJSON file",
    parse=_parse,
    render=_render,
    write_frame=one_frame("index"),
    holds=frozenset({NAMES}),
    dimensions=(2,),
    pixels=True,
    scalable=True,
)
