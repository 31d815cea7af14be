"""Permission of projects to refer to files outside their own folder.

A project's files say where its images are, and a folder can hold links; both can point anywhere. A project that was
made here is trusted with what it named then, wherever its folder is moved. One that came from elsewhere may be opened
freely as long as everything it names lies in its folder; otherwise the person who opens it is asked once (``--trust``,
``trust=True``), and the answer is recorded for exactly these places, in the person's own folder and never in the
project.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from warpgauge.project.document import Document
from warpgauge.project.errors import ProjectError, UntrustedProjectError
from warpgauge.project.own_state import is_private, private_folder, state_files
from warpgauge.project.postgres import VARIABLE as DATABASE_VARIABLE

VARIABLE = "WARPGAUGE_TRUST"
_TRUSTED = "trusted.jsonl"
_MOST_FILES = 2_000_000
_SHOWN = 3
_IN_PLACE = ("annotations.", "people.lock")


def _outside_places(folder: Path, document: Document, links: set[Path]) -> list[str]:
    """Return what a project would use outside its folder: linked images, targets of links, its database.

    A database that the variable `WARPGAUGE_DATABASE` names is this person's own choice.
    """
    root = folder.resolve()
    places = {Path(os.path.realpath(folder / record.path)) for record in document.images.values()} | links
    outside = sorted(str(place) for place in places if not place.is_relative_to(root))
    if document.database is not None and not os.environ.get(DATABASE_VARIABLE):
        outside.append(document.database)
    return outside


def _link_targets(folder: Path) -> set[Path]:
    """Return where the links below a folder lead; refuse anything but files, folders and links."""
    waiting, seen, targets = [folder], 0, set()
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                seen += 1
                if entry.is_symlink():
                    targets.add(Path(os.path.realpath(entry.path)))
                elif entry.is_dir():
                    waiting.append(Path(entry.path))
                else:
                    _check_file(folder, entry)
                if seen > _MOST_FILES:
                    raise ProjectError(f"The project {folder.name!r} holds more than {_MOST_FILES} files; remove some.")
    return targets


def _check_file(folder: Path, entry: os.DirEntry[str]) -> None:
    """Refuse what is no plain file, and a second name of one that is written in place (the log and what is beside)."""
    try:
        found = entry.stat()
    except FileNotFoundError:  # the log's own side files come and go
        return
    if not stat.S_ISREG(found.st_mode):
        raise ProjectError(
            f"{entry.name!r} in the project {folder.name!r} is a pipe, a socket or a device, which no project holds; "
            f"remove it."
        )
    if found.st_nlink > 1 and entry.name.startswith(_IN_PLACE) and Path(entry.path).parent == folder:
        raise ProjectError(
            f"{entry.name!r} in the project {folder.name!r} has a second name elsewhere (a hard link): writing to it "
            f"would change that file, too; copy the folder (cp -r) and use the copy."
        )


def check_permission(folder: Path, document: Document, trust: bool | None) -> None:
    """Refuse a project that reaches outside its folder, unless it was made here or was trusted explicitly.

    With ``trust`` that is recorded; None is as the variable `WARPGAUGE_TRUST` says (1 is True), else as recorded.
    """
    try:
        links = _link_targets(folder)
    except OSError as error:
        raise ProjectError(f"The project folder {str(folder)!r} cannot be looked through: {error.strerror}.") from error
    places = _outside_places(folder, document, links)
    if not places:
        return
    key = _key(folder, document, links)
    if trust or (trust is None and os.environ.get(VARIABLE) == "1"):
        _record(key, folder, places)
        return
    if trust is None and _is_recorded(key):
        return
    shown = ", ".join(repr(place) for place in places[:_SHOWN])
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    raise UntrustedProjectError(
        f"The project {folder.name!r} was not made here and reaches outside its folder, to {shown}{more}; if you "
        f"expect that, open it once with --trust (trust=True in Python), which is recorded; otherwise do not use it."
    )


def permit_new(folder: Path, document: Document) -> None:
    """Record that a project was made here, with what it links to."""
    links = _link_targets(folder)
    places = _outside_places(folder, document, links)
    if places:
        _record(_key(folder, document, links), folder, places)


def _key(folder: Path, document: Document, link_targets: set[Path]) -> str:
    """Return what trust is given to: this project with these images, as it names them, and these links."""
    root = folder.resolve()
    links = sorted(str(place) for place in link_targets if not place.is_relative_to(root))
    images = sorted(record.path for record in document.images.values())
    named = [document.id, images, links]
    text = json.dumps(named if document.database is None else [*named, document.database])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _is_recorded(key: str) -> bool:
    for file in state_files(_TRUSTED):
        try:
            if not is_private(file.parent):
                continue
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            # Of thousands of lines only the one that may name the key is worth reading.
            if any(key in line and json.loads(line)["key"] == key for line in lines):
                return True
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return False


def _record(key: str, folder: Path, places: list[str]) -> None:
    if _is_recorded(key):
        return
    time = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"key": key, "time": time, "project": str(folder.resolve()), "outside": places[:100]}
    for file in state_files(_TRUSTED):
        try:
            if not private_folder(file):
                continue
            with file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(entry) + "\n")
            return
        except OSError:
            continue
