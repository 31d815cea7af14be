from __future__ import annotations

import numpy as np
import pytest

from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.evaluation import challenge_metrics


def test_tre_by_hand() -> None:
    found = challenge_metrics.target_registration_errors([[3.0, 4.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 3.0]])
    assert found.tolist() == [5.0, 2.0]


def test_anhir_by_hand() -> None:
    """A 300 x 400 image has the diagonal 500; errors 5, 10, 30 become 0.01, 0.02, 0.06; two of three improved."""
    one = challenge_metrics.anhir_case([5.0, 10.0, 30.0], 500.0, initial=[6.0, 20.0, 30.0])
    assert (one.average, one.median, one.maximum) == pytest.approx((0.03, 0.02, 0.06))
    assert one.robustness == pytest.approx(2 / 3)  # an unchanged landmark has not improved
    two = challenge_metrics.anhir_case([50.0], 500.0, initial=[60.0])
    three = challenge_metrics.anhir_case([100.0, 200.0], 500.0, initial=[60.0, 70.0])
    both = challenge_metrics.anhir([one, two, three])
    assert pytest.approx((0.03 + 0.1 + 0.3) / 3) == both.AArTRE
    assert pytest.approx(0.1) == both.MArTRE
    assert pytest.approx((0.02 + 0.1 + 0.3) / 3) == both.AMrTRE
    assert pytest.approx(0.1) == both.MMrTRE
    assert pytest.approx((0.06 + 0.1 + 0.4) / 3) == both.AMxrTRE
    assert pytest.approx(0.1) == both.MMxrTRE
    assert both.robustness == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert both.cases == 3


def test_anhir_without_initial_errors_has_no_robustness() -> None:
    assert challenge_metrics.anhir([challenge_metrics.anhir_case([1.0], 10.0)]).robustness is None


def test_acrobat_by_hand() -> None:
    """Eleven errors 0 to 10 have the 90th percentile 9; the median of 9, 1, 4 is 4 and their mean 14/3."""
    assert challenge_metrics.acrobat_case(np.arange(11.0)) == pytest.approx(9)
    assert challenge_metrics.acrobat([9.0, 1.0, 4.0]) == 4
    assert challenge_metrics.acrobat([9.0, 1.0, 4.0], year=2023) == pytest.approx(14 / 3)


def test_learn2reg_by_hand() -> None:
    """The 0.3 quantile of 0 to 10 is 3."""
    assert challenge_metrics.learn2reg_tre(np.arange(11.0)[::-1], 2023) == pytest.approx(3)
    assert challenge_metrics.learn2reg_tre(np.arange(11.0)[::-1], 2024) == pytest.approx(7)
    assert challenge_metrics.learn2reg_tre(np.arange(11.0)[::-1]) == pytest.approx(7)
    with pytest.raises(InvalidInputError, match="since 2020"):
        challenge_metrics.learn2reg_tre([1.0], 2019)


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="two"):
        challenge_metrics.target_registration_errors([[1.0, 2.0]], [[1.0, 2.0, 3.0]])
    with pytest.raises(InvalidInputError, match="finite lengths"):
        challenge_metrics.acrobat_case([1.0, np.nan])
    with pytest.raises(InvalidInputError, match="diagonal"):
        challenge_metrics.anhir_case([1.0], 0.0)
    with pytest.raises(InvalidInputError, match="2 errors but 1 initial"):
        challenge_metrics.anhir_case([1.0, 2.0], 5.0, [1.0])
    with pytest.raises(InvalidInputError, match="at least one pair"):
        challenge_metrics.anhir([])
    with pytest.raises(InvalidInputError, match="2022 and 2023"):
        challenge_metrics.acrobat([1.0], year=2024)


def test_learn2reg_regularity_by_hand() -> None:
    """Determinants 1, 1 and e^2 - 3: log(det + 3) is log 4 twice and 2 once; with NaN there is no spread."""
    found = challenge_metrics.learn2reg_regularity([1.0, 1.0, np.e**2 - 3])
    assert found.sd_log_jacobian == pytest.approx(np.std([np.log(4), np.log(4), 2.0]))
    assert (found.foldings, found.folded) == (0, 0)
    assert np.isnan(challenge_metrics.learn2reg_regularity([1.0, 1.0, np.nan]).sd_log_jacobian)


def test_learn2reg_regularity_warns_of_folding() -> None:
    with pytest.warns(SuspiciousDataWarning, match="2 of 4 Jacobian determinants"):
        found = challenge_metrics.learn2reg_regularity([1.0, 2.0, 0.0, -50.0])
    assert found.foldings == 0
    assert found.sd_log_jacobian == pytest.approx(np.std(np.log([4.0, 5.0, 3.0, 1e-9])))
    with pytest.raises(InvalidInputError, match="at least one finite"):
        challenge_metrics.learn2reg_regularity([np.nan])
