"""Mutated files and hostile projects: a result or one sentence, never a traceback, 5 s, 2 GB, a write or a request.

``python benchmarks/fuzz.py`` mutates the specimens of ``tests/corpus.py`` at random (bytes set, words put in, parts
removed, doubled or cut; half of the changes fall into the first 256 bytes), reads each as the commands do, and prints a
row for each. Hostile projects are made up of identifiers, names, paths, links and rows of the log that lead elsewhere.
Every specimen has a process of its own, so that a crash counts as one, under an audit hook that notes what is opened
for writing outside its folder, and connections, programs and pickles. ``--count`` scales the number of files. Each run
has a seed of its own, which it prints; ``--seed`` repeats a run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import secrets
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import corpus  # noqa: E402  # of the tests
from audit_tools import Hook, outside  # noqa: E402
from corpus import Specimen  # noqa: E402

SECONDS = 5.0
BYTES = 2 * 10**9
LONGEST = 500
WORDS = [
    b"\0", b"\xff", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\1\0\0", b"9", b"-",
    b"999999999", b"nan", b"1e999", b"1e308", b"\n", b" ", b"LIST", b"../x", b"/etc/passwd", b"null", b"[]", b"{}",
    b"[" * 3000, b"true", b'"', b"Infinity", b"\xe2\x80\xae", b"-1",
]  # fmt: skip
Case = tuple[str, Callable[[random.Random, Path], Path], Callable[[Path], None]]


def mutated(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(min(len(data), 256) or 1) if rng.random() < 0.5 else rng.randrange(len(data) or 1)
        word = rng.choice(WORDS)
        kind = rng.choice(["set", "word", "remove", "insert", "double", "cut", "digit"])
        if kind == "set":
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == "word":
            data = data[:at] + word + data[at + len(word) :]
        elif kind == "remove":
            data = data[:at] + data[at + 1 + rng.randrange(16) :]
        elif kind == "insert":
            data = data[:at] + word + data[at:]
        elif kind == "double":
            data = data[: at + rng.randrange(256)] + data[at:]
        elif kind == "cut" and rng.random() < 0.3:
            data = data[: at + 1]
        elif kind == "digit":
            digits = [i for i, b in enumerate(data[:4096]) if 48 <= b <= 57]
            if digits:
                i = rng.choice(digits)
                data = data[:i] + rng.choice([b"0", b"9", b"99999", b"-1", b"1e99", b"."]) + data[i + 1 :]
    return data


def in_folder(good: Path, pattern: str = "*") -> Callable[[random.Random, Path], Path]:
    """One damaged file of a folder."""
    files = sorted(path.relative_to(good) for path in good.rglob(pattern) if path.is_file())

    def make(rng: random.Random, folder: Path) -> Path:
        aim = folder / "case" / good.name
        shutil.rmtree(folder / "case", ignore_errors=True)
        shutil.copytree(good, aim)
        file = rng.choice(files)
        (aim / file).write_bytes(mutated(rng, (good / file).read_bytes()))
        return aim

    return make


def specimen_cases(folder: Path, specimens: Sequence[Specimen]) -> list[Case]:
    """Return a case for each specimen of the tests: one of its files is damaged, with all others beside it."""
    return [specimen_case(folder / str(number), specimen) for number, specimen in enumerate(specimens)]


def specimen_case(folder: Path, specimen: Specimen) -> Case:
    folder.mkdir()
    path = specimen.make(folder)
    harmed = specimen.harmed(path)
    whole = harmed.read_bytes()

    def make(rng: random.Random, work: Path) -> Path:
        shutil.rmtree(work / "case", ignore_errors=True)
        shutil.copytree(folder, work / "case")
        (work / "case" / harmed.relative_to(folder)).write_bytes(mutated(rng, whole))
        return work / "case" / path.relative_to(folder)

    def use(file: Path) -> None:
        specimen.say(file)

    return specimen.name, make, use


def use_project(path: Path) -> None:
    """Do what ``info``, ``verify``, ``suggest`` and ``evaluate`` do first."""
    from warpgauge.project import Project
    from warpgauge.project.integrity import verify_project
    from warpgauge.session import Session

    report = verify_project(path)
    for sentence in report.problems:
        assert "\n" not in sentence
        assert len(sentence) <= LONGEST, sentence
    with Project.open(path) as project:
        project.image_problems()
        _ = project.candidates, project.targets, project.fixed_foreground
        for name in project.transform_names():
            project.transform(name).map(project.targets[:3])
        Session(project, rater="ada").listing()


def project_cases(folder: Path) -> list[Case]:
    good = made_project(folder)
    return [
        ("project project.json", in_folder(good, "project.json"), use_project),
        ("project points", in_folder(good, "*.npz"), use_project),
        ("project log", in_folder(good, "annotations.sqlite"), use_project),
        ("project other files", in_folder(good), use_project),
    ]


def made_project(folder: Path) -> Path:
    """A small project with annotations and a transform, its images inside."""
    from project.tools import grid_points, place, query, write_images
    from warpgauge.project import Project

    fixed, moving = write_images(folder / "pictures")
    project = Project.create(folder / "p", fixed=fixed, moving=moving, candidates=grid_points(), copy=True)
    for n in range(6):
        project.append(query(n, (5.0 + 8 * n, 7.0)), place(n, (6.0 + 8 * n, 9.0)))
    matrix = folder / "matrix.txt"
    matrix.write_text("1 0 2\n0 1 3\n0 0 1\n")
    project.add_transform("shift", matrix, options={"frame": "LPS"})
    project.close()
    return folder / "p"


# Where names and paths of a hostile project lead: out of it, to devices, to a host, or to nothing that is a name.
ELSEWHERE = [
    "../victim", "..", ".", "", "/etc/passwd", "/dev/zero", "/proc/self/mem", "//host/share", "a/../../victim", "C:\\x",
    "\\\\host\\share", "a\0b", "a\nb", "\u2025/x", "\uff0e\uff0e/x", "x" * 5000, "CON", "~/x", "$HOME/x", "%2e%2e/x",
    "http://127.0.0.1:1/x", "https://example.invalid/x.zarr", "file:///etc/passwd", "-rf", "=1+1",
    "{{7*7}}", "<script>", "'; DROP TABLE events; --", "annotations.sqlite", "project.json", "transforms/../../victim",
]  # fmt: skip


def hostile_cases(folder: Path) -> list[Case]:
    good = made_project(folder)

    def make(rng: random.Random, work: Path) -> Path:
        for name in ("case", "mirrors", "victim"):
            shutil.rmtree(work / name, ignore_errors=True)
        (work / "victim").mkdir()
        (work / "victim" / "project.json").write_text("the victim's")
        aim = Path(shutil.copytree(good, work / "case" / "p"))
        for _ in range(rng.randrange(1, 4)):
            with suppress(OSError, ValueError, KeyError, TypeError):  # what was changed before may not be changed again
                rng.choice([_hostile_document, _hostile_log, _hostile_link, _hostile_file])(rng, aim, work / "victim")
        return aim

    return [("hostile projects", make, use_everything)]


def _own(path: Path) -> Path:
    """Return a file of the project itself, which is not a link by now."""
    if path.is_symlink() or path.stat().st_nlink > 1:
        raise ValueError("a link")
    return path


def _hostile_document(rng: random.Random, project: Path, victim: Path) -> None:
    content = json.loads(_own(project / "project.json").read_text())
    image = rng.choice(["fixed", "moving"])
    points = rng.choice(["candidates", "targets"])
    place = rng.choice([content, content["images"][image], content[points], content["settings"], content["images"]])
    key = rng.choice(["id", "path", "file", "database", "units", rng.choice(list(place))])
    value = rng.choice([*ELSEWHERE, str(victim / "project.json"), None, 7, [], {}, 1e308, {"a": "../x"}])
    place[key] = value
    (project / "project.json").write_text(json.dumps(content))


def _hostile_log(rng: random.Random, project: Path, victim: Path) -> None:
    name = rng.choice([*ELSEWHERE, str(victim)])
    payload = rng.choice([
        {"name": name, "files": [f"transforms/{name}"], "hashes": ["x"], "options": {}},
        {"name": "shift", "files": [name], "hashes": ["x"], "options": {"sources": 1}},
        {"name": "shift", "files": ["transforms/shift/matrix.txt"], "hashes": ["x"], "options": {"format": name}},
    ])  # fmt: skip
    connection = sqlite3.connect(_own(project / "annotations.sqlite"), isolation_level=None)
    try:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        kept = "UPDATE events SET payload = ?, rater = ? WHERE kind = 'transform'"
        connection.execute(kept, (json.dumps(payload), rng.choice(["ada", name.replace("\0", "")])))
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (name, rng.choice(["project", "version", "x"])))
    except sqlite3.Error:
        pass  # it was made something else before
    finally:
        connection.close()


def _hostile_link(rng: random.Random, project: Path, victim: Path) -> None:
    files = sorted(path for path in project.rglob("*") if path.is_file() and not path.is_symlink())
    path = rng.choice(
        [*files, project / "access.log", project / "annotations.sqlite-wal", project / "cache" / "images.json"]
    )
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    aim = rng.choice([victim / "project.json", victim, Path("/dev/zero"), Path("/proc/self/environ"), path, project])
    if rng.random() < 0.5 and aim.is_file() and aim.parent == victim:
        os.link(aim, path)
    else:
        path.symlink_to(aim)


def _hostile_file(rng: random.Random, project: Path, victim: Path) -> None:
    names = ("cache/x.lock", "transforms/shift/matrix.txt", "report", "maps", "registration")
    path = project / rng.choice(names)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    kind = rng.choice(["pipe", "hole", "link", "deep"])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "hole":
        with path.open("wb") as stream:
            stream.truncate(2**40)
    elif kind == "link":
        path.symlink_to(victim, target_is_directory=True)
    else:
        path.write_text("[" * 100_000)


def use_everything(path: Path) -> None:
    """Do with a received project what its finder would: look, verify, mirror, export, and pack it."""
    from warpgauge.project import Project
    from warpgauge.session import Session

    before = {file: file.read_bytes() for file in (path.parent.parent / "victim").iterdir()}
    try:
        use_project(path)
        with Project.open(path) as project:
            project.use_mirror(path.parent.parent / "mirrors")
            Session(project).landmarks(fused=True)
    finally:
        assert {file: file.read_bytes() for file in (path.parent.parent / "victim").iterdir()} == before, "victim"


GROUPS: dict[str, tuple[Callable[[Path], list[Case]], int]] = {
    # Files per case at --count 1: more than 20,000 in all.
    "images": (lambda folder: specimen_cases(folder, corpus.IMAGES), 500),
    "transforms": (lambda folder: specimen_cases(folder, corpus.TRANSFORMS), 200),
    "landmarks": (lambda folder: specimen_cases(folder, corpus.LANDMARKS), 300),
    "projects": (project_cases, 250),
    "hostile": (hostile_cases, 500),
}


def run_case(case: Case, count: int, seed: int, aim: Path) -> None:
    """Run one format in a process of its own, and leave its row in a file."""
    from warpgauge.errors import WarpgaugeError

    base = Path(tempfile.mkdtemp(prefix="warpgauge-fuzz-"))
    os.environ["XDG_STATE_HOME"] = str(base / "state")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name, make, use = case
            rng = random.Random(f"{seed} {name}")
            row: dict[str, Any] = {"format": name, "files": 0, "read": 0, "refused": 0, "tracebacks": 0, "unclear": 0}
            row |= {"late": 0, "outside": 0, "requests": 0, "seconds": 0.0, "examples": []}
            (base / "work").mkdir()
            hook = Hook()
            sys.addaudithook(hook)
            (base / "temporary").mkdir()
            tempfile.tempdir = str(base / "temporary")

            def late(*_: object) -> None:
                raise TimeoutError("late")

            signal.signal(signal.SIGALRM, late)
            for _ in range(count):
                path = make(rng, base / "work")
                row["files"] += 1
                started = time.process_time()
                # Seconds of work: other work on the machine is not this file's fault.
                signal.setitimer(signal.ITIMER_REAL, 30 * SECONDS)
                try:
                    hook.on = True
                    use(path)
                    row["read"] += 1
                except WarpgaugeError as error:
                    row["refused"] += 1
                    text = str(error)
                    if "\n" in text or not text.endswith(".") or len(text) > LONGEST:
                        row["unclear"] += 1
                        row["examples"].append(text[:300])
                except Exception:
                    row["tracebacks"] += 1
                    row["examples"].append(traceback.format_exc()[-600:])
                finally:
                    hook.on = False
                    signal.setitimer(signal.ITIMER_REAL, 0)
                stated = [
                    base / "state",
                    base / "temporary",
                    *([path, base / "work" / "mirrors"] if path.is_dir() else []),
                ]
                row["outside"] += len(found := outside(hook.written, *stated))
                row["requests"] += len(hook.forbidden)
                row["examples"] += [*found[:1], *hook.forbidden]
                hook.written.clear()
                hook.forbidden.clear()
                spent = time.process_time() - started
                row["seconds"] = max(row["seconds"], spent)
                row["late"] += spent > SECONDS
            row["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
            row["examples"] = row["examples"][:5]
            aim.write_text(json.dumps(row))
    finally:
        shutil.rmtree(base, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=float, default=1.0, help="factor on the number of files")
    parser.add_argument("--seed", type=int, help="a former run's; a new one by default")
    parser.add_argument("--only", choices=GROUPS, help="one group instead of all")
    parser.add_argument("--json", type=Path, default=Path("bench-output/fuzz.json"), help="where the JSON goes")
    arguments = parser.parse_args()
    seed = secrets.randbelow(2**32) if arguments.seed is None else arguments.seed
    print(f"--seed {seed}", flush=True)
    rows: list[dict[str, Any]] = []
    context = multiprocessing.get_context("fork")  # each starts with everything imported
    for group in [arguments.only] if arguments.only else GROUPS:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for case in GROUPS[group][0](Path(folder)):
                aim = Path(folder) / "row.json"
                aim.unlink(missing_ok=True)
                count = max(1, int(GROUPS[group][1] * arguments.count))
                worker = context.Process(target=run_case, args=(case, count, seed, aim))
                worker.start()
                worker.join()
                row = json.loads(aim.read_text()) if aim.exists() else {"format": case[0], "crashed": worker.exitcode}
                rows.append(row)
                print(json.dumps({k: v for k, v in row.items() if k != "examples"}), flush=True)
                for example in row.get("examples", []):
                    print("   ", example.replace("\n", "\n    "))
    total = {key: sum(row.get(key, 0) for row in rows) for key in
             ("files", "read", "refused", "tracebacks", "unclear", "late", "outside", "requests")}  # fmt: skip
    total["crashed"] = sum("crashed" in row for row in rows)
    total["seconds"] = max(row.get("seconds", 0) for row in rows)
    total["megabytes"] = max(row.get("megabytes", 0) for row in rows)
    print(json.dumps(total))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({"seed": seed, "rows": rows, "total": total}, indent=1))
    wrong = ("tracebacks", "unclear", "late", "outside", "requests", "crashed")
    bad = sum(total[key] for key in wrong) + (total["megabytes"] * 1e6 > BYTES)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
