"""Strangers at the door: 400 connections that send nothing or half a request, again and again, while raters work.

``python benchmarks/hostile.py`` serves a small project to 20 raters, first alone and then with the strangers, and
prints how long the raters waited for each answer, and the processor time of the server.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import socket
import ssl
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

RATERS, STRANGERS, ANSWERS = 20, 400, 5
LONGEST_WAIT = 2.0  # seconds, for any answer to any rater; on a machine with nothing else to do
PAUSE = 1.0  # seconds that a rater looks at the images before an answer: far less than anybody needs
CERTIFICATES = ssl.create_default_context()  # read once: each client would read them anew while others wait
HALF = (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"\x16\x03\x01\x02\x00nonsense\r\n\r\n")


def strangers(port: int, over: Any, opened: Any) -> None:
    """Keep many connections open, and open those again that were closed."""
    held: list[socket.socket] = []
    while not over.is_set():
        try:
            one = socket.create_connection(("127.0.0.1", port), timeout=5)
            one.sendall(HALF[len(held) % len(HALF)])
            held.append(one)
            opened.value += 1
        except OSError:
            time.sleep(0.01)
        if len(held) > STRANGERS:
            held.pop(0).close()
        time.sleep(0.002)
    for one in held:
        one.close()


def work(url: str, waits: list[float], failures: list[str]) -> None:
    """Log in, and ask and answer a few times."""
    base, _, token = url.partition("/?token=")
    with httpx.Client(base_url=base, timeout=120, trust_env=False, verify=CERTIFICATES) as client:

        def timed(method: str, path: str, **more: object) -> httpx.Response:
            began = time.perf_counter()
            reply = client.request(method, path, **more)  # type: ignore[arg-type]
            waits.append(time.perf_counter() - began)
            if reply.status_code >= 400:
                failures.append(f"{path} {reply.status_code} {reply.text[:100]}")
            return reply

        timed("GET", "/", params={"token": token})
        for _ in range(ANSWERS):
            query = timed("GET", "/api/query").json()
            if query.get("done"):
                return
            body = {"point": query["location"], "covariance": [[4.0, 0.0], [0.0, 4.0]], "alpha": 0.01,
                    "generation": query["generation"], "confirmed": True}  # fmt: skip
            time.sleep(PAUSE)
            timed("POST", f"/api/query/{query['query']}/place", json=body)


def measured(folder: Path, hostile: bool) -> dict[str, object]:
    """Serve from a process of its own, let everybody work, and return the waits."""
    from web.server_tools import served

    names = ",".join(f"rater{n}" for n in range(RATERS))
    with served(folder, names, process=True) as server:
        over, opened = multiprocessing.Event(), multiprocessing.Value("i", 0)
        crowd = multiprocessing.Process(target=strangers, args=(server.port, over, opened), daemon=True)
        if hostile:
            crowd.start()
            while opened.value < STRANGERS:
                time.sleep(0.05)
        waits: list[float] = []
        failures: list[str] = []
        links = [server.links[f"rater{n}"] for n in range(RATERS)]
        workers = [threading.Thread(target=work, args=(link, waits, failures)) for link in links]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        over.set()
        if hostile:
            crowd.join()
        assert server.process is not None
        used = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    found = np.sort(waits)
    return {
        "strangers": opened.value,
        "requests": len(waits),
        "failures": len(failures),
        "median_s": round(float(np.median(found)), 3),
        "p99_s": round(float(np.quantile(found, 0.99)), 3),
        "longest_s": round(float(found[-1]), 3),
        "server_processor_s": (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK"),
        "processes_per_core": round(os.getloadavg()[0] / (os.cpu_count() or 1), 1),
        "examples": failures[:3],
    }


def main() -> int:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from project.tools import grid_points, write_images
    from warpgauge.project import Project

    with tempfile.TemporaryDirectory() as folder:
        fixed, moving = write_images(Path(folder) / "pictures")
        rows = []
        for hostile in (False, True):
            aim = Path(folder) / f"project{hostile:d}"
            Project.create(aim, fixed=fixed, moving=moving, candidates=grid_points(12, 10)).close()
            rows.append(measured(aim, hostile))
            print(json.dumps(rows[-1]), flush=True)
    return int(any(row["failures"] or row["longest_s"] > LONGEST_WAIT for row in rows))


if __name__ == "__main__":
    sys.exit(main())
