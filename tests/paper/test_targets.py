"""The targets study against the oracle: gains informed by T, errors at T."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest

import oracle
import paper_tools as tools
from paper import brains, paper_studies
from paper.experiment import Run
from warpgauge.candidates import targets_from_labels


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A head of 64 mm with two AAL-like structures, and a CoBrA-like label volume, both with texture for corners."""
    rng = np.random.default_rng(0)
    blocks = np.kron(rng.uniform(60, 120, (16, 16, 16)), np.ones((4, 4, 4)))
    labels = np.zeros((64, 64, 64))
    labels[12:28, 12:28, 12:28], labels[36:52, 36:52, 36:52] = 1, 2
    (tmp_path / "afids").mkdir()
    (tmp_path / "cobralab").mkdir()
    affine = np.diag([-1.0, -1.0, 1.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(blocks.astype(np.float32), affine), tmp_path / "afids" / "mni152_6asym_T1.nii.gz")
    nibabel.save(nibabel.Nifti1Image(labels.astype(np.float32), affine), tmp_path / "afids" / "mni152_6asym_aal.nii.gz")
    return tmp_path


def test_a_run_is_what_the_oracle_computes(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Informed: argmax of H(x | A) - H(x | T, A), since no candidate is a target; the error is that at T."""
    monkeypatch.setattr(brains, "BRAIN_CORNERS", 12)
    monkeypatch.setattr(paper_studies, "EDGE_POINTS", 6)
    monkeypatch.setattr(brains, "BRAIN_AMPLITUDE", 2.0)
    monkeypatch.setattr(brains, "BRAIN_SPACING", 20.0)
    parameters = {
        "dataset": "aal", "structure": 1, "deformation": 3, "training": 4, "split": 5, "count": 5,
    }  # fmt: skip
    result = paper_studies.TARGETS.compute(data, Run("one", parameters))
    (curves,) = result["curves"]
    brain = brains.labelled_brain(data, "aal")
    truth = brains.deformation(brain, 3)
    edge = targets_from_labels(brain.labels, brain.grid, 1, count=6, seed=5)
    corners = brain.corners
    assert len(corners) == 12
    k = tools.oracle_kernel([10.0 * 2**s for s in range(6)], result["weights"])
    Sigma = np.broadcast_to(tools.disc(3, 1.0), (12, 3, 3))
    known = (corners, truth.map(corners), Sigma, edge, truth.map(edge))
    informed = oracle.greedy_sequence(k, corners, edge, Sigma, 5)
    assert curves["informed"] == pytest.approx(tools.oracle_errors(k, informed, *known), rel=1e-7)
    first = tools.first_asked(curves["uninformed"], k, *known)
    plain = oracle.greedy_sequence(k, corners, None, Sigma, 5, first=first)
    assert curves["uninformed"] == pytest.approx(tools.oracle_errors(k, plain, *known), rel=1e-7)
    farthest = oracle.farthest_sequence(corners, first, 5)
    assert curves["farthest"] == pytest.approx(tools.oracle_errors(k, farthest, *known), rel=1e-7)
    brains.labelled_brain.cache_clear()


def test_the_plan_has_ten_distinct_structures_a_deformation(data_dir: Path) -> None:
    """And training and tested deformations differ; grey and white matter are all that the third brain has."""
    planned = paper_studies.TARGETS.plan(data_dir, 20, 0, False)
    for name in ("aal", "cobra"):
        mine = [run.parameters for run in planned if run.parameters["dataset"] == name]
        for start in (0, 10):
            assert len({one["structure"] for one in mine[start : start + 10]}) == 10
            assert len({one["deformation"] for one in mine[start : start + 10]}) == 1
        assert mine[0]["deformation"] != mine[10]["deformation"]
    assert all(run.parameters["deformation"] != run.parameters["training"] for run in planned)
    assert {run.parameters["structure"] for run in planned if run.parameters["dataset"] == "tissue"} == {1, 2}


def test_labels_become_t1_like_grey_values() -> None:
    """White matter is brightest, fluid is darker than cortex, outside is darkest."""
    white, deep, cortex, fluid, outside = brains.t1_like(np.array([2, 10, 3, 4, 0])).tolist()
    assert white > deep > cortex > fluid > outside
