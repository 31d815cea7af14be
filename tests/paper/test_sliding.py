"""The study of sliding: its sums, and one small simulated run on labels of its own."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest

from paper import sliding
from paper.experiment import Run


def row(error: float, held: float, points: int) -> dict[str, float]:
    return {"error": error, "held": held, "points": points}


def test_ratios_are_of_mean_errors_over_all_points() -> None:
    """Runs count by their points; a place that a run lacks is left out of it."""
    runs = [
        {"40": {"stationary": {"own": 0.0, "near": without}, "regions": {"own": own, "near": with_}}}
        for own, without, with_ in (
            (0.5, row(2.0, 0.8, 10), row(1.0, 0.9, 10)),
            (0.7, row(4.0, 0.6, 30), row(3.0, 1.0, 30)),
        )
    ]
    plan = [Run(f"r{at}", {"dataset": "lungs 2D", "kind": "torn", "seed": at}) for at in range(2)]
    found = sliding.report(list(zip(plan, runs, strict=True))).numbers["torn lungs 2D 40"]
    assert found["near"]["ratio"] == pytest.approx((10 * 1 + 30 * 3) / (10 * 2 + 30 * 4))
    assert found["near"]["held"] == pytest.approx(0.975)
    assert found["near"]["held without"] == pytest.approx(0.65)
    assert found["own"] == pytest.approx(0.6)
    assert "far" not in found


def test_ranks_are_summed_over_runs_for_both_models() -> None:
    def judged(right: bool, tau: float, off: float, held: float) -> dict[str, float]:
        return {"right": right, "tau": tau, "off": off, "held": held}

    runs = [
        {"20": {"stationary": judged(False, 0.0, 0.4, 0.5), "regions": judged(True, 1.0, 0.2, 1.0)}},
        {"20": {"stationary": judged(True, 0.5, 0.2, 1.0), "regions": judged(True, 0.5, 0.0, 0.5)}},
    ]
    plan = [Run(f"r{at}", {"dataset": sliding.RANKED, "kind": "torn ranks", "seed": at}) for at in range(2)]
    (found,) = sliding.report(list(zip(plan, runs, strict=True))).numbers.values()
    assert found == {
        "runs": 2,
        "stationary": pytest.approx(judged(0.5, 0.25, 0.3, 0.75)),
        "regions": pytest.approx(judged(1.0, 0.75, 0.1, 0.75)),
    }


def test_a_torn_image_is_better_known_with_its_regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a mask of a test's own: the same annotations, smaller errors near the boundary."""
    labels = np.zeros((160, 160, 3), dtype=np.uint8)
    labels[80:] = 1
    folder = tmp_path / "copdgene"
    folder.mkdir()
    nibabel.save(nibabel.Nifti1Image(labels, np.eye(4)), folder / "copd1_iBHCT_mask.nii.gz")
    monkeypatch.setattr(sliding, "COUNTS", (30,))
    monkeypatch.setattr(sliding, "_POINTS", 400)
    plan = [Run(f"r{seed}", {"dataset": "lungs 2D", "kind": "torn", "seed": seed}) for seed in range(4)]
    found = sliding.report([(run, sliding.compute(tmp_path, run)) for run in plan]).numbers["torn lungs 2D 30"]
    assert found["near"]["ratio"] < 0.85
    assert found["own"] > 0.3
