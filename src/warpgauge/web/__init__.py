"""The annotator in the browser: a server for one project or many, and the pages that it serves.

Needs the extra ``web``.
"""

from __future__ import annotations

from warpgauge.errors import MissingExtraError, install_advice

try:
    from warpgauge.web.app import create_app
    from warpgauge.web.links import Link
    from warpgauge.web.server import Launch, prepare, prepare_site, serve, serve_many
    from warpgauge.web.settings import ServerSettings
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("fastapi", "starlette", "uvicorn", "pydantic"):
        raise
    raise MissingExtraError(
        f"The annotator needs {error.name}, which is not installed; {install_advice('web')}."
    ) from error

__all__ = ["Launch", "Link", "ServerSettings", "create_app", "prepare", "prepare_site", "serve", "serve_many"]
