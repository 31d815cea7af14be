"""Paths that a file of others can influence: each lies below a folder that a person chose, or it is refused.

`Inside` is the only way from a name that stands in a file (a project, a submission, a table) to a path, `file_name` the
only way from a label of a person to the name of a file, and `own_file` opens what is written in place.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import unicodedata
import uuid
from contextlib import suppress
from pathlib import Path, PureWindowsPath

from warpgauge.errors import FileFormatError, InvalidInputError

LONGEST_NAME = 255  # bytes of one part, as on all file systems in use
_SHOWN = 80
_WINDOWS = os.name == "nt"
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(\..*)?", re.IGNORECASE)


class Inside(os.PathLike[str]):
    """A path below a folder that a person chose, checked when it is made, and its links each time that it is used.

    ``name`` is what a file says: parts with ``/`` between them, none of them ``..``, nothing absolute. One that leads
    out of the folder, a link that does so on use, a device and a pipe are refused, as ``what`` ("transform file").
    """

    __slots__ = ("name", "root", "what")

    def __init__(self, root: Path, name: object, what: str = "file") -> None:
        problem = name_problem(name)
        if problem is not None:
            raise FileFormatError(
                f"The {what} {str(name)[:_SHOWN]!a} is not used, because its name {problem}; a name of something in "
                f"{root.name!r} is expected."
            )
        self.root = root
        self.name = str(name)
        self.what = what

    def __fspath__(self) -> str:
        path = self.root / self.name
        root = os.path.realpath(self.root)
        refused = f"The {self.what} {self.name[:_SHOWN]!r} in {self.root.name!r} is not used, because it is"
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise FileFormatError(f"{refused} a link to a place outside that folder; put the file itself there.")
        with suppress(OSError):  # what is not there yet, or cannot be looked at, is no device
            mode = path.stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise FileFormatError(f"{refused} a pipe, a socket or a device; put a file there.")
        return str(path)

    def __repr__(self) -> str:
        return f"Inside({str(self.root)!r}, {self.name!r})"

    @property
    def path(self) -> Path:
        """The path, its links checked now."""
        return Path(os.fspath(self))


def name_problem(name: object) -> str | None:
    """Return why a name cannot be a path below a folder, on any system and however it is normalised; None if it can."""
    if not isinstance(name, str) or not name:
        return "is empty or not text"
    parts = name.split("/")
    try:
        longest = max(len(os.fsencode(part)) for part in parts)
    except UnicodeEncodeError:
        longest = LONGEST_NAME + 1
    if longest > LONGEST_NAME or any(unicodedata.category(one) == "Cc" for one in name):
        return "has characters that no name of a file has, or too many"
    if name.startswith("/") or PureWindowsPath(name).drive or PureWindowsPath(name).root:
        return "is absolute"
    # Some file systems and programs normalise: U+2025 is then "..", U+FF0F a slash.
    for shown in (name, unicodedata.normalize("NFKC", name)):
        if "\\" in shown or shown.count("/") != name.count("/") or set(shown.split("/")) & {"", ".", ".."}:
            return "leads elsewhere ('..', a backslash, an empty part, or a character that stands for them)"
    if _WINDOWS and any(_RESERVED.fullmatch(part) or part[-1] in ". " or ":" in part for part in parts):
        return "stands for a device or for another name on this system"
    return None


def file_name(label: str, otherwise: str = "unnamed", most: int = 100) -> str:
    """Return a label as one plain name of a file that is the same on every system: letters, digits, ``_ . -``.

    A label that is changed by more than signs (too long, reserved) gets the first digits of its hash, so that two
    labels do not share a name because of it.
    """
    plain = re.sub(r"[^\w.-]+", "_", unicodedata.normalize("NFC", label)).strip("._") or otherwise
    if len(plain.encode()) <= most and not _RESERVED.fullmatch(plain):
        return plain
    kept = plain.encode()[: most - 9].decode(errors="ignore").partition(".")[0]
    return f"{kept}-{hashlib.sha256(label.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def own_file(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a file that is written in place, and return its descriptor; the caller closes it.

    Raises
    ------
    OSError
        Also where the file is a link, has a second name (a hard link: writing would change that file, too), or is not
        a plain file.
    """
    # Without O_NONBLOCK a pipe would be waited for; for a file it means nothing.
    handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), mode)
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return handle
    os.close(handle)
    raise OSError(f"{path.name!r} has a second name or is not a plain file, so it is not written to")


def checked_id(text: object) -> str:
    """Return the identifier of a project: a UUID as `uuid.uuid4` writes it, and nothing else."""
    try:
        if isinstance(text, str) and str(uuid.UUID(text)) == text:
            return text
    except ValueError:
        pass
    raise InvalidInputError(
        f"the identifier of a project must be a UUID such as 0b9f4c1e-7d3a-4c55-9a51-3f0f5d9c2e77, got "
        f"{str(text)[:_SHOWN]!a}"
    )


def copy_tree(source: Path, aim: Path) -> Path:
    """Copy a folder with all files below it; a link out of it, a pipe or a device is refused.

    Raises
    ------
    FileFormatError
        Before anything is written.
    """
    entries = sorted(source.rglob("*"))
    inside = [Inside(source, entry.relative_to(source).as_posix(), "file").path for entry in entries]
    for entry in inside:
        if entry.is_symlink() and entry.is_dir():
            raise FileFormatError(f"{entry.name!r} in {source.name!r} is a link to a folder; put the folder there.")
    aim.mkdir(parents=True)
    for entry in inside:
        copy = aim / entry.relative_to(source)
        if entry.is_dir():
            copy.mkdir(exist_ok=True)
        else:
            shutil.copy2(entry, copy)
    return aim
