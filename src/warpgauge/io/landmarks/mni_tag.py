"""Tag points of MNI (``.tag``), as RESECT has them: points of one or of two volumes, in the RAS millimetres of MINC."""

from __future__ import annotations

import re
import shlex

from warpgauge.io.landmarks.base import NAMES, Format, Side, Table, one_frame, stack
from warpgauge.io.landmarks.text import coordinates, fail, is_number, number_text, shown, words

SIGNATURE = "MNI Tag Point File"
_VOLUMES = re.compile(r"Volumes\s*=\s*([0-9]{1,3})\s*;")
_POINTS = re.compile(r"Points\s*=")
# Beside the coordinates a point may have weight, structure and patient; then a label in quotes.
_EXTRA = 3
# What would end a label, a line or the list, or begin a comment, is written as a backslash, x and its code.
_SPECIAL = re.compile(r'["\\;%#\x00-\x1f\x7f]')
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def _parse(text: str, name: str, d: int | None) -> Table:
    """Read the tags; of a file of two volumes, the first is the fixed image."""
    plain = "\n".join(re.split("[%#]", line, maxsplit=1)[0] for line in text.replace("\r", "\n").split("\n"))
    volumes, points = _VOLUMES.search(plain), _POINTS.search(plain)
    if not plain.lstrip().startswith(SIGNATURE) or volumes is None or points is None:
        fail(name, None, "not the tags of MNI: it needs 'Volumes = 1;' or 2, and 'Points ='", "export it again")
    count = int(volumes[1])
    if count not in (1, 2):
        fail(name, None, f"tags of {count} volumes, but landmarks are of one or two", "export two of them")
    body, end, _ = plain[points.end() :].partition(";")
    if not end:
        fail(name, None, "no ';' after the last point, so the file is cut", "export it again")
    first = plain[: points.end()].count("\n") + 1
    rows, labels = _rows(body, first, 3 * count, name)
    numbers = stack(rows, name)
    names = tuple(labels) if any(labels) else None
    note = "MINC's world is RAS in mm."
    if count == 2:
        note += " The first volume of the file is taken as the fixed image."
    return Table(
        fixed=Side(numbers[:, :3], "RAS", frame_stated=True, units="mm", names=names),
        moving=Side(numbers[:, 3:], "RAS", frame_stated=True, units="mm") if count == 2 else None,
        assumptions=[note],
    )


def _rows(body: str, first: int, width: int, name: str) -> tuple[list[list[float]], list[str]]:
    rows, labels = [], []
    for line, content in enumerate(body.split("\n"), start=first):
        if not content.strip():
            continue
        try:
            tokens = shlex.split(content)
        except ValueError:
            fail(name, line, f"{shown(content.strip())} has a quote that does not end")
        quoted = '"' in content
        label = words(_ESCAPE.sub(lambda found: chr(int(found[1], 16)), tokens.pop()), name, line) if quoted else ""
        if len(tokens) not in (width, width + _EXTRA) or not all(is_number(token) for token in tokens):
            fail(name, line, f"{shown(content.strip())} is not a point: {width} numbers, then a label in quotes")
        rows.append(coordinates(tokens[:width], name, line))
        labels.append(label)
    return rows, labels


def _render(table: Table) -> str:
    """Write the tags of both volumes, or of one."""
    sides = [table.fixed] if table.moving is None else [table.fixed, table.moving]
    lines = [SIGNATURE, f"Volumes = {len(sides)};", "", "Points ="]
    for row in range(len(table)):
        numbers = " ".join(number_text(value) for side in sides for value in side.points[row])
        label = table.fixed.names[row] if table.fixed.names else ""
        lines.append(f' {numbers} "{_SPECIAL.sub(lambda found: f"{chr(92)}x{ord(found[0]):02x}", label)}"')
    lines[-1] += ";"
    return "\n".join(lines) + "\n"


FORMAT = Format(
    name="mni-tag",
    title="MNI tag file",
    parse=_parse,
    render=_render,
    write_frame=one_frame("RAS"),
    pairs=True,
    holds=frozenset({NAMES}),
    dimensions=(3,),
)
