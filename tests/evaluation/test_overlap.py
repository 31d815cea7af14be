"""Overlap of labels against SimpleITK, against shapes whose figures are known, and through the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

import warpgauge as wg
from command_tools import ask, call
from test_napari_layers import flat_project
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Comparison, landmark_table, project_posterior
from warpgauge.evaluation.overlap import area_hd95, label_overlap, surface_distances

GRID = wg.Grid((40, 36, 20), [0.8, 1.0, 2.5], [5.0, -3.0, 10.0], units="mm")


def ball(grid: wg.Grid, centre: list[float], radius: float) -> np.ndarray:
    return (np.linalg.norm(grid.points() - centre, axis=1) <= radius).reshape(grid.shape)


def labels() -> tuple[np.ndarray, np.ndarray]:
    """Two balls, the second of them shifted by (1.6, -1, 2.5) mm and smaller in the moving image."""
    fixed, moving = np.zeros(GRID.shape, np.int16), np.zeros(GRID.shape, np.int16)
    fixed[ball(GRID, [14.0, 10.0, 30.0], 8.0)] = 3
    fixed[ball(GRID, [28.0, 20.0, 35.0], 6.0)] = 7
    moving[ball(GRID, [15.6, 9.0, 32.5], 8.0)] = 3
    moving[ball(GRID, [29.6, 19.0, 37.5], 5.0)] = 7
    return fixed, moving


def test_the_figures_are_those_of_simpleitk() -> None:
    """Dice by SimpleITK's overlap filter; surface distances by its distance maps and contours."""
    sitk = pytest.importorskip("SimpleITK")
    fixed, moving = labels()
    found = label_overlap(lambda x: x, fixed, GRID, moving, GRID)
    for one in found.labels:
        images = []
        for array in (fixed, moving):
            image = sitk.GetImageFromArray((array == one.label).astype(np.uint8))
            image.SetSpacing(GRID.spacing.tolist())
            images.append(image)
        filter_ = sitk.LabelOverlapMeasuresImageFilter()
        filter_.Execute(images[0], images[1])
        assert one.dice == pytest.approx(filter_.GetDiceCoefficient(), abs=1e-12)
        lengths = []
        for a, b in (images, images[::-1]):
            away = sitk.Abs(sitk.SignedMaurerDistanceMap(sitk.LabelContour(b), False, False, True))
            edge = sitk.GetArrayFromImage(sitk.LabelContour(a)) > 0
            lengths.append(sitk.GetArrayFromImage(away)[edge])
        assert one.hd95 == pytest.approx(max(np.percentile(part, 95) for part in lengths), rel=1e-5)
        assert one.surface_distance == pytest.approx(np.concatenate(lengths).mean(), rel=1e-5)
    assert found.mean_dice == pytest.approx(np.mean([one.dice for one in found.labels]))


def test_the_true_shift_gives_full_overlap_of_what_has_the_same_size() -> None:
    """A shift by whole voxels, pulled back through the transform, fixed to moving."""
    fixed, moving = labels()
    shift = np.array([1.6, -1.0, 2.5])
    found = {one.label: one for one in label_overlap(lambda x: x + shift, fixed, GRID, moving, GRID).labels}
    assert found[3].dice == 1.0
    assert found[3].hd95 == 0.0
    assert found[7].dice < 0.8
    assert found[3].fixed_volume == pytest.approx((fixed == 3).sum() * 2.0)


def test_squares_one_apart_have_a_distance_of_one_spacing() -> None:
    grid = wg.Grid((20, 10), [0.5, 3.0])
    a = np.zeros(grid.shape, bool)
    a[2:8, 3:9] = True
    b = np.roll(a, 2, axis=1)
    distances = surface_distances(a, b, grid)
    assert distances is not None
    assert max(distances[0].max(), distances[1].max()) == pytest.approx(1.0)
    assert surface_distances(a, np.zeros_like(a), grid) is None


def test_the_hd95_by_area_is_that_of_the_program_that_learn2reg_evaluates_with() -> None:
    """Values of surface-distance 0.1 (compute_robust_hausdorff, 95, unit spacing), recorded once; it is not installed.

    The others of 60 random pairs of regions were equal as well.
    """
    at = np.indices((14, 15, 13)).transpose(1, 2, 3, 0)

    def ball(centre: tuple[float, float, float], radius: float) -> np.ndarray:
        return np.square(at - np.array(centre)).sum(axis=-1) < radius**2

    box = np.pad(np.ones((5, 6, 4), dtype=bool), ((3, 6), (4, 5), (4, 5)))
    steps, middle = (at * np.array([7, 5, 3])).sum(axis=-1) % 11, ball((6, 6, 6), 4.3)
    assert area_hd95(box, np.roll(box, (2, 1, 0), (0, 1, 2))) == 2.0
    assert area_hd95(middle, ball((7, 7.5, 6), 5.2)) == 2.23606797749979
    assert area_hd95(middle, middle | ball((1, 12, 1), 1.2)) == 3.4641016151377544
    assert area_hd95(ball((0, 7, 6), 5.1), ball((1, 7, 8), 5.1)) == 1.7320508075688772
    assert area_hd95(steps < 4, steps < 2) == 1.0
    assert area_hd95(box, np.zeros_like(box)) == np.inf


def test_what_lies_outside_counts_as_background_and_is_told() -> None:
    fixed, moving = labels()
    found = label_overlap(lambda x: x + np.array([100.0, 0.0, 0.0]), fixed, GRID, moving, GRID)
    assert (found.mean_dice, found.outside) == (0.0, 1.0)
    assert found.mean_hd95 is None
    undefined = label_overlap(lambda x: np.full_like(x, np.nan), fixed, GRID, moving, GRID)
    assert undefined.outside == 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fixed_labels": np.zeros(GRID.shape, int)}, "no label but background"),
        ({"labels": [5]}, "no label 5; it has 3, 7"),
        ({"fixed_labels": np.full(GRID.shape, 0.5)}, "must hold whole numbers"),
        ({"moving_labels": np.zeros((2, 2, 2), int)}, "shape"),
    ],
)
def test_what_is_no_label_image_is_refused(change: dict[str, object], words: str) -> None:
    fixed, moving = labels()
    given = {"fixed_labels": fixed, "fixed_grid": GRID, "moving_labels": moving, "moving_grid": GRID, **change}
    with pytest.raises(InvalidInputError, match=words):
        label_overlap(lambda x: x, **given)  # type: ignore[arg-type]


def test_a_real_atlas_against_itself_and_shifted(data_dir: Path) -> None:
    """AAL of the MNI brain: Dice 1 and distance 0 by the identity; less by 2 mm, for all of its regions."""
    image = nib.load(data_dir / "afids" / "mni152_6asym_aal.nii.gz")
    array = np.asarray(image.dataobj)[::3, ::3, ::3].T.round().astype(np.int32)
    grid = wg.Grid(array.shape[::-1], [3.0, 3.0, 3.0], units="mm")
    some = [int(one) for one in np.unique(array)[1:6]]
    same = label_overlap(lambda x: x, array, grid, array, grid, labels=some)
    assert (same.mean_dice, same.mean_hd95, same.mean_surface_distance) == (1.0, 0.0, 0.0)
    moved = label_overlap(lambda x: x + np.array([3.0, 0.0, 0.0]), array, grid, array, grid, labels=some)
    assert 0.3 < moved.mean_dice < 0.95
    assert moved.mean_hd95 is not None
    assert 2.9 < moved.mean_hd95 < 6.1


def test_overlap_and_landmarks_beside_the_verdict(tmp_path: Path) -> None:
    """evaluate --fixed-labels --moving-labels --landmarks: a table, JSON, and a CSV with a row per annotation."""
    place = flat_project(tmp_path)
    fixed, moving = np.zeros((80, 120), np.uint8), np.zeros((90, 100), np.uint8)
    fixed[20:50, 20:60] = 1
    moving[23:53, 23:63] = 1
    Image.fromarray(fixed).save(tmp_path / "a.png")
    Image.fromarray(moving).save(tmp_path / "b.png")
    sides = ("--fixed-labels", tmp_path / "a.png", "--moving-labels", tmp_path / "b.png")
    said = call("evaluate", place, *sides, "--samples", 50, "--landmarks", tmp_path / "errors.csv")
    assert "HD95 (px)" in said
    found = ask("evaluate", place, *sides, "--samples", 50)["overlap"]
    assert found["near"]["mean_dice"] == 1.0
    assert found["far"]["mean_dice"] < found["identity"]["mean_dice"] < 1.0
    with (tmp_path / "errors.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 12 * 3
    near = [float(row["error"]) for row in rows if row["transform"] == "near"]
    assert max(near) < 1e-6
    with wg.Project.open(place) as project:
        known = project_posterior(project)
    expected = landmark_table(Comparison.of({"far": lambda x: x + np.array([30.0, 0.0])}, None, known))[4]
    row = next(row for row in rows if (row["annotation"], row["transform"]) == ("5", "far"))
    assert float(row["error"]) == pytest.approx(expected["error"])
    assert float(row["error_in_sd"]) == pytest.approx(float(row["error"]) / float(row["sd"]))
    assert "both images" in call("evaluate", place, *sides[:2], code=1)
