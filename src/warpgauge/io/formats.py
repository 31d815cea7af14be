"""What a row of a table of formats says, whichever door reads it: ``info --formats`` and the documentation print it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Files:
    """Files of one program that a format reads."""

    program: str
    files: str  # what they are called
    version: str  # of the program or reader that they were tested with
    direction: str  # what a transform maps, or which side a landmark file lists first
    frame: str  # of the numbers, before they become world points
    unit: str
    verified: str  # how, and how near
    options: str = ""  # what has to be given, if anything


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format: ``name`` is what ``format=`` calls it, ``title`` what messages and descriptions call it."""

    name: str
    title: str
    written: tuple[Files, ...] = ()


def rows(formats: Iterable[Format]) -> list[dict[str, str]]:
    """Return a row per kind of file, as the tables of ``info --formats`` and of the documentation show them."""
    table = []
    for entry in formats:
        for files in entry.written:
            about = asdict(files)
            start = {"program": about.pop("program"), "files": about.pop("files"), "format": entry.name}
            table.append({**start, **about})
    return table
