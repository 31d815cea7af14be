from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import oracle
import warpgauge as wg
from warpgauge.core.annotation_budget import further_by_growth
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import Comparison, comparison, error_model
from warpgauge.evaluation.error_model import ErrorModel
from warpgauge.evaluation.evidence import Evidence
from warpgauge.evaluation.flags import gross_errors, too_good
from warpgauge.evaluation.folds import Folds, Widening

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


def evidence(transforms: dict[str, object], known: object) -> Evidence:
    """The transforms as estimates of the truth."""
    return Evidence.of(Comparison.of(transforms, None, known))  # type: ignore[arg-type]


def three() -> dict[str, object]:
    return {"a": near_truth(1, 2.0), "b": near_truth(2, 3.0), "c": near_truth(3, 4.0)}


@pytest.mark.parametrize("shape", ["round", "elongated"])
def test_weights_mean_and_samples_equal_the_slow_version(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    monkeypatch.setattr(error_model, "_SIZES", 3)
    monkeypatch.setattr(error_model, "_NEGLIGIBLE", 0.0)
    monkeypatch.setattr(error_model, "ALONG", (0.5, 2.0))
    monkeypatch.setattr(error_model, "TREND", (0.0, 1.5))
    given = annotated(3, count=6)
    given = elongated(given) if shape == "elongated" else given
    targets = np.random.default_rng(5).uniform(0, 400, (4, 2))
    model = ErrorModel.fit(evidence(three(), posterior(given, SCALES)))
    X = given.fixed_points
    values = [model.evidence.over(model.evidence.comparison.over(at)) for at in (X, targets)]
    uneven = [(np.ones(6), np.ones(4)), (values[0].disagreement, values[1].disagreement)]
    weights, mean, joint = oracle.error_model(
        lambda scale: lambda x, y: oracle.kernel("wendland", [scale], [1.0], x, y),
        SCALES,
        uneven,
        (0.5, 2.0),
        (0.0, 1.5),
        model.sizes,
        error_model.NOISE_FACTORS,
        error_model.NOISE_PRIOR,
        X,
        given.moving_points,
        given.covariances,
        targets,
        (values[0].median, values[1].median),
        (values[0].directions, values[1].directions),
    )
    np.testing.assert_allclose(model.weights.reshape(-1), weights, atol=1e-10)
    np.testing.assert_allclose(model.mean(targets, values[1]), mean, rtol=1e-9)
    found, covariances = model.moments(targets, values[1])
    np.testing.assert_allclose(found, mean, rtol=1e-9)
    blocks = [joint[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] for i in range(4)]
    np.testing.assert_allclose(covariances, blocks, rtol=1e-6, atol=1e-9)
    samples = model.sample(targets, values[1], 40_000, np.random.default_rng(1)).reshape(40_000, -1)
    spread = np.sqrt(np.diag(joint))
    np.testing.assert_allclose(samples.mean(axis=0), mean.reshape(-1), atol=0.02 * spread.max())
    np.testing.assert_allclose(
        np.cov(samples.T) / np.outer(spread, spread), joint / np.outer(spread, spread), atol=0.06
    )


def test_cross_fitting_predicts_each_annotation_without_its_fold() -> None:
    """With as many folds as annotations, moving one match leaves its own prediction as it was, and no other's."""
    given = annotated(7, count=5)
    moved = wg.Annotations(given.fixed_points, given.moving_points + np.eye(5)[:, [2]] * 3.0, given.covariances)
    one = evidence(three(), posterior(given, SCALES))
    other = replace(one, comparison=evidence(three(), posterior(moved, SCALES)).comparison)
    first, second = (each.posterior.annotations.moving_points - Folds.of(each).residuals for each in (one, other))
    changed = np.abs(first - second).max(axis=1)
    assert changed[2] < 1e-9
    assert (np.delete(changed, 2) > 1e-6).all()


def test_the_factor_and_tails_are_those_of_a_brute_force_grid() -> None:
    """Residuals drawn as 3 F(2, 5): weights are prior times likelihood, by scipy's densities; the factor is found."""
    squares = 3.0 * np.random.default_rng(0).f(2, 5, 200)
    found = Widening.of_squares(squares, 2)
    log_c, log_tails = np.linspace(-3.5, 3.5, 71), np.log(6) + np.linspace(-2.5, 2.5, 21)
    logs = np.array(
        [
            [
                stats.f(2, 2 + np.exp(t), scale=np.exp(c)).logpdf(squares).sum()
                + stats.norm(0, 1).logpdf(c)
                + stats.norm(np.log(6), 1).logpdf(t)
                for t in log_tails
            ]
            for c in log_c
        ]
    )
    expected = np.exp(logs - logs.max())
    np.testing.assert_allclose(found.weights, expected / expected.sum(), atol=1e-9)
    middle = float(found.weights.sum(axis=1) @ log_c)
    assert np.log(3.0) - 0.3 < middle < np.log(3.0) + 0.3


def test_scales_that_no_two_annotations_can_show_count_once() -> None:
    """Points 100 apart: Wendland functions of scale 20, 50 or 90 are zero there, one of 400 is 2 x 0.75^4 = 0.63."""
    fixed = 100.0 * np.array([[x, y] for x in range(4) for y in range(4)])
    given = wg.Annotations.isotropic(fixed, bent(fixed), 0.5)
    two = {"a": Shift((1.0, 0.0)), "b": Shift((0.0, 1.0))}
    model = ErrorModel.fit(evidence(two, posterior(given, (20.0, 50.0, 90.0, 400.0))))
    assert {float(component.kernel.scales[0]) for component in model.components} <= {90.0, 400.0}


@pytest.mark.parametrize("seed", range(5))
def test_registrations_are_judged_far_better_than_by_the_posterior_alone(seed: int) -> None:
    """Truth known: the judge's mean is nearer to it, its scores are nearer to the true errors, its order is right."""
    annotations = annotated(seed)
    transforms = {f"t{k}": near_truth(10 * seed + k, size) for k, size in enumerate((1.0, 2.0, 4.0, 6.0))}
    targets = np.random.default_rng(99).uniform(20, 380, (300, 2))
    plain = wg.fit_kernel(posterior(annotations).prior, annotations).condition(annotations, calibrate=True)
    average = wg.judge(plain, transforms)
    truth = bent(targets)
    means = (plain.mean(targets), average.truth(average.comparison.over(targets), 10)[1])
    errors = [wg.displacement_norm(mean - truth, 2) for mean in means]
    assert errors[1] < 0.5 * errors[0]
    true_scores = {name: wg.displacement_norm(one(targets) - truth, 2) for name, one in transforms.items()}  # type: ignore[operator]
    results = [wg.evaluate(one, transforms, targets, samples=200) for one in (plain, average)]
    gaps = [np.mean([abs(one.scores[name].score["2"] - true_scores[name]) for name in transforms]) for one in results]
    assert gaps[1] < 0.5 * gaps[0]
    assert results[1].ranking("2") == sorted(true_scores, key=lambda name: true_scores[name])


def test_failed_registrations_do_not_draw_the_ranking_to_the_mediocre() -> None:
    """Of six, three fail alike: the median is poor, and the best of the others is still named with confidence."""
    annotations = annotated(11, count=30)
    targets = np.random.default_rng(98).uniform(20, 380, (200, 2))
    wrong = {f"failed{k}": (lambda points, k=k: points + 15 + k) for k in range(3)}
    transforms = {**wrong, "fine": near_truth(1, 1.0), "coarse": near_truth(2, 4.0), "coarser": near_truth(3, 6.0)}
    result = wg.evaluate(wg.judge(posterior(annotations), transforms), transforms, targets, samples=300)
    assert result.ranking("2")[:3] == ["fine", "coarse", "coarser"]
    assert result.scores["fine"].probability_best["2"] > 0.95


def test_intervals_hold_the_true_error_and_confident_calls_are_right() -> None:
    """20 cases of 4 transforms: 90 % intervals hold the true RMS in most ."""
    inside, called, right = 0, 0, 0
    targets = np.random.default_rng(98).uniform(20, 380, (150, 2))
    truth = bent(targets)
    for seed in range(20):
        transforms = {f"t{k}": near_truth(100 + 10 * seed + k, size) for k, size in enumerate((2.0, 3.0, 4.0, 6.0))}
        judge = wg.judge(posterior(annotated(seed, count=40)), transforms)
        result = wg.evaluate(judge, transforms, targets, samples=300, regularity=False)
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
    judge = wg.judge(posterior(annotated(0)), transforms)
    result = wg.evaluate(judge, transforms, annotated(1).fixed_points, samples=200)
    np.testing.assert_array_equal(result.win_probability, np.full((2, 2), 0.5))
    assert result.verdict.groups == (("a", "b"),)


def test_a_single_transform_is_judged_by_its_own_residuals() -> None:
    """The truth is known: a shift by (3, 4) from it has an error of 5 everywhere."""
    annotations = annotated(2, count=40, sd=0.3)
    shifted = {"it": lambda points: bent(points) + np.array([3.0, 4.0])}
    average = wg.judge(posterior(annotations), shifted)
    scores = wg.evaluate(average, shifted, annotated(4).fixed_points, samples=400).scores["it"]
    low, high = scores.interval["2"]
    assert scores.score["2"] == pytest.approx(5, abs=0.2)
    assert low < high < low + 1.5
    assert average.candidate_weights == {"it": pytest.approx(1.0)}


def test_where_a_candidate_is_undefined_the_others_decide() -> None:
    known = posterior(annotated(0))
    shifts = {"a": Shift((1.0, 0.0)), "b": Shift((2.0, 5.0)), "c": Shift((9.0, 1.0), edge=100.0)}
    found = replace(evidence(shifts, known), weights=np.ones(3))
    median = found.over(found.comparison.over([[200.0, 50.0], [50.0, 60.0]])).median
    np.testing.assert_allclose(median, [[202.0, 51.0], [51.5, 62.5]])


def test_where_none_is_defined_the_posterior_stands_in() -> None:
    known = posterior(annotated(0))
    point = np.array([[50.0, 60.0]])
    found = evidence({"a": Shift((1.0, 0.0), edge=100.0)}, known)
    values = found.over(found.comparison.over(point))
    np.testing.assert_array_equal(values.median, known.mean(point))


def test_copies_of_a_transform_gain_nothing() -> None:
    """Thirty near copies of a mediocre one: its family's probability of being best hardly changes."""
    given, targets = annotated(5, count=20), annotated(6, count=60).fixed_points
    few = {"good": near_truth(1, 3.0), "other": near_truth(2, 3.5), "mediocre": near_truth(3, 5.0)}
    copy = few["mediocre"]
    copies = {
        f"mediocre copy{k}": (lambda points, k=k: copy(points) + 0.02 * np.sin(points / 50 + k))  # type: ignore[operator]
        for k in range(30)
    }
    alone, crowd = (
        wg.evaluate(wg.judge(posterior(given), one), one, targets, samples=600, regularity=False)
        for one in (few, {**few, **copies})
    )
    before = alone.scores["mediocre"].probability_best["2"]
    family = {one.probability_best["2"] for name, one in crowd.scores.items() if name not in ("good", "other")}
    assert family == {before}  # they share it
    assert crowd.candidate_weights == alone.candidate_weights
    assert crowd.scores["good"].score["2"] == alone.scores["good"].score["2"]


def test_a_transform_that_has_seen_the_annotations_is_flagged_and_no_evidence() -> None:
    given, targets = annotated(8, count=20), annotated(9, count=80).fixed_points
    honest = {"good": near_truth(1, 2.0), "fair": near_truth(2, 3.0), "poor": near_truth(3, 6.0)}
    spline = wg.TransformationPrior(wg.KernelBundle("wendland", [200.0], [1e4])).condition(
        wg.Annotations.isotropic(given.fixed_points, given.moving_points, 1e-3)
    )
    field = {**honest, "attack": spline.mean}
    judge = wg.judge(posterior(given), field)
    result = wg.evaluate(judge, field, targets, samples=300, regularity=False)
    assert [flag.transform for flag in result.verdict.flags if flag.code == "too_good"] == ["attack"]
    assert result.scores["attack"].flags[0].p < 0.001
    assert result.scores["good"].flags == ()
    assert "attack" not in judge.candidate_weights
    assert result.scores["attack"].probability_best["2"] <= 0.05
    assert json.loads(result.to_json())["transforms"]["attack"]["flags"][0]["code"] == "too_good"
    row = next(row for row in result.rows() if row["transform"] == "attack")
    assert row["flags"] == "too_good"
    assert too_good(Comparison.of(honest, None, posterior(given))) == []
    assert result.verdict.flags[0].sentence.endswith("It is scored, but not used to estimate the true transformation.")
    alone = wg.judge(posterior(given), {"attack": spline.mean})
    assert set(alone.candidate_weights) == {"attack"}
    assert [flag.sentence.split(". ")[-1] for flag in alone.flags if flag.code == "too_good"] == [
        "It is still used, because all registrations are flagged."
    ]


def test_a_good_transform_is_not_suspect_because_the_ellipses_are_generous() -> None:
    """Placed with an SD of 0.5, stated as 1.5: what is nearly the truth stays evidence, and its error is told."""
    placed = annotated(8, count=30)
    given = wg.Annotations(placed.fixed_points, placed.moving_points, 9 * placed.covariances)
    honest = {"good": near_truth(1, 0.2), "fair": near_truth(2, 3.0), "poor": near_truth(3, 6.0)}
    judge = wg.judge(posterior(given), honest)
    assert judge.flags == ()
    assert max(judge.candidate_weights, key=judge.candidate_weights.get) == "good"  # type: ignore[union-attr, arg-type]
    targets = annotated(9, count=80).fixed_points
    found = wg.evaluate(judge, honest, targets, samples=300, regularity=False).scores["good"]
    true = wg.displacement_norm(honest["good"](targets) - bent(targets), 2)  # type: ignore[operator]
    assert found.interval["2"][0] <= true <= found.interval["2"][1]
    through = wg.TransformationPrior(wg.KernelBundle("wendland", [200.0], [1e4])).condition(given)
    fooled = wg.judge(posterior(given), {**honest, "attack": through.mean})
    assert [flag.transform for flag in fooled.flags] == ["attack"]


def test_an_error_that_all_transforms_share_is_carried_between_the_annotations() -> None:
    """All three are 40 px off in one direction, as where a registration fails as a whole; 10 annotations at the border.

    Without an affine part of the error the model falls back to the transforms between the annotations: its interval
    reaches below 30 or above 50.
    """
    angles = np.linspace(0, 2 * np.pi, 10, endpoint=False)
    fixed = 200 + 180 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    off = np.array([40.0, 0.0])
    given = wg.Annotations.isotropic(fixed, bent(fixed, 2.0) + off, 0.5)
    field = {f"t{k}": (lambda points, k=k: bent(points, 2.0) + 2 * np.sin(points / 70 + k)) for k in range(3)}
    targets = np.random.default_rng(1).uniform(100, 300, (100, 2))
    result = wg.evaluate(wg.judge(posterior(given), field), field, targets, samples=300)
    for name, one in field.items():
        true = wg.displacement_norm(one(targets) - bent(targets, 2.0) - off, 2)
        low, high = result.scores[name].interval["2"]
        assert 30 < low <= true <= high < 50


def test_gross_errors_are_flagged_and_the_verdict_without_them_is_given() -> None:
    given = annotated(4, count=20)
    moved = given.moving_points.copy()
    moved[[3, 11]] += [[60.0, 0.0], [0.0, -80.0]]
    wrong = wg.Annotations(given.fixed_points, moved, given.covariances)
    transforms = three()
    flags = gross_errors(Comparison.of(transforms, None, posterior(wrong)))
    assert [flag.row for flag in flags] == [3, 11]
    assert [flags[0].numbers[axis] for axis in "xy"] == given.fixed_points[3].tolist()
    assert flags[0].sentence.startswith("Look at annotation 4 again: at (")
    assert gross_errors(Comparison.of(transforms, None, posterior(given))) == []
    targets = annotated(9, count=50).fixed_points
    result = wg.evaluate(wg.judge(posterior(wrong), transforms), transforms, targets, samples=200)
    assert result.verdict.annotations == 20
    assert result.without_flagged is not None
    assert result.without_flagged.verdict.annotations == 18
    assert "annotation 4 may be a wrong match (and 1 more)" in result.verdict.lines()["MIND"]
    true = wg.displacement_norm(transforms["a"](targets) - bent(targets), 2)  # type: ignore[operator]
    low, high = result.without_flagged.scores["a"].interval["2"]
    assert low < true < high


def test_noise_that_the_annotations_contradict_is_learned() -> None:
    """Placed with an SD of 1.5, stated as 0.5: the noise factor is above 1, and the interval still holds the error."""
    rng = np.random.default_rng(3)
    fixed = rng.uniform(0, 400, (40, 2))
    given = wg.Annotations.isotropic(fixed, bent(fixed) + rng.normal(0, 1.5, fixed.shape), 0.5)
    judge = wg.judge(posterior(given), three())
    assert judge.folds is not None
    assert np.mean([model.noise_factor for model in judge.folds.models]) > 2
    targets = annotated(9, count=80).fixed_points
    scores_ = wg.evaluate(judge, three(), targets, samples=300).scores["a"]
    true = wg.displacement_norm(three()["a"](targets) - bent(targets), 2)  # type: ignore[operator]
    assert scores_.interval["2"][0] < true < scores_.interval["2"][1]


def test_many_targets_are_sampled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the targets give the scores of all of them, to the sampling error that the interval holds."""
    given, targets = annotated(5, count=20), np.random.default_rng(1).uniform(20, 380, (900, 2))
    transforms = three()
    judge = wg.judge(posterior(given), transforms)
    whole = wg.evaluate(judge, transforms, targets, samples=300, regularity=False)
    assert whole.sampled_targets == 900
    monkeypatch.setattr(comparison, "MOST_JOINT_TARGETS", 300)
    monkeypatch.setattr(comparison, "PART", 200)
    parts = wg.evaluate(judge, transforms, targets, samples=300, regularity=False)
    assert (parts.verdict.targets, parts.sampled_targets) == (900, 200)
    for name in transforms:
        assert parts.scores[name].score["2"] == pytest.approx(whole.scores[name].score["2"], rel=0.1)
        assert parts.draws["rms"].shape == (300, 3)


def test_the_papers_score_lies_inside_its_interval() -> None:
    known = posterior(annotated(0, count=6))
    result = wg.evaluate(known, three(), annotated(1).fixed_points, samples=100)
    for one in result.scores.values():
        for norm, (low, high) in one.interval.items():
            assert low <= one.score[norm] <= high


def test_growth_of_a_lead_by_hand() -> None:
    """z = 0.8416 for 0.8; 1.6449 is needed: (1.6449 / 0.8416)^2 = 3.82 times as many annotations, 20 -> 77."""
    win = np.array([[0.5, 0.8], [0.2, 0.5]])
    more = further_by_growth([0, 1], win, 20)
    assert more.best == 57
    decided = further_by_growth([0, 1], np.array([[0.5, 0.97], [0.03, 0.5]]), 20)
    assert decided.best == 0
    even = further_by_growth([0, 1], np.full((2, 2), 0.5), 20, cap=100)
    assert even.best is None
    # Every pair is decided, and the first is the best with 0.94: (1.6449 / 1.5548)^2 = 1.12 times as many.
    assert further_by_growth([0, 1], np.array([[0.5, 0.97], [0.03, 0.5]]), 20, best=0.94).best == 3


def test_few_annotations_give_no_ranking() -> None:
    """Three: no method is named, and no error is shown."""
    judge = wg.judge(posterior(annotated(0, count=3)), three())
    found = wg.evaluate(judge, three(), annotated(1).fixed_points, samples=20)
    assert (found.verdict.outcome, found.verdict.best) == ("too_few", None)
    assert found.table()[0] == ["transform", "landmarks", "P(best)"]
    assert found.verdict.lines()["BEST"] == "no ranking: 3 annotations are too few (10 are a start)"


def test_bad_input_is_told_in_a_sentence() -> None:
    known = posterior(annotated(0))
    with pytest.raises(InvalidInputError, match="evaluated anywhere"):
        wg.judge(known, {"a": np.zeros((25, 2))})
