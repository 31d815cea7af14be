"""Pages of a report: the cells, tables and pictures that they show, and the templates that show them.

The templates are those of the folder ``templates``, with escaping on: what came from a user stays text. Numbers are
written by `warpgauge.display`, as everywhere.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpgauge._version import __version__
from warpgauge.display import percent, probability, rounded
from warpgauge.errors import InvalidInputError, MissingExtraError, install_advice
from warpgauge.maps import picture_bytes

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

# A table with more rows is folded if it is there to be looked up rather than read.
MOST_OPEN = 12
_LIBRARIES = ("numpy", "scipy", "numba", "matplotlib", "nibabel", "SimpleITK")


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


def number_cell(value: float | None) -> Cell:
    """Return a cell with a measured value."""
    return Cell(rounded(value), value)


def share_cell(value: float | None) -> Cell:
    """Return a cell with a share as a percentage."""
    return Cell("-" if value is None else percent(value), value)


def chance_cell(value: float | None) -> Cell:
    """Return a cell with a probability."""
    return Cell("-" if value is None else probability(value), value)


def count_cell(value: int) -> Cell:
    """Return a cell with a count."""
    return Cell(str(value), value)


def text_cell(text: Any) -> Cell:
    """Return a cell with plain text."""
    return Cell(str(text), None, numeric=False)


@dataclass(frozen=True)
class Table:
    """A table whose rows begin with a heading."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    flagged: Iterable[str] = ()
    """Headings of rows that stand out."""
    baseline: str | None = None
    """Heading of the row that is only there to be compared with; it is grey."""
    name: str = ""
    """Id on the page."""
    folded: bool = False
    """Shows its caption until it is opened; printed, it is open."""
    upright: bool = False
    """Headings of numbers stand upright, which makes room for many columns."""


def facts(caption: str, pairs: Mapping[str, Any]) -> Table:
    """Return a folded table of names and values, nested mappings joined with dots."""
    rows = [(name, [text_cell(value)]) for name, value in _flattened(pairs)]
    return Table(caption, ("name", "value"), rows, folded=True)


def _flattened(pairs: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in pairs.items():
        if isinstance(value, Mapping):
            rows += _flattened(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            between = " " if name == "assumptions" else ", "  # these are sentences
            rows.append((f"{prefix}{name}", between.join(map(str, value))))
        else:
            rows.append((f"{prefix}{name}", str(value)))
    return rows


def versions() -> dict[str, str]:
    """Return the versions of this program and of the libraries that the numbers went through."""
    found = {"warpgauge": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


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


def report_path(out_html: str | os.PathLike[str]) -> Path:
    """Check the name and the folder of a report."""
    file = Path(out_html)
    if file.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"A report is an HTML file, so {file.name!r} must end in .html.")
    if not file.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into; make it first.")
    return file


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
