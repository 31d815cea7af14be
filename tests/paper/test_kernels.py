"""The kernels study against the oracle, for each radial function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oracle
import paper_tools as tools
from paper.default_setting import setting
from paper.paper_studies import FAMILY_LABELS, KERNELS


@pytest.mark.parametrize("family", FAMILY_LABELS)
def test_a_run_is_what_the_oracle_computes(tmp_path: Path, family: str) -> None:
    """Each family has weights that minimise its own loss, its own greedy order, and its own errors."""
    tools.write_cima(tmp_path)
    tools.write_copdgene(tmp_path)
    run = KERNELS.plan(tmp_path, 1, 0, True)[0]
    result = KERNELS.compute(tmp_path, run)
    given = setting(tmp_path, run)
    parts, teacher = given.halves, given.teacher
    scales, weights = [10.0 * 2**s for s in range(9)], result["weights"][family]
    Sigma = np.broadcast_to(tools.disc(2, 1.0), (len(teacher), 2, 2))
    tools.assert_learned(scales, weights, teacher.fixed, teacher.moving, Sigma, family=family)
    k = tools.oracle_kernel(scales, weights, family)
    known = (parts.fixed, parts.moving, Sigma[: len(parts.fixed)], parts.held_fixed, parts.held_moving)
    curve = result["curves"][0][family]
    first = tools.first_asked(curve, k, *known)
    greedy = oracle.greedy_sequence(k, parts.fixed, None, Sigma[: len(parts.fixed)], len(curve), first=first)
    assert curve == pytest.approx(tools.oracle_errors(k, greedy, *known), rel=1e-6)


def test_both_datasets_are_compared_with_wendland(tmp_path: Path) -> None:
    tools.write_cima(tmp_path)
    tools.write_copdgene(tmp_path)
    planned = KERNELS.plan(tmp_path, 1, 0, True)
    curves = {"wendland": [2.0, 1.0], "gaussian": [3.0, 1.5], "inverse_quadratic": [2.0, 0.5]}
    found = KERNELS.report([(run, {"curves": [curves]}) for run in planned])
    assert set(found.numbers) == {"cima", "copdgene"}
    for numbers in found.numbers.values():
        assert numbers["differences"]["Gaussian - Wendland"]["median"].tolist() == [1.0, 0.5]
        assert numbers["differences"]["Inverse quadratic - Wendland"]["median"].tolist() == [0.0, -0.5]
