"""What must hold for any annotations: checked on random ones by Hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import warpgauge as wg
from models import EXTENT, SCALES, WEIGHTS, random_covariances
from warpgauge.core.process import Posterior

CASES = given(
    seed=st.integers(0, 10**6),
    d=st.sampled_from([2, 3]),
    family=st.sampled_from(["wendland", "gaussian", "inverse_quadratic"]),
    isotropic=st.booleans(),
    mean=st.sampled_from(["identity", "affine"]),
    count=st.integers(0, 8),
)


class Setting:
    def __init__(self, seed: int, d: int, family: str, isotropic: bool, mean: str, count: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.d, self.mean, self.family = d, mean, family
        self.fixed = self.rng.uniform(0, EXTENT, (count, d))
        self.moving = self.fixed + self.rng.normal(0, 4, (count, d))
        self.covariances = random_covariances(count, d, isotropic, self.rng)
        self.points = self.rng.uniform(0, EXTENT, (5, d))
        self.center = np.full(d, EXTENT / 2)

    def posterior(self, **changes: object) -> Posterior:
        unit = float(changes.get("unit", 1.0))  # type: ignore[arg-type]
        kernel = wg.KernelBundle(self.family, SCALES * unit, WEIGHTS * unit**2)
        prior = wg.TransformationPrior(
            kernel,
            mean=self.mean,  # type: ignore[arg-type]
            noise=0.1 * unit**2,
            center=changes.get("center", self.center),  # type: ignore[arg-type]
        )
        annotations = wg.Annotations(
            changes.get("fixed", self.fixed),  # type: ignore[arg-type]
            changes.get("moving", self.moving),  # type: ignore[arg-type]
            changes.get("covariances", self.covariances),  # type: ignore[arg-type]
        )
        return prior.condition(annotations)


@CASES
@settings(max_examples=60)
def test_an_annotation_never_adds_variance_in_any_direction(**case: object) -> None:
    setting = Setting(**case)  # type: ignore[arg-type]
    before = setting.posterior()
    more = wg.Annotations(
        setting.points[:1] + 1, setting.points[:1] + 2, random_covariances(1, setting.d, False, setting.rng)
    )
    drop = before.covariance(setting.points) - before.append(more).covariance(setting.points)
    assert np.linalg.eigvalsh(drop).min() > -1e-8


@CASES
@settings(max_examples=60)
def test_the_order_of_annotations_does_not_matter(**case: object) -> None:
    setting = Setting(**case)  # type: ignore[arg-type]
    order = setting.rng.permutation(len(setting.fixed))
    plain = setting.posterior()
    shuffled = setting.posterior(
        fixed=setting.fixed[order], moving=setting.moving[order], covariances=setting.covariances[order]
    )
    np.testing.assert_allclose(shuffled.mean(setting.points), plain.mean(setting.points), atol=1e-8)
    np.testing.assert_allclose(shuffled.covariance(setting.points), plain.covariance(setting.points), atol=1e-8)


@CASES
@settings(max_examples=60)
def test_turning_and_shifting_both_frames_turns_and_shifts_the_result(**case: object) -> None:
    setting = Setting(**case)  # type: ignore[arg-type]
    R = np.linalg.qr(setting.rng.normal(size=(setting.d, setting.d)))[0]
    shift = setting.rng.uniform(-50, 50, setting.d)

    def moved(points: np.ndarray) -> np.ndarray:
        return points @ R.T + shift

    plain = setting.posterior()
    turned = setting.posterior(
        fixed=moved(setting.fixed),
        moving=moved(setting.moving),
        covariances=R @ setting.covariances @ R.T,
        center=moved(setting.center[None])[0],
    )
    at = moved(setting.points)
    np.testing.assert_allclose(turned.mean(at), moved(plain.mean(setting.points)), atol=1e-7)
    np.testing.assert_allclose(turned.covariance(at), R @ plain.covariance(setting.points) @ R.T, atol=1e-7)
    np.testing.assert_allclose(turned.entropy(at), plain.entropy(setting.points), atol=1e-7)


@CASES
@settings(max_examples=60)
def test_a_change_of_unit_rescales_the_result(**case: object) -> None:
    """Micrometres for millimetres: lengths a thousandfold, entropies up by d log 1000, nothing else."""
    setting = Setting(**case)  # type: ignore[arg-type]
    unit = 1000.0
    plain = setting.posterior()
    scaled = setting.posterior(
        unit=unit,
        fixed=setting.fixed * unit,
        moving=setting.moving * unit,
        covariances=setting.covariances * unit**2,
        center=setting.center * unit,
    )
    at = setting.points * unit
    np.testing.assert_allclose(scaled.mean(at) / unit, plain.mean(setting.points), atol=1e-7)
    np.testing.assert_allclose(scaled.covariance(at) / unit**2, plain.covariance(setting.points), atol=1e-7)
    expected = plain.entropy(setting.points) + setting.d * np.log(unit)
    np.testing.assert_allclose(scaled.entropy(at), expected, atol=1e-7)
    mapped = setting.points + 1.0
    np.testing.assert_allclose(
        wg.error_score(scaled, at, mapped * unit), wg.error_score(plain, setting.points, mapped), atol=1e-7
    )
