"""Pieces of a page as strings: everything that came from a user is escaped here, and nowhere else."""

from __future__ import annotations

import base64
import html
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.errors import InvalidInputError
from warpgauge.maps import picture_bytes

# Dark grey on white and the accents below have a contrast of at least 4.5 to 1 on their backgrounds.
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem; background: #fff; color: #1a1a1a;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
header p { color: #4a4a4a; margin: .2rem 0; }
h1 { font-size: 1.9rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.4rem; margin: 2.4rem 0 .6rem; border-bottom: 1px solid #bbb; padding-bottom: .2rem; }
h3 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
p, li { max-width: 46rem; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: .8rem 0; }
a { color: #00507d; }
.verdict, .warning, .notice { border-left: .4rem solid #00507d; background: #f1f6fa; padding: .8rem 1.1rem;
  margin: 1rem 0; font-size: 1.1rem; }
.warning { border-color: #a33b00; background: #fdf1ea; }
.notice { border-color: #6b6b6b; background: #f3f3f3; }
.verdict p, .warning p, .notice p { margin: .2rem 0; max-width: none; color: #1a1a1a; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin: .6rem 0; }
caption { text-align: left; color: #4a4a4a; padding: .2rem 0 .5rem; caption-side: top; max-width: 46rem; }
th, td { padding: .32rem .5rem; border-bottom: 1px solid #d5d5d5; text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid #777; vertical-align: bottom; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.number { text-align: right; }
tbody th { font-weight: 600; min-width: 9rem; overflow-wrap: break-word; }
tr.flagged td, tr.flagged th { background: #fdf1ea; }
tr.baseline td, tr.baseline th { background: #f3f3f3; font-weight: 400; }
.verdict p { font-size: 1.25rem; line-height: 1.45; }
figure { margin: 1rem 0; }
figure img { max-width: 100%; height: auto; display: block; }
figcaption { color: #4a4a4a; font-size: .9rem; max-width: 46rem; margin-top: .3rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 0 1.5rem; }
code { font-family: ui-monospace, Consolas, monospace; font-size: .88em; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: #4a4a4a; font-size: .9rem; }
@media print {
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  figure, .verdict, .warning, .notice, tr { break-inside: avoid; }
  .wide { overflow: visible; }
  table { font-size: 8.5pt; }
  a { color: inherit; text-decoration: none; }
}
"""


def escaped(value: Any) -> str:
    """Make text safe anywhere in the page, attributes included."""
    return html.escape(str(value), quote=True)


def number(value: float | None, digits: int = 3) -> str:
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


def sampled_cell(share: float, samples: int) -> Cell:
    """Return a cell with a share of samples; none or all of them is not taken for certainty."""
    step = 100 / samples
    if share == 0:
        return Cell(f"< {number(step, 1)}\u00a0%", share)
    if share == 1:
        places = max(0, math.ceil(-math.log10(step)))
        most = math.floor((100 - step) * 10**places + 1e-9) / 10**places  # rounded, it could be 100
        return Cell(f"> {most:.{places}f}\u00a0%", share)
    return percent_cell(share)


def figure_cell(value: float | None, digits: int = 3) -> Cell:
    """Return a cell with a number."""
    return Cell(number(value, digits), value)


def percent_cell(value: float | None) -> Cell:
    """Return a cell with a percentage; the number behind it is the share."""
    return Cell(percent(value), value)


def text_cell(text: Any) -> Cell:
    """Return a cell with plain text."""
    return Cell(str(text), None, numeric=False)


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[tuple[str, Sequence[Cell]]],
    *,
    flagged: frozenset[str] = frozenset(),
    baseline: str | None = None,
    name: str = "",
) -> str:
    """Return a table whose rows begin with a heading; ``flagged`` are headings of rows that stand out.

    The row of the baseline, which is only there to be compared with, is grey.
    """
    listed = list(rows)
    numeric = [bool(listed) and cell.numeric for cell in (listed[0][1] if listed else [])]
    columns = f'<th scope="col">{escaped(heads[0])}</th>' + "".join(
        f'<th scope="col"{" class=number" if at < len(numeric) and numeric[at] else ""}>{escaped(head)}</th>'
        for at, head in enumerate(heads[1:])
    )
    body = "".join(
        f"<tr{' class=flagged' if head in flagged else ' class=baseline' if head == baseline else ''}>"
        f'<th scope="row">{escaped(head)}</th>{"".join(_cell(cell) for cell in cells)}</tr>\n'
        for head, cells in listed
    )
    identity = f' id="{escaped(name)}"' if name else ""
    return (
        f'<div class="wide"><table{identity}><caption>{escaped(caption)}</caption>\n<thead><tr>{columns}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>\n"
    )


def _cell(cell: Cell) -> str:
    if not cell.numeric:
        return f"<td>{escaped(cell.text)}</td>"
    value = "" if cell.value is None else f' data-value="{float(cell.value)!r}"'
    return f'<td class="number"{value}>{escaped(cell.text)}</td>'


def facts(caption: str, pairs: Mapping[str, Any]) -> str:
    """Return a table of names and values, nested mappings joined with dots."""
    return table(caption, ("name", "value"), [(name, [text_cell(value)]) for name, value in flattened(pairs)])


def flattened(pairs: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """List nested names and values."""
    rows: list[tuple[str, str]] = []
    for name, value in pairs.items():
        if isinstance(value, Mapping):
            rows += flattened(value, f"{prefix}{name}.")
        else:
            parts = [str(one) for one in value] if isinstance(value, (list, tuple)) else [str(value)]
            sentences = all(part.endswith(".") for part in parts)
            shown = (" " if sentences else ", ").join(parts)
            rows.append((f"{prefix}{name}", shown))
    return rows


def image(data: bytes, kind: str, alt: str, caption: str) -> str:
    """Return a figure whose picture is part of the page; ``kind`` is ``"png"`` or ``"svg"``."""
    mime = {"png": "image/png", "svg": "image/svg+xml"}[kind]
    encoded = base64.b64encode(data).decode("ascii")
    return (
        f'<figure><img src="data:{mime};base64,{encoded}" alt="{escaped(alt)}">'
        f"<figcaption>{escaped(caption)}</figcaption></figure>\n"
    )


def download(name: str, text: str, kind: str, words: str) -> str:
    """Return a link that saves text as a file; the text is part of the page."""
    encoded = base64.b64encode(text.encode("utf-8")).decode("ascii")
    return f'<p><a download="{escaped(name)}" href="data:{escaped(kind)};base64,{encoded}">{escaped(words)}</a></p>\n'


def chart(figure: Any, alt: str, caption: str) -> str:
    """Return a chart as a vector graphic within the page."""
    return image(picture_bytes(figure, "svg"), "svg", alt, caption)


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{escaped(text)}</p>\n"


def box(kind: str, *sentences: str) -> str:
    """Return a box that stands out: ``"verdict"``, ``"warning"`` or ``"notice"``."""
    return f'<div class="{escaped(kind)}">{"".join(paragraph(text) for text in sentences if text)}</div>\n'


def section(name: str, title: str, *parts: str) -> str:
    """Return a part of the page with a heading of the second level."""
    return f'<section id="{escaped(name)}"><h2>{escaped(title)}</h2>\n{"".join(parts)}</section>\n'


def heading(title: str) -> str:
    """Return a heading of the third level."""
    return f"<h3>{escaped(title)}</h3>\n"


def page(title: str, head: str, sections: Sequence[tuple[str, str, str]], foot: str) -> str:
    """Return the whole page from (name, title, content) of its sections."""
    links = "".join(f'<li><a href="#{escaped(name)}">{escaped(label)}</a></li>' for name, label, _ in sections)
    body = "".join(section(name, label, content) for name, label, content in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Nothing may be fetched, whatever a name in the data tries.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{escaped(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<header><h1>{escaped(title)}</h1>\n{head}</header>\n<nav aria-label="Contents"><ul>{links}</ul></nav>\n'
        f"<main>\n{body}</main>\n<footer>{foot}</footer>\n</body>\n</html>\n"
    )


def report_path(out_html: str | os.PathLike[str]) -> Path:
    """Check the name and the folder of a report."""
    file = Path(out_html)
    if file.suffix.lower() not in (".html", ".htm"):
        raise InvalidInputError(f"A report is an HTML file, so {file.name!r} must end in .html.")
    if not file.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into; make it first.")
    return file
