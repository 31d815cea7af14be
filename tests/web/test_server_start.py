"""Foregrounds, proposed alignments and the live warped image, through the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from warpgauge.project import Project
from warpgauge.web.sharpness import half_width
from web.server_tools import Served, served


def make_patch(folder: Path, **settings: Any) -> Path:
    """Make a project whose images show a textured disc on white, the moving one shifted by (6, -4) pixels."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    texture = ndimage.gaussian_filter(rng.normal(size=(240, 300)), 3) * 900 + 120
    rows, columns = np.indices(texture.shape)
    inside = np.hypot(columns - 150, rows - 120) < 80
    fixed = np.where(inside, texture, 245).clip(0, 255).astype(np.uint8)
    moving = np.roll(fixed, (-4, 6), axis=(0, 1))
    for name, values in (("fixed", fixed), ("moving", moving)):
        Image.fromarray(np.repeat(values[..., None], 3, axis=-1)).save(folder.parent / f"{name}.png")
    project = Project.create(folder, fixed=folder.parent / "fixed.png", moving=folder.parent / "moving.png",
                             settings={"guided_start": False, **settings})  # fmt: skip
    project.close()
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    folder = make_patch(tmp_path / "patch", blind=False)
    with served(folder, "ada") as running:
        yield running


def plane(answer: Any) -> np.ndarray:
    shape = [int(answer.headers[name]) for name in ("X-Height", "X-Width", "X-Channels")]
    return np.frombuffer(answer.content[: int(np.prod(shape))], dtype=np.uint8).reshape(shape)


def test_the_foreground_is_the_disc(server: Served) -> None:
    """The mask that the page dims by has the disc inside and the white corners outside."""
    found = server.client("ada").get("/api/foreground/fixed")
    assert found.status_code == 200, found.text
    mask, frame = plane(found)[..., 0], json.loads(found.headers["X-Frame"])
    step = frame["column"][0]
    assert mask[round((120 - frame["origin"][1]) / step), round((150 - frame["origin"][0]) / step)] == 1
    assert not mask[:10, :10].any()
    assert mask.mean() == pytest.approx(np.pi * 80**2 / (240 * 300), abs=0.08)


def test_a_part_of_the_warped_image_follows_a_mark_that_is_not_stored(server: Served) -> None:
    """Without a mark the identity is shown; with one that shifts by (6, -4), what lies there; nothing is written."""
    client = server.client("ada")
    generation = client.get("/api/project").json()["generation"]
    moving = np.asarray(Image.open(server.folder.parent / "moving.png"))
    part = "100,80,64,48"
    plain = plane(client.get("/api/warped", params={"part": part}))
    np.testing.assert_array_equal(plain, moving[80:128, 100:164])
    mark = "130,100;136,96;0.01,0,0,0.01"
    shifted = plane(client.get("/api/warped", params={"part": part, "mark": mark}))
    near = shifted[12:28, 22:38].astype(int) - moving[80 - 4 + 12 : 80 - 4 + 28, 100 + 6 + 22 : 100 + 6 + 38]
    assert np.median(np.abs(near)) <= 6, "the model says nearly the same around the mark"
    assert client.get("/api/project").json()["generation"] == generation
    for bad in ("1,2,3", "0,0,0,5", "290,0,20,5", "a,b,c,d"):
        assert client.get("/api/warped", params={"part": bad}).status_code in (400, 422)
    for bad in ("1,2;3,4", "1,2;3,4;1,0,0,-1", "nan,2;3,4;1,0,0,1"):
        assert client.get("/api/warped", params={"mark": bad}).status_code in (400, 422)


def test_a_proposed_alignment_is_asked_about_once_and_used_when_accepted(tmp_path: Path) -> None:
    """It is shown warped before the yes; afterwards predictions begin with it and nobody is asked again."""
    folder = make_patch(tmp_path / "patch", blind=False)
    with Project.open(folder) as project:
        found = project.propose_alignment()
        middle = np.asarray(found.map(np.array([[150.0, 120.0]])))[0]
    with served(folder, "ada") as server:
        client = server.client("ada")
        offered = client.get("/api/alignment").json()
        assert (offered["status"], offered["asks"]) == ("proposed", True)
        assert client.get("/api/alignment/warped", params={"part": "100,80,64,48"}).status_code == 200
        body = {"accepted": True, "generation": client.get("/api/project").json()["generation"]}
        assert client.post("/api/alignment", json=body).status_code == 200
        assert client.get("/api/alignment").json() == {**offered, "status": "accepted", "asks": False}
        assert client.post("/api/alignment", json=body).status_code == 403
        linked = client.get("/api/linked", params={"from": "fixed", "points": "150,120"}).json()["points"][0]
        np.testing.assert_allclose(linked, middle, atol=1e-6)


def test_sharpness_is_the_width_of_what_changes() -> None:
    """Noise blurred by s has an autocorrelation of width 2 s sqrt(log 2) at one half."""
    noise = np.random.default_rng(0).normal(size=(64, 64))
    for s in (1.0, 2.0):
        assert half_width(ndimage.gaussian_filter(noise, s)) == pytest.approx(2 * s * np.sqrt(np.log(2)), rel=0.1)
