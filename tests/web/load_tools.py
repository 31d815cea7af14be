"""Many raters at once on several servers of one project, some of which die; what was acknowledged is in the log."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from warpgauge.project import Project
from warpgauge.web.catalogue import Catalogue


def cookie(base: str, token: str) -> dict[str, str]:
    """The header with the cookie that a browser has after following a link; it is good at all servers of the place."""
    reply = httpx.get(f"{base}/?token={token}", trust_env=False, timeout=60)
    assert reply.status_code == 303, reply.text
    return {"Cookie": reply.headers["set-cookie"].partition(";")[0]}


_COMMAND = "from warpgauge.cli import main; main()"


class AppServer:
    """``warpgauge annotate`` in a process of its own."""

    def __init__(self, folder: Path, port: int, *options: str, raters: Sequence[str] = ()) -> None:
        command = [sys.executable, "-c", _COMMAND, "annotate", str(folder), "--port", str(port), "--no-browser"]
        command += [*options, *(("--raters", ",".join(raters)) if raters else ())]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.errors = (folder.parent / f"server-{port}.txt").open("w+")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment, start_new_session=True
        )
        self.folder = folder
        self.port, self.base = port, f"http://127.0.0.1:{port}"
        self.pair = f"{self.base}/{next(iter(Catalogue(folder).pairs().values())).address}".rstrip("/")
        self.tokens: dict[str, str] = {}
        self.launcher = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            secret = line.partition("?token=")[2].split(" ")[0].strip()
            if line.startswith("Link for"):
                self.tokens[line.split()[2]] = secret
            elif line.startswith("The annotator is at"):
                self.launcher = secret
            elif line.startswith("Press Ctrl-C"):
                break
        assert self.launcher, f"the server did not start: {self.said()}"
        self._wait_ready()

    def _wait_ready(self) -> None:
        end = time.monotonic() + 120
        while True:
            try:
                if httpx.get(f"{self.base}/readyz", timeout=5, trust_env=False).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            assert time.monotonic() < end, f"the server is not ready: {self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        """What it wrote to standard error."""
        self.errors.flush()
        return Path(self.errors.name).read_text()

    def client(self, token: str = "", **options: Any) -> httpx.Client:
        """A browser with the cookie of a token."""
        cookies = cookie(self.base, token) if token else {}
        return httpx.Client(base_url=self.pair, headers=cookies, timeout=60, trust_env=False, **options)

    def kill(self) -> None:
        """End it, and its workers, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """End it as a service manager does, and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()
        return code


@dataclass
class Load:
    """What raters met with.

    Attributes
    ----------
    acknowledged : list of (rater, query, generation)
    seconds : list of float
        From sending an answer to its acknowledgement.
    refusals : Counter
        Statuses, and kinds of lost connections, after which a rater looked again.
    sentences : Counter
        What refusals with 503 said.
    """

    acknowledged: list[tuple[str, int, int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    sentences: Counter[str] = field(default_factory=Counter)
    spent: float = 0.0


def answer_all(
    bases: Sequence[str],
    cookies: dict[str, dict[str, str]],
    each: int,
    pause: float,
    events: Sequence[tuple[float, Callable[[], object]]] = (),
    limit: float = 300.0,
) -> Load:
    """Have every rater place ``each`` answers, and give what they met with.

    Parameters
    ----------
    bases : sequence of str
        Addresses of the pair at servers; a rater whose server does not answer goes to the next.
    cookies : dict
        Of each rater, the headers of a request.
    pause : float
        Mean seconds between an acknowledgement and the next answer, exponentially distributed.
    events : sequence of (share, callable)
        What happens when so large a share of all answers has been acknowledged.
    limit : float
        Seconds after which it is given up.
    """
    return asyncio.run(asyncio.wait_for(_answer_all(bases, cookies, each, pause, events), limit))


async def _answer_all(
    bases: Sequence[str],
    cookies: dict[str, dict[str, str]],
    each: int,
    pause: float,
    events: Sequence[tuple[float, Callable[[], object]]],
) -> Load:
    load, waiting = Load(), sorted(events, key=lambda event: event[0])
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=30, trust_env=False, limits=limits) as client:

        async def watch() -> None:
            for share, act in waiting:
                while len(load.acknowledged) < share * each * len(cookies):
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(act)

        began = time.perf_counter()
        watching = asyncio.create_task(watch())
        people = enumerate(cookies.items())
        await asyncio.gather(*(_rate(client, bases, k, name, own, each, pause, load) for k, (name, own) in people))
        load.spent = time.perf_counter() - began
        await watching
    return load


async def _rate(
    client: httpx.AsyncClient,
    bases: Sequence[str],
    number: int,
    name: str,
    headers: dict[str, str],
    each: int,
    pause: float,
    load: Load,
) -> None:
    rng, which, done = random.Random(number), number % len(bases), 0
    query: dict[str, Any] | None = None
    while done < each:
        base = bases[which % len(bases)]
        try:
            if query is None:
                reply = await client.get(f"{base}/api/query", headers=headers)
                if reply.status_code == 200:
                    query = reply.json()
                    if query.get("done"):
                        return
                    continue
            else:
                await asyncio.sleep(rng.expovariate(1 / pause) if pause else 0)
                body = {"point": query["location"], "covariance": [[1, 0], [0, 1]], "alpha": 0.01, "confirmed": True,
                        "generation": query["generation"]}  # fmt: skip
                began = time.perf_counter()
                address = f"{base}/api/query/{query['query']}/place"
                reply = await client.post(address, json=body, headers=headers)
                if reply.status_code == 200:
                    load.seconds.append(time.perf_counter() - began)
                    content = reply.json()
                    load.acknowledged.append((name, query["query"], content["saved"]["generation"]))
                    done += 1
                    query = None if content["next"].get("done") else content["next"]
                    continue
            load.refusals[str(reply.status_code)] += 1
            if reply.status_code == 503:
                load.sentences[reply.json()["error"] if "error" in reply.text else reply.text[:100]] += 1
        except httpx.HTTPError as error:
            load.refusals[type(error).__name__] += 1
        # As a page does: look again what is asked, at another server where this one is gone.
        query = None
        which += 1
        await asyncio.sleep(0.2 + 0.3 * rng.random())


def check_log(folder: Path, load: Load, raters: int, each: int) -> dict[str, int]:
    """Hold what was acknowledged against the log: every answer is there once; raise where not."""
    with Project.open(folder, check_images=False) as project:
        events = project.events()
        report = project.verify()
    placed = [(event.rater, event.query, event.generation) for event in events if event.kind == "place"]
    lost = set(load.acknowledged) - set(placed)
    doubled = [key for key, count in Counter((who, query) for who, query, _ in placed).items() if count > 1]
    assert not lost, f"{len(lost)} acknowledged answers are not in the log, among them {sorted(lost)[:3]}"
    assert not doubled, f"{len(doubled)} answers are in the log twice, among them {doubled[:3]}"
    assert len(set(load.acknowledged)) == len(load.acknowledged)
    assert len(placed) == raters * each, f"{len(placed)} answers instead of {raters * each}"
    assert report.ok, report.problems
    return {"acknowledged": len(load.acknowledged), "in the log": len(placed),
            "saved though the answer was lost": len(placed) - len(load.acknowledged)}  # fmt: skip
