"""Whatever raters do, in two tabs, two stores and killed processes, is what a dictionary and two stacks say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import Phase
from hypothesis import settings as hypothesis_settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from command_tools import call
from project.tools import grid_points, write_images
from warpgauge import Landmarks
from warpgauge.errors import InvalidInputError
from warpgauge.project import SKIP_REASONS, ConflictError, Project, replay
from warpgauge.session import Session

RATERS = st.sampled_from(["ada", "ben"])
TABS = st.integers(0, 1)
QUERIES = st.integers(0, 5)
POINTS = st.tuples(st.integers(5, 55).map(float), st.integers(5, 40).map(float))
Answer = tuple[Any, ...]
Answers = dict[tuple[float, ...], Answer]
# A process that forks one child for each answer; the child is killed as soon as the answer was acknowledged to it.
KILLED = """
import json, os, signal, sys
from warpgauge.project import Project
from warpgauge.session import Session
print("ready", flush=True)
for line in sys.stdin:
    folder, rater, number, point = json.loads(line)
    child = os.fork()
    if child == 0:
        try:
            saved = Session(Project.open(folder), rater).place(number, point, confirmed=True)
            print(saved.generation, flush=True)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


@pytest.fixture(scope="module")
def killed() -> Iterator[Callable[..., int]]:
    """Save an answer by a process that is killed at once; return the generation that it was told."""
    process = subprocess.Popen([sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    def place(*order: Any) -> int:
        process.stdin.write(json.dumps(order) + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        told = int(process.stdout.readline())  # type: ignore[union-attr]
        assert process.stdout.readline() == "gone\n"  # type: ignore[union-attr]
        return told

    yield place
    process.communicate()


class Loop(RuleBasedStateMachine):
    """Actions of two raters in two tabs, held against the answers of each and whole copies of them to go back to."""

    def __init__(self, folder: Path, database: str | None, killed: Callable[..., int]) -> None:
        super().__init__()
        self.place_and_die, self.database = killed, database
        self.folder = Path(tempfile.mkdtemp(dir=folder)) / "project"
        self.in_database = database is not None
        self.queries: dict[int, tuple[tuple[float, ...], str | None]] = {}  # place, and whose it is if not everybody's
        self.answers: dict[str, Answers] = {"ada": {}, "ben": {}}
        self.before: dict[str, list[Answers]] = {"ada": [], "ben": []}
        self.later: dict[str, list[Answers]] = {"ada": [], "ben": []}
        self.last: dict[str, tuple[int, int]] = {}  # query and generation of a rater's last action
        self.imported = 0

    @initialize()
    def begin(self) -> None:
        fixed, moving = write_images(self.folder.parent / "pictures")
        settings = {"refit": "never", "guided_start": False}
        Project.create(self.folder, fixed=fixed, moving=moving, candidates=grid_points(4, 3), targets=grid_points(4, 3),
                       foreground="none", settings=settings, database=self.database).close()  # fmt: skip
        self.open()
        for _ in range(3):
            self.ask("ada", 0)
            self.place("ada", 0, -1, (20.0, 20.0))

    def open(self) -> None:
        self.projects = [Project.open(self.folder) for _ in range(2)]
        self.sessions = [Session(project) for project in self.projects]

    def close(self) -> None:
        for project in self.projects:
            project.close()

    @rule(rater=RATERS, tab=TABS)
    def ask(self, rater: str, tab: int) -> None:
        """A rater is handed a place without an answer of theirs; who has answered all is handed nothing."""
        query = self.sessions[tab].next_query(rater)
        if query is None:
            assert len(self.answers[rater]) >= len(grid_points(4, 3))
            return
        assert tuple(query.point) not in self.answers[rater]
        place, owner = self.queries.setdefault(query.number, (tuple(query.point), None))
        assert (place, owner in (None, rater)) == (tuple(query.point), True)

    def act(
        self, rater: str, number: int, allowed: bool, action: Callable[[], Any], after: Callable[[Answers], None]
    ) -> None:
        """Act at the session, and at the model if that is allowed."""
        if not allowed:
            with pytest.raises(InvalidInputError):
                action()
            return
        self.done(rater, number, action().generation, after)

    def done(self, rater: str, number: int, generation: int, after: Callable[[Answers], None]) -> None:
        self.before[rater].append(dict(self.answers[rater]))
        self.later[rater].clear()
        after(self.answers[rater])
        self.last[rater] = (number, generation)

    def cell(self, rater: str, at: int) -> tuple[int, tuple[float, ...], Answer | None, bool]:
        """Return a query that was handed out, its place, the rater's answer, and whether the query is for them."""
        number = sorted(self.queries)[at % len(self.queries)]
        place, owner = self.queries[number]
        return number, place, self.answers[rater].get(place), owner in (None, rater)

    @rule(rater=RATERS, tab=TABS, at=QUERIES, point=POINTS)
    def place(self, rater: str, tab: int, at: int, point: tuple[float, ...]) -> None:
        number, place, said, asked = self.cell(rater, at)
        switched_off = said is not None and said[0] == "placed" and not said[2]
        self.act(rater, number, asked, lambda: self.sessions[tab].place(number, point, rater=rater, confirmed=True),
                 lambda answers: answers.update({place: ("placed", point, not switched_off)}))  # fmt: skip

    @rule(rater=RATERS, at=QUERIES, point=POINTS)
    def place_and_be_killed(self, rater: str, at: int, point: tuple[float, ...]) -> None:
        """What was acknowledged to a process that was killed before it closed the log is there."""
        number, place, said, asked = self.cell(rater, at)
        if not asked or said is not None:
            return
        generation = self.place_and_die(str(self.folder), rater, number, point)
        self.done(rater, number, generation, lambda answers: answers.update({place: ("placed", point, True)}))

    @rule(rater=RATERS, tab=TABS, at=QUERIES, reason=st.sampled_from(SKIP_REASONS))
    def skip(self, rater: str, tab: int, at: int, reason: str) -> None:
        number, place, said, asked = self.cell(rater, at)
        allowed = asked and (said is None or said[0] == "placed")
        self.act(rater, number, allowed, lambda: self.sessions[tab].skip(number, reason, rater=rater),
                 lambda answers: answers.update({place: ("skipped", reason)}))  # fmt: skip

    @rule(rater=RATERS, tab=TABS, at=QUERIES)
    def restore(self, rater: str, tab: int, at: int) -> None:
        number, place, said, _ = self.cell(rater, at)
        allowed = said is not None and said[0] == "skipped"
        self.act(rater, number, allowed, lambda: self.sessions[tab].restore(number, rater=rater),
                 lambda answers: answers.pop(place) and None)  # fmt: skip

    @rule(rater=RATERS, tab=TABS, at=QUERIES, on=st.booleans())
    def switch(self, rater: str, tab: int, at: int, on: bool) -> None:
        number, place, said, _ = self.cell(rater, at)
        allowed = said is not None and said[0] == "placed" and said[2] != on
        session = self.sessions[tab]
        self.act(rater, number, allowed, lambda: (session.enable if on else session.disable)(number, rater=rater),
                 lambda answers: answers.update({place: ("placed", answers[place][1], on)}))  # fmt: skip

    @rule(rater=RATERS, tab=TABS, fixed=POINTS, moving=POINTS)
    def volunteer(self, rater: str, tab: int, fixed: tuple[float, ...], moving: tuple[float, ...]) -> None:
        fixed = (fixed[0] + 0.25 + len(self.queries) / 64, fixed[1])  # at no place that is asked, or twice
        saved = self.sessions[tab].volunteer(fixed, moving, rater=rater, confirmed=True)
        self.queries[saved.query] = (fixed, rater)
        self.done(rater, saved.query, saved.generation,
                  lambda answers: answers.update({fixed: ("placed", moving, True)}))  # fmt: skip

    @rule(rater=RATERS, tab=TABS, moving=st.tuples(POINTS, POINTS))
    def take_in(self, rater: str, tab: int, moving: tuple[tuple[float, ...], ...]) -> None:
        """Landmarks of a file come in together, and go together."""
        fixed = [(6.125 + 40 * n, 5.0 + self.imported * 7 % 36 + self.imported / 64) for n in range(2)]
        self.imported += 1
        written = self.sessions[tab].import_landmarks(Landmarks(fixed, moving), rater)
        self.done(rater, -1, written[-1].generation, lambda answers: answers.update(
            {place: ("placed", point, True) for place, point in zip(fixed, moving, strict=True)}))  # fmt: skip

    @rule(rater=RATERS, tab=TABS)
    def undo(self, rater: str, tab: int) -> None:
        self.step(self.sessions[tab].undo(rater), rater, self.before[rater], self.later[rater])

    @rule(rater=RATERS, tab=TABS)
    def redo(self, rater: str, tab: int) -> None:
        self.step(self.sessions[tab].redo(rater), rater, self.later[rater], self.before[rater])

    def step(self, saved: Any, rater: str, taken: list[Answers], given: list[Answers]) -> None:
        assert (saved is None) == (not taken)
        if saved is not None:
            given.append(self.answers[rater])
            self.answers[rater] = taken.pop()
            self.last[rater] = (saved.query, saved.generation)

    @rule(rater=RATERS, tab=TABS, back=st.booleans())
    def act_in_a_stale_tab(self, rater: str, tab: int, back: bool) -> None:
        """An action based on what was before the rater's last one there is refused, and told which one that was."""
        number, generation = self.last.get(rater, (-1, 0))
        if number < 0 or (back and not self.before[rater]):
            return
        session, stale = self.sessions[tab], {"rater": rater, "base_generation": generation - 1}
        with pytest.raises(ConflictError) as caught:
            session.undo(**stale) if back else session.place(number, (1.0, 1.0), confirmed=True, **stale)
        assert caught.value.newer.generation == generation

    @rule()
    def reopen(self) -> None:
        self.close()
        self.open()

    @precondition(lambda self: self.database is not None)
    @rule()
    def move_to_the_other_store(self) -> None:
        self.close()
        call("copy", self.folder, "sqlite" if self.in_database else self.database)
        self.in_database = not self.in_database
        self.open()

    @invariant()
    def same_answers(self) -> None:
        for rater, answers in self.answers.items():
            for session in self.sessions if hasattr(self, "sessions") else ():
                session.project.sync()
                assert found(session, rater) == answers

    def teardown(self) -> None:
        if hasattr(self, "projects"):
            project = self.projects[0]
            assert project.verify().ok
            assert replay(project.events(), project.d) == project.state
            self.close()
        shutil.rmtree(self.folder.parent)


def found(session: Session, rater: str) -> Answers:
    """Return a rater's answers by place, as they are exported."""
    marks = session.landmarks(rater)
    assert marks.moving_points is not None
    placed: Answers = {
        tuple(fixed): ("placed", tuple(moving), bool(active))
        for fixed, moving, active in zip(marks.fixed_points, marks.moving_points, marks.active, strict=True)
    }
    return placed | {tuple(one.fixed_point): ("skipped", one.reason) for one in marks.skips}


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_answers_are_those_of_the_model(
    store: str, tmp_path: Path, killed: Callable[..., int], request: pytest.FixtureRequest
) -> None:
    database = request.getfixturevalue("postgres").url if store == "postgres" else None
    # No shrinking: a step writes to a disk, and a failing sequence of thirty is short enough to read.
    size = hypothesis_settings(max_examples=8 if database else 20, stateful_step_count=30, phases=[Phase.generate])
    run_state_machine_as_test(lambda: Loop(tmp_path, database, killed), settings=size)
