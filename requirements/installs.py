"""``make installs``: install wheel and source distribution from a file, each way that is documented, and use it.

pip, uv and pipx install into environments of their own, and uvx runs the demonstration. A tool that cannot be had here
is said to be missing, not passed over.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from compat import ROOT, bring_uv, environment, run


def ways(folder: Path, wheel: Path, source: Path) -> Iterator[tuple[str, Callable[[], list[tuple[object, ...]]]]]:
    """Yield what is tried, and a function that installs and returns the commands to be run then."""

    def by_pip(file: Path, name: str) -> list[tuple[object, ...]]:
        own = environment(folder / name, file)
        return [(own / "warpgauge", "--version"), (own / "warpgauge", "formats", "--json")]

    def by_uv() -> list[tuple[object, ...]]:
        own = folder / "uv" / ("Scripts" if os.name == "nt" else "bin")
        return [
            ("uv", "venv", "--quiet", "--python", sys.executable, folder / "uv"),
            ("uv", "pip", "install", "--quiet", "--python", own / "python", wheel),
            (own / "warpgauge", "formats", "--json"),
        ]

    def by_pipx() -> list[tuple[object, ...]]:
        own = environment(folder / "pipx", "pipx")
        places = {"PIPX_HOME": "pipx-home", "PIPX_BIN_DIR": "pipx-bin", "PIPX_MAN_DIR": "pipx-man"}
        os.environ.update({name: str(folder / place) for name, place in places.items()})
        return [(own / "pipx", "install", "--quiet", wheel), (folder / "pipx-bin" / "warpgauge", "formats", "--json")]

    def by_uvx() -> list[tuple[object, ...]]:
        return [("uvx", "--from", f"{wheel}[demo]", "warpgauge", "demo", "--out", folder / "demo")]

    yield "pip, wheel", lambda: by_pip(wheel, "pip-wheel")
    yield "pip, source distribution", lambda: by_pip(source, "pip-source")
    yield "uv, wheel", by_uv
    yield "pipx, wheel", by_pipx
    yield "uvx, demo", by_uvx


def main(only: list[str]) -> int:
    """Try every way, or those whose name holds one of the words; return 1 if one failed."""
    failed = False
    with tempfile.TemporaryDirectory(prefix="warpgauge-installs-") as name:
        folder = Path(name)
        bring_uv(folder)
        built = run("uv", "build", "--quiet", "--out-dir", folder, ROOT)
        if built.returncode:
            print(f"wheel and source distribution cannot be built: {built.stderr.strip()[-400:]}")
            return 1
        wheel, source = next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))
        for way, prepared in ways(folder, wheel, source):
            if only and not any(word in way for word in only):
                continue
            said = "passed"
            try:
                for command in prepared():
                    if (done := run(*command)).returncode:
                        said = f"failed: {' '.join(map(str, command))[:120]}: {done.stderr.strip()[-300:]}"
                        break
            except (RuntimeError, OSError) as error:
                said = f"failed: {error}"
            failed |= said != "passed"
            print(f"{way:25} {said}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
