"""Checks of what an event holds, one for each kind; each returns the payload with plain values only.

Whether the event may follow a state is decided in `warpgauge.project.rules`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from warpgauge.core.arrays import as_covariances, as_points
from warpgauge.core.kernels import FAMILIES
from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks.model import LARGEST_COORDINATE, text_problem
from warpgauge.project.records import DESIGNS, ORIGINS, ROLES, SKIP_REASONS, checked_name
from warpgauge.project.settings import Settings


def _text(payload: Mapping[str, Any], key: str) -> str:
    text = payload.get(key) or ""
    problem = "is not text" if not isinstance(text, str) else text_problem(text)
    if problem:
        raise InvalidInputError(f"The text of {key!r} {problem}; replace it.")
    return str(text)


def number(value: Any, what: str) -> float:
    """Return a finite number, or raise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInputError(f"{what} must be a finite number, got {value!r}.")
    return float(value)


def _vector(value: Any, d: int, what: str) -> list[float]:
    point: list[float] = as_points([value], what, d)[0].tolist()
    if max(map(abs, point)) > LARGEST_COORDINATE:
        raise InvalidInputError(f"{what} {point} is beyond {LARGEST_COORDINATE:g}; correct it.")
    return point


def _matrix(value: Any, d: int, what: str) -> list[list[float]]:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{what} must be a {d} x {d} matrix of numbers, got {str(value)[:60]!r}.") from error
    if array.size and np.abs(array).max() > LARGEST_COORDINATE**2:
        raise InvalidInputError(f"{what} has an entry beyond {LARGEST_COORDINATE**2:g}; correct it.")
    matrix: list[list[float]] = as_covariances(array[None], 1, d, what)[0].tolist()
    return matrix


def _alpha(value: Any) -> float:
    alpha = number(value, "alpha")
    if not 0 < alpha < 1:
        raise InvalidInputError(f"alpha must lie between 0 and 1, got {alpha!r}.")
    return alpha


def placement(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check where a match was placed, and how sure of it the rater is."""
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
    if payload.get("snapped_from") is not None:
        clean["snapped_from"] = _vector(payload["snapped_from"], d, "The mark before it was snapped")
    if payload.get("unaided"):
        clean["unaided"] = True
    if payload.get("flag") is not None:
        clean["flag"] = _flag(payload["flag"])
    return clean


def snap(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check a proposal from the images: for which mark, and the place that was shown, if any."""
    proposed = payload.get("proposed")
    return {
        "fixed": _vector(payload.get("fixed"), d, "The point of the fixed image"),
        "mark": _vector(payload.get("mark"), d, "The mark"),
        "proposed": None if proposed is None else _vector(proposed, d, "The proposed place"),
    }


def _flag(flag: Mapping[str, Any]) -> dict[str, Any]:
    """Check why a placement was asked about: both values are optional, and whether it was confirmed is not."""
    values = {key: flag.get(key) for key in ("outside", "deviation")}
    return {
        **{key: None if value is None else number(value, f"{key} of a flag") for key, value in values.items()},
        "confirmed": bool(flag.get("confirmed", False)),
    }


def skip(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check the reason of a skip."""
    reason, text = payload.get("reason"), _text(payload, "text")
    if reason not in SKIP_REASONS:
        raise InvalidInputError(f"The reason of a skip must be one of {', '.join(SKIP_REASONS)}, got {reason!r}.")
    return {"reason": reason, "text": text}


def query(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check a location that enters the list."""
    origin, gain, only = payload.get("origin"), payload.get("gain"), payload.get("for_rater")
    if origin not in ORIGINS:
        raise InvalidInputError(f"The origin of a query must be one of {', '.join(ORIGINS)}, got {origin!r}.")
    drawn = payload.get("audit")
    if (drawn is None) != (origin != "audit"):
        raise InvalidInputError("A query of the origin audit, and no other, names its round and its place in it.")
    place = {} if drawn is None else {"audit": {"round": int(drawn["round"]), "place": int(drawn["place"])}}
    known = payload.get("known")
    if (known is None) != (origin != "control"):
        raise InvalidInputError("A query of the origin control, and no other, names its known match.")
    match = {} if known is None else {"known": _vector(known, d, "The known match")}
    return {
        **place,
        **match,
        "point": _vector(payload.get("point"), d, "The queried point"),
        "candidate": None if payload.get("candidate") is None else int(payload["candidate"]),
        "origin": origin,
        "same_as": None if payload.get("same_as") is None else int(payload["same_as"]),
        "for_rater": None if only is None else checked_name(only),
        "gain": None if gain is None else number(gain, "The gain of a query"),
        "name": _text(payload, "name"),
    }


def audit(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check a round of audit questions: what was drawn, from how many, and how likely each was to be drawn."""
    targets = [int(target) for target in payload["targets"]]
    shares = [number(share, "An inclusion probability") for share in payload["probabilities"]]
    points = as_points(payload["points"], "The points of an audit", d).tolist()
    candidates = [None if one is None else int(one) for one in payload["candidates"]]
    population, drawn_before = int(payload["population"]), int(payload["drawn_before"])
    if payload.get("design") not in DESIGNS or not len(targets) == len(shares) == len(points) == len(candidates) > 0:
        raise InvalidInputError("A round of an audit needs a design, and for each target a point and a probability.")
    if len(set(targets)) < len(targets) or not 0 <= min(targets) <= max(targets) < population:
        raise InvalidInputError("A round of an audit draws each target at most once, from those that there are.")
    if not all(0 < share <= 1 + 1e-9 for share in shares) or not 0 <= drawn_before < population:
        raise InvalidInputError("The inclusion probabilities of an audit must lie above 0 and not above 1.")
    return {
        "round": int(payload["round"]),
        "design": payload["design"],
        "sealed": bool(payload.get("sealed", False)),
        "population": population,
        "drawn_before": drawn_before,
        "seed": int(payload["seed"]),
        "targets": targets,
        "points": points,
        "candidates": candidates,
        "probabilities": shares,
        "transforms": {checked_name(name, "The name of a transform"): int(at)
                       for name, at in payload.get("transforms", {}).items()},
    }  # fmt: skip


def controls(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check control questions: points with their known matches, and how often one is asked."""
    fixed, moving = (
        as_points(payload[side], f"The {side} points of controls", d).tolist() for side in ("fixed", "moving")
    )
    every = int(payload["every"])
    if not fixed or len(fixed) != len(moving) or not 2 <= every <= 1000:
        raise InvalidInputError(
            "Controls are pairs of a fixed and a moving point; one is asked among 2 questions or more."
        )
    return {"fixed": fixed, "moving": moving, "every": every, "seed": int(payload["seed"])}


def unseal(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check by which certificate sealed answers are opened."""
    return {"certificate": _text(payload, "certificate")}


def nothing(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Keep nothing: the kind says it all."""
    return {}


def target(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check which action is undone or redone."""
    return {"target": int(payload["target"])}


def mark(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check whose mark is excluded or included."""
    return {"of": checked_name(payload.get("of")), "text": _text(payload, "text")}


def note(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check a remark."""
    return {"text": _text(payload, "text")}


def rater(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check a person's name, role and token."""
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


def fit(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check learned weights."""
    for key in ("scales", "weights"):
        values = [number(value, f"Each of the {key}") for value in payload[key]]
        if not values or min(values) <= 0 or len(values) != len(payload["scales"]):
            raise InvalidInputError(f"A fit needs one positive weight for each positive scale, got {key} {values}.")
    if payload.get("family") not in FAMILIES:
        raise InvalidInputError(f"A fit names the kernel family {str(payload.get('family'))[:40]!r}, which is unknown.")
    for key in ("noise", "linear_sd", "translation_sd"):
        if key in payload and payload[key] is not None and number(payload[key], f"The {key} of a fit") < 0:
            raise InvalidInputError(f"The {key} of a fit must not be negative, got {payload[key]!r}.")
    number(payload.get("noise"), "The noise of a fit")
    clean = dict(payload)
    if "rests_on" in clean:
        clean["rests_on"] = sorted(int(generation) for generation in clean["rests_on"])
    return clean


def start(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check whether the guided start was skipped."""
    return {"skipped": bool(payload.get("skipped", True))}


def align(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
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
        "score": number(payload.get("score"), "The score of an alignment"),
        "rival": number(payload.get("rival"), "The rival of an alignment"),
        "method": _text(payload, "method"),
    }


def transform(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check a registration result: its files lie in the folder of transforms."""
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


def settings(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check a change of settings: known names, and values that they may have."""
    changes = payload.get("changes")
    if not isinstance(changes, dict) or not changes:
        raise InvalidInputError("A change of settings needs the settings that change.")
    clean = Settings.from_dict(changes).to_dict()
    return {"changes": {name: clean[name] for name in changes}}


def relink(payload: Mapping[str, Any], d: int) -> dict[str, Any]:
    """Check which images were linked anew: path and hash of each."""
    images = payload.get("images")
    if not isinstance(images, dict) or not images:
        raise InvalidInputError("Linking images anew needs the images.")
    return {
        "images": {
            checked_name(role, "The role of an image"): {key: _text(one, key) for key in ("path", "content_hash")}
            for role, one in images.items()
        }
    }
