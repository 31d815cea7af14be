"""The files around the sources: what they name exists, and nothing contradicts the README."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from warpgauge import __version__

ROOT = Path(__file__).parent.parent
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text())
README = (ROOT / "README.md").read_text()


def test_nothing_advises_to_install_what_is_not_published() -> None:
    """From a clone `pip install ".[all]"` works; `pip install warpgauge[...]` would not."""
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.py"),
    ]
    for page in pages:
        assert not re.search(r'pip install "?warpgauge', page.read_text("utf-8")), page


def test_the_citation_names_the_paper_and_the_licence_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == METADATA["project"]["license"]
    assert citation["title"] == METADATA["project"]["name"]
    assert citation["preferred-citation"]["title"] in " ".join(README.split())
    assert citation["preferred-citation"]["url"] == METADATA["project"]["urls"]["Paper"]


def test_the_lock_holds_every_requirement_by_hash_and_names_no_index() -> None:
    """Everything that the package, its extras and the development groups ask for."""
    text = (ROOT / "requirements" / "dev.txt").read_text()
    assert "://" not in text
    assert "index-url" not in text
    pins = [entry for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]
    assert all(re.match(r"[\w.-]+==\S+ \\\n +--hash=sha256:[0-9a-f]{64}", pin) for pin in pins)
    project, groups = METADATA["project"], METADATA["dependency-groups"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(one for name in extras for one in extras[name])]
    asked += [one for group in groups.values() for one in group if isinstance(one, str)]
    wanted = {_plain(one) for one in asked} - {"warpgauge"}
    apart = {_plain(one) for name in ("elastix",) for one in extras[name]}
    assert wanted - apart <= {_plain(pin) for pin in pins}


def _plain(requirement: str) -> str:
    return re.split(r"[=<>\[ ]", requirement)[0].lower().replace("_", "-")


def test_the_image_is_fixed_and_runs_as_an_ordinary_user() -> None:
    """Base by its digest, packages at the versions of the lock, and no project is trusted by itself."""
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    (base,) = re.findall(r"^FROM (\S+)", text, re.M)
    assert re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", base)
    assert re.findall(r"^USER (\d+)", text, re.M) == ["10001"]
    assert all("--constraint pins.txt" in one for one in re.findall(r"pip install ([^&]*)", text))
    assert "WARPGAUGE_TRUST" not in text
    copied = [word for line in re.findall(r"^COPY (.*) \S+$", text, re.M) for word in line.split()]
    assert all((ROOT / source).exists() for source in copied)


def test_what_other_tests_skip_is_run_by_the_integrations() -> None:
    """A test that needs ITK or ANTs is skipped by make test, so make integrations names it, or its file."""
    named = (ROOT / "Makefile").read_text().split("\nintegrations:")[1].split("\n\n")[0]
    found = 0
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        users = [one for one in tree.body if isinstance(one, ast.FunctionDef) and _calls(one, "need")]
        fixtures = {one.name for one in users if not one.name.startswith("test_")}
        for one in tree.body:
            if not isinstance(one, ast.FunctionDef) or not one.name.startswith("test_"):
                continue
            if one in users or fixtures & {argument.arg for argument in one.args.args}:
                found += 1
                file = path.relative_to(ROOT).as_posix()
                assert re.search(rf"{re.escape(file)}(::{one.name})?\s", named), f"{file}::{one.name}"
    assert found >= 6


def _calls(function: ast.FunctionDef, name: str) -> bool:
    called = (one.func for one in ast.walk(function) if isinstance(one, ast.Call))
    return any(isinstance(one, ast.Name) and one.id == name for one in called)


def test_the_source_distribution_holds_what_its_tests_read_and_nothing_else(tmp_path: Path) -> None:
    """All files of the repository but the settings of its host's runner; no environment, data or output."""
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are not in a repository")

    def files(*kinds: str) -> set[str]:
        command = ["git", "-c", "safe.directory=*", "ls-files", "--exclude-standard", *kinds]
        return set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines())

    build = "import sys; from hatchling.build import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert packed - files("--cached", "--others") == {"PKG-INFO"}
    assert {name.partition("/")[0] for name in files("--cached") - packed} == {".ci", ".dockerignore"}


def test_the_wheel_holds_the_package_and_not_the_studies(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, capture_output=True, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        packed = archive.namelist()
    assert {name.partition("/")[0] for name in packed} == {"warpgauge", f"warpgauge-{__version__}.dist-info"}
    assert "warpgauge/core/process.py" in packed
    assert "registration_sets.py" not in {name.rpartition("/")[2] for name in packed}


def test_every_defect_that_is_tried_stands_in_the_table_of_the_tests() -> None:
    """tests/README.md says which test finds which defect; ``make mutants`` proves it."""
    tests = ROOT / "tests"
    table = (tests / "README.md").read_text("utf-8")
    for defect in tomllib.loads((tests / "mutants.toml").read_text("utf-8")).values():
        assert f"| {defect['what']} |" in table
        assert all((tests / one.partition("::")[0]).exists() for one in defect["tests"])


def test_one_version_everywhere() -> None:
    """Package, citation and the changelog's newest entry, which is dated unless it is to be released."""
    newest = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert newest is not None
    assert newest[1] in ("Unreleased", f"{__version__} ({citation['date-released']})")
