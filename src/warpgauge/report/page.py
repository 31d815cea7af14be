"""Pages of a report: the values that they show (cells, tables, pictures) and the templates that show them.

The templates are those of the folder ``templates``, with escaping on: what came from a user stays text.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpgauge.display import fact
from warpgauge.errors import InvalidInputError, MissingExtraError, install_advice
from warpgauge.maps import picture_bytes

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def rounded(value: float | None, digits: int = 3) -> str:
    """Write a number for people: so many significant digits, a dash where there is none."""
    if value is None or not np.isfinite(value):
        return "–"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f"{value}"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        decimals = max(0, digits - 1 - int(np.floor(np.log10(abs(value))))) if value else 0
        return f"{value:.{decimals}f}"
    return f"{value:.{digits - 1}e}"


def percent(value: float | None) -> str:
    """Write a share as a percentage that never rounds to 0 or 100 % unless it is exactly that."""
    if value is None or not np.isfinite(value):
        return "–"
    if 0 < value < 0.001:
        return "< 0.1\u00a0%"
    if 0.999 < value < 1:
        return "> 99.9\u00a0%"
    return f"{100 * value:.0f}\u00a0%" if value in (0, 1) else f"{100 * value:.1f}\u00a0%"


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and the number behind it where there is one."""

    text: str
    value: float | None = None
    numeric: bool = True

    @property
    def data(self) -> str | None:
        """The number behind the text with all its digits."""
        return None if self.value is None else repr(float(self.value))


BLANK = Cell("–")
# A table with more rows is folded if it is there to be looked up rather than read.
MOST_OPEN = 12


def sampled_cell(share: float, samples: int) -> Cell:
    """Return a cell with a share of samples; none or all of them is shown as a bound, not as certainty."""
    step = 100 / samples
    if share == 0:
        return Cell(f"< {rounded(step, 1)}\u00a0%", share)
    if share == 1:
        places = max(0, math.ceil(-math.log10(step)))
        most = math.floor((100 - step) * 10**places + 1e-9) / 10**places  # rounded, it could be 100
        return Cell(f"> {most:.{places}f}\u00a0%", share)
    return percent_cell(share)


def figure_cell(value: float | None, digits: int = 3) -> Cell:
    """Return a cell with a number."""
    return Cell(rounded(value, digits), value)


def percent_cell(value: float | None) -> Cell:
    """Return a cell with a percentage; the number behind it is the share."""
    return Cell(percent(value), value)


def count_cell(value: int) -> Cell:
    """Return a cell with a count."""
    return Cell(str(value), value)


def text_cell(text: Any) -> Cell:
    """Return a cell with plain text."""
    return Cell(str(text), None, numeric=False)


def value_cell(unit: str, value: Any, samples: int) -> Cell:
    """Return the cell of a column's value, written by what it is; a probability is a share of so many samples."""
    if unit == "text":
        return text_cell(value)
    if value is None or isinstance(value, str):
        return Cell(value or "–")
    if unit in ("interval", "share interval"):
        middle, low, high = map(percent if unit == "share interval" else rounded, value)
        return Cell(f"{middle} ({low}\u00a0to\u00a0{high})", value[0])
    if unit == "probability":
        return sampled_cell(value, samples)
    if unit == "figure":
        return figure_cell(value, 4)
    return percent_cell(value) if unit == "share" else figure_cell(value)


@dataclass(frozen=True)
class Table:
    """A table whose rows begin with a heading.

    ``flagged`` are headings of rows that stand out. The row of the baseline, which is only there to be compared with,
    is grey. ``name`` is the table's id on the page. A table that is ``folded`` shows its caption until it is opened;
    printed, it is open. ``upright`` headings of numbers make room for many columns.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    flagged: Iterable[str] = ()
    baseline: str | None = None
    name: str = ""
    folded: bool = False
    upright: bool = False


def facts(caption: str, pairs: Mapping[str, Any]) -> Table:
    """Return a folded table of names and values, nested mappings joined with dots."""
    rows = [(name, [text_cell(value)]) for name, value in _flattened(pairs)]
    return Table(caption, ("name", "value"), rows, folded=True)


def _flattened(pairs: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in pairs.items():
        if isinstance(value, Mapping):
            rows += _flattened(value, f"{prefix}{name}.")
        else:
            empty = isinstance(value, (list, tuple)) and not value
            rows.append((f"{prefix}{name}", "" if empty else fact(name, value, str)))
    return rows


def chart(figure: Any) -> str:
    """Return a chart as the address of a vector graphic that is part of the page."""
    return _address(picture_bytes(figure, "svg"), "image/svg+xml")


def photograph(figure: Any, dpi: float = 110) -> str:
    """Return a figure with images as the address of a picture that is part of the page."""
    return _address(picture_bytes(figure, "png", dpi=dpi), "image/png")


def download(text: str, kind: str) -> str:
    """Return the address of a text that is part of the page, for a link that saves it; ``kind`` is its MIME type."""
    return _address(text.encode("utf-8"), kind)


def _address(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def rendered(template: str, **values: Any) -> str:
    """Return the page of a template; a value that the template misses is an error."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError(
            f"Reports need the library Jinja2, which is not installed; {install_advice('report')}."
        ) from error
    made = Environment(
        loader=PackageLoader("warpgauge.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    made.filters.update(rounded=rounded, percent=percent, sha256=_sha256, breakable=_breakable)
    return made


def _breakable(text: str) -> Markup:
    """Return a name that may continue on the next line after a dot, a hyphen or an underscore."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[._-])", text))


def _sha256(text: str) -> str:
    """Return the hash of an inline script, as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def report_path(out_html: str | os.PathLike[str]) -> Path:
    """Check the name and the folder of a report."""
    file = Path(out_html)
    if file.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"A report is an HTML file, so {file.name!r} must end in .html.")
    if not file.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into; make it first.")
    return file
