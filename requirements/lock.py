"""Hashes of the locked versions: ``python requirements/lock.py`` writes them, ``--check`` says whether they fit.

Run it with the Python of the environment that ``dev.txt`` was made from: ``server.txt``, what the image of deploy/
installs, is the part of ``dev.txt`` that the extras of `SERVER` need there.

For each ``NAME.txt`` with pinned versions this makes ``NAME.hashes.txt``: the same pins, each with the SHA-256 of every
file that the index has of that version, so that the lock holds on every system. The index is the one that pip uses.
"""

from __future__ import annotations

import os
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LOCKS = ("dev", "audit", "server")
# Extras of the server's image, and what builds the wheel in it.
SERVER = "images,zarr,dicom,saliency,report,web,postgres,metrics"
BUILDS = ("hatchling",)
_FILE = re.compile(r"sha256=([0-9a-f]{64})[^>]*>\s*([^<]+?)\s*<")


def pins(file: Path) -> list[str]:
    """Return the pinned versions of a lock, as NAME==VERSION."""
    lines = [line.split(" ")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if "==" in line and not line.startswith(("#", "-"))]


def write_server() -> None:
    """Write the part of dev.txt that the server needs."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    wanted: set[str] = set()
    waiting = [Requirement(f"warpgauge[{SERVER}]"), *(Requirement(name) for name in BUILDS)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        wanted.add(name)
        for extra in ("", *one.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            needs = (Requirement(text) for text in metadata.requires(one.name) or [])
            waiting += [need for need in needs if need.marker is None or need.marker.evaluate({"extra": extra})]
    lines = [pin for pin in pins(FOLDER / "dev.txt") if canonicalize_name(pin.split("==")[0]) in wanted]
    head = f"# What warpgauge[{SERVER}] needs of dev.txt, for deploy/Dockerfile; made by requirements/lock.py."
    (FOLDER / "server.txt").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def hashes(pin: str) -> list[str]:
    """Return the hashes of all files of one version."""
    from pip._internal.models.index import PyPI

    name, version = pin.split("==")
    index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
    address = f"{index}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    with urllib.request.urlopen(urllib.request.Request(address, headers={"Accept": "text/html"}), timeout=60) as page:
        found = _FILE.findall(page.read().decode("utf-8"))
    own = re.compile(rf".+?-{re.escape(version)}(-.*\.whl|\.tar\.gz|\.zip)", re.IGNORECASE)
    return sorted({digest for digest, file in found if own.fullmatch(file)})


def write(lock: str) -> None:
    """Write the hashes of one lock."""
    wanted = pins(FOLDER / f"{lock}.txt")
    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(wanted, pool.map(hashes, wanted), strict=True))
    missing = [pin for pin, digests in found.items() if not digests]
    if missing:
        sys.exit(f"the index has no file of {', '.join(missing)}")
    lines = [f"# {lock}.txt with the hashes of all files; made by requirements/lock.py."]
    for pin, digests in found.items():
        lines.append(" \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in digests)]))
    (FOLDER / f"{lock}.hashes.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def fits(lock: str) -> bool:
    """Return whether the hashes are those of the pinned versions."""
    hashed = FOLDER / f"{lock}.hashes.txt"
    return hashed.is_file() and pins(hashed) == pins(FOLDER / f"{lock}.txt")


def main() -> None:
    """Write all hashes, or check them."""
    if "--check" in sys.argv:
        late = [lock for lock in LOCKS if not fits(lock)]
        if late:
            sys.exit(f"requirements/{late[0]}.hashes.txt does not fit its lock: run python requirements/lock.py")
        return
    write_server()
    for lock in LOCKS:
        write(lock)


if __name__ == "__main__":
    main()
