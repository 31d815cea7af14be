"""Pages about a study over many pairs, each one self-contained HTML file: the report, and a sortable leaderboard."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.display import rounded
from warpgauge.evaluation.result import score_head
from warpgauge.io.files import plain, replace_text
from warpgauge.report import charts
from warpgauge.report.page import (
    MOST_OPEN,
    Cell,
    Table,
    chance_cell,
    chart,
    count_cell,
    download,
    facts,
    number_cell,
    rendered,
    report_path,
    share_cell,
    text_cell,
    versions,
)
from warpgauge.study import StudyResult, columns
from warpgauge.study.result import INTERVAL

_SIGNIFICANT = 0.05
_UNITS = "world units"
# With more cases (pairs times methods) than this the numbers are not put into the leaderboard: study.json has them.
MOST_CASES = 2000


def write_study_report(out_html: str | os.PathLike[str], result: StudyResult) -> Path:
    """Write the report of a study, and all its numbers to the same name with ``.json``. Returns the HTML file."""
    file = report_path(out_html)
    now = datetime.now(UTC)
    numbers = plain({**result.to_dict(), "created": now.isoformat(), "versions": versions()})
    replace_text(file.with_suffix(".json"), json.dumps(numbers, indent=2, allow_nan=False, ensure_ascii=False))
    sections = {"methods": "Which method is best?"}
    pairs = {"pairs": "Can these numbers be trusted?"}
    names = [one.name for one in result.methods]
    bounds = [(one.rank_interval.low, one.rank_interval.high) for one in result.methods]
    rank_matrix = None
    if len(names) > 1:
        rank_matrix = chart(charts.rank_matrix(names, np.array([one.rank_probabilities for one in result.methods])))
    rounds = result.study.settings.bootstrap
    caption = f"Best first. 90 % intervals from {rounds} bootstrap rounds over pairs and posterior samples."
    text = rendered(
        "page.html",
        folder="study",
        title=str(result.study.name),
        # Where a model is overconfident, that stands before any ranking.
        sections=(pairs | sections if result.untrusted else sections | pairs)
        | {"cases": "All cases", "provenance": "How it was made"},
        result=result,
        when=f"{now:%Y-%m-%d %H:%M} UTC",
        numbers_file=file.with_suffix(".json").name,
        methods=_method_table(result, columns.REPORT, caption, "methods-table"),
        mean_ranks=chart(charts.mean_ranks(names, [one.mean_rank for one in result.methods], bounds)),
        rank_matrix=rank_matrix,
        tests=_tests(result),
        pairs=_pairs(result),
        cases=_cases(result),
        provenance=_provenance(result),
    )
    replace_text(file, text)
    return file


def write_leaderboard(out_html: str | os.PathLike[str], result: StudyResult) -> Path:
    """Write a leaderboard: rank with the range of ranks that the data allow, scores with intervals, official figures.

    The numbers are part of the page. Returns the HTML file.
    """
    file = report_path(out_html)
    few = len(result.outcomes) * len(result.methods) <= MOST_CASES
    numbers = result.to_json() if few else ""
    groups = [
        _method_table(part, columns.LEADERBOARD, f"{name}: {part.extent}", f"group-{number}")
        for number, (name, part) in enumerate(result.groups.items(), 1)
    ]
    text = rendered(
        "leaderboard/page.html",
        folder="leaderboard",
        title=str(result.study.name),
        sections={"ranking": "Leaderboard"},
        result=result,
        when=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        level=f"{INTERVAL:.0%}",
        methods=_method_table(result, columns.LEADERBOARD, f"{result.extent}, best first.", "leaderboard"),
        groups=groups,
        csv=download(result.to_csv(), "text/csv"),
        json=download(numbers, "application/json") if few else None,
        megabytes=len(numbers) / 1e6,
    )
    replace_text(file, text)
    return file


def _method_table(result: StudyResult, place: str, caption: str, name: str) -> Table:
    """Return the columns that a page shows of each method, best first, and of the identity."""
    kinds = [one.unit for one in columns.shown(result, place)][1:]
    rows = []
    for head, *values in columns.cells(result, place):
        rows.append((head, [_value_cell(kind, value) for kind, value in zip(kinds, values, strict=True)]))
    baseline = rows[-1][0] if len(rows) > len(result.methods) else None
    heads = columns.headings(result, place, score_head("2", _UNITS))
    return Table(caption, heads, rows, baseline=baseline, name=name)


def _value_cell(unit: str, value: Any) -> Cell:
    """Return the cell of a column's value, written by what it is."""
    if unit == "text" or isinstance(value, str):
        return Cell(str(value), None, numeric=unit != "text")
    if unit == "probability":
        return chance_cell(value)
    if unit == "figure" and value is not None:
        return Cell(rounded(value, 4), value)
    return number_cell(value)


def _tests(result: StudyResult) -> Table:
    rows = []
    flagged = set()
    for one in result.tests:
        name = f"{one.a} against {one.b}"
        if one.adjusted_p is not None and one.adjusted_p <= _SIGNIFICANT:
            flagged.add(name)
        figures = [number_cell(value) for value in (one.median_difference, one.p, one.adjusted_p)]
        rows.append((name, [count_cell(one.cases), *figures]))
    return Table(
        f"Wilcoxon signed-rank tests over the pairs, adjusted by Holm. Shaded: adjusted p of at most {_SIGNIFICANT:g}.",
        ("methods", "pairs", f"median difference ({_UNITS})", "p", "adjusted p"),
        rows,
        flagged=flagged,
        name="tests-table",
        folded=len(rows) > MOST_OPEN,
    )


def _pairs(result: StudyResult) -> Table:
    rows = []
    for one in result.outcomes:
        missing = "; ".join(f"{method}: {why}" for method, why in one.missing.items())
        rows.append((one.name, [text_cell(text) for text in (one.verdict, one.sentence, missing)]))
    return Table(
        "Calibration of the model on each pair (leave-one-out), and missing methods.",
        ("pair", "calibration", "what was found", "missing methods and why"),
        rows,
        flagged=result.untrusted,
        name="pairs-table",
    )


def _cases(result: StudyResult) -> Table:
    rows = []
    for row in result.case_rows():
        cells = [number_cell(row[key]) for key in ("score", "low", "high", "rank", "landmark_mean")]
        rows.append((f"{row['pair']} · {row['method']}", [*cells, text_cell(row["missing"] or "")]))
    return Table(
        "Each method on each pair: score, 90 % interval of the true score, rank.",
        ("pair and method", f"score ({_UNITS})", "from", "to", "rank", f"mean at landmarks ({_UNITS})", "remark"),
        rows,
        name="cases-table",
        folded=len(rows) > MOST_OPEN,
    )


def _provenance(result: StudyResult) -> list[Table]:
    missing = []
    for one in result.methods:
        share = one.missing / max(1, one.cases + one.missing)
        missing.append((one.name, [count_cell(one.missing), share_cell(share)]))
    return [
        facts("Settings of the comparison", result.study.settings.model_dump()),
        Table("Missing cases by method.", ("method", "missing", "share"), missing),
        facts("Programs and libraries", versions()),
    ]
