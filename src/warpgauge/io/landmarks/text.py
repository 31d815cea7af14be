"""Strict reading of numbers, words, table rows and JSON out of text that anyone may have written.

Python's own ``float`` takes ``nan``, ``1_000`` and Arabic digits; a landmark file has no use for them, and what is not
a plain number is an error that names file and line.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from warpgauge.display import counted, csv_cell_text
from warpgauge.errors import FileFormatError
from warpgauge.io.landmarks.model import LARGEST_COORDINATE, text_problem

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_LONGEST_NUMBER = 400
SEPARATORS = {";": "semicolons", "\t": "tabs"}
Row = tuple[int, list[str]]


def fail(name: str, line: int | None, problem: str, advice: str = "correct or remove it") -> NoReturn:
    """Raise the one sentence: file, line, what is wrong, what to do."""
    where = f"{name!r}" if line is None else f"{name!r}, line {line}"
    raise FileFormatError(f"{where}: {problem}; {advice}.")


def shown(value: object, limit: int = 40) -> str:
    """Quote a piece of a file within a sentence, shortened."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def is_number(token: str) -> bool:
    """Return whether a token is a plain decimal number."""
    return len(token) <= _LONGEST_NUMBER and _NUMBER.fullmatch(token) is not None


def is_count(token: str, most_digits: int = 15) -> bool:
    """Return whether a token is a whole number from 0 on, of so many digits at most."""
    return token.isascii() and token.isdigit() and len(token) <= most_digits


def count_up(labels: Sequence[str]) -> bool:
    """Return whether labels count the rows without a gap, from wherever they start."""
    numbers = [int(label) for label in labels if is_count(label)]
    return len(numbers) == len(labels) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def coordinates(tokens: Iterable[str], name: str, line: int) -> list[float]:
    """Read the coordinates of one point; not a number, not finite or absurdly large is an error."""
    values = []
    for token in map(str.strip, tokens):
        if _DECIMAL_COMMA.fullmatch(token[:_LONGEST_NUMBER]):
            fail(name, line, f"{shown(token)} has a comma, which may stand for a point or group digits", "use points")
        if not is_number(token):
            fail(name, line, f"{shown(token)} is not a number")
        if not abs(float(token)) <= LARGEST_COORDINATE:
            fail(name, line, f"the coordinate {shown(token)} is beyond {LARGEST_COORDINATE:g}")
        values.append(float(token))
    return values


def words(text: str, name: str, line: int | None) -> str:
    """Check a name, a rater or a reason."""
    problem = text_problem(text)
    if problem:
        fail(name, line, f"the text {shown(text)} {problem}")
    return text


def lines(text: str) -> list[tuple[int, str]]:
    """Return the non-empty lines, stripped, with their numbers counted from 1."""
    # Not splitlines(): that would also split at form feeds and Unicode separators inside a name.
    numbered = enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1)
    return [(number, line.strip()) for number, line in numbered if line.strip()]


def separator(text: str) -> str:
    """Return what separates the columns: a comma, unless the first line has none but semicolons or tabs."""
    first = text.lstrip().partition("\n")[0]
    others = [mark for mark in SEPARATORS if mark in first.strip()]
    return others[0] if len(others) == 1 and "," not in first else ","


def _csv_rows(text: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator(text))
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                yield reader.line_num, fields
    except csv.Error as error:
        raise csv.Error(f"{error}, line {reader.line_num}") from error


def csv_rows(text: str, name: str) -> list[Row]:
    """Split a table into rows with their line numbers; empty lines are left out."""
    try:
        return [(line, [csv_cell_text(field) for field in fields]) for line, fields in _csv_rows(text)]
    except csv.Error as error:
        fail(name, None, f"broken comma-separated text ({error})", "export it again")


def first_csv_row(text: str) -> list[str]:
    """Return the fields of the first row that is not empty, without reading the others; none of broken text."""
    try:
        return next((fields for _, fields in _csv_rows(text)), [])
    except csv.Error:
        return []


def header_columns(row: Row, name: str) -> dict[str, int]:
    """Map the column titles of a header to their places; a repeated title is an error."""
    columns: dict[str, int] = {}
    for place, field in enumerate(row[1]):
        title = field.strip()
        if title and title in columns:
            fail(name, row[0], f"the column {shown(title)} stands twice in the header", "rename one of them")
        columns[title] = place
    return columns


def same_width(rows: Sequence[Row], name: str, first: str = "the header") -> None:
    """Refuse rows that have not as many fields as the first one, which is called ``first``."""
    width = len(rows[0][1])
    for line, fields in rows[1:]:
        if len(fields) != width:
            problem = f"{counted(len(fields), 'field')}, but {first} has {width}"
            fail(name, line, problem, "the row is cut or has a stray comma")


def number_text(value: float) -> str:
    """Render a number so that reading it gives the same float64; whole numbers without a point."""
    value = float(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def load_json(text: str, name: str) -> Any:
    """Parse JSON; NaN and Infinity, which JSON does not have, are errors like any other."""

    def refuse(constant: str) -> NoReturn:
        fail(name, None, f"the value {constant} is not a JSON number", "give a finite number")

    try:
        return json.loads(text, parse_constant=refuse)
    except FileFormatError:
        raise
    except json.JSONDecodeError as error:
        fail(name, error.lineno, f"broken JSON ({error.msg.lower()})", "export the file again")
    except (ValueError, RecursionError) as error:
        fail(name, None, f"JSON that cannot be read ({type(error).__name__})", "export the file again")
