"""The people of a folder of projects, and which pairs are assigned to whom: a file of one JSON object per line.

Lines are only ever appended, each before it is acknowledged, so that several servers share the file and its history is
kept. People are registered by the same event as in a project, with the same rules about roles and names. Tokens are
kept as hashes.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warpgauge.errors import WarpgaugeError
from warpgauge.io.files import locked, one_line, sync_folder
from warpgauge.io.inside import checked_id
from warpgauge.project import ORGANISER, NotAllowedError, ProjectError, State, StorageError
from warpgauge.project.events import Register, advance, check_sequence


class Roster:
    """People and assignments; offers what links and the gate need of a project.

    Parameters
    ----------
    file : Path
        Made where it is missing.

    Attributes
    ----------
    folder : Path
        In which the file is.
    id : str
        The same for all servers that share the file.
    readonly : bool
        Whether the file could not be made or opened for writing.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.folder = file, file.parent
        self.lock = threading.RLock()
        self._forget()
        self.readonly = False
        try:
            if not file.exists() or file.stat().st_size == 0:
                with locked(file) as handle:
                    if os.fstat(handle).st_size == 0:
                        _write(handle, {"kind": "folder", "id": str(uuid.uuid4())})
                sync_folder(self.folder)
            self.readonly = not os.access(file, os.W_OK)
        except OSError:
            self.readonly = True
        with self.lock:
            self._follow()
        self.id = self._id or uuid.uuid5(uuid.NAMESPACE_URL, str(file.resolve())).hex

    def _forget(self) -> None:
        self._state, self._pairs, self._at, self._id = State(), dict[str, dict[str, None]](), 0, ""

    @property
    def state(self) -> State:
        """The registered people, lines of other servers included."""
        with self.lock:
            self._follow()
            return self._state

    def pairs_of(self, rater: str) -> list[str]:
        """Return the keys of the pairs assigned to a person, in the order of their assignment."""
        with self.lock:
            self._follow()
            return list(self._pairs.get(rater, ()))

    def assigned(self) -> dict[str, list[str]]:
        """Return the raters of each pair by its key."""
        with self.lock:
            self._follow()
            found: dict[str, list[str]] = {}
            for rater, pairs in self._pairs.items():
                for pair in pairs:
                    found.setdefault(pair, []).append(rater)
            return found

    def is_assigned(self, rater: str, pair: str) -> bool:
        """Return whether a pair is assigned to a person."""
        with self.lock:
            self._follow()
            return pair in self._pairs.get(rater, ())

    def add_rater(self, name: str, role: str = "rater", *, token_hash: str | None = None, by: str = ORGANISER) -> None:
        """Register a person, or change their role or link; see `Project.add_rater`."""
        people = [Register(rater=by, name=name, role=role, token_hash=token_hash)]
        if not self.state.raters and (name, role) != (by, ORGANISER):
            people.insert(0, Register(rater=by, name=by, role=ORGANISER))
        self._append(lambda: [_registered(self._state, person) for person in people])

    def revoke_rater(self, name: str, *, by: str = ORGANISER) -> None:
        """Take a person's rights away; what they did stays."""
        role = self.state.role(name)
        self._append(lambda: [_registered(self._state, Register(rater=by, name=name, role=role, revoked=True))])

    def assign(self, added: Mapping[str, Sequence[str]], removed: Mapping[str, Sequence[str]], *, by: str) -> None:
        """Assign pairs to raters and take others from them, all or none; what raters did in a pair stays."""

        def lines() -> list[dict[str, Any]]:
            if self._state.role(by) != ORGANISER:
                raise NotAllowedError(f"{by} is not an organiser and may not assign pairs.")
            both = (("assign", added), ("unassign", removed))
            return [
                {"kind": kind, "by": by, "rater": rater, "pairs": list(pairs)}
                for kind, changes in both
                for rater, pairs in changes.items()
                if pairs
            ]

        self._append(lines)

    def ping(self) -> None:
        """Raise when the file cannot be read, or not written although it could be."""
        with self.lock:
            self._follow()
        if not self.readonly and not os.access(self.file, os.W_OK):
            raise StorageError(f"The file {self.file.name!r} cannot be written now.")

    def close(self) -> None:
        """Do nothing: the file is open only while it is read or written."""

    def _append(self, decide: Any) -> None:
        """Write the lines that ``decide`` returns while no other server can write; none where it raises."""
        if self.readonly:
            raise StorageError(f"The file {self.file.name!r} cannot be written, so nothing was changed.")
        try:
            with self.lock, locked(self.file) as handle:
                self._follow()
                if os.fstat(handle).st_size > self._at:
                    os.ftruncate(handle, self._at)  # a line whose writer died was not acknowledged
                time = datetime.now(UTC).isoformat(timespec="milliseconds")
                lines = [{"time": time, **line} for line in decide()]
                self._at += _write(handle, *lines)
                for line in lines:
                    self._apply(line)
        except OSError as error:
            with self.lock:
                self._forget()  # what is in the file counts
            raise StorageError(
                f"The file {self.file.name!r} cannot be written now ({one_line(error)}), so nothing was changed."
            ) from error

    def _follow(self) -> None:
        """Apply the lines that others have written."""
        try:
            size = self.file.stat().st_size if self._at or self.file.exists() else 0
            if size == self._at:
                return
            if size < self._at:
                raise OSError("it lacks lines that were acknowledged: put it back, then start the server again")
            with self.file.open("rb") as stream:
                stream.seek(self._at)
                fresh = stream.read()
        except OSError as error:
            raise StorageError(f"The file {self.file.name!r} cannot be read now ({one_line(error)}).") from error
        for line in fresh[: fresh.rfind(b"\n") + 1].splitlines(keepends=True):
            try:
                self._apply(json.loads(line))
            except (WarpgaugeError, ValueError, KeyError, TypeError, RecursionError) as error:
                raise ProjectError(
                    f"The file {self.file.name!r} cannot be understood at byte {self._at} ({one_line(error)}); put "
                    f"back a copy of it."
                ) from error
            self._at += len(line)

    def _apply(self, line: Mapping[str, Any]) -> None:
        kind = line["kind"]
        if kind == "folder":
            self._id = checked_id(line["id"])
        elif kind == "rater":
            event = Register(
                rater=line["by"], **{name: line[name] for name in ("name", "role", "token_hash", "revoked")}
            )
            number = self._state.generation + 1
            advance(self._state, event.model_copy(update={"generation": number, "time": str(line["time"])}))
        elif kind in ("assign", "unassign"):
            mine = self._pairs.setdefault(str(line["rater"]), {})
            for pair in line["pairs"]:
                mine.pop(str(pair), None)
                if kind == "assign":
                    mine[str(pair)] = None
        else:
            raise ProjectError(f"the kind {kind!r} is of a newer warpgauge")


def _registered(state: State, person: Register) -> dict[str, Any]:
    """Return the line that registers a person; refuse one who may not be."""
    check_sequence(state, [person], 2)
    about = person.model_dump(include={"name", "role", "token_hash", "revoked"})
    return {"kind": "rater", "by": person.rater, **about}


def _write(handle: int, *lines: Mapping[str, Any]) -> int:
    """Append lines, all or none, have them on the disk, and return their length."""
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    before = os.lseek(handle, 0, os.SEEK_END)
    try:
        if os.write(handle, data) < len(data):
            raise OSError("the disk is full")
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, before)
        raise
    return len(data)


def shared_out(
    pairs: Sequence[str],
    raters: Sequence[str],
    load: Mapping[str, int],
    taken: Mapping[str, Iterable[str]],
    overlap: float,
) -> dict[str, list[str]]:
    """Return which pairs to assign to whom so that everybody has about the same number.

    Parameters
    ----------
    pairs : sequence of str
        Each gets one rater; of them the share ``overlap``, spread evenly over the list, gets two, so that agreement can
        be measured. Raters that a pair has already count.
    raters : sequence of str
    load : mapping of rater to int
        How many pairs each has already.
    taken : mapping of pair to raters
        Who has it already.
    """
    heavy = {rater: load.get(rater, 0) for rater in raters}
    given: dict[str, list[str]] = {rater: [] for rater in raters}
    for place, pair in enumerate(pairs):
        # Bresenham's rule: of any stretch of the list the share is right to one pair.
        twice = int((place + 1) * overlap) > int(place * overlap)
        have = set(taken.get(pair, ()))
        for _ in range(max(0, 1 + twice - len(have))):
            free = [rater for rater in raters if rater not in have]
            if not free:
                break
            chosen = min(free, key=lambda rater: heavy[rater])
            heavy[chosen] += 1
            have.add(chosen)
            given[chosen].append(pair)
    return given
