from __future__ import annotations

import numpy as np
import pytest

from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import metrics


def test_tre_by_hand() -> None:
    found = metrics.target_registration_errors([[3.0, 4.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 3.0]])
    assert found.tolist() == [5.0, 2.0]


def test_anhir_by_hand() -> None:
    """A 300 x 400 image has the diagonal 500; errors 5, 10, 30 become 0.01, 0.02, 0.06; two of three improved."""
    one = metrics.anhir_case([5.0, 10.0, 30.0], 500.0, initial=[6.0, 20.0, 30.0])
    assert (one.average, one.median, one.maximum) == pytest.approx((0.03, 0.02, 0.06))
    assert one.robustness == pytest.approx(2 / 3)  # an unchanged landmark has not improved
    two = metrics.anhir_case([50.0], 500.0, initial=[60.0])
    three = metrics.anhir_case([100.0, 200.0], 500.0, initial=[60.0, 70.0])
    both = metrics.anhir([one, two, three])
    assert pytest.approx((0.03 + 0.1 + 0.3) / 3) == both.AArTRE
    assert pytest.approx(0.1) == both.MArTRE
    assert pytest.approx((0.02 + 0.1 + 0.3) / 3) == both.AMrTRE
    assert pytest.approx(0.1) == both.MMrTRE
    assert pytest.approx((0.06 + 0.1 + 0.4) / 3) == both.AMxrTRE
    assert pytest.approx(0.1) == both.MMxrTRE
    assert both.robustness == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert both.cases == 3


def test_anhir_without_initial_errors_has_no_robustness() -> None:
    assert metrics.anhir([metrics.anhir_case([1.0], 10.0)]).robustness is None


def test_acrobat_by_hand() -> None:
    """Eleven errors 0 to 10 have the 90th percentile 9; the median of 9, 1, 4 is 4 and their mean 14/3."""
    assert metrics.acrobat_case(np.arange(11.0)) == pytest.approx(9)
    assert metrics.acrobat([9.0, 1.0, 4.0]) == 4
    assert metrics.acrobat([9.0, 1.0, 4.0], year=2023) == pytest.approx(14 / 3)


def test_learn2reg_by_hand() -> None:
    """The 0.3 quantile of 0 to 10 is 3; the hardest third of ten cases by their initial error are three."""
    assert metrics.learn2reg_tre30(np.arange(11.0)[::-1]) == pytest.approx(3)
    after = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    before = np.array([9.0, 9.5, 1, 1, 1, 1, 1, 1, 1, 8.0])
    assert metrics.learn2reg_robust(after, before) == pytest.approx((2 + 1 + 10) / 3)


def test_tg132_by_hand() -> None:
    """Twenty errors of 1 mm pass on 1 x 1 x 3 mm voxels; one of 4 mm keeps 95 %, but exceeds the largest voxel."""
    errors = np.zeros((20, 3))
    errors[:, 0] = 1.0
    assert metrics.tg132(errors, [1, 1, 3], folding=0.0).passed
    errors[0, 0] = 4.0
    found = metrics.tg132(errors, [1, 1, 3], folding=0.0)
    values = {one.name: one for one in found.criteria}
    assert values["mean TRE (mm)"].value == pytest.approx(23 / 20)
    assert values["share within 2 mm"].value == pytest.approx(0.95)
    assert values["share within 2 mm"].passed
    assert values["maximal TRE (mm)"].passed
    assert not values["largest error along an axis, in its largest voxel dimension"].passed
    assert not found.passed
    assert not metrics.tg132(errors[1:], [1, 1, 3], folding=0.01).passed


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="two"):
        metrics.target_registration_errors([[1.0, 2.0]], [[1.0, 2.0, 3.0]])
    with pytest.raises(InvalidInputError, match="finite lengths"):
        metrics.acrobat_case([1.0, np.nan])
    with pytest.raises(InvalidInputError, match="diagonal"):
        metrics.anhir_case([1.0], 0.0)
    with pytest.raises(InvalidInputError, match="2 errors but 1 initial"):
        metrics.anhir_case([1.0, 2.0], 5.0, [1.0])
    with pytest.raises(InvalidInputError, match="at least one pair"):
        metrics.anhir([])
    with pytest.raises(InvalidInputError, match="2022 and 2023"):
        metrics.acrobat([1.0], year=2024)
    with pytest.raises(InvalidInputError, match="as many initial means"):
        metrics.learn2reg_robust([1.0], [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="voxel dimensions"):
        metrics.tg132([[1.0, 2.0]], [1.0])
