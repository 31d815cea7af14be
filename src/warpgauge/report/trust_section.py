"""Report sections on trust: calibration, sensitivity of the ranking, and certificates of the raters."""

from __future__ import annotations

import numpy as np

from warpgauge.evaluation.sentences import judged_share
from warpgauge.report import charts
from warpgauge.report.content import Content
from warpgauge.report.html import (
    Cell,
    box,
    chart,
    figure_cell,
    heading,
    number,
    paragraph,
    percent_cell,
    table,
    text_cell,
)
from warpgauge.session.controls import RaterCertificate


def trust_section(content: Content) -> str:
    """Return coverage, residuals, quantiles, factor, outliers and sensitivity."""
    if content.trust is None:
        return paragraph("There is no annotation to test the model with.")
    found = content.trust.diagnostics
    said = "; ".join(f"{one.inside} of {one.count} in the {100 * one.level:.0f} % region" for one in found.coverage)
    rows = [
        (f"{100 * one.level:.0f} %", [Cell(f"{one.inside} of {one.count}", one.inside), percent_cell(one.share),
         percent_cell(one.low), percent_cell(one.high), text_cell("yes" if one.consistent else "no")])
        for one in found.coverage
    ]  # fmt: skip
    parts = [
        box("warning" if found.verdict == "overconfident" else "notice", found.sentence),
        paragraph(
            "That was tested by predicting each annotation from all others: if the model is as sure as it should be, "
            "half of them lie within their 50 % region, and 19 of 20 within their 95 % region."
            + ("" if content.judged is None else f" {judged_share(content.judged)}")
        ),
        table(
            "Leave-one-out coverage with 95 % binomial intervals.",
            ("region", "inside", "share", "interval from", "to", "consistent"),
            rows,
            flagged=frozenset(f"{100 * one.level:.0f} %" for one in found.coverage if not one.consistent),
            name="coverage",
        ),
        paragraph(
            f"Its uncertainties are multiplied by {number(np.sqrt(found.applied_factor))}, as the annotations ask for."
            if found.applied_factor != 1
            else "Its uncertainties are used as they are."
        ),
        '<div class="pair">',
        chart(charts.coverage(found), f"Bars of coverage: {said}.", "Coverage, stated (dashed) and observed."),
        chart(
            charts.residuals(found),
            f"Standardised residuals of {len(found.p)} annotations; "
            f"{int((np.abs(found.standardised) > 1.96).sum())} of {found.standardised.size} beyond 1.96.",
            "Standardised residuals; 95 % should lie in the shaded band.",
        ),
        chart(
            charts.quantiles(found),
            f"Quantile plot of the residual lengths; the largest is {number(float(found.mahalanobis.max()))}.",
            "Lengths of the standardised residuals against those expected: points above the line say that the model is "
            "too sure.",
        ),
        chart(
            charts.components(found),
            "Quantile plot of the components of the standardised residuals against what the model states.",
            "Components of the standardised residuals against what the model states: normal, or Student-t tails.",
        ),
        "</div>",
    ]
    return "".join(parts) + _sensitivity(content)


def _sensitivity(content: Content) -> str:
    tested = None if content.trust is None else content.trust.sensitivity
    if tested is None or len(tested.ranking) < 2:
        return ""
    shown = [one for one in tested.variations if one.kind != "left out" or one.best_changes]
    rows = [
        (one.name, [text_cell(one.ranking[0]), figure_cell(one.spearman), percent_cell(one.kendall_distance),
                    percent_cell(one.lead)])
        for one in shown
    ]  # fmt: skip
    return (
        heading("Ranking sensitivity")
        + paragraph(tested.sentence)
        + table(
            "The ranking under changed assumptions; annotations left out one by one are listed where the best changes.",
            ("change", "best method", "rank correlation", "pairs that change order", "the best still leads with"),
            rows,
            flagged=frozenset(one.name for one in shown if one.best_changes),
            name="sensitivity",
        )
    )


def rater_section(content: Content) -> str:
    """Return a certificate for each rater: bias, scatter and repeatability with 95 % intervals."""
    rows = []
    for name, one in content.raters.items():
        spread = [(one.sd, one.sd_low, one.sd_high), (one.repeat_sd, one.repeat_low, one.repeat_high)]
        rows.append(
            (
                name,
                [
                    Cell(f"{one.inside} of {one.controls}" if one.controls else "-", one.inside),
                    text_cell("-" if one.bias is None else "; ".join(_biases(one))),
                    *(cell for value, low, high in spread for cell in (figure_cell(value), _interval(low, high))),
                    Cell(str(one.repeats), one.repeats),
                ],
            )
        )
    units = content.units
    heads = ("rater", "known matches in the drawn region", f"bias, {units}", f"SD, {units}", "interval",
             f"repeatability SD, {units}", "interval", "repeats")  # fmt: skip
    return paragraph(
        "Control questions have known matches, and raters cannot tell them from the others. The bias is the mean "
        "offset from those matches, the SD the scatter of one mark in one direction about it, and the repeatability "
        "the scatter between two marks of the same place. The verdict does not use the answers to control questions."
    ) + table("Certificates of the raters, with 95 % intervals.", heads, rows, name="raters")


def _biases(one: RaterCertificate) -> list[str]:
    assert one.bias is not None
    assert one.bias_low is not None
    assert one.bias_high is not None
    parts = zip("xyz", one.bias, one.bias_low, one.bias_high, strict=False)
    return [f"{axis} {number(value)} ({number(low)} to {number(high)})" for axis, value, low, high in parts]


def _interval(low: float | None, high: float | None) -> Cell:
    return text_cell("-" if low is None or high is None else f"{number(low)} to {number(high)}")
