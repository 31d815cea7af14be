from __future__ import annotations

import numpy as np
import pytest

from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.evaluation import challenge_metrics
from warpgauge.geometry import Grid


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
    """The 0.3 quantile of 0 to 10 is 3; the hardest third of ten cases by their initial error are three."""
    assert challenge_metrics.learn2reg_tre(np.arange(11.0)[::-1], 2023) == pytest.approx(3)
    assert challenge_metrics.learn2reg_tre(np.arange(11.0)[::-1], 2024) == pytest.approx(7)
    assert challenge_metrics.learn2reg_tre(np.arange(11.0)[::-1]) == pytest.approx(7)
    with pytest.raises(InvalidInputError, match="since 2020"):
        challenge_metrics.learn2reg_tre([1.0], 2019)
    after = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    before = np.array([9.0, 9.5, 1, 1, 1, 1, 1, 1, 1, 8.0])
    assert challenge_metrics.learn2reg_robust(after, before) == pytest.approx((2 + 1 + 10) / 3)


def test_tg132_by_hand() -> None:
    """Twenty errors of 1 mm pass on 1 x 1 x 3 mm voxels; one of 4 mm keeps 95 %, but exceeds the largest voxel."""
    errors = np.zeros((20, 3))
    errors[:, 0] = 1.0
    assert challenge_metrics.tg132(errors, [1, 1, 3], folding=0.0).passed
    errors[0, 0] = 4.0
    found = challenge_metrics.tg132(errors, [1, 1, 3], folding=0.0)
    values = {one.name: one for one in found.criteria}
    assert values["mean TRE (mm)"].value == pytest.approx(23 / 20)
    assert values["share within 2 mm"].value == pytest.approx(0.95)
    assert values["share within 2 mm"].passed
    assert values["maximal TRE (mm)"].passed
    assert not values["largest error along an axis, in its largest voxel dimension"].passed
    assert not found.passed
    assert not challenge_metrics.tg132(errors[1:], [1, 1, 3], folding=0.01).passed


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
    with pytest.raises(InvalidInputError, match="as many initial means"):
        challenge_metrics.learn2reg_robust([1.0], [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="voxel dimensions"):
        challenge_metrics.tg132([[1.0, 2.0]], [1.0])


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


def test_dirlab_errors_snap_to_voxels() -> None:
    """Voxels of 1 x 1 x 2.5 mm from (10, 20, 30): (12.4, 20.6, 31.0) goes to (12, 21, 30), 1.0 from (12, 20, 30)."""
    grid = Grid((5, 5, 5), [1.0, 1.0, 2.5], origin=[10.0, 20.0, 30.0], units="mm")
    moving = np.array([[12.0, 20.0, 30.0], [12.0, 20.0, 32.5]])
    mapped = np.array([[12.4, 20.6, 31.0], [12.2, 20.2, 32.0]])
    assert challenge_metrics.dirlab_errors(mapped, moving, grid) == pytest.approx([1.0, 0.0])
    assert challenge_metrics.target_registration_errors(mapped, moving)[1] == pytest.approx(np.sqrt(0.04 + 0.04 + 0.25))


def test_learn2regs_rank_scores_are_shares_of_wins_by_significance() -> None:
    """Two that cannot be distinguished share a score; one far better wins against both, one far worse against none.

    Wins 3, 1, 1, 0 of four: ranks 4, 2.5, 2.5, 1, in equal steps from 0.1 to 1.
    """
    base = np.arange(10.0)
    found = challenge_metrics.learn2reg_rank_scores([base + 100, base + 200, base + 200.5, base + 300])
    assert found == pytest.approx([1.0, 0.1 + 0.9 * 0.5, 0.1 + 0.9 * 0.5, 0.1])
    few = challenge_metrics.learn2reg_rank_scores([[1.0, 2.0], [10.0, 20.0]])
    assert few == pytest.approx([0.55, 0.55])  # two cases can show nothing
    with pytest.raises(InvalidInputError, match="at least two methods"):
        challenge_metrics.learn2reg_rank_scores([[1.0, 2.0]])


def test_rank_scores_are_those_of_the_challenges_own_steps() -> None:
    """Against its steps, done slowly: a table of who is beaten by whom, and the mean place of equal numbers of wins."""
    from scipy import stats

    rng = np.random.default_rng(3)
    values = rng.normal(0, 1, (7, 12)) + np.array([0, 0.3, 0.6, 1.5, 1.5, 3, 3])[:, None]
    tests = {(i, j): stats.ranksums(values[i], values[j]) for i in range(7) for j in range(7)}
    wins = [sum(tests[i, j].statistic > 0 and tests[i, j].pvalue < 0.05 for i in range(7)) for j in range(7)]
    places = sorted(range(7), key=lambda one: wins[one])
    steps = np.linspace(0.1, 1, 7)
    expected = [np.mean([steps[places.index(j)] for j in range(7) if wins[j] == wins[i]]) for i in range(7)]
    assert challenge_metrics.learn2reg_rank_scores(values) == pytest.approx(expected)
