"""What the program writes: whatever a received project or study holds, nothing outside the stated folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import uuid
from pathlib import Path

import numpy as np
import pytest

from audit_tools import Audit, audited
from project.tools import draft, grid_points, place, query, write_images
from study_tools import make_study
from warpgauge.errors import FileFormatError, InvalidInputError, SuspiciousDataWarning, WarpgaugeError
from warpgauge.io.inside import Inside, checked_id, copy_tree, file_name, name_problem
from warpgauge.io.transforms import AffineTransform, write_transform
from warpgauge.project import Project
from warpgauge.project.integrity import verify_project

HOSTILE = [
    "../victim", "..", ".", "", "/etc/x", "a/../../victim", "a//b", "a\\..\\b", "C:\\x", "C:x", "\\\\host\\share",
    "a\0b", "a\nb", "\u2025/x", "\uff0e\uff0e/x", "a\uff0f..\uff0fb", "x" * 300, "\ud800",
]  # fmt: skip
HOSTILE_IDS = [*HOSTILE, "../projects/victim", "CON", "0B9F4C1E-7D3A-4C55-9A51-3F0F5D9C2E77", "urn:uuid:x",
               "{0b9f4c1e-7d3a-4c55-9a51-3f0f5d9c2e77}", "0b9f4c1e7d3a4c559a513f0f5d9c2e77"]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_leads_elsewhere_is_no_path(name: str, tmp_path: Path) -> None:
    """Whatever the system, and also after normalisation of its characters, a hostile name makes no path."""
    with pytest.raises(FileFormatError, match="is not used"):
        Inside(tmp_path, name)


def test_names_of_windows_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device names are refused where they are devices; labels never become one, nor too long, nor each other."""
    monkeypatch.setattr("warpgauge.io.inside._WINDOWS", True)
    for name in ("con", "NUL.txt", "a/COM1", "lpt¹.csv", "x.", "x ", "a:b", "a/con .txt"):
        assert name_problem(name) is not None, name
        assert name_problem(file_name(name)) is None, name
    assert name_problem("console/a.txt") is None
    labels = ["CON", "con", "../../x", "", "é" * 300, "é" * 301, "..", "a/b", "NUL.tfm"]
    assert len({file_name(label).casefold() for label in labels[3:6]}) == 3
    assert all("/" not in file_name(label) and len(file_name(label).encode()) <= 100 for label in labels)


def test_links_and_devices_are_refused_when_a_path_is_used(tmp_path: Path) -> None:
    """A link out of the folder, at any part, also one that was made after the check of the name; a pipe as well."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "file").write_text("secret")
    one = Inside(root, "a/file")
    assert one.path == root / "a" / "file"
    (root / "a").symlink_to(outside, target_is_directory=True)
    with pytest.raises(FileFormatError, match="a link to a place outside"):
        os.fspath(one)
    os.mkfifo(root / "pipe")
    with pytest.raises(FileFormatError, match="a pipe"):
        os.fspath(Inside(root, "pipe"))
    (root / "b").mkdir()
    (root / "b" / "file").write_text("mine")
    (root / "c").symlink_to(root / "b" / "file")
    assert Inside(root, "c").path.read_text() == "mine"
    with pytest.raises(FileFormatError, match="a link to a place outside"):
        copy_tree(root, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("text", HOSTILE_IDS)
def test_an_id_is_a_uuid(text: str) -> None:
    """An identifier goes into paths and keys, so that it has one form."""
    with pytest.raises(InvalidInputError, match="must be a UUID"):
        checked_id(text)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its images, two raters with annotations, and transforms, all with hostile names."""
    folder = tmp_path_factory.mktemp("template")
    fixed, moving = write_images(folder / "pictures")
    write_transform(AffineTransform(np.eye(2), [1.0, 0.5]), folder / "one.tfm")
    with Project.create(folder / "project", fixed=fixed, moving=moving, candidates=grid_points(), copy=True) as project:
        number = 0
        for rater in ("../../victim/rater", "=HYPERLINK(1)"):
            for x, y in grid_points(3, 3):
                project.append(query(number, (x, y), rater), place(number, (x + 1, y), rater))
                number += 1
        for name in ("../../victim/method", "CON"):
            project.add_transform(name, folder / "one.tfm")
    return folder / "project"


class Setting:
    """A received project beside a victim's, and everything that was there before."""

    def __init__(self, template: Path, folder: Path) -> None:
        self.folder, self.project = folder, folder / "received" / "project"
        shutil.copytree(template, self.project)
        for name in ("projects/victim", "victim", "mirrors"):
            (folder / name).mkdir(parents=True)
        for name in ("project.json", "candidates.npz", "targets.npz", "events.jsonl"):
            for victim in ("projects/victim", "victim"):
                (folder / victim / name).write_text("the victim's")
        (folder / "out").mkdir()

    def steps(self) -> list[list[str]]:
        """Return every command that writes, on the project."""
        project, out = str(self.project), self.folder / "out"
        study = out / "study.toml"
        study.write_text(
            f'[[pair]]\nname = "one"\nproject = {json.dumps(project)}\n'
            '[[method]]\nname = "CON"\n[settings]\nsamples = 20\nbootstrap = 20\n'
        )
        return [
            ["verify", project],
            ["info", project],
            ["suggest", project],
            ["evaluate", project],
            ["export", project, str(out / "marks.csv"), "--fused"],
            ["map", project, "sd", str(out / "sd.nrrd")],
            ["report", project, "--no-maps"],
            ["benchmark", str(study), "--leaderboard", str(out / "board.html")],
            ["mirror", project, str(self.folder / "mirrors")],
            ["serve", project],
            ["verify", project, "--mend"],
        ]

    def run(self, *commands: str) -> Audit:
        """Run all steps, or those of some commands, and prove that nothing outside was written to."""
        before = self._outside()
        steps = [step for step in self.steps() if not commands or step[0] in commands]
        found = audited(steps, self.folder / "own")
        assert self._outside() == before
        stated = [self.project, self.folder / "out", self.folder / "own"]
        inside = found.outside(*stated)
        stored = json.loads((self.project / "project.json").read_text())["id"]
        mirrored = self.folder / "mirrors" / str(stored).replace("\0", "")[:36]
        good = _is_uuid(stored)
        assert [one for one in inside if not (good and Path(one).is_relative_to(mirrored))] == []
        assert found.forbidden == ()
        for code, text in found.outcomes:
            assert "Traceback" not in text
            assert code in (0, 1)
        return found

    def _outside(self) -> dict[str, str]:
        kept = ("received", "out", "own", "mirrors")
        files = [one for one in self.folder.rglob("*") if one.relative_to(self.folder).parts[0] not in kept]
        return {str(one): _digest(one) for one in files}


def _is_uuid(text: object) -> bool:
    try:
        return str(uuid.UUID(str(text))) == text
    except ValueError:
        return False


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"


@pytest.fixture
def setting(template: Path, tmp_path: Path) -> Setting:
    return Setting(template, tmp_path)


def test_all_writes_lie_in_the_stated_folders(setting: Setting) -> None:
    """Every command works on a project whose raters and transforms have hostile names, and writes where it says."""
    found = setting.run()
    assert [code for code, _ in found.outcomes] == [0] * len(found.outcomes), found.outcomes


def test_copied_images_lie_in_the_stated_folders(setting: Setting) -> None:
    """``new --copy`` of a received image that is a link, with a hostile name and masks."""
    received = setting.folder / "received"
    fixed, moving = write_images(setting.folder / "pictures")
    link = received / "..\\victim.png"
    link.symlink_to(fixed)
    out = setting.folder / "out"
    made = str(out / "new")
    steps = [
        ["new", made, "--fixed", str(link), "--moving", str(moving), "--fixed-mask", str(link), "--copy"],
    ]
    before = setting._outside()
    found = audited(steps, setting.folder / "own")
    assert [code for code, _ in found.outcomes] == [0], found.outcomes
    assert found.outside(out, setting.folder / "own") == []
    assert found.forbidden == ()
    assert setting._outside() == before
    copied = [one for one in (out / "new").rglob("*") if one.is_file()]
    assert not any(one.is_symlink() for one in copied)
    assert any(one.read_bytes() == fixed.read_bytes() for one in copied)


def test_registrations_write_into_the_project_alone(setting: Setting) -> None:
    """``register`` works in processes of its own, which the hook does not see: every file outside stays as it was."""
    before = setting._outside()
    command = ["register", str(setting.project), "--jobs", "1", "--time-limit", "60"]
    found = audited([command], setting.folder / "own")
    assert found.outcomes[0][0] == 0, found.outcomes
    assert found.outside(setting.project, setting.folder / "own") == []
    assert setting._outside() == before
    assert not any((setting.folder / name).is_dir() and any((setting.folder / name).iterdir()) for name in ("mirrors",))


def with_id(folder: Path, text: str) -> None:
    """Change the identifier of a project, in its document and in its log."""
    content = json.loads((folder / "project.json").read_text())
    (folder / "project.json").write_text(json.dumps({**content, "id": text}))
    connection = sqlite3.connect(folder / "annotations.sqlite")
    with connection:
        stored = text.encode("utf-8", "replace").decode()
        connection.execute("UPDATE meta SET value = ? WHERE key = 'project'", (stored,))
    connection.close()


@pytest.mark.parametrize("text", ["../projects/victim", "/tmp", "CON"])
def test_a_project_with_a_hostile_id_writes_nothing(setting: Setting, text: str) -> None:
    """The identifier named a mirror's folder, and with it any folder: now no command opens such a project."""
    with_id(setting.project, text)
    found = setting.run()
    assert not verify_project(setting.project).ok
    for (code, told), step in zip(found.outcomes, setting.steps(), strict=True):
        assert code == 1, step
        assert "must be a UUID" in told, (step, told)
    assert not any((setting.folder / "mirrors").iterdir())


def test_a_mirror_of_another_log_is_not_touched(setting: Setting) -> None:
    """A project that took the identifier of another does not get its document into the other's mirror."""
    with Project.open(setting.project) as project:
        project.use_mirror(setting.folder / "mirrors")
        mirrored = setting.folder / "mirrors" / project.id
        project.append(draft("start", "ada"))
    before = {one.name: _digest(one) for one in mirrored.iterdir()}
    content = json.loads((setting.project / "project.json").read_text())
    (setting.project / "project.json").write_text(json.dumps({**content, "program": "hostile"}))
    with sqlite3.connect(setting.project / "annotations.sqlite") as connection:
        connection.execute("DROP TRIGGER IF EXISTS events_are_never_deleted")
        connection.execute("DELETE FROM events WHERE generation > 3")
    connection.close()
    with pytest.warns(SuspiciousDataWarning, match="36 events are missing"):
        opened = Project.open(setting.project)
    with opened, pytest.raises(WarpgaugeError, match="36 events are missing"):
        opened.use_mirror(setting.folder / "mirrors")
    assert {one.name: _digest(one) for one in mirrored.iterdir()} == before


def test_hard_links_are_never_written_through(setting: Setting, template: Path) -> None:
    """Each file that the commands write is a second name of a victim's file: the victim's stays as it is."""
    setting.run()
    written = [one for one in setting.project.rglob("*") if one.is_file()]
    names = [one.relative_to(setting.project) for one in written]
    shutil.rmtree(setting.project)
    shutil.copytree(template, setting.project)
    for name in ("out", "own", "mirrors"):
        shutil.rmtree(setting.folder / name)
        (setting.folder / name).mkdir()
    kept = setting.folder / "kept"
    in_place = [name for name in names if name.name.startswith(("annotations.", "people.lock"))]
    assert Path("people.lock") in in_place
    for number, name in enumerate(name for name in names if name not in in_place):
        kept.mkdir(exist_ok=True)
        victim = kept / str(number)
        victim.write_bytes((setting.project / name).read_bytes() if (setting.project / name).exists() else b"victim")
        (setting.project / name).unlink(missing_ok=True)
        (setting.project / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(victim, setting.project / name)
    setting.run()


@pytest.mark.parametrize("name", ["people.lock", "annotations.sqlite", "annotations.sqlite-journal"])
def test_a_hard_link_that_would_be_written_in_place(setting: Setting, name: str) -> None:
    """A log, its journal or the people's lock with a second name is refused; the other name keeps its content."""
    victim = setting.folder / "victim" / "precious"
    path = setting.project / name
    victim.write_bytes(path.read_bytes() if path.exists() else b"precious")
    path.unlink(missing_ok=True)
    os.link(victim, path)
    before = victim.read_bytes()
    found = setting.run("info", "suggest", "mirror", "serve")
    assert victim.read_bytes() == before
    assert [code for code, _ in found.outcomes] == [1] * 4
    assert all("second name" in text for _, text in found.outcomes)
    with pytest.raises(WarpgaugeError, match="second name"):
        Project.open(setting.project)


def test_a_mirror_with_a_second_name_is_not_written(setting: Setting) -> None:
    """The copy of the log that lies in the mirror is a victim's file: no event is appended to it."""
    victim = setting.folder / "victim" / "empty"
    victim.touch()
    with Project.open(setting.project) as project:
        (setting.folder / "mirrors" / project.id).mkdir()
        os.link(victim, setting.folder / "mirrors" / project.id / "events.jsonl")
        with pytest.raises(WarpgaugeError, match="second name"):
            project.use_mirror(setting.folder / "mirrors")
    assert victim.read_bytes() == b""


@pytest.mark.parametrize("name", ["study-results", "study-results/pairs"])
def test_results_of_a_received_study_do_not_follow_links(tmp_path: Path, name: str) -> None:
    """The folder of results that stands beside a study may be a link to anywhere: it is not written to."""
    received, victim = tmp_path / "received", tmp_path / "victim"
    received.mkdir()
    victim.mkdir()
    study = make_study(received, pairs=1).rename(received / "study.toml")
    results = received / name
    results.parent.mkdir(exist_ok=True)
    results.symlink_to(victim, target_is_directory=True)
    found = audited([["benchmark", str(study)]], tmp_path / "own")
    assert [code for code, _ in found.outcomes] == [1]
    assert all("a link to a place outside" in text for _, text in found.outcomes)
    assert not any(victim.iterdir())
    assert found.outside(received, tmp_path / "own") == []


def test_the_numbers_of_a_study_replace_a_link(tmp_path: Path) -> None:
    """``study.json`` in a received folder of results is replaced, not written through."""
    received, victim = tmp_path / "received", tmp_path / "victim"
    received.mkdir()
    victim.write_text("precious")
    study = make_study(received, pairs=1).rename(received / "study.toml")
    (received / "study-results").mkdir()
    (received / "study-results" / "study.json").symlink_to(victim)
    found = audited([["benchmark", str(study)]], tmp_path / "own")
    assert found.outcomes[0][0] == 0
    assert victim.read_text() == "precious"
