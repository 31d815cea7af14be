"""The plug-in in a real napari viewer with Qt, through napari's own doors: open a folder, open the panel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import napari
import numpy as np
import pytest
from npe2 import PluginManager, PluginManifest

from test_napari_layers import flat_project


@pytest.fixture
def viewer() -> Iterator[Any]:
    manager = PluginManager.instance()
    if "warpgauge" not in manager:  # only its own entry point is looked at, not those of other plug-ins
        manager.register(PluginManifest.from_distribution("warpgauge"))
    made = napari.Viewer()  # an unshown canvas is not drawn
    yield made
    made.close()


def test_a_project_folder_opens_as_layers(viewer: Any, tmp_path: Path) -> None:
    """As by dragging the folder onto napari; the picture has both images beside each other."""
    place = flat_project(tmp_path)
    viewer.open(str(place), plugin="warpgauge")
    names = [layer.name for layer in viewer.layers]
    assert names == [
        "fixed", "moving", "candidates", "annotations, fixed", "annotations, moving", "99 % ellipses",
        "error of near", "error of far",
    ]  # fmt: skip
    fixed, moving = (viewer.layers[name].extent.world for name in ("fixed", "moving"))
    assert moving[0][1] > fixed[1][1]
    ellipses = viewer.layers["99 % ellipses"]
    assert len(ellipses.data) == 12
    assert set(ellipses.shape_type) == {"ellipse"}
    viewer.reset_view()
    napari.qt.get_qapp().processEvents()
    picture = viewer.screenshot(canvas_only=True, flash=False)
    assert picture[..., :3].std() > 10


def test_files_of_others_are_not_claimed(viewer: Any, tmp_path: Path) -> None:
    """napari asks which plug-in to use where several may read a path: an image is none of ours."""
    place = flat_project(tmp_path)
    manager = PluginManager.instance()

    def ours(path: Path) -> bool:
        return any(one.plugin_name == "warpgauge" for one in manager.iter_compatible_readers([str(path)]))

    assert [ours(path) for path in (tmp_path / "fixed.png", tmp_path / "near.tfm")] == [False, False]
    assert ours(place)
    assert ours(place / "project.json")


def test_the_panel_adds_an_error_map_and_says_what_is_wrong(viewer: Any, tmp_path: Path) -> None:
    place = flat_project(tmp_path)
    _, panel = viewer.window.add_plugin_dock_widget("warpgauge", "Project")
    panel.folder.value = tmp_path
    panel.open_button.changed.emit(True)
    assert "project" in panel.message.value
    assert not viewer.layers
    panel.folder.value = place
    panel.open_button.changed.emit(True)
    assert tuple(panel.transform.choices) == ("near", "far")
    panel.transform.value = "far"
    panel.map_button.changed.emit(True)
    layer = viewer.layers["error of far"]
    assert layer.visible
    assert np.nanmax(layer.data) <= 1
