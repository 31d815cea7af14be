"""Audit questions: drawn at random, mixed so that nobody can tell, sealed until they are opened."""

from __future__ import annotations

import json

import numpy as np
import pytest

from project.tools import draft
from session.tools import Rater, lattice, make
from warpgauge.audit import contest_sizes, mean_weights
from warpgauge.cli.app import run
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.project import NotAllowedError, Project
from warpgauge.session import Session
from warpgauge.session.audit_questions import audit_places
from warpgauge.session.prior import default_covariance

# An answer that happens to lie far from the others is doubted, which is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::warpgauge.errors.SuspiciousDataWarning")

SEALED = {"audit": 0.3, "audit_seed": 5, "seed": 1}


def audited(project: Project) -> list[int]:
    return [query.number for query in project.state.queries if query.origin == "audit"]


def test_a_share_of_the_questions_is_drawn_at_random(tmp_path):
    """About 3 of 10 are audit questions, at places that vary; the log has target, probability and seed of each."""
    with make(tmp_path / "p", SEALED) as project:
        Rater(Session(project, "ann"), "ann").work(40)
        numbers = audited(project)
        drawn = project.state.audits[0]
        assert 6 <= len(numbers) <= 20
        assert len(set(np.diff(numbers).tolist())) > 1
        assert drawn.design == "uniform"
        assert drawn.sealed
        assert drawn.population == len(project.targets)
        # Drawn before the first answer, when one candidate at most was in the list and could not be drawn.
        shares = 1 / np.array(drawn.probabilities)
        np.testing.assert_allclose(shares, shares[0] - np.arange(64))
        assert len(project.targets) - 1 <= round(shares[0]) <= len(project.targets)
        for place, number in enumerate(numbers):
            assert project.state.queries[number].audit == (0, place)
            target = project.targets[drawn.targets[place]]
            reach = np.linalg.norm(np.subtract(project.state.queries[number].point, target))
            assert reach <= 0.5 * 13.5  # a candidate of the target's own cell, or the target itself


def test_when_to_draw_depends_on_the_rank_alone(tmp_path):
    """Raters who answer in quite different ways, or skip, are asked drawn questions at the same ranks."""
    ranks = []
    for name, skips in (("a", 0), ("b", 3)):
        with make(tmp_path / name, {**SEALED, "refit": "never"}) as project:
            session = Session(project, "ann")
            rater = Rater(session, "ann", sd=0.3 + skips)
            for step in range(30):
                query = session.next_query()
                session.skip(query, "ambiguous") if skips and step % skips == 0 else rater.answer(query)
            ranks.append(audited(project))
    assert ranks[0] == ranks[1]
    assert len(ranks[0]) > 3


def test_candidates_stand_for_targets_of_their_own_cell(tmp_path):
    """Each candidate stands for at most one target, its nearest; a target with none near is asked itself."""
    with make(tmp_path / "p", SEALED) as project:
        places, found = audit_places(project)
        used = found[found >= 0]
        assert 0 < len(used) < len(found)
        assert len(set(used.tolist())) == len(used)
        for target in np.flatnonzero(found >= 0):
            distances = np.linalg.norm(project.targets - project.candidates[found[target]], axis=1)
            assert np.argmin(distances) == target
            np.testing.assert_array_equal(places[target], project.candidates[found[target]])
        np.testing.assert_array_equal(places[found < 0], project.targets[found < 0])


def test_the_places_of_an_audit_never_change_and_none_is_asked_twice(tmp_path):
    """A target whose candidate was suggested is not drawn; the others are asked where they always would be."""
    with make(tmp_path / "p", {"audit": 0.5, "audit_seed": 3}, targets=lattice(25, 18)) as project:
        places, candidates = audit_places(project)
        rater = Rater(Session(project, "ann"), "ann")
        rater.work(30)
        before = {query.candidate for query in project.state.queries if query.origin == "suggested"}
        with_transforms(project)  # which draws a new round
        rater.work(30)
        first, late = project.state.audits[0], project.state.audits[-1]
        assert late.number > first.number
        for drawn in project.state.audits:
            np.testing.assert_allclose(np.array(drawn.points), places[list(drawn.targets)])
        asked = [query.candidate for query in project.state.queries if query.candidate is not None]
        assert len(set(asked)) == len(asked)
        assert before & set(candidates.tolist())
        assert not before & set(late.candidates)


def test_draws_differ_between_projects_unless_a_seed_is_set(tmp_path):
    """Without a seed nobody can guess the draw; with one it is repeatable."""
    drawn = []
    for name, seed in (("a", None), ("b", None), ("c", 5), ("d", 5)):
        with make(tmp_path / name, {"audit": 0.9, **({} if seed is None else {"audit_seed": seed})}) as project:
            Rater(Session(project, "ann"), "ann").work(6)
            drawn.append(project.state.audits[0].targets)
    assert drawn[0] != drawn[1]
    assert drawn[2] == drawn[3]


def test_a_rater_cannot_tell_audit_questions(tmp_path):
    """A query shows the same for them, their answers count like others in the progress, and are listed."""
    with make(tmp_path / "p", SEALED) as project:
        session = Session(project, "ann")
        rater = Rater(session, "ann")
        before = session.progress("ann")
        for step in range(15):
            query = rater.work(1)[-1]
            after = session.progress("ann")
            assert after.annotations == step + 1
            assert after.mean_sd != before.mean_sd
            assert query.gain is not None
            assert query.radius == 0
            assert query.position == step + 1
            before = after
        hidden = [query for query in rater.seen if query.number in audited(project)]
        assert hidden
        assert [row.mark.query.number for row in session.listing("ann")] == [query.number for query in rater.seen]


def test_sealed_answers_reach_no_prediction_export_or_other_person(tmp_path):
    """Predictions, exports, lists and agreement are those without the sealed answers, which may be anything."""
    found = []
    for name, wild in (("a", 0.0), ("b", 40.0)):
        with make(tmp_path / name, SEALED) as project:
            session = Session(project, "ann")
            rater = Rater(session, "ann")
            for _ in range(20):
                query = session.next_query("ann")
                drawn = project.state.queries[query.number].audit is not None
                session.place(
                    query, np.array(query.point) + np.array([3.0 + wild * drawn, 1.0]), rater="ann", radius=2.0
                )
                rater.seen.append(query)
            numbers = audited(project)
            assert numbers
            assert len(session.posterior().annotations) == 20 - len(numbers)
            for landmarks in (session.landmarks(), session.landmarks("ann"), session.landmarks(fused=True)):
                assert len(landmarks.fixed_points) == 20 - len(numbers)
            assert not {row.mark.query.number for row in session.listing()} & set(numbers)
            assert not {one.location for one in session.agreement().locations} & set(numbers)
            points = [query.point for query in rater.seen]
            found.append((points, session.posterior().mean(project.targets).tolist()))
    assert found[0] == found[1]


def test_opening_the_seal_makes_the_answers_ordinary(tmp_path):
    """After ``unseal`` every answer counts; a rater may not unseal, and nothing can be unsealed twice."""
    with make(tmp_path / "p", SEALED) as project:
        session = Session(project, "ann")
        Rater(session, "ann").work(12)
        project.add_rater("ann")
        with pytest.raises(NotAllowedError):
            project.append(draft("unseal", "ann"))
        project.append(draft("unseal", "organiser"))
        assert len(session.annotations()) == 12
        assert len(session.landmarks().fixed_points) == 12
        with pytest.raises(InvalidInputError, match="nothing to unseal"):
            project.append(draft("unseal", "organiser"))


def test_undo_skips_and_a_second_rater(tmp_path):
    """An audit question can be undone, skipped and answered by several like any other."""
    with make(tmp_path / "p", {"audit": 0.5, "audit_seed": 3}) as project:
        session = Session(project)
        ann, ben = Rater(session, "ann"), Rater(session, "ben", seed=4)
        ann.work(10)
        ben.work(10)
        number = audited(project)[0]
        assert {who for who, query in project.state.cells if query == number} == {"ann", "ben"}
        last = ann.seen[-1].number
        session.undo("ann")
        assert project.state.answer("ann", last) is None
        session.skip(last, "ambiguous", rater="ann")
        assert session.next_query("ann").number not in {query.number for query in ann.seen}


def with_transforms(project: Project) -> None:
    for name, scale in (("one", 1.0), ("two", 1.1), ("three", 1.3)):
        file = project.folder.parent / f"{name}.tfm"
        file.write_text(
            "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_2_2\n"
            f"Parameters: {scale} 0 0.02 1 4 -3\nFixedParameters: 0 0\n"
        )
        project.add_transform(name, file)


def test_places_of_disagreement_are_drawn_more_often(tmp_path):
    """With transforms a new round is drawn, one draw after another by the sizes of `contest_sizes`."""
    with make(tmp_path / "p", {"audit": 0.9, "audit_seed": 4, "seed": 1}) as project:
        session = Session(project, "ann")
        rater = Rater(session, "ann")
        rater.work(8)
        with_transforms(project)
        while len(project.state.audits) == 1:
            posterior, count = session.posterior(), len(project.state.queries)
            rater.work(1)
        drawn = project.state.audits[1]
        assert drawn.design == "disagreement"
        assert set(drawn.transforms) == {"one", "two", "three"}
        before = project.state.queries[:count]
        asked = [project.state.audits[0].targets[query.audit[1]] for query in before if query.audit is not None]
        assert drawn.drawn_before == len(asked)
        places, candidates = audit_places(project)
        left = ~np.isin(candidates, [query.candidate for query in before if query.candidate is not None])
        left[asked] = False
        mapped = np.stack([project.transform(name).map(places[left]) for name in drawn.transforms])
        noise = default_covariance(project.fixed_grid, project.settings)
        sizes = np.zeros(len(places))
        covariances = posterior.covariance(places[left]) + noise
        sizes[left] = contest_sizes(mapped, posterior.mean(places[left]), covariances, 0.1)
        for target, probability in zip(drawn.targets, drawn.probabilities, strict=True):
            assert probability == pytest.approx(sizes[target] / sizes.sum(), rel=1e-6)
            sizes[target] = 0.0


def test_the_log_gives_what_the_estimators_need(tmp_path):
    """From the log alone the draws can be put together, with weights that add up to about 1."""
    with make(tmp_path / "p", SEALED) as project:
        Rater(Session(project, "ann"), "ann").work(30)
    with Project.open(tmp_path / "p") as project:
        drawn = project.state.audits[0]
        count = len(audited(project))
        share = np.array(drawn.probabilities[:count])
        # A few suggested candidates could not be drawn.
        assert mean_weights(share, drawn.population).sum() == pytest.approx(1.0, rel=0.01)
        assert project.verify().ok


def test_a_damaged_round_is_refused(tmp_path):
    """A question at another point than drawn, or out of order, cannot be written; nor can a round."""
    with make(tmp_path / "p", {"audit": 0.9, "audit_seed": 5}) as project:
        Rater(Session(project, "ann"), "ann").work(3)
        state = project.state
        drawn, asked = state.audits[0], next(query for query in state.queries if query.audit is not None)
        number = len(state.queries)
        place = state.asked_in[0]
        for wrong in ({"audit": (0, place + 1)}, {"audit": (0, place), "point": (3.0, 4.0)}):
            with pytest.raises(WarpgaugeError, match="is not question"):
                project.append(asked.model_copy(update={"query": number, "generation": 0, "time": "", **wrong}))
        with pytest.raises(WarpgaugeError, match="next round"):
            project.append(drawn.model_copy(update={"generation": 0, "time": ""}))


def test_the_command_line_makes_and_exports_an_audited_project(tmp_path, capsys):
    """``new --audit 0.4`` seals; ``info`` and ``export`` know of it. Without it, ``new`` says what is given up."""
    make(tmp_path / "other").close()
    pictures = tmp_path / "pictures"
    images = ["--fixed", str(pictures / "fixed.png"), "--moving", str(pictures / "moving.png"), "--foreground", "none"]
    folder = str(tmp_path / "p")
    assert run(["new", folder, *images, "--audit", "1.5"]) == 1
    assert "0.9" in capsys.readouterr().err
    assert run(["new", str(tmp_path / "open"), *images, "--candidates", "60"]) == 0
    assert "nothing in this project can show whether a registration has seen" in capsys.readouterr().err
    assert run(["new", folder, *images, "--audit", "0.4", "--candidates", "60"]) == 0
    assert capsys.readouterr().err == ""
    with Project.open(folder) as project:
        session = Session(project, "ann")
        answers = 0
        while answers < 10 or not audited(project):  # nobody knows the seed
            query = session.next_query()
            session.place(query, query.point)
            answers += 1
        count = len(audited(project))
    assert run(["export", folder, str(tmp_path / "out.csv"), "--lossy", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["points"] == answers - count
    assert "sealed answers are left out" in told.err
    assert run(["info", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["audit"] == "40 % of the questions, sealed"
