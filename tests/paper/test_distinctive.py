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
    runs = distinctive.plan(Path(), 1, 0, quick=True)
    told = distinctive.report([(run, distinctive.summed(np.arange(6.0), np.arange(6.0))) for run in runs])
    assert "+1.00" in told.sentences[0]
