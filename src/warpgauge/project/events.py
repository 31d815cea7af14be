"""Events, the entries of the log, and the required content of each kind.

A `Draft` is what a caller wants written; an `Event` is what stands in the log, with its generation, time and digest.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from warpgauge.core.arrays import as_covariances, as_points
from warpgauge.core.kernels import FAMILIES
from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks.model import text_problem

SKIP_REASONS: tuple[str, ...] = ("not_visible", "ambiguous", "torn_or_missing", "outside_image", "other")
ROLES: tuple[str, ...] = ("rater", "organiser", "viewer")
ORIGINS: tuple[str, ...] = ("suggested", "repeat", "again", "given", "volunteered")
# What a rater does to an answer of their own; these are what undo and redo go over.
ACTIONS: tuple[str, ...] = ("place", "edit", "skip", "restore", "disable", "enable")
LARGEST_NAME = 100


@dataclass(frozen=True)
class Draft:
    """An event that is to be written.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    rater : str
        Who acts.
    query : int, optional
        Number of the query that it is about.
    payload : mapping
        What the kind demands; plain JSON values.
    duration : float, optional
        Seconds that the rater took.
    base_generation : int, optional
        Generation of the state that the rater saw; a newer change by the same rater of the same query is a conflict.
    """

    kind: str
    rater: str
    query: int | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    duration: float | None = None
    base_generation: int | None = None


@dataclass(frozen=True)
class Event(Draft):
    """An event of the log; ``generation`` counts from 1 without gaps, ``time`` is UTC, ``digest`` chains the log."""

    generation: int = 0
    time: str = ""
    digest: str = ""


def canonical(payload: Mapping[str, Any]) -> str:
    """Write a payload as JSON text, always the same for the same values."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def chained(previous: str, row: tuple[Any, ...]) -> str:
    """Digest of a row of the log and of all rows before it, through the digest of the row before."""
    text = json.dumps([previous, *row], separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def checked_name(name: object, what: str = "The name of a rater") -> str:
    """Refuse a name that could not be shown, stored or distinguished."""
    if not isinstance(name, str) or not name.strip() or name != name.strip() or len(name) > LARGEST_NAME:
        raise InvalidInputError(
            f"{what} must be 1 to {LARGEST_NAME} characters without blanks at the ends, got {name!r}."
        )
    if "\n" in name or "\t" in name or text_problem(name):
        raise InvalidInputError(f"{what} {text_problem(name) or 'has a line break or tab'}; use plain characters.")
    return name


def _text(payload: Mapping[str, Any], key: str) -> str:
    text = payload.get(key) or ""
    problem = "is not text" if not isinstance(text, str) else text_problem(text)
    if problem:
        raise InvalidInputError(f"The text of {key!r} {problem}; replace it.")
    return str(text)


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInputError(f"{what} must be a finite number, got {value!r}.")
    return float(value)


def _vector(value: Any, d: int, what: str) -> list[float]:
    point: list[float] = as_points([value], what, d)[0].tolist()
    return point


def _matrix(value: Any, d: int, what: str) -> list[list[float]]:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be a {d} x {d} matrix of numbers, got {value!r}.") from error
    matrix: list[list[float]] = as_covariances(array[None], 1, d, what)[0].tolist()
    return matrix


def _alpha(value: Any) -> float:
    alpha = _number(value, "alpha")
    if not 0 < alpha < 1:
        raise InvalidInputError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    return alpha


def _placement(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    ellipse = payload.get("ellipse")
    clean: dict[str, Any] = {
        "point": _vector(payload.get("point"), d, "The placed point"),
        "covariance": _matrix(payload.get("covariance"), d, "The covariance"),
        "alpha": _alpha(payload.get("alpha")),
        "ellipse": None,
    }
    if ellipse is not None:
        clean["ellipse"] = {
            "half_lengths": _vector(ellipse["half_lengths"], d, "The half-lengths"),
            "axes": as_points(ellipse["axes"], "The axes", d).tolist(),
        }
    if payload.get("fixed") is not None:
        clean["fixed"] = _vector(payload["fixed"], d, "The moved point of the fixed image")
        clean["origin"] = "moved"  # for people who read the log
    if payload.get("flag") is not None:
        clean["flag"] = _flag(payload["flag"])
    return clean


def _flag(flag: Mapping[str, Any]) -> dict[str, Any]:
    """Check why a placement was asked about: both values are optional, and whether it was confirmed is not."""
    values = {key: flag.get(key) for key in ("outside", "deviation")}
    return {
        **{key: None if value is None else _number(value, f"{key} of a flag") for key, value in values.items()},
        "confirmed": bool(flag.get("confirmed", False)),
    }


def _skip(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    reason, text = payload.get("reason"), _text(payload, "text")
    if reason not in SKIP_REASONS:
        raise InvalidInputError(f"The reason of a skip must be one of {', '.join(SKIP_REASONS)}, got {reason!r}.")
    return {"reason": reason, "text": text}


def _query(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    origin, gain, only = payload.get("origin"), payload.get("gain"), payload.get("for_rater")
    if origin not in ORIGINS:
        raise InvalidInputError(f"The origin of a query must be one of {', '.join(ORIGINS)}, got {origin!r}.")
    return {
        "point": _vector(payload.get("point"), d, "The queried point"),
        "candidate": None if payload.get("candidate") is None else int(payload["candidate"]),
        "origin": origin,
        "same_as": None if payload.get("same_as") is None else int(payload["same_as"]),
        "for_rater": None if only is None else checked_name(only),
        "gain": None if gain is None else _number(gain, "The gain of a query"),
        "name": _text(payload, "name"),
    }


def _nothing(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    return {}


def _target(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    return {"target": int(payload["target"])}


def _mark(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    return {"of": checked_name(payload.get("of")), "text": _text(payload, "text")}


def _note(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    return {"text": _text(payload, "text")}


def _rater(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    role, token = payload.get("role"), payload.get("token_hash")
    if role not in ROLES:
        raise InvalidInputError(f"A role must be one of {', '.join(ROLES)}, got {role!r}.")
    if token is not None and not (isinstance(token, str) and 0 < len(token) <= 500):
        raise InvalidInputError("The hash of a rater's token must be a short text.")
    return {
        "name": checked_name(payload.get("name")),
        "role": role,
        "token_hash": token,
        "revoked": bool(payload.get("revoked", False)),
    }


def _fit(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    for key in ("scales", "weights"):
        values = [_number(value, f"Each of the {key}") for value in payload[key]]
        if not values or min(values) <= 0 or len(values) != len(payload["scales"]):
            raise InvalidInputError(f"A fit needs one positive weight for each positive scale, got {key} {values}.")
    if payload.get("family") not in FAMILIES:
        raise InvalidInputError(f"A fit names the kernel family {str(payload.get('family'))[:40]!r}, which is unknown.")
    for key in ("noise", "linear_sd", "translation_sd"):
        if key in payload and payload[key] is not None and _number(payload[key], f"The {key} of a fit") < 0:
            raise InvalidInputError(f"The {key} of a fit must not be negative, got {payload[key]!r}.")
    _number(payload.get("noise"), "The noise of a fit")
    clean = dict(payload)
    if "rests_on" in clean:
        clean["rests_on"] = sorted(int(generation) for generation in clean["rests_on"])
    return clean


def _start(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    return {"skipped": bool(payload.get("skipped", True))}


def _align(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check a rough alignment: a proposal (``accepted`` is None), or the answer to one."""
    accepted = payload.get("accepted")
    if accepted not in (None, True, False):
        raise InvalidInputError(
            f"An alignment is accepted (true), refused (false) or proposed (null), got {accepted!r}."
        )
    matrix = as_points(payload.get("matrix") or [], "The matrix of an alignment", d)
    if matrix.shape != (d, d) or not abs(float(np.linalg.det(matrix))) > 0:
        raise InvalidInputError(f"The matrix of an alignment must be an invertible {d} x {d} matrix.")
    return {
        "accepted": accepted,
        "matrix": matrix.tolist(),
        "offset": _vector(payload.get("offset"), d, "The offset of an alignment"),
        "score": _number(payload.get("score"), "The score of an alignment"),
        "rival": _number(payload.get("rival"), "The rival of an alignment"),
        "method": _text(payload, "method"),
    }


def _transform(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    files, hashes = payload.get("files", []), payload.get("hashes", [])
    options = payload.get("options", {})
    texts = isinstance(files, list) and isinstance(hashes, list) and all(isinstance(t, str) for t in files + hashes)
    if not texts or len(files) != len(hashes) or len(files) > 1000 or not isinstance(options, dict):
        raise InvalidInputError("A transform needs a list of files, a hash for each, and options.")
    for file in files:
        parts = file.split("/")
        if parts[0] != "transforms" or len(parts) < 2 or "\\" in file or set(parts) & {"", ".", ".."}:
            raise InvalidInputError(f"The file {file[:80]!r} of a transform does not lie in the folder 'transforms'.")
    return {"name": checked_name(payload.get("name"), "The name of a transform"), **payload}


_CHECKS: dict[str, Callable[[Mapping[str, Any], int], dict[str, Any]]] = {
    "query": _query,
    "withdraw": _nothing,
    "place": _placement,
    "edit": _placement,
    "skip": _skip,
    "restore": _nothing,
    "defer": _nothing,
    "undo": _target,
    "redo": _target,
    "disable": _note,
    "enable": _note,
    "exclude": _mark,
    "include": _mark,
    "resolve": _note,
    "rater": _rater,
    "start": _start,
    "align": _align,
    "fit": _fit,
    "transform": _transform,
    "note": _note,
}
KINDS: tuple[str, ...] = tuple(_CHECKS)
ABOUT_A_QUERY: tuple[str, ...] = tuple(
    kind for kind in KINDS if kind not in ("undo", "redo", "rater", "start", "align", "fit", "transform", "note")
)


def checked(draft: Draft, d: int) -> Draft:
    """Check a draft alone, without regard to the state, and give it with a payload of plain values only."""
    if draft.kind not in _CHECKS:
        raise InvalidInputError(f"An event must be one of {', '.join(KINDS)}, got {draft.kind!r}.")
    rater = checked_name(draft.rater)
    if (draft.kind in ABOUT_A_QUERY) != (draft.query is not None):
        raise InvalidInputError(f"An event {draft.kind!r} {'needs' if draft.query is None else 'has no'} query.")
    if draft.duration is not None and not _number(draft.duration, "The duration") >= 0:
        raise InvalidInputError(f"The duration must be seconds, at least 0, got {draft.duration!r}.")
    payload = _CHECKS[draft.kind](draft.payload, d)
    if draft.kind in (*ACTIONS, "query") and draft.payload.get("batch") is not None:
        payload["batch"] = checked_name(draft.payload["batch"], "The name of a batch")
    try:
        size = len(canonical(payload))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The payload of an event {draft.kind!r} is not plain JSON: {error}.") from error
    if size > 1_000_000:
        raise InvalidInputError(f"The payload of an event {draft.kind!r} has {size} characters, more than a million.")
    return Draft(
        draft.kind,
        rater,
        None if draft.query is None else int(draft.query),
        payload,
        None if draft.duration is None else float(draft.duration),
        None if draft.base_generation is None else int(draft.base_generation),
    )
