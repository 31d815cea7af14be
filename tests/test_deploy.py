"""The files of deploy/: nginx's configuration as it stands, with TLS and two servers that its entry point starts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from command_tools import call
from postgres_tools import Postgres, free_port
from warpgauge._version import __version__
from warpgauge.project import Project
from warpgauge.web.server import KEEP_ALIVE_SECONDS
from web.server_tools import make_flat, wait_until

DEPLOY = Path(__file__).parent.parent / "deploy"
NAME = "annotate.example.org"


class _SignOn(BaseHTTPRequestHandler):
    """Answers as oauth2-proxy does: 202 and the address of whoever has its cookie, else 401."""

    def do_GET(self) -> None:
        found = re.search(r"signed-on=([^;]+)", self.headers.get("Cookie", ""))
        self.send_response(202 if found else 401)
        if found:
            self.send_header("X-Auth-Request-Email", found[1])
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def sign_on() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _SignOn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def _entry_point(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Start a server as the container does, on loopback."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "WARPGAUGE_PROJECT": str(folder),
        "WARPGAUGE_HOST": NAME,
        "WARPGAUGE_ORGANISER": "ann@example.org",
        "WARPGAUGE_USER_HEADER": "X-Forwarded-Email",
        "WARPGAUGE_TRUSTED_PROXY": "127.0.0.1",
        "WARPGAUGE_BIND": "127.0.0.1",
        "WARPGAUGE_PORT": str(port),
        "WARPGAUGE_METRICS_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
    }
    command = ["/bin/sh", str(DEPLOY / "entrypoint.sh")]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _nginx(place: Path, ports: list[int], sign_on: int) -> tuple[Path, int]:
    """Write the configuration with addresses of this machine in place of the containers', and nothing else changed."""
    certificate = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"]
    certificate += ["-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", str(place / "privkey.pem"), "-out", str(place / "fullchain.pem")]
    subprocess.run([*certificate, *files], check=True, capture_output=True)
    plain, tls = free_port(), free_port()
    text = (DEPLOY / "nginx.conf").read_text()
    for found, put in (
        ("app1:8000", f"127.0.0.1:{ports[0]}"),
        ("app2:8000", f"127.0.0.1:{ports[1]}"),
        ("sign-on:4180", f"127.0.0.1:{sign_on}"),
        ("listen 80 ", f"listen 127.0.0.1:{plain} "),
        ("listen 443 ", f"listen 127.0.0.1:{tls} "),
        ("/etc/nginx/certificates", str(place)),
        ("/var/run/nginx.pid", str(place / "nginx.pid")),
        ("/dev/stdout", str(place / "access.txt")),
        ("/dev/stderr", str(place / "error.txt")),
    ):
        assert found in text
        text = text.replace(found, put)
    path = place / "nginx.conf"
    path.write_text(text)
    return path, tls


@pytest.fixture
def nginx_program() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        missing = "nginx is not installed (Debian: apt-get install nginx)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def test_nginx_sign_on_and_two_servers(tmp_path: Path, postgres: Postgres, sign_on: int, nginx_program: str) -> None:
    """Browsers get in by sign-on only, whatever headers they send; one of two servers may die; answers are kept."""
    folder, ports = make_flat(tmp_path / "lesion"), [free_port(), free_port()]
    call("copy", folder, postgres.url)
    path, tls = _nginx(tmp_path, ports, sign_on)
    start = [nginx_program, "-p", str(tmp_path), "-e", str(tmp_path / "early.txt"), "-c", str(path)]
    checked = subprocess.run([*start, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    servers = [_entry_point(folder, port) for port in ports]
    proxy = subprocess.Popen([*start, "-g", "daemon off;"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: all(_is_ready(port) for port in ports), 120)
        trusted = ssl.create_default_context(cafile=str(tmp_path / "fullchain.pem"))
        options = {"headers": {"Host": NAME}, "extensions": {"sni_hostname": NAME}}
        with httpx.Client(base_url=f"https://127.0.0.1:{tls}", verify=trusted, trust_env=False, timeout=30) as browser:
            stranger = browser.get("/", **options)
            assert stranger.status_code == 302
            assert "/oauth2/sign_in" in stranger.headers["location"]
            forged = {"headers": {"Host": NAME, "X-Forwarded-Email": "ann@example.org"}}
            assert browser.get("/api/project", **{**options, **forged}).status_code == 401
            assert "location" not in browser.post("/api/volunteer", **options, json={}).headers
            assert browser.get("/readyz", **options).status_code == 404

            def ask(who: str, method: str, address: str, **more: Any) -> httpx.Response:
                headers = {"Host": NAME, "Cookie": f"signed-on={who}", "X-Forwarded-Email": "ann@example.org"}
                for _ in range(60):
                    got = browser.request(method, address, headers=headers, extensions=options["extensions"], **more)
                    if method != "GET" or got.status_code not in (502, 503, 504):
                        break
                    # The page looks again by itself: a busy server may keep nginx waiting.
                    time.sleep(1)
                return got

            assert ask("ann@example.org", "GET", "/api/project").json()["role"] == "organiser"
            found = ask("bob@example.org", "GET", "/api/project")
            assert found.status_code == 200, found.text
            assert found.json()["role"] == "rater"
            assert "<html" in ask("bob@example.org", "GET", "/").text
            for step in range(4):
                if step == 2:
                    servers[0].kill()
                    servers[0].wait()
                    time.sleep(0.1)
                query = ask("bob@example.org", "GET", "/api/query").json()
                body = {"point": query["location"], "covariance": [[1, 0], [0, 1]], "alpha": 0.01,
                        "generation": query["generation"]}  # fmt: skip
                assert (
                    ask("bob@example.org", "POST", f"/api/query/{query['query']}/place", json=body).status_code == 200
                )
    finally:
        proxy.send_signal(signal.SIGQUIT)
        for server in servers:
            server.terminate()
        codes = [server.wait(60) for server in servers]
        proxy.wait(60)
    assert codes[1] == 0
    with Project.open(folder) as project:
        placed = [event.rater for event in project.events() if event.kind == "place"]
    assert placed == ["bob@example.org"] * 4


class _Resetting(BaseHTTPRequestHandler):
    """A server that answers readers, but resets the connection at every write."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def do_POST(self) -> None:
        # Closing with this option sends a reset instead of an orderly end.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_broken_connections_and_a_dead_server_are_no_outage(tmp_path: Path, sign_on: int, nginx_program: str) -> None:
    """Both servers reset connections, then one is gone: every reader is still answered at once.

    With ``max_fails=1`` each reset left a server out for 5 seconds, and with both out everybody got 502.
    """
    apps = [ThreadingHTTPServer(("127.0.0.1", 0), _Resetting) for _ in range(2)]
    for app in apps:
        app.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=app.serve_forever, daemon=True).start()
    path, tls = _nginx(tmp_path, [app.server_address[1] for app in apps], sign_on)
    start = [nginx_program, "-p", str(tmp_path), "-e", str(tmp_path / "early.txt"), "-c", str(path)]
    proxy = subprocess.Popen([*start, "-g", "daemon off;"], stderr=subprocess.DEVNULL)
    try:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "fullchain.pem"))
        with httpx.Client(base_url=f"https://127.0.0.1:{tls}", verify=trusted, trust_env=False, timeout=30) as browser:

            def ask(method: str, who: int) -> int:
                headers = {"Host": NAME, "Cookie": f"signed-on=rater{who}@example.org"}
                return browser.request(
                    method, "/api/query", headers=headers, extensions={"sni_hostname": NAME}
                ).status_code

            def up() -> bool:
                try:
                    return ask("GET", 0) == 200
                except httpx.HTTPError:
                    return False

            wait_until(up)
            # Raters are spread over both servers by their cookies.
            assert {ask("POST", who) for who in range(8)} == {502}
            assert [ask("GET", who) for who in range(40)] == [200] * 40
            apps[0].shutdown()
            apps[0].server_close()
            assert [ask("GET", who) for who in range(40)] == [200] * 40
    finally:
        proxy.send_signal(signal.SIGQUIT)
        proxy.wait(60)
        for app in apps:
            app.shutdown()
            app.server_close()


def test_the_proxy_forgets_idle_connections_first() -> None:
    """A request never meets a connection that the server is closing; most proxies wait for 60 seconds."""
    found = re.search(r"keepalive_timeout (\d+)s;", (DEPLOY / "nginx.conf").read_text())
    assert found is not None
    assert int(found[1]) < KEEP_ALIVE_SECONDS


def test_no_secret_is_printed_in_a_container(tmp_path: Path) -> None:
    """The organiser's link is not in what the container prints; the secret of the file lets the organiser in."""
    folder, port, secret = make_flat(tmp_path / "lesion"), free_port(), "s" * 20 + "0123456789" * 2
    (tmp_path / "token").write_text(secret)
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "WARPGAUGE_PROJECT": str(folder),
        "WARPGAUGE_HOST": NAME, "WARPGAUGE_TOKEN_FILE": str(tmp_path / "token"), "WARPGAUGE_BIND": "127.0.0.1",
        "WARPGAUGE_PORT": str(port), "WARPGAUGE_METRICS_PORT": str(free_port()),
    }  # fmt: skip
    command = ["/bin/sh", str(DEPLOY / "entrypoint.sh")]
    with (tmp_path / "printed").open("wb") as printed:
        server = subprocess.Popen(command, env=environment, stdout=printed, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: _is_ready(port), 120)
            headers = {"Host": NAME}
            address = f"http://127.0.0.1:{port}/?token={secret}"
            assert httpx.get(address, headers=headers, trust_env=False, timeout=30).status_code == 303
        finally:
            server.terminate()
            assert server.wait(60) == 0
    text = (tmp_path / "printed").read_text()
    assert "The annotator is at" in text
    assert "token=" not in text
    assert secret not in text
    assert "nobody would see the links" in call("annotate", folder, "--no-links", "--raters", "ada", code=1)


def test_the_example_names_this_version() -> None:
    """The image that compose.yaml builds is named after the version of the sources."""
    assert (
        yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["app1"]["image"] == f"warpgauge:{__version__}"
    )


def test_the_entry_point_says_what_is_missing() -> None:
    """Without the name of the proxy no server would answer to anybody."""
    command = ["/bin/sh", str(DEPLOY / "entrypoint.sh")]
    done = subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "set WARPGAUGE_HOST" in done.stderr


def test_compose_and_image_fit_the_entry_point() -> None:
    """What compose.yaml sets is read by the entry point, what it needs is in example.env, and no secret is there."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    entry, example = (DEPLOY / "entrypoint.sh").read_text(), (DEPLOY / "example.env").read_text()
    for name in ("app1", "app2"):
        service = compose["services"][name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert all(f"${{{variable}:-" in entry or f"${variable}" in entry for variable in service["environment"])
    assert (
        service["environment"]["WARPGAUGE_TRUSTED_PROXY"]
        == (compose["services"]["nginx"]["networks"]["inside"]["ipv4_address"])
    )
    wanted = set(re.findall(r"\$\{(\w+):\?\}", (DEPLOY / "compose.yaml").read_text()))
    assert wanted == set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    assert re.search(r"(?i)(password|secret)\s*[:=]\s*['\"]?\w{6,}", example) is None
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert users
    assert not users[-1].startswith(("0", "root"))
    copied = [word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]]
    sources = [word for word in copied if not word.startswith("--")]
    assert all((DEPLOY.parent / source).exists() for source in sources)


def test_images_are_fixed_by_digest_and_packages_by_hash() -> None:
    """Nothing in the image can change without a change here, and it trusts no project by itself."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM")]
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    others = [one["image"] for one in services.values() if "build" not in one]
    assert len(bases) == 2
    assert len(others) == 3
    for image in (*bases, *others):
        assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image), image
    text = " ".join(lines)
    installs = re.findall(r"pip install ([^&]*)", text)
    assert all("--require-hashes" in one or "--no-deps --no-build-isolation ." in one for one in installs)
    assert "WARPGAUGE_TRUST" not in text
    assert services["app1"]["environment"]["WARPGAUGE_TRUST"] == "${WARPGAUGE_TRUST:-}"


def test_the_lock_of_the_image_is_a_part_of_the_lock_of_the_tests() -> None:
    """What is served is what was tested, with every direct requirement of the server among it."""
    folder = DEPLOY.parent / "requirements"
    tested, served = ((folder / name).read_text().splitlines() for name in ("dev.txt", "server.txt"))
    pins = [line for line in served if not line.startswith("#")]
    assert set(pins) <= set(tested)
    names = {pin.split("==")[0].lower().replace("_", "-") for pin in pins}
    assert {"numpy", "fastapi", "uvicorn", "psycopg", "psycopg-binary", "zarr", "pydicom", "hatchling"} <= names
    assert not {"pytest", "sphinx", "simpleitk", "playwright"} & names


def test_the_entry_point_begins_with_the_loops_of_the_image(tmp_path: Path) -> None:
    """Loops compiled with the image are copied to where they can be written, once."""
    loops, cache, bin_ = tmp_path / "loops", tmp_path / "cache", tmp_path / "bin"
    loops.mkdir()
    (loops / "one.nbi").write_text("compiled")
    bin_.mkdir()
    (bin_ / "warpgauge").write_text('#!/bin/sh\necho "$1" "$(cat "$NUMBA_CACHE_DIR/one.nbi")" >> "$OUT"\n')
    (bin_ / "warpgauge").chmod(0o755)
    environment = {
        "PATH": f"{bin_}:/usr/bin:/bin", "OUT": str(tmp_path / "out"), "WARPGAUGE_HOST": NAME,
        "WARPGAUGE_LOOPS": str(loops), "NUMBA_CACHE_DIR": str(cache),
    }  # fmt: skip
    for _ in range(2):
        subprocess.run(["/bin/sh", str(DEPLOY / "entrypoint.sh")], env=environment, check=True)
        (cache / "one.nbi").write_text("compiled again")
    said = [line for line in (tmp_path / "out").read_text().splitlines() if line.startswith("annotate")]
    assert said == ["annotate compiled", "annotate compiled again"]
