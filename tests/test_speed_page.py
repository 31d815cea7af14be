"""The page about speed is what its command makes of the benchmarks' JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_page_about_speed_is_made_from_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails: python benchmarks/speed_page.py docs/speed.json."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import speed_page

    result = json.loads((ROOT / "docs" / "speed.json").read_text("utf-8"))
    text = (ROOT / "docs" / "speed.md").read_text("utf-8")
    assert text == speed_page.page(result)
    for row in result["rows"]:
        assert row["work"] in text
    pictures = re.findall(r"\(images/(speed-growth-\d+\.svg)\)", text)
    assert len(pictures) == len(result["curves"]) > 0
    assert all((ROOT / "docs" / "images" / name).is_file() for name in pictures)
