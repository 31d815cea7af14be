"""`write_leaderboard`: a static page with one sortable row per method of a study."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from warpgauge.evaluation import norm_name
from warpgauge.io.files import replace_text
from warpgauge.maps.picture_parts import shown_units
from warpgauge.report.content import finite
from warpgauge.report.html import (
    Cell,
    box,
    download,
    figure_cell,
    number,
    page,
    paragraph,
    report_path,
    sampled_cell,
    table,
)
from warpgauge.report.results import score_name
from warpgauge.study import StudyResult
from warpgauge.study.result import MethodResult

LEVEL = 0.9
TABLE = "leaderboard"
# Sorts by the numbers behind the cells; cells without a number stay last. The page reads well without it.
_SCRIPT = """
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
_STYLE = """
thead button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; text-align: inherit; text-decoration: underline dotted; }
thead button:focus-visible { outline: 2px solid #00507d; outline-offset: 2px; }
th[aria-sort="ascending"] button::after { content: " \\25B2" / ""; }
th[aria-sort="descending"] button::after { content: " \\25BC" / ""; }
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
        "Sort by a click on a heading. Ranks are by the mean rank over the pairs. “Rank from … to” holds the final "
        f"rank in {LEVEL:.0%} of {rounds} bootstrap rounds over pairs and what the annotations leave open: methods "
        "whose ranges overlap are not clearly ordered. All other intervals are 90 % as well."
    )
    sections = [("ranking", "Leaderboard", _table(result, shown_units(units)) + notes + _downloads(result))]
    foot = paragraph("Made by warpgauge benchmark --leaderboard.")
    text = page(str(title or result.study.name), head, sections, foot)
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode("ascii")
    text = text.replace("style-src 'unsafe-inline'", f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'", 1)
    text = text.replace("</style>", f"{_STYLE}</style>", 1).replace(
        "</body>", f"<script>{_SCRIPT}</script>\n</body>", 1
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


def _table(result: StudyResult, units: str) -> str:
    rounds = result.study.settings.bootstrap
    beside = result.figures_beside()
    rows = []
    for place, one in enumerate(result.methods):
        low, high = rank_range(one)
        score = one.score_interval
        cells = [
            figure_cell(one.rank),
            Cell(str(low), low),
            Cell(str(high), high),
            sampled_cell(one.probability_first, rounds),
            figure_cell(one.mean_score),
            figure_cell(score.low if score else None),
            figure_cell(score.high if score else None),
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
    heads = ("method", "rank", "rank from", "rank to", "first with probability",
             f"{score_name(norm_name(result.study.settings.p))} ({units})", "from", "to", "mean rank",
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
