"""Strangers at the door: 400 connections that send nothing or half a request, again and again, while raters work.

``python benchmarks/hostile.py`` serves a small project to 20 raters, first alone and then with the strangers, and
prints how long the raters waited for each answer.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np

RATERS, STRANGERS, ANSWERS = 20, 400, 5
HALF = (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"\x16\x03\x01\x02\x00nonsense\r\n\r\n")


def strangers(port: int, over: threading.Event, opened: list[int]) -> None:
    """Keep many connections open, and open those again that were closed."""
    held: list[socket.socket] = []
    while not over.is_set():
        try:
            one = socket.create_connection(("127.0.0.1", port), timeout=5)
            one.sendall(HALF[len(held) % len(HALF)])
            held.append(one)
            opened[0] += 1
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
    with httpx.Client(base_url=base, timeout=120, trust_env=False) as client:

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
            timed("POST", f"/api/query/{query['query']}/place", json=body)


def measured(folder: Path, hostile: bool) -> dict[str, object]:
    """Serve, let everybody work, and return the waits."""
    from warpgauge.web import prepare

    launch = prepare(folder, raters=[f"rater {n}" for n in range(RATERS)], new_links=True)
    server = threading.Thread(target=launch.run)
    server.start()
    over, opened = threading.Event(), [0]
    port = launch.socket.getsockname()[1]
    crowd = threading.Thread(target=strangers, args=(port, over, opened))
    if hostile:
        crowd.start()
        while opened[0] < STRANGERS:
            time.sleep(0.05)
    waits: list[float] = []
    failures: list[str] = []
    workers = [threading.Thread(target=work, args=(link.url, waits, failures)) for link in launch.links[1:]]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    over.set()
    if hostile:
        crowd.join()
    launch.stop()
    server.join()
    found = np.sort(waits)
    return {
        "strangers": opened[0],
        "requests": len(waits),
        "failures": len(failures),
        "median_s": float(np.median(found)),
        "p99_s": float(np.quantile(found, 0.99)),
        "longest_s": float(found[-1]),
        "examples": failures[:3],
    }


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from project.tools import grid_points, write_images
    from warpgauge.project import Project

    with tempfile.TemporaryDirectory() as folder:
        fixed, moving = write_images(Path(folder) / "pictures")
        for hostile in (False, True):
            aim = Path(folder) / f"project{hostile:d}"
            Project.create(aim, fixed=fixed, moving=moving, candidates=grid_points(12, 10)).close()
            print(json.dumps(measured(aim, hostile)), flush=True)


if __name__ == "__main__":
    main()
