"""The tutorials, run as their readers run them."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from tutorial_tools import PAGES, Page, blocks, check, commands

NAMES = ("researcher", "expert", "organiser")
LARGEST = 200_000  # bytes of a picture


@pytest.mark.parametrize("name", NAMES)
def test_every_command_prints_what_the_page_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, from the first line to the last, with nothing but what the page itself makes."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Page(PAGES / f"{name}.md", tmp_path).run() >= 5


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_there_small_and_said_to_be_made_by_a_command(name: str) -> None:
    """Each picture is a file of at most 200 kB, and has a text for those who do not see it."""
    found = re.findall(r"!\[(.+?)\]\((.+?)\)", (PAGES / f"{name}.md").read_text("utf-8"))
    assert found
    for text, link in found:
        picture = (PAGES / link).resolve()
        assert text
        assert picture.read_bytes()[:4] == b"\x89PNG"
        assert picture.stat().st_size <= LARGEST, link


def test_every_block_of_a_page_is_run() -> None:
    """All console and python blocks are found, whatever stands before them; other kinds are only shown."""
    for name in NAMES:
        text = (PAGES / f"{name}.md").read_text("utf-8")
        assert len([one for one in blocks(PAGES / f"{name}.md") if one.file is None]) == len(
            re.findall(r"^```(?:console|python)$", text, re.M)
        )


def test_comparing_can_fail() -> None:
    """A wrong word, a missing line and a number too far off are found; folding, dots and small differences are not."""
    check("best: b with 0.97\nrest\n", "best: b\nwith 0.97 ...", 0, "")
    check("score 2.10 px", "score 2.00 px", 0.1, "")
    for printed, expected, vary in (
        ("best: a", "best: b", 0),
        ("one\ntwo", "one", 0),
        ("score 2.10 px", "score 2.00 px", 0),
        ("score 2.60 px", "score 2.00 px", 0.1),
    ):
        with pytest.raises(AssertionError):
            check(printed, expected, vary, "")


def test_commands_are_split_from_what_they_print() -> None:
    """A backslash continues a command; everything up to the next one is its output."""
    assert commands("$ a b \\\n    c\nout\n\nmore\n$ d\n") == [("a b c", "out\n\nmore"), ("d", "")]
