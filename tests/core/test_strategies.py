"""The strategy of sessions: information times the chance of an answer, against its definition in the oracle."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import NOISE, make, random_covariances
from warpgauge.errors import InvalidInputError

WHERE = ("inside", "outside", "mixed", "none")
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


@pytest.mark.parametrize("strategy", ["entropy", "information"])
@pytest.mark.parametrize("where", WHERE)
def test_undo_gives_back_the_former_values(where: str, strategy: str) -> None:
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
    with pytest.raises(InvalidInputError, match="Nothing is recorded"):
        suggester.undo()


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
    for step in range(30):
        middle = rng.uniform(0, 60, 2)
        chance = np.exp(-np.square(candidates - middle).sum(axis=1) / 800)
        for suggester in (lazy, full):
            suggester.set_chance(chance)
        index = lazy.suggest()
        gains = full.gains()
        assert gains[index] == pytest.approx(gains.max(), rel=1e-9)
        for suggester in (lazy, full):
            suggester.record(index, random_covariances(1, 2, step < 15, np.random.default_rng(step))[0])


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
