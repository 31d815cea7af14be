from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import warpgauge as wg
from paper import evaluation, evaluation_report, registration_sets
from paper.experiment import Run
from paper.registration_sets import RegistrationSet
from paper.registrations import SimpleItkSetting
from warpgauge.demo.image_pairs import make_pair


def bent(points: np.ndarray) -> np.ndarray:
    return points + 5 * np.sin(points[:, ::-1] / 40)


def small_contest() -> RegistrationSet:
    """Four shifted transforms of a known deformation, 12 answers, 15 targets."""
    rng = np.random.default_rng(4)
    fixed, targets = rng.uniform(0, 120, (12, 2)), rng.uniform(0, 120, (15, 2))
    answers = wg.Annotations.isotropic(fixed, bent(fixed) + rng.normal(0, 0.5, fixed.shape), 0.5)
    shifts = [np.array([size, -0.5 * size]) for size in (3.0, 0.5, 1.5, 6.0)]
    mapped = [np.stack([bent(at) + shift for shift in shifts]) for at in (fixed, targets)]
    names = ["c", "a", "b", "d"]
    return RegistrationSet(
        names, answers, mapped[0], targets, mapped[1], bent(targets), 1.0, np.array([120.0, 120.0]), "px"
    )


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    monkeypatch.setattr(registration_sets, "simulated", lambda d, seed: small_contest())
    return evaluation.compute(tmp_path, Run("a", {"dataset": "simulated 2D", "seed": 3, "counts": [6, 10, 60]}))


def test_landmark_scores_are_those_of_the_slow_version(computed: dict[str, Any]) -> None:
    """Spearman's correlation and the mean absolute error, recomputed from the annotations that Entropy asks for."""
    met = small_contest()
    rows = evaluation.asked(met, 10, 3)
    assert list(computed["counts"]) == ["6", "10"]
    for n in (6, 10):
        for p, name in ((1.0, "1"), (2.0, "2"), (np.inf, "inf")):
            scores = [
                oracle.landmark_score(one[rows[:n]], met.answers.moving_points[rows[:n]], p) for one in met.at_answers
            ]
            true = [oracle.displacement_norm(one - met.truth, p) for one in met.mapped]
            found = computed["counts"][str(n)]["landmarks"]
            ranks = [np.argsort(np.argsort(values)) + 1 for values in (scores, true)]
            assert found["spearman"][name] == pytest.approx(oracle.spearman(*ranks))
            assert found["error"][name] == pytest.approx(np.mean(np.abs(np.subtract(scores, true))))
            np.testing.assert_allclose(computed["true"][name], true)


def test_the_papers_scores_are_those_of_the_slow_version(computed: dict[str, Any]) -> None:
    """With six annotations nothing is learned: the posterior mean of the stated prior, by dense matrices."""
    met = small_contest()
    rows = evaluation.asked(met, 6, 3)
    scales = 10.0 * 2.0 ** np.arange(5)
    weights = (0.02 * np.hypot(120, 120)) ** 2 * scales**2 / np.sum(scales**2)
    mean, _ = oracle.posterior(
        lambda x, y: oracle.kernel("wendland", scales, weights, x, y),
        oracle.identity,
        met.answers.fixed_points[rows],
        met.answers.moving_points[rows],
        met.answers.covariances[rows],
        met.targets,
    )
    found = computed["counts"]["6"]["paper"]
    for p, name in ((1.0, "1"), (2.0, "2"), (np.inf, "inf")):
        scores = [oracle.posterior_score(mean, one, p) for one in met.mapped]
        true = [oracle.displacement_norm(one - met.truth, p) for one in met.mapped]
        assert found["error"][name] == pytest.approx(np.mean(np.abs(np.subtract(scores, true))))


def test_the_judge_ranks_the_shifts_and_holds_their_sizes(computed: dict[str, Any]) -> None:
    """The shifts are 0.56, 1.68, 3.35 and 6.7 px: ten annotations with an error of 0.5 px tell them apart."""
    found = computed["counts"]["10"]["judge"]
    assert found["spearman"]["2"] == 1.0
    assert found["first"]["2"]
    assert found["held"] >= 3  # their errors are one and the same
    assert found["error"]["2"] < 0.3


def test_what_is_held_and_called_by_hand() -> None:
    """True errors 1, 2, 3: the last interval lies too low, one call is right, one wrong, one pair is open."""
    names, true = ["a", "b", "c"], np.array([1.0, 2.0, 3.0])
    known = wg.TransformationPrior(wg.KernelBundle("wendland", [10.0], [1.0])).condition(
        wg.Annotations.isotropic([[0.0, 0.0]], [[0.0, 0.0]], 1.0)
    )
    found = wg.evaluate(known, dict.fromkeys(names, lambda x: x), np.zeros((1, 2)), samples=10)
    intervals = {"a": (0.5, 1.5), "b": (1.0, 2.5), "c": (1.0, 2.9)}
    for name, best in (("a", 0.02), ("b", 0.97), ("c", 0.01)):
        found.scores[name].interval["2"] = intervals[name]
        found.scores[name].probability_best["2"] = best
    found.win_probability[:] = [[0.5, 0.04, 0.6], [0.96, 0.5, 0.99], [0.4, 0.01, 0.5]]
    told = evaluation._confidence(found, names, true)
    assert (told["held"], told["too_low"]) == (2, 1)
    assert told["width"] == pytest.approx((1.0 + 0.75 + 1.9 / 3) / 3)
    assert (told["sure"], told["right"]) == (True, False)
    assert (told["pairs_called"], told["pairs_right"], told["pairs"]) == (2, 1, 3)


def test_the_report_counts_over_all_cases(computed: dict[str, Any]) -> None:
    """Two runs with the same result have the same means; held intervals are counted by transform."""
    runs = [Run(key, {"dataset": "simulated 2D", "seed": 1}) for key in "ab"]
    findings = evaluation_report.report([(run, computed) for run in runs])
    found = findings.numbers["simulated 2D"]
    own = computed["counts"]["10"]["judge"]
    assert found["counts"]["10"]["judge"]["held"] == own["held"] / 4
    assert found["counts"]["10"]["judge"]["error"]["2"]["mean"] == pytest.approx(own["error"]["2"])
    assert found["together"]["judge"]["cases"] == 4
    assert "2 runs of 4 transforms" in findings.sentences[0]
    assert set(findings.figures) == {"p1", "p2", "pinf"}


def test_simulated_pairs_are_registered_once_and_their_truth_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Real registrations by SimpleITK; kept for the next time; the truth is the deformation that made the pair."""
    settings = tuple(SimpleItkSetting(name, "affine", share=0.02, seed=seed) for seed, name in ((1, "a"), (2, "b")))
    monkeypatch.setitem(registration_sets.SETTINGS, 2, settings)
    monkeypatch.setattr(registration_sets, "POINTS", 60)
    monkeypatch.setattr(registration_sets, "CANDIDATES", 20)
    monkeypatch.setattr(registration_sets, "TARGETS", 30)
    monkeypatch.setenv(registration_sets.KEPT_IN, str(tmp_path / "kept"))
    met = registration_sets.simulated(2, 5)
    rng = np.random.default_rng([5, 2])
    amplitude, spacing = rng.uniform(6, 16), rng.uniform(60, 130)
    pair = make_pair(2, tmp_path / "pair", 5, amplitude=amplitude, spacing=spacing)
    np.testing.assert_allclose(met.truth, pair.truth.map(met.targets))
    assert met.names == ["a", "b"]
    distances = np.linalg.norm(met.answers.moving_points - pair.truth.map(met.answers.fixed_points), axis=1)
    assert 0.5 < np.sqrt(np.mean(distances**2)) / np.sqrt(2) < 1.5
    # An affine map cannot follow the deformation, but lies within its size.
    assert (met.true_scores(2) < 3 * np.sqrt(np.mean((met.truth - met.targets) ** 2) * 2)).all()

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("registered again")

    monkeypatch.setattr(registration_sets, "run_registrations", refuse)
    np.testing.assert_array_equal(registration_sets.simulated(2, 5).mapped, met.mapped)


def test_real_registrations_and_fused_experts(data_dir: Path) -> None:
    """elastix-lung: 14 transforms, the true scores are those of the held-out landmarks; COPDgene: three experts."""
    met = registration_sets.lung(data_dir, 1)
    assert len(met.names) == 14
    assert len(met.answers) + len(met.targets) == 50
    files = sorted((data_dir / "elastix-lung" / "transforms").glob("TransformParameters_*.txt"))
    mapped = wg.read_transform(files[3]).map(met.targets)
    assert met.true_scores(2)[3] == pytest.approx(np.sqrt(np.mean(np.square(mapped - met.truth).sum(axis=1))))
    fused = registration_sets.copd(data_dir, 1, 1)
    assert len(fused.names) == 8
    # Case 2's observers differ by 1.06 mm on average with a standard deviation of 1.51.
    scatter = np.sqrt(np.trace(fused.answers.covariances, axis1=1, axis2=2))
    assert 0.5 < np.median(scatter) < 4


def test_the_quick_version_registers_one_pair_only(data_dir: Path) -> None:
    """Registering in 3D or CIMA's large sections takes minutes, so the version to try has neither."""
    quick = evaluation.plan(data_dir, 20, 3, True)
    assert sorted(run.parameters["dataset"] for run in quick) == ["copdgene", "elastix-lung", "simulated 2D"]
    whole = evaluation.plan(data_dir, 4, 3, False)
    names = [run.parameters["dataset"] for run in whole]
    # Four deformations; one split of each of four pairs of stains; one split of each of five cases.
    assert [names.count(name) for name in ("simulated 3D", "cima", "copdgene")] == [4, 4, 5]
