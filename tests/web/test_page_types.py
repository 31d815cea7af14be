"""The page's types of the wire format are those of the server's models."""

from __future__ import annotations

from importlib import resources

from warpgauge.web.page_types import javascript


def test_the_types_are_generated_from_the_models() -> None:
    """If this fails: python -m warpgauge.web.page_types > src/warpgauge/web/static/wire.js."""
    assert (resources.files("warpgauge.web") / "static" / "wire.js").read_text() == javascript()


def test_a_type_says_what_may_be_missing() -> None:
    """What the page gets is complete; what it sends may leave out what has a default; literals and unions are kept."""
    text = javascript()
    assert " * @property {true} done\n" in text
    assert ' * @property {"rater" | "organiser"} role' in text
    assert " * @property {(number[] | null)[]} points" in text
    place = text.split("@typedef {object} PlaceRequest")[1].split("*/")[0]
    assert "{boolean} [confirmed]" in place
    assert "{number[]} point" in place
