"""``make compat``: install the wheel with the lowest and the newest versions of its dependencies, on every Python.

For each combination an environment of its own is made with uv; then the contract of public names, a short tour of the
command line and a small demonstration are run there. A Python that cannot be had here is said to be missing, not
passed over. The table that is printed says what was tested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
EXTRAS = "images,saliency,report,web,tables"
TESTS = ("tests/test_contract.py", "tests/cli/test_formats.py", "tests/io/test_transforms_programs.py")
TOUR = (("--help",), ("formats", "--json"), ("--version",))


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it prints."""
    words = [str(one) for one in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, **options)  # type: ignore[call-overload,no-any-return]


def environment(folder: Path, *packages: object) -> Path:
    """Return the programs of a new environment with these packages, installed by pip; raise what pip said."""
    made = run(sys.executable, "-m", "venv", "--clear", folder)
    own = folder / ("Scripts" if os.name == "nt" else "bin")
    for done in (made, run(own / "python", "-m", "pip", "install", "--quiet", *packages)):
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-300:])
    return own


def bring_uv(folder: Path) -> None:
    """Let the commands that follow find uv: where it is not installed, in an environment of its own in the folder."""
    if shutil.which("uv") is None:
        os.environ["PATH"] = os.pathsep.join([str(environment(folder / "tools", "uv")), os.environ["PATH"]])


def tried(python: str, resolution: str, folder: Path, wheel: Path) -> str:
    """Return "passed", or what failed or is missing, in a few words."""
    place = folder / f"{python}-{resolution}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    known = [python, *sorted(pyenv.glob(f"{python}.*/bin/python"))]
    if all(run("uv", "venv", "--quiet", "--python", one, place).returncode for one in known):
        return "not tested: this Python cannot be had here"
    own = place / ("Scripts" if os.name == "nt" else "bin")
    packages = (f"{wheel}[{EXTRAS}]", "pytest>=8.3", "hypothesis>=6.100")
    options = ("--quiet", "--python", own / "python", "--resolution", RESOLUTIONS[resolution])
    installed = run("uv", "pip", "install", *options, *packages)
    if installed.returncode:
        return f"not installed: {installed.stderr.strip().splitlines()[-1][:160]}"
    for words in TOUR:
        if run(own / "warpgauge", *words).returncode:
            return f"failed: warpgauge {' '.join(words)}"
    environment = {**os.environ, "PYTHONPATH": "tests"}
    done = run(
        own / "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--noconftest",
        "-W",
        "default",
        *TESTS,
        env=environment,
    )
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-160:]]
    named = [line.removeprefix("FAILED ")[:160] for line in lines if line.startswith("FAILED ")]
    return "; ".join([f"{'passed' if done.returncode == 0 else 'failed'}: {lines[-1][:160]}", *named])


def main(pythons: list[str]) -> int:
    """Try every combination; return 1 if one that could be installed failed."""
    failed = False
    with tempfile.TemporaryDirectory(prefix="warpgauge-compat-") as name:
        folder = Path(name)
        bring_uv(folder)
        built = run("uv", "build", "--quiet", "--wheel", "--out-dir", folder, ROOT)
        wheels = list(folder.glob("*.whl"))
        if not wheels:
            print(f"the wheel cannot be built: {built.stderr.strip()[-400:]}")
            return 1
        for python in pythons or PYTHONS:
            for resolution in RESOLUTIONS:
                found = tried(python, resolution, folder, wheels[0])
                failed |= found.startswith(("failed", "not installed"))
                print(f"Python {python:5} {resolution:7} {found}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
