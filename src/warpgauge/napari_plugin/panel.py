"""The panel in napari: choose a project, open it, and add the error map of one of its transforms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from magicgui.widgets import ComboBox, Container, FileEdit, Label, PushButton

from warpgauge.display import counted
from warpgauge.errors import WarpgaugeError
from warpgauge.napari_plugin.layers import Layer, map_layers, project_layers
from warpgauge.project import Project


class ProjectPanel(Container):  # type: ignore[misc]  # magicgui has no type information here
    """Open a project, and add error maps.

    Parameters
    ----------
    viewer : napari.Viewer
        Given by napari (by the name of this parameter).
    """

    def __init__(self, napari_viewer: Any) -> None:
        self._viewer = napari_viewer
        self.folder = FileEdit(label="project", mode="d")
        self.open_button = PushButton(text="Open")
        self.transform = ComboBox(label="transform", choices=[])
        self.map_button = PushButton(text="Add error map", enabled=False)
        self.message = Label(value="")
        super().__init__(
            widgets=[self.folder, self.open_button, self.transform, self.map_button, self.message], labels=True
        )
        self.open_button.changed.connect(self.open_project)
        self.map_button.changed.connect(self.add_map)

    def open_project(self) -> None:
        """Add the layers of the project that is chosen."""
        try:
            with Project.open(Path(self.folder.value)) as project:
                self._add(project_layers(project))
                names = project.transform_names()
        except WarpgaugeError as error:
            self.message.value = str(error)
            return
        self.transform.choices = names
        self.map_button.enabled = bool(names)
        self.message.value = counted(len(names), "transform") if names else "The project has no transform yet."

    def add_map(self) -> None:
        """Add the error map of the transform that is chosen, visible."""
        try:
            with Project.open(Path(self.folder.value)) as project:
                layers = map_layers(project, [str(self.transform.value)])
        except WarpgaugeError as error:
            self.message.value = str(error)
            return
        self._add([(data, {**options, "visible": True}, kind) for data, options, kind in layers])
        self.message.value = "" if layers else "There are no annotations yet, so there is no error map."

    def _add(self, layers: list[Layer]) -> None:
        from napari.layers import Layer as NapariLayer

        for data, options, kind in layers:
            self._viewer.add_layer(NapariLayer.create(data, options, kind))
