"""Who gets in: tokens, cookies, hosts, origins, sizes and paths, over a real connection."""

from __future__ import annotations

import html
import json
import os
import re
import socket
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from warpgauge.errors import InvalidInputError
from warpgauge.project import Project
from warpgauge.project.permission import state_files
from warpgauge.web import prepare
from warpgauge.web.hosts import AllowedHosts, is_loopback, split_host
from web.load_tools import cookie
from web.server_tools import Served, make_flat, served, wait_until


def raw(server: Served, request: bytes) -> tuple[int, bytes]:
    """Send bytes as they are, which httpx would not, and give status and body."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(request)
        answer = b""
        with suppress(ConnectionResetError):  # by a server that has answered and reads no further
            while part := connection.recv(65536):
                answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def cookie_of(server: Served, who: str = "launcher") -> str:
    client = server.client(who)
    (cookie,) = client.cookies.jar
    return f"{cookie.name}={cookie.value}"


def test_the_link_sets_a_strict_cookie_and_leaves_the_address(flat_server: Served) -> None:
    """The token turns into an HttpOnly, SameSite=Strict cookie named after project and port; a redirect drops it."""
    answer = flat_server.stranger().get(flat_server.links["ada"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    given = answer.headers["set-cookie"].lower()
    with Project.open(flat_server.folder) as project:
        assert given.startswith(f"warpgauge-{project.id[:8]}-{flat_server.port}=")
    assert "httponly" in given
    assert "samesite=strict" in given
    assert "path=/" in given
    assert "domain" not in given


@pytest.mark.parametrize(
    "path", ["/api/project", "/api/images/fixed/tile", "/api/openapi.json", "/static/viewport.js", "/api/nothing", "/"]
)
def test_nothing_is_given_without_a_token(flat_server: Served, path: str) -> None:
    """Without a cookie, or with a wrong one, every address answers 401, whether it exists or not."""
    stranger = flat_server.stranger()
    assert stranger.get(path).status_code == 401
    wrong = cookie(flat_server.folder, flat_server.base, "wrong")
    assert stranger.get(path, headers=wrong).status_code == 401
    assert stranger.get("/?token=wrong").status_code == 401
    assert stranger.get("/?token=").status_code == 401


def test_tokens_are_stored_as_hashes_only(flat_server: Served) -> None:
    """No file of the project holds a rater's or the launcher's secret."""
    secrets = [link.partition("token=")[2].encode() for link in flat_server.links.values()]
    assert len(set(secrets)) == 3
    for file in flat_server.folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(secret in content for secret in secrets), file.name
    with sqlite3.connect(flat_server.folder / "annotations.sqlite") as log:
        rows = log.execute("SELECT payload FROM events WHERE kind = 'rater'").fetchall()
    log.close()
    hashes = {json.loads(row[0])["name"]: json.loads(row[0])["token_hash"] for row in rows}
    assert hashes["ada"].startswith("sha256:")
    assert hashes["ada"] != hashes["ben"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.1@evil.example", "[::1"])
def test_another_host_name_is_refused(flat_server: Served, host: str) -> None:
    """A name that an attacker points at this machine (DNS rebinding) gets 403, even with a valid cookie."""
    headers = {"Host": host, "Cookie": cookie_of(flat_server)}
    assert flat_server.stranger().get("/api/project", headers=headers).status_code == 403


def test_two_host_headers_are_refused(flat_server: Served) -> None:
    """Which of two would be meant is not guessed."""
    request = (
        f"GET /api/project HTTP/1.1\r\nHost: 127.0.0.1:{flat_server.port}\r\nHost: evil.example\r\n"
        f"Cookie: {cookie_of(flat_server)}\r\nConnection: close\r\n\r\n"
    )
    assert raw(flat_server, request.encode())[0] in (400, 403)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_page_of_another_site_is_refused(flat_server: Served, method: str, headers: dict[str, str]) -> None:
    """A request that a foreign page makes with the visitor's cookie gets 403, for reading and for writing."""
    body = {"content": b"{}"} if method == "POST" else {}
    path = "/api/undo" if method == "POST" else "/api/project"
    headers = {**headers, "Content-Type": "application/json"}
    assert flat_server.client().request(method, path, headers=headers, **body).status_code == 403  # type: ignore[arg-type]


def test_our_own_page_is_not_refused(flat_server: Served) -> None:
    """The same request from our own origin is answered."""
    headers = {"Origin": flat_server.base, "Sec-Fetch-Site": "same-origin"}
    assert flat_server.client().get("/api/project", headers=headers).status_code == 200


def test_a_link_in_a_mail_leads_to_the_page(flat_server: Served) -> None:
    """A strict cookie is not sent on a way that began elsewhere, so such a visit is sent on once from our own page."""
    stranger = flat_server.stranger()
    elsewhere = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    hop = stranger.get(flat_server.links["ada"], headers=elsewhere)  # who is signed in is only known from here
    assert stranger.get(followed(hop), headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303
    stranger.cookies.clear()
    onward = stranger.get("/", headers=elsewhere)
    assert onward.status_code == 200
    assert 'http-equiv="refresh"' in onward.text
    assert stranger.get("/", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 401


def test_every_answer_carries_the_policy(flat_server: Served) -> None:
    """No inline script, no other host, no framing, no sniffing, no referrer: on success and on refusal alike."""
    for answer in (
        flat_server.client().get("/api/project"),
        flat_server.stranger().get("/api/project"),
        flat_server.client().get("/nothing"),
        flat_server.client().get("/api/images/fixed/tile"),
    ):
        policy = {part.split()[0]: part.split()[1:] for part in answer.headers["content-security-policy"].split(";")}
        assert policy["script-src"] == ["'self'"]
        assert policy["style-src"] == ["'self'"]
        assert policy["connect-src"] == ["'self'"]
        assert policy["default-src"] == ["'self'"]
        assert policy["frame-ancestors"] == ["'none'"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers
    assert flat_server.client().get("/api/project").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../guard.py",
        "/static/..%2fguard.py",
        "/static/%2e%2e/guard.py",
        "/static/....//guard.py",
        "/static/..%5cguard.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/index.html%00.js",
        "/static/../../../../../../etc/passwd",
        "/static/.",
        "/static/",
        "//etc/passwd",
        "/api/images/..%2f..%2fproject.json/tile",
        "/project.json",
        "/annotations.sqlite",
        "/static/tsconfig.json",
    ],
)
def test_no_path_reaches_the_file_system(flat_server: Served, path: str) -> None:
    """Sent as they are, such paths find nothing (404 or 422), and no content of a file is in the answer."""
    request = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{flat_server.port}\r\n"
        f"Cookie: {cookie_of(flat_server)}\r\nConnection: close\r\n\r\n"
    )
    status, body = raw(flat_server, request.encode())
    assert status in (404, 422)
    assert set(json.loads(body)) == {"error"}


def test_static_files_are_those_of_the_package(flat_server: Served) -> None:
    """A module of the page is served as it lies in the package, as JavaScript, and not sent twice."""
    from importlib import resources

    file = resources.files("warpgauge.web") / "static" / "viewport.js"
    answer = flat_server.client().get("/static/viewport.js")
    assert answer.content == file.read_bytes()
    assert answer.headers["content-type"].startswith("text/javascript")
    tag = {"If-None-Match": answer.headers["etag"]}
    assert flat_server.client().get("/static/viewport.js", headers=tag).status_code == 304


def test_an_oversized_body_is_refused_however_it_is_sent(flat_server: Served) -> None:
    """413 by its stated length, and 413 where it comes in pieces without one."""
    client, headers = flat_server.client(), {"Content-Type": "application/json"}
    assert client.post("/api/undo", content=b" " * 70_000, headers=headers).status_code == 413
    pieces = (b" " * 1000 for _ in range(100))
    assert client.post("/api/undo", content=pieces, headers=headers).status_code == 413
    endless = (
        f"POST /api/undo HTTP/1.1\r\nHost: 127.0.0.1:{flat_server.port}\r\nCookie: {cookie_of(flat_server)}\r\n"
        f"Content-Type: application/json\r\nContent-Length: 99999999999999999999\r\nConnection: close\r\n\r\n{{}}"
    )
    assert raw(flat_server, endless.encode())[0] in (400, 413)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"{}", b'{"generation": NaN}', b'{"generation": 1e400}',
     b'{"generation": -1}', b'{"generation": true}', b'{"generation": "1"}', b'{"generation": 0, "more": 1}',
     b'{"generation": ' + b"9" * 5000 + b"}", b"[" * 30_000, b'{"generation": null}'],
)  # fmt: skip
def test_a_malformed_body_is_refused_in_a_sentence(flat_server: Served, body: bytes) -> None:
    """Broken, deeply nested, wrong or surplus JSON gets 400 or 422 with a sentence, and changes nothing."""
    client = flat_server.client()
    before = client.get("/api/project").json()["generation"]
    answer = client.post("/api/undo", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == {"error"}
    assert "Traceback" not in answer.text
    assert client.get("/api/project").json()["generation"] == before


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_that_a_form_could_send_is_refused(flat_server: Served, kind: str) -> None:
    """Only JSON is taken, which a foreign form cannot send."""
    answer = flat_server.client().post("/api/undo", content=b'{"generation": 0}', headers={"Content-Type": kind})
    assert answer.status_code == 415


def test_garbage_instead_of_http_does_no_harm(flat_server: Served) -> None:
    """The server answers 400 to what is no HTTP, and goes on."""
    assert raw(flat_server, b"\x16\x03\x01\x02\x00\x01\r\n\r\n")[0] == 400
    assert raw(flat_server, b"GET / HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n")[0] == 400
    assert flat_server.client().get("/api/project").status_code == 200


def test_links_outlive_a_restart(tmp_path: Path) -> None:
    """Rater tokens stand hashed in the project; the launcher's stands in a private file, nowhere in the project."""
    folder = make_flat(tmp_path / "p")
    first = prepare(folder, raters=["ada"])
    first.close()
    second = prepare(folder, raters=["ada", "ben"])
    second.socket.close()
    gate = next(entry for entry in second.app.user_middleware if "gate" in entry.kwargs).kwargs["gate"]
    tokens = {link.name: link.url.partition("token=")[2] for link in first.links}
    assert gate.person(tokens["ada"]).role == "rater"
    assert gate.person(tokens["organiser"]).role == "organiser"
    assert not any(tokens["organiser"].encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert second.kept == ["ada"]
    assert [link.name for link in second.links] == ["organiser", "ben"]
    second.app.state.desk.project.revoke_rater("ada")
    wait_until(lambda: gate.person(tokens["ada"]) is None)
    second.app.state.desk.project.close()


def test_the_launchers_link_ends_when_asked_or_readable_by_others(tmp_path: Path) -> None:
    """--new-links makes another one; a file that others can read, or that is 30 days old, is not used any more."""
    folder = make_flat(tmp_path / "p")

    def secret(**options: Any) -> str:
        launch = prepare(folder, **options)
        launch.close()
        return str(launch.links[0].url.partition("token=")[2])

    first = secret()
    assert secret() == first
    assert secret(rater="zoe") != first
    second = secret(new_links=True)
    assert second != first
    (file,) = (path for base in state_files("links") for path in base.glob("*") if path.read_text() == second)
    assert file.stat().st_mode & 0o077 == 0
    file.chmod(0o644)
    third = secret()
    assert third != second
    os.utime(file, (0, 0))
    assert secret() != third


def test_a_server_for_other_machines_demands_rater_tokens(tmp_path: Path) -> None:
    """Bound to every address it starts only when there are raters with tokens."""
    folder = make_flat(tmp_path / "p")
    with pytest.raises(InvalidInputError, match="each rater needs a token"):
        prepare(folder, host="0.0.0.0")
    launch = prepare(folder, host="0.0.0.0", raters=["ada"])
    launch.close()
    again = prepare(folder, host="0.0.0.0")
    again.close()


def test_it_is_bound_to_loopback_unless_told_otherwise(flat_server: Served) -> None:
    """The socket's own address is 127.0.0.1."""
    launch = prepare(flat_server.folder)
    assert launch.socket.getsockname()[0] == "127.0.0.1"
    assert launch.url.startswith("http://127.0.0.1:")
    with pytest.raises(InvalidInputError, match="cannot be bound"):
        prepare(flat_server.folder, port=launch.socket.getsockname()[1])
    launch.close()


@pytest.mark.parametrize("raters", [["ada", "ada"], ["ada", ""], ["a\nb"], ["x" * 200]])
def test_raters_need_names_that_can_be_told_apart(tmp_path: Path, raters: list[str]) -> None:
    """Names twice, empty, broken or endless are refused, and the project can be served all the same."""
    folder = make_flat(tmp_path / "p")
    with pytest.raises(InvalidInputError):
        prepare(folder, raters=raters)
    with Project.open(folder) as project:
        assert "a\nb" not in project.state.raters


def test_ctrl_c_ends_the_server_cleanly(flat: Path) -> None:
    """SIGINT ends it with code 0 and the project is whole."""
    with served(flat, process=True) as server:
        assert server.client().get("/api/project").status_code == 200
        assert server.stop() == 0
    with Project.open(flat) as project:
        assert project.verify().ok


def test_a_missing_image_is_said_when_starting(flat: Path) -> None:
    """Not at the first tile: the command ends with the sentence."""
    from warpgauge.errors import SuspiciousDataWarning, WarpgaugeError

    (flat.parent / "pictures" / "moving.png").unlink()
    with pytest.warns(SuspiciousDataWarning), pytest.raises(WarpgaugeError, match="moving image is not at"):
        prepare(flat)


def test_hosts_by_hand() -> None:
    """Splitting and allowing, on cases whose answers are plain."""
    assert split_host("127.0.0.1:80") == ("127.0.0.1", 80)
    assert split_host("[::1]:80") == ("::1", 80)
    assert split_host("LOCALHOST") == ("localhost", None)
    assert split_host("a:b") == ("", None)
    assert is_loopback("127.0.0.9")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("192.168.1.2")
    assert AllowedHosts("0.0.0.0").allows("192.168.1.2")
    assert not AllowedHosts("0.0.0.0").allows("evil.example")
    assert AllowedHosts("0.0.0.0", "annotate.example.org").allows("annotate.example.org")
    assert not AllowedHosts("127.0.0.1").allows("192.168.1.2")


def test_odd_cookies_of_other_programs_do_not_lock_anybody_out(flat_server: Served) -> None:
    """Programs on other ports of this machine share the cookies of a browser; theirs may be malformed."""
    odd = f'a={{"x": [1, 2]}}; b; =c; {cookie_of(flat_server)}; d="e'
    assert flat_server.stranger().get("/api/project", headers={"Cookie": odd}).status_code == 200


def test_settings_that_another_process_changes_count_at_the_next_look(flat: Path) -> None:
    """The organiser hides the prediction on the command line while the server runs."""
    with served(flat, "ada") as server:
        client = server.client("ada")
        assert client.get("/api/query").json()["prediction"] is not None
        with Project.open(flat) as project:
            project.change_settings(hide_prediction=True)
        assert client.get("/api/project").json()["settings"]["hide_prediction"]
        assert client.get("/api/query").json()["prediction"] is None


def cross(site: str = "cross-site") -> dict[str, str]:
    """Headers of a browser that follows a link from another site: without its strict cookies."""
    return {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Accept": "text/html"}


def followed(answer: Any) -> str:
    """Where the page of an answer leads by itself, or by its last link."""
    (*_, link) = re.findall(r'(?:url=|href=")([^"]+)"', answer.text)
    return html.unescape(link)


def test_a_link_of_another_rater_from_another_site_asks_first(flat_server: Served) -> None:
    """Whoever is signed in stays so until they say otherwise, also where the browser withheld the cookie."""
    client = flat_server.client("ada")
    of_bob = flat_server.links["ben"].removeprefix(flat_server.base)
    first = flat_server.stranger().get(of_bob, headers=cross())  # a strict cookie does not come along
    assert first.status_code == 200
    assert client.cookies.jar.__len__() == 1
    client.cookies.update(first.cookies)
    again = client.get(followed(first), headers=cross("same-origin"))
    assert again.status_code == 200
    assert "signed in here as <strong>ada</strong>" in again.text
    assert not [name for name in again.cookies if not name.endswith("-asked")]
    assert client.get("/api/project").json()["rater"] == "ada"
    client.cookies.update(again.cookies)
    changed = client.get(followed(again), headers=cross("same-origin"))
    assert changed.status_code == 303
    assert client.get("/api/project").json()["rater"] == "ben"


@pytest.mark.parametrize("via", ["yes-x", "here-x", "yes-", "yes", "no-x"])
def test_another_site_cannot_answer_the_question(flat_server: Served, via: str) -> None:
    """The answer needs a nonce that stands in a strict cookie, which no other site can set or send."""
    client = flat_server.client("ada")
    link = flat_server.links["ben"].removeprefix(flat_server.base)
    for headers in (cross(), cross("same-site"), cross("none"), {"Accept": "text/html"}, {}):
        answer = client.get(f"{link}&via={via}", headers=headers)
        assert answer.status_code in (200, 400)
        assert not [name for name in answer.cookies if not name.endswith("-asked")]
    assert client.get("/api/project").json()["rater"] == "ada"


def test_a_link_from_a_mail_signs_in_who_was_not(flat_server: Served) -> None:
    """Without anybody signed in, a link from elsewhere is followed once more from here, and then works as ever."""
    client = flat_server.stranger()
    first = client.get(flat_server.links["ada"], headers=cross())
    assert first.status_code == 200
    second = client.get(followed(first), headers=cross("same-origin"))
    assert second.status_code == 303
    assert client.get("/api/project").json()["rater"] == "ada"
    # The same link again, and a link that was typed, need no question.
    assert client.get(flat_server.links["ada"], headers=cross("none")).status_code == 303
    plain = flat_server.stranger()  # plain http of another machine: the browser does not say where it comes from
    hop = plain.get(flat_server.links["ada"], headers={"Accept": "text/html"})
    assert hop.status_code == 200
    assert plain.get(followed(hop), headers={"Accept": "text/html"}).status_code == 303
    without = flat_server.stranger().get(followed(hop), headers={"Accept": "text/html"})
    assert (without.status_code, "allow cookies" in without.text) == (400, True)


def test_a_page_of_another_rater_writes_nothing(flat_server: Served) -> None:
    """A window that was opened by one rater cannot answer as another one who signed in since in the same browser."""
    client = flat_server.client("ben")
    before = client.get("/api/list").json()["generation"]
    for visitor in ("ada", "", "b%65n%00", "BEN"):
        refused = client.post("/api/undo", json={"generation": before}, headers={"X-Warpgauge-Visitor": visitor})
        assert refused.status_code == 401
    assert client.get("/api/list", headers={"X-Warpgauge-Visitor": "b%65n"}).json()["generation"] == before
