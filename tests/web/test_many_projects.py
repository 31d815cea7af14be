"""One server for many projects: sign-in, who enters what, assignment, broken projects, bounded memory, the archive."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from command_tools import call
from postgres_tools import Postgres
from warpgauge.errors import InvalidInputError
from warpgauge.project import NotAllowedError, Project, ProjectError, StorageError
from warpgauge.project.events import SkipStart
from warpgauge.web import prepare_site, shelf, summaries
from warpgauge.web.catalogue import Catalogue
from warpgauge.web.roster import Roster, shared_out
from web.server_tools import Served, lattice, served, wait_until, write_pictures

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


def assign(organiser: httpx.Client, rater: str, *pairs: str, action: str = "assign") -> httpx.Response:
    return organiser.post("/api/assign", json={"action": action, "raters": [rater], "pairs": list(pairs)})


def place(client: httpx.Client, pair: str) -> httpx.Response:
    query = client.get(f"/pair/{pair}/api/query").json()
    body = {"point": query["location"], "covariance": [[4.0, 0.0], [0.0, 4.0]], "alpha": 0.01, "confirmed": True}
    body["generation"] = query["generation"]
    return client.post(f"/pair/{pair}/api/query/{query['query']}/place", json=body)


def key_of(organiser: httpx.Client, name: str) -> str:
    return next(row["key"] for row in organiser.get("/api/pairs").json()["pairs"] if row["name"] == name)


def test_one_sign_in_and_only_ones_own_pairs(many: Served) -> None:
    """A rater signs in once, works in the pairs assigned to them, and learns nothing of the others."""
    organiser, ada = many.client(), many.client("ada")
    assert ada.get("/api/mine").json()["pairs"] == []
    assert assign(organiser, "ada", "p2", "p1").json() == {"changed": 2}
    mine = ada.get("/api/mine").json()
    assert [(row["name"], row["left"]) for row in mine["pairs"]] == [("p2", 3), ("p1", 3)]
    assert ada.get("/pair/p1/").status_code == 200
    assert 'data-root="/pair/p1" data-home="/"' in ada.get("/pair/p1/").text
    assert place(ada, "p1").status_code == 200
    first = ada.get("/api/mine").json()["pairs"][1]
    assert (first["placed"], first["left"]) == (1, 2)
    # What is not assigned and what does not exist are the same to a rater.
    other, missing = ada.get("/pair/p10/api/project"), ada.get("/pair/nowhere/api/project")
    assert (other.status_code, other.json()) == (missing.status_code, missing.json()) == (404, other.json())
    assert ada.get("/pair/p10/").status_code == 404
    assert "p10" not in ada.get("/api/mine").text
    for address in ("/api/pairs", "/api/export"):
        assert ada.get(address).status_code == 403
    assert assign(ada, "ada", "p10").status_code == 403
    assert ada.post("/api/share-out", json={"raters": ["ada"], "overlap": 0.0}).status_code == 403
    assert ada.post("/api/people", json={"action": "add", "name": "eve"}).status_code == 403
    assert ada.get("/pair/p1/api/raters").status_code == 403
    # A pair that is taken away is closed to them at once; what they did stays.
    assert assign(organiser, "ada", "p1", action="unassign").json() == {"changed": 1}
    assert place(organiser, "p1").status_code == 200
    assert ada.get("/pair/p1/api/query").status_code == 404
    with Project.open(many.folder / "p1") as project:
        assert project.state.who_answered() == ["ada", "organiser"]
        assert {name: one.role for name, one in project.state.raters.items()} == {
            "organiser": "organiser",
            "ada": "rater",
        }
    assert many.stranger().get("/api/mine").status_code == 401


def test_tokens_and_cookies_of_a_pair_are_not_those_of_the_folder(many: Served) -> None:
    """A link of a single project, or of another folder, opens nothing here; a revoked rater is out everywhere."""
    organiser, ada = many.client(), many.client("ada")
    assign(organiser, "ada", "p1")
    stranger = many.stranger()
    assert stranger.get("/pair/p1/?token=" + "x" * 40).status_code == 401
    token = many.links["ada"].partition("token=")[2]
    assert stranger.get(f"/pair/p1/?token={token}").status_code == 401  # one signs in at one address only
    refused = organiser.post("/pair/p1/api/raters", json={"action": "add", "name": "eve"})
    assert (refused.status_code, "page of all pairs" in refused.json()["error"]) == (422, True)
    assert organiser.post("/api/people", json={"action": "revoke", "name": "ada"}).status_code == 200
    assert ada.get("/pair/p1/api/query").status_code == 401
    assert organiser.post("/api/people", json={"action": "revoke", "name": "organiser"}).status_code == 422
    link = organiser.post("/api/people", json={"action": "add", "name": "cy"}).json()["link"]
    fresh = many.stranger()
    assert fresh.get(link).status_code == 303
    assert fresh.get("/api/mine").json()["rater"] == "cy"
    text = (many.folder / "people.jsonl").read_text()
    assert token not in text
    assert link.partition("token=")[2] not in text


def test_a_broken_project_takes_no_other_down(many: Served) -> None:
    """Damaged, half-deleted and mixed-up projects are named with their sentence; the others are served."""
    organiser = many.client()
    (many.folder / "p1" / "project.json").write_text('{"format": ' + "[" * 100_000)
    (many.folder / "p2" / "annotations.sqlite").write_bytes(b"no database" * 1000)
    next((many.folder / "p10").rglob("moving.png")).unlink()
    nested = key_of(organiser, "tissue/p1")

    def rows() -> dict[str, dict[str, object]]:
        return {row["name"]: row for row in organiser.get("/api/pairs").json()["pairs"]}

    wait_until(lambda: all(row["counted"] for row in rows().values()))
    problems = {name: row["problem"] for name, row in rows().items()}
    assert problems["tissue/p1"] is None
    assert "project.json" in str(problems["p1"])
    assert problems["p2"]
    assert "moving image is not at" in str(problems["p10"])
    for name in ("p1", "p2", "p10"):
        assert organiser.get(f"/pair/{name}/api/project").status_code == 503
        assert "All pairs" in organiser.get(f"/pair/{name}/").text
        assert "<" not in organiser.get(f"/pair/{name}/api/project").json()["error"]
    assert place(organiser, nested).status_code == 200
    names = zipfile.ZipFile(io.BytesIO(organiser.get("/api/export").content))
    assert f"{nested}/marks.csv" in names.namelist()
    assert names.read("problems.csv").decode().count("\n") == 3


def test_few_are_open_at_a_time(tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two, the one used least recently is closed; its answers are kept and it opens again."""
    monkeypatch.setattr(shelf, "AT_WORK_SECONDS", 0.0)
    with served(shutil.copytree(originals, tmp_path / "many"), most_open=2) as server:
        organiser, places = server.client(), server.launch.app.state.site.shelf
        for name in ("p1", "p2", "p10", "p1", "p10"):
            assert place(organiser, name).status_code == 200
            assert len(places.open_keys) <= 2
            assert places.open_keys[-1] == name
        assert {row["name"]: row for row in organiser.get("/api/pairs").json()["pairs"]}.keys() == set(NAMES)
    with Project.open(tmp_path / "many" / "p10") as project:
        assert len(project.state.answered("organiser")) == 2


def test_a_project_that_somebody_works_in_stays_open(
    tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for one, three that were used within a minute stay open; there is an end to that, too."""
    with served(shutil.copytree(originals, tmp_path / "many"), most_open=1) as server:
        organiser, places = server.client(), server.launch.app.state.site.shelf
        for name in ("p1", "p2", "p10"):
            assert place(organiser, name).status_code == 200
        assert places.open_keys == ["p1", "p2", "p10"]
        monkeypatch.setattr(shelf, "MOST_AT_WORK", 2)
        assert place(organiser, "p2").status_code == 200
        assert places.open_keys == ["p10", "p2"]


def test_images_are_read_for_whoever_opens_the_page(tmp_path: Path, originals: Path) -> None:
    """Who goes on answering, as after another server's end, does not wait for pictures that nobody asks for."""
    with served(shutil.copytree(originals, tmp_path / "many")) as server:
        organiser, places = server.client(), server.launch.app.state.site.shelf
        assert place(organiser, "p1").status_code == 200
        with places.use(server.launch.app.state.site.catalogue.pairs()["p1"]) as desk:
            assert all("_window" not in vars(picture) for picture in desk.pictures.values())
            assert organiser.get("/pair/p1/").status_code == 200
            wait_until(lambda: all("_window" in vars(picture) for picture in desk.pictures.values()))


def test_the_archive_and_disagreement(many: Served) -> None:
    """The organiser gets all marks at once, and sees how far raters are apart."""
    organiser = many.client()
    for name in ("ada", "ben"):
        assign(organiser, name, "p1")
        client = many.client(name)
        for _ in range(2):
            assert place(client, "p1").status_code == 200
    wait_until(lambda: organiser.get("/api/pairs").json()["pairs"][0]["work"].keys() == {"ada", "ben"})
    row = organiser.get("/api/pairs").json()["pairs"][0]
    assert row["name"] == "p1"
    assert row["work"]["ada"]["placed"] == 2
    packed = zipfile.ZipFile(io.BytesIO(organiser.get("/api/export").content))
    with Project.open(many.folder / "p1") as project:
        sealed = len(project.state.sealed_locations())
        everybody = len({number for _, number in project.state.cells})
    marks = packed.read("p1/marks.csv").decode()
    assert everybody > 0
    assert marks.count("ada") + marks.count("ben") == 4 - 2 * sealed
    assert "p1," in packed.read("pairs.csv").decode()


def test_sharing_out() -> None:
    """Everybody gets as many as the others, to one; the share of pairs with two raters is as asked."""
    pairs, raters = [f"p{n}" for n in range(100)], ["a", "b", "c"]
    given = shared_out(pairs, raters, {}, {}, 0.2)
    assert sorted(map(len, given.values())) == [40, 40, 40]
    twice = [pair for pair in pairs if sum(pair in own for own in given.values()) == 2]
    assert len(twice) == 20
    assert all(sum(pair in own for own in given.values()) >= 1 for pair in pairs)
    # Again, nothing is left to do; a newcomer gets new pairs only.
    taken = {pair: [name for name in raters if pair in given[name]] for pair in pairs}
    again = shared_out(pairs, raters, {name: len(own) for name, own in given.items()}, taken, 0.2)
    assert again == {"a": [], "b": [], "c": []}
    more = shared_out([*pairs, "new"], [*raters, "d"], dict.fromkeys(raters, 40), taken, 0.2)
    assert more == {"a": [], "b": [], "c": [], "d": ["new"]}


def test_sharing_out_by_http(many: Served) -> None:
    """The organiser shares all pairs out, half of them to two raters."""
    organiser = many.client()
    reply = organiser.post("/api/share-out", json={"raters": ["ada", "ben"], "overlap": 0.5})
    assert reply.json() == {"changed": 6}
    rows = organiser.get("/api/pairs").json()
    assert sorted(len(row["raters"]) for row in rows["pairs"]) == [1, 1, 2, 2]
    assert [row["name"] for row in rows["pairs"]] == ["p1", "p2", "p10", "tissue/p1"]
    assert {one["name"]: one["pairs"] for one in rows["raters"]} == {"organiser": 0, "ada": 3, "ben": 3}
    assert assign(organiser, "eve", "p1").status_code == 404
    assert assign(organiser, "ada", "nowhere").status_code == 404


def test_the_roster_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    """Two servers share the file; a torn line is dropped; a shorter file is refused; a rater cannot write."""
    one, two = Roster(tmp_path / "people.jsonl"), Roster(tmp_path / "people.jsonl")
    assert one.id == two.id
    one.add_rater("ada")
    two.assign({"ada": ["p1", "p2"]}, {}, by="organiser")
    assert one.pairs_of("ada") == ["p1", "p2"]
    with pytest.raises(NotAllowedError, match="may not assign"):
        one.assign({"ada": ["p3"]}, {}, by="ada")
    with pytest.raises(NotAllowedError):
        one.add_rater("eve", "organiser", by="ada")
    with pytest.raises(InvalidInputError, match="look alike"):
        one.add_rater("adа")  # a Cyrillic letter
    with (tmp_path / "people.jsonl").open("ab") as stream:
        stream.write(b'{"kind": "assign", "by": "organiser", "rater": "ada", "pairs": ["p4"]')
    assert two.pairs_of("ada") == ["p1", "p2"]
    two.assign({}, {"ada": ["p1"]}, by="organiser")
    assert Roster(tmp_path / "people.jsonl").pairs_of("ada") == one.pairs_of("ada") == ["p2"]
    lines = (tmp_path / "people.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["folder", "rater", "rater", "assign", "unassign"]
    (tmp_path / "people.jsonl").write_text("\n".join(lines[:2]) + "\n")
    with pytest.raises(StorageError, match="acknowledged"):
        one.pairs_of("ada")
    (tmp_path / "people.jsonl").write_text("[1]\n")
    with pytest.raises(ProjectError, match="cannot be understood"):
        Roster(tmp_path / "people.jsonl")


def test_assignments_are_saved_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk is full in the middle of several lines none of them counts, now or after a restart."""
    roster = Roster(tmp_path / "people.jsonl")
    for name in ("ada", "ben"):
        roster.add_rater(name)
    before, write = (tmp_path / "people.jsonl").read_bytes(), os.write
    monkeypatch.setattr("os.write", lambda handle, data: write(handle, data[: len(data) - 20]))
    with pytest.raises(StorageError, match=r"disk is full.*so nothing was changed"):
        roster.assign({"ada": ["p1"], "ben": ["p2"]}, {}, by="organiser")
    monkeypatch.undo()
    assert (tmp_path / "people.jsonl").read_bytes() == before
    assert roster.pairs_of("ada") == roster.pairs_of("ben") == []
    roster.assign({"ada": ["p1"], "ben": ["p2"]}, {}, by="organiser")
    assert Roster(tmp_path / "people.jsonl").assigned() == {"p1": ["ada"], "p2": ["ben"]}


def test_a_place_without_projects(tmp_path: Path, originals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder and one that is not there are refused; keys of different names differ; a study serves too."""
    with pytest.raises(InvalidInputError, match="holds no project"):
        prepare_site(tmp_path)
    with pytest.raises(InvalidInputError, match="There is no folder"):
        Catalogue(tmp_path / "nowhere")
    for name in ("a b", "a-b", "a/b", "ü"):
        shutil.copytree(originals / "p1", tmp_path / "odd" / name)
    keys = list(Catalogue(tmp_path / "odd").pairs())
    assert len(keys) == 4
    assert all(key.isascii() and "/" not in key for key in keys)
    study = '[[pair]]\nname = "first"\nproject = "odd/ü"\n[[method]]\nname = "identity"\n'
    (tmp_path / "study.toml").write_text(study + 'transform = "identity"\n')
    catalogue = Catalogue(tmp_path / "study.toml")
    assert list(catalogue.pairs()) == ["first"]
    # A study that is being edited does not take away what is served.
    (tmp_path / "study.toml").write_text("[[pair")
    monkeypatch.setattr("warpgauge.web.catalogue._LOOK_SECONDS", 0.0)
    assert list(catalogue.pairs()) == ["first"]
    assert "does not exist" in call("annotate", tmp_path / "nowhere", code=2)


def test_the_next_pair_is_opened_beside_the_page(many: Served) -> None:
    """The first pair with something left, where there is room; nothing is opened for who has nothing to do."""
    organiser, ada = many.client(), many.client("ada")
    assert many.client("ben").get("/api/mine").json()["pairs"] == []
    assign(organiser, "ada", "p2", "p1")
    assert organiser.get("/api/pairs").json()["open"] == 0
    ada.get("/api/mine")
    wait_until(lambda: organiser.get("/api/pairs").json()["open"] == 1)
    for _ in range(3):
        assert place(ada, "p2").status_code == 200
    ada.get("/api/mine")
    wait_until(lambda: organiser.get("/api/pairs").json()["open"] == 2)


def test_projects_in_one_database(
    tmp_path: Path, originals: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Projects whose logs are in one PostgreSQL database are served alike, and counted again where one has changed."""
    folder = tmp_path / "many"
    for name in ("p1", "p2"):
        shutil.copytree(originals / name, folder / name)
        call("copy", folder / name, postgres.url)
    with served(folder, "ada", most_open=1) as server:
        organiser, ada = server.client(), server.client("ada")
        assign(organiser, "ada", "p1", "p2")
        for name in ("p1", "p2", "p1"):
            assert place(ada, name).status_code == 200
        assert [row["placed"] for row in ada.get("/api/mine").json()["pairs"]] == [2, 1]
        counted: list[str] = []
        monkeypatch.setattr(summaries, "summary_of", lambda project, **options: counted.append(project.folder.name))
        assert [row["placed"] for row in ada.get("/api/mine").json()["pairs"]] == [2, 1]
        assert counted == []  # nothing has changed
        with Project.open(folder / "p2") as project:  # as another server does
            project.append(SkipStart(rater="ada"))
        ada.get("/api/mine")
        assert counted == ["p2"]


def test_certificates_over_all_pairs(tmp_path: Path) -> None:
    """What the audit of a pair shows stands in the table, and its certificate in the archive."""
    fixed, moving = write_pictures(tmp_path / "pictures", (120, 110))
    points = lattice((10, 10), (110, 100), (6, 5))
    settings = {"guided_start": False, "audit": 0.5}
    aim = tmp_path / "many" / "lung"
    Project.create(aim, fixed=fixed, moving=moving, candidates=points, targets=points, settings=settings).close()
    for name, offset in (("right", 0), ("wrong", 30)):
        head = "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_2_2\n"
        (tmp_path / f"{name}.txt").write_text(f"{head}Parameters: 1 0 0 1 {offset} 0\nFixedParameters: 0 0\n")
        call("add-transform", aim, name, tmp_path / f"{name}.txt")
    with served(tmp_path / "many", "ada") as server:
        organiser, ada = server.client(), server.client("ada")
        assign(organiser, "ada", "lung")
        for _ in range(12):
            assert place(ada, "lung").status_code == 200
        assert "certificate" not in ada.get("/api/mine").text
        wait_until(lambda: organiser.get("/api/pairs").json()["pairs"][0]["certified"])
        assert "right is the best of right and" in organiser.get("/api/pairs").json()["pairs"][0]["certificate"]
        packed = zipfile.ZipFile(io.BytesIO(organiser.get("/api/export").content))
        assert json.loads(packed.read("lung/certificate.json"))["signed_off_by"] == "organiser"
