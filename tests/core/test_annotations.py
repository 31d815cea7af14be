from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import warpgauge as wg
from warpgauge.core.annotations import confidence_radius
from warpgauge.errors import InvalidInputError


@pytest.mark.parametrize(("d", "square"), [(2, 9.2103), (3, 11.3449)])
def test_confidence_radius_uses_d_degrees_of_freedom(d: int, square: float) -> None:
    assert confidence_radius(d, 0.01) ** 2 == pytest.approx(square, abs=5e-5)


def rotation(d: int, rng: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


@pytest.mark.parametrize("d", [2, 3])
def test_ellipse_to_covariance_equals_the_oracle_and_goes_back(d: int) -> None:
    rng = np.random.default_rng(d)
    lengths, axes = np.sort(rng.uniform(1, 9, d))[::-1], rotation(d, rng)
    covariance = wg.covariance_from_ellipse(lengths, axes, alpha=0.05)
    np.testing.assert_allclose(covariance, oracle.ellipse_to_covariance(lengths, axes, 0.05), rtol=1e-12)
    back_lengths, back_axes = wg.ellipse_from_covariance(covariance, alpha=0.05)
    np.testing.assert_allclose(back_lengths, lengths, rtol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(back_axes * axes, axis=0)), 1, atol=1e-10)


@pytest.mark.parametrize(
    ("lengths", "axes", "word"),
    [
        ([1.0, 0.0], np.eye(2), "positive"),
        ([1.0, 2.0], [[1.0, 0.1], [0.0, 1.0]], "orthonormal"),
        ([1.0, 2.0], np.eye(3), "shapes"),
    ],
)
def test_bad_ellipses_are_refused(lengths: object, axes: object, word: str) -> None:
    with pytest.raises(InvalidInputError, match=word):
        wg.covariance_from_ellipse(lengths, axes)  # type: ignore[arg-type]


def spoil(what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y, s = np.zeros((3, 2)), np.ones((3, 2)), np.stack([np.eye(2)] * 3)
    if what == "fixed":
        x[1, 0] = np.nan
    elif what == "moving":
        y[2, 1] = np.inf
    elif what == "asymmetric":
        s[1, 0, 1] = 0.5
    elif what == "indefinite":
        s[2] = [[1, 2], [2, 1]]
    elif what == "zero":
        s[0] = 0
    elif what == "nan":
        s[1] = np.nan
    return x, y, s


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("fixed", "fixed_points row 1"),
        ("moving", "moving_points row 2"),
        ("asymmetric", "row 1 is not symmetric"),
        ("indefinite", "row 2 is not positive definite"),
        ("zero", "row 0 is not positive definite"),
        ("nan", "row 1 is not finite"),
    ],
)
def test_errors_name_the_row(what: str, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        wg.Annotations(*spoil(what))


def test_unequal_counts_name_both() -> None:
    with pytest.raises(InvalidInputError, match="3 fixed and 2 moving"):
        wg.Annotations(np.zeros((3, 2)), np.zeros((2, 2)), np.stack([np.eye(2)] * 3))


def test_annotations_are_frozen_copies() -> None:
    """Neither the caller's later changes nor an assignment reaches them."""
    x = np.arange(6.0).reshape(3, 2)
    annotations = wg.Annotations.isotropic(x, x, 1.0)
    x[0, 0] = 99
    assert annotations.fixed_points[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        annotations.fixed_points[0, 0] = 5


def test_selecting_and_joining_keep_rows_together() -> None:
    x = np.arange(8.0).reshape(4, 2)
    annotations = wg.Annotations(x, x + 100, np.arange(1.0, 5)[:, None, None] * np.eye(2))
    joined = wg.Annotations.concatenate([annotations[2:], annotations[[0]]])
    np.testing.assert_array_equal(joined.fixed_points, x[[2, 3, 0]])
    np.testing.assert_array_equal(joined.moving_points, x[[2, 3, 0]] + 100)
    np.testing.assert_array_equal(joined.covariances[:, 0, 0], [3, 4, 1])


# --- several raters -----------------------------------------------------------------------------------------------


def test_sample_fusion_is_the_papers_gaussian_fit() -> None:
    placements = np.random.default_rng(3).normal(size=(5, 4, 3))
    fused = wg.fuse_raters(placements, method="sample")
    for location in range(4):
        mean, covariance = oracle.sample_covariance_fusion(placements[:, location])
        np.testing.assert_allclose(fused.points[location], mean, atol=1e-14)
        np.testing.assert_allclose(fused.covariances[location], covariance, atol=1e-13)


def test_sample_fusion_refuses_three_raters_in_3d_unless_a_floor_is_given() -> None:
    placements = np.random.default_rng(4).normal(size=(3, 5, 3))
    with pytest.raises(InvalidInputError, match="location 0, where 3 raters stand against 3 dimensions"):
        wg.fuse_raters(placements, method="sample")
    fused = wg.fuse_raters(placements, method="sample", floor=0.1)
    assert np.linalg.eigvalsh(fused.covariances).min() == pytest.approx(0.01, rel=1e-9)


def test_pooled_fusion_by_hand() -> None:
    """Two locations, 2D: scatter matrices, pooling and shrinkage worked out on paper."""
    a = np.array([[0.0, 0.0], [10.0, 10.0]])
    b = np.array([[2.0, 0.0], [10.0, 14.0]])
    fused = wg.fuse_raters({"ann": a, "bob": b})
    np.testing.assert_allclose(fused.points, [[1, 0], [10, 12]])
    # Scatter about the means: diag(2, 0) and diag(0, 8), one degree of freedom each; their mean variance is
    # 10 / (2 * 2) = 2.5, so the pool is (diag(2, 8) + 2.5 I) / 3.
    pooled = np.diag([4.5, 10.5]) / 3
    np.testing.assert_allclose(fused.pooled_covariance, pooled)
    np.testing.assert_allclose(fused.covariances[0], (np.diag([2.0, 0.0]) + 4 * pooled) / 5)
    np.testing.assert_allclose(fused.covariances[1], (np.diag([0.0, 8.0]) + 4 * pooled) / 5)
    np.testing.assert_allclose(fused.bias, [[-0.5, -1], [0.5, 1]])
    assert fused.raters == ("ann", "bob")


def test_missing_placements_are_counted_and_bias_is_recovered() -> None:
    """With a third of the placements missing, the additive model still finds offsets that plain means would not."""
    rng = np.random.default_rng(5)
    truth = rng.uniform(0, 1000, (200, 2))
    offsets = np.array([[3.0, 0.0], [-1.0, 2.0], [-2.0, -2.0]])
    placements = truth + offsets[:, None] + rng.normal(0, 0.5, (3, 200, 2))
    missing = rng.random((3, 200)) < 0.33
    missing[0, missing.all(axis=0)] = False
    placements[missing] = np.nan
    fused = wg.fuse_raters(placements)
    np.testing.assert_array_equal(fused.counts, (~missing).sum(axis=0))
    assert np.abs(fused.bias - offsets).max() < 4 * 0.5 / np.sqrt(100)
    assert 0.02 < fused.bias_se.min() <= fused.bias_se.max() < 0.08


@given(raters=st.integers(1, 4), locations=st.integers(1, 6), d=st.sampled_from([2, 3]), seed=st.integers(0, 10**6))
def test_pooled_is_never_singular(raters: int, locations: int, d: int, seed: int) -> None:
    """Whenever two raters met anywhere; and where they never did, the sentence asks for a floor."""
    rng = np.random.default_rng(seed)
    placements = rng.normal(size=(raters, locations, d))
    placements[rng.random((raters, locations)) < 0.4] = np.nan
    placements[0, np.isnan(placements[:, :, 0]).all(axis=0)] = 0.0
    shared = (~np.isnan(placements[:, :, 0])).sum(axis=0).max() > 1
    if not shared:
        with pytest.raises(InvalidInputError, match="floor"):
            wg.fuse_raters(placements)
        fused = wg.fuse_raters(placements, floor=0.5)
    else:
        fused = wg.fuse_raters(placements)
    assert np.linalg.eigvalsh(fused.covariances).min() > 0


def test_nobody_and_half_missing_placements_are_refused() -> None:
    placements = np.zeros((2, 3, 2))
    placements[:, 1] = np.nan
    with pytest.raises(InvalidInputError, match="Location 1 was placed by nobody"):
        wg.fuse_raters(placements)
    placements[:, 1] = [0, np.nan]
    with pytest.raises(InvalidInputError, match="location 1 by rater 1 is neither"):
        wg.fuse_raters(placements)
