"""Which settings make a project blind, and what it is called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from session.tools import Rater, make, true_map
from warpgauge.session import Session


def registered(folder: Path, **settings: object) -> Session:
    project = make(folder, settings)
    project.add_rater("boss", "organiser", by="boss")
    for name in ("ada", "ben"):
        project.add_rater(name, "rater", by="boss")
    return Session(project)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "yes"),
        ({"blind": False}, "no"),
        (
            {"answers_per_location": 2},
            "own marks only, but the answers of all decide the places (answers_per_location)",
        ),
    ],
)
def test_only_a_blind_project_is_called_blind(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    session = registered(tmp_path / "p", **settings)
    assert session.blindness.described(session.project.state).startswith(words)


def test_the_list_of_a_blind_project_depends_on_nobodys_answers(tmp_path: Path) -> None:
    """Two raters who answer in quite different ways are asked the same places in the same order."""
    asked = []
    for name, errors in (("a", (0.3, 20.0)), ("b", (9.0, 0.1))):
        session = registered(tmp_path / name)
        ada, ben = Rater(session, "ada", sd=errors[0]), Rater(session, "ben", seed=4, sd=errors[1], anisotropic=True)
        for turn in range(9):
            ada.work(1)
            if turn % 2:
                ben.work(2)
        points = [query.point for query in session.project.state.queries]
        gains = [query.gain for query in session.project.state.queries]
        asked.append((points[:9], gains[:9]))
    assert asked[0] == asked[1]


def test_a_rater_has_weights_of_their_own(tmp_path: Path) -> None:
    """They are those of a project in which the rater is alone, refitted at the same numbers of answers."""
    session = registered(tmp_path / "p")
    Rater(session, "ben", seed=4, sd=15.0).work(14)
    Rater(session, "ada", sd=0.3).work(6)
    own = Session(session.project, "ada").view()
    alone = make(tmp_path / "alone", {"refit": "never"})
    lonely = Session(alone, "ada")
    given = own.annotations
    for row in range(len(given)):
        lonely.volunteer(given.fixed_points[row], given.moving_points[row], np.asarray(given.covariances)[row])
        if row == 4:
            lonely.refit()
    np.testing.assert_allclose(own.prior.kernel.weights, lonely.prior().kernel.weights, rtol=1e-9)
    points = np.random.default_rng(0).uniform(20, 200, (20, 2))
    np.testing.assert_allclose(own.mean(points), lonely.posterior().mean(points), atol=1e-8)
    assert np.linalg.norm(own.mean(points) - true_map(points), axis=1).mean() < 10
