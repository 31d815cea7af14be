"""`write_study_report`: one self-contained HTML file about a study over many pairs, and a JSON beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.display import shown_units
from warpgauge.evaluation.result import score_head
from warpgauge.io.files import plain, replace_text
from warpgauge.report import charts
from warpgauge.report.page import (
    MOST_OPEN,
    Table,
    chart,
    count_cell,
    facts,
    figure_cell,
    percent_cell,
    rendered,
    report_path,
    text_cell,
    value_cell,
)
from warpgauge.report.provenance import versions
from warpgauge.study import StudyResult, columns

_SIGNIFICANT = 0.05


def write_study_report(
    out_html: str | os.PathLike[str],
    result: StudyResult,
    *,
    title: str | None = None,
    units: str = "world units",
    hashes: Mapping[str, str] | None = None,
    created: datetime | None = None,
) -> Path:
    """Write the report of a study: calibration of the pairs first, then the ranking with its bootstrap.

    Parameters
    ----------
    out_html : path
        Ends in ``.html``; the numbers go to the same name with ``.json``.
    result : StudyResult
        From `warpgauge.study.run_study`.
    title : str, optional
        The study's name by default.
    units : str
        What one world unit is, where all pairs share it.
    hashes : mapping, optional
        Hashes of the input files.
    created : datetime, optional
        Now by default.

    Returns
    -------
    Path
        The HTML file.
    """
    file = report_path(out_html)
    when = created or datetime.now(UTC)
    shown = shown_units(units)
    numbers = plain(
        {**result.to_dict(), "created": when.isoformat(), "units": shown, "hashes": dict(hashes or {}),
         "versions": versions()}
    )  # fmt: skip
    replace_text(file.with_suffix(".json"), json.dumps(numbers, indent=2, allow_nan=False, ensure_ascii=False))
    pairs, methods = {"pairs": "Can these numbers be trusted?"}, {"methods": "Which method is best?"}
    text = rendered(
        "page.html",
        folder="study",
        title=str(title or result.study.name),
        sections={
            # Where a model is overconfident, that stands before any ranking.
            **(pairs | methods if result.untrusted else methods | pairs),
            "cases": "All cases",
            "provenance": "How it was made",
        },
        result=result,
        when=f"{when:%Y-%m-%d %H:%M} {when.tzname() or ''}",
        numbers_file=file.with_suffix(".json").name,
        methods=method_table(
            result,
            columns.REPORT,
            shown,
            f"Best first. 90 % intervals from {result.study.settings.bootstrap} bootstrap rounds over pairs and "
            "posterior samples.",
            "methods-table",
        ),
        tests=_tests(result, shown),
        pairs=_pairs(result),
        cases=_cases(result, shown),
        provenance=_provenance(result, hashes or {}),
        **_rank_charts(result),
    )
    replace_text(file, text)
    return file


def method_table(result: StudyResult, place: str, units: str, caption: str, name: str) -> Table:
    """Return the columns that a page shows of each method, best first, and of the identity."""
    score = score_head("2", units)
    kinds = [one.unit for one in columns.shown(result, place)][1:]
    rounds = result.study.settings.bootstrap
    rows = [
        (head, [value_cell(unit, value, rounds) for unit, value in zip(kinds, values, strict=True)])
        for head, *values in columns.cells(result, place)
    ]
    baseline = rows[-1][0] if len(rows) > len(result.methods) else None
    return Table(caption, columns.headings(result, place, score), rows, baseline=baseline, name=name)


def _rank_charts(result: StudyResult) -> dict[str, Any]:
    names = [one.name for one in result.methods]
    means = [one.mean_rank for one in result.methods]
    bounds = [(one.rank_interval.low, one.rank_interval.high) for one in result.methods]
    probabilities = np.array([one.rank_probabilities for one in result.methods])
    several = len(names) > 1
    return {
        "mean_ranks": chart(charts.mean_ranks(names, means, bounds)),
        "rank_matrix": chart(charts.rank_matrix(names, probabilities)) if several else None,
    }


def _tests(result: StudyResult, units: str) -> Table:
    rows, flagged = [], set()
    unit = units
    for one in result.tests:
        name = f"{one.a} against {one.b}"
        if one.adjusted_p is not None and one.adjusted_p <= _SIGNIFICANT:
            flagged.add(name)
        cells = [count_cell(one.cases), figure_cell(one.median_difference), figure_cell(one.p)]
        rows.append((name, [*cells, figure_cell(one.adjusted_p)]))
    return Table(
        f"Wilcoxon signed-rank tests over the pairs, adjusted by Holm. Shaded: adjusted p of at most {_SIGNIFICANT:g}.",
        ("methods", "pairs", f"median difference ({unit})", "p", "adjusted p"),
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


def _cases(result: StudyResult, units: str) -> Table:
    rows = []
    score = f"score ({units})"
    for row in result.case_rows():
        remark = row["missing"] or ""
        cells = [figure_cell(row[key]) for key in ("score", "low", "high", "rank", "landmark_mean")]
        rows.append((f"{row['pair']} · {row['method']}", [*cells, text_cell(remark)]))
    return Table(
        "Each method on each pair: score, 90 % interval of the true score, rank.",
        ("pair and method", score, "from", "to", "rank", f"mean at landmarks ({units})", "remark"),
        rows,
        name="cases-table",
        folded=len(rows) > MOST_OPEN,
    )


def _provenance(result: StudyResult, hashes: Mapping[str, str]) -> list[Table]:
    shares = [one.missing / max(1, one.cases + one.missing) for one in result.methods]
    missing = [
        (one.name, [count_cell(one.missing), percent_cell(share)])
        for one, share in zip(result.methods, shares, strict=True)
    ]
    return [
        facts("Settings of the comparison", result.study.settings.model_dump()),
        Table("Missing cases by method.", ("method", "missing", "share"), missing),
        *([facts("SHA-256 of the input files", hashes)] if hashes else []),
        facts("Programs and libraries", versions()),
    ]
