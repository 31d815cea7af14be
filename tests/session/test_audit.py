"""Audit questions: drawn at random, mixed so that nobody can tell, sealed until they are opened."""

from __future__ import annotations

import json

import numpy as np
import pytest

from project.tools import draft
from session.tools import Rater, lattice, make
from warpgauge.audit import mean_weights
from warpgauge.cli.app import run
from warpgauge.errors import InvalidInputError, WarpgaugeError
from warpgauge.project import NotAllowedError, Project
from warpgauge.session import Session
from warpgauge.session.audit_questions import audit_places

SEALED = {"audit": 0.3, "audit_seed": 5}


def audited(project: Project) -> list[int]:
    return [query.number for query in project.state.queries if query.origin == "audit"]


def test_a_share_of_the_questions_is_drawn_at_random(tmp_path):
    """Of 40 questions 12 are audit questions; the log has target, probability, seed and seal of each."""
    with make(tmp_path / "p", SEALED) as project:
        Rater(Session(project, "ann"), "ann").work(40)
        numbers = audited(project)
        drawn = project.state.audits[0]
        assert len(numbers) == 12
        assert drawn.design == "uniform"
        assert drawn.sealed
        assert drawn.population == len(project.targets)
        assert drawn.sequential
        # Drawn before the first answer, when one candidate at most was in the list and could not be drawn.
        shares = 1 / np.array(drawn.probabilities)
        np.testing.assert_allclose(shares, shares[0] - np.arange(64))
        assert len(project.targets) - 1 <= round(shares[0]) <= len(project.targets)
        for place, number in enumerate(numbers):
            assert project.state.queries[number].audit == (0, place)
            target = project.targets[drawn.targets[place]]
            reach = np.linalg.norm(np.subtract(project.state.queries[number].point, target))
            assert reach <= 0.5 * 12.5  # a candidate of the target's own cell, or the target itself
        # One in each stretch, and not always at the same place of it.
        gaps = np.diff(numbers)
        assert gaps.max() <= 7
        assert len(set(gaps.tolist())) > 1


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
        Rater(Session(project, "ann"), "ann").work(30)
        project.change_settings(seal=not project.settings.seal)  # draws a new round
        Rater(Session(project, "ann"), "ann", seed=5).work(30)
        assert len(project.state.audits) > 1
        for drawn in project.state.audits:
            np.testing.assert_allclose(np.array(drawn.points), places[list(drawn.targets)])
        asked = [query.candidate for query in project.state.queries if query.candidate is not None]
        assert len(set(asked)) == len(asked)
        suggested = {query.candidate for query in project.state.queries if query.origin == "suggested"}
        late = project.state.audits[-1]
        before = {query.candidate for query in project.state.queries[:30] if query.origin == "suggested"}
        assert before & set(candidates.tolist())
        assert not before & set(late.candidates)
        assert suggested


def test_draws_differ_between_projects_unless_a_seed_is_set(tmp_path):
    """Without a seed nobody can guess the draw; with one it is repeatable."""
    drawn = []
    for name, seed in (("a", None), ("b", None), ("c", 5), ("d", 5)):
        with make(tmp_path / name, {"audit": 0.5, "audit_seed": seed}) as project:
            Session(project, "ann").next_query()
            drawn.append(project.state.audits[0].targets)
    assert drawn[0] != drawn[1]
    assert drawn[2] == drawn[3]


def test_a_rater_cannot_tell_audit_questions(tmp_path):
    """What a query shows has the same form and the same words; progress counts sealed answers like others."""
    with make(tmp_path / "p", SEALED) as project:
        session = Session(project, "ann")
        rater = Rater(session, "ann")
        before = session.progress("ann")
        for step in range(15):
            query = rater.work(1)[-1]
            after = session.progress("ann")
            assert after.annotations == step + 1
            assert len(after.curve.mean_sd) == step + 2
            assert after.mean_sd != before.mean_sd
            assert query.why.partition(";")[0] == rater.seen[0].why.partition(";")[0]
            assert query.gain is not None
            before = after
        hidden = [query for query in rater.seen if query.number in audited(project)]
        assert hidden
        assert {row.query for row in session.listing("ann")} == {
            query.number for query in rater.seen if query not in hidden
        }


def test_sealed_answers_reach_no_prediction_export_or_other_person(tmp_path):
    """Predictions and weights are those of a project without the sealed answers; others are not shown them."""
    with make(tmp_path / "p", SEALED) as project:
        session = Session(project, "ann")
        Rater(session, "ann").work(20)
        numbers = audited(project)
        posterior = session.posterior()
        assert len(posterior.annotations) == 20 - len(numbers)
        rests_on = {mark for fit in project.state.fits for mark in fit.told["rests_on"]}
        sealed = {project.state.answer("ann", number).generation for number in numbers}
        assert not rests_on & sealed
        for given in (session.landmarks(), session.landmarks("ann"), session.landmarks(fused=True)):
            assert len(given.fixed_points) == 20 - len(numbers)
        assert not {row.query for row in session.listing()} & set(numbers)
        assert not {row.query for row in session.listing("ann")} & set(numbers)
        assert all(session.go_to(number).answer is None for number in numbers)
        assert not {one.location for one in session.agreement().locations} & set(numbers)


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


def test_places_of_disagreement_are_drawn_more_often(tmp_path):
    """With two transforms a new round is drawn in which probability grows with their difference."""
    with make(tmp_path / "p", {"audit": 0.5, "audit_seed": 4}) as project:
        session = Session(project, "ann")
        Rater(session, "ann").work(8)
        for name, size in (("one", 0.0), ("two", 1.0)):
            affine = tmp_path / f"{name}.tfm"
            matrix = [1.0 + 0.1 * size, 0.0, 0.0, 1.0, 0.0, 0.0]
            affine.write_text(
                "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_2_2\n"
                f"Parameters: {' '.join(map(str, matrix))}\nFixedParameters: 0 0\n"
            )
            project.add_transform(name, affine)
        Rater(session, "ann", seed=9).work(8)
        drawn = project.state.audits[-1]
        assert drawn.design == "disagreement"
        assert set(drawn.transforms) == {"one", "two"}
        # The two differ by a tenth of x, so that probability grows with x, above a floor.
        x = np.array(drawn.points)[:, 0]
        shares = np.array(drawn.probabilities)
        assert np.corrcoef(x, shares)[0, 1] > 0.8
        assert shares.min() > 0.1 / len(project.targets)
        first = project.state.audits[0]
        asked = {
            first.targets[query.audit[1]] for query in project.state.queries if query.audit and query.audit[0] == 0
        }
        assert drawn.drawn_before == len(asked)
        assert not asked & set(drawn.targets)


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
    """A question out of order, or at another point than drawn, cannot be written."""
    with make(tmp_path / "p", SEALED) as project:
        Session(project, "ann").next_query()
        drawn = project.state.audits[0]
        number = len(project.state.queries)
        payload = {"point": list(drawn.points[5]), "origin": "audit", "audit": {"round": 0, "place": 5}}
        with pytest.raises(WarpgaugeError, match="is not question"):
            project.append(draft("query", "warpgauge", number, payload))
        with pytest.raises(WarpgaugeError, match="next round"):
            project.append(draft("audit", "warpgauge", payload=json.loads(json.dumps(round_payload(drawn)))))


def round_payload(drawn) -> dict:
    return {
        "round": 0,
        "design": drawn.design,
        "population": drawn.population,
        "drawn_before": 0,
        "seed": 1,
        "targets": drawn.targets,
        "points": drawn.points,
        "candidates": drawn.candidates,
        "probabilities": drawn.probabilities,
    }


def test_the_command_line_makes_and_exports_an_audited_project(tmp_path, capsys):
    """``new --audit 0.4 --seal`` sets both; ``info`` and ``export`` know of the seal."""
    make(tmp_path / "other").close()
    pictures = tmp_path / "pictures"
    images = ["--fixed", str(pictures / "fixed.png"), "--moving", str(pictures / "moving.png")]
    folder = str(tmp_path / "p")
    assert run(["new", folder, *images, "--audit", "1.5", "--foreground", "none"]) == 1
    assert "from 0 to 0.9" in capsys.readouterr().err
    assert (
        run(
            [
                "new",
                folder,
                *images,
                "--audit",
                "0.4",
                "--set",
                "--foreground",
                "none",
                "--candidates",
                "60",
            ]
        )
        == 0
    )
    with Project.open(folder) as project:
        assert (project.settings.audit, project.settings.seal) == (0.4, True)
        session = Session(project, "ann")
        for _ in range(10):
            query = session.next_query()
            session.place(query, query.point)
        count = len(audited(project))
    capsys.readouterr()
    assert run(["export", folder, str(tmp_path / "out.csv"), "--lossy", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["points"] == 10 - count
    assert "sealed answers are left out" in told.err
    assert run(["info", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["audit"] == "40 % of the questions, sealed"
