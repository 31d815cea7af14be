"""The report of a study: calibration before the ranking, and the study's own numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from html import escape
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import warpgauge as wg
from command_tools import call
from page_parser import Page
from study_tools import make_study
from warpgauge.errors import InvalidInputError
from warpgauge.io.landmarks import write_landmarks
from warpgauge.report import write_leaderboard, write_study_report
from warpgauge.study import Method, Pair, PairOutcome, Study, StudyResult, StudySettings, summarise

pytest.importorskip("matplotlib")

NAMES = ("<i>best</i>", "second", "third")


def outcome(name: str, verdict: str = "calibrated", missing: tuple[str, ...] = ()) -> PairOutcome:
    rng = np.random.default_rng(len(name))
    scores = np.array([1.0, 2.0, 3.0]) + rng.normal(0, 0.1, 3)
    draws = scores + rng.normal(0, 0.2, (50, 3))
    for method in missing:  # what its absence costs
        scores[NAMES.index(method)] = 4.0
        draws[:, NAMES.index(method)] = 4.0
    errors = {method: 4.0 if method in missing else k / 2 + 0.5 for k, method in enumerate(NAMES, 1)}
    reasons = dict.fromkeys(missing, "no file <x>")
    return PairOutcome(name, NAMES, reasons, draws, scores, errors, 4.0, verdict, f"About {name}.")


def result(*outcomes: PairOutcome) -> StudyResult:
    study = Study(
        name="A & B",
        folder=Path(),
        pairs=tuple(Pair(name=one.name, project=Path(one.name)) for one in outcomes),
        methods=tuple(Method(name=name) for name in NAMES),
        settings=StudySettings(bootstrap=200),
    )
    return summarise(study, outcomes)


def test_table_tests_and_cases_have_the_numbers_of_the_json(tmp_path: Path) -> None:
    found = result(outcome("p1"), outcome("pair2"), outcome("pair-3", missing=("second",)))
    path = write_study_report(tmp_path / "study.html", found)
    page, numbers = Page(path.read_text("utf-8")), json.loads(path.with_suffix(".json").read_text("utf-8"))
    heads = [said for _, said in page.tables["methods-table"][0]]
    rows = page.tables["methods-table"][1:]
    assert [row[0][1] for row in rows] == [one["name"] for one in numbers["methods"]] == list(NAMES)
    for row, one in zip(rows, numbers["methods"], strict=True):
        for head, key in (("mean rank", "mean_rank"), ("RMS error (world units)", "mean_score"),
                          ("probability of being first", "probability_first"), ("missing", "missing")):  # fmt: skip
            assert float(row[heads.index(head)][0]["data-value"] or "nan") == one[key]
    assert len(page.tables["tests-table"]) == 1 + 3
    assert len(page.tables["cases-table"]) == 1 + 9
    assert "no file <x>" in page.text
    assert "A & B" in page.text
    assert not {"script", "link"} & {tag for tag, _ in page.tags}
    assert all(len(given["alt"] or "") > 20 for given in page.of("img"))
    levels = [level for level, _ in page.headings]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_what_is_flagged_in_a_pair_stands_before_the_verdict(tmp_path: Path) -> None:
    flags = [{"kind": "too_good", "sentence": "second has probably <seen> them.", "transform": "second"}]
    found = result(outcome("p1"), replace(outcome("pair2"), evaluation={"flags": flags}))
    assert found.notices == ["pair2: second has probably <seen> them."]
    page = Page(write_study_report(tmp_path / "s.html", found).read_text("utf-8"))
    assert page.text.index(found.notices[0]) < page.text.index(found.verdict)


def test_a_submission_that_has_seen_the_landmarks_is_named_in_the_report_of_a_study(tmp_path: Path) -> None:
    """From the command line: "near" hits every landmark of case1 exactly, though they are said to be 0.3 off."""
    study = make_study(tmp_path, pairs=2)
    fixed = np.random.default_rng(5).uniform(0, 200, (25, 2))
    write_landmarks(wg.Landmarks(fixed, fixed + np.array([0.5, 0.0])), tmp_path / "case1.csv")
    call("benchmark", study, "--out", tmp_path / "results", "--report", tmp_path / "study.html")
    page = Page((tmp_path / "study.html").read_text("utf-8"))
    assert "case1: near fits the annotations, or many of them, better than their stated precision allows" in page.text
    assert "case0: near" not in page.text


def test_pairs_that_are_too_sure_come_first(tmp_path: Path) -> None:
    found = result(outcome("p1"), outcome("pair2", "overconfident"))
    page = Page(write_study_report(tmp_path / "s.html", found).read_text("utf-8"))
    titles = [said for level, said in page.headings if level == 2]
    assert titles[:2] == ["Can these numbers be trusted?", "Which method is best?"]
    assert page.text.index("overconfident") < page.text.index("is first")
    page = Page(write_study_report(tmp_path / "t.html", result(outcome("p1"), outcome("pair2"))).read_text("utf-8"))
    assert next(said for level, said in page.headings if level == 2) == "Which method is best?"


def test_only_html_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"must end in \.html"):
        write_study_report(tmp_path / "s.txt", result(outcome("p1")))


def beside_references(one: PairOutcome, *vetted: str, panel: tuple[str, ...] = (NAMES[0],)) -> PairOutcome:
    judged = {name: {"vetted": name in vetted} for name in NAMES}
    return replace(one, evaluation={"panel": list(panel), "transforms": judged})


@pytest.mark.parametrize("undecided", [True, False])
def test_the_verdict_says_whose_scores_are_conservative(tmp_path: Path, undecided: bool) -> None:
    """Of those that are neither references nor vetted; and what that means where a reference is first."""
    pairs = [beside_references(outcome(name), NAMES[0]) for name in ("p1", "p2", "p3")]
    if undecided:  # first by its scores, never in the draws
        pairs = [replace(one, draws=one.draws + np.array([9.0, 0.0, 0.0])) for one in pairs]
    found = result(*pairs)
    assert found.conservative == NAMES[1:]
    said = "2 of 3 methods may have seen annotations; beside references their scores are conservative"
    why = f"So {NAMES[0]}, a reference, can be first by mean rank and still be unlikely to be the best."
    assert found.methods[0].name == NAMES[0]
    assert found.methods[0].probability_first == (0 if undecided else 1)
    assert said in found.verdict
    assert (why in found.verdict) == undecided
    page = write_leaderboard(tmp_path / "board.html", found).read_text("utf-8")
    assert said in page
    assert (escape(why) in page) == undecided


@pytest.mark.parametrize(("vetted", "panel"), [(NAMES, NAMES[:1]), ((), ()), ((), NAMES[:1])])
def test_without_references_or_without_others_no_score_is_called_conservative(
    vetted: tuple[str, ...], panel: tuple[str, ...]
) -> None:
    found = result(*(beside_references(outcome(name), *vetted, panel=panel) for name in ("p1", "p2")))
    assert "conservative" not in found.verdict
