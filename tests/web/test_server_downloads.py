"""Files that people take away from the page: who gets which, and that nothing is in them that is sealed."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np

from warpgauge.io.landmarks import read_landmarks
from warpgauge.project import Project
from web.server_tools import Served, answer, served


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


def test_a_rater_takes_their_own_marks_and_an_organiser_all(flat: Path, tmp_path: Path) -> None:
    with served(flat, "ada,ben") as server:
        own = {who: work(server, who, 3) for who in ("ada", "ben")}
        for who, placed in own.items():
            np.testing.assert_allclose(landmarks_in(server.client(who).get("/api/marks/mine"), tmp_path), placed)
            for whose in ("all", "fused"):
                assert server.client(who).get(f"/api/marks/{whose}").status_code == 403
        organiser = server.client()
        found = landmarks_in(organiser.get("/api/marks/all"), tmp_path)
        np.testing.assert_allclose(sorted(found.tolist()), sorted([*own["ada"], *own["ben"]]))
        assert len(landmarks_in(organiser.get("/api/marks/fused"), tmp_path)) == 3
        refused = organiser.get("/api/marks/mine")  # nothing placed: a sentence, not an empty file
        assert (refused.status_code, "no landmarks" in refused.json()["error"]) == (422, True)


def test_sealed_answers_are_in_no_file_and_no_file_tells_which_they_are(flat: Path, tmp_path: Path) -> None:
    """The organiser's files lack them; a rater's own file, which would show by its gaps what was sealed, is refused."""
    with Project.open(flat) as project:
        project.change_settings(audit=0.5, audit_seed=2, guided_start=False)
    with served(flat, "ada") as server:
        # From the beginning, so that the moment of the first refusal tells nothing either.
        assert server.client("ada").get("/api/marks/mine").status_code == 403
        placed = work(server, "ada", 10)
        with Project.open(flat) as project:
            sealed = [k for k, query in enumerate(project.state.queries[:10]) if project.state.is_sealed(query.number)]
        assert 2 <= len(sealed) <= 8
        refused = server.client("ada").get("/api/marks/mine")
        assert (refused.status_code, "sealed" in refused.json()["error"]) == (403, True)
        for whose in ("all", "fused"):
            found = landmarks_in(server.client().get(f"/api/marks/{whose}"), tmp_path)
            assert len(found) == 10 - len(sealed)
            for k in sealed:
                assert np.abs(found - placed[k]).max(axis=1).min() > 1e-3
