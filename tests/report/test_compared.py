"""`wg.compare`: arrays, results and landmarks in, a table and maps out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import warpgauge as wg
from warpgauge.errors import InvalidInputError


def _case(d: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """An image, landmarks that follow a shift of 2 pixels in x, and the field of that shift (world displacements)."""
    rng = np.random.default_rng(d)
    shape = (60, 80) if d == 2 else (24, 30, 36)
    image = gaussian_filter(rng.normal(0, 1, shape), 2)
    fixed = rng.uniform(6, np.array(shape[::-1]) - 7, (24, d))
    shift = np.array([2.0, 0, 0][:d])
    return image, (fixed, fixed + shift + rng.normal(0, 0.2, fixed.shape)), np.broadcast_to(shift, (*shape, d))


@pytest.mark.parametrize("d", [2, 3])
def test_ten_lines_from_arrays_to_a_verdict(d: int) -> None:
    """The right field beats doing nothing and a wrong one, in the table and on the maps; the result shows itself."""
    image, landmarks, field = _case(d)
    found = wg.compare(
        image, image, {"right": field, "wrong": lambda x: x - 4}, landmarks, convention="displacement", sd=0.3
    )
    assert found.evaluation.ranking()[0] == "right"
    assert "right" in str(found)
    assert set(found.maps) == {"right", "wrong"}
    assert np.nanmean(found.maps["wrong"]) > np.nanmean(found.maps["right"])
    assert found.evaluation.scores["right"].score["2"] < 0.5 < found.evaluation.scores["wrong"].score["2"]
    assert len(found.table()) == 3
    assert found.evaluation.verdict.baseline == "identity"
    assert "before registration" in str(found)
    shown = found._repr_html_()
    assert "data:image/png;base64," in shown


class NeverRead:
    """A moving image whose samples nobody needs."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.grid = wg.Grid(shape[::-1])

    def read(self) -> np.ndarray:
        raise AssertionError("the samples of the moving image were read")


def test_of_the_moving_image_only_the_grid_is_used() -> None:
    image, landmarks, field = _case(2)
    moving = NeverRead(image.shape)
    found = wg.compare(image, moving, {"right": field}, landmarks, convention="displacement", sd=0.3)
    assert found.evaluation.ranking()[0] == "right"


def test_what_it_cannot_take_is_said() -> None:
    image, landmarks, field = _case(2)
    with pytest.raises(InvalidInputError, match="at least one transform"):
        wg.compare(image, image, {}, landmarks)
    with pytest.raises(InvalidInputError, match="fixed and moving points"):
        wg.compare(image, image, {"a": lambda x: x}, 3)
    with pytest.raises(InvalidInputError, match=r"\[y, x\]"):
        wg.compare(np.zeros(5), image, {"a": lambda x: x}, landmarks)
    with pytest.raises(wg.errors.AmbiguousFileError, match="convention"):
        wg.compare(image, image, {"a": field}, landmarks)
