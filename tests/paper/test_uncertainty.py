"""The uncertainty study against the oracle: the user's ellipses reach both the order and the posterior."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oracle
import paper_tools as tools
from paper.default_setting import setting
from paper.paper_studies import CONDITIONS, UNCERTAINTY
from warpgauge.simulate import EllipseAnnotator


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_run_is_what_the_oracle_computes(tmp_path: Path, condition: str) -> None:
    """Orders by greedy entropy with each candidate's own ellipse, errors with the placements of the same user."""
    tools.write_cima(tmp_path)
    run = next(r for r in UNCERTAINTY.plan(tmp_path, 1, 0, True) if r.parameters["condition"] == condition)
    result = UNCERTAINTY.compute(tmp_path, run)
    (curves,) = result["curves"]
    parts = setting(tmp_path, run).halves
    k = tools.oracle_kernel([10.0 * 2**s for s in range(9)], result["weights"])
    user = EllipseAnnotator(scale=5.0 if "fivefold" in condition else 1.0, noisy="exact" not in condition)
    said = user.annotate(parts.fixed, lambda _: parts.moving, run.parameters["split"])
    known = (parts.fixed, said.moving_points, said.covariances, parts.held_fixed, parts.held_moving)
    first = tools.first_asked(curves["entropy"], k, *known)
    greedy = oracle.greedy_sequence(k, parts.fixed, None, said.covariances, len(parts.fixed), first=first)
    assert curves["entropy"] == pytest.approx(tools.oracle_errors(k, greedy, *known), rel=1e-8)
    farthest = oracle.farthest_sequence(parts.fixed, first, len(parts.fixed))
    assert curves["farthest"] == pytest.approx(tools.oracle_errors(k, farthest, *known), rel=1e-8)


def test_the_conditions_share_their_splits_and_ellipses_grow_fivefold(tmp_path: Path) -> None:
    tools.write_cima(tmp_path)
    planned = UNCERTAINTY.plan(tmp_path, 3, 0, False)
    splits = {
        condition: [run.parameters["split"] for run in planned if run.parameters["condition"] == condition]
        for condition in CONDITIONS
    }
    assert len({tuple(rows) for rows in splits.values()}) == 1
    points = np.zeros((3, 2))
    small, large = (
        EllipseAnnotator(scale=CONDITIONS[name][0]).annotate(points, lambda p: p, 1).covariances
        for name in ("ellipses", "fivefold")
    )
    assert large == pytest.approx(25 * small)
