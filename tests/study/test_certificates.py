"""What random questions of a project show stands on the leaderboard; the answers behind it do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from session.tools import Rater, lattice, make
from warpgauge.evaluation import check_certificate, read_certificate
from warpgauge.io.transforms import AffineTransform, write_transform
from warpgauge.project import Project
from warpgauge.report import write_leaderboard
from warpgauge.session import Session
from warpgauge.study import StudyResult, certificates, read_study, run_study

METHODS = '[[method]]\nname = "good"\n[[method]]\nname = "shifted"\n'


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyResult]:
    """The file and result of a study of a project whose open answers at random places tell two transforms apart."""
    folder = tmp_path_factory.mktemp("study")
    with make(folder / "asked", {"audit": 0.9, "audit_seed": 5}, targets=lattice(25, 18)) as project:
        for method, by in (("good", 0.0), ("shifted", 8.0)):
            transform = AffineTransform([[1.01, 0.0], [0.02, 1.0]], [4.0 + by, -3.0])
            project.add_transform(method, write_transform(transform, folder / f"{method}.tfm"))
        Rater(Session(project, "ann"), "ann").work(30)
    study = folder / "STUDY.toml"
    study.write_text(f'[settings]\nsamples = 40\nbootstrap = 50\n[[pair]]\nname = "case"\nproject = "asked"\n{METHODS}')
    return study, run_study(study, folder / "out")


def file_of(study: Path, result: StudyResult) -> Path:
    return study.parent / "out" / certificates.FOLDER / str(result.certificates[0].file)


def test_the_leaderboard_names_what_is_certified_and_holds_no_answer(ran: tuple[Path, StudyResult]) -> None:
    study, result = ran
    (one,) = result.certificates
    content = read_certificate(file_of(study, result))
    with Project.open(study.parent / "asked") as project:
        assert check_certificate(content, project) == []
    assert (one.pair, one.project, one.certified, one.decided) == ("case", "asked", True, (("good", "shifted"),))
    assert one.digest == content["digest"]
    assert any("seed of the draws" in note for note in one.notes)
    page = write_leaderboard(study.parent / "board.html", result).read_text()
    assert one.sentence.startswith("Decided: good is better than shifted.")
    for said in (one.sentence, one.digest, "good before shifted", "Best transform certified: 1 of 1 pair"):
        assert said in page
    assert content["answers"]["matches"]  # in the file, which the organiser keeps
    assert not {"answers", "matches"} & set(result.to_dict()["certificates"][0])


def test_a_certificate_is_made_once_and_a_changed_one_is_not_believed(
    ran: tuple[Path, StudyResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, result = ran
    made: list[str] = []
    original = certificates.certify_project
    monkeypatch.setattr(certificates, "certify_project", lambda given: made.append(given.id) or original(given))
    assert run_study(study, study.parent / "out").certificates == result.certificates
    assert made == []
    file = file_of(study, result)
    whole = file.read_text()
    file.write_text(whole.replace("Decided: good", "Decided: shifted"))
    assert run_study(study, study.parent / "out").certificates[0].sentence == result.certificates[0].sentence
    assert len(made) == 1
    file.write_text(whole)


def test_a_file_under_the_name_of_a_certified_transform_is_not_certified(ran: tuple[Path, StudyResult]) -> None:
    study, result = ran
    study = study.with_name("other.toml")
    study.write_text(
        '[[pair]]\nname = "case"\nproject = "asked"\n[[method]]\nname = "good"\ntransform = "shifted.tfm"\n'
    )
    file = file_of(study, result)
    found = certificates.PairCertificate.of(read_study(study), "case", read_certificate(file), file)
    assert found.notes[0] == "good is the project's transform, not the file that this study has for good"
