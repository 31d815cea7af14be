"""The study of distinctive places: its neighbourhoods and its sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paper import distinctive


def test_scatter_is_compared_by_rank_and_by_thirds() -> None:
    """Places whose patch leaves the image do not count; thirds are those of the distinctiveness."""
    found = np.array([5.0, 1.0, 3.0, np.nan, 2.0, 4.0, 6.0])
    told = distinctive.summed(found, np.array([2.0, 9.0, 5.0, 100.0, 7.0, 4.0, 1.0]))
    assert told["points"] == 6
    assert told["rank correlation"] == pytest.approx(-1)
    assert (told["least distinctive"], told["most distinctive"]) == (8.0, 1.5)


def test_a_place_is_compared_with_its_neighbourhood_alone() -> None:
    """A copy beyond the reach does not count, one within it does; at the border there is no figure."""
    gray = np.random.default_rng(2).normal(0, 1, (90, 90))
    gray[60:65, 60:65] = gray[20:25, 20:25]
    places = np.array([[22, 22], [1, 40]])
    far, near = (distinctive.seen_from(gray, places, 2, reach) for reach in (15, 50))
    assert near[0] < 1e-9
    assert far[0] > 0.1
    assert np.isnan(far[1])
    runs = distinctive.plan(Path(), 1, 0, quick=True)[: len(distinctive.IMAGES)]
    told = distinctive.report([(run, distinctive.summed(np.arange(6.0), np.arange(6.0))) for run in runs])
    assert "+1.00" in told.sentences[0]


def test_both_kinds_of_questions_are_summed_over_experts() -> None:
    """Every pair is asked in both ways with the same seeds; the sums say of how many experts and questions they are."""
    runs = distinctive.plan(Path(), 2, 7, quick=False)[len(distinctive.IMAGES) :]
    asked = {(run.parameters["dataset"], run.parameters["seed"], run.parameters["arm"]) for run in runs}
    assert asked == {(pair, seed, arm) for pair in distinctive.PAIRS for seed in (7, 8) for arm in distinctive.ARMS}
    results = []
    for run in runs:
        far = run.parameters["arm"] == distinctive.ARMS[1]
        first = run.parameters["seed"] == 7
        found = {"distinctiveness": [1.0 + far, 2.0 + far], "kept": [1.0, 0.75 if far else 1.0]}
        results.append((run, {**found, "rms": 4.0 if first else 2.0, "stated": 5.0, "of the places": 6.0}))
    told = distinctive.report(results)
    plain, recognisable = told.numbers["questions"]["colin27_mni152"].values()
    assert (plain["experts"], plain["questions"]) == (2, 4)
    assert (plain["distinctiveness"], recognisable["distinctiveness"]) == (1.5, 2.5)
    assert (plain["kept"], recognisable["kept"], recognisable["least kept"]) == (1.0, 0.875, 0.75)
    assert recognisable["rms"] == {"mean": 3.0, "range": [2.0, 4.0]}
    assert "2 simulated experts, 4 questions" in told.sentences[-1]


def test_an_answer_brings_nothing_where_all_is_known() -> None:
    """The information is 1/2 log det(I + K/s^2) up to its factor: 0 for no variance, d log 2 for that of an answer."""

    class Known:
        def covariance(self, points: np.ndarray) -> np.ndarray:
            return np.array([0.0, 4.0])[:, None, None] * np.eye(2)

    gains = distinctive._gains(Known(), np.zeros((2, 2)), 2.0)  # type: ignore[arg-type]
    np.testing.assert_allclose(gains, [0.0, 2 * np.log(2)], atol=1e-15)
