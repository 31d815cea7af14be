"""The page's files: a fixed list of package resources, read once; no path of a request reaches the file system."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
_LEFT_OUT = ("node_modules", "__pycache__")


@dataclass(frozen=True)
class PageFile:
    """A file of the page."""

    content: bytes
    media_type: str
    etag: str


def page_files() -> dict[str, PageFile]:
    """Read all files of the page, by their path below ``static`` with ``/``."""
    return dict(_files(resources.files("warpgauge.web") / "static", ""))


def version_of(files: Mapping[str, PageFile]) -> str:
    """Name the present content of all files together."""
    text = "\n".join(f"{name} {file.etag}" for name, file in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, PageFile]]:
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.is_dir():
            if entry.name not in _LEFT_OUT:
                yield from _files(entry, f"{prefix}{entry.name}/")
            continue
        media_type = _TYPES.get("." + entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            yield (
                f"{prefix}{entry.name}",
                PageFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"'),
            )
