"""The page on image formats is executed, and names every format."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from warpgauge.io.images.reader import _NAMES

PAGE = Path(__file__).parents[2] / "docs" / "formats-images.md"


def test_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every example gives what the page says."""
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted > 5
    assert result.failed == 0


def test_every_format_is_documented():
    """Each format that is read has a row, with the names of its files."""
    rows = {line.split("|")[1].strip(): line for line in PAGE.read_text(encoding="utf-8").splitlines() if "|" in line}
    for name, endings in _NAMES.items():
        assert name in rows
        for ending in endings:
            assert name == "DICOM" or f"`{ending}`" in rows[name] or ending.endswith(("r.gz", "g.gz")), ending
    assert {"OME-TIFF", "OME-Zarr"} <= set(rows)
