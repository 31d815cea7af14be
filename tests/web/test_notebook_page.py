"""The annotator within a cell of a real JupyterLab, and its link behind JupyterHub.

The variable WARPGAUGE_JUPYTER names a ``jupyter`` with JupyterLab; without it these are skipped.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from web.page_tools import make_tissue_project
from web.server_tools import served

JUPYTER = os.environ.get("WARPGAUGE_JUPYTER")
needs_jupyter = pytest.mark.skipif(JUPYTER is None, reason="WARPGAUGE_JUPYTER names no jupyter")
TOKEN = "0123456789abcdef0123456789abcdef"


def _book(path: Path, *cells: str) -> None:
    content = {
        "cells": [
            {"cell_type": "code", "execution_count": None, "id": f"c{n}", "metadata": {}, "outputs": [], "source": cell}
            for n, cell in enumerate(cells)
        ],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(content))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """A JupyterLab on this machine; gives its address."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port = asked.getsockname()[1]
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "JUPYTER_CONFIG_DIR": str(tmp_path / "conf"),
    }
    command = [
        str(JUPYTER), "lab", "--no-browser", "--ip=127.0.0.1", f"--port={port}", f"--IdentityProvider.token={TOKEN}",
        "--allow-root", f"--ServerApp.root_dir={tmp_path}",
    ]  # fmt: skip
    with (tmp_path / "lab.log").open("w") as log, subprocess.Popen(
        command, env=environment, stdout=log, stderr=subprocess.STDOUT
    ) as running:  # fmt: skip
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token={TOKEN}", timeout=5).read()
                    break
                except OSError:
                    assert running.poll() is None, (tmp_path / "lab.log").read_text()[-2000:]
                    time.sleep(0.2)
            yield f"http://localhost:{port}"
        finally:
            running.terminate()
            running.wait(30)


@needs_jupyter
def test_a_mark_made_in_a_cell_is_an_annotation_in_the_next(browser: Any, lab: str, tmp_path: Path) -> None:
    """The page in a cell takes a click; the next cell has the annotation."""
    make_tissue_project(tmp_path / "slide", size=(320, 260))
    show = "import warpgauge as wg\nannotator = wg.Project.open('slide', trust=True).annotate()\nannotator"
    count = "print('marks', len(annotator.annotations()))\nannotator.stop()"
    _book(tmp_path / "book.ipynb", show, count)
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.add_init_script("try { localStorage.setItem('warpgauge:welcomed', '1'); } catch {}")
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{lab}/lab/tree/book.ipynb?token={TOKEN}")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.locator(".jp-Notebook .jp-Cell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    element = page.locator(".jp-OutputArea-output iframe").first
    element.wait_for()
    frame = element.element_handle().content_frame()
    frame.wait_for_function("() => Number(document.getElementById('query-number')?.dataset.number) > 0")
    element.scroll_into_view_if_needed()
    box = frame.locator("#moving canvas").first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.keyboard.press("Enter")
    frame.wait_for_function("() => document.getElementById('query-number').dataset.number === '2'")
    page.locator(".jp-Notebook .jp-Cell .cm-content").nth(1).click()
    page.keyboard.press("Shift+Enter")
    page.get_by_text("marks 1").last.wait_for()
    context.close()


def test_the_frame_is_allowed_only_where_it_was_asked_for(tmp_path: Path) -> None:
    """Served from a notebook, the page may be in a frame of this machine; served otherwise, in none."""
    import warpgauge as wg

    make_tissue_project(tmp_path / "slide", size=(200, 160))
    with wg.Project.open(tmp_path / "slide") as project:
        annotator = project.annotate(rater="ada")
        try:
            with urllib.request.build_opener(_Stay).open(annotator.url, timeout=30) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "frame-ancestors 'self' http://localhost:*" in policy
                assert answer.headers["X-Frame-Options"] is None
            assert annotator.url in annotator._repr_html_()
            assert len(annotator.annotations()) == 0
        finally:
            annotator.stop()
    with served(tmp_path / "slide") as server:
        assert server.client().get("/").headers["X-Frame-Options"] == "DENY"


def test_sealed_answers_are_not_left_out_without_a_word(tmp_path: Path) -> None:
    """Annotations and landmarks in the notebook warn of the sealed ones, and give the others."""
    from session.tools import Rater, make
    from warpgauge.errors import WarpgaugeWarning
    from warpgauge.session import Session
    from warpgauge.session.seals import sealed_answers

    with make(tmp_path / "p", {"audit": 0.25, "audit_seed": 4}) as project:
        Rater(Session(project, "ann"), "ann").work(16)
        sealed = sealed_answers(project.state)
        assert 0 < sealed < 16
        annotator = project.annotate(rater="ann")
        annotator.stop()  # what is caught here belongs to all threads
        for ask in (annotator.annotations, annotator.landmarks):
            with pytest.warns(WarpgaugeWarning, match=f"{sealed} of the answers are sealed") as heard:
                assert len(ask()) == 16 - sealed
            assert heard[0].filename == __file__


@pytest.mark.parametrize("told", ["by the hub", "by you"])
def test_behind_a_hub_there_is_a_link_through_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """The link goes below the public address of the notebook's server; no frame is shown or allowed."""
    import warpgauge as wg
    from warpgauge.errors import InvalidInputError

    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ada/")
    make_tissue_project(tmp_path / "slide", size=(200, 160))
    with wg.Project.open(tmp_path / "slide") as project:
        with pytest.raises(InvalidInputError, match="jupyter="):
            project.annotate()
        hub = "https://hub.example.org/user/ada/"
        if told == "by the hub":
            monkeypatch.setenv("JUPYTERHUB_PUBLIC_URL", hub)
        annotator = project.annotate() if told == "by the hub" else project.annotate(jupyter=hub)
        try:
            public, path = (
                annotator.url[: len("https://hub.example.org")],
                annotator.url[len("https://hub.example.org") :],
            )
            assert public == "https://hub.example.org"
            port = int(path.split("/")[4])
            assert path.startswith(f"/user/ada/proxy/{port}/?token=")
            assert annotator.url in annotator._repr_html_()
            assert "<iframe" not in annotator._repr_html_()
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": "hub.example.org"})
            answer = urllib.request.build_opener(_Stay).open(request, timeout=30)
            assert answer.status == 303
            assert answer.headers["Location"] == "./"
            assert answer.headers["X-Frame-Options"] == "DENY"
        finally:
            annotator.stop()


class _Stay(urllib.request.HTTPRedirectHandler):
    def http_error_303(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        return fp


def test_annotate_makes_a_project_of_arrays(tmp_path: Path) -> None:
    """Two arrays are enough; grey ones keep their spacing, colour ones become pictures."""
    import warpgauge as wg

    rng = np.random.default_rng(3)
    grey = np.kron(rng.integers(0, 255, (12, 10)), np.ones((12, 12))).astype(np.uint16)
    annotator = wg.annotate(grey, grey, folder=tmp_path / "grey", spacing=(0.5, 0.25), units="um", foreground="none")
    try:
        assert annotator.project.fixed_grid.spacing.tolist() == [0.5, 0.25]
        assert annotator.project.units == "um"
        np.testing.assert_array_equal(annotator.project.image("fixed").read(), grey)
    finally:
        annotator.stop()
    Image.fromarray(grey.astype(np.uint8)).save(tmp_path / "a.png")
    again = wg.annotate(
        tmp_path / "a.png", tmp_path / "a.png", folder=tmp_path / "grey"
    )  # the project is there already
    again.stop()
    assert again.project.units == "um"
