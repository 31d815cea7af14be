"""Notebooks of the documentation: run one and keep what it shows.

``python tests/notebook_tools.py`` runs all of them anew and stores their outputs; the tests only run their code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "notebooks"


def code_cells(path: Path) -> list[str]:
    """Return the code of a notebook, cell by cell."""
    content = json.loads(path.read_text("utf-8"))
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]


def store_outputs(path: Path) -> None:
    """Run a notebook in a kernel, and write it back with its outputs and without what differs from run to run."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in book.cells:
        cell["metadata"] = {}
    book.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    path.write_text(nbformat.writes(book) + "\n", "utf-8")


if __name__ == "__main__":
    for book in sys.argv[1:] or sorted(map(str, FOLDER.glob("*.ipynb"))):
        store_outputs(Path(book))
        print(book)
