"""What is said of one method beside a panel: heard and unheard draws of the truth, and the slope between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from scipy.interpolate import RBFInterpolator

import oracle
import warpgauge as wg
from command_tools import ask, call
from warpgauge.core.process import Posterior
from warpgauge.evaluation import Evaluation
from warpgauge.evaluation.judge import distances, heard, heard_slopes, missed_failures, not_affine, sized
from warpgauge.evaluation.scores import probabilities_of_best
from warpgauge.evaluation.verdict import missed_share


def test_the_slope_is_a_weighted_regression_through_the_origin() -> None:
    """Expected: numpy's least squares on rows scaled by the roots of the weights, Student-t about it, clipped."""
    rng = np.random.default_rng(1)
    g = rng.normal(size=(9, 2))
    x = 0.3 * g + 0.1 * rng.normal(size=(9, 2))
    squares = rng.uniform(0, 4, 9)
    root = np.sqrt(1 / np.maximum(squares, 1))[:, None]
    slope, left, *_ = np.linalg.lstsq((root * g).reshape(-1, 1), (root * x).reshape(-1), rcond=None)
    error = np.sqrt(np.sqrt(2) * left[0] / 17 / np.square(root * g).sum())
    drawn = heard_slopes(g, x, squares, 40_000, np.random.default_rng(0))
    expected = stats.t(7, slope[0], error).ppf([0.1, 0.5, 0.9])
    np.testing.assert_allclose(np.quantile(drawn, [0.1, 0.5, 0.9]), expected, atol=0.01)
    wide = heard_slopes(g, 9 * x + 3 * rng.normal(size=(9, 2)), squares, 4000, np.random.default_rng(0))
    assert (wide.min(), wide.max()) == (-0.2, 1.1)


def test_a_method_is_heard_only_where_it_is_defined_and_somewhere_else_than_the_references() -> None:
    rng = np.random.default_rng(2)
    g = rng.normal(size=(6, 2))
    x = rng.normal(size=(6, 2))
    g[2] = np.nan
    rest = np.delete(np.arange(6), 2)
    some, all_ = (
        heard_slopes(g[rows], x[rows], np.ones(len(rows)), 5, np.random.default_rng(0)) for rows in (rest, np.arange(6))
    )
    np.testing.assert_array_equal(some, all_)
    np.testing.assert_array_equal(heard_slopes(0 * x, x, np.ones(6), 5, np.random.default_rng(0)), 0)


def test_heard_draws_keep_the_size_of_the_truths_residual_and_have_the_correlation() -> None:
    """Over targets where r and g are unrelated: RMS of each draw as before, correlation beta G / R of that draw."""
    rng = np.random.default_rng(4)
    sizes = np.array([1.0, 2.0, 5.0])
    mean, samples = np.zeros((9000, 2)), sizes[:, None, None] * rng.normal(size=(3, 9000, 2))
    mapped = 0.5 * rng.normal(size=(9000, 2))
    found = heard(samples, mean, mapped, np.full(3, 0.8))
    for one, size in zip(found, sizes, strict=True):
        assert np.sqrt(np.mean(np.square(one).sum(axis=1))) == pytest.approx(np.sqrt(2) * size, rel=0.03)
        rho = np.mean(one * mapped) / np.sqrt(np.mean(np.square(one)) * np.mean(np.square(mapped)))
        assert rho == pytest.approx(0.8 * 0.5 / size, abs=0.02)


def test_heard_draws_equal_the_slow_version() -> None:
    rng = np.random.default_rng(11)
    mean, mapped, samples = rng.normal(size=(9, 3)), rng.normal(size=(9, 3)), rng.normal(size=(5, 9, 3))
    slopes = np.array([-2.0, 0.1, 0.6, 1.1, 5.0])
    expected = [oracle.heard_draw(one, mean, mapped, beta) for one, beta in zip(samples, slopes, strict=True)]
    np.testing.assert_allclose(heard(samples, mean, mapped, slopes), expected, atol=1e-12)


def test_unheard_draws_and_a_method_at_the_mean_stay_as_they_are() -> None:
    rng = np.random.default_rng(5)
    mean, samples = rng.normal(size=(20, 3)), rng.normal(size=(7, 20, 3))
    np.testing.assert_allclose(heard(samples, mean, mean + 1.0, np.zeros(7)), samples, atol=1e-12)
    np.testing.assert_array_equal(heard(samples, mean, mean, np.ones(7)), samples)
    np.testing.assert_allclose(heard(samples * [[[0]]], mean * 0, mean, np.ones(7)), 0, atol=1e-12)


def test_draws_of_a_size_are_weighted_by_the_residuals_at_the_annotations() -> None:
    """Quantiles against draws resampled with the weights that the formula gives, and the order of the draws."""
    rng = np.random.default_rng(10)
    squares, residuals = np.exp(rng.normal(3, 1, 4000)), rng.normal(0, 1, (20, 2))
    found = sized(squares, residuals, 0.4, 80)
    again = rng.choice(squares, 200_000, p=oracle.size_weights(squares, residuals, 0.4, 80))
    levels = [0.05, 0.5, 0.95]
    np.testing.assert_allclose(np.quantile(found, levels), np.quantile(again, levels), rtol=0.05)
    np.testing.assert_array_equal(np.argsort(found), np.argsort(squares))
    np.testing.assert_array_equal(sized(squares, np.full((20, 2), np.nan), 0.4, 80), squares)


def test_missed_failures_are_regions_of_annotations() -> None:
    """pi ~ Beta(1, n + 1) for each of n regions: a target fails in 1 / (n + 2) of the draws, none in about half."""
    rng = np.random.default_rng(6)
    points, annotated = rng.uniform(0, 1, (500, 2)), rng.uniform(0, 1, (18, 2))
    failed = missed_failures(points, annotated, 20000, np.random.default_rng(7))
    assert failed.mean() == pytest.approx(1 / 20, rel=0.1)
    # Integral of (1 - pi)^n over the prior; regions without a target do not count.
    assert 1 - failed.any(axis=1).mean() == pytest.approx(19 / 37, abs=0.03)
    nearest = np.linalg.norm(points[:, None] - annotated, axis=2).argmin(axis=1)
    for region in range(18):
        own = failed[:, nearest == region]
        assert (own == own[:, :1]).all()


def test_the_share_that_may_have_been_missed() -> None:
    """With n answers a failure of the share f goes unseen with (1 - f)^n; one more by the uniform prior."""
    assert (1 - missed_share(35)) ** 36 == pytest.approx(0.05)


def test_an_affine_deformation_leaves_nothing() -> None:
    points = np.random.default_rng(8).normal(size=(30, 3))
    affine = points @ np.random.default_rng(9).normal(size=(3, 3)) + 4.0
    np.testing.assert_allclose(not_affine(points, affine), 0, atol=1e-12)
    bent = affine.copy()
    bent[0] += 30.0
    assert np.abs(not_affine(points, bent)[0]).min() > 10


# A known deformation, five methods and four references that err in ways of their own, 24 annotations.


def _waves(seed: int, size: float) -> Callable[[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    centres, amplitudes = rng.uniform(0, 500, (12, 2)), size * rng.normal(size=(12, 2))
    return lambda at: np.exp(-np.square(at[:, None] - centres).sum(axis=2) / (2 * 80**2)) @ amplitudes


def _truth(at: np.ndarray) -> np.ndarray:
    return at + _waves(1, 12)(at)


def _method(seed: int, size: float) -> Callable[[np.ndarray], np.ndarray]:
    own = _waves(seed, size)
    return lambda at: _truth(at) + own(at)


METHODS = {f"m{k}": _method(10 + k, 1 + 0.7 * k) for k in range(4)}
REFERENCES = {f"r{k}": _method(30 + k, 3.0 + k) for k in range(4)}
TARGETS = np.random.default_rng(20).uniform(0, 500, (150, 2))


def _answers(count: int, seed: int) -> wg.Annotations:
    rng = np.random.default_rng([21, seed])
    fixed = rng.uniform(30, 470, (count, 2))
    return wg.Annotations.isotropic(fixed, _truth(fixed) + rng.normal(size=(count, 2)), 1.0)


OPEN, SEALED = _answers(24, 0), _answers(12, 1)


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return wg.default_posterior(OPEN, (500.0, 500.0))


def _evaluated(posterior: Posterior, transforms: dict[str, Any], **options: Any) -> Evaluation:
    judge = wg.judge(posterior, transforms, **options)
    return wg.evaluate(judge, transforms, TARGETS, samples=200, regularity=False)


def _bent(name: str, share: float) -> Callable[[np.ndarray], np.ndarray]:
    """A method bent to the open annotations by a share of its residuals there."""
    base = METHODS[name]
    bend = RBFInterpolator(OPEN.fixed_points, OPEN.moving_points - base(OPEN.fixed_points), kernel="thin_plate_spline")
    return lambda at: base(at) + share * bend(at)


def test_what_is_said_of_a_method_does_not_depend_on_the_company(posterior: Posterior) -> None:
    """To the last bit: scores, intervals, flags over all and over known targets, and who beats whom."""
    names = list(REFERENCES)
    many = {**METHODS, "nowhere": lambda at: np.full_like(at, np.nan), **REFERENCES}
    among = _evaluated(posterior, many, panel=names)
    few = _evaluated(posterior, {"m2": METHODS["m2"], "m1": METHODS["m1"], **REFERENCES}, panel=names)
    aside = _evaluated(posterior, {"m2": METHODS["m2"]}, panel=REFERENCES)
    for name, fields in (("m2", (few, aside)), ("m1", (few,))):
        for other in fields:
            for field in ("score", "interval", "flags", "statistics", "vetted"):
                assert getattr(among.scores[name], field) == getattr(other.scores[name], field), field
    order, fewer = list(many), ["m2", "m1", *names]
    assert (
        among.win_probability[order.index("m1"), order.index("m2")]
        == (few.win_probability[fewer.index("m1"), fewer.index("m2")])
    )


def test_a_bent_method_does_not_win_beside_a_panel(posterior: Posterior) -> None:
    """Without sealed answers it is not vetted: its own residuals do not speak for it, and the verdict says so."""
    for share in (0.25, 0.5, 1.0):
        found = _evaluated(posterior, {**METHODS, "bent": _bent("m3", share), **REFERENCES}, panel=list(REFERENCES))
        assert found.scores["bent"].probability_best["2"] < 0.5
        assert not found.scores["bent"].vetted
        assert found.verdict.best != "bent"


def test_without_references_sizes_come_from_five_models_and_calls_from_one(posterior: Posterior) -> None:
    """Against loops over the draws of either; unseen failures are in the intervals and nowhere else."""
    judge = wg.judge(posterior, METHODS)
    found = wg.evaluate(judge, METHODS, TARGETS, samples=60, seed=5, regularity=False)
    compared = judge.compared(METHODS, TARGETS)
    calls = judge.truth(compared, 60, 5, whole=True)[0]
    mapped = [method(TARGETS) for method in METHODS.values()]
    errors = [[np.square(one - draw).sum() for one in mapped] for draw in calls]
    win = [[np.mean([(row[a] < row[b]) + 0.5 * (a == b) for row in errors]) for b in range(4)] for a in range(4)]
    np.testing.assert_allclose(found.win_probability, win, atol=1e-12)
    best = np.bincount([int(np.argmin(row)) for row in errors], minlength=4) / 60
    np.testing.assert_allclose([one.probability_best["2"] for one in found.scores.values()], best, atol=1e-12)
    squares = np.square(mapped[1] - judge.truth(judge.comparison.over(TARGETS), 60, 5)[0]).sum(axis=2)
    assert found.scores["m1"].score["2"] == pytest.approx(np.median(np.sqrt(squares.mean(axis=1))), rel=1e-9)
    failed = np.sqrt((squares + judge.unseen_failures(compared, 60, 5)).mean(axis=1))
    np.testing.assert_allclose(found.scores["m1"].interval["2"], np.quantile(failed, [0.05, 0.95]), rtol=1e-9)


def test_a_method_that_may_have_seen_the_annotations_competes_unheard(posterior: Posterior) -> None:
    """Against the others heard, by the five models; what is said of vetted methods does not depend on it."""
    judge = wg.judge(posterior, {**METHODS, **REFERENCES}, panel=list(REFERENCES))
    vetted = replace(judge, vetted=frozenset({*REFERENCES, "m0", "m1"}))
    some = {name: METHODS[name] for name in ("m0", "m1")}
    bent = {**some, "bent": _bent("m3", 0.5)}
    few, more = (wg.evaluate(vetted, one, TARGETS, samples=60, regularity=False) for one in (some, bent))
    assert few.win_probability[0, 1] == more.win_probability[0, 1]
    compared = vetted.compared(bent, TARGETS)
    truth = vetted.truth(compared, 60)
    unheard = [_rms(distances(truth[0], one)) for one in compared.counted]
    heard_ = [_rms(vetted.heard_errors(truth, compared, k)) for k in range(3)]
    expected = np.mean(unheard[2] < np.minimum(heard_[0], heard_[1]))
    assert more.scores["bent"].probability_best["2"] == pytest.approx(expected, abs=1e-12)
    half = np.arange(60) % 2 == 1
    against = np.mean(np.where(half, unheard[2], heard_[2]) < heard_[0])
    assert more.win_probability[2, 0] == pytest.approx(against, abs=1e-12)


def test_errors_place_by_place_are_those_of_the_table(posterior: Posterior) -> None:
    """What maps and box plots draw beside references is heard as the scores are."""
    every = {**METHODS, **REFERENCES}
    judge = wg.judge(posterior, every, panel=list(REFERENCES))
    found = wg.evaluate(judge, every, TARGETS, samples=60, regularity=False)
    for one, drawn in zip(found.scores.values(), judge.error_draws(found.comparison, 60), strict=True):
        assert one.score["2"] == pytest.approx(np.median(_rms(drawn)), rel=1e-12)


def _rms(lengths: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(np.square(lengths), axis=1))


def test_sealed_answers_find_a_leak_and_vet_the_others(posterior: Posterior) -> None:
    spline = RBFInterpolator(OPEN.fixed_points, OPEN.moving_points, kernel="thin_plate_spline")
    every = {**METHODS, "spline": spline, **REFERENCES}
    found = _evaluated(posterior, every, panel=list(REFERENCES), sealed=SEALED)
    assert next(flag.code for flag in found.scores["spline"].flags) == "leak"
    assert found.scores["spline"].probability_best["2"] == 0
    assert "spline" not in found.ranking()
    assert "spline" not in [name for group in found.verdict.groups for name in group]
    assert "spline has seen the landmarks" in found.verdict.lines()["MIND"]
    assert all(found.scores[name].vetted for name in METHODS)
    assert found.verdict.annotations == len(OPEN) + len(SEALED)
    assert "nothing shows" not in str(found.verdict)


def test_the_verdict_says_what_nothing_has_tested(posterior: Posterior) -> None:
    mind = _evaluated(posterior, METHODS).verdict.lines()["MIND"]
    assert mind.startswith("nothing shows whether a method has seen the landmarks")


def test_near_copies_share_one_probability(posterior: Posterior) -> None:
    """The same field through two libraries differs by rounding: neither halves the other's chance."""
    copy = lambda at: METHODS["m0"](at) + 1e-6  # noqa: E731
    alone = _evaluated(posterior, {**METHODS, **REFERENCES}, panel=list(REFERENCES))
    twice = _evaluated(posterior, {**METHODS, "copy": copy, **REFERENCES}, panel=list(REFERENCES))
    best = [twice.scores[name].probability_best["2"] for name in ("m0", "copy")]
    assert best[0] == best[1] == alone.scores["m0"].probability_best["2"]


def test_near_copies_share_the_probability_of_the_first_by_name_not_by_column(posterior: Posterior) -> None:
    """One field through two programs: P(best) is one number, and others' does not depend on how often it is there."""
    copies = {f"copy {k}": lambda at, k=k: METHODS["m0"](at) + 0.01 * k for k in (2, 1)}
    several = _evaluated(posterior, {**copies, **METHODS, **REFERENCES}, panel=list(REFERENCES))
    turned = _evaluated(posterior, {**METHODS, **dict(reversed(copies.items())), **REFERENCES}, panel=list(REFERENCES))
    shared = {several.scores[name].probability_best["2"] for name in (*copies, "m0")}
    assert len(shared) == 1
    only = _evaluated(posterior, {"copy 1": copies["copy 1"], **METHODS, **REFERENCES}, panel=list(REFERENCES))
    for name in (*METHODS, *REFERENCES):
        best = several.scores[name].probability_best["2"]
        assert best == turned.scores[name].probability_best["2"]
        assert best == only.scores[name].probability_best["2"]


def test_the_first_of_near_copies_is_vetted_or_has_the_first_name(posterior: Posterior) -> None:
    """Which copy scores a hair better is chance, and does not decide who leads."""
    near = {f"z {k:+}": lambda at, k=k: METHODS["m0"](at) + 0.002 * k for k in (1, -1)}
    reference = {"a reference's copy": lambda at: REFERENCES["r0"](at) + 0.002}
    found = _evaluated(posterior, {**near, **reference, **METHODS, **REFERENCES}, panel=list(REFERENCES))
    assert {name: one.copy_of for name, one in found.scores.items() if one.copy_of} == {
        "z +1": "m0",
        "z -1": "m0",
        "a reference's copy": "r0",
    }


def test_a_vetted_copy_comes_before_one_that_is_not() -> None:
    """Nobody lowers a vetted method's probability by handing in a copy of it under an earlier name."""
    heard, unheard = np.array([[1.0, 1.0, 2.0]] * 4), np.array([[3.0, 1.0, 2.0]] * 4)
    assert probabilities_of_best(heard, unheard, [0, 1, 2], {0: 1}).tolist() == [1.0, 1.0, 0.0]


def test_one_method_at_most_is_the_best_in_a_draw() -> None:
    """Of two that would both beat the other heard if they had seen nothing, the better one heard; by hand."""
    heard, unheard = np.array([[2.0, 3.0, 9.0], [2.0, 2.0, 9.0]]), np.array([[1.0, 1.0, 9.0], [2.0, 2.0, 9.0]])
    assert probabilities_of_best(heard, unheard, [0, 1, 2], {}).tolist() == [0.75, 0.25, 0.0]


def _failing(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A method that fails as all do, by 30 px in one corner."""
    off = lambda at: 30 * np.exp(-np.square(at - [400, 400]).sum(axis=1) / (2 * 45**2))  # noqa: E731
    return lambda at: METHODS[name](at) + off(at)[:, None] * [1.0, 0.0]


def test_places_where_every_method_is_excluded_are_named() -> None:
    """All methods fail alike where nobody asked; only the annotations around show it."""
    rng = np.random.default_rng(22)
    fixed = rng.uniform(0, 500, (70, 2))
    fixed = fixed[np.linalg.norm(fixed - [400, 400], axis=1) > 90]
    given = wg.Annotations.isotropic(fixed, _truth(fixed) + 0.5 * rng.normal(size=fixed.shape), 0.5)
    posterior = wg.default_posterior(given, (500.0, 500.0))
    targets = rng.uniform(0, 500, (400, 2))
    found = {}
    for what, transforms in (
        ("all", {name: _failing(name) for name in METHODS}),
        ("some", {**METHODS, "m0": _failing("m0")}),
    ):
        judge = wg.judge(posterior, transforms)
        found[what] = wg.evaluate(judge, transforms, targets, samples=100, regularity=False)
    flag = next(one for one in found["all"].verdict.flags if one.code == "excluded")
    assert 0.01 <= flag.numbers["share"] < 0.15
    assert flag.numbers["distance"] > 2 * found["all"].scores["m0"].score["2"]
    assert np.linalg.norm([flag.numbers["x"] - 400, flag.numbers["y"] - 400]) < 60
    assert not any(one.code == "excluded" for one in found["some"].verdict.flags)


def test_a_constant_bias_of_the_annotations_is_named(posterior: Posterior) -> None:
    """As large as the best error, it shows in what all methods miss in common; without it nothing is said."""
    honest = _evaluated(posterior, METHODS)
    assert not any(one.code == "common_offset" for one in honest.verdict.flags)
    moved = wg.Annotations(OPEN.fixed_points, OPEN.moving_points + np.array([3.0, -2.0]), OPEN.covariances)
    biased = _evaluated(wg.default_posterior(moved, (500.0, 500.0)), METHODS)
    flag = next(one for one in biased.verdict.flags if one.code == "common_offset")
    assert flag.numbers["x"] == pytest.approx(3, abs=0.7)
    assert flag.numbers["y"] == pytest.approx(-2, abs=0.7)
    assert "No interval includes a bias of the annotations" in flag.sentence
    beside = _evaluated(wg.default_posterior(moved, (500.0, 500.0)), {**METHODS, **REFERENCES}, panel=list(REFERENCES))
    alone = _evaluated(wg.default_posterior(moved, (500.0, 500.0)), {"m1": METHODS["m1"]}, panel=REFERENCES)
    offsets = [[one for one in each.verdict.flags if one.code == "common_offset"] for each in (beside, alone)]
    assert offsets[0] == offsets[1]


def test_verdict_and_table_are_over_the_same_targets(posterior: Posterior) -> None:
    """All of them; where the annotations inform few, the verdict says so."""
    far = np.concatenate([TARGETS, TARGETS[:40] + 2000.0])
    lucky = lambda at: np.where(at[:, :1] > 1000, at, METHODS["m3"](at))  # noqa: E731
    judge = wg.judge(posterior, {**METHODS, "lucky": lucky})
    found = wg.evaluate(judge, {**METHODS, "lucky": lucky}, far, samples=100, regularity=False)
    assert not found.known[len(TARGETS) :].any()
    assert found.known[: len(TARGETS)].mean() > 0.4
    assert [row.name for row in found.verdict.rows] == found.ranking()
    assert found.verdict.known == found.known.mean()
    assert "of the targets" in found.verdict.lines()["BASIS"]


def test_a_panel_names_transforms(posterior: Posterior) -> None:
    with pytest.raises(wg.errors.InvalidInputError, match="panel names 'nobody', which is not among the transforms"):
        wg.judge(posterior, METHODS, panel=["nobody"])
    with pytest.raises(wg.errors.InvalidInputError, match="'m0' is a transform and another reference"):
        wg.judge(posterior, METHODS, panel={"m0": REFERENCES["r0"]})


def test_references_of_a_project_are_its_panel(tmp_path: Path) -> None:
    """Through the command line: what is said of a method is the same whichever others are named."""
    rng = np.random.default_rng(30)
    Image.fromarray(rng.integers(0, 255, (100, 120)).astype(np.uint8)).save(tmp_path / "image.png")
    folder = tmp_path / "pair"
    call("new", folder, "--fixed", tmp_path / "image.png", "--moving", tmp_path / "image.png", "--candidates", "20",
         "--targets", "domain:60", "--foreground", "none")  # fmt: skip
    with wg.Project.open(folder) as project:
        session = wg.Session(project, rater="ann")
        for point in rng.uniform(5, 90, (12, 2)):
            session.volunteer(point, point + rng.normal([4.0, -3.0], 0.5), radius=2.0)
    for name, (x, y) in {"r1": (5, -3), "r2": (4, -1), "r3": (3, -4), "m1": (4.5, -3), "m2": (9, -3)}.items():
        (tmp_path / f"{name}.txt").write_text(f"1 0 {x}\n0 1 {y}\n0 0 1\n")
        call("add-transform", folder, name, tmp_path / f"{name}.txt", *(["--reference"] if name[0] == "r" else []))
    every, one = ask("evaluate", folder), ask("evaluate", folder, "m1")
    assert set(one["transforms"]) == {"m1", "r1", "r2", "r3", "identity"}
    assert every["transforms"]["m1"]["interval"] == one["transforms"]["m1"]["interval"]
    assert [every["transforms"][name]["vetted"] for name in ("r1", "m1")] == [True, False]
    assert every["references"] == ["r1", "r2", "r3"]
    rest = 1 - sum(found["probability_best"]["2"] for found in every["transforms"].values())
    assert ("depends on whether methods have seen" in every["lines"]["BEST"]) == (rest >= 0.05)
    assert ask("info", folder)["references"] == ["r1", "r2", "r3"]
