"""Every format: write, read back, equal; with everything that the format can hold."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from warpgauge import Grid
from warpgauge.errors import SuspiciousDataWarning
from warpgauge.io.landmarks import Landmarks, Skip, read_landmarks, write_landmarks
from warpgauge.io.landmarks.base import COVARIANCES, INACTIVE, NAMES, RATERS, SKIPS
from warpgauge.io.landmarks.registry import FORMATS

COORDINATES = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: 0.0 if abs(x) < 1e-6 else x)
# "nan" is what ANTs itself writes for "no name".
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8).filter(lambda t: t != "nan")
LINES = TEXT | st.sampled_from(["a,b", 'quote " inside', "two\nlines", "tab\there", "#5", "true", " lead", "Ωμέγα"])
SUFFIX = {"slicer-json": ".mrk.json", "dirlab": "_xyz.txt"}
WRITTEN = [name for name, kind in FORMATS.items() if kind.render is not None]


def covariance(draw: st.DrawFn, d: int) -> np.ndarray:
    factor = draw(hnp.arrays(np.float64, (d, d), elements=st.floats(-100, 100)))
    return factor @ factor.T + 1e-3 * np.eye(d)


@st.composite
def landmarks(draw: st.DrawFn, name: str, d: int) -> Landmarks:
    holds = FORMATS[name].holds
    n = draw(st.integers(1, 6))
    points = hnp.arrays(np.float64, (n, d), elements=COORDINATES)

    def column(what: str, element: st.SearchStrategy) -> tuple | None:
        if what not in holds or not draw(st.booleans()):
            return None
        values = tuple(draw(st.lists(element, min_size=n, max_size=n)))
        return values if any(values) else None

    paired = name == "bigwarp" or draw(st.booleans())
    names = column(NAMES, LINES)
    covariances = None
    if COVARIANCES in holds and paired and draw(st.booleans()):
        covariances = np.array([covariance(draw, d) for _ in range(n)])
        if n > 1:
            covariances[1] = np.nan
    units = draw(st.sampled_from(["px", "um", "mm"])) if name == "csv" else "mm" if d == 3 else "px"
    if name == "bigwarp":
        units = "px"
    frame = "LPS" if d == 3 and units != "px" and name != "bigwarp" else "image"
    return Landmarks(
        draw(points),
        draw(points) if paired else None,
        covariances,
        names or (tuple(f"Pt-{i}" for i in range(n)) if name == "bigwarp" else None),
        column(RATERS, TEXT.map(lambda t: t or None)),
        draw(hnp.arrays(np.bool_, n)) if INACTIVE in holds else None,
        (Skip(np.ones(d), "torn\n, tissue", "PS"),) if SKIPS in holds and paired and draw(st.booleans()) else (),
        frame,
        units,
    )


def assert_same(back: Landmarks, lm: Landmarks, rtol: float = 0.0, atol: float = 0.0) -> None:
    close = {"rtol": rtol, "atol": atol}
    np.testing.assert_allclose(back.fixed_points, lm.fixed_points, **close)
    assert (back.moving_points is None) == (lm.moving_points is None)
    if lm.moving_points is not None:
        np.testing.assert_allclose(back.moving_points, lm.moving_points, **close)
    assert (back.covariances is None) == (lm.covariances is None)
    if lm.covariances is not None:
        scale = np.nanmax(np.abs(lm.covariances))
        np.testing.assert_allclose(back.covariances, lm.covariances, rtol=0, atol=max(atol, 1e-14) * scale)
    for member in ("names", "raters", "frame", "units"):
        assert getattr(back, member) == getattr(lm, member), member
    np.testing.assert_array_equal(back.active, lm.active)
    assert [(s.reason, s.rater) for s in back.skips] == [(s.reason, s.rater) for s in lm.skips]
    for mine, other in zip(back.skips, lm.skips, strict=True):
        np.testing.assert_allclose(mine.fixed_point, other.fixed_point, **close)


def write_and_read(lm: Landmarks, name: str, writing: dict, reading: dict) -> Landmarks:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousDataWarning)  # random points are mirrors half of the time
        paths = [Path(folder) / f"{side}{SUFFIX.get(name, '.csv')}" for side in ("fixed", "moving")]
        used = paths if lm.moving_points is not None and not FORMATS[name].pairs else paths[:1]
        assert write_landmarks(lm, *used, format=name, **writing) == ()
        detected = read_landmarks(*used, match="row", **reading)
        assert detected.format == name
        return detected


@pytest.mark.parametrize(("name", "d"), [(name, d) for name in WRITTEN for d in FORMATS[name].dimensions])
def test_round_trip(name: str, d: int) -> None:
    """What is written comes back, and the reader recognises the format without being told."""

    @settings(max_examples=60)
    @given(landmarks(name, d))
    def check(lm: Landmarks) -> None:
        if name == "ants":
            back = write_and_read(lm, name, {}, {"dimension": d})
            assert_same(back, lm)
        elif name in ("anhir", "napari", "dirlab", "qupath", "learn2reg"):
            grids = {}
            if d == 3:  # oblique, anisotropic, off the origin
                direction = np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0]
                grid = Grid((40, 50, 60), (0.7, 0.7, 2.5), (-100.0, 30.0, 5.0), direction, units="mm")
                grids = {"fixed_grid": grid, "moving_grid": grid}
            back = write_and_read(lm, name, grids, grids)
            # Through voxel indices and back: relative to the coordinates of the point, not to each of its members.
            assert_same(back, lm, rtol=1e-13, atol=2e-8 if d == 3 else 1e-6)
        else:
            assert_same(write_and_read(lm, name, {}, {}), lm)

    check()


@settings(max_examples=50)
@given(landmarks("csv", 3), st.sampled_from(["RAS", "index", "index1", "scaled", "LPS"]))
def test_plain_csv_in_any_frame(lm: Landmarks, frame: str) -> None:
    """Points and covariances survive a change of frame on the way to the file."""
    direction = np.array([[0.0, -1.0, 0.0], [0.6, 0.0, -0.8], [0.8, 0.0, 0.6]])
    grid = Grid((40, 50, 60), (0.5, 0.75, 2.0), (-100.0, 30.0, 5.0), direction, units=lm.units)
    back = write_and_read(
        lm,
        "csv",
        {"frame": frame, "fixed_grid": grid, "moving_grid": grid} if frame != "LPS" or lm.frame == "LPS" else {},
        {"fixed_grid": grid, "moving_grid": grid},
    )
    assert_same(
        back,
        Landmarks(**(vars(lm) | {"frame": "LPS" if _is_lps(lm, frame) else "image"})),
        rtol=1e-12,
        atol=1e-8,
    )


def _is_lps(lm: Landmarks, frame: str) -> bool:
    """A file of indices takes its world from the grid: anatomical in mm, an image's own otherwise."""
    return lm.units == "mm" if frame in ("index", "index1", "scaled") else lm.frame == "LPS"


def test_slicer_is_written_in_either_frame(tmp_path: Path) -> None:
    """RAS on request, with the first two signs turned in the file and turned back on reading."""
    lm = Landmarks(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]), frame="LPS", units="mm", names=("a", "b"))
    path = tmp_path / "l.mrk.json"
    write_landmarks(lm, path, frame="RAS")
    text = path.read_text()
    assert "-4" in text
    assert "RAS" in text
    assert_same(read_landmarks(path), lm)


def test_skips_alone_are_a_file(tmp_path: Path) -> None:
    """A session that has only skips so far is saved as plain CSV."""
    lm = Landmarks(np.zeros((0, 2)), np.zeros((0, 2)), skips=(Skip(np.array([1.0, 2.0]), "blurred", "PS"),))
    write_landmarks(lm, tmp_path / "l.csv")
    back = read_landmarks(tmp_path / "l.csv")
    assert len(back) == 0
    assert back.skips[0].reason == "blurred"
