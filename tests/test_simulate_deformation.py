"""Simulated deformations against closed forms, a fine solver of the same equation, and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import RegularGridInterpolator
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from warpgauge.errors import InvalidInputError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import DisplacementField, read_transform, write_transform
from warpgauge.simulate import deformation_of, random_deformation, random_velocity

TILTED = Rotation.from_euler("xyz", [0.3, -0.2, 0.5]).as_matrix()
GRIDS = {
    "2D": Grid((70, 61)),
    "2D, micrometres": Grid((70, 61), (3.48, 3.0), (100.0, -50.0), units="um"),
    "3D, tilted": Grid((30, 26, 22), (0.7, 0.9, 1.5), (-20.0, 5.0, 40.0), TILTED, units="mm"),
}


def velocity_on(name: str, seed: int = 0) -> np.ndarray:
    """Amplitude of up to 2 pixels, and control points 12 pixels apart, on a grid of any pixel size."""
    grid = GRIDS[name]
    return random_velocity(grid, 2 * float(grid.spacing.min()), 12 * grid.spacing, seed)


def deformation_on(name: str, seed: int = 0) -> DisplacementField:
    """The flow of that velocity."""
    return deformation_of(velocity_on(name, seed), GRIDS[name])


def pixels(grid: Grid, difference: np.ndarray) -> np.ndarray:
    """Lengths of world differences in pixels."""
    return np.linalg.norm(difference @ grid.direction / grid.spacing, axis=1)


def scattered(grid: Grid, count: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    index = rng.uniform(0, np.asarray(grid.size) - 1, (count, grid.d))
    index[: count // 5, 0] = 0.0  # some on a face, where points enter and leave the image
    return grid.index_to_world(index)


def solved(velocity: np.ndarray, grid: Grid, points: np.ndarray) -> np.ndarray:
    """Flow by an adaptive Runge-Kutta solver, with an interpolation that shares no code with the package."""
    axes = [np.arange(n, dtype=float) for n in grid.size]
    interpolate = RegularGridInterpolator(axes, np.moveaxis(velocity, 0, -1).swapaxes(0, grid.d - 1))
    top = np.asarray(grid.size) - 1

    def derivative(_: float, flat: np.ndarray) -> np.ndarray:
        index = (flat.reshape(-1, grid.d) - grid.origin) @ grid.direction / grid.spacing
        return interpolate(np.clip(index, 0, top)).ravel()

    solution = solve_ivp(derivative, (0, 1), points.ravel(), rtol=1e-8, atol=1e-8, max_step=0.02)
    return solution.y[:, -1].reshape(-1, grid.d)


def affine_velocity(grid: Grid, matrix: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """v(x) = A (x - c) at the pixel centres."""
    return ((grid.points() - centre) @ matrix.T).T.reshape(grid.d, *grid.shape)


# Points flow inwards, so that the closed form holds for the whole image.
INWARD = {
    2: np.array([[-0.25, 0.1], [-0.12, -0.3]]),
    3: np.array([[-0.25, 0.1, 0.05], [-0.1, -0.3, 0.08], [0.03, -0.06, -0.2]]),
}


@pytest.mark.parametrize("d", [2, 3])
def test_velocity_statistics(d: int) -> None:
    """Each component has the stated SD at control points, 2^-d/2 of it at cell centres, and (2/3)^d of its variance."""
    grid = Grid((401, 401) if d == 2 else (81, 81, 81))
    velocity = random_velocity(grid, 3.0, 4.0, seed=5)
    control = velocity[:, *[slice(None, None, 4)] * d]  # every fourth pixel is a control point
    assert control.std() == pytest.approx(3.0, rel=0.02)
    assert abs(control.mean()) < 0.06
    for axis in range(d):
        assert control[axis].std() == pytest.approx(3.0, rel=0.03)
    # Neighbours are independent.
    assert abs(np.corrcoef(control[0, 1:].ravel(), control[0, :-1].ravel())[0, 1]) < 0.03
    centres = velocity[:, *[slice(2, None, 4)] * d]
    assert centres.std() == pytest.approx(3.0 * 2 ** (-d / 2), rel=0.04)
    # At control points and at a quarter, a half and three quarters between them: (1 + 5/8 + 1/2 + 5/8) / 4.
    assert np.mean(velocity**2) == pytest.approx(9.0 * (11 / 16) ** d, rel=0.06 if d == 2 else 0.08)


def test_amplitude_and_spacing_are_world_units() -> None:
    """The same numbers with all lengths times 0.5 give the same deformation at half the size."""
    one = random_deformation(Grid((60, 50)), 2.0, 12.0, seed=4)
    half = random_deformation(Grid((60, 50), (0.5, 0.5), (7.0, 9.0), units="mm"), 1.0, 6.0, seed=4)
    np.testing.assert_allclose(half.vectors, one.vectors / 2, atol=1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_constant_velocity_is_a_translation(d: int) -> None:
    """Everywhere in the image, and back, to rounding; and what comes from outside the image is masked."""
    grid = GRIDS["2D" if d == 2 else "3D, tilted"]
    shift = np.array([3.3, -7.9, 2.2])[:d]
    deformation = deformation_of(np.broadcast_to(shift.reshape(d, *[1] * d), (d, *grid.shape)), grid)
    points = scattered(grid, 200)
    np.testing.assert_allclose(deformation.map(points), points + shift, atol=1e-11)
    np.testing.assert_allclose(deformation.inverse().map(points + shift), points, atol=1e-7)
    origins = points - shift
    index = (origins - grid.origin) @ grid.direction / grid.spacing
    inside = ((index >= 0) & (index <= np.asarray(grid.size) - 1)).all(axis=1)
    assert 0.1 < inside.mean() < 0.95
    np.testing.assert_array_equal(np.isfinite(deformation.inverse().map(points)).all(axis=1), inside)


@pytest.mark.parametrize("d", [2, 3])
def test_affine_velocity_gives_the_matrix_exponential(d: int) -> None:
    """x -> c + e^A (x - c), and its inverse, both to 1e-4 pixels or better."""
    grid = GRIDS["2D, micrometres" if d == 2 else "3D, tilted"]
    centre = grid.index_to_world((np.asarray(grid.size) - 1) / 2)
    deformation = deformation_of(affine_velocity(grid, INWARD[d], centre), grid)
    points = scattered(grid, 300)
    expected = centre + (points - centre) @ expm(INWARD[d]).T
    # What remains is the midpoint rule's error, of the order |A|^3 4^-squarings / 6 times the distance from c.
    assert pixels(grid, deformation.map(points) - expected).max() < 1e-4
    inner = expected[60:]  # those on the border may come back from just beyond it, which is masked
    assert pixels(grid, deformation.inverse().map(inner) - points[60:]).max() < 1e-4


@pytest.mark.parametrize("name", GRIDS)
def test_integration_against_a_fine_solver(name: str) -> None:
    """Scaling and squaring follows the flow of the same velocity to hundredths of a pixel, on the border too.

    The worst points lie on kinks of the velocity, which linear interpolation between pixels cannot follow.
    """
    deformation = deformation_on(name)
    points = scattered(deformation.grid, 250)
    error = pixels(deformation.grid, deformation.map(points) - solved(velocity_on(name), GRIDS[name], points))
    assert error.mean() < 0.015
    assert error.max() < 0.15
    moved = pixels(deformation.grid, deformation.map(points) - points)
    assert moved.mean() > 0.8  # the comparison is about something


def test_points_that_leave_and_come_back() -> None:
    """The flow is right for points that leave the image on their way, where the velocity is that of the border.

    The velocity has no kink within the image, so that the solver is followed to hundredths of a pixel; without the
    room around the image the error is 0.25 pixels.
    """
    grid = Grid((61, 61))
    x, y = np.moveaxis(grid.points().reshape(61, 61, 2), -1, 0)
    # To the right in the upper half, to the left in the lower one, faster towards the right, and down everywhere.
    velocity = np.stack([40 * (1 - y / 30) * x / 60, np.full(grid.shape, 30.0)])
    points = np.random.default_rng(0).uniform([50, 5], [60, 25], (300, 2))
    error = np.linalg.norm(deformation_of(velocity, grid).map(points) - solved(velocity, grid, points), axis=1)
    assert error.max() < 0.03


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_round_trip(name: str, seed: int) -> None:
    """Both orders come back far below 0.05 pixels, at every pixel and at points between them, and none is lost."""
    deformation = deformation_on(name, seed)
    grid = deformation.grid
    for points in (grid.points(), scattered(grid, 2000)):
        moving = deformation.map(points)
        assert pixels(grid, deformation.inverse().map(moving) - points).max() < 1e-6
    back = deformation.inverse().map(grid.points())
    found = np.isfinite(back).all(axis=1)
    assert found.mean() > 0.6
    assert pixels(grid, deformation.map(back[found]) - grid.points()[found]).max() < 1e-6


def test_folding_is_refused_and_counted() -> None:
    """A control spacing of four pixels folds: the error states the share, and nothing is made smaller in silence."""
    with pytest.raises(InvalidInputError, match=r"folds at [1-9]\d*(\.\d+)? % of the pixels"):
        random_deformation(Grid((80, 80)), 5.0, 4.0, seed=1)
    assert "; 0 % of" in random_deformation(Grid((80, 80)), 2.0, 16.0, seed=1).description.assumptions[0]


def test_determinism() -> None:
    """The same seed gives the same numbers, another one others."""
    a, b, c = (random_deformation(Grid((40, 30)), 1.5, 10.0, seed=s).vectors for s in (7, 7, 8))
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 0.5


def test_the_truth_can_be_written_and_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A displacement field on disk maps as the deformation does, so that the truth can be shared."""
    deformation = deformation_on("3D, tilted")
    read = read_transform(write_transform(deformation, tmp_path / "truth.nrrd"))
    points = scattered(deformation.grid, 200)[40:]
    assert pixels(deformation.grid, read.map(points) - deformation.map(points)).max() < 1e-4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"amplitude": -1.0}, "amplitude"),
        ({"amplitude": np.nan}, "amplitude"),
        ({"spacing": 0.0}, "spacing"),
        ({"spacing": (1.0, 2.0, 3.0)}, "spacing"),
        ({"seed": -1}, "seed"),
        ({"seed": 0.5}, "seed"),
        ({"grid": Grid((40, 1))}, "at least 2"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, object], words: str) -> None:
    arguments = {"grid": Grid((40, 30)), "amplitude": 1.0, "spacing": 10.0, "seed": 0} | change
    with pytest.raises(InvalidInputError, match=words):
        random_deformation(**arguments)  # type: ignore[arg-type]


def test_bad_velocities_are_named() -> None:
    grid = Grid((40, 30))
    with pytest.raises(InvalidInputError, match="shape"):
        deformation_of(np.zeros((2, 3, 4)), grid)
    with pytest.raises(InvalidInputError, match="finite"):
        deformation_of(np.full((2, 30, 40), np.nan), grid)
    with pytest.raises(InvalidInputError, match="out of an image of 40 x 30"):
        deformation_of(np.full((2, 30, 40), 1e6), grid)
