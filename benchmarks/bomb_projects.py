# ruff: noqa: E501  (a case in a line each)
"""Hostile projects: pipes, holes and links at every path, JSON and logs that say absurd things, tables that are none."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Make = Callable[[Path], list[str]]
LOG = "annotations.sqlite"
# Files of a project and of what is made beside it; some do not exist in a new one.
PATHS = (
    "project.json", "candidates.npz", "targets.npz", LOG, f"{LOG}-wal", f"{LOG}-shm", f"{LOG}-journal", "annotations.head",
    "cache", "cache/images.json", "transforms", "transforms/shift", "images", "images/fixed.png", "maps", "report", "access.log",
)  # fmt: skip
COMMANDS = ("info", "verify", "suggest", "evaluate")


@cache
def _good() -> Path:
    """A project with images inside, six answers and a transform."""
    from project.tools import grid_points, place, query, write_images
    from warpgauge.project import Project

    folder = Path(tempfile.mkdtemp(prefix="warpgauge-bomb-good-"))
    fixed, moving = write_images(folder / "pictures")
    project = Project.create(folder / "p", fixed=fixed, moving=moving, candidates=grid_points(), copy=True)
    for n in range(6):
        project.append(query(n, (5.0 + 8 * n, 7.0)), place(n, (6.0 + 8 * n, 9.0)))
    matrix = folder / "matrix.txt"
    matrix.write_text("1 0 2\n0 1 3\n0 0 1\n")
    project.add_transform("shift", matrix, options={"frame": "LPS"})
    project.close()
    return folder / "p"


def _project(change: Callable[[Path], object], command: str = "info") -> Make:
    def case(folder: Path) -> list[str]:
        shutil.copytree(_good(), folder / "p")
        change(folder / "p")
        return [command, str(folder / "p")]

    return case


def _away(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    return path


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)
        one.bind(path.name)
        os.chdir(here)


def _hole(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(10**11)


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": _socket,
    "hole": _hole,
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link outside": lambda path: path.symlink_to("/etc/passwd"),
    "folder": lambda path: path.mkdir(),
}


def _at(name: str, make: Callable[[Path], object], command: str) -> Make:
    return _project(lambda folder: make(_away(folder / name)), command)


def _document(change: Callable[[dict[str, Any]], object], command: str = "info") -> Make:
    def edit(folder: Path) -> None:
        content = json.loads((folder / "project.json").read_text())
        change(content)
        (folder / "project.json").write_text(json.dumps(content))

    return _project(edit, command)


def _document_text(old: str, new: str) -> Make:
    def edit(folder: Path) -> None:
        text = (folder / "project.json").read_text()
        assert old in text
        (folder / "project.json").write_text(text.replace(old, new, 1))

    return _project(edit)


def _log(*statements: str | tuple[str, tuple[Any, ...]], command: str = "info") -> Make:
    def edit(folder: Path) -> None:
        connection = sqlite3.connect(folder / LOG, isolation_level=None)
        for name in [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]:
            text = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
            connection.execute(f"DROP TRIGGER {name}")
            kept.append(text)
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(*((statement,) if isinstance(statement, str) else statement))
        connection.execute("PRAGMA writable_schema = OFF")
        for text in kept:
            with suppress(sqlite3.Error):  # the case has taken the table away
                connection.execute(text)
        connection.close()

    kept: list[str] = []
    return _project(edit, command)


def _payload(generation: int, payload: str, kind: str | None = None) -> Make:
    changes = "payload = ?" + (", kind = ?, query = NULL" if kind else "")
    values = (payload, *((kind,) if kind else ()), generation)
    return _log((f"UPDATE events SET {changes} WHERE generation = ?", values))


def _points(array: np.ndarray) -> Make:
    def edit(folder: Path) -> None:
        np.savez_compressed(folder / "candidates.npz", points_world=array)

    return _project(edit)


def _many_files(folder: Path) -> None:
    (folder / "cache" / "many").mkdir(parents=True, exist_ok=True)
    for number in range(50_000):
        (folder / "cache" / "many" / str(number)).touch()


def _deep_folders(folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


_SURROGATE = "\\ud800"

_VIEW = "CREATE VIEW events AS WITH RECURSIVE n(generation) AS (SELECT 1 UNION ALL SELECT generation + 1 FROM n) SELECT generation, '' time, 'a' rater, 'note' kind, NULL query, NULL duration, NULL base_generation, '{}' payload, '' digest FROM n"
CASES: dict[str, Make] = {
    **{
        f"project with a {kind} as {path}, {COMMANDS[n % len(COMMANDS)]}": _at(path, make, COMMANDS[n % len(COMMANDS)])
        for n, path in enumerate(PATHS)
        for kind, make in KINDS.items()
    },
    "project with candidates of 3.2 GB": _points(np.zeros((200_000_000, 2))),
    "project with candidates of NaN": _points(np.full((50, 2), np.nan)),
    "project with candidates of 1e308": _points(np.full((50, 2), 1e308)),
    "project with candidates all in one place": _points(np.full((50, 2), 7.0)),
    "project with candidates in 3D": _points(np.zeros((50, 3))),
    "project with complex candidates": _points(np.zeros((50, 2), complex)),
    "project with no candidates": _points(np.zeros((0, 2))),
    "project of 50,000 files": _project(_many_files),
    "project with a path of 6,000 letters": _project(_deep_folders),
    "project.json nested": _project(lambda folder: (folder / "project.json").write_text("[" * 100_000)),
    "project.json of 200 MB": _project(
        lambda folder: (folder / "project.json").write_text('{"a": "' + "b" * 200_000_000 + '"}')
    ),
    "project.json of 2 million lists": _project(
        lambda folder: (folder / "project.json").write_text("[" + "[]," * 2_000_000 + "[]]")
    ),
    "project.json in UTF-16": _project(
        lambda folder: (folder / "project.json").write_bytes((folder / "project.json").read_text().encode("utf-16"))
    ),
    "project.json with keys twice": _document_text('"images":', '"images": {}, "images":'),
    "project.json with a number of 10,000 digits": _document_text(
        '"version":', '"version": ' + "1" * 10_000 + ', "x":'
    ),
    "project.json with an image of surrogates": _document(lambda c: c["images"]["fixed"].update(path="\ud800.png")),
    "project.json with an image of NUL": _document(lambda c: c["images"]["fixed"].update(path="a\0b.png")),
    "project.json with an image of 10,000 letters": _document(lambda c: c["images"]["fixed"].update(path="a" * 10_000)),
    "project.json with an image at /dev/zero": _document(lambda c: c["images"]["fixed"].update(path="/dev/zero")),
    "project.json with an image at /proc/self/mem": _document(
        lambda c: c["images"]["fixed"].update(path="/proc/self/mem")
    ),
    "project.json with the project as image": _document(lambda c: c["images"]["fixed"].update(path=".")),
    "project.json with the log as image": _document(lambda c: c["images"]["fixed"].update(path=LOG)),
    "project.json with a grid of 1e308": _document(
        lambda c: c["images"]["fixed"]["grid"].update(spacing=[1e308, 1e308])
    ),
    "project.json with a grid of 1e9 x 1e9": _document(
        lambda c: c["images"]["fixed"]["grid"].update(size=[10**9, 10**9])
    ),
    "project.json with a grid of true": _document(lambda c: c["images"]["fixed"]["grid"].update(size=[True, True])),
    "project.json with an id of 1 MB": _document(lambda c: c.update(id="a" * 1_000_000)),
    "project.json with an id that climbs": _document(lambda c: c.update(id="../../x")),
    "project.json with units that turn the text": _document(
        lambda c: c["images"]["fixed"]["grid"].update(units="\u202emm\x1b[31m")
    ),
    **{
        f"project.json with {key} = {value!r}": _document(
            lambda c, key=key, value=value: c["settings"].update({key: value})
        )
        for key in ("alpha", "default_radius", "budget", "batch", "seed", "refit", "smallest", "model")
        for value in (1e308, -1, float("nan"), [], "\ud800", True)
    },
    "log with an endless view": _log("DROP TABLE events", _VIEW),
    "log with an endless view, verify": _log("DROP TABLE events", _VIEW, command="verify"),
    "log with a virtual table": _log(
        "DROP TABLE events",
        "CREATE VIRTUAL TABLE events USING fts5(generation, time, rater, kind, query, duration, base_generation, payload, digest)",
    ),
    "log with a generated column": _log("ALTER TABLE events ADD COLUMN more AS (zeroblob(1000000000))"),
    "log with a foreign trigger": _log("CREATE TRIGGER lie AFTER INSERT ON events BEGIN DELETE FROM meta; END"),
    "log with an index of its own": _log("CREATE INDEX i ON events (length(hex(payload)))"),
    "log with a partial index": _log("CREATE INDEX i ON events (kind) WHERE payload LIKE '%a%b%c%d%e%f%'"),
    "log with a temporary-looking table": _log("CREATE TABLE sqlitex_stat (a)"),
    "log with statistics": _log("ANALYZE"),
    "log with a payload of 900 MB": _log(
        "UPDATE events SET payload = CAST(zeroblob(900000000) AS TEXT) WHERE generation = 3"
    ),
    "log with a text of 400 MB": _log(
        "UPDATE events SET payload = '{\"a\": \"' || hex(zeroblob(200000000)) || '\"}' WHERE generation = 3"
    ),
    "log with a rater of 100 MB": _log("UPDATE events SET rater = hex(zeroblob(50000000)) WHERE generation = 3"),
    "log with 200,000 further events": _log(
        "INSERT INTO events SELECT 100 + value, '2020-01-01T00:00:00Z', 'ada', 'note', NULL, NULL, NULL, '{}', '' FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 200000) SELECT value FROM n)"
    ),
    "log with a huge generation": _log("UPDATE events SET generation = 9223372036854775807 WHERE generation = 13"),
    "log with numbers for text": _log("UPDATE events SET rater = 3.5, time = 0, kind = 7 WHERE generation = 3"),
    "log with a broken text": _log("UPDATE events SET rater = CAST(X'ff00fe' AS TEXT) WHERE generation = 3"),
    "log with a duration of infinity": _log("UPDATE events SET duration = 9e999 WHERE generation = 4"),
    "log with a time of nonsense": _log("UPDATE events SET time = 'yesterday' WHERE generation = 4"),
    "log with a surrogate": _payload(
        4, f'{{"point": [1, 2], "covariance": [[1, 0], [0, 1]], "alpha": 0.01, "text": "{_SURROGATE}"}}'
    ),
    "log with a point of 1e308": _payload(
        4, '{"point": [1e308, -1e308], "covariance": [[1, 0], [0, 1]], "alpha": 0.01}'
    ),
    "log with a point of infinity": _payload(4, '{"point": [1e999, 1], "covariance": [[1, 0], [0, 1]], "alpha": 0.01}'),
    "log with a covariance of 1e308": _payload(
        4, '{"point": [1, 2], "covariance": [[1e308, 0], [0, 1e308]], "alpha": 0.01}'
    ),
    "log with a covariance of 1e-308": _payload(
        4, '{"point": [1, 2], "covariance": [[1e-308, 0], [0, 1e-308]], "alpha": 0.01}'
    ),
    "log with a covariance that is not one": _payload(
        4, '{"point": [1, 2], "covariance": [[1, 5], [5, 1]], "alpha": 0.01}'
    ),
    "log with keys twice": _payload(
        4, '{"point": [1, 2], "point": [3, 4], "covariance": [[1, 0], [0, 1]], "alpha": 0.01}'
    ),
    "log with a number of 10,000 digits": _payload(
        4, '{"point": [' + "1" * 10_000 + ', 2], "covariance": [[1, 0], [0, 1]], "alpha": 0.01}'
    ),
    "log with a fit of 1e308": _payload(
        4, '{"family": "wendland", "scales": [1e308, 1e-308], "weights": [1e308, 1e308], "noise": 1e308}', "fit"
    ),
    "log with a fit of 1e6 scales": _payload(
        4,
        json.dumps(
            {"family": "wendland", "scales": list(range(1, 1_000_001)), "weights": [1.0] * 1_000_000, "noise": 0.0}
        ),
        "fit",
    ),
    "log with a transform that climbs": _payload(
        13, '{"name": "a", "files": ["transforms/../../x"], "hashes": ["x"], "options": {}}', "transform"
    ),
    "log with a transform named by a path": _payload(
        13, '{"name": "../../a", "files": ["transforms/shift/matrix.txt"], "hashes": ["x"], "options": {}}', "transform"
    ),
    "log with a transform of options": _payload(
        13,
        '{"name": "a", "files": ["transforms/shift/matrix.txt"], "hashes": ["x"], "options": {"reference": "/etc/passwd", "layout": [], "frame": {"a": 1}}}',
        "transform",
    ),
}
