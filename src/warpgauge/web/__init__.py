"""The annotator in the browser: a server for one project, and the page that it serves.

Needs the extra ``web``.
"""

from __future__ import annotations

from warpgauge.errors import MissingExtraError, install_advice

try:
    from warpgauge.web.app import create_app
    from warpgauge.web.links import Link
    from warpgauge.web.server import Launch, prepare, serve
    from warpgauge.web.settings import ServerSettings
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("fastapi", "starlette", "uvicorn", "pydantic"):
        raise
    raise MissingExtraError(
        f"The annotator needs {error.name}, which is not installed; {install_advice('web')}."
    ) from error

__all__ = ["Launch", "Link", "ServerSettings", "create_app", "prepare", "serve"]
