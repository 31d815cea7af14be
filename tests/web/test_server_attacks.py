"""Attacks on a running server, a row each: all are refused in a sentence, and the log stays as it is."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from warpgauge.errors import InvalidInputError
from warpgauge.web import prepare
from web.server_tools import Served, answer, events_of, make_flat, served

JSON = {"Content-Type": "application/json"}
PUBLIC = "https://annotate.example.org/lesion"
THERE = {"Host": "annotate.example.org"}
NAMED = dict.fromkeys(
    ("X-Forwarded-User", "X-Forwarded-Email", "X-Auth-Request-Email", "Remote-User", "X-Remote-User"), "organiser"
)
UNDO = b'{"generation": 0}'

# (method, path below the pair, headers, body, statuses); a header of None is left out. Everything is sent with an
# organiser's cookie unless a row says otherwise.
Row = tuple[str, str, dict[str, str | None], bytes, tuple[int, ...]]
HOSTS: list[Row] = [
    ("GET", "api/project", {"Host": host}, b"", (400, 403))
    for host in ("evil.example", "127.0.0.1.evil.example", "", "127.0.0.1@evil.example", "[::1", "192.168.1.2", "a:b")
]
SITES: list[Row] = [
    (method, path, {**JSON, **headers}, body, (403,))
    for method, path, body in (("GET", "api/project", b""), ("POST", "api/undo", UNDO))
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    )
]
STRANGERS: list[Row] = [
    (method, path, {**JSON, **NAMED, "Cookie": cookie, "X-Forwarded-For": address}, UNDO, (401,))
    for method, path in (("GET", "api/project"), ("POST", "api/undo"), ("GET", ""), ("GET", "api/nothing"))
    for cookie in (None, "warpgauge=x", "{cookie}=wrong", "{cookie}=", "{cookie}=" + "x" * 5000)
    for address in ("127.0.0.1", "10.0.0.5")
]
BODIES: list[Row] = [
    ("POST", "api/undo", JSON, body, (400, 422))
    for body in (
        b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"{}", b'{"generation": NaN}', b'{"generation": 1e400}',
        b'{"generation": -1}', b'{"generation": true}', b'{"generation": "1"}', b'{"generation": 0, "more": 1}',
        b'{"generation": ' + b"9" * 5000 + b"}", b"[" * 30_000, b'{"generation": null}',
    )
]  # fmt: skip
SIZES: list[Row] = [
    ("POST", "api/undo", JSON, b" " * 70_000, (413,)),
    ("POST", "api/undo", {**JSON, "Content-Length": "99999999999999999999"}, UNDO, (400, 413)),
    ("POST", "api/undo", {**JSON, "Content-Length": "-5"}, b"", (400, 411)),
    ("POST", "api/undo", {**JSON, "Content-Length": None}, b"", (411,)),
    ("POST", "api/undo", {**JSON, "Content-Length": None, "Transfer-Encoding": "chunked"}, b"1\r\n \r\n", (411,)),
]
FORMS: list[Row] = [
    ("POST", "api/undo", {"Content-Type": kind}, UNDO, (415,))
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None)
]
PATHS: list[Row] = [
    ("GET", path, {}, b"", (404, 405, 422))
    for path in (
        "/static/../guard.py", "/static/..%2fguard.py", "/static/{version}/..%2f..%2fguard.py",
        "/static/{version}/%2e%2e/%2e%2e/guard.py", "/static/{version}/..%5cguard.py", "/static/{version}//etc/passwd",
        "/static/{version}/%2fetc%2fpasswd", "/static/{version}/app.js%00.js", "/static/{version}/.",
        "/static/{version}/tsconfig.json", "/static/{version}/wire.d.ts", "/static/", "//etc/passwd",
        "api/images/..%2f..%2fproject.json/tile", "api/images/fixed_mask/tile", "project.json", "/people.json",
        "/annotations.sqlite", "/pair/..%2f/", "/pair/../../etc/passwd", "/pair/%2e%2e/api/project",
        "api/map/blended?transform=..%2f..%2fsecret", "api/query/-1", "api/query/1.5", "api/query/0x1", "api/query/..",
        "api/query/99999999999999999999999", "api/locations/0/drop",
    )
]  # fmt: skip
VISITORS: list[Row] = [
    ("POST", "api/undo", {**JSON, "X-Warpgauge-Visitor": name}, UNDO, (401,))
    for name in ("ada", "", "organiser%00", "ORGANISER")
]
ROWS = [*HOSTS, *SITES, *STRANGERS, *BODIES, *SIZES, *FORMS, *PATHS, *VISITORS]


class Attacked:
    """A server with one answer, and how its organiser's browser signs its requests."""

    def __init__(self, server: Served) -> None:
        self.server = server
        browser = server.client()
        (cookie,) = browser.cookies.jar
        self.cookie, self.secret = cookie.name, cookie.value
        self.version = re.search(r"static/([0-9a-f]{16})/", browser.get("/").text)[1]  # type: ignore[index]

    def send(self, row: Row) -> tuple[int, str, bytes]:
        """Send bytes as they are, which a library would not; give status, headers and body."""
        method, path, headers, body, _ = row
        place = path if path.startswith("/") else f"{self.server.pair.removeprefix(self.server.base)}{path}"
        sent: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.server.port}",
            "Cookie": f"{self.cookie}={self.secret}",
            "Connection": "close",
            "Content-Length": str(len(body)) if method == "POST" else None,
            **headers,
        }
        lines = [f"{method} {place.replace('{version}', self.version)} HTTP/1.1"]
        lines += [
            f"{name}: {value.replace('{cookie}', self.cookie)}" for name, value in sent.items() if value is not None
        ]
        return raw(self.server, "\r\n".join(lines).encode() + b"\r\n\r\n" + (body if method == "POST" else b""))


def raw(server: Served, request: bytes) -> tuple[int, str, bytes]:
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(request)
        reply = b""
        with suppress(ConnectionResetError):  # by a server that has answered and reads no further
            while part := connection.recv(65536):
                reply += part
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode("latin-1").lower(), body


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """A server with an answer in its log, which no attack may change."""
    with served(make_flat(tmp_path_factory.mktemp("attacked") / "p"), "ada,ben") as server:
        client = server.client()
        query = client.get("/api/query").json()
        assert answer(client, query, query["location"]).status_code == 200
        yield Attacked(server)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]} {sorted(row[2])} {row[3][:20]!r}")
def test_an_attack_is_refused(attacked: Attacked, row: Row) -> None:
    """With a sentence or a page that says nothing else; nothing of a file is in it, and nothing is written."""
    before = events_of(attacked.server.folder)
    status, headers, body = attacked.send(row)
    assert status in row[-1], body
    if "application/json" in headers:
        assert set(json.loads(body)) == {"error"}
    for secret in (b"Traceback", b"root:", b"import annotations", attacked.secret.encode()):
        assert secret not in body
    if "content-security-policy" in headers:  # all but what is no HTTP, which never reaches the application
        assert "script-src 'self'" in headers
    else:
        assert status in (400, 411)
    assert "access-control-allow-origin" not in headers
    assert events_of(attacked.server.folder) == before


def test_our_own_page_is_not_refused(attacked: Attacked) -> None:
    """The same requests from our own origin are heard: the rows above fail for their own reason."""
    own: dict[str, str | None] = {"Origin": attacked.server.base, "Sec-Fetch-Site": "same-origin"}
    assert attacked.send(("GET", "api/project", own, b"", ()))[0] == 200
    assert attacked.send(("POST", "api/undo", {**own, **JSON}, b'{"generation": 99999}', ()))[0] == 422
    odd: dict[str, str | None] = {"Cookie": f'a={{"x": [1, 2]}}; b; =c; {attacked.cookie}={attacked.secret}; d="e'}
    assert attacked.send(("GET", "api/project", odd, b"", ()))[0] == 200  # of other programs on this machine


def test_two_host_headers_and_garbage_are_refused(attacked: Attacked) -> None:
    """Which of two would be meant is not guessed; what is no HTTP gets 400, and the server goes on."""
    host = f"Host: 127.0.0.1:{attacked.server.port}\r\n"
    cookie = f"Cookie: {attacked.cookie}={attacked.secret}\r\nConnection: close\r\n\r\n"
    twice = f"GET /api/pairs HTTP/1.1\r\n{host}Host: evil.example\r\n{cookie}"
    assert raw(attacked.server, twice.encode())[0] in (400, 403)
    assert raw(attacked.server, b"\x16\x03\x01\x02\x00\x01\r\n\r\n")[0] == 400
    assert raw(attacked.server, b"GET / HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n")[0] == 400
    assert attacked.server.client().get("/api/project").status_code == 200


def test_every_answer_carries_the_policy(attacked: Attacked) -> None:
    """No inline script, no other host, no framing, no sniffing: on success and on refusal alike."""
    client = attacked.server.client()
    for reply in (
        client.get("/api/project"),
        client.get("/"),
        client.get("/nothing"),
        attacked.server.stranger().get("/"),
    ):
        policy = {part.split()[0]: part.split()[1:] for part in reply.headers["content-security-policy"].split(";")}
        assert (
            policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["default-src"] == ["'self'"]
        )
        assert policy["frame-ancestors"] == ["'none'"]
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "same-origin"
    assert client.get("/api/project").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "forged",
    [
        {"Host": "evil.example"},
        {"Host": "annotate.example.org.evil.example"},
        {"Host": "evil.example", "X-Forwarded-Host": "annotate.example.org"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://annotate.example.org"},  # the same name without TLS is another site
        {"Origin": "https://annotate.example.org:8443"},
        {"Origin": "http://127.0.0.1"},
    ],
)
def test_forged_names_and_origins_are_refused_behind_a_proxy(flat: Path, forged: dict[str, str]) -> None:
    """With an organiser's cookie, a write from anywhere but the public page itself gets 403."""
    with served(flat, public_url=PUBLIC) as server:
        client = server.stranger(base=f"http://127.0.0.1:{server.port}")
        reply = client.get(server.links["launcher"].removeprefix(PUBLIC), headers=THERE)
        assert reply.headers["location"] == "./"
        assert "Path=/lesion/; SameSite=lax; Secure" in reply.headers["set-cookie"]
        headers = {
            **THERE,
            "Origin": "https://annotate.example.org",
            "Cookie": reply.headers["set-cookie"].split(";")[0],
        }
        undo: dict[str, Any] = {"json": {"generation": 0}}
        path = f"/pair/{flat.name}/api/undo"
        for prefix in ("", "/lesion"):  # whether the proxy takes its prefix away or not
            assert client.post(prefix + path, headers=headers, **undo).status_code == 422  # the request was heard
        assert client.post(path, headers={**headers, **forged}, **undo).status_code == 403


def test_links_and_cookies_do_not_follow_what_a_request_says(tmp_path: Path, flat: Path) -> None:
    """An invitation has the address that was given at the start, whatever headers say; without one, this machine's."""
    forged = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example", "X-Forwarded-Prefix": "/evil"}
    body = {"name": "eve", "role": "rater", "action": "add"}
    with served(flat) as server:
        assert "Secure" not in server.stranger().get(server.links["launcher"], headers=forged).headers["set-cookie"]
        link = server.manager().post("/api/people", json=body, headers=forged).json()["link"]
        assert link.startswith(f"http://127.0.0.1:{server.port}/?token=")
    with served(make_flat(tmp_path / "other" / "p"), public_url=PUBLIC) as server:
        client = server.stranger(base=f"http://127.0.0.1:{server.port}", headers={**forged, **THERE})
        cookie = client.get(server.links["launcher"].removeprefix(PUBLIC)).headers["set-cookie"].split(";")[0]
        link = client.post("/api/people", json=body, headers={"Cookie": cookie}).json()["link"]
        assert link.startswith(f"{PUBLIC}/?token=")
        assert client.get(link.removeprefix(PUBLIC)).status_code == 303


@pytest.mark.parametrize(
    "url",
    ["annotate.example.org", "ftp://a.example", "https://", "https://a b", "https://u:p@a.example", "https://a.example/?x",
     "https://a.example/#x", "https://a.example/a b", "https://a.example/../x%2f", "https://[x"],
)  # fmt: skip
def test_a_public_address_that_cannot_be_is_refused(flat: Path, url: str) -> None:
    """Before anything is served, naming what was given."""
    with pytest.raises(InvalidInputError, match=re.escape(repr(url))):
        prepare(flat, public_url=url)


def test_scripts_in_names_do_nothing(tmp_path: Path) -> None:
    """A name with a script is text in every page, and one plain name in the header of a download."""
    folder = make_flat(tmp_path / 'ev"il; filename=x.html', guided_start=False)
    name = "<script>alert(1)</script>"
    with served(folder, "ada") as server:
        link = server.manager().post("/api/people", json={"name": name, "action": "add"}).json()["link"]
        asked = server.client("ada").get(link)
        assert name not in asked.text
        assert "&lt;script&gt;" in asked.text
        scripter = server.stranger()
        assert scripter.get(link).status_code == 303
        query = scripter.get("/api/query").json()
        assert answer(scripter, query, query["location"], confirmed=True).status_code == 200
        for client, whose in ((scripter, "mine"), (server.client(), "all")):
            reply = client.get(f"/api/marks/{whose}")
            header = reply.headers["content-disposition"]
            assert re.fullmatch(r'attachment; filename="[A-Za-z0-9_.-]{1,200}\.csv"', header), header
            assert reply.headers["content-type"] == "application/octet-stream"
            assert reply.headers.get_list("set-cookie") == []
        assert (
            server.client().get("/api/list", headers={"Accept": "text/html"}).headers["content-type"]
            == "application/json"
        )
