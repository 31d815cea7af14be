"""`write_study_report`: the report of a study over many pairs, as one HTML file with a JSON beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from warpgauge.evaluation import norm_name
from warpgauge.io.files import replace_text
from warpgauge.maps.picture_parts import shown_units
from warpgauge.report import charts
from warpgauge.report.content import finite, versions
from warpgauge.report.html import (
    Cell,
    box,
    chart,
    facts,
    figure_cell,
    heading,
    number,
    page,
    paragraph,
    percent,
    percent_cell,
    report_path,
    sampled_cell,
    table,
    text_cell,
)
from warpgauge.report.results import score_name
from warpgauge.study import StudyResult

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
        Hashes of what went in.
    created : datetime, optional
        Now by default.

    Returns
    -------
    Path
        The HTML file.
    """
    file = report_path(out_html)
    when = created or datetime.now(UTC)
    label = str(title or result.study.name)
    shown = shown_units(units)
    numbers = finite(
        {**result.to_dict(), "created": when.isoformat(), "units": shown, "hashes": dict(hashes or {}),
         "versions": versions()}
    )  # fmt: skip
    replace_text(file.with_suffix(".json"), json.dumps(numbers, indent=2, allow_nan=False, ensure_ascii=False))
    failed = result.untrusted
    first = box("warning", *result.notices) if result.notices else ""
    head = (
        first
        + box("warning" if failed else "verdict", result.verdict)
        + paragraph(
            f"{len(result.methods)} methods, {len(result.outcomes)} pairs; made on {when:%Y-%m-%d %H:%M} "
            f"{when.tzname() or ''}."
        )
    )
    pairs = ("pairs", "Can these numbers be trusted?", _pairs(result))
    methods = ("methods", "Which method is best?", _methods(result, shown))
    parts = [
        *((pairs, methods) if failed else (methods, pairs)),
        ("cases", "All cases", _cases(result, shown)),
        ("provenance", "How it was made", _provenance(result, hashes or {})),
    ]
    foot = paragraph(f"Every number of this report is in {file.with_suffix('.json').name}, beside this file.")
    replace_text(file, page(label, head, parts, foot))
    return file


def _methods(result: StudyResult, units: str) -> str:
    norm, rounds = norm_name(result.study.settings.p), result.study.settings.bootstrap
    rows = [
        (one.name, [
            figure_cell(one.rank), figure_cell(one.mean_rank), figure_cell(one.rank_interval.low),
            figure_cell(one.rank_interval.high), figure_cell(one.mean_score),
            figure_cell(one.score_interval.low if one.score_interval else None),
            figure_cell(one.score_interval.high if one.score_interval else None),
            sampled_cell(one.probability_first, rounds), Cell(str(one.cases), one.cases),
            Cell(str(one.missing), one.missing), figure_cell(one.acrobat), figure_cell(one.learn2reg_tre30),
            figure_cell(one.learn2reg_tre70),
        ])
        for one in result.methods
    ]  # fmt: skip
    names = [one.name for one in result.methods]
    best = result.methods[0]
    before = result.baseline
    if before is not None:
        blank = Cell("–")
        cells = [Cell("baseline"), *[blank] * 3, figure_cell(before["mean_score"]), *[blank] * 3]
        rows.append((before["method"], [*cells, Cell(str(before["cases"]), before["cases"]), *[blank] * 4]))
    parts = [
        table(
            f"Best first. 90 % intervals by a bootstrap of {rounds} rounds over pairs and posterior samples.",
            ("method", "rank", "mean rank", "from", "to", f"{score_name(norm)} ({units})", "from", "to",
             "first with probability", "cases", "missing", "ACROBAT", "TRE30", "TRE70"),
            rows,
            name="methods-table",
        ),
        heading("Mean ranks with their uncertainty"),
        chart(
            charts.mean_ranks(
                names,
                [one.mean_rank for one in result.methods],
                [(one.rank_interval.low, one.rank_interval.high) for one in result.methods],
            ),
            f"Mean rank of {len(names)} methods with 90 % intervals. Best: {best.name} with {number(best.mean_rank)}.",
            "Mean rank over the pairs, with its 90 % interval.",
        ),
    ]  # fmt: skip
    if len(names) > 1:
        probabilities = np.array([one.rank_probabilities for one in result.methods])
        parts += [
            heading("How stable the ranking is"),
            chart(
                charts.rank_matrix(names, probabilities),
                f"Probability of each final rank for each method, in percent. {best.name} is first with probability "
                f"{percent(best.probability_first)}.",
                f"Share of the bootstrap rounds with each final rank, in percent. The rounds' rankings agree with the "
                f"final one by a mean Kendall correlation of {number(result.stability)}.",
            ),
            heading("Are the differences real?"),
            _tests(result, units),
        ]
    return "".join(parts)


def _tests(result: StudyResult, units: str) -> str:
    rows, flagged = [], set()
    for one in result.tests:
        name = f"{one.a} against {one.b}"
        if one.adjusted_p is not None and one.adjusted_p <= _SIGNIFICANT:
            flagged.add(name)
        cells = [Cell(str(one.cases), one.cases), figure_cell(one.median_difference), figure_cell(one.p)]
        rows.append((name, [*cells, figure_cell(one.adjusted_p)]))
    return table(
        f"Wilcoxon signed-rank tests over the pairs, adjusted by Holm; shaded where at most {_SIGNIFICANT:g}.",
        ("methods", "pairs", f"median difference ({units})", "p", "adjusted p"),
        rows,
        flagged=frozenset(flagged),
        name="tests-table",
    )


def _pairs(result: StudyResult) -> str:
    rows = []
    for one in result.outcomes:
        left_out = "left out" if one.name in result.excluded else ""
        missing = "; ".join(f"{method}: {why}" for method, why in one.missing.items())
        rows.append(
            (one.name, [text_cell(one.verdict), text_cell(one.sentence), text_cell(missing), text_cell(left_out)])
        )
    return table(
        "Calibration of each pair's posterior by leaving annotations out, and what is missing there.",
        ("pair", "calibration", "what was found", "missing methods and why", "remark"),
        rows,
        flagged=frozenset(result.untrusted),
        name="pairs-table",
    )


def _cases(result: StudyResult, units: str) -> str:
    rows = []
    for row in result.case_rows():
        remark = row["missing"] or ("left out" if row["excluded"] else "")
        rows.append(
            (
                f"{row['pair']} · {row['method']}",
                [
                    figure_cell(row["score"]),
                    figure_cell(row["low"]),
                    figure_cell(row["high"]),
                    figure_cell(row["rank"]),
                    figure_cell(row["landmark_mean"]),
                    text_cell(remark),
                ],
            )
        )
    return table(
        "Each method on each pair: score, 90 % interval of the true score, rank.",
        ("pair and method", f"score ({units})", "from", "to", "rank", f"mean at landmarks ({units})", "remark"),
        rows,
        name="cases-table",
    )


def _provenance(result: StudyResult, hashes: Mapping[str, str]) -> str:
    parts = [
        facts("Settings of the comparison", asdict(result.study.settings)),
        facts("Model of pairs that are not projects", asdict(result.study.model)),
    ]
    shares = [one.missing / max(1, one.cases + one.missing) for one in result.methods]
    parts.append(
        table(
            "Missing cases by method.",
            ("method", "missing", "share"),
            [
                (one.name, [Cell(str(one.missing), one.missing), percent_cell(share)])
                for one, share in zip(result.methods, shares, strict=True)
            ],
        )
    )
    if hashes:
        parts.append(facts("SHA-256 of what went in", hashes))
    return "".join([*parts, facts("Programs and libraries", versions())])
