"""Submissions of teams: each is a folder, found when a study is run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from warpgauge.errors import InvalidInputError
from warpgauge.study.description import MethodSpec, Study, SubmissionsSpec


def with_teams(study: Study) -> Study:
    """Return a study whose methods include all submissions that are there now."""
    spec = study.submissions
    if spec is None:
        return study
    if not spec.folder.is_dir():
        raise InvalidInputError(
            f"There is no folder {spec.folder.name!r} of submissions; make it, or mend [submissions]."
        )
    folders = sorted(path for path in spec.folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    found = [_method(spec, folder) for folder in folders]
    if not found and not study.methods:
        raise InvalidInputError(f"There is no submission in {spec.folder.name!r} that can be ranked.")
    return replace(study, methods=(*study.methods, *found))


def _method(spec: SubmissionsSpec, folder: Path) -> MethodSpec:
    if "{" in folder.name or "}" in folder.name:
        raise InvalidInputError(f"The folder {folder.name!r} of a submission holds a brace; give it another name.")
    place = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in folder.resolve().as_posix())
    patterns = tuple(f"{place}/{pattern}" for pattern in spec.transform)
    mapped = None if spec.mapped_landmarks is None else f"{place}/{spec.mapped_landmarks}"
    return MethodSpec(folder.name, patterns, spec.options, mapped)
