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
_LONGEST_NUMBER = 400
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


def coordinate(token: str, name: str, line: int) -> float:
    """Read one coordinate; not a number, not finite or absurdly large is an error."""
    token = token.strip()
    if not is_number(token):
        fail(name, line, f"{shown(token)} is not a number")
    value = float(token)
    if not abs(value) <= LARGEST_COORDINATE:
        fail(name, line, f"the coordinate {shown(token)} is beyond {LARGEST_COORDINATE:g}")
    return value


def coordinates(tokens: Iterable[str], name: str, line: int) -> list[float]:
    """Read the coordinates of one point."""
    return [coordinate(token, name, line) for token in tokens]


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


def _csv_rows(text: str, name: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                yield reader.line_num, fields
    except csv.Error as error:
        fail(name, reader.line_num, f"broken comma-separated text ({error})", "export it again")


def csv_rows(text: str, name: str) -> list[Row]:
    """Split comma-separated text into rows with their line numbers; empty lines are left out."""
    return [(line, [csv_cell_text(field) for field in fields]) for line, fields in _csv_rows(text, name)]


def first_csv_row(text: str, name: str) -> list[str]:
    """Return the fields of the first row that is not empty, without reading the others."""
    return next((fields for _, fields in _csv_rows(text, name)), [])


def header_columns(row: Row, name: str) -> dict[str, int]:
    """Map the column titles of a header to their places; a repeated title is an error."""
    titles = [title.strip() for title in row[1]]
    columns: dict[str, int] = {}
    for place, title in enumerate(titles):
        if title and title in columns:
            fail(name, row[0], f"the column {shown(title)} stands twice in the header", "rename one of them")
        columns[title] = place
    return columns


def table_body(rows: Sequence[Row], name: str) -> Sequence[Row]:
    """Return the rows below a header after checking that each has as many fields as the header."""
    width = len(rows[0][1])
    for line, fields in rows[1:]:
        if len(fields) != width:
            fail(
                name,
                line,
                f"{counted(len(fields), 'field')}, but the header has {width}",
                "the row is cut or has a stray comma",
            )
    return rows[1:]


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
