"""The annotator inside a notebook's cell: a server in this process, and a frame that shows its page.

On this machine the frame shows the server's own address. Where only Jupyter's own port is reachable, as behind
JupyterHub, a link leads through ``jupyter-server-proxy`` to a tab of its own.
"""

from __future__ import annotations

import atexit
import gzip
import os
import socket
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpgauge.core.annotations import Annotations
from warpgauge.errors import InvalidInputError, WarpgaugeWarning
from warpgauge.geometry import Units
from warpgauge.io.images.array_files import nrrd_header
from warpgauge.io.landmarks import Landmarks
from warpgauge.project import Project
from warpgauge.report.compared import array_grid
from warpgauge.session import Session
from warpgauge.session.seals import sealed_answers
from warpgauge.web.server import Launch, prepare

_IN_A_HUB = "JUPYTERHUB_SERVICE_PREFIX"
_PUBLIC = "JUPYTERHUB_PUBLIC_URL"
# A browser keeps the cookies of localhost and 127.0.0.1 apart: the frame takes the name that the notebook's page has.
_LINK = '<p><a href="{url}" target="_blank" rel="noopener">Open the annotator in a tab of its own</a></p>'
_FRAME = """<iframe id="{name}" src="{url}" style="width:100%;height:{height}px;border:1px solid #888"
 allow="fullscreen"></iframe>
{link}
<script>(() => {{ const frame = document.getElementById("{name}");
 if (location.hostname === "localhost" && frame.src.startsWith("http://127.0.0.1:"))
 frame.src = frame.src.replace("//127.0.0.1:", "//localhost:"); }})()</script>"""


class Annotator:
    """The annotator's page in a cell, and what was annotated there."""

    def __init__(self, project: Project, launch: Launch, height: int) -> None:
        self.project = project
        self._launch, self._height = launch, height
        self._thread = threading.Thread(target=launch.run, daemon=True, name="warpgauge annotator")
        self._thread.start()
        atexit.register(self.stop)

    @property
    def url(self) -> str:
        """Address of the page, with the token that opens it."""
        return self._launch.links[0].url

    def annotations(self) -> Annotations:
        """Return what has been annotated until now, raters fused, as the model uses it; sealed answers do not count."""
        return self._session().annotations()

    def landmarks(self) -> Landmarks:
        """Return all current marks and skips; sealed answers do not count."""
        return self._session().landmarks()

    def _session(self) -> Session:
        count = sealed_answers(self.project.state)
        if count:
            warnings.warn(
                f"{count} of the answers {'is' if count == 1 else 'are'} sealed and left out: once all registrations "
                f"are added, warpgauge unseal opens sealed answers for a verdict.",
                WarpgaugeWarning,
                stacklevel=3,
            )
        return Session(self.project)

    def stop(self) -> None:
        """End the server; everything that was saved is kept."""
        self._launch.stop()
        self._thread.join(timeout=10)

    def _repr_html_(self) -> str:
        link = _LINK.format(url=self.url)
        if self._launch.site.settings.public is not None:
            return link
        name = f"warpgauge-{self._launch.socket.getsockname()[1]}" if self._thread.is_alive() else "warpgauge"
        return _FRAME.format(name=name, url=self.url, height=self._height, link=link)

    def __repr__(self) -> str:
        return f"<Annotator of {self.project.folder.name!r}>"


def annotate_project(
    project: Project, *, rater: str | None = None, height: int = 720, jupyter: str | None = None
) -> Annotator:
    """Serve a project from this process and return what shows its page in a cell."""
    jupyter = jupyter or os.environ.get(_PUBLIC)
    if jupyter is None and _IN_A_HUB in os.environ:
        raise InvalidInputError(
            "This notebook runs in a JupyterHub that does not tell its public address; give the one in your browser "
            'up to your name, as in jupyter="https://hub.example.org/user/ada".'
        )
    port = _free_port()
    public = None if jupyter is None else f"{jupyter.rstrip('/')}/proxy/{port}"
    launch = prepare(project.folder, port=port, rater=rater, public_url=public, embedded=public is None)
    return Annotator(project, launch, height)


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def annotate(
    fixed: Any,
    moving: Any,
    *,
    folder: str | os.PathLike[str] | None = None,
    spacing: Any = None,
    units: Units | None = None,
    rater: str | None = None,
    height: int = 720,
    jupyter: str | None = None,
    **options: Any,
) -> Annotator:
    """Open the annotator for two images inside a notebook's cell.

    Parameters
    ----------
    fixed, moving : path or array
        Images as ``[y, x]``, ``[y, x, 3]`` or ``[z, y, x]``.
    folder : path, optional
        Where the project is made, or is already; a temporary folder by default, which ``annotator.project`` names.
    spacing : float or sequence, optional
        Of arrays, x first; 1 pixel by default.
    units : {"px", "um", "mm"}, optional
        Of the spacing.
    rater, height : optional
        Who annotates, and the height of the frame in pixels.
    jupyter : str, optional
        Public address of the notebook's server, such as ``"https://hub.example.org/user/ada"``, where only that is
        reachable; a link then leads through ``jupyter-server-proxy``. A JupyterHub may tell it by itself.
    **options
        Of `Project.create`.

    Returns
    -------
    Annotator
        Shows the page; ``annotations()`` and ``landmarks()`` return what was annotated until now.
    """
    place = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="warpgauge-")) / "project"
    if not (place / "project.json").is_file():
        images = place.parent / f"{place.name}-images"
        first = _image_file(fixed, images, "fixed", spacing, units)
        second = _image_file(moving, images, "moving", spacing, units)
        if isinstance(fixed, str | os.PathLike) and isinstance(moving, str | os.PathLike):
            options |= {"spacing": spacing, "units": units}  # the files of arrays hold them
        Project.create(place, fixed=first, moving=second, **options).close()
    return annotate_project(Project.open(place, trust=True), rater=rater, height=height, jupyter=jupyter)


def _image_file(image: Any, folder: Path, side: str, spacing: Any, units: Units | None) -> Path:
    """Return the file of an image; an array is written to one."""
    if isinstance(image, str | os.PathLike):
        return Path(image)
    array: NDArray[Any] = np.asarray(image)
    folder.mkdir(parents=True, exist_ok=True)
    if array.ndim == 3 and array.shape[-1] == 3 and array.dtype == np.uint8:
        from PIL import Image

        if spacing is not None:
            raise InvalidInputError("A colour array becomes a PNG, which holds no spacing; leave spacing= out.")
        Image.fromarray(array).save(folder / f"{side}.png")
        return folder / f"{side}.png"
    if array.ndim not in (2, 3) or array.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"The {side} image has shape {array.shape} and type {array.dtype}; [y, x], [z, y, x] of numbers, or "
            f"[y, x, 3] of bytes are taken."
        )
    values = array.astype(np.float32) if array.dtype.kind == "f" or array.dtype.itemsize > 4 else array
    values = values.astype(np.uint8) if values.dtype.kind == "b" else values
    grid = array_grid(values.shape, spacing, units)
    path = folder / f"{side}.nrrd"
    path.write_bytes(nrrd_header(values, grid) + gzip.compress(np.ascontiguousarray(values).tobytes(), 1))
    return path
