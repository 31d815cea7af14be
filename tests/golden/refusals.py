"""Events that a log refuses, written to the stored log of version 4, and what is said about each."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from golden.stored import STORED, unpacked
from warpgauge.errors import WarpgaugeError
from warpgauge.project import Entry, Project
from warpgauge.project.events import read_event

FILE = STORED / "refusals.json"
POINT = {"point": [10.0, 10.0], "covariance": [[1.0, 0.0], [0.0, 1.0]], "alpha": 0.01}
QUERY = {"point": [10.0, 10.0], "origin": "given"}
FIT = {"family": "wendland", "scales": [10.0, 20.0], "weights": [1.0, 2.0], "noise": 0.0}
ALIGN = {"accepted": True, "matrix": [[1.0, 0.0], [0.0, 1.0]], "offset": [0.0, 0.0], "score": 1.0, "rival": 0.5}
AUDIT = {"round": 1, "design": "uniform", "population": 20, "drawn_before": 3, "seed": 1, "targets": [1, 2],
         "points": [[1.0, 2.0], [3.0, 4.0]], "candidates": [None, 4], "probabilities": [0.1, 0.1]}  # fmt: skip
CONTROLS = {"fixed": [[1.0, 2.0]], "moving": [[1.0, 2.0]], "every": 8, "seed": 1}
NAN, FAR = float("nan"), 1e13

# Kind, who, query, payload, and more of the event. The stored log has the organiser olga, the raters ann and ben, and
# vic, whose access was revoked; queries 0 to 12; ann placed 0, ben skipped 1, 4 was withdrawn, 5 is for ben only.
Attempt = tuple[str, Any, Any, dict[str, Any]] | tuple[str, Any, Any, dict[str, Any], dict[str, Any]]
ATTEMPTS: list[Attempt] = [
    # What an event is.
    ("nonsense", "ann", None, {}),
    ("note", "", None, {"text": ""}),
    ("note", " ann", None, {"text": ""}),
    ("note", "a\nb", None, {"text": ""}),
    ("note", 7, None, {"text": ""}),
    ("note", "x" * 300, None, {"text": ""}),
    ("place", "ann", None, POINT),
    ("note", "ann", 3, {"text": ""}),
    ("note", "ann", None, {"text": ""}, {"duration": -1.0}),
    ("note", "ann", None, {"text": ""}, {"duration": NAN}),
    ("note", "ann", None, {"text": 5}),
    ("note", "ann", None, {"text": "a\x00b"}),
    ("fit", "ann", None, {**FIT, "report": {1, 2}}),
    ("fit", "ann", None, {**FIT, "report": "x" * 1_000_001}),
    # Placements.
    ("place", "ann", 3, {**POINT, "point": [1.0]}),
    ("place", "ann", 3, {**POINT, "point": None}),
    ("place", "ann", 3, {**POINT, "point": [NAN, 1.0]}),
    ("place", "ann", 3, {**POINT, "point": [FAR, 1.0]}),
    ("place", "ann", 3, {**POINT, "covariance": "wide"}),
    ("place", "ann", 3, {**POINT, "covariance": [[1.0, 0.0], [0.0, -1.0]]}),
    ("place", "ann", 3, {**POINT, "covariance": [[1.0, 0.5], [0.0, 1.0]]}),
    ("place", "ann", 3, {**POINT, "covariance": [[1e27, 0.0], [0.0, 1e27]]}),
    ("place", "ann", 3, {**POINT, "alpha": 1.5}),
    ("place", "ann", 3, {**POINT, "alpha": True}),
    ("place", "ann", 3, {**POINT, "fixed": [1.0, 2.0, 3.0]}),
    ("place", "ann", 3, {**POINT, "snapped_from": [1.0]}),
    ("place", "ann", 3, {**POINT, "flag": {"outside": "far"}}),
    ("place", "ann", 3, {**POINT, "ellipse": {"half_lengths": [1.0], "axes": [[1.0, 0.0], [0.0, 1.0]]}}),
    ("place", "ann", 3, {**POINT, "batch": ""}),
    ("snap", "ann", 3, {"fixed": [1.0], "mark": [1.0, 2.0], "proposed": None}),
    # Queries.
    ("query", "ann", 13, {**QUERY, "origin": "nowhere"}),
    ("query", "ann", 13, {**QUERY, "origin": "audit"}),
    ("query", "ann", 13, {**QUERY, "origin": "control"}),
    ("query", "ann", 13, {**QUERY, "known": [1.0, 2.0]}),
    ("query", "ann", 13, {**QUERY, "gain": NAN}),
    ("query", "ann", 13, {**QUERY, "name": 3}),
    ("query", "ann", 12, QUERY),
    ("query", "ann", 99, QUERY),
    ("query", "olga", 13, {**QUERY, "origin": "again", "same_as": 5}),
    ("query", "olga", 13, {**QUERY, "origin": "again", "same_as": 40}),
    ("query", "ann", 13, {**QUERY, "origin": "audit", "audit": {"round": 4, "place": 0}}),
    ("query", "ann", 13, {**QUERY, "origin": "audit", "audit": {"round": 0, "place": 0}}),
    ("query", "ann", 13, {**QUERY, "origin": "audit", "audit": {"round": 0, "place": 2}}),
    ("query", "ann", 13, {**QUERY, "point": [32.0, 30.0], "origin": "audit", "audit": {"round": 0, "place": 2},
                          "for_rater": "ann"}),
    ("query", "ann", 13, {**QUERY, "origin": "control", "known": [1.0, 2.0]}),
    # What may follow.
    ("place", "ann", 77, POINT),
    ("place", "ann", 0, POINT),
    ("edit", "ben", 1, POINT),
    ("skip", "ben", 1, {"reason": "ambiguous"}),
    ("skip", "ann", 0, {"reason": "lazy"}),
    ("restore", "ann", 0, {}),
    ("defer", "ann", 0, {}),
    ("disable", "ben", 1, {"text": ""}),
    ("disable", "ben", 2, {"text": ""}),
    ("enable", "ann", 0, {"text": ""}),
    ("place", "ann", 5, POINT),
    ("edit", "ann", 0, POINT, {"base_generation": 3}),
    ("undo", "ann", None, {"target": 3}),
    ("undo", "olga", None, {"target": 3}),
    ("redo", "ann", None, {"target": 3}),
    ("undo", "ann", None, {"target": 3}, {"base_generation": 3}),
    ("withdraw", "ann", 0, {}),
    ("withdraw", "ann", 4, {}),
    ("exclude", "olga", 0, {"of": "ben", "text": ""}),
    ("exclude", "olga", 1, {"of": "ben", "text": ""}),
    ("include", "olga", 0, {"of": "ann", "text": ""}),
    ("exclude", "olga", 0, {"of": "", "text": ""}),
    # The model, transforms, people, settings.
    ("fit", "ann", None, {**FIT, "weights": [1.0]}),
    ("fit", "ann", None, {**FIT, "weights": [1.0, -1.0]}),
    ("fit", "ann", None, {**FIT, "family": "sine"}),
    ("fit", "ann", None, {**FIT, "noise": -1.0}),
    ("fit", "ann", None, {**FIT, "noise": None}),
    ("fit", "ann", None, {**FIT, "linear_sd": -2.0}),
    ("fit", "ann", None, {**FIT, "replaces": 1}),
    ("align", "ann", None, {**ALIGN, "accepted": "yes"}),
    ("align", "ann", None, {**ALIGN, "matrix": [[1.0, 1.0], [1.0, 1.0]]}),
    ("align", "ann", None, {**ALIGN, "score": None}),
    ("transform", "ann", None, {"name": "nothing", "files": [], "hashes": [], "options": {}}),
    ("transform", "ann", None, {"name": "x", "files": ["a"], "hashes": [], "options": {}}),
    ("transform", "ann", None, {"name": "x", "files": ["../a"], "hashes": ["0"], "options": {}}),
    ("transform", "ann", None, {"name": "", "files": ["transforms/a"], "hashes": ["0"], "options": {}}),
    ("rater", "olga", None, {"name": "eve", "role": "king"}),
    ("rater", "olga", None, {"name": "eve", "role": "rater", "token_hash": 5}),
    ("rater", "olga", None, {"name": "", "role": "rater"}),
    ("settings", "olga", None, {"changes": {}}),
    ("settings", "olga", None, {"changes": {"colour": "red"}}),
    ("settings", "olga", None, {"changes": {"alpha": 3}}),
    ("audit", "olga", None, {**AUDIT, "design": "hunch"}),
    ("audit", "olga", None, {**AUDIT, "targets": [1, 1]}),
    ("audit", "olga", None, {**AUDIT, "probabilities": [0.1, 0.0]}),
    ("audit", "olga", None, {**AUDIT, "round": 5}),
    ("controls", "olga", None, {**CONTROLS, "every": 1}),
    ("controls", "olga", None, {**CONTROLS, "moving": []}),
    ("unseal", "olga", None, {"certificate": ""}),
    ("relink", "olga", None, {"images": {}}),
    # Who may.
    ("note", "vic", None, {"text": ""}),
    ("place", "vic", 3, POINT),
    ("rater", "ann", None, {"name": "eve", "role": "rater"}),
    ("settings", "ann", None, {"changes": {"hide_prediction": False}}),
    ("exclude", "ann", 0, {"of": "ben", "text": ""}),
    ("include", "ann", 0, {"of": "ben", "text": ""}),
    ("resolve", "ann", 0, {"text": ""}),
    ("query", "ann", 13, {**QUERY, "origin": "again", "same_as": 0}),
    ("controls", "ann", None, CONTROLS),
    ("unseal", "ann", None, {"certificate": ""}),
    ("relink", "ann", None, {"images": {"fixed": {"path": "a", "content_hash": "b"}}}),
    # Names that people cannot distinguish.
    ("note", "\u0430nn", None, {"text": ""}),  # with a Cyrillic letter
    ("note", "a\u202enn", None, {"text": ""}),
    ("note", "Ann", None, {"text": ""}),
    ("rater", "olga", None, {"name": "0lga", "role": "rater"}),
]  # fmt: skip


def write(project: Project, attempt: Attempt) -> None:
    """Write one event to the log; the one place here that knows how."""
    kind, rater, query, payload, *more = attempt
    about = more[0] if more else {}
    entry = Entry(kind, rater, query, payload, about.get("duration"), about.get("base_generation"), 0, "", "")
    project.append(read_event(entry, project.d))


def sentences(folder: Path) -> Iterator[str]:
    """Yield what is said about each attempt; each starts from the stored log."""
    with Project.open(folder) as project:
        before = project.fingerprint()
        for attempt in ATTEMPTS:
            try:
                write(project, attempt)
            except WarpgaugeError as error:
                yield f"{type(error).__name__}: {error}"
            else:
                yield "written"
            assert project.fingerprint() == before, attempt


def record() -> None:
    """Write the sentences anew."""
    with tempfile.TemporaryDirectory() as folder:
        found = list(sentences(unpacked("version4", Path(folder))))
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(record())
