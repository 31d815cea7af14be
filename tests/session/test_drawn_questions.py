"""Draws of audit questions once there are transforms: by what answers exclude, and named where others were made."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from session.tools import Rater, lattice, make
from warpgauge import Annotations, default_posterior
from warpgauge.audit import contest_sizes
from warpgauge.evaluation import AuditWatch, certify_project
from warpgauge.project import Project
from warpgauge.session import Session
from warpgauge.session.audit_questions import Expected, audit_places, audit_round
from warpgauge.session.seals import unseal

# Placements of a simulated rater with errors; one far from the others is doubted, which is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::warpgauge.errors.SuspiciousDataWarning")


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


def notes_of(project: Project) -> list[str]:
    return [note for note in certify_project(project).notes if "made on this computer" in note]


def test_draws_in_a_copy_or_in_another_project_of_the_pair_are_named(tmp_path):
    """Who copies a project, tries draws there and keeps the lucky one is told on by the state folder."""
    settings = {"audit": 0.9}
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


def with_a_third(folder: Path, settings: dict[str, object]) -> Project:
    """The transform "three" is far off wherever x is large."""
    project = with_transforms(folder, settings)
    file = folder.parent / "three.tfm"
    file.write_text((folder.parent / "one.tfm").read_text().replace("1.01 0 0.02", "1.5 0 0.02"))
    project.add_transform("three", file)
    return project


def test_questions_are_drawn_for_the_leader_against_the_undecided(tmp_path):
    """The logged probabilities are those of sizes by the transforms that are not excluded, one draw after another."""
    with with_a_third(tmp_path / "p", {"audit": 0.3, "audit_seed": 3}) as project:
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
            sizes = contest_sizes(values, known.mean(places), covariances, 0.1)
            for target, probability in zip(drawn.targets, drawn.probabilities, strict=True):
                assert probability == pytest.approx(sizes[target] / sizes.sum(), rel=1e-9)
                sizes[target] = 0.0


def test_what_answers_exclude_and_that_sealed_answers_exclude_nothing(tmp_path):
    """Sealed answers prove the same; questions that followed them would tell of them."""
    settings = {"audit": 0.9, "seal": True, "audit_seed": 3}
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
