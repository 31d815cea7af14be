"""A process that forks workers on a project, so that killing fifty of them does not mean importing fifty times.

Run as a script: each line of its input is a JSON order; the worker that it forks acknowledges each action with one line
on its own pipe file, written only after the action was acknowledged to it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

RATERS = ("ada", "ben")
KINDS = ("place", "place", "place", "place", "place", "skip", "restore", "disable", "enable", "undo", "undo", "redo")


class Zygote:
    """The side of the tests: starts the process, gives orders, tells the workers' ids."""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def _ask(self, **order: Any) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        return self.process.stdout.readline().strip()

    def start(self, job: str, folder: Path, acknowledged: Path, **options: Any) -> int:
        """Fork a worker and give its process id."""
        return int(self._ask(job=job, folder=str(folder), acknowledged=str(acknowledged), **options))

    def wait(self, worker: int) -> int:
        """Wait for the end of a worker and give its exit status; a killed one has the negative signal."""
        return int(self._ask(job="wait", worker=worker))


def acknowledged(path: Path) -> list[dict[str, Any]]:
    """What a worker was told is saved; a line that the kill cut short was not finished."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def random_action(project: Any, rng: random.Random) -> Any:
    """Do a random action, which may turn out not to be possible."""
    from project.tools import draft, place, skip, step
    from warpgauge.errors import InvalidInputError

    rater, kind = rng.choice(RATERS), rng.choice(KINDS)
    number, point = rng.randrange(len(project.state.queries)), (rng.uniform(0, 60), rng.uniform(0, 40))
    try:
        if kind in ("undo", "redo"):
            steps = (project.state.done if kind == "undo" else project.state.undone).get(rater)
            return project.append(step(project, kind, rater))[0] if steps else None
        if kind == "place":
            event = place(number, point, rater)
        elif kind == "skip":
            event = skip(number, "ambiguous", rater, "cannot tell")
        elif kind == "enable":
            event = draft("disable", rater, number, {"disabled": False})
        else:
            event = draft(kind, rater, number)
        return project.append(event)[0]
    except InvalidInputError:
        return None


def _random_actions(folder: str, out: int, seed: int, count: int) -> None:
    from warpgauge.project import Project

    project, rng = Project.open(folder, check_images=False), random.Random(seed)
    done = 0
    while done < count:
        event = random_action(project, rng)
        if event is not None:
            done += 1
            _acknowledge(out, project, event)


def _write_queries(folder: str, out: int, rater: str, count: int) -> None:
    """Add queries that others add too (the number is taken: look again), and place each at once."""
    from project.tools import place, query
    from warpgauge.errors import InvalidInputError
    from warpgauge.project import Project

    project = Project.open(folder, check_images=False)
    done = 0
    while done < count:
        number = len(project.state.queries)
        try:
            events = project.append(query(number, (done, 1.0), rater), place(number, (done, 2.0), rater))
        except InvalidInputError:
            continue
        done += 1
        for event in events:
            _acknowledge(out, project, event)


def _limited(folder: str, out: int, limit: int) -> None:
    """Place until the largest allowed size of a file is reached, and write the sentence of the error."""
    from project.tools import edit
    from warpgauge.errors import WarpgaugeError
    from warpgauge.project import Project

    project = Project.open(folder, check_images=False)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for x in range(10_000):
        try:
            _acknowledge(out, project, project.append(edit(0, (x, 1.0)))[0])
        except WarpgaugeError as error:
            os.write(out, (json.dumps({"error": str(error), "type": type(error).__name__}) + "\n").encode())
            return


def _acknowledge(out: int, project: Any, event: Any) -> None:
    digest = project.fingerprint(event.generation)
    line = {"generation": event.generation, "digest": digest, "kind": event.kind, "rater": event.rater}
    os.write(out, (json.dumps(line) + "\n").encode())


def _work(order: dict[str, Any]) -> None:
    # The acknowledgements' own file must not be cut by a limit on file sizes: it is a pipe there.
    out = os.open(order["acknowledged"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    folder = order["folder"]
    if order["job"] == "random":
        _random_actions(folder, out, order["seed"], order["count"])
    elif order["job"] == "queries":
        _write_queries(folder, out, order["rater"], order["count"])
    else:
        _limited(folder, out, order["limit"])


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    import project.tools  # noqa: F401  # imported once, here, and warpgauge with it

    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order["job"] == "wait":
            status = os.waitpid(order["worker"], 0)[1]
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        worker = os.fork()
        if worker == 0:
            status = 1
            try:
                _work(order)
                status = 0
            finally:
                os._exit(status)
        print(worker, flush=True)


if __name__ == "__main__":
    main()
