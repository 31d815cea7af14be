"""Simulated annotators: the moments that they state and that they show."""

from __future__ import annotations

import doctest
import functools
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.simulate import (
    Annotator,
    EllipseAnnotator,
    ExpertAnnotator,
    ExpertPanel,
    IsotropicAnnotator,
    random_deformation,
    random_velocity,
)

COUNT = 20_000


def locations(d: int, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 500, (count, d))


def truth(points: np.ndarray) -> np.ndarray:
    """Any known map will do."""
    return 1.1 * points + 3.0


@functools.cache
def cima_user(d: int) -> wg.Annotations:
    return EllipseAnnotator().annotate(locations(d), truth, seed=3)


def errors(annotations: wg.Annotations) -> np.ndarray:
    return annotations.moving_points - truth(annotations.fixed_points)


def covered(annotations: wg.Annotations, alpha: float) -> float:
    """Share of true matches in the stated 1 - alpha regions, by the chi-squared distribution of scipy."""
    e = errors(annotations)
    square = np.einsum("ni,nij,nj->n", e, np.linalg.inv(annotations.covariances), e)
    return float(np.mean(square <= stats.chi2.ppf(1 - alpha, annotations.d)))


@pytest.mark.parametrize("d", [2, 3])
def test_isotropic_annotator(d: int) -> None:
    """A ball of radius 3 at alpha 0.01: its covariance, 99 % coverage of the ball itself, and no bias."""
    annotations = IsotropicAnnotator(3.0).annotate(locations(d), truth, seed=1)
    variance = 9.0 / {2: 9.21034, 3: 11.34487}[d]  # table of the chi-squared distribution
    np.testing.assert_allclose(annotations.covariances, np.broadcast_to(variance * np.eye(d), (COUNT, d, d)), rtol=1e-5)
    e = errors(annotations)
    np.testing.assert_allclose(np.cov(e.T), variance * np.eye(d), atol=0.04 * variance)
    assert np.mean(np.linalg.norm(e, axis=1) <= 3.0) == pytest.approx(0.99, abs=0.003)
    assert covered(annotations, 0.5) == pytest.approx(0.5, abs=0.012)
    np.testing.assert_allclose(e.mean(axis=0), 0, atol=0.04)


def test_exact_placements() -> None:
    """With noisy=False the placement is the truth itself and the statement is the same."""
    points = locations(2, 50)
    for exact, noisy in (
        (IsotropicAnnotator(3.0, noisy=False), IsotropicAnnotator(3.0)),
        (EllipseAnnotator(noisy=False), EllipseAnnotator()),
    ):
        answers = exact.annotate(points, truth, seed=2)
        np.testing.assert_array_equal(answers.moving_points, truth(points))
        np.testing.assert_array_equal(answers.covariances, noisy.annotate(points, truth, seed=2).covariances)


@pytest.mark.parametrize("d", [2, 3])
def test_cima_user(d: int) -> None:
    """The paper's user: log eigenvalues of mean 2.8927 and SD 0.8295, independent; ellipses hold 99 % of the truths."""
    annotations = cima_user(d)
    logs = np.log(np.linalg.eigvalsh(annotations.covariances))
    assert logs.mean() == pytest.approx(2.8927, abs=0.02)
    # Within one matrix the eigenvalues come sorted; all of them together are the whole sample again.
    assert logs.std() == pytest.approx(0.8295, abs=0.015)
    # Independent draws: the mean log of a matrix has the variance divided by d.
    assert logs.mean(axis=1).std() == pytest.approx(0.8295 / np.sqrt(d), abs=0.015)
    assert stats.kstest(logs.ravel()[:4000], "norm", args=(2.8927, 0.8295)).pvalue > 0.001
    assert covered(annotations, 0.01) == pytest.approx(0.99, abs=0.003)
    assert covered(annotations, 0.2) == pytest.approx(0.8, abs=0.012)


@pytest.mark.parametrize("d", [2, 3])
def test_orientation_is_uniform(d: int) -> None:
    """The long axis points everywhere alike: its outer product averages to I / d, and in 2D its angle is uniform."""
    annotations = cima_user(d)
    _, axes = wg.ellipse_from_covariance(annotations.covariances)
    long = axes[:, :, 0]
    np.testing.assert_allclose(long.T @ long / COUNT, np.eye(d) / d, atol=0.012)
    if d == 2:
        angle = np.arctan2(long[:, 1], long[:, 0]) % np.pi
        assert stats.kstest(angle, "uniform", args=(0, np.pi)).pvalue > 0.001


@pytest.mark.parametrize(("mean", "sd"), [(0.65, 0.73), (1.06, 1.51), (2.0, 0.5)])
def test_expert_errors(mean: float, sd: float) -> None:
    """Distances have the stated mean and SD, also where the SD is the larger; directions are isotropic."""
    annotations = ExpertAnnotator(mean, sd).annotate(locations(3), truth, seed=6)
    e = errors(annotations)
    length = np.linalg.norm(e, axis=1)
    assert length.mean() == pytest.approx(mean, rel=0.03)
    assert length.std() == pytest.approx(sd, rel=0.05)
    # The distribution is the gamma one, whose parameters follow from the two moments.
    assert stats.kstest(length[:4000], "gamma", args=((mean / sd) ** 2, 0, sd**2 / mean)).pvalue > 0.001
    direction = e / length[:, None]
    np.testing.assert_allclose(direction.T @ direction / COUNT, np.eye(3) / 3, atol=0.015)
    np.testing.assert_allclose(direction.mean(axis=0), 0, atol=0.02)
    # The stated covariance is that of the errors.
    np.testing.assert_allclose(annotations.covariances[0], (mean**2 + sd**2) / 3 * np.eye(3), rtol=1e-12)
    np.testing.assert_allclose(np.cov(e.T), annotations.covariances[0], atol=0.1 * annotations.covariances[0, 0, 0])


def test_panel_is_fused() -> None:
    """The annotation is the mean of independent placements, and its covariance the scatter of one placement."""
    points = locations(3, 4000)
    panel = ExpertPanel.alike(3, 0.65, 0.73)
    placed = panel.placements(points, truth, seed=10)
    assert placed.shape == (3, 4000, 3)
    annotations = panel.annotate(points, truth, seed=10)
    np.testing.assert_allclose(annotations.moving_points, placed.mean(axis=0), rtol=1e-12)
    variance = (0.65**2 + 0.73**2) / 3
    np.testing.assert_allclose(annotations.covariances.mean(axis=0), variance * np.eye(3), atol=0.1 * variance)
    # The mean of three independent errors has a third of the variance.
    np.testing.assert_allclose(np.cov(errors(annotations).T), variance / 3 * np.eye(3), atol=0.05 * variance)
    e = placed - truth(points)
    assert abs(np.corrcoef(e[0, :, 0], e[1, :, 0])[0, 1]) < 0.05


ANNOTATORS: list[Annotator | ExpertPanel] = [
    IsotropicAnnotator(2.0),
    EllipseAnnotator(),
    ExpertAnnotator(1.0, 2.0),
    ExpertPanel.alike(3, 1.0, 1.0),
]


@pytest.mark.parametrize("annotator", ANNOTATORS, ids=lambda a: type(a).__name__)
def test_determinism(annotator: Annotator | ExpertPanel) -> None:
    """The same seed gives the same answers, another one others, and further locations do not change the first."""
    points = locations(2, 60)
    one, same, other = (annotator.annotate(points, truth, seed=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(one.moving_points, same.moving_points)
    np.testing.assert_array_equal(one.covariances, same.covariances)
    assert len(one) != len(other) or np.abs(one.moving_points - other.moving_points).min() > 0
    first = annotator.annotate(points[:20], truth, seed=5)
    if not isinstance(annotator, ExpertPanel):  # whose covariances are pooled over all locations
        np.testing.assert_array_equal(first.covariances, one.covariances[: len(first)])
    np.testing.assert_array_equal(first.moving_points, one.moving_points[: len(first)])


def test_deformation_and_annotators_share_no_randomness() -> None:
    """With one seed for everything, neither the control velocities nor two experts draw the same numbers again."""
    grid = wg.Grid((20, 20), (10.0, 10.0))  # whose pixels are the control points
    velocity = random_velocity(grid, 1.0, 10.0, seed=4).ravel()
    unit = IsotropicAnnotator(wg.ellipse_from_covariance(np.eye(2))[0][0])  # whose noise is standard normal
    alone = errors(unit.annotate(np.zeros((30, 2)), truth, seed=4))
    first, second = ExpertPanel((unit, unit)).placements(np.zeros((30, 2)), truth, seed=4) - 3.0
    for one, other in ((velocity, alone), (velocity, first), (alone, second), (first, second), (alone, first)):
        nearest = np.abs(one.ravel()[:, None] - other.ravel()[None, :]).min()
        assert nearest > 1e-9


def test_outside_the_deformation_is_left_out() -> None:
    """Where the truth is not defined an annotator and a panel leave the location out."""
    grid = wg.Grid((50, 40))
    deformation = random_deformation(grid, 1.0, 12.0, seed=0)
    points = np.array([[10.0, 10.0], [60.0, 10.0], [30.0, 20.0]])
    annotations = IsotropicAnnotator(1.0, noisy=False).annotate(points, deformation, seed=0)
    np.testing.assert_array_equal(annotations.fixed_points, points[[0, 2]])
    np.testing.assert_array_equal(annotations.moving_points, deformation.map(points[[0, 2]]))
    assert len(ExpertPanel.alike(3, 1.0, 1.0).annotate(points, deformation, seed=0)) == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: IsotropicAnnotator(0.0), "radius"),
        (lambda: EllipseAnnotator(scale=-1.0), "scale"),
        (lambda: EllipseAnnotator(log_sd=-0.1), "log_sd"),
        (lambda: EllipseAnnotator(pixel_size=np.nan), "pixel_size"),
        (lambda: ExpertAnnotator(0.0, 1.0), "error_mean"),
        (lambda: ExpertAnnotator(1.0, -1.0), "error_sd"),
        (lambda: ExpertPanel.alike(1, 1.0, 1.0), "two or more"),
        (lambda: EllipseAnnotator().annotate(np.zeros((1, 2)), truth, seed=-3), "seed"),
        (lambda: EllipseAnnotator().annotate(np.zeros((1, 2)), "truth", seed=0), "true_map"),
        (lambda: EllipseAnnotator().annotate(np.zeros((2, 2)), lambda p: p[:1], seed=0), "true_map gave shape"),
        (lambda: EllipseAnnotator().annotate([[np.nan, 0.0]], truth, seed=0), "fixed_points row 0"),
    ],
)
def test_bad_arguments_are_named(make: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        make()  # type: ignore[operator]


def test_the_page_runs_as_printed() -> None:
    """The examples of docs/simulation.md give what is printed there."""
    page = Path(__file__).parent.parent / "docs" / "simulation.md"
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert results.attempted > 5
    assert results.failed == 0
