"""A known turn, mirroring, shift and scale between two images of other contrast is found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from warpgauge.geometry import Grid
from warpgauge.io.images import read_image
from warpgauge.registration.rough_alignment import Alignment, align

SIZE = (300, 240)


def scene(points: np.ndarray) -> np.ndarray:
    """Brightness of a scene without symmetry at (n, d) points about its middle, in pixels; 0 far away."""
    rng = np.random.default_rng(3)
    d = points.shape[1]
    total = np.zeros(len(points))
    for _ in range(14):
        centre = rng.uniform(-1, 1, d) * np.array([95.0, 70.0, 60.0][:d])
        width, height = rng.uniform(8, 26), rng.uniform(0.3, 1.0)
        total += height * np.exp(-np.sum((points - centre) ** 2, axis=1) / (2 * width**2))
    return total


def similarity(degrees: float, scale: float, mirror: bool) -> np.ndarray:
    turn = np.deg2rad(degrees)
    matrix = scale * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return matrix @ np.diag([-1.0 if mirror else 1.0, 1.0])


def written(path: Path, values: np.ndarray) -> Path:
    values = 255 * (values - values.min()) / np.ptp(values)
    Image.fromarray(values.reshape(SIZE[::-1]).astype(np.uint8)).save(path)
    return path


@pytest.mark.parametrize(
    ("degrees", "scale", "mirror", "shift"),
    [(0, 1.0, False, (14, -9)), (90, 1.0, False, (0, 0)), (180, 1.0, True, (8, 5)), (-50, 1.1, True, (-12, 6))],
)
def test_turned_and_mirrored_pictures(
    degrees: float, scale: float, mirror: bool, shift: tuple[float, float], tmp_path: Path
) -> None:
    """The moving picture is darker where the fixed one is brighter; points are mapped to within 2 % of the diagonal."""
    grid = Grid(SIZE)
    middle = (np.array(SIZE) - 1) / 2
    matrix = similarity(degrees, scale, mirror)
    fixed = written(tmp_path / "fixed.png", scene(grid.points() - middle))
    back = (grid.points() - middle - shift) @ np.linalg.inv(matrix).T
    moving = written(tmp_path / "moving.png", -np.sqrt(scene(back)))
    found = align(read_image(fixed), read_image(moving))
    points = np.random.default_rng(0).uniform(-80, 80, (50, 2)) + middle
    truth = (points - middle) @ matrix.T + middle + shift
    error = np.linalg.norm(found.map(points) - truth, axis=1)
    assert error.mean() < 0.02 * grid.diagonal
    assert found.score > found.rival
    assert ("mirrored" in found.method) == mirror


def test_a_turned_volume(tmp_path: Path) -> None:
    """A volume that lies on its side, with thick slices, is turned upright again."""
    import nibabel

    grid = Grid((60, 48, 30), (4.0, 4.0, 6.0), (-118.0, -94.0, -87.0), units="mm")
    turn = np.array([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]])

    def stored(name: str, values: np.ndarray) -> Path:
        array = values.reshape(grid.shape).transpose()
        affine = grid.affine.copy()
        affine[:2] *= -1  # NIfTI's world is RAS
        nibabel.save(nibabel.Nifti1Image(array.astype(np.float32), affine), tmp_path / name)
        return tmp_path / name

    fixed = stored("fixed.nii.gz", scene(grid.points()))
    moving = stored("moving.nii.gz", np.sqrt(scene(grid.points() @ turn)))
    found = align(read_image(fixed), read_image(moving))
    points = np.random.default_rng(0).uniform(-50, 50, (50, 3))
    assert np.linalg.norm(found.map(points) - points @ turn.T, axis=1).mean() < 0.03 * grid.diagonal


def test_an_alignment_is_stored_as_plain_values() -> None:
    found = Alignment(np.array([[0.0, -1.0], [1.0, 0.0]]), np.array([3.0, 4.0]), 0.2, 0.1, "turned")
    again = Alignment.from_dict(found.to_dict())
    assert again.map([[1.0, 2.0]]).tolist() == [[1.0, 5.0]]
    assert (again.score, again.rival, again.method) == (0.2, 0.1, "turned")


@pytest.mark.parametrize("moving", ["Ki67-7", "proSPC-4"])
def test_real_stains_turned_upside_down(data_dir: Path, tmp_path: Path, moving: str) -> None:
    """Two stains of a lesion, the second upside down: landmarks are met within 2 % of the diagonal."""
    folder = data_dir / "cima" / "lung-lesion_1"
    stem = "29-041-Izd2-w35-"
    with Image.open(folder / f"{stem}{moving}-les1.jpg") as picture:
        turned = picture.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    turned.resize((turned.width // 2, turned.height // 2)).save(tmp_path / "turned.png")
    points, matches = (
        np.loadtxt(folder / f"{stem}{name}-les1.csv", delimiter=",", skiprows=1)[:, 1:] for name in ("He", moving)
    )
    matches[:, 1] = turned.height - 1 - matches[:, 1]
    fixed, other = (
        read_image(folder / f"{stem}He-les1.jpg"),
        read_image(tmp_path / "turned.png", spacing=2.0, units="px"),
    )
    found = align(fixed, other)
    assert np.linalg.norm(found.map(points) - matches, axis=1).mean() < 0.02 * fixed.grid.diagonal
