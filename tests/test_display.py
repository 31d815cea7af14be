"""What notebooks and scripts show: tables in every form, pictures on axes that are given or made."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import warpgauge as wg
from warpgauge.core.process import Posterior
from warpgauge.display import counted, csv_table, html_table, number, text_table
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Evaluation
from warpgauge.plots import plot_map

mpl.use("Agg")


@pytest.fixture(scope="module")
def result() -> Evaluation:
    fixed = np.random.default_rng(0).uniform(0, 100, (15, 2))
    posterior = _posterior(fixed)
    targets = np.random.default_rng(1).uniform(10, 90, (30, 2))
    candidates = {"near_<b>": lambda x: x + np.array([1.0, 0.0]), "far": lambda x: x + 30}
    return wg.evaluate(posterior, candidates, targets, samples=100)


def _posterior(fixed: np.ndarray) -> Posterior:
    prior = wg.TransformationPrior(wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=4, weight=4.0))
    return prior.condition(wg.Annotations.isotropic(fixed, fixed, sd=0.5))


class Cells(HTMLParser):
    """Collects the cells of an HTML table, and every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_an_evaluation_prints_the_table_and_the_verdict(result: Evaluation) -> None:
    lines = str(result).splitlines()
    assert lines[0].startswith("RMS error over 30 targets, from 15 annotations")
    assert lines[1].split()[:3] == ["transform", "landmarks", "error"]
    assert lines[2].startswith("near_<b>")
    assert lines[3].startswith("far")
    assert str(result).endswith(str(result.verdict))


def test_html_is_escaped_and_has_the_same_cells(result: Evaluation) -> None:
    parser = Cells()
    parser.feed(result._repr_html_())
    assert parser.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "b"}
    assert "near_<b>" in parser.cells
    assert f" {result.verdict.lines()['BEST']}" in parser.cells


def test_csv_has_every_row(result: Evaluation) -> None:
    rows = list(csv.DictReader(io.StringIO(result.to_csv())))
    assert [row["transform"] for row in rows] == ["near_<b>", "far"]
    assert float(rows[1]["score_2"]) == result.scores["far"].score["2"]


def test_every_column_is_documented() -> None:
    """docs/evaluation.md names each column of `to_dataframe`, and no column that there is not."""
    posterior = _posterior(np.random.default_rng(0).uniform(0, 100, (15, 2)))
    targets = np.random.default_rng(1).uniform(10, 90, (30, 2))
    frame = wg.evaluate(posterior, {"same": lambda x: x}, targets, samples=50, tolerance=2.0).to_dataframe()
    text = (Path(__file__).parent.parent / "docs" / "evaluation.md").read_text()
    rows = text[text.index("| column |") : text.index("**Jacobians**")].splitlines()[2:]
    named = {name for row in rows if row.startswith("|") for name in re.findall(r"`([\w]+)`", row.split("|")[1])}
    statistics = ["mean", "rms", "median", "p90", "max", "above_tolerance"]
    known = {one.replace("NORM", norm) for one in named for norm in ("1", "2", "inf")}
    known = {one.replace("STATISTIC", name) for one in known for name in statistics}
    assert known == {frame.index.name, *frame.columns}


def test_words_around_numbers() -> None:
    """One annotation is not "annotations"."""
    assert [counted(n, "annotation") for n in (0, 1, 2)] == ["0 annotations", "1 annotation", "2 annotations"]
    assert [counted(n, "query") for n in (1, 2)] == ["1 query", "2 queries"]


def test_tables_by_hand() -> None:
    assert text_table(["a", "b"], [["x", 1.5], ["yy", 10]]) == "a     b\nx   1.5\nyy   10"
    assert csv_table(["a"], [[None], ['"']]) == 'a\n""\n""""\n'
    assert "&lt;script&gt;" in html_table(["a"], [["<script>"]])
    assert [number(x) for x in (None, float("nan"), 3, 0.12345, 12345.6, 2.0)] == [
        "-",
        "-",
        "3",
        "0.123",
        "1.23e+04",
        "2",
    ]


def test_plots_draw_on_given_axes_or_new_ones(result: Evaluation) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3)
    try:
        assert result.plot(ax=axes[0]) is axes[0]
        assert [text.get_text() for text in axes[0].get_yticklabels()] == ["near_<b>", "far"]
        fixed = np.random.default_rng(0).uniform(0, 100, (6, 2))
        assert _posterior(fixed).plot(ax=axes[1]) is axes[1]
        assert len(axes[1].patches) == 6
        grid = wg.Grid((20, 10), (2.0, 3.0), (5.0, -1.0), units="um")
        plot_map(np.ones((10, 20)), grid, ax=axes[2], label="error")
        assert tuple(axes[2].images[0].get_extent()) == (4.0, 44.0, 27.5, -2.5)
        with pytest.raises(InvalidInputError, match="grid's shape"):
            plot_map(np.ones((20, 10)), grid)
        made = result.plot()
        assert made.figure is not figure
        plt.close(made.figure)
    finally:
        plt.close(figure)


def test_a_map_of_a_flipped_grid_has_the_coordinates_of_the_world() -> None:
    """As brains are stored: x and y run backwards; the corners of the picture are the outer edges of the voxels."""
    import matplotlib.pyplot as plt

    grid = wg.Grid((20, 10, 4), (2.0, 3.0, 1.0), (90.0, 120.0, -70.0), np.diag([-1.0, -1.0, 1.0]), "mm")
    ax = plot_map(np.ones(grid.shape), grid, slice_index=3)
    try:
        assert tuple(ax.images[0].get_extent()) == (91.0, 51.0, 91.5, 121.5)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("x mm", "y mm")
        sagittal = wg.Grid((6, 5, 4), direction=np.array([[0.0, 0, -1], [1, 0, 0], [0, -1, 0]]), units="mm")
        plot_map(np.ones(sagittal.shape), sagittal, ax=ax)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("y mm", "z mm")
        turned = wg.Grid((20, 10), direction=np.array([[0.8, -0.6], [0.6, 0.8]]))
        with pytest.raises(InvalidInputError, match="oblique"):
            plot_map(np.ones(turned.shape), turned, ax=ax)
        with pytest.raises(InvalidInputError, match="slice_index must be from 0 to 3"):
            plot_map(np.ones(grid.shape), grid, ax=ax, slice_index=4)
    finally:
        plt.close(ax.figure)


def test_a_console_shows_one_short_line(result: Evaluation) -> None:
    """What a console shows of a value names its size and what matters; all numbers are in the value itself."""
    fixed = np.random.default_rng(0).uniform(0, 100, (200, 2))
    posterior = _posterior(fixed[:60])
    fused = wg.fuse_raters({"ada": fixed, "bob": fixed + 1})
    shown = {
        "<Evaluation: 2 transforms at 30 targets, from 15 annotations, smallest error: 'near_<b>'>": result,
        "<Posterior: 2D, from 60 annotations>": posterior,
        "<Annotations: 2D, 1 annotation>": posterior.annotations[:1],
        "<Judge: 2D, from 60 annotations and 1 transform>": wg.judge(posterior, {"same": lambda x: x}),
        "<Suggester: entropy, 200 of 200 candidates left, 0 annotations>": wg.Suggester(posterior.prior, fixed),
        "<FusedPlacements: 200 locations, 2 raters, covariances pooled>": fused,
        "<Landmarks: 2D, 200 landmarks in px (image)>": wg.Landmarks(fixed, fixed),
    }
    assert {repr(value): value for value in shown.values()} == shown
    checked = wg.calibration(posterior.prior, posterior.annotations)
    within = ", ".join(f"{one.inside} of 60 within {one.level:.0%}" for one in checked.coverage)
    assert repr(checked) == f"<Calibration: {within}, factor {checked.factor:.3g}>"
    assert repr(posterior.calibrated()).endswith(f"60 annotations, scale {checked.factor:.3g}>")
    longest = np.max(checked.residuals.mahalanobis)
    assert repr(checked.residuals) == f"<LeaveOneOut: 60 annotations, largest Mahalanobis length {longest:.3g}>"
