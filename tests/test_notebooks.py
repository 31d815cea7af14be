"""The notebooks of the documentation run, and show what they are said to show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from notebook_tools import FOLDER, code_cells

BOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("name", BOOKS)
def test_a_notebook_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    """Its cells one after the other, in a fresh process without a screen; warnings are errors."""
    script = tmp_path / f"{name}.py"
    script.write_text("\n\n".join(code_cells(FOLDER / f"{name}.ipynb")))
    environment = {**os.environ, "MPLBACKEND": "Agg", "XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("name", BOOKS)
def test_stored_outputs_are_complete_and_name_no_path(name: str) -> None:
    """Every code cell was run, in order and without an error; if this fails: python tests/notebook_tools.py."""
    text = (FOLDER / f"{name}.ipynb").read_text("utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert all(output["output_type"] != "error" for output in outputs)
    assert not any(output.get("name") == "stderr" for output in outputs)
    shown = {kind for output in outputs for kind in output.get("data", {})}
    assert {"text/plain"} <= shown
    assert "image/png" in shown or "text/html" in shown
    assert "/tmp" not in text
    assert "/home" not in text


def test_every_notebook_is_in_the_gallery() -> None:
    listed = (FOLDER / "index.md").read_text()
    assert BOOKS
    assert all(f"({name}.ipynb)" in listed for name in BOOKS)
