"""A placement is checked once and doubted once on its way from the page to the log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from session.tools import Rater, make
from warpgauge.project import values
from warpgauge.session import Session, UnconfirmedError, answers


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a placement was checked, doubted, and its covariance read."""
    counted = Counter[str]()

    def count(module: Any, name: str) -> None:
        original = getattr(module, name)

        def counting(*args: Any, **options: Any) -> Any:
            counted[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(module, name, counting)

    for module, name in ((answers, "check_placement"), (answers, "doubt_about"), (values, "matrix")):
        count(module, name)
    return counted


def test_a_click_is_checked_and_doubted_once(tmp_path: Path, calls: Counter[str]) -> None:
    """By a script and by a session that asks, new and changed; what is asked about costs one more when confirmed."""
    session = Session(make(tmp_path / "p", {"refit": "never"}), "ada")
    Rater(session, "ada").work(3)
    asking = Session(session.project, "ada", question=lambda doubt, who: doubt.question("px"))
    query = session.next_query()
    assert query is not None
    for placing in (session, asking):
        calls.clear()
        placing.place(query, query.point, duration=1.0)
        assert calls == {"check_placement": 1, "doubt_about": 1, "matrix": 1}
    calls.clear()
    with pytest.raises(UnconfirmedError):
        asking.place(query, [-60.0, 10.0])
    assert calls == {"check_placement": 1, "doubt_about": 1}
    calls.clear()
    asking.volunteer((40.0, 50.0), (41.0, 50.0))
    assert calls == {"check_placement": 1, "doubt_about": 1, "matrix": 1}
