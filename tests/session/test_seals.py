"""Sealed answers: drawn when the question is asked, and absent everywhere until the project is unsealed."""

from __future__ import annotations

import numpy as np
import pytest

from postgres_tools import Postgres
from project.tools import draft
from session.tools import Rater, make
from warpgauge.errors import InvalidInputError
from warpgauge.project import NotAllowedError, Project
from warpgauge.project.integrity import recover_project
from warpgauge.session import Session
from warpgauge.session.seals import live_seals, sealed_answers, unseal

SEALED = {"seal": True, "audit_seed": 4}


def sealed(project: Project) -> list[int]:
    return [query.number for query in project.state.queries if query.sealed]


def test_a_quarter_is_drawn_up_to_fifteen_before_the_answer(tmp_path):
    """Of 40 suggestions 10 are sealed, one in each four; of 80 not more than 15; the seed stands before the first."""
    with make(tmp_path / "p", SEALED) as project:
        rater = Rater(Session(project, "ann"), "ann")
        rater.work(40)
        numbers = sealed(project)
        assert [number // 4 for number in numbers] == [1, 1, *range(2, 10)]  # the first four are open
        assert len({number % 4 for number in numbers}) > 1
        first = next(entry for entry in project.events() if entry.kind == "seal")
        assert first.generation < min(entry.generation for entry in project.events() if entry.kind == "query")
        assert first.payload == {"seed": project.state.seal.seed, "share": 0.25, "most": 15}
        rater.work(40)
        assert len(sealed(project)) == 15
        assert len(project.state.queries) == 80
    with make(tmp_path / "q", {"seal": True}) as other, make(tmp_path / "r", {"seal": False}) as none:
        for one in (other, none):
            Rater(Session(one, "ann"), "ann").work(12)
        assert other.state.seal.seed != project.state.seal.seed
        assert len(sealed(other)) == 3
        assert sealed(none) == []


def test_sealed_answers_do_not_exist_until_they_are_opened(tmp_path):
    """Model, lists, landmarks of every kind and agreement leave them out; afterwards they are there like all others."""
    with make(tmp_path / "p", SEALED) as project:
        session = Session(project, "ann")
        Rater(session, "ann").work(16)
        hidden = {tuple(project.state.queries[number].point) for number in sealed(project)}
        assert len(hidden) == 4
        assert sealed_answers(project.state) == 4

        def shown() -> list[set[tuple[float, ...]]]:
            tables = [session.annotations(), session.landmarks(), session.landmarks("ann")]
            tables.append(session.landmarks(fused=True))
            found = [{tuple(point) for point in table.fixed_points.tolist()} for table in tables]
            found.append({tuple(one.fixed_point.tolist()) for one in session.agreement().locations if one.marks})
            return found

        assert all(len(points) == 12 and not points & hidden for points in shown())
        project.add_rater("organiser", "organiser")
        project.add_rater("bob", "rater")
        with pytest.raises(NotAllowedError):
            unseal(project, "bob")
        unseal(project)
        assert all(len(points) == 16 and hidden < points for points in shown())
        with pytest.raises(InvalidInputError, match="nothing to unseal"):
            unseal(project)


def test_a_location_is_sealed_for_all_raters_and_all_its_repetitions(tmp_path):
    """A second rater, a repeat, an asking again, an edit and an undo leave the seal as it was drawn."""
    with make(tmp_path / "p", {**SEALED, "repeat_fraction": 0.5, "repeat_lag": 1}) as project:
        session = Session(project)
        for name in ("ann", "bob"):
            Rater(session, name, seed=len(name)).work(24)
        state = project.state
        repeats = [query for query in state.queries if query.same_as is not None]
        assert {state.is_sealed(one.number) for one in repeats} == {True, False}
        assert all(state.is_sealed(one.number) == state.queries[one.same_as].sealed for one in repeats)
        points = {tuple(point) for point in session.annotations().fixed_points.tolist()}
        assert not points & {tuple(state.queries[number].point) for number in sealed(project)}
        at = sealed(project)[0]
        session.place(at, np.array(state.queries[at].point) + 1, rater="ann")
        assert len(session.annotations()) == len(points)
        session.undo("ann")
        assert project.state.is_sealed(at)
        payload = {"point": [1.0, 2.0], "candidate": None, "origin": "repeat", "same_as": at, "for_rater": None}
        payload |= {"gain": None, "name": "", "sealed": True}
        with pytest.raises(InvalidInputError, match="that is new"):
            project.append(draft("query", "warpgauge", len(state.queries), payload))


def test_what_is_skipped_or_withdrawn_does_not_use_up_the_seals(tmp_path):
    """A sealed question that nobody could answer leaves room for another one."""
    with make(tmp_path / "p", SEALED) as project:
        session = Session(project, "ann")
        for _ in range(8):
            session.skip(session.next_query(), "not_visible")
        assert len(sealed(project)) == 2
        assert live_seals(project.state) == []


def test_after_the_unsealing_new_answers_are_sealed_again(tmp_path):
    """What is asked later has its own seal, which only the next unsealing opens."""
    with make(tmp_path / "p", SEALED) as project:
        session = Session(project, "ann")
        rater = Rater(session, "ann")
        rater.work(8)
        unseal(project)
        rater.work(8)
        state = project.state
        assert [state.is_sealed(number) for number in sealed(project)] == [False, False, True, True]
        assert state.opened_at(sealed(project)[0]) == state.unsealed[0].generation
        assert len(session.annotations()) == 14


def test_settings_switch_the_draws_and_not_the_seal(tmp_path):
    """Without the setting nothing more is drawn; what was sealed stays sealed."""
    with make(tmp_path / "p", SEALED) as project:
        rater = Rater(Session(project, "ann"), "ann")
        rater.work(8)
        before = sealed(project)
        project.change_settings(seal=False)
        rater.work(8)
        assert sealed(project) == before
        assert all(project.state.is_sealed(number) for number in before)


@pytest.mark.parametrize("database", [False, True])
def test_a_project_that_is_recovered_keeps_its_seals(tmp_path, postgres: Postgres, database: bool):
    """Lost and rebuilt from the mirror, as a file and in a database: the same answers are sealed, and none is shown."""
    options = {"database": postgres.url} if database else {}
    with make(tmp_path / "p", SEALED, **options) as project:
        project.use_mirror(tmp_path / "mirror")
        Rater(Session(project, "ann"), "ann").work(16)
        hidden, drawn = sealed(project), project.state.seal
    if database:
        postgres.lose(project.id, 0)
    else:
        for file in (tmp_path / "p").glob("annotations.sqlite*"):
            file.unlink()
    recover_project(tmp_path / "p", tmp_path / "mirror")
    with Project.open(tmp_path / "p") as back:
        assert (sealed(back), back.state.seal) == (hidden, drawn)
        assert len(hidden) == sealed_answers(back.state) == 4
        assert len(Session(back, "ann").annotations()) == 12
        Rater(Session(back, "ann"), "ann", seed=1).work(8)
        assert len(sealed(back)) == 6  # the draws go on where they were
        unseal(back)
        assert len(Session(back, "ann").annotations()) == 24
