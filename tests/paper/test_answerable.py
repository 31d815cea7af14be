"""The study of questions that have an answer: its truths, its judges, its loop and its sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import warpgauge as wg
from paper import annotation_studies
from paper.answerable_pairs import SIMULATED, otsu, simulated_pair, spline, visible_tissue
from paper.experiment import Run


def write_stain(data: Path) -> None:
    """A picture in the place of the stain that simulated pairs are cut from: a lattice of dots on glass."""
    folder = data / "cima" / "lung-lesion_1"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(2)
    picture = np.full((1300, 1500), 245.0)
    for y in range(20, 1300, 40):
        for x in range(20, 1500, 40):
            dy, dx = rng.integers(-8, 9, 2)
            picture[y + dy - 9 : y + dy + 9, x + dx - 9 : x + dx + 9] = rng.uniform(60, 160)
    Image.fromarray(np.repeat(picture[..., None], 3, -1).astype(np.uint8)).save(folder / "29-He-les1.jpg", quality=95)
    (folder / "29-He-les1.csv").write_text(",X,Y\n0,1,1\n")


@pytest.mark.parametrize("condition", ["overlap-60-turned-30", "turned-180"])
def test_simulated_pairs_show_the_same_where_the_truth_says(condition: str, tmp_path: Path) -> None:
    """Grey values at points and at their true matches agree, and the overlap is what the name says."""
    write_stain(tmp_path)
    pair = simulated_pair(tmp_path, condition, 1, tmp_path / "made")
    grid = wg.read_image(pair.fixed).grid
    lattice = grid.coarsened(13).points()
    mapped = pair.truth(lattice)
    inside = pair.answers(lattice, mapped)
    expected = {"overlap-60-turned-30": 0.57, "turned-180": 1.0}[condition]  # turning leaves some of the 60 % out
    assert inside.mean() == pytest.approx(expected, abs=0.03)
    one, other = (wg.read_image(path).read()[..., 0].astype(float) for path in (pair.fixed, pair.moving))
    index, match = (np.round(points[inside]).astype(int) for points in (lattice, mapped))
    match = np.clip(match, 0, 799)
    seen = np.corrcoef(one[index[:, 1], index[:, 0]], other[match[:, 1], match[:, 0]])[0, 1]
    assert seen > 0.9
    assert set(SIMULATED) >= {condition}


def test_the_truth_of_a_real_pair_passes_through_its_landmarks() -> None:
    rng = np.random.default_rng(0)
    for d in (2, 3):
        points, matches = rng.uniform(0, 100, (2, 20, d))
        assert spline(points, matches)(points) == pytest.approx(matches, abs=1e-6)


def test_tissue_is_what_is_darker_than_glass_within_reach(tmp_path: Path) -> None:
    """A dark square on glass is tissue, and so is its nearest surrounding; the far corner is not."""
    picture = np.full((200, 300), 240, np.uint8)
    picture[80:120, 100:160] = 90
    Image.fromarray(picture).save(tmp_path / "p.png")
    tissue = visible_tissue(wg.read_image(tmp_path / "p.png"))
    points = np.array([[130.0, 100.0], [98.0, 100.0], [20.0, 20.0], [-5.0, 100.0]])
    assert tissue(points).tolist() == [True, True, False, False]
    assert 90 <= otsu(picture) < 240


def test_the_loop_asks_answers_and_measures(tmp_path: Path) -> None:
    """Of 6 questions on a pair that is the same picture twice all have an answer, and the error falls below 2 px."""
    write_stain(tmp_path)
    run = Run(
        "turned-180-0-told", {"dataset": "simulated", "pair": "turned-180", "arm": "told", "seed": 0, "questions": 6}
    )
    result = annotation_studies.compute(tmp_path, run)
    assert result["asked"] == 6
    assert np.all(result["answered"])
    assert len(result["errors"]) == 6
    assert result["errors"][-1] < 0.2 * result["errors"][0]


def test_shares_and_errors_are_summed_by_dataset_and_arm() -> None:
    """Two pairs of 4 questions: shares are of all questions, errors are means over pairs."""
    rows = [
        (Run("a", {"dataset": "cima-1", "arm": "default", "pair": "a"}),
         {"asked": 4, "answered": [True] * 4, "tissue": [True, True, True, False], "errors": [9.0, 4.0]}),
        (Run("b", {"dataset": "cima-1", "arm": "default", "pair": "b"}),
         {"asked": 4, "answered": [True, False, False, False], "tissue": [False] * 4, "errors": [9.0, 8.0]}),
    ]  # fmt: skip
    found = annotation_studies.report(rows)
    sums = found.numbers["cima-1"]["default"]
    assert (sums["answered"], sums["tissue"], sums["error"]) == (5 / 8, 3 / 8, 6.0)
    assert sums["fewest answered"] == 1 / 4
    assert "62.5 % with an answer" in found.sentences[0]


def test_every_pair_is_planned_with_every_arm(tmp_path: Path) -> None:
    planned = annotation_studies.plan(tmp_path, 2, 0, False)
    assert len(planned) == 2 * (20 + 20 + 2 + 2 * len(SIMULATED))
    assert len({run.key for run in planned}) == len(planned)
