"""Candidates of very large images are sought at a coarser level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import warpgauge as wg
from warpgauge.project import points


def test_corners_of_a_large_image_come_from_a_coarser_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finest level that is small enough is used and named, in the image's own world; a given sigma rules it out."""
    pixels = np.zeros((600, 700), dtype=np.uint8)
    pixels[100:300, 200:500] = 200
    Image.fromarray(pixels).save(tmp_path / "box.png")
    image = wg.read_image(tmp_path / "box.png", spacing=0.5, units="um")
    whole = points.make_candidates(4, image, None)
    assert "level" not in whole.method
    monkeypatch.setattr(points, "LARGEST_SEARCH", 350 * 300)
    found = points.make_candidates(4, image, None)
    assert "Sought at level 1 (350 x 300), as the image has more than 105000 elements." in found.method
    corners = np.array([[x, y] for x in (200, 499) for y in (100, 299)]) * 0.5
    for corner in corners:  # found inside the box, by less than sigma (2 um) along each axis
        assert np.abs(found.points_world - corner).max(axis=1).min() < 2.0
    given = points.make_candidates({"kind": "corners", "count": 4, "sigma": 1.0}, image, None)
    assert "level" not in given.method
    np.testing.assert_array_equal(given.points_world, whole.points_world)
