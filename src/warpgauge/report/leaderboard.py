"""`write_leaderboard`: a static page with one sortable row per method of a study."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from warpgauge.display import counted, shown_units
from warpgauge.io.files import replace_text
from warpgauge.report.page import Table, download, figure_cell, rendered, report_path, text_cell
from warpgauge.report.study_report import method_table
from warpgauge.study import StudyResult, columns
from warpgauge.study.history import changes
from warpgauge.study.result import INTERVAL

# With more cases (pairs times methods) than this the numbers are not put into the page: study.json has them.
MOST_CASES = 2000


def _history(result: StudyResult, units: str) -> Table | None:
    """Return what happened to each submission from run to run, newest first; nothing where there was one run."""
    if len(result.history) < 2:
        return None
    rows = []
    for one in reversed(list(changes(result.history))):
        figures = one.figures or {}
        numbers = [figure_cell(figures.get(key)) for key in ("rank", "mean_rank", "mean_score", "cases", "missing")]
        rows.append(
            (
                one.method,
                [
                    text_cell(f"{one.when[:16].replace('T', ' ')} UTC"),
                    text_cell(one.what),
                    *numbers,
                    text_cell(one.why),
                ],
            )
        )
    score = f"mean score ({units})"
    heads = ("method", "when", "what", "rank then", "mean rank", score, "cases", "missing", "why")
    return Table("What happened to each submission, newest first.", heads, rows, name="history", folded=True)


def _certificates(result: StudyResult) -> Table | None:
    """Return what the random questions of each pair show; nothing where no pair has any."""
    rows = []
    for one in result.certificates:
        decided = "; ".join(f"{better} before {worse}" for better, worse in one.decided) or "nothing"
        digest = "no certificate" if one.digest is None else f"{one.digest} ({one.file})"
        said = (one.project or "", decided, one.sentence, " ".join(f"{note}." for note in one.notes), digest)
        rows.append((one.pair, [text_cell(text) for text in said]))
    heads = ("pair", "project", "proven to be better", "what the random answers show", "notes", "digest and file")
    best = sum(one.certified for one in result.certificates)
    caption = f"Best transform certified: {best} of {counted(len(rows), 'pair')} with random questions."
    return Table(caption, heads, rows, name="certificates") if rows else None


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
        certificates=_certificates(result),
        history=_history(result, shown_units(units)),
        csv=download(result.to_csv(), "text/csv"),
        json=download(numbers, "application/json") if few else None,
        megabytes=len(numbers) / 1e6,
    )
    replace_text(file, text)
    return file
