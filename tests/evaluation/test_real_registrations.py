from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.evaluation import Trust


@pytest.fixture(scope="module")
def lung(data_dir: Path) -> Path:
    folder = data_dir / "elastix-lung"
    if not folder.is_dir():
        pytest.skip("the folder elastix-lung is not among the real data")
    return folder


def annotations_of(folder: Path) -> wg.Annotations:
    pairs = wg.read_landmarks(
        folder / "CT_3D_lung_fixed_point_set_corrected.txt", folder / "CT_3D_lung_moving_point_set_corrected.txt"
    )
    return wg.Annotations.isotropic(pairs.fixed_points, pairs.moving_points, 0.5)


def test_classical_numbers_of_fourteen_elastix_results_are_the_published_ones(lung: Path) -> None:
    """Mean, median and maximal TRE of every transform against the table that came with the data."""
    annotations = annotations_of(lung)
    files = {file.name.removesuffix(".txt"): file for file in (lung / "transforms").glob("TransformParameters_*.txt")}
    transforms = {
        name.removeprefix("TransformParameters_3DCT_lung.").replace(".", "_"): wg.read_transform(file)
        for name, file in files.items()
    }
    kernel = wg.KernelBundle.pyramid("wendland", smallest=20.0, levels=5, weight=2.0)
    prior = wg.TransformationPrior(kernel, mean="affine", center=annotations.fixed_points.mean(axis=0))
    posterior = prior.condition(annotations, calibrate=True)
    targets = annotations.fixed_points + 1.0
    result = wg.evaluate(posterior, transforms, targets, samples=50)
    with (lung / "expected_tre.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 14
    for row in rows:
        found = result.scores[row["transform"]].landmark_statistics
        assert found is not None
        assert found["mean"] == pytest.approx(float(row["tre_mean_mm"]), abs=6e-4)
        assert found["median"] == pytest.approx(float(row["tre_median_mm"]), abs=6e-4)
        assert found["max"] == pytest.approx(float(row["tre_max_mm"]), abs=6e-4)
        regular = result.scores[row["transform"]].regularity
        assert regular is not None
        assert 0 <= regular.folding < 0.2
    order = np.argsort([float(row["tre_mean_mm"]) for row in rows])
    assert result.ranking("1")[-1] == rows[int(order[-1])]["transform"]


def test_the_landmark_that_every_registration_misses_is_called_outlying(lung: Path) -> None:
    """Row 20 is off by about 12.5 mm under all good registrations, and the other landmarks alone show it."""
    annotations = annotations_of(lung)
    kernel = wg.KernelBundle.pyramid("wendland", smallest=20.0, levels=5, weight=2.0)
    prior = wg.TransformationPrior(kernel, mean="affine", center=annotations.fixed_points.mean(axis=0))
    posterior = wg.fit_kernel(prior, annotations, noise=True).condition(annotations)
    assert Trust.of_posterior(posterior).outliers == [20]
