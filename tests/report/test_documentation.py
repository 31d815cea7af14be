"""The pages on maps and the report run as printed."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["docs/maps.md", "docs/report.md"])
def test_examples_run_as_printed(page: str) -> None:
    results = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 5
    assert results.failed == 0
