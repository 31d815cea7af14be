from __future__ import annotations

import json

import numpy as np
import pytest

import oracle
import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import averaging, further_by_growth, reference
from warpgauge.evaluation.centres import Centres

SCALES = (40.0, 160.0)


def bent(points: np.ndarray, size: float = 10.0) -> np.ndarray:
    """A deformation that 15 annotations cannot follow: its wave is shorter than their distance."""
    return points + size * np.sin(points[:, ::-1] / 25)


def near_truth(seed: int, size: float) -> object:
    """The truth plus a smooth error of its own, as a registration has."""
    phase = np.random.default_rng(seed).uniform(0, 6, 2)
    return lambda points: bent(points) + size * np.sin(points / 70 + phase)


def annotated(seed: int, count: int = 25, sd: float = 0.5) -> wg.Annotations:
    rng = np.random.default_rng(seed)
    fixed = rng.uniform(0, 400, (count, 2))
    return wg.Annotations.isotropic(fixed, bent(fixed) + rng.normal(0, sd, fixed.shape), sd)


def elongated(annotations: wg.Annotations) -> wg.Annotations:
    """The same annotations with ellipses that differ in size and direction."""
    angles = np.linspace(0, 3, len(annotations))
    turn = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    covariances = turn @ np.diag([0.3, 1.5]) @ turn.transpose(0, 2, 1)
    return wg.Annotations(annotations.fixed_points, annotations.moving_points, covariances)


def posterior(annotations: wg.Annotations, scales: tuple[float, ...] = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0)):  # type: ignore[no-untyped-def]
    prior = wg.TransformationPrior(wg.KernelBundle("wendland", scales, [10.0] * len(scales)))
    return prior.condition(annotations)


class Shift:
    """Shifts by a vector; undefined where x < edge."""

    def __init__(self, by: tuple[float, float], edge: float = -np.inf) -> None:
        self.by, self.edge = np.array(by), edge

    def map(self, points: np.ndarray) -> np.ndarray:
        mapped = points + self.by
        mapped[points[:, 0] < self.edge] = np.nan
        return mapped


def small_case(monkeypatch: pytest.MonkeyPatch, shape: str):  # type: ignore[no-untyped-def]
    """Few annotations and few combinations, so that the slow version can be asked about every one of them."""
    monkeypatch.setattr(averaging, "_VARIANCES", 3)
    monkeypatch.setattr(averaging, "_NEGLIGIBLE", 1e-14)
    monkeypatch.setattr(averaging, "UNEVENNESS", (0.0, 1.0))
    annotations = annotated(3, count=6)
    annotations = elongated(annotations) if shape == "elongated" else annotations
    transforms = {"a": near_truth(1, 2.0), "b": near_truth(2, 3.0), "c": near_truth(3, 4.0)}
    return annotations, transforms, np.random.default_rng(5).uniform(0, 400, (4, 2))


@pytest.mark.parametrize("shape", ["round", "elongated"])
def test_weights_mean_and_samples_equal_the_slow_version(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    annotations, transforms, targets = small_case(monkeypatch, shape)
    average = wg.candidate_average(posterior(annotations, SCALES), transforms, tempering=0.4, centre_tempering=0.3)
    X, Y = annotations.fixed_points, annotations.moving_points
    mapped = [np.stack([one(at) for one in transforms.values()]) for at in (X, targets)]  # type: ignore[operator]
    median = [np.median(one, axis=0) for one in mapped]
    apart = [
        np.median(np.linalg.norm(one - middle, axis=2), axis=0) for one, middle in zip(mapped, median, strict=True)
    ]
    typical = np.sqrt(np.mean(apart[0] ** 2))
    uneven = [np.sqrt(((one / typical) ** 2 + 0.01) / 1.01) for one in apart]
    weights, mean, joint = oracle.averaged_truth(
        lambda scale: lambda x, y: oracle.kernel("wendland", [scale], [1.0], x, y),
        SCALES,
        [(np.ones(6), np.ones(4)), tuple(uneven)],
        average.variances,
        X,
        Y,
        annotations.covariances,
        [*mapped[0], median[0]],
        [*mapped[1], median[1]],
        targets,
        0.4,
        0.3,
    )
    np.testing.assert_allclose(average.weights.reshape(-1), weights, atol=1e-10)
    np.testing.assert_allclose(average.mean(targets), mean, rtol=1e-9)
    samples = average.sample(targets, 40_000, seed=1).reshape(40_000, -1)
    spread = np.sqrt(np.diag(joint))
    np.testing.assert_allclose(samples.mean(axis=0), mean.reshape(-1), atol=0.02 * spread.max())
    np.testing.assert_allclose(
        np.cov(samples.T) / np.outer(spread, spread), joint / np.outer(spread, spread), atol=0.06
    )


def test_scales_that_no_two_annotations_can_show_count_once() -> None:
    """Points 100 apart: Wendland functions of scale 20, 50 or 90 are zero there, one of 400 is 2 x 0.75^4 = 0.63."""
    fixed = 100.0 * np.array([[x, y] for x in range(4) for y in range(4)])
    known = posterior(wg.Annotations.isotropic(fixed, bent(fixed), 0.5), (20.0, 50.0, 90.0, 400.0))
    average = wg.candidate_average(known, {"a": Shift((1.0, 0.0)), "b": Shift((0.0, 1.0))})
    assert {float(field.kernel.scales[0]) for field in average.fields} <= {90.0, 400.0}
    spread = posterior(wg.Annotations.isotropic(fixed, bent(fixed), 0.5), (20.0, 50.0))
    only = wg.candidate_average(spread, {"a": Shift((1.0, 0.0)), "b": Shift((0.0, 1.0))})
    assert {float(field.kernel.scales[0]) for field in only.fields} == {50.0}


def test_the_grid_of_sizes_spans_from_below_the_noise_to_above_the_residuals() -> None:
    average = wg.candidate_average(posterior(annotated(0, sd=0.5)), {"a": Shift((30.0, 0.0))})
    largest = np.sqrt(np.mean(average.residuals**2))
    np.testing.assert_allclose(np.sqrt(average.variances[[0, -1]]), [0.05, 2 * largest])


@pytest.mark.parametrize("seed", range(5))
def test_registrations_are_judged_far_better_than_by_the_posterior_alone(seed: int) -> None:
    """Truth known: the average's mean is nearer to it, its scores are nearer to the true errors, its order is right."""
    annotations = annotated(seed)
    transforms = {f"t{k}": near_truth(10 * seed + k, size) for k, size in enumerate((1.0, 2.0, 4.0, 6.0))}
    targets = np.random.default_rng(99).uniform(20, 380, (300, 2))
    plain = wg.fit_kernel(posterior(annotations).prior, annotations).condition(annotations, calibrate=True)
    average = wg.candidate_average(plain, transforms)
    truth = bent(targets)
    errors = [wg.displacement_norm(one.mean(targets) - truth, 2) for one in (plain, average)]
    assert errors[1] < 0.5 * errors[0]
    true_scores = {name: wg.displacement_norm(one(targets) - truth, 2) for name, one in transforms.items()}  # type: ignore[operator]
    results = [wg.evaluate(one, transforms, targets, samples=200, further=0) for one in (plain, average)]
    gaps = [
        np.mean([abs(one.scores[name].posterior["2"] - true_scores[name]) for name in transforms]) for one in results
    ]
    assert gaps[1] < 0.5 * gaps[0]
    assert results[1].ranking("2") == sorted(true_scores, key=lambda name: true_scores[name])


def test_failed_registrations_do_not_draw_the_ranking_to_the_mediocre() -> None:
    """Of six, three fail alike: the median is poor, and the best of the others is still named with confidence."""
    annotations = annotated(11, count=30)
    targets = np.random.default_rng(98).uniform(20, 380, (200, 2))
    wrong = {f"failed{k}": (lambda points, k=k: points + 15 + k) for k in range(3)}
    transforms = {**wrong, "fine": near_truth(1, 1.0), "coarse": near_truth(2, 4.0), "coarser": near_truth(3, 6.0)}
    result = wg.evaluate(wg.candidate_average(posterior(annotations), transforms), transforms, targets, samples=300)
    assert result.ranking("2")[:3] == ["fine", "coarse", "coarser"]
    assert result.scores["fine"].probability_best["2"] > 0.95
    assert result.centre_weights is not None
    assert result.centre_weights["fine"] > 0.9


def test_intervals_hold_the_true_error_and_confident_calls_are_right() -> None:
    """20 cases of 4 transforms: 90 % intervals hold the true RMS in most (64 of 80 were measured)."""
    inside, called, right = 0, 0, 0
    targets = np.random.default_rng(98).uniform(20, 380, (150, 2))
    truth = bent(targets)
    for seed in range(20):
        transforms = {f"t{k}": near_truth(100 + 10 * seed + k, size) for k, size in enumerate((2.0, 3.0, 4.0, 6.0))}
        average = wg.candidate_average(posterior(annotated(seed, count=40)), transforms)
        result = wg.evaluate(average, transforms, targets, samples=300, further=0, regularity_over=False)
        true = {name: wg.displacement_norm(one(targets) - truth, 2) for name, one in transforms.items()}  # type: ignore[operator]
        for name, one in result.scores.items():
            inside += bool(one.interval["2"][0] <= true[name] <= one.interval["2"][1])
        best = max(result.scores, key=lambda name: result.scores[name].probability_best["2"])
        if result.scores[best].probability_best["2"] > 0.95:
            called += 1
            right += best == min(true, key=lambda name: true[name])
    assert inside / 80 >= 0.75
    assert called >= 10
    assert right == called


def test_equal_transforms_share_the_first_place() -> None:
    one = near_truth(1, 2.0)
    transforms = {"a": one, "b": one}
    average = wg.candidate_average(posterior(annotated(0)), transforms)
    result = wg.evaluate(average, transforms, annotated(1).fixed_points, samples=200)
    np.testing.assert_array_equal(result.win_probability, np.full((2, 2), 0.5))
    assert result.tied == [["a", "b"]]


def test_a_single_transform_is_judged_by_its_own_residuals() -> None:
    """The truth is known: a shift by (3, 4) from it has an error of 5 everywhere."""
    annotations = annotated(2, count=40, sd=0.3)
    shifted = {"it": lambda points: bent(points) + np.array([3.0, 4.0])}
    average = wg.candidate_average(posterior(annotations), shifted)
    scores = wg.evaluate(average, shifted, annotated(4).fixed_points, samples=400).scores["it"]
    low, high = scores.interval["2"]
    assert low < 5 < high
    assert high - low < 1.5
    assert average.centre_weights == {"it": pytest.approx(1.0)}


def test_where_a_candidate_is_undefined_the_median_of_the_others_stands_in() -> None:
    known = posterior(annotated(0))
    shifts = {"a": Shift((1.0, 0.0)), "b": Shift((2.0, 5.0)), "c": Shift((9.0, 1.0), edge=100.0)}
    values, disagreement = Centres(shifts, known).at(np.array([[200.0, 50.0], [50.0, 60.0]]))
    expected = [
        [[201.0, 50.0], [51.0, 60.0]],
        [[202.0, 55.0], [52.0, 65.0]],
        [[209.0, 51.0], [51.5, 62.5]],
        [[202.0, 51.0], [51.5, 62.5]],
    ]
    np.testing.assert_allclose(values, expected)
    # Distances from the median (202, 51): sqrt 2, 4, 7; from (51.5, 62.5): sqrt 6.5 twice, 0.
    np.testing.assert_allclose(disagreement, [4.0, np.sqrt(6.5)])


def test_where_none_is_defined_the_posterior_stands_in() -> None:
    known = posterior(annotated(0))
    point = np.array([[50.0, 60.0]])
    values, disagreement = Centres({"a": Shift((1.0, 0.0), edge=100.0)}, known).at(point)
    np.testing.assert_array_equal(values[0], known.mean(point))
    assert disagreement.tolist() == [0.0]


def test_the_same_seed_gives_the_same_samples_and_another_others() -> None:
    average = wg.candidate_average(posterior(annotated(0)), {"a": near_truth(1, 2.0), "b": near_truth(2, 3.0)})
    targets = annotated(1).fixed_points
    first, again, other = (average.sample(targets, 20, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


def test_fewer_samples_than_combinations_are_no_trouble() -> None:
    """One sample of an average over many fields, with ellipses: every other field has none to draw."""
    average = wg.candidate_average(
        posterior(elongated(annotated(0))), {"a": near_truth(1, 2.0), "b": near_truth(2, 3.0)}
    )
    assert len(average.fields) > 1
    sample = average.sample(annotated(1).fixed_points, 1, seed=3)[0]
    assert np.linalg.norm(sample - bent(annotated(1).fixed_points), axis=1).max() < 20


def test_it_can_be_written_as_json() -> None:
    transforms = {"a": near_truth(1, 2.0), "b": near_truth(2, 2.1)}
    average = wg.candidate_average(posterior(annotated(0, count=8)), transforms)
    result = wg.evaluate(average, transforms, annotated(1).fixed_points, samples=50)
    told = json.loads(result.to_json())
    assert set(told["centre_weights"]) == {"a", "b"}
    assert told["centre_weights"]["a"] + told["centre_weights"]["b"] == pytest.approx(1.0)


def test_growth_of_a_lead_by_hand() -> None:
    """z = 0.8416 for 0.8; 1.6449 is needed: (1.6449 / 0.8416)^2 = 3.82 times as many annotations, 20 -> 77."""
    win = np.array([[0.5, 0.8], [0.2, 0.5]])
    more = further_by_growth([0, 1], win, 20)
    assert more.best == more.all_ranks == 57
    # Half of the random walks are above their mean; those that change sign add next to nothing.
    assert more.chance[0, 1] == pytest.approx(0.5 + 0.5 * 0.0545, abs=0.03)
    decided = further_by_growth([0, 1], np.array([[0.5, 0.97], [0.03, 0.5]]), 20)
    assert decided.best == 0
    even = further_by_growth([0, 1], np.full((2, 2), 0.5), 20, cap=100)
    assert even.best is None


def test_few_annotations_are_judged_by_the_posterior() -> None:
    known = posterior(annotated(0, count=3))
    transforms = {"a": near_truth(1, 2.0)}
    assert reference(known, transforms) is known
    assert reference(posterior(annotated(0)), transforms, "prior").__class__ is wg.Posterior
    with pytest.raises(InvalidInputError, match="at least 4 annotations, got 3"):
        wg.candidate_average(known, transforms)


def test_bad_input_is_told_in_a_sentence() -> None:
    known = posterior(annotated(0))
    with pytest.raises(InvalidInputError, match="evaluated anywhere"):
        wg.candidate_average(known, {"a": np.zeros((4, 2))})
    with pytest.raises(InvalidInputError, match="must be in"):
        wg.candidate_average(known, {"a": near_truth(1, 2.0)}, tempering=0.0)
    with pytest.raises(InvalidInputError, match="candidates, prior"):
        reference(known, {"a": near_truth(1, 2.0)}, "consensus")
