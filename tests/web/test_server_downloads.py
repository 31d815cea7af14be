"""Files that people take away from the page: who gets which, and that nothing is in them that is sealed."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import httpx
import numpy as np
import pytest

from warpgauge.io.landmarks import read_landmarks
from warpgauge.project import Project
from web.server_tools import Served, answer, make_flat, make_solid, served


def work(server: Served, who: str, count: int) -> list[list[float]]:
    """Answer some questions and give the points that were placed."""
    client, placed = server.client(who), []
    query = client.get("/api/query").json()
    for k in range(count):
        placed.append([value + 1 + k / 8 for value in query["location"]])
        query = answer(client, query, placed[-1], confirmed=True).json()["next"]
    return placed


def landmarks_in(reply: httpx.Response, folder: Path) -> np.ndarray:
    """Read a downloaded file by its own name, as another program would get it."""
    assert reply.status_code == 200, reply.text
    name = reply.headers["content-disposition"].partition('filename="')[2].rstrip('"')
    (folder / name).write_bytes(reply.content)
    moving = read_landmarks(folder / name, units="px").moving_points
    assert moving is not None
    return moving


@pytest.mark.parametrize("kind", ["csv", "bigwarp"])
def test_a_rater_takes_their_own_marks_and_an_organiser_all(flat: Path, tmp_path: Path, kind: str) -> None:
    with served(flat, "ada,ben") as server:
        own = {who: work(server, who, 3) for who in ("ada", "ben")}
        for who, placed in own.items():
            reply = server.client(who).get("/api/download/marks/mine", params={"format": kind})
            np.testing.assert_allclose(landmarks_in(reply, tmp_path), placed, rtol=1e-9)
            for whose in ("all", "fused"):
                assert server.client(who).get(f"/api/download/marks/{whose}").status_code == 403
            assert server.client(who).get("/api/download/report").status_code == 403
        organiser = server.client()
        found = landmarks_in(organiser.get("/api/download/marks/all", params={"format": kind}), tmp_path)
        np.testing.assert_allclose(sorted(found.tolist()), sorted([*own["ada"], *own["ben"]]), rtol=1e-9)
        assert len(landmarks_in(organiser.get("/api/download/marks/fused", params={"format": kind}), tmp_path)) == 3
        refused = organiser.get("/api/download/marks/mine")  # nothing placed: a sentence, not an empty file
        assert (refused.status_code, "no landmarks" in refused.json()["error"]) == (422, True)


def test_sealed_answers_are_in_no_file_and_no_file_tells_which_they_are(flat: Path, tmp_path: Path) -> None:
    """The organiser's files lack them; a rater's own file, which would show by its gaps what was sealed, is refused."""
    with Project.open(flat) as project:
        project.change_settings(audit=0.5, seal=True, audit_seed=2, guided_start=False)
    with served(flat, "ada") as server:
        # From the beginning, so that the moment of the first refusal tells nothing either.
        assert server.client("ada").get("/api/download/marks/mine").status_code == 403
        placed = work(server, "ada", 10)
        with Project.open(flat) as project:
            sealed = [k for k, query in enumerate(project.state.queries[:10]) if project.state.is_sealed(query.number)]
        assert 2 <= len(sealed) <= 8
        refused = server.client("ada").get("/api/download/marks/mine")
        assert (refused.status_code, "sealed" in refused.json()["error"]) == (403, True)
        for whose in ("all", "fused"):
            found = landmarks_in(server.client().get(f"/api/download/marks/{whose}"), tmp_path)
            assert len(found) == 10 - len(sealed)
            for k in sealed:
                assert np.abs(found - placed[k]).max(axis=1).min() > 1e-3


def test_a_format_with_one_file_per_image_comes_as_an_archive(tmp_path: Path) -> None:
    with served(make_solid(tmp_path / "solid"), "ada") as server:
        work(server, "ada", 2)
        reply = server.client("ada").get("/api/download/marks/mine", params={"format": "slicer-json"})
        assert reply.status_code == 200, reply.text
        names = zipfile.ZipFile(io.BytesIO(reply.content)).namelist()
    assert names == ["solid-ada-fixed.mrk.json", "solid-ada-moving.mrk.json"]


@pytest.mark.parametrize("name", ['ev"il; filename=x.html', "a\r\nSet-Cookie: a=b", "\u202egpj.exe", "é" * 90])
def test_hostile_names_do_not_reach_a_header(tmp_path: Path, name: str) -> None:
    """Names of projects and raters give one plain name of a file, which browsers save and never show."""
    folder = tmp_path / name
    with served(make_flat(folder), "ada") as server:
        rater = server.client("ada")
        query = rater.get("/api/query").json()
        answer(rater, query, query["location"], confirmed=True)
        with Project.open(folder) as project:
            project.change_settings(seal=False)
        reply = server.client().get("/api/download/marks/all")
        assert reply.status_code == 200, reply.text
        header = reply.headers["content-disposition"]
        assert re.fullmatch(r'attachment; filename="[A-Za-z0-9_-][A-Za-z0-9._-]{0,120}\.csv"', header), header
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["content-type"] == "application/octet-stream"
        assert "default-src" in reply.headers["content-security-policy"]
        assert reply.headers.get_list("set-cookie") == []
