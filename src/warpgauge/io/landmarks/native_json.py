"""warpgauge's own JSON: everything that `Landmarks` holds, with a versioned schema.

::

    {"format": "warpgauge-landmarks", "version": 1, "dimension": 2, "frame": "image", "units": "um",
     "direction": "fixed_to_moving", "images": {"fixed": {"hash": "sha256:..."}},
     "landmarks": [{"fixed": [1.0, 2.0], "moving": [1.5, 2.5], "name": "a", "rater": "PS",
                    "covariance": [[1, 0], [0, 1]]},
                   {"fixed": [5.0, 2.0], "moving": null},
                   {"fixed": [9.0, 2.0], "moving": [9.0, 3.0],
                    "ellipse": {"half_lengths": [3, 1], "axes": [[1, 0], [0, 1]], "alpha": 0.01}}],
     "skips": [{"fixed": [7.0, 7.0], "reason": "torn tissue", "rater": "PS"}]}

The columns of ``axes`` are the directions of the half-lengths.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, cast

import numpy as np

from warpgauge.core.annotations import confidence_radius
from warpgauge.geometry import UNITS, Floats
from warpgauge.io.landmarks.base import EVERYTHING, FileFrame, Format, Side, Table, world_frame
from warpgauge.io.landmarks.model import DIRECTION, FRAMES, LARGEST_COORDINATE, covariance_problem
from warpgauge.io.landmarks.text import fail, load_json, shown, words

IDENTIFIER = "warpgauge-landmarks"
VERSION = 1
_IMAGES = ("fixed", "moving")


class _Reader:
    """Typed access to the members of a parsed file; each method raises the sentence that names the place."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fail(self, where: str, problem: str) -> NoReturn:
        fail(self.name, None, f"{where} {problem}")

    def mapping(self, value: object, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(where, f"must be an object, got {shown(value)}")
        return value

    def sequence(self, value: object, where: str) -> list[Any]:
        if not isinstance(value, list):
            self.fail(where, f"must be a list, got {shown(value)}")
        return value

    def choice(self, value: object, allowed: tuple[str, ...], where: str) -> str:
        if not isinstance(value, str) or value not in allowed:
            self.fail(where, f"must be one of {', '.join(allowed)}, got {shown(value)}")
        return value

    def text(self, value: object, where: str) -> str:
        if not isinstance(value, str):
            self.fail(where, f"must be text, got {shown(value)}")
        return words(value, self.name, None)

    def numbers(self, value: object, count: int, where: str, largest: float = LARGEST_COORDINATE) -> list[float]:
        items = self.sequence(value, where)
        good = all(type(item) in (int, float) and abs(item) <= largest for item in items)
        if len(items) != count or not good:
            self.fail(where, f"must be {count} finite numbers, got {shown(value)}")
        return [float(item) for item in items]

    def matrix(self, value: object, d: int, where: str, largest: float) -> Floats:
        rows = self.sequence(value, where)
        if len(rows) != d:
            self.fail(where, f"must be {d} rows of {d} numbers, got {len(rows)} rows")
        return np.array([self.numbers(row, d, where, largest) for row in rows])

    def covariance(self, entry: dict[str, Any], d: int, where: str) -> Floats:
        if "covariance" in entry and "ellipse" in entry:
            self.fail(where, "has both a covariance and an ellipse, of which only one may be given")
        if "ellipse" in entry:
            return self.ellipse(self.mapping(entry["ellipse"], f"{where}.ellipse"), d, f"{where}.ellipse")
        if "covariance" not in entry:
            return np.full((d, d), np.nan)
        matrix = self.matrix(entry["covariance"], d, f"{where}.covariance", LARGEST_COORDINATE**2)
        problem = covariance_problem(matrix)
        if problem:
            self.fail(f"{where}.covariance", problem)
        return matrix

    def ellipse(self, entry: dict[str, Any], d: int, where: str) -> Floats:
        half_lengths = np.array(self.numbers(entry.get("half_lengths"), d, f"{where}.half_lengths"))
        axes = self.matrix(entry.get("axes"), d, f"{where}.axes", 2.0)
        alpha = entry.get("alpha", 0.01)
        if type(alpha) is not float or not 1e-12 < alpha < 1:
            self.fail(f"{where}.alpha", f"must be a level between 0 and 1, got {shown(alpha)}")
        if np.any(half_lengths < 0):
            self.fail(f"{where}.half_lengths", "must not be negative")
        if not np.allclose(axes.T @ axes, np.eye(d), atol=1e-6):
            self.fail(f"{where}.axes", "must have orthonormal columns")
        # Eq. (covariance matrix from ellipse): V diag((r / gamma)^2) V^T
        scaled = axes * (half_lengths / confidence_radius(d, alpha))
        return np.asarray(scaled @ scaled.T)

    def point(self, entry: dict[str, Any], key: str, d: int, where: str) -> list[float]:
        if entry.get(key) is None:
            return [math.nan] * d
        return self.numbers(entry[key], d, f"{where}.{key}")


def parse(text: str, name: str, d: int | None) -> Table:
    """Read a file of warpgauge's own schema."""
    read = _Reader(name)
    content = read.mapping(load_json(text, name), "the file")
    if content.get("format") != IDENTIFIER:
        fail(name, None, f"the member 'format' is not {IDENTIFIER!r}", "this is not warpgauge's own landmark file")
    if type(content.get("version")) is not int or content["version"] != VERSION:
        version = shown(content.get("version"))
        fail(name, None, f"schema version {version} is not {VERSION}", "update warpgauge to read it")
    dimension = content.get("dimension")
    if type(dimension) is not int or dimension not in (2, 3):
        read.fail("dimension", f"must be 2 or 3, got {shown(dimension)}")
    read.choice(content.get("direction"), (DIRECTION,), "direction")
    frame = read.choice(content.get("frame"), FRAMES, "frame")
    units = read.choice(content.get("units"), UNITS, "units")
    if frame == "LPS" and dimension == 2:
        read.fail("frame", "is LPS, which has three dimensions, but dimension is 2")
    table = _landmarks(read, read.sequence(content.get("landmarks"), "landmarks"), dimension)
    for side in (table.fixed, table.moving):
        if side is not None:
            side.frame, side.frame_stated, side.units = cast(FileFrame, frame), True, units
    for index, item in enumerate(read.sequence(content.get("skips", []), "skips")):
        where = f"skips[{index}]"
        entry = read.mapping(item, where)
        rater = None if entry.get("rater") is None else read.text(entry["rater"], f"{where}.rater")
        point = read.numbers(entry.get("fixed"), dimension, f"{where}.fixed")
        reason = read.text(entry.get("reason"), f"{where}.reason")
        if not reason.strip():
            read.fail(f"{where}.reason", "must not be empty")
        table.skips.append((point, reason, rater))
    images = read.mapping(content.get("images", {}), "images")
    for image in _IMAGES:
        if image in images:
            entry = read.mapping(images[image], f"images.{image}")
            table.hashes[image] = read.text(entry.get("hash"), f"images.{image}.hash")
    return table


def _landmarks(read: _Reader, items: list[Any], d: int) -> Table:
    entries = [read.mapping(item, f"landmarks[{i}]") for i, item in enumerate(items)]
    where = [f"landmarks[{i}]" for i in range(len(entries))]
    fixed = np.array([read.point(e, "fixed", d, w) for e, w in zip(entries, where, strict=True)]).reshape(-1, d)
    moving = np.array([read.point(e, "moving", d, w) for e, w in zip(entries, where, strict=True)]).reshape(-1, d)
    covariances = np.array([read.covariance(e, d, w) for e, w in zip(entries, where, strict=True)]).reshape(-1, d, d)
    names = tuple(read.text(e.get("name", ""), f"{w}.name") for e, w in zip(entries, where, strict=True))
    raters = tuple(
        None if e.get("rater") is None else read.text(e["rater"], f"{w}.rater")
        for e, w in zip(entries, where, strict=True)
    )
    active = [e.get("active", True) for e in entries]
    for value, place in zip(active, where, strict=True):
        if not isinstance(value, bool):
            read.fail(f"{place}.active", f"must be true or false, got {shown(value)}")
    # A file in which no landmark has the member "moving" is a set of points, not a list of unfinished pairs.
    paired = any("moving" in entry for entry in entries) or not entries
    return Table(
        fixed=Side(fixed, "image", names=names if any(names) else None),
        moving=Side(moving, "image") if paired else None,
        covariances=None if np.all(np.isnan(covariances)) else covariances,
        raters=raters if any(rater is not None for rater in raters) else None,
        active=np.array(active, dtype=bool),
    )


def render(table: Table) -> str:
    """Write a file of warpgauge's own schema."""
    content: dict[str, Any] = {
        "format": IDENTIFIER,
        "version": VERSION,
        "dimension": table.d,
        "frame": table.fixed.frame,
        "units": table.fixed.units,
        "direction": DIRECTION,
        "images": {image: {"hash": table.hashes[image]} for image in _IMAGES if image in table.hashes},
        "landmarks": [_entry(table, row) for row in range(len(table))],
        "skips": [
            {"fixed": point, "reason": reason} | ({} if rater is None else {"rater": rater})
            for point, reason, rater in table.skips
        ],
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _entry(table: Table, row: int) -> dict[str, Any]:
    def point(side: Side) -> list[float] | None:
        return None if np.any(np.isnan(side.points[row])) else [float(value) for value in side.points[row]]

    entry: dict[str, Any] = {"fixed": point(table.fixed)}
    if table.moving is not None:
        entry["moving"] = point(table.moving)
    if table.fixed.names is not None and table.fixed.names[row]:
        entry["name"] = table.fixed.names[row]
    if table.raters is not None and table.raters[row] is not None:
        entry["rater"] = table.raters[row]
    if table.active is not None and not table.active[row]:
        entry["active"] = False
    if table.covariances is not None and not np.any(np.isnan(table.covariances[row])):
        entry |= _uncertainty(table.covariances[row], table.ellipse_alpha)
    return entry


def _uncertainty(covariance: Floats, alpha: float | None) -> dict[str, Any]:
    if alpha is None:
        return {"covariance": covariance.tolist()}
    variances, axes = np.linalg.eigh(covariance)
    half_lengths = confidence_radius(len(variances), alpha) * np.sqrt(np.maximum(variances, 0.0))
    return {"ellipse": {"half_lengths": half_lengths.tolist(), "axes": axes.tolist(), "alpha": alpha}}


FORMAT = Format(
    name="warpgauge",
    title="warpgauge landmark file",
    pairs=True,
    parse=parse,
    render=render,
    write_frame=world_frame(),
    holds=EVERYTHING,
)
