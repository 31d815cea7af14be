"""Pictures of maps: what they show where, and what their legend says."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.maps import Picture, Plane, displayable, map_picture, orthogonal_planes, picture_grid, save_picture
from warpgauge.maps.planes import scale_bar_length

matplotlib = pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")

PLASMA = {0.0: (13, 8, 135), 1.0: (240, 249, 33)}


def rendered(figure: object) -> np.ndarray:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)  # type: ignore[attr-defined]
    return np.asarray(Image.open(buffer).convert("RGB")).astype(int)


def texts(figure: object) -> str:
    found = [item.get_text() for item in figure.findobj(matplotlib.text.Text)]  # type: ignore[attr-defined]
    return "\n".join(found)


def test_colours_stand_where_the_numbers_do() -> None:
    """The first row of the array is on top: left half agrees (dark blue), right half contradicts (yellow)."""
    grid = wg.Grid((40, 20), [2.0, 2.0], None, None, "um")
    values = np.zeros(grid.shape)
    values[:, 20:] = 1.0
    values[:5] = np.nan
    figure = map_picture(Picture({"A": values}, grid))
    pixels = rendered(figure)
    place = figure.axes[0]

    def colour(x: float, y: float) -> np.ndarray:
        column, row = place.transData.transform((x, y))
        return pixels[pixels.shape[0] - 1 - round(row), round(column)]

    np.testing.assert_allclose(colour(20, 25), PLASMA[0.0], atol=2)
    np.testing.assert_allclose(colour(60, 25), PLASMA[1.0], atol=2)
    np.testing.assert_allclose(colour(60, 5), (217, 217, 217), atol=2)


def test_unknown_elements_show_the_image_not_the_colour_of_agreement() -> None:
    """A map that agrees everywhere: coloured where known; where unknown only grey and hatching is left."""
    grid = wg.Grid((40, 40))
    entropy = np.zeros(grid.shape)
    entropy[:, 20:] = 9.0
    picture = Picture(
        {"A": np.zeros(grid.shape)}, grid, image=np.full(grid.shape, 0.5), entropy=entropy, limits=(1.0, 2.0)
    )
    figure = map_picture(picture)
    pixels = rendered(figure)
    (x0, y0), (x1, y1) = figure.axes[0].transData.transform([(2, 35), (38, 5)])
    box = pixels[pixels.shape[0] - round(y1) : pixels.shape[0] - round(y0), round(x0) : round(x1)]
    half = box.shape[1] // 2
    spread = box.max(axis=2) - box.min(axis=2)  # 0 for grey
    assert spread[:, : half - 9].min() > 60
    assert spread[:, half + 9 :].max() < 6
    assert len(np.unique(box[:, half + 9 :].reshape(-1, 3), axis=0)) > 1  # hatched, not plain


def test_the_legend_has_the_words_the_units_and_the_scale_bar() -> None:
    grid = wg.Grid((100, 80), [2.0, 2.0], None, None, "um")
    values = np.full(grid.shape, 0.5)
    values[0] = np.nan
    picture = Picture({"A": values, "B": values}, grid, entropy=values, limits=(0.0, 1.0), points=grid.points(0, 3))
    said = texts(map_picture(picture, title="Errors"))
    for word in ("agrees", "contradicts", "not enough annotations", "outside the transform's domain", "50 µm",
                 "annotated point", "error score e(x)", "Errors"):  # fmt: skip
        assert word in said
    said = texts(map_picture(Picture({"A": values}, grid, "exceedance", tolerance=2.0)))
    assert "probability of an error above 2 µm" in said


@pytest.mark.parametrize(("extent", "length"), [(200, 50), (100, 20), (9, 2), (0.5, 0.1), (30, 5)])
def test_scale_bars_are_round(extent: float, length: float) -> None:
    assert scale_bar_length(extent) == pytest.approx(length)


def test_planes_of_a_volume_are_cut_and_turned_head_up() -> None:
    """LPS with z to the head: coronal and sagittal rows run upwards; a flipped z does not; axial rows run down."""
    grid = wg.Grid((4, 5, 6), [1.0, 2.0, 3.0], [10.0, 20.0, 30.0], None, "mm")
    array = np.arange(120).reshape(grid.shape)
    axial, coronal, sagittal = orthogonal_planes(grid)
    np.testing.assert_array_equal(axial.cut(array), array[3])
    np.testing.assert_array_equal(coronal.cut(array), array[:, 2])
    np.testing.assert_array_equal(sagittal.cut(array), array[:, :, 2])
    assert (axial.upright, coronal.upright, sagittal.upright) == (False, True, True)
    assert axial.caption == "axial, z = 39 mm"
    assert coronal.extent == (0.0, 4.0, 0.0, 18.0)
    flipped = wg.Grid((4, 5, 6), direction=np.diag([1.0, -1.0, -1.0]), units="mm")
    assert [plane.upright for plane in orthogonal_planes(flipped)] == [True, False, False]
    positions, near = coronal.positions(np.array([[12.0, 24.0, 36.0], [12.0, 30.0, 36.0]]))
    np.testing.assert_allclose(positions[0], [2.5, 7.5])
    assert near.tolist() == [True, False]
    with pytest.raises(InvalidInputError, match="no plane 9"):
        Plane(grid, 2, 9)


def test_a_montage_has_three_cuts_for_each_map() -> None:
    grid = wg.Grid((8, 9, 7), units="mm")
    values = np.random.default_rng(0).uniform(size=grid.shape)
    said = texts(map_picture(Picture({"A": values, "B": values}, grid)))
    for name in "AB":
        for cut in ("axial", "coronal", "sagittal"):
            assert len(re.findall(rf"{name}\n{cut}", said)) == 1


def test_files_are_the_same_every_time_and_of_the_named_kind(tmp_path: Path) -> None:
    grid = wg.Grid((20, 10))
    picture = Picture({"A": np.random.default_rng(0).uniform(size=grid.shape)}, grid)
    for suffix in (".png", ".svg"):
        first = save_picture(map_picture(picture), tmp_path / f"a{suffix}").read_bytes()
        assert first == save_picture(map_picture(picture), tmp_path / f"b{suffix}").read_bytes()
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        assert image.width == 1500
    with pytest.raises(InvalidInputError, match=r"end in \.png or \.svg"):
        save_picture(map_picture(picture), tmp_path / "a.pdf")


def test_images_are_stretched_between_percentiles() -> None:
    samples = np.arange(101.0)
    samples[50] = np.nan
    shown = displayable(samples)
    np.testing.assert_allclose(shown[[0, 1, 99, 100]], [0, 0, 1, 1], atol=1e-3)
    assert shown[25] == pytest.approx(24 / 98, abs=0.01)
    assert np.isnan(shown[50])
    assert picture_grid(wg.Grid((3000, 1500)), 300).size == (300, 150)


def test_what_does_not_fit_together_is_refused() -> None:
    grid = wg.Grid((4, 5))
    with pytest.raises(InvalidInputError, match="must be one of error"):
        Picture({"A": np.zeros((5, 4))}, grid, "errors")
    with pytest.raises(InvalidInputError, match="does not lie on the grid"):
        Picture({"A": np.zeros((4, 5))}, grid)
    with pytest.raises(InvalidInputError, match="both or neither"):
        Picture({"A": np.zeros((5, 4))}, grid, entropy=np.zeros((5, 4)))
    with pytest.raises(InvalidInputError, match="at least one map"):
        Picture({}, grid)


def test_importing_the_maps_does_not_import_matplotlib() -> None:
    code = "import sys, warpgauge.maps; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
