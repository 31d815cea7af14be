"""`write_leaderboard`: a static page with one sortable row per method of a study."""

from __future__ import annotations

import csv
import io
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from warpgauge.io.files import replace_text
from warpgauge.maps.picture_parts import shown_units
from warpgauge.report.content import finite
from warpgauge.report.page import (
    BLANK,
    Cell,
    Table,
    count_cell,
    download,
    figure_cell,
    rendered,
    report_path,
)
from warpgauge.report.study_report import first_cell, range_cells, ranking_score, score_range
from warpgauge.study import StudyResult
from warpgauge.study.result import MethodResult

LEVEL = 0.9


def write_leaderboard(
    out_html: str | os.PathLike[str],
    result: StudyResult,
    *,
    title: str | None = None,
    units: str = "world units",
    created: datetime | None = None,
) -> Path:
    """Write a leaderboard: rank with the range of ranks that the data allow, scores with intervals, official figures.

    Parameters
    ----------
    out_html : path
        Ends in ``.html``. The file needs no other file and loads nothing.
    result : StudyResult
        From `warpgauge.study.run_study`.
    title : str, optional
        The study's name by default.
    units : str
        What one world unit is, where all pairs share it.
    created : datetime, optional
        Now by default.
    """
    file = report_path(out_html)
    numbers = json.dumps(finite(result.to_dict()), indent=2, allow_nan=False)
    text = rendered(
        "leaderboard/page.html",
        folder="leaderboard",
        title=str(title or result.study.name),
        sections={"ranking": "Leaderboard"},
        result=result,
        when=f"{created or datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        level=f"{LEVEL:.0%}",
        methods=_methods(result, shown_units(units)),
        csv=download(_csv(result), "text/csv"),
        json=download(numbers, "application/json"),
        megabytes=len(numbers) / 1e6,
    )
    replace_text(file, text)
    return file


def rank_range(method: MethodResult) -> tuple[int, int]:
    """Return the smallest and largest final rank of a method, each tail of the bootstrap rounds cut at 5 %."""
    share = np.cumsum(method.rank_probabilities)
    tail = (1 - LEVEL) / 2
    low = int(np.searchsorted(share, tail, side="right"))
    high = int(np.searchsorted(share, 1 - tail - 1e-9))
    last = len(method.rank_probabilities) - 1
    return min(low, last) + 1, min(high, last) + 1


def _methods(result: StudyResult, units: str) -> Table:
    beside = result.figures_beside()
    rows = []
    for place, one in enumerate(result.methods):
        cells = [
            figure_cell(one.rank),
            *range_cells(result, *rank_range(one)),
            first_cell(result, one),
            figure_cell(one.mean_score),
            *score_range(result, one),
            figure_cell(one.mean_rank),
            *(figure_cell(values[place], 4) for _, values, _ in beside),
            count_cell(one.cases),
            count_cell(one.missing),
        ]
        rows.append((one.name, cells))
    before = result.baseline
    if before is not None:
        cells = [Cell("baseline"), *[BLANK] * 3, figure_cell(before["mean_score"])]
        cells += [*[BLANK] * 3, *(BLANK if still is None else figure_cell(still, 4) for *_, still in beside)]
        rows.append((before["method"], [*cells, count_cell(before["cases"]), BLANK]))
    heads = ("method", "rank", "rank from", "rank to", "probability of being first",
             ranking_score(result, units), "from", "to", "mean rank",
             *(name for name, *_ in beside), "cases", "missing")  # fmt: skip
    caption = f"{len(result.methods)} methods over {len(result.outcomes) - len(result.excluded)} pairs, best first."
    return Table(caption, heads, rows, baseline=before["method"] if before else None, name="leaderboard")


def _csv(result: StudyResult) -> str:
    rows = result.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
