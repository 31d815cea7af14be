"""Suggestions that settle a ranking, against win probabilities integrated over where an annotation may fall."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import NOISE, Model, make, random_covariances
from warpgauge.core.decisions import DecisionSuggester, expected_doubt
from warpgauge.core.error_scores import win_probabilities
from warpgauge.errors import InvalidInputError

K, N = 3, 7


def case(
    d: int, isotropic: bool, mean: str = "identity"
) -> tuple[Model, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A model with annotations, targets, the targets mapped by transforms, candidates, and expected covariances."""
    model = make(d, "wendland", isotropic, mean, count=5)
    rng = np.random.default_rng([4, d])
    targets, candidates = rng.uniform(0, 60, (N, d)), rng.uniform(0, 60, (4, d))
    mapped = model.oracle_posterior(targets)[0] + rng.normal(0, 1.5, (K, N, d))
    return model, targets, mapped, candidates, random_covariances(4, d, False, rng)


@pytest.mark.parametrize("mean", ["identity", "affine"])
@pytest.mark.parametrize("isotropic", [True, False], ids=["iso", "aniso"])
@pytest.mark.parametrize("d", [2, 3])
def test_shares_are_the_drop_of_the_variance_of_each_difference(d: int, isotropic: bool, mean: str) -> None:
    """Against the joint posterior with and without the annotation, by dense matrices."""
    model, targets, mapped, candidates, expected = case(d, isotropic, mean)
    posterior = model.prior.condition(model.annotations)
    suggester = DecisionSuggester(posterior, targets, mapped, candidates, "ranking", candidate_covariances=expected)
    shares, leads = suggester.explained_shares()
    mu, joint = model.oracle_posterior(targets)
    a = model.annotations
    for i, candidate in enumerate(candidates):
        more = wg.Annotations(candidate[None], candidate[None], expected[i][None])
        grown = wg.Annotations.concatenate([a, more])
        after = oracle.posterior(
            model.k, model.mean, grown.fixed_points, grown.moving_points, grown.covariances, targets, NOISE
        )[1]
        for pair, (j, k) in enumerate(suggester.pairs()):
            delta = (mapped[j] - mapped[k]).reshape(-1)
            assert shares[i, pair] == pytest.approx(1 - (delta @ after @ delta) / (delta @ joint @ delta), abs=1e-8)
    for pair, (j, k) in enumerate(suggester.pairs()):
        delta = (mapped[j] - mapped[k]).reshape(-1)
        difference = oracle.posterior_score(mu, mapped[j], 2) ** 2 - oracle.posterior_score(mu, mapped[k], 2) ** 2
        assert leads[pair] == pytest.approx(difference / np.sqrt(4 / N**2 * delta @ joint @ delta), rel=1e-7)


@pytest.mark.parametrize("isotropic", [True, False], ids=["iso", "aniso"])
def test_gains_are_the_expected_loss_of_doubt(isotropic: bool) -> None:
    """Within 0.012 nats a pair of the integral over where the annotation may fall."""
    model, targets, mapped, candidates, expected = case(2, isotropic)
    posterior = model.prior.condition(model.annotations)
    suggester = DecisionSuggester(posterior, targets, mapped, candidates, "ranking", candidate_covariances=expected)
    everything = np.concatenate([targets, candidates])
    means, joint = model.oracle_posterior(everything)
    size = N * 2
    for i in range(len(candidates)):
        here = slice(size + 2 * i, size + 2 * (i + 1))
        annotation = joint[here, here] + expected[i] + NOISE * np.eye(2)
        wanted = 0.0
        for j, k in suggester.pairs():
            now, after = oracle.expected_open_question(
                means[:N], joint[:size, :size], mapped[j], mapped[k], joint[:size, here], annotation
            )
            wanted += now - after
        assert suggester.gains()[i] == pytest.approx(wanted, abs=0.024 * 3)
        assert suggester.gains()[i] > 0


def test_the_closed_form_of_the_doubt_is_near_its_integral() -> None:
    """For leads from 0 to 4 standard deviations and shares from none to nearly all."""
    grid = np.linspace(-9, 9, 20001)
    weights = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
    from scipy.special import entr, ndtr

    for lead in (0.0, 0.5, 1.0, 2.0, 4.0):
        former = np.inf
        for share in (0.0, 0.1, 0.5, 0.9, 0.99):
            moved = (lead + np.sqrt(share) * grid) / np.sqrt(1 - share)
            exact = float(np.sum(weights * (entr(ndtr(moved)) + entr(ndtr(-moved)))))
            found = float(expected_doubt(np.array(lead), np.array(share)))
            assert found == pytest.approx(exact, abs=0.012)
            assert found < former
            former = found


def test_it_asks_where_the_transforms_differ() -> None:
    """Two transforms that are equal but in one corner are told apart there; entropy looks elsewhere first."""
    kernel = wg.KernelBundle("wendland", [20.0], [4.0])
    prior = wg.TransformationPrior(kernel)
    axis = np.arange(0.0, 61, 10)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mapped = np.stack([points, points])
    corner = np.linalg.norm(points - 60, axis=1) < 15
    mapped[1, corner] += [3.0, 0.0]
    known = wg.Annotations.isotropic([[30.0, 30.0]], [[30.0, 30.0]], 0.3)
    asked = DecisionSuggester(prior.condition(known), points, mapped, points).suggest()
    assert np.linalg.norm(points[asked] - 60) < 15


@pytest.mark.parametrize("calibrate", [False, True])
def test_records_are_the_posteriors_own_and_undo_gives_them_back(calibrate: bool) -> None:
    """Its win probabilities are those of the posterior given the same annotations, recalibrated where it is."""
    model, targets, mapped, candidates, expected = case(2, True)
    start = model.prior.condition(model.annotations, calibrate=calibrate)
    suggester = DecisionSuggester(start, targets, mapped, candidates, candidate_covariances=expected)
    before = suggester.gains()
    first = suggester.suggest()
    suggester.record(first, candidates[first] + 0.5)
    more = wg.Annotations(candidates[[first]], candidates[[first]] + 0.5, expected[[first]])
    grown = model.prior.condition(wg.Annotations.concatenate([model.annotations, more]), calibrate=calibrate)
    np.testing.assert_allclose(
        suggester.win_probabilities(), win_probabilities(grown, targets, mapped), rtol=1e-7, atol=1e-12
    )
    fresh = DecisionSuggester(grown, targets, mapped, candidates, candidate_covariances=expected).gains()
    fresh[first] = -np.inf
    np.testing.assert_allclose(suggester.gains(), fresh, rtol=1e-7)
    assert suggester.undo() == first
    np.testing.assert_array_equal(suggester.gains(), before)
    with pytest.raises(InvalidInputError, match="Nothing is recorded"):
        suggester.undo()


def test_the_goal_best_asks_about_the_leader_only() -> None:
    model, targets, mapped, candidates, _ = case(2, True)
    mu, _ = model.oracle_posterior(targets)
    leader = int(np.argmin([oracle.posterior_score(mu, one, 2) for one in mapped]))
    suggester = DecisionSuggester(model.prior.condition(model.annotations), targets, mapped, candidates)
    assert suggester.leader == leader
    assert list(suggester.pairs()) == [(leader, k) for k in range(K) if k != leader]


def test_equal_transforms_leave_nothing_to_decide() -> None:
    model, targets, mapped, candidates, _ = case(2, True)
    suggester = DecisionSuggester(
        model.prior.condition(model.annotations), targets, np.stack([mapped[0], mapped[0]]), candidates
    )
    np.testing.assert_array_equal(suggester.gains(), np.zeros(4))


def test_skipped_candidates_are_not_asked_and_bad_input_is_refused() -> None:
    model, targets, mapped, candidates, _ = case(2, True)
    posterior = model.prior.condition(model.annotations)
    suggester = DecisionSuggester(posterior, targets, mapped, candidates)
    first = suggester.suggest()
    suggester.skip(first)
    assert suggester.suggest() != first
    suggester.restore(first)
    assert suggester.suggest() == first
    for index in range(4):
        suggester.skip(index)
    with pytest.raises(InvalidInputError, match="No candidate is left"):
        suggester.suggest()
    with pytest.raises(InvalidInputError, match="no candidate 9"):
        suggester.record(9, [0.0, 0.0])
    with pytest.raises(InvalidInputError, match="two or more transforms"):
        DecisionSuggester(posterior, targets, mapped[:1], candidates)
    with pytest.raises(InvalidInputError, match='"best" or "ranking"'):
        DecisionSuggester(posterior, targets, mapped, candidates, "worst")  # type: ignore[arg-type]
