"""Figures for a paper: each map as PDF and SVG at column width, a LaTeX table, and a paragraph on the methods."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from warpgauge._version import __version__
from warpgauge.evaluation import Evaluation
from warpgauge.evaluation.result import TransformScores
from warpgauge.io.files import content_hash, replace_file, replace_text
from warpgauge.maps.pictures import Picture, map_picture, picture_bytes
from warpgauge.plots import plot_intervals
from warpgauge.report.report import Report

# Width of a column of most journals in inches (88 mm), and of a page for volumes, whose maps have three planes.
COLUMN, PAGE = 3.46, 7.1
_NORM = "2"
_KINDS = {"expected error": "error", "exceedance": "exceedance", "standard deviation": "sd"}
_CITATION = (
    "L. Peter, D. C. Alexander, C. Magnain, J. E. Iglesias, Uncertainty-Aware Annotation Protocol to Evaluate "
    "Deformable Registration Algorithms, IEEE Transactions on Medical Imaging, 2021"
)
_SPECIAL = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
}  # fmt: skip


def write_figures(folder: Path, report: Report) -> list[Path]:
    """Write the figures of a report into a folder.

    Parameters
    ----------
    folder : Path
        Made if it is not there; files of the same names are replaced.
    report : Report
        With its maps, if they are to be drawn.

    Returns
    -------
    list of Path
        ``error-NAME``, ``exceedance-NAME`` (with a tolerance) and ``sd`` as ``.pdf`` and ``.svg``, ``scores.*``,
        ``table.tex`` and ``methods.txt``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in _figures(report):
        for kind in ("pdf", "svg"):
            file = folder / f"{name}.{kind}"
            replace_file(file, picture_bytes(figure, kind, dpi=300))
            written.append(file)
    for name, text in (("table.tex", table(report.evaluation)), ("methods.txt", methods(report))):
        replace_text(folder / name, text)
        written.append(folder / name)
    return written


def _figures(report: Report) -> Iterator[tuple[str, Any]]:
    """Yield names and figures: one map per method and kind, hatched where unknown, and the intervals."""
    maps, points = report.maps, report.evaluation.posterior.annotations.fixed_points
    if maps is not None:
        width = COLUMN if maps.grid.d == 2 else PAGE
        for kind in _KINDS if maps.tolerance is not None else ("expected error", "standard deviation"):
            whole = maps.picture(kind, points)
            for name, values in whole.panels.items():
                alone = Picture(
                    {name: values}, maps.grid, kind, image=whole.image, entropy=maps.entropy, limits=maps.limits,
                    points=points, planes=whole.planes, tolerance=whole.tolerance, high=whole.high,
                )  # fmt: skip
                if kind == "standard deviation":
                    alone = replace(alone, entropy=None, limits=None)  # it shows itself what is unknown
                suffix = "" if kind == "standard deviation" else f"-{_plain(name)}"
                yield f"{_KINDS[kind]}{suffix}", map_picture(alone, width=width)
    yield "scores", _intervals(report.evaluation)


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "transform"


def _intervals(found: Evaluation) -> Any:
    from matplotlib.figure import Figure

    known = found.verdict.over_known
    names = found.ranking(_NORM, known=known)
    figure = Figure(figsize=(COLUMN, 0.6 + 0.25 * len(names)), layout="constrained")
    ax = figure.subplots()
    rows = [_row(found.scores[name], known) for name in names]
    unit = f" ({found.units})" if found.units else ""
    sizes, low, high = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    plot_intervals(names, sizes, low, high, label=f"error{unit}", ax=ax)
    ax.set_ylim(-0.5, len(names) - 0.5)
    for item in (ax.xaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()):
        item.set_fontsize(7)
    return figure


def _row(one: TransformScores, known: bool) -> tuple[float, float, float, float | None]:
    """Return error, interval and chance to be best as the verdict tells them: over the known targets, or over all."""
    score, interval, best = (
        (one.score_known, one.interval_known, one.probability_best_known)
        if known
        else (one.score, one.interval, one.probability_best)
    )
    return score[_NORM], *interval[_NORM], best[_NORM]


def _chance(value: float | None) -> str:
    """Return a probability, of which samples tell no more than that it is near to 0 or 1."""
    if value is None or math.isnan(value):
        return "--"
    return "$<$0.01" if value < 0.01 else "$>$0.99" if value > 0.99 else f"{value:.2f}"


def _latex(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def table(found: Evaluation) -> str:
    """Return the scores as a LaTeX table (package booktabs), best first, over the targets that the verdict is about."""
    unit = f" ({_latex(found.units)})" if found.units else ""
    lines = [
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        f"method & error{unit} & 90\\,\\% interval & P(best) \\\\",
        r"\midrule",
    ]
    known = found.verdict.over_known
    for name in found.ranking(_NORM, known=known):
        error, low, high, chance = _row(found.scores[name], known)
        cells = [_latex(name), f"{error:.3g}", f"{low:.3g} to {high:.3g}", _chance(chance)]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def methods(report: Report) -> str:
    """Return a paragraph for the methods section: citation, version, seed, numbers, and hashes of what it rests on."""
    found = report.evaluation
    names = ", ".join(found.ranking(_NORM))
    share = f"the {found.known.mean():.0%} of the targets that the annotations inform".replace("%", " %")
    over = f"All figures are over {share}. " if found.verdict.over_known else ""
    text = (
        f"The registrations {names} were compared with warpgauge {__version__} at {found.targets} targets, by "
        f"{len(found.posterior.annotations)} annotations with their uncertainties [1]. Errors are medians over "
        f"{found.samples} samples of a model of the true transformation (seed {found.seed}); intervals hold 90 % of "
        f"the samples. {over}{found.verdict}"
    )
    hashes = dict(report.hashes)
    hashes |= {f"{role} image": content_hash(image.files[0]) for role, image in
               (("fixed", report.fixed), ("moving", report.moving)) if image is not None and image.files}  # fmt: skip
    hashes |= {key: str(value) for key, value in report.project.items()}
    listed = "\n".join(f"{name}: {value}" for name, value in hashes.items())
    return f"{text}\n\n[1] {_CITATION}.\n\n{listed}\n"
