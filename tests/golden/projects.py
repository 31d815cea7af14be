"""The projects whose figures are recorded, made through the command line.

``small`` needs nothing but what is shipped. ``cima`` and ``lung`` are made from real data, of which only numbers that
warpgauge computed are kept beside this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

import warpgauge as wg
from command_tools import ask, call, skip
from command_tools import place as answer
from warpgauge import Landmarks
from warpgauge.demo import answer_queries
from warpgauge.io.landmarks import read_landmarks, write_landmarks

Floats = np.ndarray[Any, np.dtype[np.float64]]
DIGITS = 6  # inputs are rounded, so that they are the same on every machine


def write_field(
    path: Path, moved: Callable[[Floats], Floats], origin: Sequence[float], spacing: float, size: Sequence[int]
) -> Path:
    """Write the displacements of a function on a grid as MetaImage."""
    sitk = pytest.importorskip("SimpleITK")
    axes = [first + spacing * np.arange(count) for first, count in zip(origin, size, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    flat = points.reshape(-1, len(size))
    field = np.round(moved(flat) - flat, DIGITS).reshape(points.shape)
    image = sitk.GetImageFromArray(np.ascontiguousarray(np.swapaxes(field, 0, len(size) - 1)), isVector=True)
    image.SetOrigin([float(value) for value in origin])
    image.SetSpacing([float(spacing)] * len(size))
    sitk.WriteImage(image, str(path))
    return path


def write_matrix(path: Path, matrix: Floats) -> Path:
    """Write an affine map, a (2, 3) matrix, as text."""
    path.write_text("".join(" ".join(repr(float(x)) for x in row) + "\n" for row in [*matrix, [0.0, 0.0, 1.0]]))
    return path


def write_pairs(path: Path, fixed: Floats, moving: Floats) -> Path:
    """Write pairs of 2D points as CSV."""
    rows = [",".join(repr(float(x)) for x in row) for row in np.c_[fixed, moving]]
    path.write_text("\n".join(["fixed_x,fixed_y,moving_x,moving_y", *rows]) + "\n")
    return path


def bent(points: Floats) -> Floats:
    """The truth of the small project."""
    return points + np.array([4.0, -3.0]) + 2.0 * np.sin(points[:, ::-1] / 25)


def near(points: Floats) -> Floats:
    """A registration of the small project with a small error that changes from place to place."""
    return bent(points) + 0.4 * np.cos(points[:, ::-1] / 11)


def make_small(folder: Path) -> Path:
    """Two textures, answers with ellipses by one rater, part of them to audit questions, and four transforms."""
    rng = np.random.default_rng(4)
    texture = ndimage.gaussian_filter(rng.normal(size=(140, 160)), 2)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(texture[10:110, 10:130]).save(folder / "fixed.png")
    Image.fromarray(texture[13:113, 6:126]).save(folder / "moving.png")
    place = folder / "small"
    candidates = rng.uniform((2, 2), (117, 97), (60, 2)).round(DIGITS)
    write_pairs(folder / "candidates.csv", candidates, candidates)
    call("new", place, "--fixed", folder / "fixed.png", "--moving", folder / "moving.png", "--foreground", "none",
         "--candidates", folder / "candidates.csv", "--targets", "domain:90", "--copy", "--audit", 0.5, "--set",
         "audit-seed=3")  # fmt: skip
    for number in range(22):
        query = ask("suggest", place, "--rater", "ann")
        match = (bent(np.array([query["point"]]))[0] + rng.normal(0, 0.5, 2)).round(DIGITS)
        if number % 7 == 6 or (match < 0).any():
            skip(place, query["query"], "ambiguous", rater="ann")
            continue
        answer(place, query["query"], match, ellipse=(2, 1.5), angle=20 * number, rater="ann")
    add_transforms(place, {
        "shift": write_matrix(folder / "shift.txt", np.array([[1, 0, 4], [0, 1, -3]])),
        "turned": write_matrix(folder / "turned.txt", np.array([[1, 0.02, 4], [-0.02, 1, -3]])),
        "near": write_field(folder / "near.mha", near, (-8, -8), 4, (36, 32)),
        "beside": write_field(folder / "beside.mha", lambda points: near(points) + 0.05, (-8, -8), 4, (36, 32)),
    })  # fmt: skip
    return place


def add_part(place: Path) -> None:
    """Add a transform to the small project that is undefined at the border."""
    add_transforms(place, {"part": write_field(place.parent / "part.mha", bent, (20, 16), 4, (24, 20))})


def add_transforms(place: Path, files: dict[str, Path]) -> None:
    """Add each file as a transform of its name."""
    for name, file in files.items():
        call("add-transform", place, name, file)


def make_cima(folder: Path, data: Path) -> Path:
    """Two stains of lung-lesion_1: 32 landmarks, 26 simulated answers (audit questions among them), five transforms."""
    source, place = data / "cima" / "lung-lesion_1", folder / "cima"
    if not source.is_dir():
        pytest.skip("the folder cima/lung-lesion_1 is not among the real data")
    fixed_file, moving_file = (source / f"29-041-Izd2-w35-{stain}-les1.csv" for stain in ("He", "Ki67-7"))
    fixed, moving = read_landmarks(fixed_file).fixed_points, read_landmarks(moving_file).fixed_points
    write_pairs(folder / "pairs.csv", fixed[:64:2], moving[:64:2])
    call("new", place, "--fixed", fixed_file.with_suffix(".jpg"), "--moving", moving_file.with_suffix(".jpg"),
         "--candidates", 200, "--targets", "domain:300", "--audit", 0.6, "--set", "audit-seed=11")  # fmt: skip
    call("import", place, folder / "pairs.csv", "--rater", "PS", "--radius", 6)
    affine = np.linalg.lstsq(np.c_[fixed, np.ones(len(fixed))], moving, rcond=None)[0].T.round(DIGITS)
    rough = np.linalg.lstsq(np.c_[fixed[:12], np.ones(12)], moving[:12], rcond=None)[0].T.round(DIGITS)

    def waves(points: Floats) -> Floats:
        return points @ affine[:, :2].T + affine[:, 2] + 6 * np.sin(points[:, ::-1] / 150)

    truth = write_field(folder / "truth.mha", waves, (-40, -40), 20, (95, 80))
    with wg.Project.open(place) as opened:
        answer_queries(wg.Session(opened, "ann"), wg.read_transform(truth), 26, 1.0, 3)
    add_transforms(place, {
        "affine": write_matrix(folder / "affine.txt", affine),
        "rough": write_matrix(folder / "rough.txt", rough),
        "shift": write_matrix(folder / "shift.txt", np.c_[np.eye(2), (moving - fixed).mean(axis=0).round(DIGITS)]),
        "field": write_field(folder / "field.mha", lambda points: waves(points) + 1.5, (-40, -40), 20, (95, 80)),
        "part": write_field(folder / "part.mha", lambda points: waves(points) - 2.5, (100, 80), 20, (82, 68)),
    })  # fmt: skip
    return place


def make_lung(folder: Path, data: Path) -> Path:
    """The lung CT pair of elastix in 3D: half of the landmarks, and the fourteen results of elastix."""
    source, place = data / "elastix-lung", folder / "lung"
    if not source.is_dir():
        pytest.skip("the folder elastix-lung is not among the real data")
    pairs = read_landmarks(*(source / f"CT_3D_lung_{side}_point_set_corrected.txt" for side in ("fixed", "moving")))
    write_landmarks(Landmarks(pairs.fixed_points[::2], pairs.moving_points[::2], units="mm"), folder / "half.csv")
    call("new", place, "--fixed", source / "3DCT_lung_baseline_small.mha", "--moving",
         source / "3DCT_lung_followup_mask.mha", "--candidates", 100, "--targets", "domain:250")  # fmt: skip
    call("import", place, folder / "half.csv", "--rater", "expert", "--radius", 2, "--force")
    add_transforms(place, {
        file.stem.removeprefix("TransformParameters_").removeprefix("3DCT_lung.").replace(".", "_"): file
        for file in sorted((source / "transforms").glob("TransformParameters_*.txt"))
    })  # fmt: skip
    return place
