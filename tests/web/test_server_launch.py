"""Starting, failing and ending: what people are told, and what a failure gives away."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest

from warpgauge.errors import WarpgaugeError
from warpgauge.project import Project, StorageError
from warpgauge.web import prepare, serve
from warpgauge.web.server import announcement
from web.server_tools import answer, events_of, served, wait_until


def test_a_disk_that_is_full_is_said_and_nothing_is_acknowledged(flat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with the log's own sentence; when there is space again the same request goes through."""
    with served(flat) as server:
        client = server.client()
        query = client.get("/api/query").json()
        log = server.launch.site.projects.latest().project.log

        def full(*arguments: Any) -> Any:
            raise StorageError("The disk is full: free some space and try again; the action was not saved.")

        before = events_of(flat)
        with monkeypatch.context() as patch:
            patch.setattr(log, "append", full)
            refused = answer(client, query, query["location"])
        assert refused.status_code == 503
        assert "not saved" in refused.json()["error"]
        assert events_of(flat) == before
        assert answer(client, query, query["location"]).status_code == 200


def test_what_was_saved_is_acknowledged_though_the_next_query_cannot_be(
    flat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk fills up right after the placement, the answer says that it is saved, and why nothing follows."""
    with served(flat) as server:
        client = server.client()
        query = client.get("/api/query").json()
        session = server.launch.site.projects.latest().session

        def full(*arguments: Any) -> Any:
            raise StorageError("The disk is full: free some space and try again.")

        with monkeypatch.context() as patch:
            patch.setattr(session, "next_query", full)
            reply = answer(client, query, query["location"])
        assert reply.status_code == 200
        assert reply.json()["saved"]["generation"] == next(event[0] for event in events_of(flat) if event[2] == "place")
        assert "disk is full" in reply.json()["next"]["reasons"][0]


def test_a_failure_of_the_server_gives_nothing_away(flat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 with a plain sentence and all headers; the cause goes to the server's own window, and it goes on."""
    with served(flat) as server:
        client = server.client()

        def fail(*arguments: Any) -> Any:
            raise RuntimeError("a path: /secret/place")

        with monkeypatch.context() as patch:
            patch.setattr(server.launch.site.projects.latest().session, "next_query", fail)
            broken = client.get("/api/query")
        assert broken.status_code == 500
        assert set(broken.json()) == {"error"}
        assert "secret" not in broken.text
        assert "script-src 'self'" in broken.headers["content-security-policy"]
        assert client.get("/api/query").status_code == 200


def test_the_links_are_told_once_with_their_secrets(flat: Path) -> None:
    """The launcher's link first, one line for each new rater; at the next launch no secret of a rater is known."""
    launch = prepare(flat, raters=["ada", "ben"])
    lines = announcement(launch)
    launch.close()
    assert lines[0].startswith("The annotator is at http://127.0.0.1:")
    assert [line.split()[2] for line in lines if line.startswith("Link for")] == ["ada", "ben"]
    again = prepare(flat, raters=["ada", "ben"])
    lines = announcement(again)
    again.close()
    assert not any(line.startswith("Link for") for line in lines)
    assert sum("has a link already" in line for line in lines) == 2
    elsewhere = prepare(flat, public_url="http://desk.example:8000")
    elsewhere.close()
    assert any("not encrypted" in line for line in announcement(elsewhere))


def test_a_project_keeps_its_port(flat: Path) -> None:
    """Two launches one after the other have the same address; two at once do not disturb each other."""
    first = prepare(flat)
    second = prepare(flat)
    assert first.site.url != second.site.url
    first.close()
    second.close()
    third = prepare(flat)
    third.close()
    assert third.site.url == first.site.url


def test_serve_prints_opens_the_browser_and_ends(flat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser gets the launcher's link once the server answers."""
    opened: list[str] = []
    lines: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    launches: list[Any] = []
    monkeypatch.setattr(
        "warpgauge.web.server.prepare", lambda *a, **k: launches.append(prepare(*a, **k)) or launches[0]
    )
    thread = threading.Thread(target=lambda: serve(flat, rater="ada", echo=lines.append))
    thread.start()
    wait_until(lambda: bool(opened))
    launches[0].stop()
    thread.join(20)
    assert not thread.is_alive()
    assert opened[0] in lines[0]
    assert "(ada, organiser)" in lines[0]
    assert lines[-1].startswith("Press Ctrl-C")


@pytest.mark.parametrize("wait", ["not at all", "until it answers", "and again"])
def test_an_interrupt_ends_the_command_with_0_at_any_moment(flat: Path, wait: str) -> None:
    """Right after 'Press Ctrl-C', once a page can be had, and twice in a row: exit code 0, nothing on stderr."""
    command = [str(Path(sys.executable).with_name("warpgauge")), "annotate", str(flat), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        link = process.stdout.readline().split(" at ")[1].split()[0]
        assert process.stdout.readline().startswith("Press Ctrl-C")
        if wait != "not at all":
            assert httpx.get(link, timeout=60, trust_env=False).status_code < 400
        process.send_signal(signal.SIGINT)
        if wait == "and again":
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "")


INTERRUPTED = """
import signal, sys
from warpgauge.web import serve
# A shell that starts a command in the background lets it ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
def echo(line):
    if line.startswith("Press Ctrl-C"):
        signal.raise_signal(signal.SIGINT)
serve(sys.argv[1], open_browser=False, echo=echo)
print("ended", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_an_interrupt_before_the_server_runs_ends_it_as_well(flat: Path) -> None:
    """In the very moment of the announcement: no exception, and Python's own handler is back afterwards."""
    command = [sys.executable, "-c", INTERRUPTED, str(flat)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended True\n", "")


IMPATIENT = """
import os, signal, sys
import uvicorn
from warpgauge.web import serve
signal.signal(signal.SIGINT, signal.default_int_handler)
startup, shutdown = uvicorn.Server.startup, uvicorn.Server.shutdown
async def interrupted_startup(self, *arguments, **options):
    await startup(self, *arguments, **options)
    os.kill(os.getpid(), signal.SIGINT)
async def interrupted_shutdown(self, *arguments, **options):
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
    await shutdown(self, *arguments, **options)
uvicorn.Server.startup, uvicorn.Server.shutdown = interrupted_startup, interrupted_shutdown
serve(sys.argv[1], open_browser=False, echo=lambda line: None)
print("ended")
"""


def test_further_interrupts_while_it_ends_change_nothing(flat: Path) -> None:
    """uvicorn would leave the application's ending out, cancel it, and report that with a traceback."""
    command = [sys.executable, "-c", IMPATIENT, str(flat)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_what_the_first_picture_does_not_need_is_not_loaded_before_it() -> None:
    """Libraries that take long to load come when they are used."""
    slow = ("scipy.stats", "scipy.signal", "skimage", "matplotlib", "nibabel", "tifffile", "zarr")
    code = f"import sys, warpgauge.web.server; print([name for name in {slow} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_missing_extra_is_named() -> None:
    """Without fastapi the import says what to install."""
    code = "import sys; sys.modules['fastapi'] = None; import warpgauge.web"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert re.search(r'run: pip install "fastapi>=.*"uvicorn>=', found.stderr.splitlines()[-1])


LEFT_AT_WORK = """
import atexit, threading, time
from warpgauge.cli.app import _leave
atexit.register(print, "tidied")
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("said", end=" ")
_leave(3)
"""


def test_a_command_ends_in_order_while_a_thread_is_at_work() -> None:
    """What was printed comes out, what waits for the end is done, and the exit code is that of the command."""
    done = subprocess.run([sys.executable, "-c", LEFT_AT_WORK], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "said tidied\n", "")


def test_a_missing_image_is_said_when_starting(flat: Path) -> None:
    """Not at the first tile: the command ends with the sentence."""
    (flat.parent / "pictures" / "moving.png").unlink()
    with pytest.raises(WarpgaugeError, match="moving image is not at"):
        prepare(flat)


def test_settings_that_another_process_changes_count_at_the_next_look(flat: Path) -> None:
    """The organiser hides the prediction on the command line while the server runs."""
    with served(flat, "ada") as server:
        client = server.client("ada")
        assert client.get("/api/query").json()["prediction"] is not None
        with Project.open(flat) as project:
            project.change_settings(hide_prediction=True)
        assert client.get("/api/project").json()["settings"]["hide_prediction"]
        assert client.get("/api/query").json()["prediction"] is None


def test_files_of_the_page_are_those_of_the_package_and_kept_for_good(flat: Path) -> None:
    """At an address with their version, as JavaScript; the page leads there from wherever it is."""
    with served(flat) as server:
        client = server.client()
        page = client.get("/").text
        address = re.search(r'src="\.\./\.\./(static/[0-9a-f]{16}/app\.js)"', page)
        assert address is not None
        reply = client.get(f"{server.base}/{address[1]}")
        assert reply.content == (resources.files("warpgauge.web") / "static" / "app.js").read_bytes()
        assert reply.headers["content-type"].startswith("text/javascript")
        assert "immutable" in reply.headers["cache-control"]
        assert '"/api/' not in page
        assert '"/static/' not in page
        tag = client.get("/").headers["etag"]
        assert client.get("/", headers={"If-None-Match": tag}).status_code == 304
