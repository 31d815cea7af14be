"""What was acknowledged is there: after SIGKILL, with many writers, on a full disk, in a read-only folder.

The issue asks for SIGKILL at random moments during 500 random actions, 50 times: here 50 workers each set out to do 500
random actions on a project of their own and are killed at a random moment within them.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from project.test_journals import JOURNAL, interrupt
from project.tools import EITHER_STORE, clone, edit, place, query, step
from project.zygote import Zygote, acknowledged, random_action
from warpgauge.project import Event, Project, StorageError, replay

KILLS, ACTIONS, QUERIES = 50, 500, 6
AT_ONCE = 5


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as process:
        yield process


@pytest.fixture
def asked(make_project: Callable[..., Project]) -> Path:
    """A project with a few queries, closed; its folder."""
    with make_project() as project:
        project.append(*(query(number, (number * 3.0, 5.0)) for number in range(QUERIES)))
        return project.folder


def check_acknowledged(folder: Path, acks: list[dict[str, object]], before: int) -> int:
    """Every acknowledged event stands in the log as it was acknowledged; give the number of events."""
    with Project.open(folder, check_images=False) as project:
        events = project.events()
        digests = {row[0]: row[-1] for row in project.log.read()}
        assert all(digests.get(ack["generation"]) == ack["digest"] for ack in acks)
        # What was written but not yet told may be there too: one action, whole.
        assert len(events) - before - len(acks) in (0, 1)
        report = project.verify()
        assert report.ok, report.problems
        assert replay(events, 2) == project.state
        return len(events)


class Run:
    """A worker on a copy of the project, and the number of actions after which it is to be killed."""

    def __init__(self, zygote: Zygote, asked: Path, place: Path, number: int, after: int) -> None:
        self.folder, self.acks = clone(asked, place / f"run{number}"), place / f"run{number}.txt"
        self.worker = zygote.start("random", self.folder, self.acks, seed=number, count=100 * ACTIONS)
        self.after = after

    def told(self) -> int:
        """How many actions have been acknowledged."""
        return self.acks.read_bytes().count(b"\n") if self.acks.exists() else 0


def check_undo_and_redo(folder: Path, rng: random.Random) -> None:
    """Undo and redo give back what was, and further actions can be done."""
    with Project.open(folder, check_images=False) as project:
        for rater in ("ada", "ben"):
            if project.state.done.get(rater):
                cells = dict(project.state.cells)
                project.append(step(project, "undo", rater))
                assert project.state.cells != cells
                project.append(step(project, "redo", rater))
                assert project.state.cells == cells
        assert any(random_action(project, rng) for _ in range(20))


def kill_at_random(zygote: Zygote, asked: Path, place: Path, kills: int, seed: int = 20) -> int:
    """Kill workers within their actions, check what is left of each, and return how many were acknowledged."""
    rng, told = random.Random(seed), 0
    for batch in range(0, kills, AT_ONCE):
        runs = [Run(zygote, asked, place, batch + n, rng.randrange(ACTIONS)) for n in range(AT_ONCE)]
        alive, deadline = list(runs), time.monotonic() + 900
        while alive:
            assert time.monotonic() < deadline, "a worker has stopped before it was killed"
            time.sleep(rng.uniform(0, 0.002))  # an action takes about a millisecond: anywhere within one
            for run in [run for run in alive if run.told() >= run.after]:
                os.kill(run.worker, signal.SIGKILL)
                assert zygote.wait(run.worker) == -signal.SIGKILL
                alive.remove(run)
        for run in runs:
            acks = acknowledged(run.acks)
            check_acknowledged(run.folder, acks, QUERIES)
            check_undo_and_redo(run.folder, rng)
            told += len(acks)
    return told


@EITHER_STORE
def test_sigkill_at_random_moments(zygote: Zygote, asked: Path, tmp_path: Path, store: str) -> None:
    """50 workers (10 with a database) are killed within their actions: nothing acknowledged is lost, work goes on."""
    kills = KILLS if store == "sqlite" else KILLS // 5
    assert kill_at_random(zygote, asked, tmp_path, kills) > kills


@EITHER_STORE
@pytest.mark.parametrize("writers", [2, 8])
def test_writers_at_once(zygote: Zygote, asked: Path, tmp_path: Path, writers: int) -> None:
    """Several processes write queries and answers at once: none is lost, no generation or number is given twice."""
    files = [tmp_path / f"{writers}-{number}.txt" for number in range(writers)]
    count = 160 // writers
    workers = [
        zygote.start("queries", asked, file, rater=f"rater {number}", count=count) for number, file in enumerate(files)
    ]
    assert [zygote.wait(worker) for worker in workers] == [0] * writers
    acks = [acknowledged(file) for file in files]
    generations = [ack["generation"] for lines in acks for ack in lines]
    assert sorted(generations) == list(range(QUERIES + 1, QUERIES + 1 + 2 * count * writers))
    assert all(lines == sorted(lines, key=lambda ack: ack["generation"]) for lines in acks)
    check_acknowledged(asked, [ack for lines in acks for ack in lines], QUERIES)
    with Project.open(asked, check_images=False) as project:
        assert [record.number for record in project.state.queries] == list(range(QUERIES + count * writers))
        for number in range(writers):
            placed = [c.placement.moving for (who, _), c in project.state.cells.items() if who == f"rater {number}"]
            assert sorted(placed) == [(float(x), 2.0) for x in range(count)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory of 600 kB; needs the right to mount."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small tmpfs cannot be mounted here: that needs root and the right to mount")
    yield place
    subprocess.run(["mount", "-o", "remount,rw", str(place)], check=False, capture_output=True)
    subprocess.run(["umount", str(place)], check=True)


def fill(project: Project, saved: list[Event]) -> None:
    """Write until it fails, and keep what was acknowledged."""
    while True:
        saved += project.append(edit(0, (float(len(saved)), 3.0)))


def test_full_disk(small_disk: Path, asked: Path) -> None:
    """A full disk ends in one sentence; nothing saved is lost, and with new space work goes on."""
    folder = shutil.copytree(asked, small_disk / "project")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(200_000))
    with Project.open(folder, check_images=False) as project:
        saved = [project.append(place(0))[0]]
        with pytest.raises(StorageError, match=r"is full: free some space.*not saved; all that was saved") as caught:
            fill(project, saved)
        assert "\n" not in str(caught.value)
        assert len(saved) > 20
        assert project.events()[QUERIES:] == saved
        assert project.state == replay(project.events(), 2)
        assert project.state.generation == saved[-1].generation
        # Opened anew by another process, while the disk is still full.
        with Project.open(folder, check_images=False) as other:
            assert other.events()[QUERIES:] == saved
        ballast.unlink()
        saved.append(project.append(edit(0, (1.0, 1.0)))[0])
    with Project.open(folder, check_images=False) as again:
        assert again.events()[QUERIES:] == saved
        assert again.verify().problems == tuple(again.image_problems())


def test_a_mirror_on_a_full_disk(small_disk: Path, asked: Path) -> None:
    """Nothing is acknowledged while the mirror has no room; with new space both copies have every event."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(560_000))
    with Project.open(asked, check_images=False) as project:
        project.use_mirror(small_disk / "mirror")
        saved: list[Event] = []
        with pytest.raises(StorageError, match="mirror"):
            fill(project, saved)
        with pytest.raises(StorageError, match="mirror"):
            project.append(place(1))
        assert saved
        assert project.state.answer("ada", 1) is None
        ballast.unlink()
        project.append(place(1))
        lines = (small_disk / "mirror" / project.id / "events.jsonl").read_text().splitlines()
        assert [tuple(json.loads(line)) for line in lines] == project.log.read()
        assert len(project.log.read()) in (QUERIES + len(saved) + 1, QUERIES + len(saved) + 2)


def test_largest_file_size(zygote: Zygote, asked: Path, tmp_path: Path) -> None:
    """A limit on the size of files (a quota) ends in a sentence too, and what was acknowledged is there."""
    with Project.open(asked, check_images=False) as project:
        project.append(place(0))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    worker = zygote.start("limited", asked, pipe, limit=120_000)
    lines = acknowledged(pipe)
    assert zygote.wait(worker) == 0
    assert lines[-1]["type"] == "StorageError"
    assert "was not saved" in lines[-1]["error"]
    assert len(lines) > 5
    check_acknowledged(asked, lines[:-1], QUERIES + 1)


def read_only(folder: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, capture_output=True)
    assert not os.access(folder, os.W_OK)


def test_read_only_folder(small_disk: Path, asked: Path) -> None:
    """A project in a folder that cannot be written can be read; writing is refused in a sentence."""
    folder = shutil.copytree(asked, small_disk / "project")
    read_only(folder, small_disk)
    with Project.open(folder, check_images=False) as project:
        assert project.readonly
        assert len(project.state.queries) == QUERIES
        with pytest.raises(StorageError, match=r"cannot be written in .*project.*read-only.*not saved"):
            project.append(place(0))
        assert project.state.answer("ada", 0) is None
        with pytest.raises(StorageError, match="cannot be written"):
            project.change_settings(alpha=0.05)
        # The folder becomes writable again: the same project goes on.
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True, capture_output=True)
        project.append(place(0))
        assert not project.readonly
    with Project.open(folder, check_images=False) as project:
        assert project.state.answer("ada", 0) is not None


def test_read_only_after_a_crash(zygote: Zygote, small_disk: Path, asked: Path, tmp_path: Path) -> None:
    """What a writer that was killed in a commit left is rolled back for readers of a read-only folder, too."""
    folder = shutil.copytree(asked, small_disk / "project")
    worker = zygote.start("random", folder, tmp_path / "acks.txt", seed=5, count=100_000)
    deadline = time.monotonic() + 60
    while len(acknowledged(tmp_path / "acks.txt")) < 10:
        assert time.monotonic() < deadline, "the worker does not work"
        time.sleep(0.01)
    os.kill(worker, signal.SIGKILL)
    zygote.wait(worker)
    lines = acknowledged(tmp_path / "acks.txt")
    journal = interrupt(folder)
    (folder / JOURNAL).write_bytes(journal)
    read_only(folder, small_disk)
    with Project.open(folder, check_images=False) as project:
        digests = [row[-1] for row in project.log.read()[QUERIES:]]
        assert digests[: len(lines)] == [line["digest"] for line in lines]


@EITHER_STORE
def test_a_fork_opens_its_own_file(asked: Path) -> None:
    """A connection is not shared across a fork: parent and child both write, and both are there."""
    with Project.open(asked, check_images=False) as project:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                project.append(place(0, rater="child"))
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        project.append(place(0, rater="parent"))
        assert project.state.who_answered() == ["child", "parent"]
