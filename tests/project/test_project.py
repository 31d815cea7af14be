"""Projects are made, opened, moved, linked anew and verified; nothing is believed that can be checked."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psycopg
import pytest
from PIL import Image

from command_tools import call
from project.tools import EITHER_STORE, draft, edit, grid_points, place, query, run_statement, write_images
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.project import NotAllowedError, Project, ProjectError, Settings, StorageError
from warpgauge.project.postgres import lock_key

Make = Callable[..., Project]


@EITHER_STORE
def test_created_project_says_what_it_holds(make_project: Make, tmp_path: Path) -> None:
    """Frames, units, points and settings are those that were given; images are referenced by a relative path."""
    project = make_project(settings={"alpha": 0.05, "budget": 40}, spacing=0.5, units="um", candidates=9)
    assert project.units == "um"
    assert project.fixed_grid.size == (64, 48)
    assert np.array_equal(project.fixed_grid.spacing, [0.5, 0.5])
    assert project.settings == Settings(alpha=0.05, budget=40)
    content = json.loads((project.folder / "project.json").read_text())
    assert content["images"]["fixed"]["path"] == "../pictures/fixed.png"
    assert str(tmp_path) not in (project.folder / "project.json").read_text()
    again = Project.open(project.folder)
    assert again.id == project.id
    assert np.array_equal(again.candidates, project.candidates)


def test_points_keep_their_numbers(make_project: Make) -> None:
    """Candidates given as an array come back in their order, and targets of the whole image cover all of them."""
    project = make_project()
    assert np.array_equal(project.candidates, grid_points())
    assert project.document.targets.covers_candidates
    assert project.fixed_grid.contains(project.targets).all()


def test_candidates_and_targets_in_a_mask(make_project: Make, tmp_path: Path) -> None:
    """With a mask, corners and targets lie in it, and suggestions need no separate target set."""
    mask = np.zeros((48, 64), np.uint8)
    mask[10:40, 20:60] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    project = make_project(candidates=25, fixed_mask=tmp_path / "mask.png", copy=True)
    for points in (project.candidates, project.targets):
        index = np.round(project.fixed_grid.world_to_index(points)).astype(int)
        assert (mask[index[:, 1], index[:, 0]] > 0).all()
    assert 5 <= len(project.candidates) <= 25
    assert len(project.targets) == 30 * 40
    assert project.document.targets.covers_candidates
    assert project.image("fixed_mask").read().sum() == mask.sum()


def test_targets_elsewhere_do_not_cover(make_project: Make, tmp_path: Path) -> None:
    """Targets from labels or a list of points stand for themselves only."""
    labels = np.zeros((48, 64), np.uint8)
    labels[20:30, 20:30] = 7
    Image.fromarray(labels).save(tmp_path / "labels.png")
    spec = {"kind": "labels", "path": tmp_path / "labels.png", "label": 7, "edge": True}
    project = make_project(targets=spec)
    assert len(project.targets) == 4 * 10 - 4  # the rim of a 10 x 10 square
    assert not project.document.targets.covers_candidates
    assert "labels.png" in project.document.targets.method
    other = make_project("other", targets=[[1.0, 2.0], [3.0, 4.0]])
    assert np.array_equal(other.targets, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"candidates": [[1000.0, 0.0]]}, "outside the fixed image"),
        ({"candidates": [[5.0, 5.0], [5.0, 5.0]]}, "occurs 2 times"),
        ({"candidates": {"kind": "corners", "counts": 3}}, "specification of the points is wrong"),
        ({"targets": {"kind": "mask"}}, "no mask is given"),
        ({"targets": {"kind": "cloud"}}, "kind of targets must be"),
        ({"settings": {"alpha": 2}}, "alpha of the settings is wrong"),
        ({"settings": {"colour": "red"}}, "no setting 'colour'"),
        ({"settings": {"budget": 2.5}}, "budget of the settings is wrong"),
        ({"settings": {"model": "best"}}, "should be 'default' or 'paper'"),
        ({"spacing": {"fixed": 1.0, "moved": 2.0}}, "not for 'moved'"),
        ({"spacing": {"fixed": 0.5, "moving": None}, "candidates": 5}, "units"),
    ],
)
def test_creation_refuses_nonsense_and_leaves_nothing(
    make_project: Make, tmp_path: Path, options: dict[str, object], sentence: str
) -> None:
    """A project that cannot be made says why, and no folder is left behind."""
    with pytest.raises(InvalidInputError, match=sentence):
        make_project(**options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures"]


def test_creation_refuses_an_existing_folder(make_project: Make, tmp_path: Path) -> None:
    """Nothing is ever written over; an empty folder is taken."""
    (tmp_path / "project").mkdir()
    project = make_project()
    with pytest.raises(InvalidInputError, match="exists already"):
        make_project()
    assert Project.open(project.folder).id == project.id


def test_a_moved_project_with_copies_opens(make_project: Make, tmp_path: Path) -> None:
    """A project that holds copies of its images can be moved anywhere, alone."""
    with make_project(copy=True) as project:
        project.append(query(0), place(0))
    shutil.rmtree(tmp_path / "pictures")
    folder = (
        Path(shutil.move(project.folder, tmp_path / "far" / "away")) if (tmp_path / "far").mkdir() is None else None
    )
    with Project.open(folder) as moved:
        assert moved.state.placement("ada", 0).moving == (11.0, 12.0)
        assert moved.image("moving").read().shape == (48, 64)
        assert moved.verify().ok


def test_a_project_moved_together_with_its_images_opens(make_project: Make, tmp_path: Path) -> None:
    """References are relative: moving images and project together changes nothing."""
    make_project().close()
    (tmp_path / "else").mkdir()
    for name in ("pictures", "project"):
        shutil.move(tmp_path / name, tmp_path / "else" / name)
    with Project.open(tmp_path / "else" / "project") as moved:
        assert moved.verify().ok


def test_a_lost_image_is_named_and_linked_anew(make_project: Make, tmp_path: Path) -> None:
    """The sentence says where the image was looked for and what to do; linking it anew mends the project."""
    make_project().close()
    shutil.move(tmp_path / "pictures", tmp_path / "album")
    with pytest.warns(SuspiciousDataWarning) as caught:
        project = Project.open(tmp_path / "project")
    said = str(caught[0].message)
    assert f"fixed image is not at {str(tmp_path / 'pictures' / 'fixed.png')!r}" in said
    assert "--fixed PATH" in said
    with pytest.raises(ProjectError, match="is not at"):
        project.image("fixed")
    with pytest.raises(InvalidInputError, match="its content differs"):
        project.relink(fixed=tmp_path / "album" / "moving.png")
    project.relink(fixed=tmp_path / "album" / "fixed.png", moving=tmp_path / "album" / "moving.png")
    project.close()
    with Project.open(tmp_path / "project") as mended:
        assert mended.verify().ok
        told = mended.events()[-1]
        assert (told.kind, sorted(told.images)) == ("relink", ["fixed", "moving"])


def test_a_changed_image_is_noticed(make_project: Make, tmp_path: Path) -> None:
    """One changed pixel is noticed on opening, by verify, and before the image is shown."""
    make_project().close()
    path = tmp_path / "pictures" / "moving.png"
    array = np.array(Image.open(path))
    array[5, 5] ^= 1
    Image.fromarray(array).save(path)
    with pytest.warns(SuspiciousDataWarning, match="moving image at .* has changed since"):
        project = Project.open(tmp_path / "project")
    with pytest.raises(ProjectError, match="has changed"):
        project.image("moving")
    assert any("moving image" in problem and "has changed" in problem for problem in project.verify().problems)
    project.relink(moving=path, accept_changed=True)
    assert project.verify().ok
    Image.fromarray(array[:-1]).save(path)
    with pytest.raises(InvalidInputError, match="another frame"):
        project.relink(moving=path, accept_changed=True)


def test_header_and_data_are_copied_together(tmp_path: Path) -> None:
    """An image of several files is copied whole, and a change of its data file is noticed."""
    rng = np.random.default_rng(0)
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b"):
        (source / f"{name}.raw").write_bytes(rng.integers(0, 255, (12, 16, 20), dtype=np.uint8).tobytes())
        (source / f"{name}.mhd").write_text(
            "ObjectType = Image\nNDims = 3\nDimSize = 20 16 12\nElementSpacing = 1 1 2\nElementType = MET_UCHAR\n"
            f"ElementByteOrderMSB = False\nElementDataFile = {name}.raw\n"
        )
    spec = {"kind": "domain", "count": 30}
    project = Project.create(
        tmp_path / "p", fixed=source / "a.mhd", moving=source / "b.mhd", candidates=spec, units="mm", copy=True
    )
    shutil.rmtree(source)
    assert project.d == 3
    assert project.verify().ok
    data = next((project.folder / "images").rglob("b.raw"))
    status = data.stat()
    data.write_bytes(bytes(len(data.read_bytes())))
    assert "moving image" in project.image_problems()[0]
    # Opening trusts size and time of change; verify does not.
    os.utime(data, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert project.image_problems() == []
    assert "moving image" in project.verify().problems[0]


def test_damaged_points_are_refused(make_project: Make) -> None:
    """Other candidates under the same numbers would give every query another meaning."""
    project = make_project()
    np.savez_compressed(project.folder / "candidates.npz", points_world=grid_points() + 1)
    with pytest.raises(ProjectError, match="not the file that the project was made with"):
        _ = Project.open(project.folder).candidates
    assert any("candidates" in problem for problem in project.verify().problems)


COPIED = (
    "time, 'eve', kind, query, duration, base_generation, payload, digest FROM EVENTS WHERE generation = 1 AND MINE"
)


@EITHER_STORE
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE EVENTS SET rater = 'eve' WHERE generation = 1 AND MINE",
        "DELETE FROM EVENTS WHERE generation = 2 AND MINE",
        "INSERT OR REPLACE INTO EVENTS SELECT 1, " + COPIED,
        "INSERT INTO EVENTS SELECT 9, " + COPIED,
        "TRUNCATE EVENTS",
    ],
)
def test_the_database_itself_refuses_changes(make_project: Make, store: str, statement: str) -> None:
    """Triggers forbid changing, deleting, replacing and leaving gaps, whoever writes."""
    if store == "postgres":
        statement = statement.replace("INSERT OR REPLACE", "INSERT").replace("SELECT ", "SELECT project, ")
    elif statement.startswith("TRUNCATE"):
        statement = "DELETE FROM EVENTS"
    with make_project() as project:
        project.append(query(0), place(0))
        before = project.events()
        with pytest.raises(
            (sqlite3.IntegrityError, psycopg.errors.RaiseException),
            match=r"events are never|generations have no gaps",
        ):
            run_statement(project, statement)
        assert project.events() == before
        assert project.verify().ok


@EITHER_STORE
def test_verify_notices_events_that_were_altered(make_project: Make, store: str) -> None:
    """Who removes the triggers and rewrites an event is found out by the chain of digests and the missing trigger."""
    trigger = "events_are_never_changed"
    with make_project() as project:
        project.append(query(0), place(0), edit(0, (5.0, 5.0)))
        project.close()
        off = f"DROP TRIGGER {trigger}" if store == "sqlite" else f"ALTER TABLE EVENTS DISABLE TRIGGER {trigger}"
        run_statement(project, off)
        run_statement(
            project, "UPDATE EVENTS SET payload = replace(payload, '5.0', '6.0') WHERE generation = 3 AND MINE"
        )
        problems = project.verify().problems
        if store == "postgres":  # shared with the other tests
            run_statement(project, f"ALTER TABLE EVENTS ENABLE TRIGGER {trigger}")
    assert any(trigger in problem for problem in problems)
    assert any("Event 3 (place by ada) is not what was written" in problem for problem in problems)


def test_verify_notices_a_log_that_cannot_be_replayed(make_project: Make) -> None:
    """A log cut at its beginning, or damaged as a file, is a problem in a sentence, not an exception."""
    with make_project() as project:
        project.append(query(0), place(0))
    path = project.folder / "annotations.sqlite"
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    assert any("damaged" in problem or "cannot be read" in problem for problem in project.verify().problems)
    path.write_bytes(b"not a database at all" * 100)
    assert any("damaged" in problem for problem in project.verify().problems)
    with pytest.raises(ProjectError, match="damaged"):
        Project.open(project.folder)
    path.unlink()
    with pytest.raises(ProjectError, match=r"no 'annotations\.sqlite'"):
        Project.open(project.folder)


def test_a_newer_project_is_refused(make_project: Make) -> None:
    """A log or document of a later version says so, and is left untouched."""
    project = make_project()
    project.close()
    run_statement(project, "PRAGMA user_version = 8")
    with pytest.raises(ProjectError, match=r"another version of warpgauge \(log version 8"):
        Project.open(project.folder)
    path = project.folder / "project.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "version": 7}))
    with pytest.raises(ProjectError, match=r"another version of warpgauge \(project version 7"):
        Project.open(project.folder)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("{", "not JSON"), ("[]", "does not describe"), ('{"kind": "warpgauge project", "version": 6}', "understood")],
)
def test_a_damaged_document_is_one_sentence(make_project: Make, text: str, sentence: str) -> None:
    """project.json that is cut or foreign is refused with what to do."""
    project = make_project()
    (project.folder / "project.json").write_text(text)
    with pytest.raises(ProjectError, match=sentence):
        Project.open(project.folder)


def test_mixed_projects_are_refused(make_project: Make) -> None:
    """The log of one project under the document of another is found out."""
    one, other = make_project("one"), make_project("other")
    one.close()
    other.close()
    shutil.copy(one.folder / "annotations.sqlite", other.folder / "annotations.sqlite")
    with pytest.raises(ProjectError, match="belongs to another project"):
        Project.open(other.folder)


def test_not_a_project(tmp_path: Path) -> None:
    """A folder that is none, and a path that is no folder, say so."""
    with pytest.raises(ProjectError, match=r"no project\.json"):
        Project.open(tmp_path)
    with pytest.raises(ProjectError, match="not a folder"):
        Project.open(tmp_path / "nowhere")


@EITHER_STORE
def test_several_events_are_written_together_or_not_at_all(make_project: Make) -> None:
    """Where one of several events is refused, none is written."""
    with make_project() as project:
        with pytest.raises(InvalidInputError, match="cannot restore this query, which is placed"):
            project.append(query(0), place(0), draft("restore", "ada", 0))
        assert project.events() == []
        project.append(query(0), place(0), edit(0, (2.0, 2.0)))
        assert project.state.generation == 3


@EITHER_STORE
def test_two_openings_follow_each_other(make_project: Make) -> None:
    """What one process writes the other sees, and a stale action of the same rater is a conflict with that event."""
    from warpgauge.project import ConflictError

    with make_project() as one, Project.open(one.folder) as other:
        one.append(query(0))
        seen = other.state.generation
        one.append(place(0))
        with pytest.raises(ConflictError, match=r"^ada changed this answer at .* \(generation 2, place\)") as caught:
            other.append(place(0, (1.0, 1.0), base_generation=seen))
        assert caught.value.newer == one.events()[-1]
        assert other.state == one.state


@EITHER_STORE
def test_settings_change_for_all(make_project: Make) -> None:
    """A change of settings is an event of its own, and seen by other processes when they next look."""
    with make_project() as one, Project.open(one.folder) as other:
        one.change_settings(blind=False, budget=12)
        with pytest.raises(InvalidInputError, match="budget"):
            one.change_settings(budget=-1)
        other.sync()
        assert (other.settings.blind, other.settings.budget) == (False, 12)
        last = other.events()[-1]
        assert (last.kind, last.changes) == ("settings", {"blind": False, "budget": 12})
    with Project.open(one.folder) as again:
        assert (again.settings.blind, again.settings.budget) == (False, 12)


@EITHER_STORE
def test_roles(make_project: Make) -> None:
    """Where people are registered, raters cannot organise; before, everybody may."""
    with make_project() as project:
        project.append(query(0), place(0))
        project.append(
            draft("exclude", "ada", 0, {"of": "ada"}), draft("exclude", "ada", 0, {"of": "ada", "excluded": False})
        )
        project.add_rater("ada")
        assert project.state.role("organiser") == "organiser"
        with pytest.raises(NotAllowedError, match="ada is a rater of this project and may not exclude"):
            project.append(draft("exclude", "ada", 0, {"of": "ada"}))
        with pytest.raises(NotAllowedError, match="ada is a rater of this project and may not change the settings"):
            project.change_settings("ada", alpha=0.1)
        project.append(draft("exclude", "organiser", 0, {"of": "ada"}))
        with pytest.raises(NotAllowedError, match="organiser is the only organiser: register another one first"):
            project.add_rater("organiser", "rater")  # or nobody could ever register anybody again
        project.add_rater("otto", "organiser")
        project.add_rater("organiser", "rater", by="otto")
        assert project.state.role("organiser") == "rater"


@EITHER_STORE
def test_transforms_are_copied_with_their_hash(make_project: Make, tmp_path: Path) -> None:
    """An added transform lives in the project; a change of its file is noticed; removing keeps the history."""
    source = tmp_path / "affine.txt"
    source.write_text("1 0 0\n0 1 0\n")
    with make_project() as project:
        project.add_transform("my affine/1", source, options={"format": "matrix"})
        with pytest.raises(InvalidInputError, match="'my affine/1' already"):
            project.add_transform("my affine/1", source)
        project.add_transform("my affine/1", source, replace=True)
        record = project.state.transforms["my affine/1"]
        assert record.files == ("transforms/my_affine_1-2/affine.txt",)
        assert project.verify().ok
        (project.folder / record.files[0]).write_text("2 0 0\n0 1 0\n")
        assert "has changed" in project.verify().problems[0]
        project.remove_transform("my affine/1")
        assert project.state.transforms == {}
        with pytest.raises(InvalidInputError, match="no transform"):
            project.remove_transform("my affine/1")


def test_a_reference_stays_one(make_project: Make, tmp_path: Path) -> None:
    """A reference is kept through a new opening; anything but true or false is refused."""
    source = tmp_path / "affine.txt"
    source.write_text("1 0 0\n0 1 0\n")
    with make_project() as project:
        project.add_transform("plain", source)
        project.add_transform("panel", source, reference=True)
        folder = project.folder
        wrong = {"name": "x", "files": ["transforms/x/a.txt"], "hashes": ["h"], "options": {}, "reference": "yes"}
        with pytest.raises(InvalidInputError, match="reference of an event"):
            project.append(draft("transform", "organiser", None, wrong))
        project.add_rater("organiser", "organiser")
        project.add_rater("ada", "rater")
        project.add_transform("of ada", source, rater="ada")
        with pytest.raises(NotAllowedError, match="ada is a rater"):
            project.add_transform("panel of ada", source, reference=True, rater="ada")
        for touch in (
            lambda: project.remove_transform("panel", rater="ada"),
            lambda: project.add_transform("panel", source, replace=True, rater="ada"),
        ):
            with pytest.raises(NotAllowedError, match="ada is a rater"):
                touch()
    with Project.open(folder) as project:
        assert project.reference_names() == ["panel"]


@EITHER_STORE
def test_the_wait_for_another_writer_ends(make_project: Make, store: str) -> None:
    """A writer that holds the log for too long ends in a sentence; when it lets go, work goes on."""
    with make_project() as project:
        project.append(query(0))
        project.log.busy_seconds = 0.2
        if store == "sqlite":
            holder = sqlite3.connect(project.folder / "annotations.sqlite", isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
        else:
            holder = psycopg.connect(project.document.database)
            holder.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key(project.id),))
        with pytest.raises(StorageError, match=r"held by other (processes|servers) for too long.*not saved"):
            project.append(place(0))
        holder.execute("ROLLBACK")
        holder.close()
        project.append(place(0))


def test_odd_folder_names(tmp_path: Path) -> None:
    """A folder whose name has blanks, percent signs, question marks and letters of other scripts works."""
    fixed, moving = write_images(tmp_path / "pictures")
    folder = tmp_path / "a b%20?c#d ä 日本"
    with Project.create(folder, fixed=fixed, moving=moving, candidates=grid_points()) as project:
        project.append(query(0), place(0))
    with Project.open(folder) as again:
        assert again.verify().ok
        assert again.state.generation == 2


def test_a_transform_is_read_with_its_stored_options(make_project: Make, tmp_path: Path) -> None:
    """Transforms added by the command line map points with their options, also when their files are gone elsewhere."""
    origin = tmp_path / "elastix"
    origin.mkdir()
    first, second = origin / "first.txt", origin / "second.txt"
    common = (
        '(Transform "TranslationTransform")\n(NumberOfParameters 2)\n(FixedImageDimension 2)\n'
        '(MovingImageDimension 2)\n(HowToCombineTransforms "Compose")\n'
    )
    first.write_text(common + '(TransformParameters 1 2)\n(InitialTransformParametersFileName "NoInitialTransform")\n')
    second.write_text(common + f'(TransformParameters 10 20)\n(InitialTransformParametersFileName "{first}")\n')
    inverse = tmp_path / "inverse.txt"
    inverse.write_text("1 0 -3\n0 1 5\n0 0 1\n")
    project = make_project()
    call("add-transform", project.folder, "chain", second)
    call("add-transform", project.folder, "inverse", inverse, "--direction", "moving_to_fixed")
    shutil.rmtree(origin)
    with Project.open(project.folder) as opened:
        assert opened.transform_names() == ["chain", "inverse"]
        np.testing.assert_allclose(opened.transform("chain").map(np.array([[4.0, 5.0]])), [[15.0, 27.0]])
        np.testing.assert_allclose(opened.transform("inverse").map(np.array([[4.0, 5.0]])), [[7.0, 0.0]])
        again = opened.transform("inverse", options={"direction": "fixed_to_moving"})
        np.testing.assert_allclose(again.map(np.array([[4.0, 5.0]])), [[1.0, 10.0]])
        with pytest.raises(InvalidInputError, match="no transform 'other'; it has chain, inverse"):
            opened.transform("other")
    project.close()
