"""History of a study: which submission was there when, with which score and rank, and what changed from run to run.

It is the file ``history.json`` beside the results. A run adds an entry where a submission, its rank or its figures
differ from the last entry; nothing is taken away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpgauge._version import __version__
from warpgauge.errors import FileFormatError
from warpgauge.io.files import read_text, replace_text

if TYPE_CHECKING:
    from warpgauge.study.result import StudyResult

FILE = "history.json"
_FIGURES = ("rank", "mean_rank", "mean_score", "cases", "missing")


@dataclass(frozen=True)
class Entry:
    """A state of a study.

    Attributes
    ----------
    when : str
        Time of the first run that found it so, in ISO 8601.
    program : str
        Version.
    methods : dict
        Of each method: ``content``, a hash of its files over all pairs, and ``rank``, ``mean_rank``, ``mean_score``,
        ``cases`` and ``missing``.
    unranked : dict
        Submissions that are not ranked, and why.
    """

    when: str
    program: str
    methods: dict[str, dict[str, Any]]
    unranked: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What happened to one submission: ``"new"``, ``"changed"``, ``"withdrawn"``, ``"not ranked"`` or ``"rescored"``.

    Its figures are those after it, or the last ones where it is gone. Rescored is one whose files are the same: a
    setting, an annotation, a reference or the program changed.
    """

    when: str
    method: str
    what: str
    figures: Mapping[str, Any] | None = None
    why: str = ""


def read_history(folder: Path) -> list[Entry]:
    """Return the entries of a study's results, oldest first; none where there is no history."""
    file = folder / FILE
    if not file.is_file():
        return []
    try:
        return [Entry(**one) for one in json.loads(read_text(file, "history"))]
    except (ValueError, TypeError, RecursionError) as error:
        raise FileFormatError(
            f"{FILE!r} among the results cannot be read as a history; restore it from a copy, or move it away to begin "
            "a new one."
        ) from error


def recorded(
    folder: Path, result: StudyResult, contents: Mapping[str, str], when: datetime | None = None
) -> list[Entry]:
    """Add a result to the history in a folder, unless it says what the last entry says, and return all entries."""
    entries = read_history(folder)
    methods = {
        one.name: {"content": contents.get(one.name), **{key: getattr(one, key) for key in _FIGURES}}
        for one in sorted(result.methods, key=lambda one: one.name)
    }
    now = (when or datetime.now(UTC)).isoformat(timespec="seconds")
    entry = Entry(now, __version__, methods, dict(result.unranked))
    if entries and (entries[-1].methods, entries[-1].unranked) == (entry.methods, entry.unranked):
        return entries
    entries.append(entry)
    replace_text(folder / FILE, json.dumps([asdict(one) for one in entries], indent=1, allow_nan=False))
    return entries


def changes(entries: Sequence[Entry]) -> Iterator[Change]:
    """Return what happened to each submission, oldest first; a rank that others changed is no change."""
    before = Entry("", "", {})
    for entry in entries:
        for name in sorted({*entry.methods, *before.methods, *entry.unranked}):
            own, former = entry.methods.get(name), before.methods.get(name)
            if name in entry.unranked:
                if before.unranked.get(name) != entry.unranked[name]:
                    yield Change(entry.when, name, "not ranked", former, entry.unranked[name])
            elif own is None:
                yield Change(entry.when, name, "withdrawn", former)
            elif former is None:
                yield Change(entry.when, name, "new", own)
            elif own["content"] != former["content"]:
                yield Change(entry.when, name, "changed", own)
            elif own["mean_score"] != former["mean_score"]:
                yield Change(entry.when, name, "rescored", own)
        before = entry
