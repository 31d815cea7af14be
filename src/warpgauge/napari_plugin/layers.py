"""A project as napari layers: images, candidates, annotations with their ellipses, and error maps.

napari's world has the axes of arrays, ``(y, x)`` or ``(z, y, x)``. The moving image and what belongs to it stand to the
right of the fixed image, since both would otherwise lie on top of each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpgauge.core.annotations import Annotations, ellipse_from_covariance
from warpgauge.core.arrays import Floats
from warpgauge.evaluation import project_posterior
from warpgauge.geometry import Grid
from warpgauge.io.images import Image
from warpgauge.maps import error_map
from warpgauge.project import Project
from warpgauge.project.document import FILE
from warpgauge.session import Session

Layer = tuple[Any, dict[str, Any], str]
GAP = 0.05  # between the images, as a share of the fixed image's width
# Elements of a map along its longest side: enough to see where a registration is wrong.
FLAT, SOLID = 256, 64
PIXELS = 64_000_000  # of an image layer; larger images are shown at a coarser level of their pyramid
_RINGS, _SPOKES = 6, 12


def project_reader(path: str | Sequence[str]) -> Callable[[str], list[Layer]] | None:
    """Return a reader where the path is the folder of a project or its ``project.json``, None where it is not."""
    if not isinstance(path, str) or not (_folder(path) / FILE).is_file():
        return None
    return read_project


def _folder(path: str) -> Path:
    """Return the folder of a project that is named by itself or by its document."""
    return Path(path).parent if Path(path).name == FILE else Path(path)


def read_project(path: str) -> list[Layer]:
    """Return the layers of the project in a folder, error maps of its transforms included."""
    with Project.open(_folder(path)) as project:
        return [*project_layers(project), *map_layers(project)]


def project_layers(project: Project) -> list[Layer]:
    """Return images, candidates and annotations of a project."""
    beside = moving_offset(project)
    annotations = Session(project).annotations()
    layers = [
        image_layer(project.image("fixed"), "fixed", np.zeros(project.d)),
        image_layer(project.image("moving"), "moving", beside),
        _points(project.candidates, "candidates", np.zeros(project.d), "#888888", visible=False),
    ]
    if len(annotations):
        layers += annotation_layers(annotations, beside, project.fixed_grid.pixel)
    return layers


def map_layers(project: Project, names: Sequence[str] | None = None) -> list[Layer]:
    """Return the error map of each transform, or of those named, hidden; none without annotations.

    Values are the error score e(x), between 0 and 1: how strongly the annotations contradict the transform there; NaN
    where the transform is undefined. A transform that cannot be read raises.
    """
    wanted = project.transform_names() if names is None else list(names)
    if not wanted or not len(Session(project).annotations()):
        return []
    grid, posterior = map_grid(project.fixed_grid), project_posterior(project)
    layers: list[Layer] = []
    for name in wanted:
        values = error_map(posterior, project.transform(name), grid)
        options = {
            "name": f"error of {name}",
            "affine": array_affine(grid),
            "colormap": "inferno",
            "contrast_limits": (0.0, 1.0),
            "opacity": 0.6,
            "visible": False,
            "metadata": {"warpgauge": {"transform": name, "map": "error", "project": str(project.folder)}},
        }
        layers.append((values.astype(np.float32), options, "image"))
    return layers


def map_grid(grid: Grid) -> Grid:
    """Return the grid of the maps: that of the fixed image, coarsened."""
    most = FLAT if grid.d == 2 else SOLID
    return grid.coarsened(max(1.0, max(grid.size) / most))


def array_affine(grid: Grid, offset: Floats | None = None) -> Floats:
    """Return the matrix from array index to world, both with the axes of the array; the offset is (x, y[, z])."""
    matrix = grid.affine
    if offset is not None:
        matrix[: grid.d, grid.d] += offset
    order = [*range(grid.d - 1, -1, -1), grid.d]
    return matrix[np.ix_(order, order)]


def moving_offset(project: Project) -> Floats:
    """Return the shift in world units, (x, y[, z]), by which the layers of the moving image are moved aside."""
    corners = [_corners(grid) for grid in (project.fixed_grid, project.moving_grid)]
    width = float(np.ptp(corners[0][:, 0]))
    shift = np.zeros(project.d)
    shift[0] = corners[0][:, 0].max() - corners[1][:, 0].min() + GAP * width
    return shift


def _corners(grid: Grid) -> Floats:
    ends = np.stack(np.meshgrid(*[(-0.5, n - 0.5) for n in grid.size], indexing="ij"), axis=-1)
    return grid.index_to_world(ends.reshape(-1, grid.d))


def image_layer(image: Image, name: str, offset: Floats) -> Layer:
    """Return an image at the finest level that is not too large to hold."""
    level = next((n for n in range(image.levels) if image.level_grid(n).count <= PIXELS), image.levels - 1)
    low, high = image.percentiles((0.5, 99.5))
    options: dict[str, Any] = {"name": name, "affine": array_affine(image.level_grid(level), offset)}
    if image.channels == 3:
        return _as_colours(image.read(level), float(high)), {**options, "rgb": True}, "image"
    return image.read(level), {**options, "contrast_limits": (float(low), float(max(high, low + 1e-9)))}, "image"


def _as_colours(values: Any, high: float) -> Any:
    """Return colours as 8 bits, which napari shows as they are."""
    if values.dtype == np.uint8:
        return values
    most = np.iinfo(values.dtype).max if values.dtype.kind == "u" else max(1.0, high)
    return np.clip(255.0 * values / most, 0, 255).astype(np.uint8)


def annotation_layers(annotations: Annotations, beside: Floats, pixel: float) -> list[Layer]:
    """Return annotated points in both images, and the 99 % ellipses or ellipsoids of their uncertainty."""
    numbers = {"number": np.arange(1, len(annotations) + 1)}
    layers = []
    for name, points, offset in (
        ("annotations, fixed", annotations.fixed_points, np.zeros(annotations.d)),
        ("annotations, moving", annotations.moving_points, beside),
    ):
        data, options, kind = _points(points, name, offset, "#ffd400", size=6 * pixel)
        text = {"string": "{number:.0f}", "size": 8, "color": "#ffd400", "anchor": "upper_left"}
        layers.append((data, {**options, "features": numbers, "text": text}, kind))
    shapes = _ellipses if annotations.d == 2 else _ellipsoids
    return [*layers, shapes(annotations, beside)]


def _points(
    points: Floats, name: str, offset: Floats, colour: str, *, size: float = 0.0, visible: bool = True
) -> Layer:
    data = np.asarray(points + offset)[:, ::-1]
    wide = size or 0.01 * float(np.max(np.ptp(data, axis=0))) if len(data) else 1.0
    options = {"name": name, "face_color": colour, "border_width": 0.0, "size": wide or 1.0, "visible": visible}
    return data, options, "points"


def _ellipses(annotations: Annotations, beside: Floats) -> Layer:
    boxes = []
    for point, covariance in zip(annotations.moving_points + beside, annotations.covariances, strict=True):
        lengths, axes = ellipse_from_covariance(covariance)
        corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * lengths
        boxes.append((point + corners @ axes.T)[:, ::-1])
    options = {"name": "99 % ellipses", "face_color": "transparent", "edge_color": "#ffd400", "edge_width": 0.0}
    widths = np.array([np.linalg.norm(box[1] - box[0]) for box in boxes])
    options["edge_width"] = float(np.median(widths)) / 20
    return boxes, {**options, "shape_type": "ellipse"}, "shapes"


def _ellipsoids(annotations: Annotations, beside: Floats) -> Layer:
    sphere, faces = _sphere()
    vertices, triangles = [], []
    for n, (point, covariance) in enumerate(
        zip(annotations.moving_points + beside, annotations.covariances, strict=True)
    ):
        lengths, axes = ellipse_from_covariance(covariance)
        vertices.append((point + (sphere * lengths) @ axes.T)[:, ::-1])
        triangles.append(faces + n * len(sphere))
    surface = (np.concatenate(vertices), np.concatenate(triangles))
    return surface, {"name": "99 % ellipsoids", "opacity": 0.5, "colormap": "yellow"}, "surface"


def _sphere() -> tuple[Floats, Any]:
    """Return vertices (n, 3) and triangles of a sphere of radius 1."""
    rows, columns = np.meshgrid(np.arange(_RINGS + 1), np.arange(_SPOKES), indexing="ij")
    polar, around = math.pi * rows / _RINGS, 2 * math.pi * columns / _SPOKES
    points = np.stack([np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)], axis=-1)
    at = rows[:-1] * _SPOKES + columns[:-1]
    right = rows[:-1] * _SPOKES + (columns[:-1] + 1) % _SPOKES
    upper = np.stack([at, right, at + _SPOKES], axis=-1)
    lower = np.stack([right, right + _SPOKES, at + _SPOKES], axis=-1)
    return points.reshape(-1, 3), np.concatenate([upper.reshape(-1, 3), lower.reshape(-1, 3)])
