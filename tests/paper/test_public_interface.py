"""The studies use what any user can: documented names of warpgauge, and nothing behind them."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import warpgauge as wg

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted((ROOT / "paper").glob("*.py"))


def documented() -> set[str]:
    """Modules that a page of the reference describes as a whole, and the core, whose page goes name by name."""
    pages = [page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.md")]
    whole = {name for page in pages for name in re.findall(r"automodule:: (\S+)", page)}
    return {name for name in whole if not name.startswith("warpgauge.core.")} | {"warpgauge.core"}


def public_names(module: str) -> set[str]:
    loaded = importlib.import_module(module)
    return set(getattr(loaded, "__all__", [name for name in vars(loaded) if not name.startswith("_")]))


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and name of everything that comes from warpgauge."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "warpgauge":
            yield from ((str(node.module), one.name) for one in node.names)
        elif isinstance(node, ast.Import):
            assert all(one.name == "warpgauge" or not one.name.startswith("warpgauge.") for one in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "wg":
            yield "warpgauge", node.attr


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_studies_import_documented_names_only(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    for module, name in imported(tree):
        if f"{module}.{name}" in documented():
            continue
        assert module == "warpgauge" or module in documented(), f"{module} is not a documented module"
        assert name in ({*wg.__all__, "__file__"} if module == "warpgauge" else public_names(module)), (
            f"{module}.{name}"
        )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_studies_touch_no_private_attribute(path: Path) -> None:
    """A leading underscore is private to its owner: an attribute of anything but ``self`` is another's."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
            assert isinstance(node.value, ast.Name), node.attr
            assert node.value.id in ("self", "cls"), node.attr


def test_the_check_finds_private_imports() -> None:
    """The claim above can fail: a module behind a package, and a name that the package does not offer."""
    found = list(imported(ast.parse("import warpgauge as wg\nfrom warpgauge.core.process import x\nwg._HOMES")))
    assert found == [("warpgauge.core.process", "x"), ("warpgauge", "_HOMES")]
    assert not {"warpgauge.core.process", "warpgauge.core.strategies"} & documented()
    assert {"warpgauge.maps", "warpgauge.session", "warpgauge.jobs"} <= documented()
    assert "planes" not in public_names("warpgauge.maps")
