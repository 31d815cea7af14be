"""The documentation builds without a warning, needs no other host, and describes every public name once."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "project",
    "session",
    "evaluation",
    "study",
    "report",
    "maps",
    "simulate",
    "demo",
    "core",
    "io",
    "registration",
    "candidates",
    "io.images",
    "io.landmarks",
    "io.transforms",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the pages as ``make docs`` does, in a process of their own."""
    out = tmp_path_factory.mktemp("docs") / "html"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-b", "html", ROOT / "docs", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return out


def described(built: Path) -> set[str]:
    """Read the names that the pages describe from Sphinx's own inventory: four lines of text, then zlib."""
    content = (built / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(content).decode().splitlines()
    return {line.split(" ")[0] for line in lines if re.match(r"\S+ py:", line)}


def test_every_public_name_is_described(built: Path) -> None:
    """Every name of ``warpgauge.__all__`` and of the packages that users call, each at one place."""
    known = described(built)
    top = set(importlib.import_module("warpgauge").__all__) - {"__version__"}
    assert {f"warpgauge.{name}" for name in top} <= known
    for package in PACKAGES:
        module = importlib.import_module(f"warpgauge.{package}")
        for name in module.__all__:
            full = f"warpgauge.{package}.{name}"
            documented = isinstance(getattr(module, name), type) or callable(getattr(module, name))
            if name in top:
                assert full not in known, f"{full} is described twice"
            elif documented:
                assert full in known, f"{full} is not described"


def test_nothing_is_fetched_from_another_host(built: Path) -> None:
    """No script, style, font or picture of any page has the address of another host; links may."""
    loads = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=[\"'](?:https?:)?//", re.I)
    for page in built.rglob("*.html"):
        assert not loads.search(page.read_text("utf-8")), page.name
    for style in built.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", style.read_text("utf-8")), style.name


def test_mathematics_is_drawn_by_the_browser_itself(built: Path) -> None:
    """Formulas are MathML; none is left as TeX."""
    page = (built / "conventions.html").read_text("utf-8")
    assert page.count("<math") > 20
    assert "\\mathcal" not in page


def test_every_page_is_reached_from_the_contents(built: Path) -> None:
    """Each Markdown file under docs became a page, and the contents link to it; one is a part of another page."""
    contents = (built / "index.html").read_text("utf-8")
    for source in {*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "generated" / "formats.md"}:
        name = source.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (built / name).is_file()
        assert name == "index.html" or f'href="{name}"' in contents, name
