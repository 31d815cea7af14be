"""The templates of the pages: part of the package, escaped by default, and refused where a value is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib import resources
from pathlib import Path

import pytest

jinja2 = pytest.importorskip("jinja2")
ROOT = Path(__file__).parents[2]


def names() -> set[str]:
    folder = ROOT / "src" / "warpgauge" / "report" / "templates"
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}


def test_the_installed_package_has_every_template() -> None:
    """Each is found where the program looks for it, and is valid."""
    found = jinja2.Environment(loader=jinja2.PackageLoader("warpgauge.report"), autoescape=True)
    assert set(found.list_templates()) == names() >= {"page.html", "style.css", "leaderboard/sort.js"}
    for name in names():
        found.parse(found.loader.get_source(found, name)[0])
        assert resources.files("warpgauge.report").joinpath("templates", name).is_file()


def test_every_macro_is_used() -> None:
    folder = ROOT / "src" / "warpgauge" / "report" / "templates"
    pages = "".join(path.read_text() for path in folder.rglob("*.html") if path.name != "parts.html")
    for name in re.findall(r"macro (\w+)\(", (folder / "parts.html").read_text()):
        assert f"{{{{ {name}(" in pages


def test_the_wheel_has_every_template(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, capture_output=True, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert {f"warpgauge/report/templates/{name}" for name in names()} <= set(wheel.namelist())


def test_without_the_library_the_error_names_how_to_install_it() -> None:
    code = "import sys; sys.modules['jinja2'] = None\nfrom warpgauge.report.page import rendered; rendered('page.html')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtraError: Reports need the library Jinja2, which is not installed" in done.stderr
    assert "pip install" in done.stderr
