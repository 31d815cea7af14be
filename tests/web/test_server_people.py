"""Who gets in: links, roles, revocation, assignments; one project and many, one server and several side by side."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from command_tools import call
from postgres_tools import Postgres
from warpgauge.errors import InvalidInputError
from warpgauge.project import Project, ProjectError, StorageError
from warpgauge.project.own_state import state_files
from warpgauge.web import prepare
from warpgauge.web.catalogue import Catalogue
from warpgauge.web.people import People, PeopleFile
from web.server_tools import Served, answer, events_of, lattice, served, wait_until, write_pictures

NAMES = ("p1", "p2", "p10", "tissue/p1")


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of projects to copy, each with its images inside."""
    folder = tmp_path_factory.mktemp("originals")
    fixed, moving = write_pictures(folder.parent / "pictures", (120, 110))
    points = lattice((10, 10), (110, 100), (6, 5))
    for name in NAMES:
        settings = {"guided_start": False, "budget": 3}
        (folder / name).parent.mkdir(exist_ok=True)
        Project.create(folder / name, fixed=fixed, moving=moving, candidates=points, targets=points, copy=True,
                       settings=settings).close()  # fmt: skip
    return folder


@pytest.fixture
def many(tmp_path: Path, originals: Path) -> Iterator[Served]:
    with served(shutil.copytree(originals, tmp_path / "many"), "ada,ben") as server:
        yield server


@pytest.fixture
def server(flat: Path) -> Iterator[Served]:
    """A server of one project with two raters."""
    with served(flat, "ada,ben") as one:
        yield one


def assign(organiser: httpx.Client, rater: str, *pairs: str, action: str = "assign") -> httpx.Response:
    return organiser.post("/api/assign", json={"action": action, "raters": [rater], "pairs": list(pairs)})


def place(client: httpx.Client, pair: str) -> httpx.Response:
    query = client.get(f"/pair/{pair}/api/query").json()
    body = {"point": query["location"], "covariance": [[4.0, 0.0], [0.0, 4.0]], "alpha": 0.01, "confirmed": True}
    body["generation"] = query["generation"]
    return client.post(f"/pair/{pair}/api/query/{query['query']}/place", json=body)


def change(server: Served, action: str, name: str, **more: str) -> httpx.Response:
    return server.manager().post("/api/people", json={"action": action, "name": name, **more})


def test_a_link_signs_in_by_a_cookie_of_this_host_and_leaves_the_address(server: Served) -> None:
    """HttpOnly, SameSite=Lax, for no other host; what is stored of any secret is its hash."""
    reply = server.stranger().get(server.links["ada"])
    assert (reply.status_code, reply.headers["location"]) == (303, "./")
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "path=/;" in cookie
    assert "domain" not in cookie
    secrets = [link.partition("token=")[2].encode() for link in server.links.values()]
    assert len(set(secrets)) == 3
    for file in server.folder.rglob("*"):
        assert not any(secret in file.read_bytes() for secret in secrets if file.is_file()), file.name
    stored = json.loads((server.folder / "people.json").read_text())
    people = stored["people"]
    assert stored["id"][:8] in cookie.partition("=")[0]  # beside it, a browser keeps the cookies of other places
    assert people["ada"]["token"].startswith("sha256:")
    assert people["ada"]["token"] != people["ben"]["token"]


def test_a_link_of_somebody_else_asks_first(server: Served) -> None:
    """Whoever is signed in stays so until they say otherwise, by a form that no other site can send."""
    client = server.client("ada")
    secret = server.links["ben"].partition("token=")[2]
    mail = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    asked = client.get(server.links["ben"], headers=mail)
    assert asked.status_code == 200
    assert "signed in here as <strong>ada</strong>" in asked.text
    front, form = f"{server.base}/", {"Content-Type": "application/x-www-form-urlencoded"}
    for origin, status in ((None, 415), ("https://evil.example", 403), ("null", 403)):
        headers = form if origin is None else {**form, "Origin": origin}
        assert client.post(front, content=f"token={secret}", headers=headers).status_code == status
    assert client.get("/api/project").json()["rater"] == "ada"
    assert client.get(server.links["ada"], headers=mail).status_code == 303  # one's own needs no question
    own = {**form, "Origin": server.base}
    assert client.post(front, content="token=wrong", headers=own).status_code == 401
    assert client.post(front, content=f"token={secret}", headers=own).status_code == 303
    assert client.get("/api/project").json()["rater"] == "ben"


def test_a_page_of_another_rater_writes_nothing(server: Served) -> None:
    """A window that was opened by one rater cannot answer as another one who signed in since in the same browser."""
    client = server.client("ben")
    before = client.get("/api/project").json()["generation"]
    for visitor in ("ada", "", "b%65n%00", "BEN"):
        headers = {"X-Warpgauge-Visitor": visitor}
        assert client.post("/api/undo", json={"generation": before}, headers=headers).status_code == 401
    assert client.get("/api/project", headers={"X-Warpgauge-Visitor": "b%65n"}).json()["generation"] == before


def test_a_revoked_rater_is_out_at_once_at_every_server(flat: Path, server: Served) -> None:
    """The cookie is worth nothing after revocation, at another server of the same place too; a new link works."""
    with served(flat) as other:
        ada, there = server.client("ada"), other.stranger()
        assert there.get(server.links["ada"].replace(server.base, other.base)).status_code == 303
        assert there.get("/api/project").json()["rater"] == "ada"
        query = ada.get("/api/query").json()
        assert change(server, "revoke", "ada").json() == {"link": None}
        before = events_of(flat)
        for client in (ada, there):
            assert client.get("/api/project").status_code == 401
            assert answer(client, query, [1.0, 1.0]).status_code == 401
        assert server.stranger().get(server.links["ada"]).status_code == 401
        assert events_of(flat) == before
        assert not next(one for one in server.client().get("/api/raters").json()["raters"] if one["name"] == "ada")[
            "has_link"
        ]
        link = change(server, "add", "ada").json()["link"]
        assert ada.get(link).status_code == 303
        assert ada.get("/api/query").json()["query"] == query["query"]
        assert server.stranger().get(server.links["ada"]).status_code == 401


def test_people_are_checked(server: Served) -> None:
    """Nobody changes their own role, revokes a stranger, or takes a name that cannot be shown or told apart."""
    for body, status in (
        ({"action": "revoke", "name": "nobody"}, 404),
        ({"action": "revoke", "name": "organiser"}, 422),
        ({"action": "add", "name": "organiser", "role": "rater"}, 422),
        ({"action": "add", "name": " eve"}, 422),
        ({"action": "add", "name": "e\nve"}, 422),
        ({"action": "add", "name": ""}, 422),
        ({"action": "add", "name": "аda"}, 422),  # a Cyrillic letter
        ({"action": "add", "name": "eve", "role": "king"}, 422),
        ({"action": "forget", "name": "ada"}, 422),
    ):
        assert server.manager().post("/api/people", json=body).status_code == status, body
    assert set(json.loads((server.folder / "people.json").read_text())["people"]) == {"ada", "ben"}


@pytest.mark.parametrize("raters", [["ada", "ada"], ["ada", ""], ["a\nb"], ["x" * 200]])
def test_raters_need_names_that_can_be_told_apart(flat: Path, raters: list[str]) -> None:
    """Names twice, empty, broken or endless are refused, and the project can be served all the same."""
    with pytest.raises(InvalidInputError):
        prepare(flat, raters=raters)
    prepare(flat).close()


def test_who_launches_organises_unless_they_are_a_rater(flat: Path) -> None:
    """With --rater zoe --raters ada, zoe organises and ada rates, also at the next launch; ada does not organise."""
    for _ in range(2):
        launch = prepare(flat, rater="zoe", raters=["ada"])
        launch.close()
        assert (launch.links[0].name, launch.links[0].role) == ("zoe", "organiser")
    launch = prepare(flat, rater="ada")
    launch.close()
    assert launch.links[0].role == "rater"


def test_all_raters_are_known_to_the_log_before_the_first_question(flat: Path) -> None:
    """Two raters are to answer: already the first is asked at the exact place; alone, a rater may choose."""
    with served(flat) as server:
        assert server.client().get("/api/query").json()["radius"] > 0
        for name in ("ada", "ben"):
            change(server, "add", name)
        assert server.client().get("/api/query").json()["radius"] == 0
    with Project.open(flat) as project:
        roles = {name: project.state.role(name) for name in project.state.raters}
    assert roles == {"organiser": "organiser", "ada": "rater", "ben": "rater"}


def test_links_outlive_a_restart_until_new_ones_are_asked_for(flat: Path) -> None:
    """A rater keeps their link; the launcher's stands in a private file; --new-links ends both."""

    def launched(**options: Any) -> tuple[dict[str, str], list[str]]:
        launch = prepare(flat, **options)
        launch.close()
        return {link.name: link.url for link in launch.links}, launch.kept

    first, _ = launched(raters=["ada"])
    second, kept = launched(raters=["ada", "ben"])
    assert kept == ["ada"]
    assert set(second) == {"organiser", "ben"}
    assert second["organiser"] == first["organiser"]
    with served(flat, "ada", new_links=True) as server:
        assert (
            server.stranger().get(first["ada"].replace(first["ada"].partition("/?")[0], server.base)).status_code == 401
        )
        assert server.client("ada").get("/api/project").json()["rater"] == "ada"


def test_the_launchers_link_ends_when_asked_or_readable_by_others(flat: Path) -> None:
    """--new-links makes another one; a file that others can read, or that is 30 days old, is not used any more."""

    def secret(**options: Any) -> str:
        launch = prepare(flat, **options)
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


def test_links_go_to_a_private_file_where_one_is_named(flat: Path, tmp_path: Path) -> None:
    """What a container prints is kept by others: then nothing that is printed holds a secret."""
    from warpgauge.web.server import announcement

    launch = prepare(flat, raters=["ada"], links_file=tmp_path / "links.txt")
    lines = announcement(launch)
    launch.close()
    assert not any("token=" in line for line in lines)
    assert (tmp_path / "links.txt").stat().st_mode & 0o077 == 0
    written = (tmp_path / "links.txt").read_text().splitlines()
    assert written == [f"{link.name} ({link.role}): {link.url}" for link in launch.links]


def test_a_server_for_other_machines_says_by_which_address(flat: Path) -> None:
    """Links, cookies and the check of the Host header need it; without one it is bound to this machine only."""
    with pytest.raises(InvalidInputError, match="--public-url"):
        prepare(flat, host="0.0.0.0")
    launch = prepare(flat)
    assert launch.socket.getsockname()[0] == "127.0.0.1"
    with pytest.raises(InvalidInputError, match="cannot be bound"):
        prepare(flat, port=launch.socket.getsockname()[1])
    launch.close()
    with served(flat, host="0.0.0.0", public_url="http://desk.example:8765") as server:
        local = server.stranger(base=f"http://127.0.0.1:{server.port}")
        path = server.links["launcher"].removeprefix("http://desk.example:8765")
        assert local.get(path, headers={"Host": "desk.example:8765"}).status_code == 303
        assert local.get(path, headers={"Host": "192.168.1.2:8765"}).status_code == 403


def test_tls(flat: Path, tmp_path: Path) -> None:
    """With a certificate the link is https, the cookie is secure, and answers are the same."""
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1])]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed, so no certificate can be made")
    files[0].write_text(files[0].read_text() + files[1].read_text())
    launch = prepare(flat, certfile=files[0])
    thread = Thread(target=launch.run)
    thread.start()
    try:
        with httpx.Client(verify=ssl.create_default_context(cafile=str(files[0])), follow_redirects=True) as client:
            reply = client.get(launch.links[0].url, timeout=60)
            assert "Secure" in reply.history[0].headers["set-cookie"]
            assert client.get(f"{reply.url}api/project").status_code == 200
    finally:
        launch.stop()
        thread.join()


def test_one_sign_in_and_only_ones_own_pairs(many: Served) -> None:
    """A rater signs in once, works in the pairs assigned to them, and learns nothing of the others."""
    organiser, ada = many.client(), many.client("ada")
    assert ada.get("/api/mine").json()["pairs"] == []
    assert assign(organiser, "ada", "p2", "p1").json() == {"changed": 2}
    mine = ada.get("/api/mine").json()
    assert [(row["name"], row["left"]) for row in mine["pairs"]] == [("p2", 3), ("p1", 3)]
    assert 'data-home="../../"' in ada.get("/pair/p1/").text
    assert place(ada, "p1").status_code == 200
    first = ada.get("/api/mine").json()["pairs"][1]
    assert (first["placed"], first["left"]) == (1, 2)
    # What is not assigned and what does not exist are the same to a rater.
    other, missing = ada.get("/pair/p10/api/project"), ada.get("/pair/nowhere/api/project")
    assert (other.status_code, other.json()) == (missing.status_code, missing.json()) == (404, other.json())
    assert ada.get("/pair/p10/").status_code == 404
    assert "p10" not in ada.get("/api/mine").text
    # A pair that is taken away is closed to them at once; what they did stays.
    assert assign(organiser, "ada", "p1", action="unassign").json() == {"changed": 1}
    assert place(organiser, "p1").status_code == 200
    assert ada.get("/pair/p1/api/query").status_code == 404
    with Project.open(many.folder / "p1") as project:
        assert project.state.who_answered() == ["ada", "organiser"]
    assert assign(organiser, "eve", "p1").status_code == 404
    assert assign(organiser, "ada", "nowhere").status_code == 404


def test_a_broken_project_takes_no_other_down(many: Served) -> None:
    """Damaged, half-deleted and mixed-up projects are named with their sentence; the others are served."""
    organiser = many.client()
    (many.folder / "p1" / "project.json").write_text('{"format": ' + "[" * 100_000)
    (many.folder / "p2" / "annotations.sqlite").write_bytes(b"no database" * 1000)
    next((many.folder / "p10").rglob("moving.png")).unlink()

    def rows() -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in organiser.get("/api/pairs").json()["pairs"]}

    wait_until(lambda: all(row["counted"] for row in rows().values()))
    problems = {name: row["problem"] for name, row in rows().items()}
    assert list(problems) == list(NAMES)
    assert problems["tissue/p1"] is None
    assert "project.json" in str(problems["p1"])
    assert problems["p2"]
    assert "moving image is not at" in str(problems["p10"])
    for name in ("p1", "p2", "p10"):
        assert organiser.get(f"/pair/{name}/api/project").status_code == 503
        assert "All pairs" in organiser.get(f"/pair/{name}/").text
        assert "<" not in organiser.get(f"/pair/{name}/api/project").json()["error"]
    assert place(organiser, rows()["tissue/p1"]["key"]).status_code == 200
    wait_until(lambda: "organiser" in rows()["tissue/p1"]["work"])


def test_open_projects_take_no_more_memory_than_they_may(many: Served) -> None:
    """The one that was used least recently makes room; its answers are kept, and it opens again."""
    projects = many.launch.site.projects
    organiser, pairs = many.client(), Catalogue(many.folder).pairs()
    one = projects.take(pairs["p1"])
    projects.give_back("p1")
    projects.most_bytes = 2 * one.nbytes
    for name in ("p1", "p2", "p10", "p1", "p10"):
        assert place(organiser, name).status_code == 200
    assert one.project is not projects.take(pairs["p1"]).project
    projects.give_back("p1")
    projects.most_bytes = 0
    held = projects.take(pairs["p10"])
    assert place(organiser, "p1").status_code == 200
    assert projects.take(pairs["p10"]) is held  # what somebody is using stays open
    with Project.open(many.folder / "p10") as project:
        assert len(project.state.answered("organiser")) == 2


def test_people_are_saved_all_or_none_and_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers share the file; a full disk changes nothing; a file that is lost or damaged is said."""
    file = tmp_path / "people.json"
    one, two = (People(PeopleFile(file), tmp_path) for _ in range(2))
    assert one.id == two.id
    secret = one.invite("ada")
    two.invite("ben")
    assert two.of_token(secret) is not None
    assert two.assign(["ada", "ben"], ["p1", "p2"]) == 4
    assert one.assign(["ada"], ["p1"], remove=True) == 1
    assert one.content.people["ada"].pairs == two.content.people["ada"].pairs == ("p2",)
    before = file.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="so nothing was changed"):
        one.assign(["ada", "ben"], ["p3"])
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert one.content.people["ben"].pairs == ("p1", "p2")
    file.write_text("[1]")
    with pytest.raises(ProjectError, match="not understood"):
        one.invite("cy")
    file.unlink()
    with pytest.raises(StorageError, match="deleted"):
        one.of_token(secret)
    assert not file.exists()


def test_a_place_without_projects(tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder and one that is not there are refused; keys of different names differ; a study serves too."""
    with pytest.raises(InvalidInputError, match="holds no project"):
        prepare(tmp_path)
    with pytest.raises(InvalidInputError, match="There is no folder"):
        Catalogue(tmp_path / "nowhere")
    for name in ("a b", "a-b", "a/b", "ü"):
        shutil.copytree(originals / "p1", tmp_path / "odd" / name)
    keys = list(Catalogue(tmp_path / "odd").pairs())
    assert len(keys) == 4
    assert all(key.isascii() and "/" not in key for key in keys)
    study = '[[pair]]\nname = "first"\nproject = "odd/ü"\n[[method]]\nname = "identity"\n'
    (tmp_path / "study.toml").write_text(study + 'transform = "identity"\n')
    with served(tmp_path / "study.toml", "ada") as server:
        assign(server.client(), "ada", "first")
        assert place(server.client("ada"), "first").status_code == 200
        # A study that is being edited does not take away what is served.
        (tmp_path / "study.toml").write_text("[[pair")
        monkeypatch.setattr("warpgauge.web.catalogue._LOOK_SECONDS", 0.0)
        assert place(server.client("ada"), "first").status_code == 200
    assert (tmp_path / "study.people.json").exists()
    assert "does not exist" in call("annotate", tmp_path / "nowhere", code=2)


def test_projects_in_one_database(tmp_path: Path, originals: Path, postgres: Postgres) -> None:
    """Projects whose logs are in one PostgreSQL database are served alike, and counted again where one has changed."""
    folder = tmp_path / "many"
    for name in ("p1", "p2"):
        shutil.copytree(originals / name, folder / name)
        call("copy", folder / name, postgres.url)
    with served(folder, "ada") as server:
        ada = server.client("ada")
        assign(server.client(), "ada", "p1", "p2")
        for name in ("p1", "p2", "p1"):
            assert place(ada, name).status_code == 200
        assert [row["placed"] for row in ada.get("/api/mine").json()["pairs"]] == [2, 1]


def test_people_of_a_project_in_a_database_stand_there(flat: Path, tmp_path: Path, postgres: Postgres) -> None:
    """Two hosts, each with its copy of the folder: a link made at one works at the other, until it is revoked."""
    with served(flat, "ada"):
        pass
    call("copy", flat, postgres.url)
    there = shutil.copytree(flat, tmp_path / "there" / flat.name)
    shutil.copytree(flat.parent / "pictures", tmp_path / "there" / "pictures")
    with served(flat, "ada") as server, served(there) as other:
        assert server.launch.kept == ["ada"]  # as the file of the folder says
        link = change(server, "add", "cy").json()["link"]
        client = other.stranger()
        wait_until(lambda: client.get(link.replace(server.base, other.base)).status_code == 303)
        query = client.get("/api/query").json()
        assert change(server, "revoke", "cy").status_code == 200
        wait_until(lambda: client.get("/api/project").status_code == 401)
        assert answer(client, query, query["location"]).status_code == 401
