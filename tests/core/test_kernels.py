from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import integrate

import oracle
import warpgauge as wg
from warpgauge.core.kernels import RADIAL, TrendKernel
from warpgauge.errors import InvalidInputError

FAMILIES = ("wendland", "gaussian", "inverse_quadratic")


@pytest.mark.parametrize("family", FAMILIES)
def test_radial_functions_have_the_integral_of_the_wendland_function(family: str) -> None:
    """Eq. (kernel_integral_normalisation): all integrate to 1/3 and start at 1."""
    radial = RADIAL[family]
    integral, _ = integrate.quad(lambda r: float(radial(np.array(r))), 0, np.inf, limit=500)
    assert integral == pytest.approx(1 / 3, abs=1e-7)
    assert radial(np.array(0.0)) == 1.0


@pytest.mark.parametrize("family", FAMILIES)
def test_bundle_equals_the_sum_over_its_scales(family: str) -> None:
    """The compiled value, one polynomial whatever the number of scales, equals the plain sum."""
    scales, weights = 10 * 2.0 ** np.arange(9), np.linspace(1, 5, 9) * 1e4
    distances = np.concatenate(
        [np.linspace(0, 4000, 20001), scales, np.nextafter(scales, 0), np.nextafter(scales, 1e9)]
    )
    expected = sum(w * oracle.radial(family, distances / s) for s, w in zip(scales, weights, strict=True))
    got = wg.KernelBundle(family, scales, weights)(distances)
    assert np.abs(got - expected).max() <= 1e-15 * weights.sum() * 10


def test_bundle_does_not_depend_on_the_order_of_scales() -> None:
    r = np.linspace(0, 100, 501)
    up = wg.KernelBundle("wendland", [5, 20, 80], [1.0, 2.0, 3.0])
    down = wg.KernelBundle("wendland", [80, 5, 20], [3.0, 1.0, 2.0])
    np.testing.assert_array_equal(up(r), down(r))


def test_wendland_is_zero_beyond_its_largest_scale() -> None:
    kernel = wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=3, weight=7.0)
    assert np.abs(kernel(np.array([40.0, 40.001, 1e6]))).max() <= 1e-14 * kernel.at_zero
    assert kernel(np.array([39.9]))[0] > 0


def test_pyramid_doubles_its_scales() -> None:
    kernel = wg.KernelBundle.pyramid("wendland", smallest=10.0, levels=9, weight=1e4)
    assert kernel.scales.tolist() == [10, 20, 40, 80, 160, 320, 640, 1280, 2560]
    assert kernel.at_zero == 9e4


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_matrix_with_a_trend_equals_the_oracle(family: str, d: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 100, (300, d)), rng.uniform(0, 100, (140, d))
    bundle = wg.KernelBundle(family, [10.0, 50.0], [2.0, 3.0])
    center = np.full(d, 40.0)
    got = TrendKernel(bundle, 7.0, 0.5, center).matrix(a, b)
    for i, j in [(0, 0), (299, 139), (17, 80), (150, 3)]:
        expected = oracle.kernel(family, bundle.scales, bundle.weights, a[i], b[j], trend=(7.0, 0.5, center))
        assert got[i, j] == pytest.approx(expected[0, 0], rel=1e-13)
    plain = bundle.matrix(a, b)
    distances = np.linalg.norm(a[:, None] - b[None], axis=2)
    expected = sum(w * oracle.radial(family, distances / s) for s, w in zip(bundle.scales, bundle.weights, strict=True))
    np.testing.assert_allclose(plain, expected, rtol=0, atol=1e-13)


@given(
    points=arrays(np.float64, (12, 3), elements=st.floats(-100, 100)),
    family=st.sampled_from(FAMILIES),
)
def test_kernel_matrices_are_positive_semi_definite(points: np.ndarray, family: str) -> None:
    """In 3D, whatever the points, coinciding ones included."""
    matrix = wg.KernelBundle(family, [10.0, 40.0], [1.0, 2.0]).matrix(points, points)
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-12


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("cubic", [1.0], [1.0]), "cubic"),
        (("wendland", [1.0, 2.0], [1.0]), "2 scales and 1 weights"),
        (("wendland", [1.0, -2.0], [1.0, 1.0]), "scales"),
        (("wendland", [1.0], [0.0]), "weights"),
        (("wendland", [], []), "scales"),
        (("wendland", [np.inf], [1.0]), "scales"),
    ],
)
def test_bad_bundles_are_refused_with_a_sentence(arguments: tuple[object, ...], word: str) -> None:
    with pytest.raises(InvalidInputError, match=word):
        wg.KernelBundle(*arguments)  # type: ignore[arg-type]
