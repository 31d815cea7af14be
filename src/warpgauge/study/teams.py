"""Submissions of teams: each is a folder or an archive, found when a study is run."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from warpgauge.errors import FileFormatError, InvalidInputError
from warpgauge.io.files import content_hash
from warpgauge.io.inside import Inside, file_name
from warpgauge.io.limits import shown_bytes
from warpgauge.project.transforms import IDENTITY
from warpgauge.study.description import MethodSpec, Study, SubmissionsSpec

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
_MOST_FILES = 100_000


def with_teams(study: Study, out: Path) -> tuple[Study, dict[str, str]]:
    """Return a study whose methods include all submissions that are there now, and those that are not ranked, and why.

    Archives are unpacked below ``out``, each once. A submission that is disqualified, late or cannot be unpacked is not
    ranked.
    """
    spec = study.submissions
    if spec is None:
        return study, {}
    if not spec.folder.is_dir():
        raise InvalidInputError(
            f"There is no folder {spec.folder.name!r} of submissions; make it, or mend [submissions]."
        )
    found: list[MethodSpec] = []
    unranked = {}
    for name, path in sorted(_entries(spec.folder)):
        why = _reason(spec, name, path)
        if why is None:
            try:
                found.append(_method(spec, name, path if path.is_dir() else _unpacked(path, out / "unpacked")))
            except (FileFormatError, OSError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
                why = f"its archive cannot be unpacked: {error}"
        if why is not None:
            unranked[name] = why
    if not found and not study.methods:
        raise InvalidInputError(f"There is no submission in {spec.folder.name!r} that can be ranked.")
    return replace(study, methods=(*study.methods, *found)), unranked


def _entries(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.iterdir():
        if path.name.startswith((".", "__MACOSX")):
            continue
        ending = next((one for one in ARCHIVES if path.name.lower().endswith(one)), None)
        if path.is_dir() or (path.is_file() and ending):
            yield path.name if path.is_dir() else path.name[: -len(ending or "")], path


def _reason(spec: SubmissionsSpec, name: str, path: Path) -> str | None:
    """Return why a submission is not ranked, if it is not."""
    if name in spec.disqualified:
        return f"disqualified: {spec.disqualified[name]}"
    if name == IDENTITY:
        return "its name stands for no registration, which others are compared with; it needs another name"
    if spec.deadline is None:
        return None
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    last = max((one.stat().st_mtime for one in files), default=0.0)
    when = datetime.fromtimestamp(last, UTC)
    return f"its newest file is of {when:%Y-%m-%d %H:%M} UTC, after the deadline" if when > spec.deadline else None


def _method(spec: SubmissionsSpec, name: str, folder: Path) -> MethodSpec:
    inner = [one for one in folder.iterdir() if not one.name.startswith((".", "__MACOSX"))]
    if len(inner) == 1 and inner[0].is_dir():
        folder = inner[0]  # an archive with one folder at its top
    patterns = tuple(f"{_escaped(folder)}/{pattern}" for pattern in spec.transform)
    mapped = None if spec.mapped_landmarks is None else f"{_escaped(folder)}/{spec.mapped_landmarks}"
    return MethodSpec(name, patterns, spec.options, mapped)


def _escaped(folder: Path) -> str:
    """Return a path as the beginning of a pattern: what stands for something else in patterns stands for itself."""
    text = "".join(f"[{one}]" if one in "*?[" else one for one in folder.resolve().as_posix())
    if "{" in text or "}" in text:
        raise FileFormatError("the name of its folder holds a brace")
    return text


def _unpacked(archive: Path, places: Path) -> Path:
    """Return the folder with the files of an archive, which is made once for its content."""
    place = places / f"{file_name(archive.name)}-{content_hash(archive)[:16]}"
    if place.is_dir():
        return place
    places.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=places) as scratch:
        made = Path(scratch) / "files"
        made.mkdir()
        if zipfile.is_zipfile(archive):
            _unpack_zip(archive, made)
        else:
            _unpack_tar(archive, made)
        made.rename(place)
    return place


def _unpack_zip(archive: Path, aim: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        members = [one for one in packed.infolist() if not one.is_dir()]
        _check(archive, len(members), sum(one.file_size for one in members), aim)
        for one in members:
            _write(aim, one.filename, packed.open(one))


def _unpack_tar(archive: Path, aim: Path) -> None:
    with tarfile.open(archive) as packed:
        members = [one for one in packed if one.isfile()]  # no links, no devices
        _check(archive, len(members), sum(one.size for one in members), aim)
        for one in members:
            _write(aim, one.name.removeprefix("./"), packed.extractfile(one))


def _check(archive: Path, files: int, size: int, aim: Path) -> None:
    if files > _MOST_FILES:
        raise FileFormatError(f"{archive.name!r} has {files} files; at most {_MOST_FILES} are unpacked")
    free = shutil.disk_usage(aim).free
    if size > free / 2:
        raise FileFormatError(
            f"{archive.name!r} unfolds to {shown_bytes(size)}, more than half of the {shown_bytes(free)} that are free"
        )


def _write(aim: Path, name: str, stream: IO[bytes] | None) -> None:
    path = Inside(aim, name, "file of an archive").path
    path.parent.mkdir(parents=True, exist_ok=True)
    if stream is None:
        raise FileFormatError(f"{name!r} in it is not a plain file")
    with stream, path.open("xb") as target:  # a name that occurs twice is refused
        shutil.copyfileobj(stream, target)
