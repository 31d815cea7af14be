from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import oracle
import warpgauge as wg
from models import FAMILIES, NOISE, make, random_covariances
from warpgauge.errors import InvalidInputError

WHERE = ("inside", "outside", "mixed", "none")


def sets(where: str, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    """Candidates and targets: all candidates targets, none of them, or some."""
    rng = np.random.default_rng([seed, d])
    candidates, others = rng.uniform(0, 60, (14, d)), rng.uniform(0, 60, (7, d))
    if where == "none":
        return candidates, None
    if where == "inside":
        return candidates, np.concatenate([others, candidates])
    if where == "outside":
        return candidates, others
    return candidates, np.concatenate([others, candidates[:6]])


def followed(suggester: wg.Suggester, count: int) -> list[int]:
    """Suggestions, each recorded as soon as it is made."""
    chosen = []
    for _ in range(count):
        chosen.append(suggester.suggest())
        suggester.record(chosen[-1])
    return chosen


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("isotropic", [True, False], ids=["iso", "aniso"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("d", [2, 3])
def test_gains_equal_the_definition_after_every_annotation(d: int, family: str, isotropic: bool, where: str) -> None:
    """Delta H from joint entropies of all targets, Eq. (fast_optimization), at every step of a sequence."""
    model = make(d, family, isotropic, "identity")
    candidates, targets = sets(where, d)
    covariances = random_covariances(14, d, isotropic, np.random.default_rng(8))
    suggester = wg.Suggester(model.prior, candidates, targets)
    chosen: list[int] = []
    for _ in range(5):
        left = [i for i in range(14) if i not in chosen]
        expected = oracle.delta_entropy(
            model.k, candidates[left], targets, candidates[chosen], covariances[chosen], NOISE
        )
        gains = suggester.gains()
        np.testing.assert_allclose(gains[left], expected, atol=1e-8)
        assert np.isneginf(gains[chosen]).all()
        index = suggester.suggest()
        assert gains[index] >= gains.max() - 2e-9
        suggester.record(index, covariances[index])
        chosen.append(index)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("isotropic", [True, False], ids=["iso", "aniso"])
@pytest.mark.parametrize("d", [2, 3])
def test_the_sequence_is_algorithm_1(d: int, isotropic: bool, where: str) -> None:
    model = make(d, "wendland", isotropic, "affine")
    candidates, targets = sets(where, d, seed=1)
    covariances = random_covariances(14, d, isotropic, np.random.default_rng(9))
    suggester = wg.Suggester(model.prior, candidates, targets)
    chosen = []
    for _ in range(6):
        chosen.append(suggester.suggest())
        suggester.record(chosen[-1], covariances[chosen[-1]])
    assert chosen == oracle.greedy_sequence(
        model.k, candidates, targets, covariances, 6, first=chosen[0], extra_noise=NOISE
    )


def test_a_grid_full_of_ties_is_ordered_by_the_seed_alone() -> None:
    """On a symmetric grid rounding must not decide: lazy with and without a full refresh agree, seeds differ."""
    axis = np.arange(0, 60, 6.0)
    candidates = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    prior = make(2, "wendland", True, "identity").prior

    def sequence(seed: int, refresh: bool) -> list[int]:
        suggester = wg.Suggester(prior, candidates, seed=seed)
        chosen = []
        for _ in range(12):
            if refresh:
                suggester.gains()
            chosen.append(suggester.suggest())
            suggester.record(chosen[-1])
        return chosen

    assert sequence(0, False) == sequence(0, True)
    assert sequence(0, False) == sequence(0, False)
    assert len({tuple(sequence(seed, False)) for seed in range(5)}) == 5


def test_farthest_is_the_papers_heuristic() -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates = np.random.default_rng(3).uniform(0, 60, (50, 2))
    suggester = wg.Suggester(prior, candidates, strategy="farthest", seed=4)
    chosen = followed(suggester, 10)
    assert chosen == oracle.farthest_sequence(candidates, chosen[0], 10)
    firsts = {wg.Suggester(prior, candidates, strategy="farthest", seed=seed).suggest() for seed in range(20)}
    assert len(firsts) > 5


def test_random_is_a_permutation_by_the_seed() -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates = np.random.default_rng(3).uniform(0, 60, (30, 2))

    def sequence(seed: int) -> list[int]:
        return followed(wg.Suggester(prior, candidates, strategy="random", seed=seed), 30)

    assert sorted(sequence(1)) == list(range(30))
    assert sequence(1) == sequence(1)
    assert sequence(1) != sequence(2)


@pytest.mark.parametrize("where", WHERE)
def test_annotations_elsewhere_count_like_those_at_candidates(where: str) -> None:
    model = make(2, "wendland", False, "identity")
    candidates, targets = sets(where, 2)
    elsewhere = np.array([[11.0, 22.0], [40.0, 41.0]])
    covariances = random_covariances(2, 2, False, np.random.default_rng(5))
    suggester = wg.Suggester(model.prior, candidates, targets)
    for point, covariance in zip(elsewhere, covariances, strict=True):
        suggester.record_at(point, covariance)
    expected = oracle.delta_entropy(model.k, candidates, targets, elsewhere, covariances, NOISE)
    np.testing.assert_allclose(suggester.gains(), expected, atol=1e-8)


def test_a_skipped_candidate_is_never_suggested_until_restored() -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates, _ = sets("none", 2)
    suggester = wg.Suggester(prior, candidates)
    first = suggester.suggest()
    suggester.skip(first)
    rest = followed(suggester, 13)
    for _ in rest:
        suggester.undo()
    assert first not in rest
    assert len(set(rest)) == 13
    suggester.restore(first)
    assert suggester.suggest() == first
    with pytest.raises(InvalidInputError, match="was not skipped"):
        suggester.restore(first)
    suggester.record(first)
    suggester.skip(first)
    suggester.undo()
    assert suggester.suggest() != first


def test_it_says_when_nothing_is_left() -> None:
    prior = make(2, "wendland", True, "identity").prior
    suggester = wg.Suggester(prior, [[0.0, 0.0], [30.0, 0.0]])
    suggester.record(suggester.suggest())
    suggester.skip(suggester.suggest())
    with pytest.raises(InvalidInputError, match="No candidate is left"):
        suggester.suggest()


def test_the_default_noise_is_the_papers_one_pixel_disc() -> None:
    """A 99 % disc of a tenth of the smallest scale: 1 where that is 10."""
    prior = wg.TransformationPrior(wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=3, weight=1.0))
    suggester = wg.Suggester(prior, [[0.0, 0.0]])
    lengths, _ = wg.ellipse_from_covariance(suggester.default_covariance)
    np.testing.assert_allclose(lengths, [1.0, 1.0], rtol=1e-12)


def test_a_candidate_that_follows_from_the_targets_is_refused() -> None:
    prior = make(2, "wendland", True, "identity").prior
    targets = np.array([[10.0, 10.0], [30.0, 30.0]])
    with pytest.raises(InvalidInputError, match="Candidate 1 lies so near"):
        wg.Suggester(prior, [[20.0, 10.0], [10.0, 10.0 + 1e-6]], targets)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda s: s.record(14), "no candidate 14"),
        (lambda s: s.record(-1), "no candidate -1"),
        (lambda s: s.record(0, np.zeros((2, 2))), "not positive definite"),
        (lambda s: s.record(0, np.eye(3)), "shape"),
    ],
)
def test_bad_calls_are_refused_and_change_nothing(call, word: str) -> None:  # type: ignore[no-untyped-def]
    prior = make(2, "wendland", True, "identity").prior
    suggester = wg.Suggester(prior, sets("none", 2)[0])
    before = suggester.gains()
    with pytest.raises(InvalidInputError, match=word):
        call(suggester)
    np.testing.assert_array_equal(suggester.gains(), before)


_FIRST = """
import sys, numpy as np, warpgauge as wg
from warpgauge.core.power_law import default_prior
prior = default_prior([60.0, 60.0], center=[30.0, 30.0], smallest=5.0)
suggester = wg.Suggester(prior, np.random.default_rng(0).uniform(0, 60, (2000, 2)))
index = suggester.suggest()
posterior = prior.condition(wg.Annotations.empty(2), calibrate=True)
posterior.mean_and_covariance(suggester.candidates[:1]), posterior.region(suggester.candidates[:1])
print("numba" in sys.modules)
"""


def test_the_first_question_needs_no_compiled_loop() -> None:
    """In a new installation nothing is compiled yet; the first question waits neither for that nor for numba."""
    done = subprocess.run([sys.executable, "-c", _FIRST], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("strategy", ["entropy", "information"])
@pytest.mark.parametrize("isotropic", [True, False], ids=["iso", "aniso"])
@pytest.mark.parametrize("model", [("wendland", "identity"), ("wendland", "affine"), ("gaussian", "identity")])
def test_lazy_evaluation_changes_no_suggestion(model: tuple[str, str], isotropic: bool, strategy: str) -> None:
    """Among thousands of candidates the choices are those by exact gains, undone ones too."""
    prior = make(3, model[0], isotropic, model[1]).prior
    rng = np.random.default_rng(21)
    # Far apart, so that compact kernels do not reach all; the first part on a grid, which is full of ties.
    grid = np.stack(np.meshgrid(*[np.arange(0.0, 300, 50)] * 3), axis=-1).reshape(-1, 3)
    candidates = np.concatenate([grid, rng.uniform(0, 300, (2000, 3))])
    covariances = random_covariances(12, 3, isotropic, rng)
    undone = rng.permutation(12)[:4]

    def sequence(refresh: bool) -> list[int]:
        suggester = wg.Suggester(prior, candidates, strategy=strategy, seed=3)
        chosen = []
        for step in range(12):
            if refresh:
                suggester.gains()
            chosen.append(suggester.suggest())
            suggester.record(chosen[-1], covariances[step])
            if step in undone:
                suggester.suggest()
                suggester.undo()
        return chosen

    assert sequence(False) == sequence(True)
