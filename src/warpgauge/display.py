"""Formatting of values for people: numbers, and tables as plain text, HTML (for notebooks), LaTeX and CSV."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def number(value: Any, digits: int = 3) -> str:
    """Return a number with a few significant digits, and a missing one as a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, int | np.integer):
        return str(value)
    size = abs(float(value))
    return f"{value:.{digits}g}" if size < 1e-3 or size >= 1e4 else f"{value:.{digits}f}".rstrip("0").rstrip(".")


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


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "", after: str = "") -> str:
    """Return a table as HTML without scripts or styles of its own; all text is escaped."""
    head = "".join(f"<th>{html.escape(one)}</th>" for one in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell(one))}</td>" for one in row) + "</tr>" for row in rows)
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    below = f"<p>{html.escape(after)}</p>" if after else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def html_facts(facts: Mapping[str, Any], title: str = "") -> str:
    """Return names and values as an HTML table of two columns."""
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(_fact(value))}</td></tr>" for name, value in facts.items()
    )
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    return f"<table>{caption}<tbody>{rows}</tbody></table>"


def _fact(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(cell(one) for one in value) or "none"
    return cell(value)


_LATEX = str.maketrans(
    {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
     "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)  # fmt: skip


def latex_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> str:
    """Return a table as a LaTeX ``tabular`` with booktabs rules, in a ``table`` where there is a caption."""

    def line(cells: Sequence[Any]) -> str:
        return " & ".join(cell(one).translate(_LATEX) for one in cells) + r" \\"

    inner = [
        rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        r"\toprule",
        line(columns),
        r"\midrule",
        *map(line, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    if not caption:
        return "\n".join(inner) + "\n"
    around = [r"\begin{table}", r"\centering", *inner, rf"\caption{{{caption.translate(_LATEX)}}}", r"\end{table}"]
    return "\n".join(around) + "\n"


def csv_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as CSV with all digits; a missing value is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if one is None else one for one in row] for row in rows])
    return out.getvalue()


_MOST_ROWS = 10


def landmark_rows(fixed: Any, moving: Any, covariances: Any = None) -> tuple[list[str], list[list[Any]]]:
    """Return columns and the first rows of a table of landmarks: points, and standard deviations where known."""
    columns = ["", "fixed", *([] if moving is None else ["moving"]), *([] if covariances is None else ["sd"])]
    rows: list[list[Any]] = []
    for row in range(min(len(fixed), _MOST_ROWS)):
        cells: list[Any] = [row + 1, ", ".join(number(float(x)) for x in fixed[row])]
        if moving is not None:
            cells.append(", ".join(number(float(x)) for x in moving[row]))
        if covariances is not None:
            trace = float(np.trace(covariances[row])) / len(fixed[row])
            cells.append(float(np.sqrt(trace)) if trace >= 0 else None)
        rows.append(cells)
    return columns, rows


def landmark_title(count: int, what: str = "annotation") -> str:
    """Return how many landmarks there are, and that only the first are shown where that is so."""
    named = counted(count, what)
    return named if count <= _MOST_ROWS else f"{named}, the first {_MOST_ROWS} of them"


def counted(count: int, what: str) -> str:
    """Return a number with its noun: "1 annotation", "2 annotations", "3 queries"."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count} {what if count == 1 else many}"
