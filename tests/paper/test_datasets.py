"""The landmark sets come out with the published figures, and splits and training pairs share nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import paper_tools as tools
from paper import brains, datasets, default_setting
from paper.curves import halves, paper_scales
from paper.paper_studies import STRATEGIES


def mean_distance(pair: datasets.LandmarkPair) -> float:
    return float(np.linalg.norm(pair.fixed - pair.moving, axis=1).mean())


def test_published_initial_errors(data_dir: Path) -> None:
    """README of the data: initial errors of both DIR-Lab sets, and of Colin27 to 6Asym."""
    assert [mean_distance(pair) for pair in datasets.copdgene(data_dir)] == pytest.approx(
        [26.33, 21.79, 12.64, 29.58, 30.08], abs=0.006
    )
    assert [mean_distance(pair) for pair in datasets.dirlab4dct(data_dir)] == pytest.approx(
        [3.89, 4.34, 6.94, 9.83, 7.48], abs=0.006
    )
    (template,) = datasets.afids(data_dir, templates=True)
    assert mean_distance(template) == pytest.approx(4.31, abs=0.01)
    assert len(datasets.afids(data_dir)) == 30 * 29 // 2
    assert len(datasets.elastix_lung(data_dir)) == 51


def test_cima_has_twenty_ordered_pairs_a_region_at_one_scale(data_dir: Path) -> None:
    """Five regions of five stains; at 10 % lung-lesion_3's 8402 px at 50 % are 1680.4."""
    pairs = datasets.cima(data_dir)
    assert len(pairs) == 5 * 20
    assert len(datasets.cima(data_dir, ordered=False)) == 5 * 10
    by = {pair.name: pair for pair in pairs}
    assert by["lung-lesion_3_CD31_He"].fixed[:, 0].max() == pytest.approx(1680.4)
    assert len(by["lung-lobes_2_He_Ki67"]) == 107
    assert {pair.group for pair in datasets.DATASETS["cima"].testable(data_dir)} == {
        "lung-lesion_1", "lung-lesion_3", "lung-lobes_1", "lung-lobes_2",
    }  # fmt: skip


def test_weights_come_from_another_region_with_the_same_stains(tmp_path: Path) -> None:
    """No run trains on its own region or case, and CIMA's training pair has its stains in the same order."""
    tools.write_cima(tmp_path, ("lung-a_1", "lung-b_1", "lung-c_1"))
    tools.write_copdgene(tmp_path, (1, 2, 3))
    for run in default_setting.plan(tmp_path, ("cima", "copdgene"), 18, 0, quick=False):
        given = default_setting.setting(tmp_path, run)
        assert given.teacher.group != given.pair.group
        if given.pair.dataset == "cima":
            assert given.teacher.name.removeprefix(given.teacher.group) == given.pair.name.removeprefix(
                given.pair.group
            )
    names = [run.parameters["pair"] for run in default_setting.plan(tmp_path, ("cima",), 9, 0, quick=False)]
    assert len(set(names)) == 9


def test_the_halves_share_no_landmark(tmp_path: Path) -> None:
    tools.write_cima(tmp_path)
    pair = datasets.cima(tmp_path)[0]
    parts = halves(pair, 5)
    together = np.concatenate([parts.fixed, parts.held_fixed])
    assert sorted(map(tuple, together)) == sorted(map(tuple, pair.fixed))
    assert (len(parts.fixed), len(parts.held_fixed)) == (8, 8)
    assert not np.array_equal(parts.rows, halves(pair, 6).rows)


def test_the_paper_has_nine_scales_from_ten_pixels(tmp_path: Path) -> None:
    tools.write_cima(tmp_path)
    assert paper_scales(datasets.cima(tmp_path)[0]).tolist() == [10 * 2**s for s in range(9)]
    tools.write_copdgene(tmp_path)
    pixel = 2.5 ** (1 / 3)
    assert paper_scales(datasets.copdgene(tmp_path)[0]) == pytest.approx([10 * pixel * 2**s for s in range(6)])


def test_the_dense_set_has_as_many_points_as_the_papers() -> None:
    """957 distinct corners with finite matches; the ten lessons are farthest points of the annotable half."""
    pytest.importorskip("skimage", reason="the dense set is an image inside scikit-image")
    pair = brains.dense()
    assert len(np.unique(pair.fixed, axis=0)) == 957
    assert np.isfinite(pair.moving).all()
    run = default_setting.plan(Path(), ("dense",), 1, 0, quick=True)[0]
    given = default_setting.setting(Path(), run)
    chosen = given.halves.fixed[list(given.first)]
    for n in range(1, 10):
        reach = np.linalg.norm(given.halves.fixed[:, None] - chosen[None, :n], axis=2).min(axis=1)
        assert reach[given.first[n]] == pytest.approx(reach.max())
    assert given.lessons is not None
    assert np.array_equal(pair.fixed[list(given.lessons)], chosen)


def test_the_plan_has_a_hundred_curves_for_each_of_five_datasets(data_dir: Path) -> None:
    planned = STRATEGIES.plan(data_dir, STRATEGIES.default_runs, 0, False)
    counts = {name: sum(run.parameters["dataset"] == name for run in planned) for name in default_setting.CURVES}
    assert len(counts) == 5
    assert min(counts.values()) >= 100
