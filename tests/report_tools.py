"""What has to agree with what in a report, whoever wrote it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from page_parser import Page


def assert_consistent(path: Path) -> None:
    """Verdict, table, intervals, shares, maps and CSV of a report say the same."""
    page = Page(path.read_text("utf-8"))
    numbers = json.loads(path.with_suffix(".json").read_text("utf-8"))
    evaluation = numbers["evaluation"]
    order = evaluation["ranking"]["2"]
    methods = [name for name in order if name != evaluation["baseline"]]

    # The verdict stands on the page, is at most two sentences, and its numbers are those of the table.
    verdict = evaluation["verdict"]
    assert verdict in page.text
    assert len(re.findall(r"\.( |$)", verdict)) <= 2
    named = [name for name in methods if name in verdict]
    assert 1 <= len(named) <= 3
    best = evaluation["transforms"][named[0]]
    rms = best["statistics"]["rms"]
    for value in (rms["median"], rms["low"], rms["high"]):
        assert f"{value:.3g}" in verdict
    assert all(one in page.text for one in evaluation["caveats"])
    if evaluation["baseline"] is not None:
        assert "before registration" in verdict or "without registration" in verdict

    # Who is tied at the top is not called the best, and who is called the best is not tied.
    first = evaluation["tied"][0]
    open_ = re.search(r"could (each )?be the best|not show whether", verdict)
    assert (open_ is not None) == (len(first) > 1)

    # Rows in the order of the ranks; every estimate lies in its interval; probabilities add up.
    rows = page.tables["scores"][1:]
    assert [row[0][1] for row in rows] == order
    for name in order:
        one = evaluation["transforms"][name]
        low, high = one["interval"]["2"]
        assert low <= one["statistics"]["rms"]["median"] <= high
    assert sum(evaluation["transforms"][name]["probability_best"]["2"] for name in order) == pytest.approx(1.0)
    if numbers["trust"]["verdict"] == "overconfident":
        assert "do not rely on the ranking" in page.text

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
