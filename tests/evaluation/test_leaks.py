"""The leak test: what a registration that saw the open answers betrays at the sealed ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.interpolate import RBFInterpolator

import warpgauge as wg
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import leaks
from warpgauge.evaluation.comparison import Comparison
from warpgauge.evaluation.flags import undefined
from warpgauge.evaluation.leaks import leak_tests, thin_plate_weights

OPEN, SEALED = 20, 12


def test_points_on_a_line_are_no_obstacle() -> None:
    line = np.column_stack([np.arange(5.0), np.arange(5.0)])
    np.testing.assert_allclose(thin_plate_weights(line, np.zeros((2, 2))), 0.2)


def _case(seed: int, d: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Residuals of an honest registration and of four references that share a smooth error, at random points.

    The error varies faster than the points lie apart, as that of real registrations does. A bend that is right between
    the open answers cannot be found, and does no harm.
    """
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 100, (OPEN + SEALED, d))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    root = np.linalg.cholesky(np.exp(-np.square(distances / 12)) + 1e-6 * np.eye(len(points)))
    common = root @ rng.normal(size=(len(points), d))
    every = common + np.stack([root @ rng.normal(size=(len(points), d)) for _ in range(5)])
    every += 0.2 * rng.normal(size=every.shape)
    return every[0], every[1:], points, np.arange(len(points)) >= OPEN


def _bent(residuals: np.ndarray, points: np.ndarray, share: float) -> np.ndarray:
    """Residuals after bending by a share of those at the open answers, with scipy's spline."""
    spline = RBFInterpolator(points[:OPEN], residuals[:OPEN], kernel="thin_plate_spline", degree=1)
    return residuals - share * spline(points)


def test_bent_registrations_are_found_and_honest_ones_are_not() -> None:
    """Expected rates: at most 2 in 100 honest ones (1 in 30 allowed for chance), most of the half-bent ones."""
    found = {"honest": 0, "half": 0, "whole": 0, "spline with jitter": 0, "short bend": 0}
    runs = 30
    for seed in range(runs):
        residuals, references, points, sealed = _case(seed)
        rng = np.random.default_rng([seed, 2])
        jitter = _bent(residuals, points, 1.0)
        jitter[:OPEN] += 0.3 * rng.normal(size=(OPEN, 2))
        short = np.where(sealed[:, None], residuals, 0.4 * residuals)
        tried = [residuals, _bent(residuals, points, 0.5), _bent(residuals, points, 0.95), jitter, short]
        tests = leak_tests(np.stack(tried), references, points, sealed, count=199)
        for name, one in zip(found, tests, strict=True):
            found[name] += one.leaked
    assert found["honest"] <= 1
    assert found["half"] >= 0.6 * runs
    assert found["whole"] == runs
    assert found["spline with jitter"] >= 0.9 * runs
    assert found["short bend"] >= 0.6 * runs


def test_small_p_values_of_honest_registrations_are_as_rare_as_they_say() -> None:
    """By permutation, whatever the residuals: heavy tails, smooth, without references."""
    values = []
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        points = rng.uniform(0, 1, (20, 3))
        residuals = rng.standard_t(2, size=(2, 20, 3))
        values += [one.p for one in leak_tests(residuals, residuals[:0], points, np.arange(20) >= 12, count=39)]
    assert stats.kstest(values, "uniform", alternative="greater").pvalue > 0.01
    assert min(values) < 0.2


def test_what_is_found_of_one_registration_does_not_depend_on_the_others() -> None:
    residuals, references, points, sealed = _case(5)
    bent = _bent(residuals, points, 0.5)
    alone = leak_tests(bent[None], references, points, sealed, count=99)[0]
    among = leak_tests(np.stack([residuals, 3 * residuals, bent]), references, points, sealed, count=99)[2]
    assert alone == among
    assert (alone.open, alone.sealed) == (OPEN, SEALED)


def test_too_few_sealed_answers_are_said_to_be_too_few() -> None:
    residuals, references, points, _ = _case(6)
    with pytest.raises(InvalidInputError, match="at least 3 open and 3 sealed answers, got 30 and 2"):
        leak_tests(residuals[None], references, points, np.arange(OPEN + SEALED) >= OPEN + SEALED - 2)


def _compared(seed: int, holes: int, targets: int = 400) -> Comparison:
    """Two references, an honest method, one that is bent to the open answers, and the same undefined at some of them.

    The holes are so small that no target lies in them.
    """
    residuals, references, points, sealed = _case(seed)
    rng = np.random.default_rng([seed, 5])
    at = rng.uniform(0, 100, (targets, 2))
    places = np.concatenate([points, at])
    tables = {
        "honest": residuals,
        "bent": _bent(residuals, points, 0.95),
        **{f"reference{k}": one for k, one in enumerate(references)},
    }
    tables["holed"] = np.where((np.arange(len(points)) < holes)[:, None], np.nan, tables["bent"])

    def looked_up(table: np.ndarray) -> object:
        known = {tuple(place): place - one for place, one in zip(points.tolist(), table, strict=True)}
        return lambda asked: np.array([known.get(tuple(place), np.asarray(place)) for place in asked.tolist()])

    answers = wg.Annotations.isotropic(points, points, 0.1)
    posterior = wg.default_posterior(answers[~sealed], [100.0, 100.0], smallest=5.0)
    panel = tuple(name for name in tables if name.startswith("reference"))
    made = {name: looked_up(table) for name, table in tables.items()}
    assert len(np.unique(places, axis=0)) == len(places)
    return Comparison.of(made, at, posterior, panel=panel, sealed=answers[sealed])


@pytest.mark.parametrize("holes", [1, 6])
def test_a_hole_at_an_open_answer_does_not_hide_a_leak(holes: int) -> None:
    """A method is tested by the answers where it is defined."""
    found = leaks.tested(_compared(0, holes))
    assert found["bent"].leaked
    assert found["holed"].leaked
    assert (found["holed"].open, found["holed"].sealed) == (OPEN - holes, SEALED)
    assert not found["honest"].leaked


def test_what_is_undefined_just_where_it_would_be_tested_is_flagged() -> None:
    """One hole among 20 answers is no sign (1 in 401 by chance at each), four are."""
    assert undefined(_compared(0, 1)) == []
    (flag,) = undefined(_compared(0, 4))
    assert (flag.transform, flag.code) == ("holed", "untested")
    assert flag.p == pytest.approx(float(stats.binom.sf(3, OPEN, 1 / 401)))
    assert "holed is not defined at 20 % of the annotations" in flag.sentence
    # With few targets the same holes are no sign: a tenth of the image may be undefined.
    assert undefined(_compared(0, 4, targets=9)) == []


def test_points_for_the_targets_alone_are_flagged_if_they_come_in_a_file(tmp_path: Path) -> None:
    """A table that somebody submits can hide what it does at the annotations; a script's own array hides nothing."""
    rng = np.random.default_rng(3)
    fixed, at = rng.uniform(0, 100, (12, 2)), rng.uniform(0, 100, (30, 2))
    posterior = wg.default_posterior(wg.Annotations.isotropic(fixed, fixed, 0.5), [100.0, 100.0], smallest=5.0)
    assert wg.evaluate(posterior, {"mine": at + 1.0}, at).scores["mine"].flags == ()
    rows = "".join(f"{x},{y},{x + 1},{y + 1}\n" for x, y in at.tolist())
    (tmp_path / "table.csv").write_text("fixed_x,fixed_y,moving_x,moving_y\n" + rows)
    given = {"theirs": wg.read_transform(tmp_path / "table.csv", format="points")}
    assert [one.code for one in wg.evaluate(posterior, given, at).scores["theirs"].flags] == ["untested"]
