"""Named landmarks of a protocol: asked by name, in its order, of every rater; bad files are refused at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import warpgauge as wg
from command_tools import ask
from warpgauge.cli.app import run

POINTS = {"AC": (120.0, 90.0), "PC": (60.5, 40.25), "fourth ventricle": (30.0, 110.0)}


@pytest.fixture
def images(tmp_path: Path) -> list[str]:
    pixels = np.random.default_rng(0).integers(0, 255, (40, 50), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
    for side in ("fixed", "moving"):
        Image.fromarray(pixels).save(tmp_path / f"{side}.png")
    return ["--fixed", str(tmp_path / "fixed.png"), "--moving", str(tmp_path / "moving.png")]


def protocol(folder: Path, points: dict[str, tuple[float, float]]) -> Path:
    file = folder / "protocol.csv"
    file.write_text("\n".join(["x,y,name", *(f"{x},{y},{name}" for name, (x, y) in points.items())]) + "\n")
    return file


def test_named_points_come_first_in_their_order_for_every_rater(tmp_path: Path, images: list[str]) -> None:
    facts = ask("new", tmp_path / "p", *images, "--named", protocol(tmp_path, POINTS), "--set", "guided-start=false")
    assert facts["named landmarks"] == 3
    with wg.Project.open(tmp_path / "p") as project:
        assert project.settings.budget == 3
        session = wg.Session(project)
        for rater in ("ann", "bob"):
            for name, point in POINTS.items():
                query = session.next_query(rater)
                assert query is not None
                assert query.point == point
                assert project.state.queries[query.number].name == name
                session.place(query, query.point, rater=rater)
            assert session.next_query(rater) is None, "these and no others"
        assert session.landmarks("ann").names == tuple(POINTS)


@pytest.mark.filterwarnings("ignore::warpgauge.errors.SuspiciousDataWarning")  # the reader says it in its own way
@pytest.mark.parametrize(
    ("points", "words"),
    [
        ({"AC": (120.0, 90.0), "PC": (900.0, 40.0)}, "outside the fixed image"),
        ({"AC": (120.0, 90.0), " ": (60.0, 40.0)}, "needs a name of its own"),
    ],
)
def test_bad_files_are_refused_before_anything_is_made(
    tmp_path: Path, images: list[str], capsys: pytest.CaptureFixture[str], points: dict[str, tuple[float, float]],
    words: str,
) -> None:  # fmt: skip
    assert run(["new", str(tmp_path / "p"), *images, "--named", str(protocol(tmp_path, points))]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_pairs_are_not_named_points(tmp_path: Path, images: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("fixed_x,fixed_y,moving_x,moving_y,name\n1,2,3,4,AC\n")
    assert run(["new", str(tmp_path / "p"), *images, "--named", str(pairs)]) == 1
    assert "holds pairs" in capsys.readouterr().err
