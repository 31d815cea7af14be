"""What earlier versions wrote is read as before: logs, project documents, certificates, results of studies.

The files in ``stored`` were made once and stay as they are; ``stored/README.md`` says by what. What was read from them
then is in JSON files beside them; ``python -m golden.stored`` in the folder ``tests`` writes these anew.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from command_tools import call
from golden.figures import differences, here
from golden.refusals import FILE, sentences
from golden.stored import LOGS, STORED, checked_certificate, interface, study_told, unpacked, what_is_seen
from warpgauge.evaluation import check_certificate, read_certificate
from warpgauge.project import Project


def recorded(name: str) -> Any:
    return json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))


def same(name: str, found: Any) -> list[str]:
    """Compare with the record: to the last digit with its versions and processor, else to a millionth."""
    before = recorded(name)
    return list(differences(before["seen"], json.loads(json.dumps(found)), before["recorded with"] == here()))


@pytest.mark.parametrize("name", LOGS)
def test_a_log_says_what_it_said(name: str, tmp_path: Path) -> None:
    """A log of each version: its digests hold, and all that people see of its state is the same."""
    assert same(name, what_is_seen(unpacked(name, tmp_path))) == []


@pytest.mark.parametrize("name", LOGS)
def test_an_event_of_an_old_log_is_never_written_anew(name: str, tmp_path: Path) -> None:
    """Where the log has a chain already, its text stays as it was, whatever the log's version becomes."""
    folder = unpacked(name, tmp_path)
    call("undo", folder, "--rater", "ann")
    with Project.open(folder) as project:
        digests = [event.digest for event in project.events()]
    known = recorded(name)["seen"]["digests"]
    assert digests[: len(known)] == known
    assert len(digests) == len(known) + 1


def test_a_document_of_version_1(tmp_path: Path) -> None:
    """The document of a project with its log in the folder, as version 1 wrote it, opens with the same settings."""
    folder = unpacked("version4", tmp_path)
    content = json.loads((folder / "project.json").read_text(encoding="utf-8"))
    assert content["version"] == 1
    with Project.open(folder) as project:
        assert project.id == content["id"]
        given = project.settings.to_dict()
    assert {name: given[name] for name in content["settings"] if name != "hide_prediction"} == {
        name: value for name, value in content["settings"].items() if name != "hide_prediction"
    }
    assert given["hide_prediction"] is True  # by an event of the log


def test_a_document_of_version_2(tmp_path: Path, postgres: Any) -> None:
    """The document of a project with its log in PostgreSQL, as version 2 wrote it, opens with the same state."""
    folder = unpacked("version4", tmp_path)
    address = postgres.url
    call("copy", folder, address)
    content = json.loads((STORED / "document2.json").read_text(encoding="utf-8"))
    assert content["version"] == 2
    (folder / "project.json").write_text(json.dumps({**content, "database": address}))
    with Project.open(folder, trust=True) as project:
        assert [event.digest for event in project.events()] == recorded("version4")["seen"]["digests"]


@pytest.mark.parametrize("kind", ["open", "sealed", "opened"])
def test_a_certificate_of_schema_1_is_confirmed(kind: str, tmp_path: Path) -> None:
    """Alone and beside its project; of sealed answers, the project confirms the hash where rounding is the same."""
    before = recorded("certificates")
    found = checked_certificate(kind, tmp_path)
    if before["recorded with"] != here():
        del found["with its project"]
    assert found == {key: before["seen"][kind][key] for key in found}


@pytest.mark.parametrize("kind", ["open", "sealed", "opened"])
def test_a_changed_certificate_of_schema_1_is_not_confirmed(kind: str, tmp_path: Path) -> None:
    """A digit more in it is noticed."""
    content = json.loads((STORED / f"certificate-{kind}.json").read_text(encoding="utf-8"))
    content["design_based"]["level"] = 0.951
    (tmp_path / "changed.json").write_text(json.dumps(content))
    found = check_certificate(read_certificate(tmp_path / "changed.json"))
    assert found[0] == "The digest does not match: the file was changed after it was written."
    call("certify", "--check", tmp_path / "changed.json", code=1)


def test_an_exact_certificate_of_schema_3_is_confirmed_by_its_own_rule(tmp_path: Path) -> None:
    """It named the best at alpha / K, with R0 just beyond the farthest answer: by today's rule it would not have."""
    content = read_certificate(STORED / "certificate-exact.json")
    assert (content["schema"], content["design_based"]["best"]) == (3, "one")
    assert "Decided: one is better than two." in call("certify", "--check", STORED / "certificate-exact.json")
    told = check_certificate({**content, "schema": 4})
    assert "The verdict does not follow from the answers: recomputing it gives a different one." in told
    content["answers"]["matches"][0][0] += 1.0
    assert len(check_certificate(content)) == 3


def test_results_of_a_study_are_read_or_computed_alike(tmp_path: Path) -> None:
    """Results that an earlier version kept are those of this one, whether it reads them or computes them anew."""
    assert same("study", study_told(tmp_path)) == []


def test_what_is_stored_is_small() -> None:
    """Some hundred kilobytes at most: this is part of the source."""
    assert sum(file.stat().st_size for file in STORED.iterdir()) < 400_000
    assert all(zipfile.ZipFile(file).testzip() is None for file in STORED.glob("*.zip"))


def test_the_interface_of_the_page_keeps_its_routes_and_fields(tmp_path: Path) -> None:
    """Whatever the server offered in the record it offers now; it may offer more."""
    before, now = recorded("interface")["seen"], interface(unpacked("version4", tmp_path))
    assert list(differences(before, now, True)) == []


def test_what_a_log_refuses_and_in_which_words(tmp_path: Path) -> None:
    """Every check of an event's content, of what may follow, of who may, and of names, with its sentence."""
    said = list(sentences(unpacked("version4", tmp_path)))
    assert said == json.loads(FILE.read_text(encoding="utf-8"))
