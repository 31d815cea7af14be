"""The three warnings: a mirror, points outside the image, fixed and moving exchanged."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from warpgauge import Grid
from warpgauge.errors import SuspiciousDataWarning
from warpgauge.io.landmarks import Landmarks, read_landmarks, write_landmarks

RNG = np.random.default_rng(7)


def messages(path: Path, **arguments: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_landmarks(path, **arguments)
    assert all(issubclass(item.category, SuspiciousDataWarning) for item in caught)
    return [str(item.message) for item in caught]


def save(folder: Path, fixed: np.ndarray, moving: np.ndarray) -> Path:
    path = folder / "pairs.csv"
    write_landmarks(Landmarks(fixed, moving), path)
    return path


def test_a_mirror_is_reported_with_its_determinant(tmp_path: Path) -> None:
    """A slide turned over has a negative determinant; by hand, diag(-2, 1.5) has -3."""
    fixed = RNG.uniform(0, 100, (12, 2))
    (message,) = messages(save(tmp_path, fixed, fixed * [-2.0, 1.5] + [300.0, 0.0]))
    assert "negative determinant -3 " in message
    assert "12 pairs" in message


def test_rotations_and_noise_are_no_mirror(tmp_path: Path) -> None:
    """A half turn has a positive determinant, and so has a shear with noise."""
    fixed = RNG.uniform(0, 100, (30, 2))
    moving = fixed @ np.array([[-1.0, 0.3], [0.0, -1.0]]) + RNG.normal(0, 5, (30, 2))
    assert messages(save(tmp_path, fixed, moving)) == []


def test_flat_sets_do_not_tell_left_from_right(tmp_path: Path) -> None:
    """Points in one slice of a volume may be mirrored through it, so nothing is said; nor of three points."""
    flat = np.column_stack([RNG.uniform(0, 100, (20, 2)), np.full(20, 5.0)])
    assert messages(save(tmp_path, flat, flat * [1, 1, -1] + RNG.normal(0, 0.01, (20, 3)))) == []
    assert messages(save(tmp_path, np.eye(2), -np.eye(2))) == []


def test_points_outside_are_counted_and_measured(tmp_path: Path) -> None:
    """The pixel reaches half a pixel beyond its centre; the farthest point is named with its distance."""
    grid = Grid((100, 50), (2.0, 2.0), units="um")
    path = tmp_path / "p.csv"
    path.write_text("x,y\n10,10\n-1,20\n-6,20\n202,103\n199,99\n")  # edges: x -1..199, y -1..99
    (message,) = messages(path, fixed_grid=grid)
    assert "2 of 5 fixed points lie outside the fixed image" in message
    assert "(point 3) by 5 um" in message or "(point 4) by 5 um" in message  # (3, 4) is 5 away as well


def test_a_swap_is_reported_with_the_counts(tmp_path: Path) -> None:
    """Points of a large fixed image read as those of a small moving one, and the other way round."""
    large, small = Grid((1000, 1000)), Grid((100, 100))
    fixed = RNG.uniform(0, 990, (40, 2))
    path = save(tmp_path, fixed, fixed / 10)
    assert messages(path, fixed_grid=large, moving_grid=small) == []
    (message,) = messages(path, fixed_grid=small, moving_grid=large)
    outside = int(np.sum(np.any(fixed > 99.5, axis=1)))
    assert f"{outside} fixed and 0 moving points of 40 pairs lie outside" in message
    assert "only 0 and 0 with the images exchanged" in message


def test_a_swap_of_index_files_is_seen_in_indices(tmp_path: Path) -> None:
    """DIR-Lab indices go through the grids, so the other grid has to be tried on the indices themselves."""
    tall = Grid((50, 50, 200), (1.0, 1.0, 1.0), units="mm")
    wide = Grid((200, 200, 50), (1.0, 1.0, 4.0), (500.0, 0.0, 0.0), units="mm")
    fixed = RNG.uniform(1, [50, 50, 200], (30, 3)).round()
    moving = fixed[:, [2, 1, 0]]
    for name, points in (("a_xyz.txt", fixed), ("b_xyz.txt", moving)):
        np.savetxt(tmp_path / name, points, fmt="%d")
    arguments = {"moving_path": tmp_path / "b_xyz.txt"}
    as_meant = messages(tmp_path / "a_xyz.txt", fixed_grid=tall, moving_grid=wide, **arguments)
    assert not any("swapped" in message for message in as_meant)
    swapped = messages(tmp_path / "a_xyz.txt", fixed_grid=wide, moving_grid=tall, **arguments)
    assert any("are fixed and moving swapped" in message for message in swapped)


def test_equal_extents_cannot_tell_a_swap(tmp_path: Path) -> None:
    """With the same grid on both sides nothing is claimed, and points outside are reported as such."""
    grid = Grid((100, 100))
    fixed = RNG.uniform(0, 99, (20, 2))
    moving = fixed + np.array([30.0, 0.0])
    found = messages(save(tmp_path, fixed, moving), fixed_grid=grid, moving_grid=grid)
    assert len(found) == 1
    assert "moving points lie outside the moving image" in found[0]


def test_rows_in_another_order_are_reported(tmp_path: Path) -> None:
    """Shuffled, moved by one, or two exchanged: the rows and both residuals are named; in order nothing is said."""
    generator = np.random.default_rng(3)
    fixed = generator.uniform(0, 1000, (40, 2))
    moving = fixed @ np.array([[0.9, 0.2], [-0.2, 0.9]]) + 50 + generator.normal(0, 5, (40, 2))
    assert messages(save(tmp_path, fixed, moving)) == []
    exchanged = moving.copy()
    exchanged[[4, 30]] = moving[[30, 4]]
    (message,) = messages(save(tmp_path, fixed, exchanged))
    assert "2 pairs (rows 5, 31) lie" in message
    for wrong in (np.roll(moving, 1, axis=0), generator.permutation(moving)):
        assert any("rows probably do not correspond" in one for one in messages(save(tmp_path, fixed, wrong)))
