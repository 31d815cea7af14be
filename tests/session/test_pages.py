"""The pages on projects and sessions: their examples run as printed, and they know every setting and event."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from warpgauge.project import Settings
from warpgauge.project.events import KINDS

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.mark.parametrize("page", ["project.md", "session.md"])
def test_examples_run_as_printed(page: str) -> None:
    """Nothing is shown that does not happen."""
    results = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 5
    assert results.failed == 0


def test_every_event_is_described() -> None:
    """A new kind of event needs a line in the table."""
    text = (DOCS / "project.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []


def test_every_setting_is_described() -> None:
    """A new setting needs a line in the table."""
    text = (DOCS / "session.md").read_text() + (DOCS / "project.md").read_text()
    assert [name for name in Settings.model_fields if f"| `{name}`" not in text] == []
