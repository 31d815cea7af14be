"""Formatting of values for people: numbers, and tables as plain text, HTML (for notebooks) and CSV."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from warpgauge.errors import MissingExtraError, install_advice


def number(value: Any) -> str:
    """Return a number with at most three decimals, as coordinates and settings are shown; a missing one as a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, int | np.integer):
        return str(value)
    size = abs(float(value))
    return f"{value:.3g}" if size < 1e-3 or size >= 1e4 else f"{value:.3f}".rstrip("0").rstrip(".")


def rounded(value: float | None, digits: int = 3) -> str:
    """Return a measured value with so many significant digits; a missing one as a dash."""
    if value is None or not math.isfinite(value):
        return "-"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def shown_units(units: str) -> str:
    """Write a unit as people do."""
    return "µm" if units == "um" else units


def length(value: float | None, units: str | None) -> str:
    """Return a length with three significant digits and its unit."""
    return f"{rounded(value)} {shown_units(units)}" if units else rounded(value)


def percent(share: float) -> str:
    """Return a share as a percentage, never as 0 or 100 where it is not."""
    if 0 < share < 0.01:
        return f"{100 * share:.1g} %"
    return f"{min(99, round(100 * share)) if share < 1 else 100} %"


def probability(value: float) -> str:
    """Return a probability with two digits, never as 0 or 1: a finite number of samples cannot show that."""
    if value >= 0.995:
        return "over 0.99"
    return "below 0.01" if value < 0.005 else f"{value:.2f}"


def joined(words: Sequence[str], last: str = "and") -> str:
    """Join words by commas, and the last one by "and"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def lines_text(lines: Mapping[str, str]) -> str:
    """Return named lines as text, one below the other."""
    width = max(map(len, lines), default=0)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines.items())


def cell(value: Any) -> str:
    """Return a cell of a table as text."""
    return value if isinstance(value, str) else number(value)


def text_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> str:
    """Return a table in columns of equal width; numbers stand to the right."""
    shown = [[cell(value) for value in row] for row in rows]
    widths = [max(len(line[place]) for line in [list(columns), *shown]) for place in range(len(columns))]
    numeric = [bool(rows) and all(not isinstance(row[place], str) for row in rows) for place in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        parts = [one.rjust(n) if right else one.ljust(n) for one, n, right in zip(cells, widths, numeric, strict=True)]
        return "  ".join(parts).rstrip()

    return "\n".join([*([title] if title else []), line(columns), *map(line, shown)])


def html_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str = "",
    after: str | Sequence[str] = (),
    before: Sequence[str] = (),
) -> str:
    """Return a table as HTML without scripts or styles of its own, sentences around it; all text is escaped."""
    head = "".join(f"<th>{html.escape(one)}</th>" for one in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell(one))}</td>" for one in row) + "</tr>" for row in rows)
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    ends = [after] if isinstance(after, str) else after
    above, below = ("".join(f"<p>{html.escape(one)}</p>" for one in part if one) for part in (before, ends))
    return f"{above}<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def csv_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as CSV with all digits; a missing value is empty."""
    return csv_text([columns, *rows])


# What a spreadsheet takes for the beginning of a formula, also in full width.
_FORMULA = re.compile(r"'*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]..*", re.DOTALL)


def csv_text(rows: Iterable[Sequence[Any]], *, delimiter: str = ",", quote_all: bool = False) -> str:
    """Return rows as CSV with plain line ends; every CSV file of the program is written here.

    A number has all its digits, and a missing value is empty. Text that a spreadsheet would run as a formula gets a
    quotation mark before it, as spreadsheets themselves write it; `csv_cell_text` removes it.
    """
    out = io.StringIO(newline="")
    style: dict[str, Any] = {"delimiter": delimiter, "quoting": csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL}
    csv.writer(out, lineterminator="\n", **style).writerows([_csv_cell(one) for one in row] for row in rows)
    return out.getvalue()


def _csv_cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(float(value))
    return f"'{value}" if isinstance(value, str) and _FORMULA.fullmatch(value) and not _is_number(value) else value


def csv_cell_text(cell: str) -> str:
    """Return the text of a cell as it was before `csv_text` made it harmless."""
    return cell[1:] if cell.startswith("'") and _FORMULA.fullmatch(cell[1:]) and not _is_number(cell[1:]) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text and text == text.strip()


class Tabular(ABC):
    """A result that is shown as a table: by ``print``, in notebooks, as CSV and as a pandas DataFrame."""

    @abstractmethod
    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and rows that people read, the best first."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return all numbers, one flat row each; the first column names the row."""

    @property
    def title(self) -> str:
        """Line above the table."""
        return ""

    @property
    def sentences_before(self) -> list[str]:
        """What to read before the table."""
        return []

    @property
    def sentence_after(self) -> str:
        """What the table says."""
        return ""

    def __str__(self) -> str:
        above = "".join(f"{one}\n" for one in self.sentences_before)
        below = f"\n\n{self.sentence_after}" if self.sentence_after else ""
        return (f"{above}\n" if above else "") + text_table(*self.table(), self.title) + below

    def _repr_html_(self) -> str:
        return html_table(*self.table(), self.title, self.sentence_after, self.sentences_before)

    def to_csv(self) -> str:
        """Return all columns of `rows` as CSV, with all digits."""
        rows = self.rows()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        return csv_table(columns, [[row.get(name) for name in columns] for row in rows])

    def to_dataframe(self) -> Any:
        """Return `rows` as a pandas DataFrame, the first column as its index (needs the extra ``tables``)."""
        try:
            pd = import_module("pandas")
        except ImportError as error:
            raise MissingExtraError(f"to_dataframe needs pandas; {install_advice('tables')}.") from error
        rows = self.rows()
        return pd.DataFrame(rows).set_index(next(iter(rows[0]))) if rows else pd.DataFrame()


def counted(count: int, what: str) -> str:
    """Return a number with its noun: "1 annotation", "2 annotations", "3 queries"."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count} {what if count == 1 else many}"
