"""Strategies beyond the paper, each against its definition in the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import NOISE, make, random_covariances
from warpgauge.core.suggestion import StoppingRule
from warpgauge.errors import InvalidInputError

WHERE = ("inside", "outside", "mixed", "none")
BEYOND = ("information", "variance", "mutual_information", "noise_aware")
N = 8


def sets(where: str, d: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Candidates and targets: all candidates targets, none of them, some, or no targets given."""
    rng = np.random.default_rng([3, d])
    candidates, others = rng.uniform(0, 60, (N, d)), rng.uniform(0, 60, (4, d))
    return candidates, {
        "none": None,
        "inside": np.concatenate([others, candidates]),
        "outside": others,
        "mixed": np.concatenate([others, candidates[:3]]),
    }[where]


def defined(
    strategy: str,
    model: object,
    candidates: np.ndarray,
    targets: np.ndarray | None,
    chosen: list[int],
    elsewhere: np.ndarray,
    covariances: np.ndarray,
    expected: np.ndarray,
    default: np.ndarray,
) -> np.ndarray:
    """Gains from the definitions, NaN where a candidate is annotated."""
    k = model.k  # type: ignore[attr-defined]
    X = np.concatenate([candidates[chosen], elsewhere])
    left = [i for i in range(len(candidates)) if i not in chosen]
    if strategy == "mutual_information":
        others = None if targets is None else np.array([t for t in targets if not (t == candidates).all(1).any()])
        others = np.zeros((0, candidates.shape[1])) if others is None or len(others) == 0 else others
        of_others = np.broadcast_to(default, (len(others), *default.shape))
        return oracle.krause_gains(
            k, candidates, others, chosen, elsewhere, covariances, expected, of_others, extra_noise=NOISE
        )
    gains = np.full(len(candidates), np.nan)
    if strategy == "variance":
        T = candidates if targets is None else targets
        gains[left] = oracle.variance_reductions(k, candidates[left], T, X, covariances, expected[left], NOISE)
    else:
        gains[left] = oracle.information_gains(k, candidates[left], targets, X, covariances, expected[left], NOISE)
    return gains


@pytest.mark.parametrize("strategy", BEYOND)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("expecting", ["default", "iso", "aniso"])
@pytest.mark.parametrize(("d", "mean"), [(2, "affine"), (3, "identity")])
def test_gains_are_their_definition_through_isotropic_and_anisotropic_annotations(
    strategy: str, where: str, expecting: str, d: int, mean: str
) -> None:
    """At every step of a sequence whose first annotations are isotropic, and one of which lies elsewhere."""
    model = make(d, "wendland", True, mean)
    candidates, targets = sets(where, d)
    rng = np.random.default_rng(7)
    expected = None if expecting == "default" else random_covariances(N, d, expecting == "iso", rng)
    suggester = wg.Suggester(model.prior, candidates, targets, strategy, candidate_covariances=expected)
    if expected is None:
        expected = np.broadcast_to(suggester.default_covariance, (N, d, d))
    chosen: list[int] = []
    elsewhere, at_candidates, at_elsewhere = np.zeros((0, d)), [], []
    for step in range(4):
        covariances = np.reshape(at_candidates + at_elsewhere, (-1, d, d))
        wanted = defined(
            strategy, model, candidates, targets, chosen, elsewhere, covariances, expected, suggester.default_covariance
        )
        gains = suggester.gains()
        left = [i for i in range(N) if i not in chosen]
        np.testing.assert_allclose(gains[left], wanted[left], rtol=1e-7, atol=1e-8)
        assert np.isneginf(gains[chosen]).all()
        covariance = random_covariances(1, d, step < 2, rng)[0]
        if step == 1:
            elsewhere = np.full((1, d), 25.0)
            at_elsewhere.append(covariance)
            suggester.record_at(elsewhere[0], covariance)
            continue
        index = suggester.suggest()
        assert wanted[index] >= np.nanmax(wanted) - 1e-7
        at_candidates.append(covariance)
        chosen.append(index)
        suggester.record(index, covariance)


@pytest.mark.parametrize("strategy", BEYOND)
@pytest.mark.parametrize("where", WHERE)
def test_undo_gives_back_the_former_gains(strategy: str, where: str) -> None:
    """Also where a candidate was recorded twice, elsewhere, and after the noise became anisotropic."""
    model = make(2, "wendland", True, "affine")
    candidates, targets = sets(where, 2)
    suggester = wg.Suggester(model.prior, candidates, targets, strategy)
    rng = np.random.default_rng(1)
    history = []
    for step in range(6):
        history.append(suggester.gains())
        covariance = random_covariances(1, 2, step < 3, rng)[0]
        if step == 2:
            suggester.record_at([10.0, 20.0], covariance)
        elif step == 4:
            suggester.record(int(suggester.recorded[0] or 0), covariance)
        else:
            suggester.record(suggester.suggest(), covariance)
    for former in history[::-1]:
        suggester.undo()
        np.testing.assert_allclose(suggester.gains(), former, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("strategy", BEYOND)
def test_a_batch_assumes_the_former_at_the_covariance_expected_there(strategy: str) -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates, targets = sets("mixed", 2)
    expected = random_covariances(N, 2, False, np.random.default_rng(2))
    batched, stepped = (
        wg.Suggester(prior, candidates, targets, strategy, candidate_covariances=expected) for _ in range(2)
    )
    sequence = []
    for _ in range(5):
        sequence.append(stepped.suggest())
        stepped.record(sequence[-1], expected[sequence[-1]])
    before = batched.gains()
    assert batched.suggest(5) == sequence
    np.testing.assert_allclose(batched.gains(), before, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("strategy", BEYOND)
@pytest.mark.parametrize("where", ["none", "mixed"])
def test_expecting_other_covariances_later_is_the_same_as_from_the_start(strategy: str, where: str) -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates, targets = sets(where, 2)
    expected = random_covariances(N, 2, False, np.random.default_rng(4))
    later = wg.Suggester(prior, candidates, targets, strategy)
    at_once = wg.Suggester(prior, candidates, targets, strategy, candidate_covariances=expected)
    for suggester in (later, at_once):
        suggester.record(4, np.diag([1.0, 2.0]))
        suggester.record(6, 2 * np.eye(2))
    later.expect(expected)
    np.testing.assert_allclose(later.gains(), at_once.gains(), rtol=1e-9, atol=1e-9)
    assert later.suggest() == at_once.suggest()
    later.undo()
    at_once.undo()
    np.testing.assert_allclose(later.gains(), at_once.gains(), rtol=1e-9, atol=1e-9)


def test_noise_aware_with_the_same_noise_everywhere_is_the_papers_order() -> None:
    """Inside T the information is a rising function of the entropy."""
    prior = make(2, "wendland", True, "affine").prior
    candidates = np.random.default_rng(5).uniform(0, 60, (60, 2))
    sequences = [
        wg.Suggester(prior, candidates, strategy=strategy).suggest(25) for strategy in ("entropy", "noise_aware")
    ]
    assert sequences[0] == sequences[1]


def test_noise_aware_prefers_what_can_be_placed_well() -> None:
    """Of two equally unknown places the one with the smaller ellipse; the paper's gain cannot tell them apart."""
    prior = make(2, "wendland", True, "identity").prior
    candidates = np.array([[0.0, 0.0], [60.0, 60.0]])
    expected = np.stack([4 * np.eye(2), 0.5 * np.eye(2)])
    paper = wg.Suggester(prior, candidates, candidate_covariances=expected)
    assert paper.gains()[0] == pytest.approx(paper.gains()[1], rel=1e-12)
    assert all(
        wg.Suggester(prior, candidates, strategy="noise_aware", candidate_covariances=expected, seed=seed).suggest()
        == 1
        for seed in range(5)
    )


def test_the_mutual_information_avoids_the_rim_that_the_entropy_seeks() -> None:
    """Krause's observation: entropy places at the boundary, where half of what is learned lies outside."""
    axis = np.linspace(0, 60, 13)
    candidates = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    kernel = wg.KernelBundle("gaussian", [60.0], [10.0])
    prior = wg.TransformationPrior(kernel, noise=0.2)

    def rim(strategy: str) -> float:
        chosen = candidates[wg.Suggester(prior, candidates, strategy=strategy).suggest(12)]
        return float(np.mean(np.any((chosen == 0) | (chosen == 60), axis=1)))

    assert rim("mutual_information") <= 0.25
    assert rim("entropy") >= 0.5


def test_variance_over_many_candidates_integrates_over_a_sample_by_the_seed() -> None:
    """3,200 candidates make more than ten million pairs; the gains are then the mean over 2,000 of them."""
    prior = make(2, "wendland", True, "identity").prior
    candidates = np.random.default_rng(6).uniform(0, 60, (3200, 2))
    suggester = wg.Suggester(prior, candidates, strategy="variance", seed=3)
    rows = np.sort(np.random.default_rng(3).choice(3200, 2000, replace=False))
    noise = suggester.default_covariance[0, 0] + NOISE
    kernel = prior.kernel(np.linalg.norm(candidates[17] - candidates[rows], axis=1))
    expected = 2 * np.mean(kernel**2) / (prior.kernel.at_zero + noise)
    assert suggester.gain(17) == pytest.approx(expected, rel=1e-10)


def test_too_many_candidates_for_the_mutual_information_are_refused() -> None:
    prior = make(2, "wendland", True, "identity").prior
    with pytest.raises(InvalidInputError, match="at most 4,000"):
        wg.Suggester(prior, np.random.default_rng(0).uniform(0, 60, (4001, 2)), strategy="mutual_information")


def test_wrong_expected_covariances_are_refused() -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates, _ = sets("none", 2)
    with pytest.raises(InvalidInputError, match=r"candidate_covariances must have shape \(8, 2, 2\)"):
        wg.Suggester(prior, candidates, candidate_covariances=np.eye(2))
    with pytest.raises(InvalidInputError, match="candidate_covariances row 0 is not positive definite"):
        wg.Suggester(prior, candidates, candidate_covariances=np.zeros((N, 2, 2)))


def test_stopping_by_the_variance_does_not_speak_of_nats() -> None:
    prior = make(2, "wendland", True, "identity").prior
    suggester = wg.Suggester(prior, sets("none", 2)[0], strategy="variance")
    reason = str(suggester.stop_reason(StoppingRule(gain=1e9)))
    assert "expected gain" in reason
    assert "nats" not in reason


@pytest.mark.parametrize("where", WHERE)
def test_a_question_is_worth_its_information_times_the_chance_of_an_answer(where: str) -> None:
    """At every step, with chances that change from step to step, also to zero."""
    model = make(2, "wendland", True, "affine")
    candidates, targets = sets(where, 2)
    rng = np.random.default_rng(8)
    suggester = wg.Suggester(model.prior, candidates, targets, "information", chance=np.full(N, 0.5))
    expected = np.broadcast_to(suggester.default_covariance, (N, 2, 2))
    chosen: list[int] = []
    noises = np.zeros((0, 2, 2))
    for step in range(4):
        chances = rng.uniform(size=N) * (rng.uniform(size=N) > 0.3)
        suggester.set_chance(chances)
        left = [i for i in range(N) if i not in chosen]
        wanted = oracle.question_values(
            model.k, candidates[left], targets, candidates[chosen], noises, expected[left], chances[left], NOISE
        )
        np.testing.assert_allclose(suggester.gains()[left], wanted, rtol=1e-7, atol=1e-8)
        index = suggester.suggest()
        assert wanted[left.index(index)] >= wanted.max() - 1e-7
        assert suggester.chance(index) == chances[index]
        chosen.append(index)
        noise = random_covariances(1, 2, step < 2, rng)
        noises = np.concatenate([noises, noise])
        suggester.record(index, noise[0])


def test_lazy_weighted_suggestions_are_the_best_of_all() -> None:
    """With chances that move over the image as annotations come, the search stops early and misses nothing."""
    model = make(2, "wendland", True, "affine")
    rng = np.random.default_rng(9)
    candidates = rng.uniform(0, 60, (3000, 2))
    lazy = wg.Suggester(model.prior, candidates, strategy="information")
    full = wg.Suggester(model.prior, candidates, strategy="information")
    stale = []
    for step in range(30):
        middle = rng.uniform(0, 60, 2)
        chance = np.exp(-np.square(candidates - middle).sum(axis=1) / 800)
        for suggester in (lazy, full):
            suggester.set_chance(chance)
        index = lazy.suggest()
        stale.append(float(np.mean(lazy._gains.gains.exact_at != step)))  # type: ignore[union-attr]
        gains = full.gains()
        assert gains[index] == pytest.approx(gains.max(), rel=1e-9)
        for suggester in (lazy, full):
            suggester.record(index, random_covariances(1, 2, step < 15, np.random.default_rng(step))[0])
    assert np.mean(stale[5:]) > 0.5


def test_chances_are_checked() -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates = np.array([[0.0, 0.0], [60.0, 60.0]])
    for wrong in ([0.5], [0.5, 1.5], [0.5, np.nan], [-0.1, 0.5]):
        with pytest.raises(InvalidInputError, match="2 numbers from 0 to 1"):
            wg.Suggester(prior, candidates, strategy="information", chance=wrong)
    with pytest.raises(InvalidInputError, match='Only the strategy "information"'):
        wg.Suggester(prior, candidates, chance=[0.5, 0.5])
    suggester = wg.Suggester(prior, candidates, strategy="information", chance=[0.0, 0.0])
    assert suggester.suggest() in (0, 1)  # nothing can be answered: any is as good
    suggester.set_chance(None)
    assert suggester.chance(1) == 1.0
