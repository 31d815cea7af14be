"""Pages about a study over many pairs: `write_study_report` and `write_leaderboard`.

The report is one HTML file with a JSON beside it; the leaderboard is a static page with one sortable row per method.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from warpgauge.evaluation import norm_name
from warpgauge.evaluation.columns import score_head
from warpgauge.io.files import replace_text
from warpgauge.maps.picture_parts import shown_units
from warpgauge.report import charts
from warpgauge.report.content import finite, versions
from warpgauge.report.html import (
    Cell,
    box,
    chart,
    download,
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
from warpgauge.study import StudyResult
from warpgauge.study.result import MethodResult

_SIGNIFICANT = 0.05
_LABEL_SCORE = "1\u00a0-\u00a0Dice"


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


def _score_head(result: StudyResult, units: str) -> str:
    """Return the heading of the score that ranks."""
    return _LABEL_SCORE if result.study.by_labels else score_head(norm_name(result.study.settings.p), units)


def _ends(method: MethodResult) -> tuple[float | None, float | None]:
    """Return the ends of a method's interval of the mean score."""
    return (method.score_interval.low, method.score_interval.high) if method.score_interval else (None, None)


def _range_cells(result: StudyResult, low: float | None, high: float | None) -> list[Cell]:
    """Return the cells of a 90 % interval; one pair with labels alone has none."""
    return [figure_cell(low), figure_cell(high)] if result.sampled else [Cell("–"), Cell("–")]


def _first_cell(result: StudyResult, method: MethodResult) -> Cell:
    """Return the cell of the probability of being first; one pair with labels alone has none."""
    return sampled_cell(method.probability_first, result.study.settings.bootstrap) if result.sampled else Cell("–")


def _methods(result: StudyResult, units: str) -> str:
    rounds = result.study.settings.bootstrap
    rows = [
        (one.name, [
            figure_cell(one.rank), figure_cell(one.mean_rank),
            *_range_cells(result, one.rank_interval.low, one.rank_interval.high), figure_cell(one.mean_score),
            *_range_cells(result, *_ends(one)),
            _first_cell(result, one), Cell(str(one.cases), one.cases),
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
            f"Best first. 90 % intervals from {rounds} bootstrap rounds over pairs and posterior samples.",
            ("method", "rank", "mean rank", "from", "to", _score_head(result, units), "from", "to",
             "probability of being first", "cases", "missing", "ACROBAT", "TRE30", "TRE70"),
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
    if len(names) > 1 and result.sampled:
        probabilities = np.array([one.rank_probabilities for one in result.methods])
        parts += [
            heading("How stable the ranking is"),
            chart(
                charts.rank_matrix(names, probabilities),
                f"Probability of each final rank for each method, in percent. {best.name} is first with probability "
                f"{percent(best.probability_first)}.",
                f"Share of the bootstrap rounds with each final rank, in percent. Mean Kendall correlation of the "
                f"rounds' rankings with the final one: {number(result.stability)}.",
            ),
            heading("Are the differences real?"),
            _tests(result, units),
        ]
    return "".join(parts)


def _tests(result: StudyResult, units: str) -> str:
    rows, flagged = [], set()
    unit = _LABEL_SCORE if result.study.by_labels else units
    for one in result.tests:
        name = f"{one.a} against {one.b}"
        if one.adjusted_p is not None and one.adjusted_p <= _SIGNIFICANT:
            flagged.add(name)
        cells = [Cell(str(one.cases), one.cases), figure_cell(one.median_difference), figure_cell(one.p)]
        rows.append((name, [*cells, figure_cell(one.adjusted_p)]))
    return table(
        f"Wilcoxon signed-rank tests over the pairs, adjusted by Holm. Shaded: adjusted p of at most {_SIGNIFICANT:g}.",
        ("methods", "pairs", f"median difference ({unit})", "p", "adjusted p"),
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
        "Calibration of the model on each pair (leave-one-out), and missing methods.",
        ("pair", "calibration", "what was found", "missing methods and why", "remark"),
        rows,
        flagged=frozenset(result.untrusted),
        name="pairs-table",
    )


def _cases(result: StudyResult, units: str) -> str:
    rows = []
    score = _LABEL_SCORE if result.study.by_labels else f"score ({units})"
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
        ("pair and method", score, "from", "to", "rank", f"mean at landmarks ({units})", "remark"),
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
        parts.append(facts("SHA-256 of the input files", hashes))
    return "".join([*parts, facts("Programs and libraries", versions())])


LEVEL = 0.9
TABLE = "leaderboard"
# Sorts by the numbers behind the cells; cells without a number stay last. The page reads well without it.
_LEADERBOARD_SCRIPT = """
const body = document.querySelector("#leaderboard tbody");
const heads = [...document.querySelectorAll("#leaderboard thead th")];
const value = (row, at) => {
  const cell = row.cells[at];
  if (at === 0) return cell.textContent.toLowerCase();
  return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
};
heads.forEach((head, at) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map((row) => [value(row, at), row]);
    const sign = down ? -1 : 1;
    rows.sort(([a], [b]) => (a === null) - (b === null) || (a === null ? 0 : sign * (a < b ? -1 : a > b ? 1 : 0)));
    body.append(...rows.map(([, row]) => row));
  });
});
"""
_LEADERBOARD_STYLE = """
thead button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; text-align: inherit; text-decoration: underline dotted; }
thead button:focus-visible { outline: 2px solid #00507d; outline-offset: 2px; }
th[aria-sort="ascending"] button::after { content: " \\25B2" / ""; }
th[aria-sort="descending"] button::after { content: " \\25BC" / ""; }
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; }
  body { background: #16191d; color: #e8e8e8; }
  header p, caption, footer { color: #b9bec5; }
  a { color: #7cc4f0; }
  h2, th, td { border-color: #454c55; }
  thead th { border-color: #8a9099; }
  .verdict, .notice { background: #1e2a33; border-color: #7cc4f0; }
  .warning { background: #33241b; border-color: #e58a4e; }
  .verdict p, .warning p, .notice p { color: #e8e8e8; }
  tr.baseline td, tr.baseline th { background: #22262b; }
  thead button:focus-visible { outline-color: #7cc4f0; }
}
"""


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
    when = created or datetime.now(UTC)
    head = (
        (box("warning", *result.notices) if result.notices else "")
        + box("warning" if result.untrusted else "verdict", result.verdict)
        + paragraph(f"{len(result.methods)} methods, {len(result.outcomes)} pairs; {when:%Y-%m-%d %H:%M} UTC.")
    )
    rounds = result.study.settings.bootstrap
    notes = paragraph(
        "Click a heading to sort. Methods are ranked by their mean rank over the pairs. “Rank from … to” is the range "
        f"of final ranks in {LEVEL:.0%} of {rounds} bootstrap rounds over pairs and posterior samples: methods whose "
        "ranges overlap are not clearly ordered. All other intervals are 90 % intervals, too."
    )
    sections = [("ranking", "Leaderboard", _leaderboard_table(result, shown_units(units)) + notes + _downloads(result))]
    foot = paragraph("Made by warpgauge benchmark --leaderboard.")
    text = page(str(title or result.study.name), head, sections, foot)
    digest = base64.b64encode(hashlib.sha256(_LEADERBOARD_SCRIPT.encode()).digest()).decode("ascii")
    text = text.replace("style-src 'unsafe-inline'", f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'", 1)
    text = text.replace("</style>", f"{_LEADERBOARD_STYLE}</style>", 1).replace(
        "</body>", f"<script>{_LEADERBOARD_SCRIPT}</script>\n</body>", 1
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


def _leaderboard_table(result: StudyResult, units: str) -> str:
    beside = result.figures_beside()
    rows = []
    for place, one in enumerate(result.methods):
        low, high = rank_range(one)
        cells = [
            figure_cell(one.rank),
            *_range_cells(result, low, high),
            _first_cell(result, one),
            figure_cell(one.mean_score),
            *_range_cells(result, *_ends(one)),
            figure_cell(one.mean_rank),
            *(figure_cell(values[place], 4) for _, values, _ in beside),
            Cell(str(one.cases), one.cases),
            Cell(str(one.missing), one.missing),
        ]
        rows.append((one.name, cells))
    before = result.baseline
    if before is not None:
        blank = Cell("–")
        cells = [Cell("baseline"), *[blank] * 3, figure_cell(before["mean_score"])]
        cells += [*[blank] * 3, *(blank if still is None else figure_cell(still, 4) for *_, still in beside)]
        cells += [Cell(str(before["cases"]), before["cases"]), blank]
        rows.append((before["method"], cells))
    heads = ("method", "rank", "rank from", "rank to", "probability of being first",
             _score_head(result, units), "from", "to", "mean rank",
             *(name for name, *_ in beside), "cases", "missing")  # fmt: skip
    caption = f"{len(result.methods)} methods over {len(result.outcomes) - len(result.excluded)} pairs, best first."
    return table(caption, heads, rows, baseline=before["method"] if before else None, name=TABLE)


def _downloads(result: StudyResult) -> str:
    rows = result.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    numbers = json.dumps(finite(result.to_dict()), indent=2, allow_nan=False)
    return download("leaderboard.csv", text.getvalue(), "text/csv", "The table as CSV") + download(
        "study.json", numbers, "application/json", f"All numbers as JSON ({number(len(numbers) / 1e6)} MB)"
    )
