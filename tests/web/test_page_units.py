"""The page's own checks: its geometry under node, its types under the TypeScript compiler, its files as one list."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "warpgauge" / "web" / "static"


def needed(command: str, package: str) -> str:
    """Return the path of a program; without it, fail in CI and skip elsewhere."""
    found = shutil.which(command)
    if found is None:
        reason = f"{command} is not installed (Debian: apt-get install {package}); the page's modules cannot be checked"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def test_geometry_gestures_state_and_pictures_under_node() -> None:
    """The unit tests of the page's pure functions pass."""
    node = needed("node", "nodejs")
    files = sorted(str(path) for path in (ROOT / "tests" / "web" / "page").glob("*.test.js"))
    assert len(files) >= 6
    done = subprocess.run([node, "--test", *files], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"^# pass [1-9]", done.stdout, re.MULTILINE) or "pass" in done.stdout


def test_types_are_strictly_right() -> None:
    """The TypeScript compiler, in its strict mode, has nothing to say about the modules."""
    compiler = ROOT / "node_modules" / "typescript" / "bin" / "tsc"
    node = needed("node", "nodejs")
    if not compiler.exists():
        if not os.environ.get("CI"):
            pytest.skip("TypeScript is not installed: npm install --no-package-lock")
        npm = needed("npm", "npm")
        subprocess.run([npm, "install", "--no-package-lock", "--no-audit", "--no-fund"], check=True, cwd=ROOT)
    done = subprocess.run([node, str(compiler), "-p", str(STATIC)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_modules_import_only_what_stands_beside_them_and_no_other_host_is_named() -> None:
    """Everything that the page loads stands beside it; nothing comes from elsewhere; no inline script or style."""
    names = {str(path.relative_to(STATIC)) for path in STATIC.rglob("*")}
    for path in STATIC.glob("*.js"):
        text = path.read_text()
        for found in re.findall(r"^(?:import|export)[^;]*? from \"([^\"]+)\"", text, re.MULTILINE):
            assert found.startswith("./"), (path.name, found)
            assert found[2:] in names, (path.name, found)
        hosts = set(re.findall(r"https?://[^\"'` )]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not hosts, (path.name, hosts)
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"\son\w+=|style=|<style|<script(?![^>]*\bsrc=)", page)
    for found in re.findall(r"(?:src|href)=\"([^\"]+)\"", page):
        assert found == "/api/project" or found.removeprefix("/static/") in names, found


def test_the_vendored_file_is_the_one_of_its_release() -> None:
    """Preact with htm 3.1.1 is taken as it is, byte for byte, and both licences stand beside it."""
    vendor = STATIC / "vendor"
    digest = hashlib.sha256((vendor / "preact-htm.js").read_bytes()).hexdigest()
    assert digest == "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7"
    assert "Apache License" in (vendor / "LICENSE-htm.txt").read_text()
    assert "MIT License" in (vendor / "LICENSE-preact.txt").read_text()
