"""Copying the log of a project from one store to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from warpgauge.errors import InvalidInputError
from warpgauge.project.chain import Row, chained
from warpgauge.project.document import read_document, write_document
from warpgauge.project.errors import ProjectError
from warpgauge.project.permission import check_permission, permit_new
from warpgauge.project.stores import store_named, store_of


@dataclass(frozen=True)
class Copied:
    """What was copied: the number of events, from where to where, and what the former log is called now."""

    events: int
    source: str
    target: str
    kept: str


def copy_log(folder: Path, target: str) -> Copied:
    """Copy the log of a project to another store and use it from there; the former one is kept, read-only.

    Parameters
    ----------
    folder : Path
        Of the project.
    target : str
        ``postgresql://user@host/name``, or ``"sqlite"`` for a file in the project's folder.
    """
    document = read_document(folder)
    check_permission(folder, document, None)
    former, store = store_of(document), store_named(target)
    if store.address == former.address:
        raise InvalidInputError(f"The log of {folder.name!r} is in {store.name} already.")
    file = store.file(folder)
    if file is not None and file.exists():
        raise InvalidInputError(f"There is a file {file.name!r} in {str(folder)!r} already; move it away first.")
    changed = replace(document, database=store.address)
    copied = 0

    def take(rows: Sequence[Row]) -> None:
        nonlocal copied
        copied = _check_chain(rows)
        store.create(folder, document.id, rows)
        write_document(folder, changed)

    source = former.open(folder, document.id)
    try:
        if source.project_id != document.id:
            raise ProjectError("The annotation log belongs to another project than project.json; nothing was copied.")
        kept = source.retire(take, store.name)
    except BaseException:
        if read_document(folder).database != document.database:  # it failed after the last step: take that back
            write_document(folder, document)
            if file is not None:
                file.unlink(missing_ok=True)
        raise
    finally:
        source.close()
    permit_new(folder, changed)
    return Copied(copied, former.name, store.name, kept)


def _check_chain(rows: Sequence[Row]) -> int:
    digest = ""
    for number, row in enumerate(rows, start=1):
        digest = chained(digest, row[:-1])
        if row[0] != number or row[-1] != digest:
            raise ProjectError(
                f"Event {number} of the log is damaged, so nothing was copied; run warpgauge verify, and warpgauge "
                f"recover where there is a mirror."
            )
    return len(rows)
