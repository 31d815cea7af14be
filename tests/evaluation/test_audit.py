"""What audits and gates prove on populations with a known truth: how often they err, and what they notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import oracle
from warpgauge.audit import contest_sizes, log_wealth, sequential_draw
from warpgauge.errors import InvalidInputError
from warpgauge.evaluation import AuditData
from warpgauge.evaluation.audit import audit_verdict
from warpgauge.evaluation.gate import gate_audit

Array = np.ndarray


def data_of(errors: Array, rows: Array, q: Array) -> AuditData:
    """The audit of transforms whose truth is the origin, (K, N, d), answered without error."""
    K, N, d = errors.shape
    n = len(rows)
    drawn = errors[:, rows]
    return AuditData(
        tuple("abcdefgh"[:K]), N, np.asarray(rows), np.asarray(q), np.zeros((n, d)), drawn, drawn,
        np.array([[np.linalg.norm(one - other, axis=1).sum() for other in errors] for one in errors]),
        np.zeros(n, dtype=bool), np.ones((K, n), dtype=bool), np.ones(n, dtype=bool), np.zeros(K),
    )  # fmt: skip


def audit(errors: Array, count: int, rng: np.random.Generator, even: bool = False) -> AuditData:
    """Draw and answer an audit."""
    N, d = errors.shape[1:]
    wide = np.broadcast_to(100.0 * np.eye(d), (N, d, d))
    sizes = np.ones(N) if even else contest_sizes(errors, np.zeros((N, d)), wide, 0.1)
    return data_of(errors, *sequential_draw(sizes, count, rng))


def beginning(data: AuditData, n: int) -> AuditData:
    """The audit after its first n questions."""
    return replace(
        data, rows=data.rows[:n], probabilities=data.probabilities[:n], matches=data.matches[:n],
        mapped=data.mapped[:, :n], asked=data.asked[:, :n], pending=data.pending[:n], bets=data.bets[:, :n],
        sealed=data.sealed[:n],
    )  # fmt: skip


def skipped(data: AuditData, which: Array) -> AuditData:
    """The audit with some of the questions unanswered."""
    return replace(data, matches=np.where(which[:, None], np.nan, data.matches))


def at_most(rate: float, runs: int) -> float:
    """Most errors among so many runs at this rate, up to a chance of 1 in 1000."""
    return float(stats.binom.ppf(0.999, runs, rate))


@pytest.mark.parametrize(("share", "length"), [(0.0, 0.0), (0.1, 0.0), (0.0, 0.2)])
def test_the_mean_wealth_of_a_claim_that_is_just_false_is_one(share: float, length: float) -> None:
    """Two transforms exactly at the margin, in every order of three draws of five places."""
    rng = np.random.default_rng(2)
    new, baseline = rng.normal(size=(2, 5, 2))
    target = (1 + share) * np.linalg.norm(baseline, axis=1).sum() + 5 * length
    new *= target / np.linalg.norm(new, axis=1).sum()
    errors, total = np.stack([new, baseline]), 0.0
    sizes = np.linalg.norm(new - baseline, axis=1)
    for rows, chances, weight in oracle.ordered_draws(sizes, 3):
        drawn = data_of(errors, np.array(rows), np.array(chances)).claim(0, 1, share=share, length=length)
        total += weight * np.exp(log_wealth(drawn)[-1])
    assert total == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("seed", [2, 3])
def test_a_verdict_is_what_slow_wealth_says(seed: int) -> None:
    """Of two transforms after 14 answers, at a level at which the slow wealth is just enough, and just not."""
    rng = np.random.default_rng(seed)
    errors = np.stack([1.0 * rng.normal(size=(150, 2)), 3.0 * rng.normal(size=(150, 2))])
    data = audit(errors, 14, rng)
    apart = [float(np.hypot(*(b - a))) for a, b in zip(*errors, strict=True)]
    values = [apart[row] + np.hypot(*errors[1, row]) - np.hypot(*errors[0, row]) for row in data.rows]
    drawn = oracle.draw_tickets(values, data.probabilities, sum(apart))
    enough = max(oracle.mixture_wealth(drawn[: n + 1]) for n in range(14))
    assert enough > 2
    # Two transforms: half of the error rate for each of them.
    assert audit_verdict(data, level=1 - 2 / enough * (1 + 1e-9)).best == "a"
    assert audit_verdict(data, level=1 - 2 / enough * (1 - 1e-9)).best is None


def rare_failures(rng: np.random.Generator) -> tuple[Array, Array]:
    """The first is 10 % better nearly everywhere and fails in 3 % of the places."""
    first, second = 1.35 * rng.normal(size=(400, 2)), 1.5 * rng.normal(size=(400, 2))
    first[:12] += [9.0, 0.0]
    return first, second


def heavy_tails(rng: np.random.Generator) -> tuple[Array, Array]:
    first, second = rng.standard_t(2.5, size=(2, 400, 2))
    return first, second


def two_points(rng: np.random.Generator) -> tuple[Array, Array]:
    first, second = np.tile([1.0, 0.0], (400, 1)), np.tile([0.0, 1.2], (400, 1))
    first[:20] = [7.0, 0.0]
    return first, second


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("maker", [rare_failures, heavy_tails, two_points])
def test_wrong_proofs_stay_below_their_rate_at_every_look(
    maker: Callable[..., tuple[Array, Array]], even: bool
) -> None:
    """The second transform is scaled until both have the same mean error: any winner after 80 answers is wrong."""
    rng = np.random.default_rng([6, even])
    wrong, runs = 0, 150
    for _ in range(runs):
        first, second = maker(rng)
        second = second * (np.linalg.norm(first, axis=1).sum() / np.linalg.norm(second, axis=1).sum())
        wrong += audit_verdict(audit(np.stack([first, second]), 80, rng, even)).best is not None
    assert wrong <= at_most(0.05, runs)


def test_the_best_of_four_is_found_and_the_sizes_are_estimated() -> None:
    rng = np.random.default_rng(12)
    errors = np.stack([scale * rng.normal(size=(600, 2)) for scale in (3.0, 1.0, 4.0, 1.1)])
    data = audit(errors, 80, rng)
    few, many = audit_verdict(beginning(data, 12)), audit_verdict(audit(errors, 600, rng))
    assert few.best is None
    assert set(few.possible) >= {"b", "d"}
    assert set(few.excluded) <= {"a", "c"}
    found = audit_verdict(data)
    assert (found.possible, found.excluded) == (("b", "d"), ("a", "c"))
    assert found.sentence.startswith("a and c are not the best; b or d is (80 random answers, wrong in at most 5 %")
    assert [(pair.first, pair.second) for pair in found.open] == [("b", "d")]
    assert many.best == "b"
    assert many.sentence.startswith("b is the best of b, d, a and c (")
    means = np.linalg.norm(errors, axis=2).mean(axis=1)
    for name, value in found.mean_errors.items():
        assert value == pytest.approx(means["abcd".index(name)], rel=0.25)
    for name, value in many.mean_errors.items():
        assert value == pytest.approx(means["abcd".index(name)], rel=1e-9)


def test_what_is_proven_stays_proven() -> None:
    """Stopping when it suits brings nothing: the rate counts all looks."""
    rng = np.random.default_rng(11)
    data = audit(np.stack([2 * rng.normal(size=(300, 2)), 2.4 * rng.normal(size=(300, 2))]), 120, rng)
    named = [audit_verdict(beginning(data, n)).best for n in range(5, 121, 5)]
    first = next(at for at, name in enumerate(named) if name is not None)
    assert set(named[first:]) == {named[first]}


def test_skips_count_as_no_difference_and_their_worst_case_is_told() -> None:
    rng = np.random.default_rng(7)
    data = audit(np.stack([1.5 * rng.normal(size=(500, 2)), 3 * rng.normal(size=(500, 2))]), 40, rng)
    assert audit_verdict(data).best == "a"
    some = audit_verdict(skipped(data, data.errors[0] > data.errors[1]))
    assert some.best == "a"
    assert f"{some.reached - some.answered} of 40 questions" in some.lines["SKIPPED"]
    many = audit_verdict(skipped(data, np.arange(40) % 4 > 0))
    assert many.best is None or not many.with_skips
    assert "30 of 40 questions" in many.lines["SKIPPED"]


def test_a_question_passed_over_counts_against_every_claim() -> None:
    """Leaving a hard question open while later ones are answered gains nothing."""
    rng = np.random.default_rng(8)
    data = audit(np.stack([1.5 * rng.normal(size=(500, 2)), 2.2 * rng.normal(size=(500, 2))]), 60, rng)
    pending = np.arange(60) % 3 == 0
    assert audit_verdict(data).best == "a"
    assert audit_verdict(replace(skipped(data, pending), pending=pending)).best is None


def test_answers_that_could_be_known_prove_nothing() -> None:
    """A transform added after 40 open answers, and bent to them: no answer counts for it."""
    rng = np.random.default_rng(9)
    data = audit(np.stack([3 * rng.normal(size=(500, 2)), 2 * rng.normal(size=(500, 2))]), 40, rng)
    bent = data.mapped.copy()
    bent[0] = 0.01
    cheat = replace(data, mapped=bent)
    assert audit_verdict(cheat).best == "a"  # what the check of the time of adding is there for
    found = audit_verdict(replace(cheat, bets=np.stack([np.zeros(40, dtype=bool), np.ones(40, dtype=bool)])))
    assert found.best is None
    assert found.lines["MIND"].startswith("40 answers could be known when a transform was added")


def test_choosing_among_many_transforms_costs_answers() -> None:
    """Two of K certified alone need the evidence of all K."""
    rng = np.random.default_rng(10)
    data = audit(np.stack([1.5 * rng.normal(size=(500, 2)), 2.6 * rng.normal(size=(500, 2))]), 60, rng)

    def needed(family: int) -> int:
        return next(n for n in range(1, 61) if audit_verdict(beginning(data, n), family=family).best is not None)

    assert needed(2) < needed(40)


def test_damaged_data_and_levels_are_refused() -> None:
    rng = np.random.default_rng(13)
    data = audit(rng.normal(size=(2, 50, 2)), 5, rng)
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        audit_verdict(data, level=1.0)
    with pytest.raises(InvalidInputError, match="at most once"):
        replace(data, rows=np.zeros(5, dtype=np.int64))
    with pytest.raises(InvalidInputError, match="above 0"):
        replace(data, probabilities=np.zeros(5))
    with pytest.raises(InvalidInputError, match="do not fit together: matches"):
        replace(data, matches=data.matches[:4])


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize(("share", "size"), [(0.03, 10.0), (0.01, 22.0)])
def test_a_gate_does_not_pass_a_build_with_local_failures(even: bool, share: float, size: float) -> None:
    """A build that is as much worse as the margin, through failures in few places."""
    rng, passed, runs = np.random.default_rng([2, even, round(size)]), 0, 60
    for _ in range(runs):
        baseline = 1.5 * rng.normal(size=(600, 2))
        new = 0.97 * baseline + 0.1 * rng.normal(size=(600, 2))
        new[: round(share * 600)] += [size, 0.0]
        worse = np.linalg.norm(new, axis=1).sum() / np.linalg.norm(baseline, axis=1).sum() - 1
        assert worse > 0.05
        data = audit(np.stack([new, baseline]), 60, rng, even)
        passed += gate_audit(data, f"{100 * worse} %").code == 0
    assert passed <= at_most(0.05, runs)


def test_a_better_build_passes_a_copy_passes_at_once_and_a_worse_one_fails() -> None:
    rng = np.random.default_rng(3)
    baseline = 1.5 * rng.normal(size=(600, 2))
    found = gate_audit(audit(np.stack([0.85 * baseline, baseline]), 20, rng), "10%")
    assert (found.code, found.status) == (0, "not worse")
    assert "passes in at most 5 % of audits" in found.sentence
    assert gate_audit(audit(np.stack([baseline, baseline]), 5, rng), 0.0).code == 0
    worse = gate_audit(audit(np.stack([2.5 * baseline, baseline]), 40, rng), "10%")
    assert worse.code == 1
    near = baseline + 0.2 * rng.normal(size=(600, 2))
    near *= np.linalg.norm(baseline, axis=1).sum() / np.linalg.norm(near, axis=1).sum()
    data = audit(np.stack([near, baseline]), 40, rng)
    assert [gate_audit(data, margin).code for margin in ("20%", "0.3px", 0.0)] == [0, 0, 2]
    other = 0.9 * baseline + 0.2 * rng.normal(size=(600, 2))
    few = gate_audit(audit(np.stack([other, baseline]), 3, rng), "8%")
    assert few.code == 2
    assert "like these would let it pass" in few.sentence


def test_a_build_that_is_as_good_is_not_failed() -> None:
    """At any of 50 looks, whatever the margin."""
    rng, failed, runs = np.random.default_rng(15), 0, 30
    for _ in range(runs):
        baseline = 1.5 * rng.normal(size=(400, 2))
        new = baseline + 0.4 * rng.normal(size=(400, 2))
        new *= np.linalg.norm(baseline, axis=1).sum() / np.linalg.norm(new, axis=1).sum()
        data = audit(np.stack([new, baseline]), 50, rng)
        failed += any(gate_audit(beginning(data, n), "15%").code == 1 for n in range(1, 51))
    assert failed <= at_most(0.05, runs)


@pytest.mark.parametrize("shift", [0.1, 0.2, 0.3, 0.7])
def test_a_build_as_far_from_the_baseline_as_the_margin_passes_whatever_the_rounding(shift: float) -> None:
    """Mean errors differ by no more than the transforms do."""
    rng = np.random.default_rng(4)
    baseline = 1.5 * rng.normal(size=(600, 2))
    data = audit(np.stack([baseline + np.array([shift, 0.0]), baseline]), 2, rng)
    assert gate_audit(data, f"{shift}px").code == 0
