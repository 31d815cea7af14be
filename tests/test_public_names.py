"""The names of ``warpgauge`` itself, which are loaded when they are first used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import warpgauge as wg
from warpgauge import core


def _names_for_type_checkers() -> dict[str, str]:
    """Public names and their modules as the ``if TYPE_CHECKING`` block imports them."""
    tree = ast.parse(Path(wg.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {name.name: str(node.module) for node in block.body for name in node.names}  # type: ignore[attr-defined]


def test_type_checkers_all_and_the_running_program_see_the_same_names() -> None:
    """Expected: the imports that a type checker reads."""
    expected = _names_for_type_checkers()
    assert expected == wg._HOME_OF
    assert set(wg.__all__) == {*expected, "__version__"}
    assert set(wg.__all__) <= set(dir(wg))


@pytest.mark.parametrize("name", sorted(_names_for_type_checkers()))
def test_every_public_name_can_be_loaded(name: str) -> None:
    value = getattr(wg, name)
    assert callable(value)
    assert getattr(wg, name) is value


def test_the_names_of_the_core_are_loaded_from_the_modules_that_type_checkers_read() -> None:
    tree = ast.parse(Path(core.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    expected = {name.name: str(node.module) for node in block.body for name in node.names}  # type: ignore[attr-defined]
    assert expected == core._HOME_OF
    assert set(core.__all__) == set(expected)
    for name, module in expected.items():
        assert getattr(core, name) is getattr(importlib.import_module(module), name)


def test_subpackages_are_attributes_and_unknown_names_are_refused() -> None:
    assert wg.maps.__name__ == "warpgauge.maps"
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        wg.no_such_name  # noqa: B018
    with pytest.raises(ImportError):
        from warpgauge import no_such_name  # noqa: F401


def test_importing_loads_neither_numpy_nor_the_compiler() -> None:
    code = (
        "import sys, warpgauge; print([name for name in ('numpy', 'numba', 'scipy', 'nibabel') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
