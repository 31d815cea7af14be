"""The pages on landmark formats and candidates are executed."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["formats-landmarks.md", "candidates.md"])
def test_examples_of_the_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example gives what the page says."""
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert result.attempted > 5
    assert result.failed == 0


def test_every_format_is_documented() -> None:
    """A format that can be read stands in the table."""
    from warpgauge.io.landmarks import FORMAT_NAMES

    text = (DOCS / "formats-landmarks.md").read_text(encoding="utf-8")
    assert [name for name in FORMAT_NAMES if f"| `{name}` |" not in text] == []
