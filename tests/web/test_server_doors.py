"""Who gets in: wrong tokens, links that end, TLS, proxies, and what each role may know."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from warpgauge.errors import InvalidInputError
from warpgauge.project import Project
from warpgauge.web import prepare
from web.server_tools import Served, answer, make_flat, served


@pytest.fixture
def server(flat: Path) -> Iterator[Served]:
    """A server with two raters."""
    with served(flat, "ada,ben") as one:
        yield one


def test_wrong_tokens_are_slowed_down(server: Served) -> None:
    """After 20 wrong tokens an address gets 429; whoever has a right one there goes on working."""
    ada = server.client("ada")
    with httpx.Client(base_url=server.base) as guesser:
        codes = [guesser.get("/", params={"token": f"{'x' * 40}{n}"}).status_code for n in range(25)]
    assert codes[0] == 401
    assert codes[-1] == 429
    assert ada.get("/api/query").status_code == 200
    text = (server.folder / "access.log").read_text()
    assert "wrong token" in text
    assert any(json.loads(line).get("who") == "ada" for line in text.splitlines())
    assert "xxxx" not in text


def test_new_links_end_the_former_ones_at_once(flat: Path) -> None:
    """A rater keeps their link at the next launch; with --new-links the former one is refused, and it says so."""
    with served(flat, "ada") as server:
        former = server.links["ada"]
    with served(flat, "ada", new_links=True) as server:
        assert server.launch.kept == []
        assert server.client("ada").get("/api/project").json()["rater"] == "ada"
        refused = server.stranger().get("/", params={"token": former.partition("token=")[2]})
        assert refused.status_code == 401


def test_whoever_launches_organises(flat: Path) -> None:
    """With --rater zoe --raters ada, zoe is the organiser and ada a rater; so it stays at the next launch."""
    for _ in range(2):
        launch = prepare(flat, rater="zoe", raters=["ada"])
        try:
            assert (launch.links[0].name, launch.links[0].role) == ("zoe", "organiser")
            assert launch.app.state.desk.project.state.role("ada") == "rater"
        finally:
            launch.close()


def test_a_registered_rater_stays_a_rater(flat: Path) -> None:
    """A registered rater who launches does not become an organiser."""
    prepare(flat, raters=["ada"]).close()
    launch = prepare(flat, rater="ada")
    try:
        assert launch.links[0].role == "rater"
    finally:
        launch.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1."""
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1])]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed, so no certificate can be made")
    return files


def test_tls(flat: Path, certificate: tuple[Path, Path]) -> None:
    """With a certificate the link is https, the cookie is secure, and answers are the same."""
    from threading import Thread

    launch = prepare(flat, certfile=certificate[0], keyfile=certificate[1])
    thread = Thread(target=launch.run)
    thread.start()
    try:
        trusted = ssl.create_default_context(cafile=str(certificate[0]))
        with httpx.Client(verify=trusted) as client:
            reply = client.get(launch.links[0].url, timeout=60)
            assert reply.status_code == 303
            assert "Secure" in reply.headers["set-cookie"]
            assert client.get(f"{launch.url}/api/project").status_code == 200
    finally:
        launch.stop()
        thread.join()


PUBLIC = "https://annotate.example.org/lesion"


@contextmanager
def behind_a_proxy(folder: Path, **options: Any) -> Iterator[tuple[Served, dict[str, str]]]:
    """A server behind a proxy with TLS and a prefix, and the headers of an organiser's request from there."""
    with served(folder, public_url=PUBLIC, **options) as server:
        token = server.links["launcher"].removeprefix(PUBLIC)
        reply = server.local().get(token, headers={"Host": "annotate.example.org"})
        cookie = reply.headers["set-cookie"].partition(";")[0]
        yield server, {"Host": "annotate.example.org", "Cookie": cookie}


def test_below_a_prefix(flat: Path) -> None:
    """Behind a proxy's prefix, stripped or not, the page, its files, the cookie and the answers carry it."""
    with behind_a_proxy(flat) as (server, headers):
        client = server.local(headers=headers)
        reply = client.get(server.links["launcher"].removeprefix("https://annotate.example.org"))
        assert (reply.status_code, reply.headers["location"]) == (303, "/lesion/")
        assert "Path=/lesion/" in reply.headers["set-cookie"]
        assert "Secure" in reply.headers["set-cookie"]
        for prefix in ("/lesion", ""):
            page = client.get(f"{prefix}/")
            assert page.status_code == 200
            assert '"/static/' not in page.text
            assert '"/lesion/static/' in page.text
            assert client.get(f"{prefix}/api/project").status_code == 200
        script = page.text.partition('src="/lesion')[2].partition('"')[0]
        assert client.get(script).status_code == 200
        assert 'data-root="/lesion"' in page.text  # the scripts put it before every address


def test_an_invitation_made_behind_a_proxy_leads_there(flat: Path) -> None:
    """Its link has the proxy's scheme, name and prefix, whatever the request says; the printed one as well."""
    with behind_a_proxy(flat) as (server, headers):
        forged = {"X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.example", "X-Forwarded-Prefix": "/evil"}
        for host in ("annotate.example.org", "127.0.0.1", "localhost:8000"):
            one = server.local(headers={**headers, **forged, "Host": host})
            link = one.post("/api/raters", json={"name": "eve", "role": "rater", "action": "add"}).json()["link"]
            assert link.startswith(f"{PUBLIC}/?token=")
        assert server.links["launcher"].startswith(f"{PUBLIC}/?token=")
        assert (
            server.local().get(link.removeprefix(PUBLIC), headers={"Host": "annotate.example.org"}).status_code == 303
        )


def test_an_invitation_to_a_folder_behind_a_proxy_leads_there(tmp_path: Path) -> None:
    """The same on the page of all pairs."""
    make_flat(tmp_path / "pairs" / "a")
    with behind_a_proxy(tmp_path / "pairs") as (server, headers):
        one = server.local(headers=headers)
        link = one.post("/api/people", json={"name": "eve", "role": "rater", "action": "add"}).json()["link"]
        assert link.startswith(f"{PUBLIC}/?token=")


@pytest.mark.parametrize(
    "forged",
    [
        {"Host": "evil.example"},
        {"Host": "annotate.example.org.evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://annotate.example.org"},  # the same name without TLS is another site
        {"Origin": "https://annotate.example.org:8443"},
        {"Origin": "http://127.0.0.1"},
        {"Host": "evil.example", "X-Forwarded-Host": "annotate.example.org"},
    ],
)
def test_forged_names_and_origins_are_refused_behind_a_proxy(flat: Path, forged: dict[str, str]) -> None:
    """With an organiser's cookie, a write from anywhere but the public page itself gets 403."""
    with behind_a_proxy(flat) as (server, headers):
        asked = {"json": {"generation": 0}, "headers": {**headers, "Origin": "https://annotate.example.org"}}
        assert server.local().post("/api/undo", **asked).status_code == 422  # nothing to undo: the request was heard
        asked["headers"] = {**asked["headers"], **forged}
        assert server.local().post("/api/undo", **asked).status_code == 403


@pytest.mark.parametrize("public_url", [None, PUBLIC])
def test_a_local_process_signs_on_as_nobody(flat: Path, public_url: str | None) -> None:
    """Headers by which proxies name people and clients open nothing, also from this machine; nor does one of them."""
    names = ("X-Forwarded-User", "X-Forwarded-Email", "X-Auth-Request-Email", "Remote-User", "X-Remote-User")
    forged = dict.fromkeys(names, "organiser")
    forged |= {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1;proto=https", "X-Real-IP": "10.0.0.5"}
    with served(flat, "ada", public_url=public_url) as server:
        for address in ("10.0.0.5", "127.0.0.1", "::1"):
            asked = {**forged, "X-Forwarded-For": address}
            assert server.local().get("/api/project", headers=asked).status_code == 401
            assert server.local().post("/api/undo", headers=asked, json={"generation": 0}).status_code == 401


def test_the_scheme_is_not_taken_from_a_header(flat: Path) -> None:
    """A local process that says https gets no link and no cookie of it: without --public-url there is no proxy."""
    with served(flat) as server:
        reply = server.stranger().get(server.links["launcher"], headers={"X-Forwarded-Proto": "https"})
        assert "Secure" not in reply.headers["set-cookie"]
        client = server.client()
        body = {"name": "eve", "role": "rater", "action": "add"}
        link = client.post("/api/raters", json=body, headers={"X-Forwarded-Proto": "https"}).json()["link"]
        assert link.startswith(f"{server.base}/?token=")


@pytest.mark.parametrize(
    "url",
    ["annotate.example.org", "ftp://a.example", "https://", "https://a b", "https://u:p@a.example", "https://a.example/?x",
     "https://a.example/#x", "https://a.example/a b", "https://a.example/../x%2f", "https://[x"],
)  # fmt: skip
def test_a_public_address_that_cannot_be_is_refused(flat: Path, url: str) -> None:
    """Before anything is served, naming what was given."""
    with pytest.raises(InvalidInputError, match=re.escape(repr(url))):
        prepare(flat, public_url=url)


def test_a_log_that_is_deleted_is_answered_with_503(server: Served) -> None:
    """An answer that would be in no file afterwards is not acknowledged."""
    ada = server.client("ada")
    query = ada.get("/api/query").json()
    for file in server.folder.glob("annotations.sqlite*"):
        file.unlink()
    reply = answer(ada, query, [30.0, 40.0])
    assert reply.status_code == 503
    assert "deleted" in reply.json()["error"]


# What a rater may know where predictions are hidden: of every answer of the API, the fields that may change when the
# rater moves their own mark by a little. Anything else would tell them where the model expects the match.
MAY_CHANGE = {
    "/api/project": {"generation"},
    # Which location comes next depends on the model, and so, in steps of a whole location, on all answers.
    "/api/query": {"generation", "gain", "query", "number", "location"},
    "/api/list": {"generation", "rows.*.point", "rows.*.generation", "rows.*.time", "rows.*.duration"},
    # A moved mark withdraws the open suggestion that rested on it, and another takes its place at the end of the list.
    "/api/progress": {"seconds", "median_seconds", "next_gain", "queries"},
    "/api/openapi.json": set(),
}
HIDDEN = {"residual", "distance", "mahalanobis", "p", "partner", "sentence"}


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in flattened(item, f"{path}.{key}".strip(".")).items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {k: v for n, item in enumerate(value) for k, v in flattened(item, f"{path}.{n}").items()}
    return {path: value}


def pattern(field: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in field.split("."))


@pytest.mark.parametrize("blind", [True, False])
def test_hidden_predictions_stay_hidden(flat: Path, blind: bool) -> None:
    """Moving a mark by a pixel changes nothing that a rater can ask for but the mark itself."""
    with Project.open(flat) as project:
        project.change_settings(hide_prediction=True, blind=blind, refit="never")
    with served(flat, "ada") as server:
        ada = server.client("ada")
        for n in range(6):
            query = ada.get("/api/query").json()
            x, y = query["location"][:2]
            assert answer(ada, query, [x + 1.0 + 0.3 * n, y + 2.0]).status_code == 200
        seen = []
        for shift in (0.0, 1.0):
            rows = ada.get("/api/list").json()
            row = rows["rows"][2]
            body = {"point": [row["point"][0] + shift, row["point"][1]], "covariance": row["covariance"], "alpha": 0.01}
            reply = ada.post(f"/api/query/{row['query']}/place", json={**body, "generation": rows["generation"]})
            assert reply.status_code == 200, reply.text
            seen.append({path: flattened(ada.get(path).json()) for path in MAY_CHANGE})
        for path, allowed in MAY_CHANGE.items():
            before, after = seen[0][path], seen[1][path]
            changed = {pattern(field) for field in before if before[field] != after.get(field)}
            assert changed <= allowed, (path, changed - allowed)
        for row in ada.get("/api/list").json()["rows"]:
            assert {key for key in HIDDEN if row[key]} == set()
            assert not row["outlier"]
            assert not row["swapped"]
        for path in ("/api/linked?x=1&y=1", "/api/grid", "/api/warped/2/0/0/0/0"):
            assert ada.get(path).status_code in (403, 404, 422), path
        assert server.client().get("/api/list").json()["rows"][0]["distance"] is not None
