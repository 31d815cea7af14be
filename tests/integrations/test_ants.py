"""A real registration by ANTsPy, judged from memory and from its files."""

from __future__ import annotations

from pathlib import Path

import ants
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import warpgauge as wg


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], np.ndarray]:
    """SyN of a blurred pattern to the same pattern, shifted by 3 and 2 pixels."""
    rng = np.random.default_rng(0)
    pattern = gaussian_filter(rng.normal(size=(72, 72)), 3)
    fixed, moving = (ants.from_numpy(np.ascontiguousarray(one)) for one in (pattern[4:68, 4:68], pattern[2:66, 1:65]))
    out = tmp_path_factory.mktemp("ants")
    found = ants.registration(fixed, moving, type_of_transform="SyN", outprefix=f"{out}/", random_seed=1)
    points = rng.uniform(15, 48, (30, 2))
    return found, points


def test_a_result_in_memory_maps_as_antspy_does(registered: tuple[dict[str, object], np.ndarray]) -> None:
    """The dictionary of ants.registration, and the list of its files, against ants.apply_transforms_to_points."""
    found, points = registered
    frame = __import__("pandas").DataFrame(points, columns=["x", "y"])
    expected = ants.apply_transforms_to_points(2, frame, found["fwdtransforms"])[["x", "y"]].to_numpy()
    assert wg.as_transform(found).map(points) == pytest.approx(expected, abs=1e-4)
    files = [Path(str(one)) for one in found["fwdtransforms"]]  # type: ignore[attr-defined]
    assert wg.read_transform(files).map(points) == pytest.approx(expected, abs=1e-4)
    assert np.abs(expected - points).max() > 0.5
