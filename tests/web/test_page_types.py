"""The page's types of the wire format are those of the server's models."""

from __future__ import annotations

from importlib import resources

from warpgauge.web.page_types import declarations


def test_the_types_are_generated_from_the_models() -> None:
    """If this fails: python -m warpgauge.web.page_types > src/warpgauge/web/static/wire.d.ts."""
    assert (resources.files("warpgauge.web") / "static" / "wire.d.ts").read_text() == declarations()


def test_a_type_says_what_may_be_missing() -> None:
    """What the page gets is complete; what it sends may leave out what has a default; literals and unions are kept."""
    types = dict(line.removeprefix("export type ").split(" = ") for line in declarations().splitlines()[1:])
    assert "done: true;" in types["DoneAnswer"]
    assert 'role: "rater" | "organiser";' in types["ProjectAnswer"]
    assert "point: number[] | null" in types["LinkedAnswer"]
    assert "confirmed?: boolean;" in types["PlaceRequest"]
    assert "point: number[];" in types["PlaceRequest"]
