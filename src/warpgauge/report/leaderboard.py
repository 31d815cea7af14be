"""`write_leaderboard`: a static page with one sortable row per method of a study."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from warpgauge.display import shown_units
from warpgauge.io.files import replace_text
from warpgauge.report.page import download, rendered, report_path
from warpgauge.report.study_report import method_table
from warpgauge.study import StudyResult, columns
from warpgauge.study.result import INTERVAL

# With more cases (pairs times methods) than this the numbers are not put into the page: study.json has them.
MOST_CASES = 2000


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
    title, units, created
        As `write_study_report` takes them.
    """
    file = report_path(out_html)
    few = len(result.outcomes) * len(result.methods) <= MOST_CASES
    numbers = result.to_json() if few else ""
    text = rendered(
        "leaderboard/page.html",
        folder="leaderboard",
        title=str(title or result.study.name),
        sections={"ranking": "Leaderboard"},
        result=result,
        when=f"{created or datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        level=f"{INTERVAL:.0%}",
        methods=method_table(
            result,
            columns.LEADERBOARD,
            shown_units(units),
            f"{result.extent}, best first.",
            "leaderboard",
        ),
        groups=[
            method_table(part, columns.LEADERBOARD, shown_units(units), f"{name}: {part.extent}", f"group-{number}")
            for number, (name, part) in enumerate(result.groups.items(), 1)
        ],
        csv=download(result.to_csv(), "text/csv"),
        json=download(numbers, "application/json") if few else None,
        megabytes=len(numbers) / 1e6,
    )
    replace_text(file, text)
    return file
