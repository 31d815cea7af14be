"""The annotations of a session that has followed the log are those of one that reads it anew."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from project.tools import draft, query
from project.zygote import random_action
from session.tools import make
from warpgauge.errors import InvalidInputError
from warpgauge.project import Project
from warpgauge.session import Session


def test_annotations_follow_the_log(tmp_path: Path) -> None:
    """After each of 150 random actions, those of organisers included, for all raters and for one; in the same order."""
    rng = random.Random(4)
    with make(tmp_path / "p") as project:
        session = Session(project)
        project.append(*(query(n, (20.0 + 9 * n, 30.0)) for n in range(4)))
        for n, origin in enumerate(("repeat", "again", "again"), start=4):
            project.append(query(n, (20.0 + 9 * (n - 4), 30.0), origin=origin, same_as=n - 4))
        done = 0
        while done < 150:
            if rng.random() < 0.25:
                payload = {"of": rng.choice(("ada", "ben")), "excluded": rng.random() < 0.5}
                try:
                    project.append(draft("exclude", "zoe", rng.randrange(7), payload))
                except InvalidInputError:
                    continue
            elif random_action(project, rng) is None:
                continue
            done += 1
            followed = [session.annotations(rater) for rater in (None, "ada")]
            if done % 10 == 0:
                with Project.open(project.folder, check_images=False) as again:
                    anew = [Session(again).annotations(rater) for rater in (None, "ada")]
                    assert again.state == project.state
                for one, other in zip(followed, anew, strict=True):
                    for name in ("fixed_points", "moving_points", "covariances"):
                        assert np.array_equal(getattr(one, name), getattr(other, name))
        assert len(followed[0])
        assert {event.kind for event in project.events()} >= {"place", "undo", "redo", "exclude"}
