"""The napari plug-in: a project as layers, and a small panel for error maps.

napari finds it by the manifest ``napari.yaml``; nothing here is imported unless napari asks for it. Layers are made as
plain tuples (`layers`), so that only the panel (`panel`) needs napari and Qt.
"""
