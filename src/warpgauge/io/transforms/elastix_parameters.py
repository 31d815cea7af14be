"""The parameter files of elastix: the old text form and TOML, both as a table of texts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path, PureWindowsPath
from typing import Any

from warpgauge.errors import FileFormatError
from warpgauge.geometry import Floats
from warpgauge.io.files import allowed, finite_numbers, one_line, read_text

_TOKEN = re.compile(r'"([^"]*)"|([^\s"]+)')
_KEY = re.compile(r"[A-Za-z_]\w*\Z")
_LIMIT = 2**28


class ParameterTable:
    """Values of one parameter file by key, texts or numbers, with errors that name the file."""

    def __init__(self, path: Path, values: dict[str, list[Any]]) -> None:
        self.path = path
        self._values = values

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str, default: str | None = None) -> str:
        """Return the one value of a key, or the default where the key is missing."""
        values = self._values.get(key)
        if values is None or not values:
            if default is None:
                raise FileFormatError(f"{self.path.name!r} has no value of {key!r}, which its transform needs.")
            return default
        return _plain(values[0])

    def flag(self, key: str, default: bool) -> bool:
        """Return a value that is "true" or "false"."""
        text = self.text(key, "true" if default else "false").lower()
        if text not in ("true", "false"):
            raise FileFormatError(f'{self.path.name!r}: {key!r} must be "true" or "false", got {text[:40]!r}.')
        return text == "true"

    def numbers(self, key: str, count: int | None = None) -> Floats:
        """Return finite numbers of a key, ``count`` of them where that is given."""
        if key not in self._values:
            raise FileFormatError(f"{self.path.name!r} has no value of {key!r}, which its transform needs.")
        return finite_numbers(self._values[key], self.path.name, f"the values of {key!r}", count).reshape(-1)

    def number(self, key: str, default: float) -> float:
        """Return one finite number, or the default where the key is missing."""
        return float(self.numbers(key, 1)[0]) if key in self._values else default

    def integer(self, key: str, default: int) -> int:
        """Return one integer, or the default where the key is missing."""
        value = self.number(key, default)
        if value != int(value):
            raise FileFormatError(f"{self.path.name!r}: {key!r} must be an integer, got {value:g}.")
        return int(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_parameters(path: Path) -> ParameterTable:
    """Read a parameter file of elastix, in text or TOML form by its content."""
    text = read_text(path, "elastix parameter file", _LIMIT)
    if path.suffix.lower() == ".toml" or not text.lstrip().startswith(("(", "//")):
        return ParameterTable(path, _toml(text, path.name))
    return ParameterTable(path, _classic(text, path.name))


def _toml(text: str, name: str) -> dict[str, list[Any]]:
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{name!r} is neither an elastix text nor a TOML file: {one_line(error)}.") from error
    return {key: value if isinstance(value, list) else [value] for key, value in table.items()}


def _classic(text: str, name: str) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _without_comment(raw).strip()
        if not line:
            continue
        if not (line.startswith("(") and line.endswith(")")):
            raise FileFormatError(f"{name!r}, line {number}: expected '(Key values)', got {line[:60]!r}.")
        key, entries = _entry(line[1:-1], name, number)
        if key in values:
            raise FileFormatError(f"{name!r}, line {number}: {key!r} appears twice; remove one.")
        values[key] = entries
    return values


def _without_comment(line: str) -> str:
    """Cut a line at the first ``//`` that does not stand within quotation marks."""
    if "//" not in line:
        return line
    parts = line.split('"')
    for i in range(0, len(parts), 2):  # every second part lies within quotation marks
        if "//" in parts[i]:
            return '"'.join([*parts[:i], parts[i].partition("//")[0]])
    return line


def _entry(body: str, name: str, line: int) -> tuple[str, list[Any]]:
    if body.count('"') % 2:
        raise FileFormatError(f"{name!r}, line {line}: a quotation mark is missing.")
    if '"' in body:
        tokens = [quoted or bare for quoted, bare in _TOKEN.findall(body)]
    else:
        tokens = body.split()
    if len(tokens) < 2 or _KEY.match(tokens[0]) is None:
        raise FileFormatError(f"{name!r}, line {line}: expected a key and at least one value within the brackets.")
    return tokens[0], list(tokens[1:])


def beside(file: Path, recorded: str, what: str) -> tuple[Path, str]:
    """Find a file that another one names, and say where it was found if that is not where it was recorded.

    An absolute name is taken as it is where such a file exists. Otherwise the name is looked up from the folder of the
    naming file, not from the current one, and then its last part alone: files travel without their folders.
    """
    if recorded.isdigit():
        raise FileFormatError(
            f"{file.name!r} names its {what} by the number {recorded[:20]} instead of a file, as elastix does in "
            f"memory; write the name of that file there, or read the files one by one and join them with Chain."
        )
    # The last part by the rules of Windows, which split at both kinds of slash.
    bare = PureWindowsPath(recorded).name
    note = f"The {what} is recorded as {recorded!r}, which is not there; {bare!r} next to {file.name!r} is used."
    try:
        # Joining an absolute name gives that name, whatever stands before it.
        if allowed(file.parent / recorded) and (file.parent / recorded).is_file():
            return file.parent / recorded, ""
        if bare and allowed(file.parent / bare) and (file.parent / bare).is_file():
            return file.parent / bare, note
    except (OSError, ValueError):
        pass  # a recorded text that no file system takes as a name is simply not found
    raise FileFormatError(
        f"{file.name!r} names the {what} {recorded[:120]!r}, which is neither there nor next to it; copy it beside "
        f"{file.name!r}."
    )
