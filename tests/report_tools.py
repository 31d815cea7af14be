"""What has to agree with what in a report, whoever wrote it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from page_parser import Page
from warpgauge.display import rounded
from warpgauge.evaluation.verdict import count_words


def assert_consistent(path: Path) -> None:
    """Verdict, table, intervals, shares, maps and CSV of a report say the same."""
    page = Page(path.read_text("utf-8"))
    numbers = json.loads(path.with_suffix(".json").read_text("utf-8"))
    evaluation = numbers["evaluation"]
    order = evaluation["ranking"]["2"]

    # The lines of the verdict stand on the page, are short, and their numbers are those of the table.
    lines = evaluation["lines"]
    assert all(line in page.text for line in lines.values())
    assert count_words(evaluation["verdict"]) <= 80
    if evaluation["decided"]:
        assert evaluation["best"] == order[0]
        assert evaluation["best"] in lines["BEST"] or evaluation["best"] == evaluation["baseline"]
    first = evaluation["transforms"][order[0]]
    for value in (first["score"]["2"], *first["interval"]["2"]):
        assert rounded(value) in lines["ERROR"]
    if evaluation["baseline"] is not None:
        assert "registration" in lines["ERROR"]

    # Rows in the order of the ranks; every estimate lies in its interval; probabilities add up.
    rows = page.tables["scores"][1:]
    assert [row[0][1] for row in rows] == order
    for name in order:
        one = evaluation["transforms"][name]
        low, high = one["interval"]["2"]
        assert low <= one["statistics"]["rms"]["median"] <= high
    distinct = [one for one in evaluation["transforms"].values() if one["copy_of"] is None]
    assert sum(one["probability_best"]["2"] for one in distinct) == pytest.approx(1.0)
    if numbers["trust"]["verdict"] == "overconfident":
        assert "Do not rely on what follows" in page.text

    # One number for how much is judged, wherever it is said.
    assert numbers["targets"]["judged"] == evaluation["known"]
    assert "say enough" not in page.text
    assert numbers["targets"]["count"] == evaluation["targets"]

    # Maps in the order of the ranks, with errors of the size that the table gives.
    if numbers["maps"] is not None:
        shown = list(numbers["maps"]["methods"])
        assert shown == [name for name in order if name in shown]
        title = next(given["alt"] or "" for given in page.of("img") if "expected error" in (given["alt"] or ""))
        places = [title.index(name) for name in shown if name in title]
        assert 1 <= len(places) <= 8
        assert places == sorted(places)
        for name in shown:
            rms = evaluation["transforms"][name]["statistics"]["rms"]["median"]
            assert numbers["maps"]["methods"][name]["median"] == pytest.approx(rms, rel=0.8)

    # The CSV holds the errors whose root mean square the table gives.
    with path.with_name(f"{path.stem}-landmarks.csv").open(newline="") as stream:
        listed = list(csv.DictReader(stream))
    assert len(listed) == evaluation["annotations"]
    for name in order:
        errors = np.array([float(row[name]) for row in listed if row[name]])
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(evaluation["transforms"][name]["landmark"]["2"])
