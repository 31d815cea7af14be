"""The layers that the napari plug-in makes of a project; the viewer itself is tested by make integrations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import warpgauge as wg
from warpgauge.io.transforms import AffineTransform, write_transform
from warpgauge.napari_plugin.layers import map_layers, project_layers, project_reader, read_project
from warpgauge.project import Project
from warpgauge.session import Session

COVARIANCE = np.array([[9.0, 2.0], [2.0, 4.0]])


def flat_project(folder: Path, annotate: bool = True) -> Path:
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, (80, 120)).astype(np.uint8)).save(folder / "fixed.png")
    Image.fromarray(rng.integers(0, 255, (90, 100, 3)).astype(np.uint8)).save(folder / "moving.png")
    fixed = rng.uniform(10, 70, (12, 2))
    points = {"candidates": rng.uniform(10, 70, (30, 2)), "targets": rng.uniform(10, 70, (30, 2))}
    place = folder / "project"
    with Project.create(place, fixed=folder / "fixed.png", moving=folder / "moving.png", **points) as project:
        if annotate:
            marks = wg.Landmarks(fixed, fixed + 3.0, np.repeat(COVARIANCE[None], 12, axis=0))
            Session(project).import_landmarks(marks, rater="ann")
        write_transform(AffineTransform(np.eye(2), [3.0, 3.0]), folder / "near.tfm")
        write_transform(AffineTransform(np.eye(2), [30.0, 0.0]), folder / "far.tfm")
        project.add_transform("near", folder / "near.tfm")
        project.add_transform("far", folder / "far.tfm")
    return place


def by_name(layers: list[tuple[object, dict[str, object], str]]) -> dict[str, tuple[object, dict[str, object], str]]:
    return {str(options["name"]): (data, options, kind) for data, options, kind in layers}


def test_points_lie_on_their_pixels(tmp_path: Path) -> None:
    """World coordinates of a layer's pixel, by its affine, are those of the points there; the moving image is aside."""
    with Project.open(flat_project(tmp_path)) as project:
        layers = by_name(project_layers(project))
        annotations = Session(project).annotations()
    pixels, options, _ = layers["fixed"]
    assert np.asarray(pixels).shape == (80, 120)
    corner = np.asarray(options["affine"]) @ [79, 119, 1]
    assert corner[:2] == pytest.approx([79, 119])
    points, _, kind = layers["annotations, fixed"]
    assert kind == "points"
    assert np.asarray(points) == pytest.approx(annotations.fixed_points[:, ::-1])
    moving, options, _ = layers["moving"]
    assert np.asarray(moving).shape == (90, 100, 3)
    assert options["rgb"] is True
    start = np.asarray(options["affine"])[:2, 2]
    assert start[1] > 119.5
    aside = np.asarray(layers["annotations, moving"][0]) - start
    assert aside == pytest.approx(annotations.moving_points[:, ::-1])
    assert layers["candidates"][1]["visible"] is False


def test_ellipses_have_the_shape_of_the_covariances(tmp_path: Path) -> None:
    """Corners of the box of an ellipse: half-lengths along the axes of the covariance, at 99 %."""
    with Project.open(flat_project(tmp_path)) as project:
        layers = by_name(project_layers(project))
        annotations = Session(project).annotations()
    boxes, options, kind = layers["99 % ellipses"]
    assert (kind, options["shape_type"]) == ("shapes", "ellipse")
    box = np.asarray(boxes[0])[:, ::-1]  # type: ignore[index]
    centre = box.mean(axis=0)
    ends = (box - centre) @ np.linalg.inv(np.linalg.cholesky(annotations.covariances[0])).T
    # Each corner is two half-lengths from the centre, and each half-length is the 99 % radius in whitened space.
    assert np.linalg.norm(ends, axis=1) == pytest.approx(np.full(4, np.sqrt(2 * 9.21034)), rel=1e-4)


def test_ellipsoids_enclose_the_same_probability(tmp_path: Path) -> None:
    from warpgauge.core.annotations import Annotations
    from warpgauge.napari_plugin.layers import annotation_layers

    rng = np.random.default_rng(1)
    half = rng.normal(size=(2, 3, 3))
    given = Annotations(rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), half @ half.transpose(0, 2, 1))
    (vertices, faces), options, kind = annotation_layers(given, np.zeros(3), 1.0)[-1]
    assert (kind, options["name"]) == ("surface", "99 % ellipsoids")
    own = np.asarray(vertices)[: len(vertices) // 2, ::-1] - given.moving_points[0]
    white = own @ np.linalg.inv(np.linalg.cholesky(given.covariances[0])).T
    assert np.linalg.norm(white, axis=1) == pytest.approx(np.full(len(own), np.sqrt(11.34487)), rel=1e-4)
    assert faces.max() == len(vertices) - 1


def test_error_maps_are_small_where_a_transform_agrees(tmp_path: Path) -> None:
    place = flat_project(tmp_path)
    layers = by_name(read_project(str(place)))
    near, far = (np.asarray(layers[f"error of {name}"][0]) for name in ("near", "far"))
    assert near.shape == (80, 120)
    assert np.nanmean(near) < 0.6 < np.nanmean(far)
    assert layers["error of far"][1]["visible"] is False
    with Project.open(place) as project:
        assert [one[1]["name"] for one in map_layers(project, ["far"])] == ["error of far"]


def test_only_the_folder_of_a_project_is_read(tmp_path: Path) -> None:
    place = flat_project(tmp_path, annotate=False)
    assert project_reader(str(tmp_path)) is None
    assert project_reader([str(place)]) is None
    assert project_reader(str(place / "targets.npz")) is None
    assert project_reader(str(place / "project.json")) is project_reader(str(place))
    reader = project_reader(str(place))
    assert reader is not None
    assert [options["name"] for _, options, _ in reader(str(place))] == ["fixed", "moving", "candidates"]
