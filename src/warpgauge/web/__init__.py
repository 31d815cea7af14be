"""The annotator in the browser: a server for the pairs of a place, and the pages that it serves.

Needs the extra ``web``.
"""

from __future__ import annotations

from warpgauge.errors import MissingExtraError, install_advice

try:
    from warpgauge.web.server import Launch, prepare, serve
    from warpgauge.web.settings import ServerSettings
    from warpgauge.web.site import Site, create_app
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("fastapi", "starlette", "uvicorn", "pydantic"):
        raise
    raise MissingExtraError(
        f"The annotator needs {error.name}, which is not installed; {install_advice('web')}."
    ) from error

__all__ = ["Launch", "ServerSettings", "Site", "create_app", "prepare", "serve"]
