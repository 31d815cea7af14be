from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("mean", ["identity", "affine"])
@pytest.mark.parametrize("isotropic", [True, False], ids=["iso", "aniso"])
def test_lazy_suggestions_are_the_eager_ones(isotropic: bool, mean: str) -> None:
    """With thousands of candidates most gains stay stale bounds, yet each suggestion has the highest exact gain."""
    model = make(3, "wendland", isotropic, mean)
    rng = np.random.default_rng(2)
    candidates = rng.uniform(0, 60, (4000, 3))
    covariances = random_covariances(40, 3, isotropic, rng)
    lazy = wg.Suggester(model.prior, candidates)
    chosen: list[int] = []
    for step in range(40):
        index = lazy.suggest()
        annotations = wg.Annotations(candidates[chosen], candidates[chosen], covariances[: len(chosen)])
        exact = model.prior.condition(annotations).entropy(candidates)
        exact[chosen] = -np.inf
        assert exact[index] >= exact.max() - 2e-9
        lazy.record(index, covariances[step])
        chosen.append(index)


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
    chosen = []
    for _ in range(10):
        chosen.append(suggester.suggest())
        suggester.record(chosen[-1])
    assert chosen == oracle.farthest_sequence(candidates, chosen[0], 10)
    firsts = {wg.Suggester(prior, candidates, strategy="farthest", seed=seed).suggest() for seed in range(20)}
    assert len(firsts) > 5


def test_random_is_a_permutation_by_the_seed() -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates = np.random.default_rng(3).uniform(0, 60, (30, 2))

    def sequence(seed: int) -> list[int]:
        return wg.Suggester(prior, candidates, strategy="random", seed=seed).suggest(30)

    assert sorted(sequence(1)) == list(range(30))
    assert sequence(1) == sequence(1)
    assert sequence(1) != sequence(2)


@pytest.mark.parametrize("strategy", ["entropy", "farthest", "random"])
@pytest.mark.parametrize("where", ["none", "mixed"])
def test_a_batch_assumes_the_former_at_the_default_noise_and_leaves_no_trace(where: str, strategy: str) -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates, targets = sets(where, 2)
    batched, stepped = (wg.Suggester(prior, candidates, targets, strategy, seed=2) for _ in range(2))
    batched.record(3, 2 * np.eye(2))
    stepped.record(3, 2 * np.eye(2))
    before = batched.gains()
    batch = batched.suggest(5)
    expected = []
    for _ in range(5):
        expected.append(stepped.suggest())
        stepped.record(expected[-1])
    assert batch == expected
    np.testing.assert_allclose(batched.gains(), before, atol=1e-12)
    assert batched.recorded == (3,)


@pytest.mark.parametrize("where", WHERE)
def test_undo_gives_back_the_former_gains(where: str) -> None:
    """Through isotropic and anisotropic annotations, elsewhere as well as at candidates."""
    model = make(3, "wendland", True, "affine")
    candidates, targets = sets(where, 3)
    suggester = wg.Suggester(model.prior, candidates, targets)
    history = []
    rng = np.random.default_rng(1)
    for step in range(6):
        history.append(suggester.gains())
        covariance = random_covariances(1, 3, step < 3, rng)[0]
        if step == 4:
            suggester.record_at([10.0, 20.0, 30.0], covariance)
        else:
            suggester.record(suggester.suggest(), covariance)
    for former in history[::-1]:
        suggester.undo()
        np.testing.assert_allclose(suggester.gains(), former, atol=1e-9)
    with pytest.raises(InvalidInputError, match="Nothing is recorded"):
        suggester.undo()


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
    rest = suggester.suggest(13)
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
    with pytest.raises(InvalidInputError, match="1 to 0 suggestions"):
        suggester.suggest(1)


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
        (lambda s: s.suggest(0), "1 to 14"),
        (lambda s: s.suggest(15), "1 to 14"),
    ],
)
def test_bad_calls_are_refused_and_change_nothing(call, word: str) -> None:  # type: ignore[no-untyped-def]
    prior = make(2, "wendland", True, "identity").prior
    suggester = wg.Suggester(prior, sets("none", 2)[0])
    before = suggester.gains()
    with pytest.raises(InvalidInputError, match=word):
        call(suggester)
    np.testing.assert_array_equal(suggester.gains(), before)


@given(seed=st.integers(0, 10**6), isotropic=st.booleans())
def test_gains_inside_the_targets_never_rise(seed: int, isotropic: bool) -> None:
    """The reason why lazy evaluation is exact."""
    rng = np.random.default_rng(seed)
    prior = make(2, "wendland", True, "identity").prior
    suggester = wg.Suggester(prior, rng.uniform(0, 60, (20, 2)))
    before = suggester.gains()
    for _ in range(3):
        index = suggester.suggest()
        suggester.record(index, random_covariances(1, 2, isotropic, rng)[0])
        after = suggester.gains()
        alive = np.isfinite(after)
        assert (after[alive] <= before[alive] + 1e-12).all()
        before = after


_COMPILES = """
import numpy as np, warpgauge as wg
from warpgauge.core import loops as compiled
from warpgauge.core.suggestion import compile_loops
compile_loops()
loops = [compiled.fill_wendland, compiled.squared_distances, compiled.subtract_products]
assert all(loop.signatures for loop in loops)
rng = np.random.default_rng(0)
kernel = wg.KernelBundle.pyramid("wendland", smallest=5.0, levels=4, weight=1.0)
for d in (2, 3):
    for mean in ("identity", "affine"):
        prior = wg.TransformationPrior(kernel, mean=mean)
        candidates = rng.uniform(0, 60, (50, d))
        for targets in (None, rng.uniform(0, 60, (9, d))):
            before = [list(loop.signatures) for loop in loops]
            suggester = wg.Suggester(prior, candidates, targets)
            for noise in (np.eye(d), np.diag(np.arange(1.0, d + 1))):
                suggester.record(suggester.suggest(), noise)
                suggester.gains()
            suggester.undo()
            noises = np.stack(3 * [np.diag(np.arange(1.0, d + 1))])
            posterior = prior.condition(wg.Annotations(candidates[:3], candidates[:3] + 1, noises))
            for points in (candidates, rng.uniform(0, 60, (5000, d))):
                posterior.mean_and_covariance(points), posterior.mean_and_deviation(points), posterior.entropy(points)
                wg.error_score(posterior, points, points)
            after = [list(loop.signatures) for loop in loops]
            assert before == after, [l.py_func.__name__ for l, b, a in zip(loops, before, after) if b != a]
print("nothing compiled")
"""


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


def test_nothing_is_compiled_after_the_loops_were_compiled() -> None:
    """In a new process: the interactive loop and maps then never wait for the compiler, whichever path they take."""
    done = subprocess.run([sys.executable, "-c", _COMPILES], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "nothing compiled", done.stderr


@pytest.mark.parametrize("where", WHERE)
def test_the_gain_of_one_candidate_is_its_row_of_all_gains(where: str) -> None:
    prior = make(2, "wendland", True, "identity").prior
    candidates, targets = sets(where, 2)
    suggester = wg.Suggester(prior, candidates, targets)
    suggester.record(2, np.diag([1.0, 3.0]))
    one = [suggester.gain(index) for index in (0, 5, 13)]
    np.testing.assert_allclose(one, suggester.gains()[[0, 5, 13]], rtol=1e-12)


def _dense_entropies(prior: wg.TransformationPrior, fixed: np.ndarray, noise: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Log determinants of the posterior covariances by whole matrices, over 2."""

    def kappa(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        r = np.linalg.norm(a[:, None] - b[None], axis=2)
        pairs = zip(prior.kernel.scales, prior.kernel.weights, strict=True)
        return np.asarray(sum(weight * oracle.radial("wendland", r / scale) for scale, weight in pairs))

    d = at.shape[1]
    K = np.kron(kappa(fixed, fixed), np.eye(d)) + oracle.noise_matrix(noise)
    cross = np.kron(kappa(fixed, at), np.eye(d))
    shape = (len(cross), len(at), d)
    explained = np.einsum("rna,rnb->nab", cross.reshape(shape), np.linalg.solve(K, cross).reshape(shape))
    return np.asarray(0.5 * np.linalg.slogdet(prior.kernel.weights.sum() * np.eye(d) - explained)[1])


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("strategy", ["entropy", "information"])
def test_the_first_suggestion_after_many_records_is_the_best(strategy: str, isotropic: bool) -> None:
    """Undoing must not leave a bound that is too low."""
    rng = np.random.default_rng(12)
    candidates, prior = rng.uniform(0, 300, (1500, 2)), wg.TransformationPrior(wg.KernelBundle.pyramid(levels=5))
    suggester = wg.Suggester(prior, candidates, strategy=strategy, default_covariance=0.2 * np.eye(2))
    factors = rng.normal(size=(140, 2, 2))
    noise = 0.1 * factors @ factors.transpose(0, 2, 1) + 0.02 * np.eye(2)
    if isotropic:
        noise = rng.uniform(0.02, 0.3, 140)[:, None, None] * np.eye(2)
    # Half of the image is annotated last: the best candidates of the end are not those of before.
    rows = np.argsort(candidates[:, 0], kind="stable")[::10][:140]
    for row, covariance in zip(rows, noise, strict=True):
        suggester.record(int(row), covariance)
    for left in (140, 139, 125, 120):
        while len(suggester.recorded) > left:
            suggester.undo()
        entropies = _dense_entropies(prior, candidates[rows[:left]], noise[:left], candidates)
        entropies[rows[:left]] = -np.inf  # with one noise everywhere the expected information has the same order
        assert suggester.suggest() == int(np.argmax(entropies))


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
