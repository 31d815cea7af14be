"""Every sentence about a verdict, with 1, 2, 5 and 15 methods: two at most, and they say what the numbers say."""

from __future__ import annotations

import json
import pickle
import re
from copy import deepcopy
from dataclasses import replace

import pytest

from warpgauge.core.annotation_budget import FurtherAnnotations
from warpgauge.core.calibration import Coverage
from warpgauge.display import joined, length, probability
from warpgauge.evaluation import Interval, Outcome, TransformScores, Verdict
from warpgauge.evaluation.columns import Row
from warpgauge.evaluation.sentences import calibration, without


def row(name: str, score: float, low: float, high: float, best: float) -> Row:
    """A transform with such an RMS error, and nothing else."""
    numbers = TransformScores(name, {}, {}, {}, 0.0, 0.0, {}, {}, {}, 0.0, {"rms": Interval(score, score, low, high)})
    return Row(numbers, best=best)


BEFORE = row("identity", 20.0, 15.0, 26.0, 0.0)


def verdict(
    order: list[Row],
    groups: list[list[str]],
    annotations: int,
    further: FurtherAnnotations | None = None,
    units: str | None = None,
    baseline: str | None = None,
    *,
    margin: float = 0.0,
) -> Verdict:
    """The verdict of such rows; with a margin, the annotations separate the first of them from the others."""
    return Verdict.of(
        order, groups, separated=margin > 0 or len(groups[0]) == 1, baseline=baseline, further=further, units=units,
        margin=margin, counts={"annotations": annotations, "targets": 9, "excluded_targets": 0, "samples": 100},
    )  # fmt: skip


def standings(count: int, best: list[float]) -> list[Row]:
    """m1 to mN with errors 1, 2, ..., N, intervals of half to twice that."""
    return [row(f"m{k}", float(k), 0.5 * k, 2.0 * k, best[k - 1]) for k in range(1, count + 1)]


def decided(count: int) -> Verdict:
    order = [*standings(count, [0.97, *[0.0] * (count - 1)]), BEFORE]
    return verdict(order, [[one.name] for one in order], 25, None, "px", "identity")


def tied(
    count: int, group: int, best: list[float], further: FurtherAnnotations | None = None, margin: float = 0.0
) -> Verdict:
    order = [*standings(count, best), BEFORE]
    names = [one.name for one in order]
    groups = [names[:group], *[[name] for name in names[group:]]]
    return verdict(order, groups, 25, further, "px", "identity", margin=margin)


def more(best: int | None) -> FurtherAnnotations:
    return FurtherAnnotations(best, 0.95, 200)


def test_one_method_is_told_against_doing_nothing() -> None:
    assert decided(1) == (
        "m1 has a root mean square error of about 1 px (90 % interval 0.5 to 2 px), against 20 px before registration. "
        "It is better than doing nothing with probability 0.97."
    )
    alone = verdict(standings(1, [1.0]), [["m1"]], 1)
    assert alone.endswith("(90 % interval 0.5 to 2). There is no other method to compare it with.")


def test_two_methods() -> None:
    assert decided(2) == (
        "m1 is the best of 2 methods with probability 0.97: its root mean square error is about 1 px (90 % interval "
        "0.5 to 2 px), against 20 px before registration. Next is m2 with about 2 px (90 % interval 1 to 4 px)."
    )
    assert tied(2, 2, [0.6, 0.4], more(30)) == (
        "Either of the 2 methods could be the best: 25 annotations do not separate them, and about 30 more would "
        "probably decide. m1 is the most likely (probability 0.60), with a root mean square error of about 1 px (90 % "
        "interval 0.5 to 2 px), against 20 px before registration; next is m2 (about 2 px, probability 0.40)."
    )


def test_five_methods_name_those_that_matter() -> None:
    """Of four that are tied, the one with 0.01 is not named; the others are, the likeliest first."""
    found = tied(5, 4, [0.3, 0.5, 0.19, 0.01, 0.0], more(None))
    assert found.startswith(
        "4 of the 5 methods could each be the best: 25 annotations do not separate them, and more than 200 more would "
        "be needed to decide. m2 is the most likely (probability 0.50), "
    )
    assert re.findall(r"m\d", found) == ["m2", "m1", "m3"]
    everyone = tied(3, 3, [0.4, 0.3, 0.3])
    assert everyone.startswith("Any of the 3 methods could be the best: 25 annotations do not separate them. ")


@pytest.mark.parametrize("count", [1, 2, 5, 15])
def test_never_more_than_two_sentences_and_three_methods(count: int) -> None:
    cases = [decided(count)]
    if count > 1:
        cases += [tied(count, group, [1 / count] * count, more(7)) for group in range(2, count + 1)]
    for found in cases:
        assert len(re.findall(r"\.( |$)", found)) == 2
        assert len(set(re.findall(r"m\d+", found))) <= 3
        assert "20 px" in found
        assert "m1" in found
        assert len(found) < 420


def test_fifteen_methods_behind_the_best_are_counted() -> None:
    order = [*standings(15, [1.0, *[0.0] * 14]), BEFORE]
    names = [one.name for one in order]
    found = verdict(order, [names[:1], names[1:15], names[15:]], 8, None, "mm", "identity")
    assert found.startswith("m1 is the best of 15 methods with probability over 0.99: ")
    assert found.endswith(", tied with 13 other methods.")


def test_no_method_may_be_better_than_doing_nothing() -> None:
    worse = [row("identity", 0.5, 0.4, 0.6, 1.0), *standings(5, [0.0] * 5)]
    found = verdict(worse, [[one.name] for one in worse], 25, None, "px", "identity")
    assert found.startswith("No method is better than doing nothing: without registration")
    unclear = verdict(worse, [["identity", "m1"], ["m2", "m3", "m4", "m5"]], 25, None, "px", "identity")
    assert unclear.startswith("25 annotations do not show whether any method is better than doing nothing")
    assert verdict([BEFORE], [["identity"]], 3, None, "um", "identity") == (
        "Without registration the root mean square error is about 20 µm (90 % interval 15 to 26 µm)."
    )


def test_a_tie_by_the_margin_blames_the_margin() -> None:
    """Two that the annotations separate, by less than matters: it is neither decided nor the annotations' fault."""
    assert tied(2, 2, [0.999, 0.001], more(30), margin=1.5) == (
        "Both methods are equally good: their errors differ by less than the margin of 1.5 px. m1 has the smallest "
        "root mean square error (probability over 0.99), about 1 px (90 % interval 0.5 to 2 px), against 20 px before "
        "registration; next is m2 with about 2 px."
    )
    assert tied(5, 3, [1.0] + [0.0] * 4, margin=2.5).startswith("3 of the 5 methods are equally good: ")
    assert tied(3, 3, [1.0] + [0.0] * 2, margin=2.5).startswith("All 3 methods are equally good: ")
    found = verdict([*standings(1, [1.0]), BEFORE], [["m1", "identity"]], 25, None, "px", "identity", margin=30.0)
    assert found.startswith("No method is better than doing nothing by more than the margin of 30 px: without regist")
    assert "annotation" not in found


def test_outcomes_are_codes_and_only_one_definition_says_decided() -> None:
    """A verdict is decided where one transform beats all others, whether that is a method or doing nothing."""
    worse = [row("identity", 0.5, 0.4, 0.6, 1.0), *standings(2, [0.0] * 2)]
    found = {
        Outcome.decided: decided(5),
        Outcome.alone: decided(1),
        Outcome.none_better: verdict(worse, [["identity"], ["m1"], ["m2"]], 25, None, None, "identity"),
        Outcome.not_shown_better: verdict(worse, [["identity", "m1", "m2"]], 25, None, None, "identity"),
        Outcome.undecided: tied(5, 2, [0.2] * 5),
        Outcome.tied_by_margin: tied(5, 2, [0.2] * 5, margin=1.5),
        Outcome.only_baseline: verdict([BEFORE], [["identity"]], 3, None, "um", "identity"),
        Outcome.no_annotations: verdict(standings(2, [0.5, 0.5]), [["m1"], ["m2"]], 0),
    }
    assert {code: one.outcome for code, one in found.items()} == {code: code for code in Outcome}
    assert {code for code, one in found.items() if one.decided} == {"decided", "alone", "none_better"}
    assert found[Outcome.none_better].best == "identity"
    assert not verdict(standings(1, [1.0]), [["m1"]], 4).decided  # nothing to compare it with


def test_a_verdict_is_its_sentence_and_survives_copies() -> None:
    """Scripts print, search and store it as text; its fields are copied with it."""
    found = tied(5, 2, [0.2] * 5)
    for copy in (pickle.loads(pickle.dumps(found)), replace(found), deepcopy(found)):
        assert copy == found == str(found) == f"{found}"
        assert (copy.outcome, copy.groups, copy.margin) == (found.outcome, found.groups, found.margin)
    assert json.loads(json.dumps({"verdict": found})) == {"verdict": str(found)}
    assert replace(found, units="mm").startswith(found.partition(":")[0])
    assert "mm" in replace(found, units="mm")


def test_without_annotations_nothing_is_said() -> None:
    assert verdict(standings(2, [0.5, 0.5]), [["m1", "m2"]], 0).startswith("There are no annotations yet")


def test_numbers_are_written_for_people() -> None:
    assert [length(value, None) for value in (0.0, 0.01234, 12.345, 1234.567, 450000.0)] == [
        "0",
        "0.0123",
        "12.3",
        "1235",
        "4.50e+05",
    ]
    assert [probability(value) for value in (0.0, 0.004, 0.5, 0.996, 1.0)] == [
        "below 0.01", "below 0.01", "0.50", "over 0.99", "over 0.99",
    ]  # fmt: skip
    assert [joined(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_calibration_in_words() -> None:
    coverage = [Coverage(0.5, 9, 20, 0.45, 0.2, 0.7), Coverage(0.95, 19, 20, 0.95, 0.8, 1.0)]
    assert calibration("calibrated", coverage, 10, []) == (
        "The model is well calibrated: when each of the 20 annotations is predicted from the others, there are 9 in "
        "the 50 % region and 19 in the 95 % region."
    )
    assert "overconfident, so do not rely on the ranking" in calibration("overconfident", coverage, 10, [])
    assert calibration("undetermined", coverage[:1], 30, [2, 6]) == (
        "20 annotations are too few to test the model (30 are needed); annotations 3 and 7 contradict the others."
    )


def test_what_it_would_be_without_some_annotations() -> None:
    assert without([2], "a is best.") == "Without annotation 3: a is best."
    assert without([2, 6], "a is best.") == "Without annotations 3 and 7: a is best."
