"""The marks that stand, followed event by event, are those that a state read from the log anew has."""

from __future__ import annotations

import random
from pathlib import Path

from project.tools import draft, query
from project.zygote import random_action
from session.tools import make
from warpgauge.errors import InvalidInputError
from warpgauge.project import State, replay
from warpgauge.session.fused_annotations import Mark, standing_marks


def by_hand(state: State, rater: str | None) -> dict[int, tuple[Mark, ...]]:
    """Look at every answer there is: an asking again counts before the first answer, and that before a repeat."""
    ranks = {"again": 0, "repeat": 2}
    best: dict[tuple[int, str], tuple[tuple[int, int], Mark]] = {}
    for (who, number), cell in state.cells.items():
        asked = state.queries[number]
        if cell.placement is None or cell.disabled or rater not in (None, who):
            continue
        if (who, number) in state.excluded:
            continue
        rank = ranks.get(asked.origin, 1), -number if asked.origin == "again" else number
        key = asked.location, who
        if key not in best or rank < best[key][0]:
            best[key] = rank, Mark(who, asked, cell.answer, disabled=False, excluded=False)
    locations = sorted({location for location, _ in best})
    return {at: tuple(best[key][1] for key in sorted(best) if key[0] == at) for at in locations}


def test_standing_marks_follow_the_log(tmp_path: Path) -> None:
    """After each of 250 random actions, those of organisers included, for all raters and for one; in the same order."""
    rng = random.Random(4)
    with make(tmp_path / "p") as project:
        project.append(*(query(n, (20.0 + 9 * n, 30.0)) for n in range(4)))
        for n, origin in enumerate(("repeat", "again", "again"), start=4):
            project.append(query(n, (20.0 + 9 * (n - 4), 30.0), origin=origin, same_as=n - 4))
        done = 0
        while done < 250:
            if rng.random() < 0.25:
                whose, number = rng.choice(("ada", "ben")), rng.randrange(7)
                payload = {"of": whose, "excluded": rng.random() < 0.5}
                try:
                    project.append(draft("exclude", "zoe", number, payload))
                except InvalidInputError:
                    continue
            elif random_action(project, rng) is None:
                continue
            done += 1
            for rater in (None, "ada"):
                assert standing_marks(project.state, rater) == by_hand(project.state, rater)
        read_anew = replay(project.events(), 2)
        assert read_anew == project.state
        assert standing_marks(read_anew) == standing_marks(project.state)
        assert list(standing_marks(read_anew)) == sorted(standing_marks(project.state))
        assert {kind.kind for kind in project.events()} >= {"place", "undo", "redo", "exclude"}
