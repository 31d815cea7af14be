"""Tag points of MNI (``.tag``, only read), as RESECT has them: one or two volumes, in the RAS millimetres of MINC."""

from __future__ import annotations

import re
import shlex

from warpgauge.io.formats import Files
from warpgauge.io.landmarks.base import Format, Side, Table, stack
from warpgauge.io.landmarks.text import coordinates, fail, is_number, shown, words

_SIGNATURE = "MNI Tag Point File"
_VOLUMES = re.compile(r"Volumes\s*=\s*([0-9]{1,3})\s*;")
_POINTS = re.compile(r"Points\s*=")
# Beside the coordinates a point may have weight, structure and patient; then a label in quotes.
_EXTRA = 3
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")  # of what would end a label, a line or the list


def _parse(text: str, name: str, d: int | None) -> Table:
    """Read the tags; of a file of two volumes, the first is the fixed image."""
    plain = "\n".join(re.split("[%#]", line, maxsplit=1)[0] for line in text.replace("\r", "\n").split("\n"))
    volumes = _VOLUMES.search(plain)
    start = _POINTS.search(plain)
    if not plain.lstrip().startswith(_SIGNATURE) or volumes is None or start is None:
        fail(name, None, "not the tags of MNI: it needs 'Volumes = 1;' or 2, and 'Points ='", "export it again")
    count = int(volumes[1])
    if count not in (1, 2):
        fail(name, None, f"tags of {count} volumes, but landmarks are of one or two", "export two of them")
    body, end, _ = plain[start.end() :].partition(";")
    if not end:
        fail(name, None, "no ';' after the last point, so the file is cut", "export it again")
    rows = []
    labels = []
    for line, content in enumerate(body.split("\n"), start=1 + plain[: start.end()].count("\n")):
        if not content.strip():
            continue
        try:
            tokens = shlex.split(content)
        except ValueError:
            fail(name, line, f"{shown(content.strip())} has a quote that does not end")
        label = tokens.pop() if '"' in content else ""
        labels.append(words(_ESCAPE.sub(lambda code: chr(int(code[1], 16)), label), name, line))
        if len(tokens) not in (3 * count, 3 * count + _EXTRA) or not all(map(is_number, tokens)):
            fail(name, line, f"{shown(content.strip())} is not a point: {3 * count} numbers, then a label in quotes")
        rows.append(coordinates(tokens[: 3 * count], name, line))
    numbers = stack(rows, name)
    table = Table(Side(numbers[:, :3], "RAS", frame_stated=True, units="mm"))
    table.fixed.names = tuple(labels) if any(labels) else None
    table.assumptions.append("MINC's world is RAS in mm.")
    if count == 2:
        table.moving = Side(numbers[:, 3:], "RAS", frame_stated=True, units="mm")
        table.assumptions[0] += " The first volume of the file is taken as the fixed image."
    return table


FORMAT = Format(
    name="mni-tag",
    title="MNI tag file",
    written=(
        Files("MNI, RESECT", ".tag", "VTK 9", "pairs, first volume fixed", "RAS", "mm", "VTK's writer, 1e-9"),
    ),
    fits=lambda start: start.line.startswith(_SIGNATURE),
    parse=_parse,
    endings=(".tag",),
    pairs=True,
    dimensions=(3,),
)  # fmt: skip
