from __future__ import annotations

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import GRID, make, names
from warpgauge.core.error_scores import (
    expected_squared_error,
    landmark_score,
    posterior_score,
    rank_distribution,
    win_probabilities,
)
from warpgauge.errors import InvalidInputError

CASES = pytest.mark.parametrize("case", GRID, ids=names)


@pytest.mark.parametrize("p", [1, 1.5, 2, 7, np.inf])
def test_norms_equal_the_oracle_for_vectors_and_lengths(p: float) -> None:
    errors = np.random.default_rng(0).normal(size=(17, 3))
    expected = oracle.displacement_norm(errors, p)
    assert wg.displacement_norm(errors, p) == pytest.approx(expected, rel=1e-12)
    assert wg.displacement_norm(np.linalg.norm(errors, axis=1), p) == pytest.approx(expected, rel=1e-12)


def test_norms_of_huge_and_zero_errors_neither_overflow_nor_divide_by_zero() -> None:
    assert wg.displacement_norm(np.full(3, 1e200), 2) == pytest.approx(1e200)
    assert wg.displacement_norm(np.zeros((3, 2)), 2) == 0.0


@pytest.mark.parametrize(
    ("errors", "p", "word"),
    [
        ([1.0, np.nan], 2, "1 of 2 errors are NaN"),
        ([], 2, "n > 0"),
        ([1.0], 0.5, "at least 1"),
        ([-1.0], 1, "negative"),
    ],
)
def test_bad_errors_are_refused(errors: list[float], p: float, word: str) -> None:
    with pytest.raises(InvalidInputError, match=word):
        wg.displacement_norm(errors, p)


@CASES
def test_scores_equal_the_oracle(case: tuple[int, str, bool, str]) -> None:
    model = make(*case)
    posterior = model.prior.condition(model.annotations)
    means, joint = model.oracle_posterior()
    blocks = oracle.block_diagonal(joint, model.d)
    mapped = model.points + np.random.default_rng(1).normal(0, 3, model.points.shape)
    for p in (1, 2, np.inf):
        assert posterior_score(posterior, model.points, mapped, p) == pytest.approx(
            oracle.posterior_score(means, mapped, p), rel=1e-10
        )
    at_landmarks = model.annotations.fixed_points + 1.0
    assert landmark_score(model.annotations, at_landmarks, 2) == pytest.approx(
        oracle.landmark_score(at_landmarks, model.annotations.moving_points, 2), rel=1e-12
    )
    assert expected_squared_error(posterior, model.points, mapped) == pytest.approx(
        oracle.expected_squared_error(means, blocks, mapped), rel=1e-10
    )
    np.testing.assert_allclose(
        wg.error_score(posterior, model.points, mapped), oracle.error_score(means, blocks, mapped), atol=1e-10
    )


@CASES
def test_win_probability_equals_the_oracle(case: tuple[int, str, bool, str]) -> None:
    model = make(*case)
    posterior = model.prior.condition(model.annotations)
    means, joint = model.oracle_posterior()
    rng = np.random.default_rng(2)
    a, b, c = (means + rng.normal(0, 1.5, means.shape) for _ in range(3))
    expected = oracle.probability_smaller_mse(means, joint, a, b)
    assert 0.001 < expected < 0.999
    assert win_probabilities(posterior, model.points, [a, b])[0, 1] == pytest.approx(expected, abs=1e-9)
    matrix = win_probabilities(posterior, model.points, np.stack([a, b, c]))
    assert matrix[0, 2] == pytest.approx(oracle.probability_smaller_mse(means, joint, a, c), abs=1e-9)
    np.testing.assert_allclose(matrix + matrix.T, 1, atol=1e-12)


def test_identical_transforms_tie() -> None:
    model = make(2, "wendland", False, "identity")
    posterior = model.prior.condition(model.annotations)
    same = model.points + 1.0
    assert win_probabilities(posterior, model.points, [same, same])[0, 1] == 0.5


def test_rank_distribution_by_hand() -> None:
    """Three samples of three transforms, one of them with a tie for first place."""
    ranks = rank_distribution(np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [1.0, 1.0, 5.0]]))
    np.testing.assert_allclose(ranks.probabilities, [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    np.testing.assert_allclose(ranks.best, [0.5, 0.5, 0])
    np.testing.assert_allclose(ranks.mean, [1.5, 1.5, 3])
