"""The scales study against the oracle, for each bundle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oracle
import paper_tools as tools
from paper.datasets import cima, copdgene
from paper.default_setting import setting
from paper.paper_studies import BUNDLES, SCALES

KEPT = {"one": [2560.0], "half": [160.0, 320.0, 640.0, 1280.0, 2560.0], "all": [10.0 * 2**s for s in range(9)]}


@pytest.mark.parametrize("which", KEPT)
def test_a_run_is_what_the_oracle_computes(tmp_path: Path, which: str) -> None:
    """The bundle starts from the coarsest scale, learns its own weights, and asks in its own order."""
    tools.write_cima(tmp_path)
    tools.write_copdgene(tmp_path)
    run = SCALES.plan(tmp_path, 1, 0, True)[0]
    result = SCALES.compute(tmp_path, run)
    parts = setting(tmp_path, run).halves
    k = tools.oracle_kernel(KEPT[which], result["weights"][which])
    Sigma = np.broadcast_to(tools.disc(2, 1.0), (len(parts.fixed), 2, 2))
    known = (parts.fixed, parts.moving, Sigma, parts.held_fixed, parts.held_moving)
    curve = result["curves"][0][which]
    first = tools.first_asked(curve, k, *known)
    greedy = oracle.greedy_sequence(k, parts.fixed, None, Sigma, len(curve), first=first)
    assert curve == pytest.approx(tools.oracle_errors(k, greedy, *known), rel=1e-6)


def test_the_bundles_have_as_many_scales_as_the_papers(tmp_path: Path) -> None:
    """1, 5 and 9 for CIMA; 1, 3 and 6 for COPDgene."""
    tools.write_cima(tmp_path)
    tools.write_copdgene(tmp_path)
    assert [len(scales(cima(tmp_path)[0])) for scales in BUNDLES.values()] == [1, 5, 9]
    assert [len(scales(copdgene(tmp_path)[0])) for scales in BUNDLES.values()] == [1, 3, 6]
