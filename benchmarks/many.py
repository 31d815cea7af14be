"""Load of one server for many projects: raters answer in their own pairs on two servers, one of which is killed midway.

Run with ``PYTHONPATH=tests python benchmarks/many.py --projects 200 --raters 50 [--postgres]``. Prints JSON: seconds to
a rater's page, to the first question of a pair and to an acknowledgement with the next question, the largest memory of
a server, connections to the database, and whether every acknowledged answer is in a log. ``--postgres`` keeps all logs
in one database of a server of its own, whose writes reach the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg

from postgres_tools import Postgres
from warpgauge.project import Project
from warpgauge.web.catalogue import Catalogue
from web.server_tools import lattice, write_pictures

_MEASURED = ("page", "first", "next")


def make_projects(folder: Path, count: int, database: str | None = None) -> None:
    """Make small projects with 120 candidates each, their logs in files or in a database."""
    fixed, moving = write_pictures(folder.parent / "pictures", (256, 240))
    points = lattice((10, 10), (246, 230), (12, 10))
    settings = {"guided_start": False, "budget": 40}
    for number in range(count):
        Project.create(folder / f"pair{number:04d}", fixed=fixed, moving=moving, candidates=points, targets=points,
                       settings=settings, database=database).close()  # fmt: skip


class Server:
    """``warpgauge serve`` in a process of its own."""

    def __init__(self, folder: Path, raters: list[str], most_open: int) -> None:
        command = [sys.executable, "-m", "warpgauge", "serve", str(folder), "--no-browser", "--port", "0"]
        command += ["--raters", ",".join(raters), "--most-open", str(most_open)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self.tokens, self.base = dict[str, str](), ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("The annotator is at"):
                self.base = line.split()[4].partition("/?")[0]
                self.tokens["organiser"] = line.split()[4].partition("token=")[2]
            elif line.startswith("Link for"):
                self.tokens[line.split()[2]] = line.split()[-1].partition("token=")[2]
            elif line.startswith("Press Ctrl-C"):
                break

    @property
    def memory(self) -> float:
        """Largest memory so far, in MB."""
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0.0
        return float(text.partition("VmHWM:")[2].split()[0]) / 1024 if "VmHWM:" in text else 0.0


class Rater(threading.Thread):
    """Opens their page, then answers in their pairs in turn, one answer every ``pause`` seconds."""

    def __init__(self, number: int, token: str, bases: list[str], each: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.rater, self.token, self.bases, self.each, self.pause = f"rater{number}", token, bases, each, pause
        self.rng = np.random.default_rng(number)
        self.page: list[float] = []
        self.first: list[float] = []
        self.next: list[float] = []
        self.saved: list[tuple[str, int]] = []
        self.failures = 0

    def run(self) -> None:
        """Work."""
        time.sleep(self.pause * self.rng.uniform())
        client, mine = self._own_pairs(self._signed_in())
        time.sleep(self.pause * self.rng.uniform())
        for number in range(self.each):
            pair = mine[(number // 5) % len(mine)]["key"]  # five in a row, then the next pair
            client = self._answered(client, pair)
            time.sleep(self.pause)
        client.close()

    def _own_pairs(self, client: httpx.Client) -> tuple[httpx.Client, list[dict[str, Any]]]:
        began = time.perf_counter()
        while True:
            try:
                mine: list[dict[str, Any]] = client.get("/api/mine").json()["pairs"]
                self.page.append(time.perf_counter() - began)
                return client, mine
            except httpx.HTTPError:
                client = self._again(client)

    def _again(self, client: httpx.Client) -> httpx.Client:
        self.failures += 1
        client.close()
        self.bases = self.bases[1:] + self.bases[:1]
        return self._signed_in()

    def _signed_in(self) -> httpx.Client:
        while True:
            try:
                client = httpx.Client(base_url=self.bases[0], trust_env=False, timeout=60)
                if client.get(f"/?token={self.token}").status_code == 303:
                    return client
            except httpx.HTTPError:
                self.bases = self.bases[1:] + self.bases[:1]
                self.failures += 1

    def _answered(self, client: httpx.Client, pair: str) -> httpx.Client:
        while True:
            try:
                began = time.perf_counter()
                query = client.get(f"/pair/{pair}/api/query").json()
                self.first.append(time.perf_counter() - began)
                body: dict[str, Any] = {"point": query["location"], "covariance": [[4.0, 0.0], [0.0, 4.0]]}
                body |= {"alpha": 0.01, "confirmed": True, "generation": query["generation"]}
                began = time.perf_counter()
                reply = client.post(f"/pair/{pair}/api/query/{query['query']}/place", json=body)
                if reply.status_code == 200:
                    self.next.append(time.perf_counter() - began)
                    self.saved.append((pair, int(reply.json()["saved"]["generation"])))
                    return client
            except httpx.HTTPError:
                pass
            client = self._again(client)


def lost(folder: Path, raters: list[Rater]) -> tuple[int, int]:
    """Return how many answers were acknowledged, and how many of them are in no log."""
    pairs, missing = Catalogue(folder).pairs(), 0
    saved = [(pair, generation, one.rater) for one in raters for pair, generation in one.saved]
    for key in {pair for pair, _, _ in saved}:
        with Project.open(pairs[key].folder, check_images=False) as project:
            there = {(event.generation, event.rater) for event in project.events() if event.kind == "place"}
        missing += sum((generation, who) not in there for pair, generation, who in saved if pair == key)
    return len(saved), missing


def connections(database: Postgres | None) -> int | None:
    """Return how many connections the servers hold."""
    if database is None:
        return None
    with psycopg.connect(database.url, autocommit=True) as connection:
        rows = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'warpgauge'")
        return int(rows.fetchone()[0])  # type: ignore[index]


def quantiles(seconds: list[float]) -> list[float]:
    """Median, 95 %, 99 % and longest."""
    return [round(float(np.quantile(seconds, q)), 3) for q in (0.5, 0.95, 0.99, 1.0)]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("projects", 200), ("raters", 50), ("each", 10), ("most-open", 100)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--pause", type=float, default=10.0)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ExitStack() as ending:
        folder, names = Path(place) / "many", [f"rater{n}" for n in range(options.raters)]
        database = ending.enter_context(closing(Postgres(durable=True))) if options.postgres else None
        began = time.perf_counter()
        make_projects(folder, options.projects, None if database is None else database.url)
        made = time.perf_counter() - began
        first = Server(folder, names, options.most_open)
        second = Server(folder, names, options.most_open)
        try:
            with httpx.Client(base_url=first.base, trust_env=False, timeout=120) as organiser:
                organiser.get(f"/?token={first.tokens['organiser']}")
                body = {"raters": names, "overlap": 0.1}
                shared = organiser.post("/api/share-out", json=body).json()["changed"]
                began = time.perf_counter()
                while not all(row["counted"] for row in organiser.get("/api/pairs").json()["pairs"]):
                    time.sleep(0.2)
                counted = time.perf_counter() - began
            raters = [
                Rater(n, first.tokens[name], [first.base, second.base][:: 1 if n % 2 else -1], options.each,
                      options.pause)
                for n, name in enumerate(names)
            ]  # fmt: skip
            for one in raters:
                one.start()
            time.sleep(options.pause * options.each / 2)
            memory = [first.memory, second.memory]
            held = connections(database)
            first.process.send_signal(signal.SIGKILL)
            for one in raters:
                one.join()
            memory.append(second.memory)
        finally:
            for server in (first, second):
                server.process.terminate()
                server.process.wait(60)
        acknowledged, missing = lost(folder, raters)
        pages, firsts, answers = ([s for one in raters for s in getattr(one, which)] for which in _MEASURED)
        told = {
            "projects": options.projects, "raters": options.raters, "assignments": shared,
            "table of all pairs first counted, s": round(counted, 2),
            "projects made, s": round(made, 1), "logs": "SQLite" if database is None else "PostgreSQL",
            "rater's page, s (median, 95 %, 99 %, longest)": quantiles(pages),
            "question on coming to a pair, s": quantiles(firsts),
            "answer with next question, s": quantiles(answers),
            "connections to the database": held,
            "load average": [round(one, 1) for one in os.getloadavg()],
            "memory, MB (both at half time, the other at the end)": [round(m) for m in memory],
            "acknowledged": acknowledged, "lost": missing, "tried again": sum(one.failures for one in raters),
        }  # fmt: skip
        print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
