"""Report section on the raters: what control questions and repeats say about each."""

from __future__ import annotations

from warpgauge.report.content import Content
from warpgauge.report.html import Cell, figure_cell, number, paragraph, table, text_cell
from warpgauge.session.controls import RaterCertificate


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
