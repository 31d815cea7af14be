"""Questions that decide: drawn once there are transforms, indistinguishable for raters, and counted twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from session.tools import Rater, lattice, make
from warpgauge import Annotations, default_posterior
from warpgauge.core.decisions import best_information
from warpgauge.core.designs import contest_sizes
from warpgauge.evaluation import AuditWatch, audit_data, certify_project, project_comparison
from warpgauge.project import Project
from warpgauge.session import Session, deciding_sizes
from warpgauge.session.audit_questions import Expected, audit_places, audit_round
from warpgauge.session.seals import unseal

# Placements of a simulated rater with errors; one far from the others is doubted, which is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::warpgauge.errors.SuspiciousDataWarning")


def test_information_is_what_a_slow_loop_says() -> None:
    """H(P_best) less the mean entropy after answers at a place: scores moved by regression, one by one."""
    rng = np.random.default_rng(1)
    samples, mapped = rng.normal(size=(40, 5, 2)), rng.normal(size=(3, 5, 2))
    noise = np.array([[0.2, 0.05], [0.05, 0.1]])
    found = best_information(samples, mapped, noise, answers=6, seed=3)
    scores = np.array([[np.square(one - each).sum() for one in mapped] for each in samples])
    scores -= scores.mean(axis=1)[:, None]

    def entropy(best: list[int]) -> float:
        chances = np.bincount(best, minlength=3) / len(best)
        return float(-sum(chance * np.log(chance) for chance in chances if chance > 0))

    before = entropy([int(one.argmin()) for one in scores])
    drawn = np.random.default_rng(3).standard_normal((46, 2)) @ np.linalg.cholesky(noise).T
    for place in range(5):
        joint = np.cov(np.column_stack([samples[:, place], scores]).T, bias=True)
        slope = np.linalg.inv(joint[:2, :2] + noise) @ joint[:2, 2:]
        after = []
        for at, error in zip(np.linspace(0, 39, 6).astype(int), drawn[40:], strict=True):
            answer = samples[at, place] + error
            moved = [
                score + (answer - one - own) @ slope
                for score, one, own in zip(scores, samples[:, place], drawn[:40], strict=True)
            ]
            after.append(entropy([int(one.argmin()) for one in moved]))
        assert found[place] == pytest.approx(max(0.0, before - np.mean(after)), rel=1e-9)


def test_information_is_where_the_transforms_differ() -> None:
    """And nowhere else, however sharp the placements are."""
    rng = np.random.default_rng(2)
    samples = rng.normal(size=(300, 6, 2))
    mapped = np.zeros((2, 6, 2))
    mapped[0, 4], mapped[1, 4] = [1.0, 0.0], [-1.0, 0.0]
    found = best_information(samples, mapped, 1e-4 * np.eye(2))
    assert found.argmax() == 4
    assert found[4] > 0.6
    assert np.delete(found, 4).max() < 0.03 * found[4]


def with_transforms(folder: Path, settings: dict[str, object]) -> Project:
    project = make(folder, settings, targets=lattice(25, 18))
    for name, scale in (("one", 1.0), ("two", 1.04)):
        file = folder.parent / f"{name}.tfm"
        file.write_text(
            "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_2_2\n"
            f"Parameters: {1.01 * scale} 0 0.02 1 4 -3\nFixedParameters: 0 0\n"
        )
        project.add_transform(name, file)
    return project


def drawn(project: Project) -> list[int]:
    return [query.number for query in project.state.queries if query.origin == "audit"]


@pytest.mark.parametrize(("ask", "low", "high"), [("map", 0, 0), ("both", 8, 10), ("decide", 15, 18)])
def test_the_share_follows_the_setting_after_the_first_answers(tmp_path, ask, low, high):
    """Of 24 questions the first six are for the map in any case."""
    with with_transforms(tmp_path / "p", {"ask": ask, "audit_seed": 3}) as project:
        Rater(Session(project, "ann"), "ann").work(24)
        numbers = drawn(project)
        assert low <= len(numbers) <= high
        assert not any(number < 6 for number in numbers)


def test_answers_count_for_the_model_and_for_the_certificate(tmp_path):
    """They are open, with logged probabilities; the two transforms differ to the right, where most are asked."""
    with with_transforms(tmp_path / "p", {"ask": "both", "audit_seed": 3}) as project:
        session = Session(project, "ann")
        rater = Rater(session, "ann")
        rater.work(30)
        numbers = drawn(project)
        assert not any(project.state.is_sealed(number) for number in numbers)
        known = {tuple(point) for point in session.annotations().fixed_points.tolist()}
        assert all(project.state.queries[number].point in known for number in numbers)
        data = audit_data(project, project_comparison(project).among(("one", "two")))
        assert len(data.draws) == len(numbers)
        assert data.bets is not None
        assert data.bets.all()
        rounds = project.state.audits
        assert all(one.sequential and not one.sealed and one.design == "disagreement" for one in rounds)
        x = np.array([project.state.queries[number].point[0] for number in numbers])
        assert x.mean() > project.targets[:, 0].mean() + 10
        words = {query.why.partition(";")[0] for query in rater.seen}
        assert len(words) == 1
        told = AuditWatch(project).asking()
        assert told is not None
        assert told.startswith("50 % of the questions decide which transform is best")
        # The reason of each of the latest: how far the two differ there. They do by 0.0404 x at (x, y).
        for number in numbers[-5:]:
            size = 0.0404 * project.state.queries[number].point[0]
            assert f"{size:.3g}" in told.split(f" px at question {number + 1}")[0].rsplit(" ", 1)[-1]


def test_an_audit_stays_sealed_and_no_transforms_mean_no_draws(tmp_path):
    with with_transforms(tmp_path / "p", {"ask": "both", "audit": 0.3, "seal": True, "audit_seed": 3}) as project:
        Rater(Session(project, "ann"), "ann").work(16)
        assert all(project.state.is_sealed(number) for number in drawn(project))
    with make(tmp_path / "q", {"ask": "decide"}) as project:
        Rater(Session(project, "ann"), "ann").work(10)
        assert drawn(project) == []
        assert AuditWatch(project).asking() is None


def notes_of(project: Project) -> list[str]:
    return [note for note in certify_project(project).notes if "made on this computer" in note]


def test_draws_in_a_copy_or_in_another_project_of_the_pair_are_named(tmp_path):
    """Who copies a project, tries draws there and keeps the lucky one is told on by the state folder."""
    settings = {"ask": "decide"}
    with with_transforms(tmp_path / "p", settings) as project:
        Rater(Session(project, "ann"), "ann").work(9)
        assert notes_of(project) == []
        shutil.copytree(tmp_path / "p", tmp_path / "copy")
        assert notes_of(project) == []
    with Project.open(tmp_path / "copy") as copy:
        assert notes_of(copy) == []  # a copy alone is no other draw
        Rater(Session(copy, "ann"), "ann").work(20)
        assert len(copy.state.audits) > 1
        assert notes_of(copy) == []
    with Project.open(tmp_path / "p") as project:
        (note,) = notes_of(project)
        assert "not in this project (a copy of it, or another project)" in note
    with with_transforms(tmp_path / "q", settings) as other:
        Rater(Session(other, "ann"), "ann").work(9)
        assert len(notes_of(other)) == 1
        assert certify_project(other).content["audit"]["elsewhere"] > 0


def test_places_that_can_hardly_be_answered_are_hardly_drawn() -> None:
    """By the chance of an answer, and never left out: every probability stays above 0, as a certificate needs."""
    rng = np.random.default_rng(4)
    places = rng.uniform(0, 100, (80, 2))
    known = default_posterior(Annotations.isotropic(places[:8], places[:8] + 1.0, 0.5), (100.0, 100.0), smallest=10.0)
    mapped = np.stack([places + 1.0, places + 1.0 + 0.05 * places])
    chance = np.where(np.arange(80) < 40, 1.0, 0.05)
    even, weighed = (deciding_sizes(known, places, mapped, 0.25 * np.eye(2), 3.0, one) for one in (np.ones(80), chance))
    assert even.sum() == pytest.approx(1)
    assert weighed.sum() == pytest.approx(1)
    assert weighed.min() > 0
    assert weighed[40:].sum() < 0.25 * even[40:].sum()


def with_a_third(folder: Path, settings: dict[str, object]) -> Project:
    """The transform "three" is far off wherever x is large."""
    project = with_transforms(folder, settings)
    file = folder.parent / "three.tfm"
    file.write_text((folder.parent / "one.tfm").read_text().replace("1.01 0 0.02", "1.5 0 0.02"))
    project.add_transform("three", file)
    return project


def test_questions_are_drawn_for_the_leader_against_the_undecided(tmp_path):
    """The logged probabilities are those of sizes by the transforms that are not excluded, one draw after another."""
    with with_a_third(tmp_path / "p", {"ask": "map", "audit": 0.3, "audit_seed": 3}) as project:
        points = project.targets[::60]
        known = default_posterior(
            Annotations.isotropic(points, project.transform("one").map(points), 1.0), project.fixed_grid.extent
        )
        places, noise = audit_places(project)[0], np.eye(2)
        mapped = {name: project.transform(name).map(places) for name in ("one", "two", "three")}
        for excluded in ((), ("three",), ("two", "three")):
            about = Expected(known, noise, lambda at: np.ones(len(at)), lambda out=excluded: out)
            drawn = audit_round(project, project.state, lambda about=about: about).drawn
            # With one left it is decided, and questions serve the certificates of all.
            names = [name for name in mapped if name not in excluded] if len(excluded) < 2 else list(mapped)
            values = np.stack([mapped[name] for name in names])
            covariances = known.covariance(places) + noise
            sizes = contest_sizes(values, known.mean(places), covariances, 3 * project.fixed_grid.pixel, 0.1)
            for target, probability in zip(drawn.targets, drawn.probabilities, strict=True):
                assert probability == pytest.approx(sizes[target] / sizes.sum(), rel=1e-9)
                sizes[target] = 0.0


def test_what_answers_exclude_and_that_sealed_answers_exclude_nothing(tmp_path):
    """Sealed answers prove the same; questions that followed them would tell of them."""
    settings = {"ask": "decide", "audit": 0.9, "seal": True, "audit_seed": 3}
    with with_a_third(tmp_path / "p", settings) as project:
        watch = AuditWatch(project)
        assert watch.excluded() == set()
        Rater(Session(project, "ann"), "ann").work(14)
        found = watch.verdict()
        assert found is not None
        assert {one.better for one in found.pairs if "three" in (one.first, one.second)} == {"one", "two"}
        assert watch.excluded() == set()
        unseal(project, "organiser")
        assert "three" in watch.excluded()
        assert "one" not in watch.excluded()
