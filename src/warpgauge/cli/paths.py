"""Arguments that name an image: a file or folder that exists, or an address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warpgauge.io.stores import Place, RemotePath, is_url


class ImagePath(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.4
    """A path that exists, or an address (``s3://``, ``https://``) of an OME-Zarr image."""

    name = "path or address"
    _file = click.Path(exists=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """Return a path or a remote one; what neither is ends the command with a sentence."""
        if isinstance(value, RemotePath) or is_url(value):
            return value if isinstance(value, RemotePath) else RemotePath(value)
        found: Path = self._file.convert(value, param, ctx)
        return found
