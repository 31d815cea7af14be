"""The page from an installed wheel: every file that it loads is in there, it works, and no other host is asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from web.page_tools import Sheet, launched
from web.server_tools import make_flat

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "warpgauge" / "web" / "static"
_MAIN = """
import sys
import warpgauge.web
from warpgauge.web import serve
assert warpgauge.__file__.startswith(sys.argv[2]), warpgauge.__file__
serve(sys.argv[1], open_browser=False, echo=lambda line: print(line, flush=True))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the sources, built by the project's own build backend."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, str(folder)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the wheel's content."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_every_file_of_the_page_and_all_that_they_name_is_in_the_wheel(wheel: Path) -> None:
    """All modules, reached from the page by src, href, import and import(), are in the wheel as they are in git."""
    with zipfile.ZipFile(wheel) as archive:
        found = {
            name.rpartition("static/")[2]: archive.read(name)
            for name in archive.namelist()
            if name.startswith("warpgauge/web/static/")
        }
    for path in STATIC.iterdir():
        if path.suffix in (".js", ".css", ".html", ".svg"):
            assert found[path.name] == path.read_bytes(), path.name
    reached: set[str] = set()
    waiting = ["index.html", "pairs.html"]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        text = found[name].decode()
        waiting += [one.removeprefix("/static/") for one in re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", text)]
        waiting += re.findall(
            r"(?:^import[^;\"]*?|^export[^;\"]*? from |\bimport\()\"\./([^\"]+)\"", text, re.MULTILINE
        )
    page = {
        name for name in found if name.endswith((".js", ".css", ".html", ".svg")) and not name.startswith("vendor/")
    }
    assert reached - page <= set(found), "nothing missing"
    assert page <= reached, "nothing unused"


@pytest.mark.parametrize(("file", "first"), [("index.html", "app.js"), ("pairs.html", "pairs.js")])
def test_the_list_of_modules_that_are_loaded_ahead_is_that_of_the_imports(file: str, first: str) -> None:
    """A page preloads exactly the modules that its first one imports, directly or not, and none that come later."""
    imported: set[str] = set()
    waiting = [first]
    while waiting:
        name = waiting.pop()
        if name not in imported:
            imported.add(name)
            waiting += re.findall(r"^import\s[^;]*?from \"\./([^\"]+)\";", (STATIC / name).read_text(), re.MULTILINE)
    page = (STATIC / file).read_text()
    ahead = re.findall(r"rel=\"modulepreload\" href=\"/static/([^\"]+)\"", page)
    assert sorted(ahead) == sorted(imported - {first})


@pytest.fixture(scope="module")
def served_from_wheel(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that runs from that folder; gives its link."""
    project = make_flat(tmp_path_factory.mktemp("project") / "flat")
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _MAIN, str(project), str(installed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=installed)
    assert process.stdout is not None
    link = ""
    for line in process.stdout:
        if line.startswith("The annotator is at"):
            link = line.split()[4]
        if line.startswith("Press Ctrl-C"):
            break
    try:
        assert link, "the server did not start from the wheel"
        yield link
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def test_the_page_works_from_the_wheel_and_asks_no_other_host(served_from_wheel: str) -> None:
    """A query is answered, every panel opened; all that was asked came from this server, and all of it was there."""
    with launched() as browser:
        sheet = Sheet(browser, "about:blank")
        missing: list[str] = []
        sheet.page.on("response", lambda reply: reply.status >= 400 and missing.append(reply.url))
        # A fresh installation compiles its kernels at the first answer, which takes long on a busy machine.
        sheet.page.set_default_timeout(180_000)
        sheet.page.goto(served_from_wheel)
        sheet.wait_for_query(1)
        page = sheet.page
        page.locator("#organiser-button").click()
        page.wait_for_selector("#drawer [data-act=invite]")
        page.locator("#organiser-button").click()
        sheet.settle()  # the question is read again
        sheet.press_at("moving", 200, 200)
        sheet.accept()
        for leaf in ("list", "progress", "compare"):
            if page.locator("#drawer").is_hidden():
                page.locator("[data-command=drawer]").click()
            page.locator(f"button[data-leaf={leaf}]").click()
            sheet.settle()
        page.keyboard.press("?")
        page.locator("dialog#keys[open]").wait_for()
        own = urlsplit(served_from_wheel)
        hosts = {urlsplit(url).netloc for url in sheet.requests if urlsplit(url).scheme.startswith(("http", "ws"))}
        assert hosts == {own.netloc}
        assert missing == []
        assert sheet.problems == []
        loaded = {urlsplit(url).path.rpartition("/")[2] for url in sheet.requests if "/static/" in url}
        elsewhere = {"pairs.js"}  # the page of many projects
        assert {path.name for path in STATIC.glob("*.js")} - elsewhere <= loaded
        sheet.close()


def test_a_second_visit_asks_for_no_file_of_the_page_again(served_from_wheel: str) -> None:
    """Their addresses carry the version of their content, so that the browser keeps them."""
    with launched() as browser:
        sheet = Sheet(browser, served_from_wheel)
        sheet.wait_for_query()
        tab = sheet.second_tab(served_from_wheel.partition("?")[0])
        tab.wait_for_query()
        sizes = tab.page.evaluate(
            "() => performance.getEntriesByType('resource').filter(e => /static.*js$/.test(e.name))"
            ".map(e => e.transferSize)"
        )
        assert len(sizes) > 30
        assert set(sizes) == {0}
        sheet.close()
