"""The core on real landmarks: a fit with default settings converges."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import warpgauge as wg
from warpgauge.core.fit_reports import FitReport


def cima(data_dir: Path, fixed: str, moving: str) -> tuple[np.ndarray, np.ndarray]:
    folder = data_dir / "cima" / "lung-lesion_1"
    paths = [next(folder.glob(f"*-{stain}*.csv")) for stain in (fixed, moving)]
    landmarks = wg.read_landmarks(*paths)
    assert landmarks.moving_points is not None
    return landmarks.fixed_points, landmarks.moving_points


def check_fit(fixed: np.ndarray, moving: np.ndarray, smallest: float, levels: int, sd: float) -> wg.TransformationPrior:
    kernel = wg.KernelBundle.pyramid("wendland", smallest=smallest, levels=levels, weight=smallest**2)
    prior = wg.TransformationPrior(kernel)
    half = wg.Annotations.isotropic(fixed[::2], moving[::2], sd)
    fitted = wg.fit_kernel(prior, half)
    report = fitted.fit
    assert isinstance(report, FitReport)
    assert report.converged
    return fitted


def test_a_default_fit_converges_on_cima_and_predicts_the_other_half(data_dir: Path) -> None:
    """The paper's setting: nine scales from 10 px, weights by leave-one-out, a 1 px disc, half held out."""
    fixed, moving = cima(data_dir, "He", "Ki67")
    fitted = check_fit(fixed, moving, 10.0, 9, 1 / 3.03)
    posterior = fitted.condition(wg.Annotations.isotropic(fixed[::2], moving[::2], 1 / 3.03))
    initial = wg.displacement_norm(fixed[1::2] - moving[1::2], 2)
    error = wg.displacement_norm(posterior.mean(fixed[1::2]) - moving[1::2], 2)
    assert error < 0.35 * initial


def test_several_pairs_pool_into_one_prior(data_dir: Path) -> None:
    """Four stains against He, one prior with an affine trend and learned noise: it converges and is calibrated."""
    sets = []
    for stain in ("CD31", "Cc10", "Ki67", "proSPC"):
        fixed, moving = cima(data_dir, "He", stain)
        sets.append(wg.Annotations.isotropic(fixed, moving, 1 / 3.03))
    kernel = wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=9, weight=100.0)
    prior = wg.TransformationPrior(kernel, mean="affine", center=sets[0].fixed_points.mean(axis=0))
    fitted = wg.fit_kernel(prior, sets, noise=True)
    report = fitted.fit
    assert isinstance(report, FitReport)
    assert report.converged
    for one in sets:
        share = wg.calibration(fitted, one).coverage[2].share
        assert 0.88 <= share <= 1.0
