"""What a user can do wrong with own files, on the command line as typed: it is refused or said, and can be undone."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

import warpgauge as wg
from study_tools import make_study
from warpgauge.cli.app import run

SHIFT = np.array([14.0, -9.0])
WARPGAUGE = Path(sys.executable).with_name("warpgauge")


def told(*arguments: object, code: int = 0) -> tuple[str, str]:
    """Run a command as its entry point does; return what it says on standard output and on standard error."""
    out, err = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("default")
        result = run([str(one) for one in arguments])
    assert result == code, err.getvalue()
    return out.getvalue(), err.getvalue()


def ask(*arguments: object) -> Any:
    return json.loads(told(*arguments, "--json")[0])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A texture of 360 x 300 pixels, the same moved by (14, -9), and 40 true correspondences."""
    folder = tmp_path_factory.mktemp("wrongs")
    generator = np.random.default_rng(0)
    texture = ndimage.gaussian_filter(generator.normal(size=(400, 460)), 3)
    texture = (255 * (texture - texture.min()) / np.ptp(texture)).astype(np.uint8)
    Image.fromarray(texture[50:350, 50:410]).save(folder / "fixed.png")
    Image.fromarray(texture[59:359, 36:396]).save(folder / "moving.png")
    fixed = generator.uniform([20, 20], [330, 280], (40, 2))
    np.savetxt(folder / "points.txt", fixed)
    (folder / "right.txt").write_text("1 0 14\n0 1 -9\n0 0 1\n")
    (folder / "large.txt").write_text("1 0 56\n0 1 -36\n0 0 1\n")  # of images four times as large
    (folder / "away.txt").write_text("1 0 500\n0 1 0\n0 0 1\n")
    (folder / "solid.txt").write_text("1 0 0 1\n0 1 0 1\n0 0 1 1\n0 0 0 1\n")
    return folder


@pytest.fixture
def project(pair: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    told("new", folder, "--fixed", pair / "fixed.png", "--moving", pair / "moving.png", "--candidates", 50)
    return folder


def fixed_points(pair: Path) -> np.ndarray:
    return np.loadtxt(pair / "points.txt")


def anhir(path: Path, points: np.ndarray, first: int = 0) -> Path:
    rows = [f"{first + row},{x},{y}" for row, (x, y) in enumerate(points)]
    path.write_text("\n".join([",X,Y", *rows]) + "\n")
    return path


@pytest.fixture
def annotated(project: Path, pair: Path, tmp_path: Path) -> Path:
    points = fixed_points(pair)
    told(
        "import",
        project,
        anhir(tmp_path / "f.csv", points),
        anhir(tmp_path / "m.csv", points + SHIFT),
        "--rater",
        "ann",
    )
    return project


def test_a_refused_transform_leaves_the_project_as_it_was(annotated: Path, pair: Path) -> None:
    """A 3D file in a 2D project: exit code 1, nothing added, nothing left in the folder; evaluate goes on working."""
    told("add-transform", annotated, "right", pair / "right.txt")
    before = sorted(str(path) for path in annotated.rglob("*"))
    _, err = told("add-transform", annotated, "solid", pair / "solid.txt", code=1)
    assert "is a 3D transform, but the project is 2D; it was not added" in err
    assert sorted(str(path) for path in annotated.rglob("*")) == before
    assert ask("info", annotated)["transforms"] == ["right"]
    told("evaluate", annotated)
    told("verify", annotated)


def test_a_name_is_replaced_only_when_asked_and_transforms_are_removed(annotated: Path, pair: Path) -> None:
    told("add-transform", annotated, "one", pair / "right.txt")
    _, err = told("add-transform", annotated, "one", pair / "large.txt", code=1)
    assert "has a transform 'one' already; choose another name, or pass --replace" in err
    told("add-transform", annotated, "one", pair / "large.txt", "--scale", 0.25, "--replace")
    assert ask("evaluate", annotated, "one")["transforms"]["one"]["landmark"]["2"] < 1e-9
    assert ask("remove-transform", annotated, "one")["transforms"] == []
    assert "no transform 'one'" in told("remove-transform", annotated, "one", code=1)[1]
    assert (
        "stands for no transform at all" in told("add-transform", annotated, "identity", pair / "right.txt", code=1)[1]
    )
    told("verify", annotated)


def test_a_wrong_scale_and_a_transform_that_leads_nowhere_are_said(annotated: Path, pair: Path) -> None:
    """A transform of images four times as large is worse than none, and right with --scale 0.25."""
    assert "note" not in told("add-transform", annotated, "right", pair / "right.txt")[1]
    _, err = told("add-transform", annotated, "large", pair / "large.txt")
    assert re.search(r"large may be misread: its mean error at the annotations is 49.9 px as it is read", err)
    assert "scale 0.25" in err
    assert "note" not in told("add-transform", annotated, "scaled", pair / "large.txt", "--scale", 0.25)[1]
    _, err = told("add-transform", annotated, "away", pair / "away.txt")
    assert "100 % of the" in err
    assert "targets outside the moving image" in err
    assert "makes things worse" in err


def test_shuffled_rows_are_put_right_by_their_index_and_refused_without(
    project: Path, pair: Path, tmp_path: Path
) -> None:
    """ANHIR files whose moving rows were shuffled: paired by their numbers; renumbered, they are refused."""
    points = fixed_points(pair)
    order = np.random.default_rng(1).permutation(40)
    fixed = anhir(tmp_path / "f.csv", points)
    (tmp_path / "m.csv").write_text(
        ",X,Y\n" + "".join(f"{row},{points[row, 0] + 14},{points[row, 1] - 9}\n" for row in order)
    )
    renumbered = anhir(tmp_path / "r.csv", points[order] + SHIFT, first=1)
    _, err = told("import", project, fixed, renumbered, "--rater", "ann", code=1)
    assert "the rows probably do not correspond: " in err
    assert "--force" in err
    assert ask("info", project)["placed"] == 0
    done = ask("import", project, fixed, tmp_path / "m.csv", "--rater", "ann")
    assert done["placed"] == 40
    assert any("paired by their index; " in one for one in done["assumptions"])
    out = tmp_path / "out.csv"
    told("export", project, out)
    found = wg.read_landmarks(out)
    np.testing.assert_allclose(found.moving_points - found.fixed_points, np.tile(SHIFT, (40, 1)), atol=1e-9)


def test_shuffled_rows_are_not_called_a_mirror(project: Path, pair: Path, tmp_path: Path) -> None:
    """Pairs that do not correspond fit no affine map, so that the sign of its determinant is chance; a flip is told."""
    fixed = anhir(tmp_path / "f.csv", fixed_points(pair))
    for seed in range(6):
        moving = anhir(tmp_path / "m.csv", np.random.default_rng(seed).permutation(fixed_points(pair) + SHIFT))
        said = told("import", project, fixed, moving, code=1)[1]
        assert "mirror" not in said
        assert "the rows probably do not correspond" in said
    flipped = anhir(tmp_path / "m.csv", np.array([359, 0]) + fixed_points(pair) * [-1, 1])
    said = told("import", project, fixed, flipped, code=1)[1]
    assert "so it is a mirror" in said
    assert "the landmarks belong to other images" in said  # the image was not turned over
    turned, over = tmp_path / "turned.png", tmp_path / "over"
    Image.fromarray(np.asarray(Image.open(pair / "fixed.png"))[:, ::-1]).save(turned)
    told("new", over, "--fixed", pair / "fixed.png", "--moving", turned, "--candidates", 50)
    assert "so it is a mirror" in told("import", over, fixed, flipped)[1]


def test_what_is_assumed_is_told_in_options(annotated: Path, pair: Path) -> None:
    """Assumptions of a file and hints at another reading name options, as errors do; an empty list is "none"."""
    assert re.search(r"transforms +none\n", told("info", annotated)[0])
    out, err = told("add-transform", annotated, "large", pair / "large.txt")
    assert "a flirt matrix needs --format fsl." in out
    assert "(--scale 0.25 --replace)" in err
    assert "--format fsl" in str(ask("info", pair / "large.txt"))


def test_row_order_is_said_and_can_be_asked_for(project: Path, pair: Path, tmp_path: Path) -> None:
    points = fixed_points(pair)
    fixed, moving = anhir(tmp_path / "f.csv", points), anhir(tmp_path / "m.csv", points + SHIFT, first=1)
    facts = ask("import", project, fixed, moving, "--rater", "ann")
    assert "Row order was used to pair the points of the two files." in facts["assumptions"]
    told("import", project, fixed, moving, "--rater", "bob", "--match", "row")
    assert "no point '0'" in told("import", project, fixed, moving, "--rater", "cat", "--match", "index", code=1)[1]


def _wrong(points: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    moving = points + SHIFT
    return {
        "outside": (points + 5000, moving + 5000),
        "swapped": (moving, points),
        "ten times": (points * 10, moving * 10),
        "a quarter": (points / 4, moving / 4),
        "axes": (points[:, ::-1], moving[:, ::-1]),
        "upwards": (points * [1, -1] + [0, 299], moving * [1, -1] + [0, 299]),
        "moving axes": (points, moving[:, ::-1]),
        "moving backwards": (points, moving * [-1, 1] + [359, 0]),
        "fixed upwards": (points * [1, -1] + [0, 299], moving),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("outside", "40 of 40 fixed points lie outside the fixed image"),
        ("swapped", "fixed and moving exchanged"),
        ("ten times", "--scale 0.1"),
        ("a quarter", "--scale 4"),
        ("axes", "x and y exchanged"),
        ("upwards", "the landmarks belong to other images"),
        ("moving axes", "x and y of the moving points exchanged"),
        ("moving backwards", "the landmarks belong to other images"),
        ("fixed upwards", "the landmarks belong to other images"),
    ],
)
def test_a_likely_misreading_is_named_and_refused(
    project: Path, pair: Path, tmp_path: Path, kind: str, words: str
) -> None:
    """Nothing is saved, the likely reading is named with numbers, and --force takes it all the same."""
    first, second = _wrong(fixed_points(pair), kind)
    files = anhir(tmp_path / "f.csv", first), anhir(tmp_path / "m.csv", second)
    _, err = told("import", project, *files, "--rater", "ann", code=1)
    assert words in err
    assert "--force" in err
    assert ask("info", project)["events"] == 0
    if kind == "swapped":
        assert ask("import", project, *files, "--rater", "ann", "--force")["placed"] == 40
    if "scale" in words:
        assert ask("import", project, *files, "--rater", "ann", *words.split())["placed"] == 40


def _solid(path: Path, values: np.ndarray, flips: str) -> Path:
    """A volume of 1.5 mm voxels about the origin, stored with some of its axes backwards; the world is the same."""
    affine = np.diag([1.5, 1.5, 1.5, 1.0])
    affine[:3, 3] = -0.75 * (np.array(values.shape) - 1)
    for axis in flips:
        n = "xyz".index(axis)
        values = np.flip(values, n)
        affine[:3, n] *= -1
        affine[n, 3] *= -1
    nib.save(nib.Nifti1Image(np.ascontiguousarray(values), affine), path)
    return path


def test_axes_that_are_stored_backwards_do_not_hide_or_feign_a_misreading(tmp_path: Path) -> None:
    """Two volumes of one world, as MNI152 and Colin27: right landmarks are taken, a wrong frame of one file is told."""
    generator = np.random.default_rng(3)
    texture = ndimage.gaussian_filter(generator.normal(size=(64, 60, 56)), 2)
    texture = (1000 * (texture - texture.min()) / np.ptp(texture)).astype(np.int16)
    shift = np.array([3.0, -1.5, 4.5])  # RAS mm: by 2, -1 and 3 voxels
    moving = np.roll(texture, (2, -1, 3), axis=(0, 1, 2))
    images = _solid(tmp_path / "fixed.nii.gz", texture, ""), _solid(tmp_path / "moving.nii.gz", moving, "xz")
    folder = tmp_path / "solid"
    told("new", folder, "--fixed", images[0], "--moving", images[1], "--candidates", 30)
    points = generator.uniform(-28, 28, (30, 3))
    files = {}
    for name, values, frame in (
        ("fixed", points, "RAS"), ("moving", points + shift, "RAS"), ("wrong", points + shift, "LPS")
    ):  # fmt: skip
        listed = [{"label": str(n), "position": row.tolist()} for n, row in enumerate(values)]
        markup = {"type": "Fiducial", "coordinateSystem": frame, "coordinateUnits": "mm", "controlPoints": listed}
        files[name] = tmp_path / f"{name}.mrk.json"
        files[name].write_text(json.dumps({"@schema": "markups-schema-v1.0.3.json#", "markups": [markup]}))
    err = told("import", folder, files["fixed"], files["wrong"], code=1)[1]
    assert "RAS and LPS of the moving points exchanged" in err
    assert "fixed and moving exchanged" in told("import", folder, files["moving"], files["fixed"], code=1)[1]
    assert ask("import", folder, files["fixed"], files["moving"])["placed"] == 30


def test_an_import_says_how_exact_the_landmarks_are_taken_to_be(project: Path, pair: Path, tmp_path: Path) -> None:
    """Of a plain click by default, or as --radius says: the 99 % radius of an isotropic Gaussian in 2D is 3.03 sd."""
    points = fixed_points(pair)
    files = anhir(tmp_path / "f.csv", points), anhir(tmp_path / "m.csv", points + SHIFT)
    out, _ = told("import", project, *files, "--radius", 6)
    assert f"{len(points)} landmarks without an uncertainty" in out
    assert "within 6 px with 99 % probability." in out
    with wg.Project.open(project) as opened:
        spread = wg.Session(opened).annotations().covariances
    np.testing.assert_allclose(spread, np.broadcast_to((6 / np.sqrt(-2 * np.log(0.01))) ** 2 * np.eye(2), spread.shape))
    told("undo", project, "--rater", "import")
    out, _ = told("import", project, *files)
    assert "within 1 px with 99 % probability (--radius sets another)." in out
    told("import", project, *files, "--radius", 0, code=2)


def test_nothing_to_undo_is_one_sentence(project: Path) -> None:
    """Also where nobody has answered anything, so that no other rater can be named."""
    assert told("undo", project, code=1)[1].strip().endswith("organiser has nothing to undo.")


def test_an_import_is_undone_as_one_action(annotated: Path, pair: Path, tmp_path: Path) -> None:
    """One undo takes all 40 back, and none of their locations is asked."""
    assert ask("info", annotated)["placed"] == 40
    _, err = told("undo", annotated, code=1)
    assert "organiser has nothing to undo; ann has: add --rater ann" in err
    out, _ = told("undo", annotated, "--rater", "ann")
    assert "import of 40 answers" in out
    facts = ask("info", annotated)
    assert (facts["placed"], facts["annotated locations"]) == (0, 0)
    asked = np.array(ask("suggest", annotated, "--rater", "ann")["point"])
    assert np.linalg.norm(fixed_points(pair) - asked, axis=1).min() > 1e-6
    told("verify", annotated)


def test_shared_imports_of_several_raters_are_undone_together(project: Path, pair: Path, tmp_path: Path) -> None:
    points = fixed_points(pair)[:10]
    rows = [f"{x},{y},{x + 14},{y - 9},{rater}" for rater in ("ann", "bob") for x, y in points]
    path = tmp_path / "pairs.csv"
    path.write_text("fixed_x,fixed_y,moving_x,moving_y,rater\n" + "\n".join(rows) + "\n")
    assert ask("import", project, path, "--shared")["placed"] == 20
    out, _ = told("undo", project, "--import")
    assert "import of 20 answers" in out
    assert ask("info", project)["placed"] == 0
    asked = np.array(ask("suggest", project, "--rater", "cat")["point"])
    assert np.linalg.norm(points - asked, axis=1).min() > 1e-6
    assert "no import" in told("undo", project, "--import", code=1)[1]


def test_a_tiff_map_is_written_by_default(annotated: Path, tmp_path: Path) -> None:
    """The map's grid is coarser than the image, so its origin is said, since TIFF cannot hold it."""
    out = tmp_path / "sd.tif"
    told("map", annotated, "sd", out)
    assert wg.read_image(out).read().shape == (300, 360)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_files_have_the_modes_that_the_umask_allows(annotated: Path, pair: Path, tmp_path: Path) -> None:
    """With umask 022 everybody may read what is written."""
    script = 'umask 022; "$0" map "$1" sd "$2" && "$0" export "$1" "$3"'
    files = [tmp_path / name for name in ("sd.nii.gz", "pairs.csv")]
    command = ["sh", "-c", script, WARPGAUGE, annotated, *files]
    subprocess.run([str(one) for one in command], check=True, capture_output=True)
    assert {file.name: oct(file.stat().st_mode & 0o777) for file in files} == {file.name: "0o644" for file in files}


def test_a_moved_image_is_linked_again_by_the_command_that_the_message_names(annotated: Path, pair: Path) -> None:
    (pair / "moving.png").rename(pair / "elsewhere.png")
    try:
        _, err = told("info", annotated)
        assert "warpgauge verify PROJECT --moving PATH" in err
        told("verify", annotated, "--moving", pair / "elsewhere.png")
        assert "note" not in told("info", annotated)[1]
    finally:
        (pair / "elsewhere.png").rename(pair / "moving.png")


def test_an_elastix_file_without_its_initial_transform_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "TransformParameters.1.txt"
    path.write_text(
        '(Transform "TranslationTransform")\n(NumberOfParameters 2)\n(TransformParameters 1 2)\n'
        '(InitialTransformParameterFileName "TransformParameters.0.txt")\n(HowToCombineTransforms "Compose")\n'
        "(FixedImageDimension 2)\n(MovingImageDimension 2)\n"
    )
    _, err = told("info", path, code=1)
    assert "TransformParameters.0.txt" in err
    assert "not a file that warpgauge reads" not in err


def test_doing_nothing_is_a_method_of_a_study(tmp_path: Path) -> None:
    """On displacements 4 sin(...) + 0, an affine 0.5 px off is as good as nothing, and far better than 30 px off."""
    study = make_study(tmp_path, pairs=2)
    study.write_text(study.read_text() + '[[method]]\nname = "nothing"\ntransform = "identity"\n')
    result = ask("benchmark", study, "--jobs", 1)
    means = {one["name"]: one["mean_score"] for one in result["methods"]}
    assert means["nothing"] == pytest.approx(means["near"], rel=0.1)
    assert means["nothing"] < means["far"] / 5


def test_one_of_a_thing_is_not_many(project: Path, tmp_path: Path) -> None:
    """Counts in the messages of `verify` agree with their nouns."""
    rows = ["fixed_x,fixed_y,moving_x,moving_y", "100,100,101,101"]
    (tmp_path / "one.csv").write_text("\n".join(rows) + "\n")
    told("import", project, tmp_path / "one.csv", "--rater", "ann")
    out, _ = told("verify", project)
    assert "replayed: 1 query." in out
    assert re.search(r"\b1 \w+s\b", out) is None


@pytest.fixture(scope="module")
def printed(pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pair as JPEG of 71 dpi, with an affine in pixels, in ITK's millimetres, and of images four times smaller."""
    folder = tmp_path_factory.mktemp("printed")
    for side in ("fixed", "moving"):
        Image.open(pair / f"{side}.png").save(folder / f"{side}.jpg", dpi=(71, 71), quality=95)
    fixed = np.random.default_rng(3).uniform([60, 60], [300, 240], (40, 2))
    matrix, shift = np.array([[1.02, 0.03], [-0.02, 0.98]]), np.array([44.0, -29.0])
    np.savetxt(folder / "pairs.txt", np.hstack([fixed, fixed @ matrix.T + shift]))
    header = "fixed_x,fixed_y,moving_x,moving_y"
    np.savetxt(folder / "pairs.csv", np.loadtxt(folder / "pairs.txt"), delimiter=",", header=header, comments="")
    for name, scale in (("right", 1.0), ("itk", 25.4 / 71), ("small", 0.25)):
        np.savetxt(folder / f"{name}.txt", np.column_stack([matrix, scale * shift]))
    told("new", folder / "project", "--fixed", folder / "fixed.jpg", "--moving", folder / "moving.jpg")
    told("import", folder / "project", folder / "pairs.csv", "--rater", "ann", "--force")
    return folder


def test_a_print_resolution_that_itk_takes_for_a_spacing_is_said_with_the_command(printed: Path) -> None:
    """The fit cannot tell a scale of 2.8 from a weak registration: each command says it."""
    said = "ITK and SimpleITK take its print resolution for 0.3577 x 0.3577 mm"
    images = ("--fixed", printed / "fixed.jpg", "--moving", printed / "moving.jpg")
    assert said in told("new", printed / "again", *images)[1]
    _, note = told("add-transform", printed / "project", "itk", printed / "itk.txt")
    assert said in note
    option = re.search(r"--scale (\S+) --replace", note)
    assert option is not None
    facts = ask("add-transform", printed / "project", "itk", printed / "itk.txt", "--scale", option[1], "--replace")
    assert facts["mean error at the annotations"] < 0.01
    assert facts["mean error without any transform"] > 40
    out, _ = told("tre", printed / "pairs.csv", printed / "itk.txt", "--fixed-image", printed / "fixed.jpg")
    assert said in " ".join(out.split())


def test_an_affine_of_images_four_times_smaller_is_named_with_the_command(printed: Path) -> None:
    _, note = told("add-transform", printed / "project", "small", printed / "small.txt")
    assert "(--scale 4 --replace)" in note
    options = ("--scale", 4, "--replace")
    facts = ask("add-transform", printed / "project", "small", printed / "small.txt", *options)
    assert facts["mean error at the annotations"] < 0.01


def test_one_image_twice_and_one_rater_twice_are_said(printed: Path, pair: Path, tmp_path: Path) -> None:
    """Neither is a pair of images, nor a second rater."""
    (tmp_path / "copy.png").write_bytes((pair / "fixed.png").read_bytes())
    _, note = told("new", tmp_path / "p", "--fixed", pair / "fixed.png", "--moving", tmp_path / "copy.png")
    assert "one and the same file" in note
    out, note = told("import", printed / "project", printed / "pairs.csv", "--rater", "bob", "--force")
    assert "40 of 40 landmarks are marked by ann already" in note
    assert "undo" in note
    assert "--rater bob" in out
    told("undo", printed / "project", "--rater", "bob")
    assert ask("info", printed / "project")["raters"] == ["ann"]


@pytest.mark.parametrize(("d", "step"), [(2, 4.0), (3, 2.0)])
def test_vectors_in_voxels_of_the_fields_own_grid(tmp_path: Path, d: int, step: float) -> None:
    """On a grid of 4 pixels they are named with what reads them; at 2 mm, no fit can tell, and the unit is said."""
    rng = np.random.default_rng(4)
    grid = wg.Grid((40, 36, 30)[:d], np.full(d, step), units="mm")
    shift = np.array([24.0, -18.0, 12.0])[:d]
    nodes = grid.points()
    vectors = shift + 0.05 * (nodes - nodes.mean(axis=0))
    field = nib.Nifti1Image((vectors / step).reshape(*grid.shape, d).T.reshape(d, *grid.size).copy(), None)
    values = np.moveaxis(field.get_fdata(), 0, -1)
    values = values.reshape(*grid.size, *(1,) * (4 - d), d)
    image = nib.Nifti1Image(values, np.diag([-step, -step, step if d == 3 else 1.0, 1.0]))
    image.header.set_intent(1007)
    image.header.set_xyzt_units("mm")
    nib.save(image, tmp_path / "field.nii.gz")
    fixed = grid.index_to_world(rng.uniform(6, 24, (40, d)))
    moving = fixed + shift + 0.05 * (fixed - nodes.mean(axis=0))
    titles = [f"{side}_{axis}" for side in ("fixed", "moving") for axis in "xyz"[:d]]
    rows = np.hstack([fixed, moving])
    np.savetxt(tmp_path / "pairs.csv", rows, delimiter=",", header=",".join(titles), comments="")
    options = ("--units", "mm", "--convention", "displacement")
    out, _ = told("tre", tmp_path / "pairs.csv", tmp_path / "field.nii.gz", *options)
    text = " ".join(out.split())
    if step > 3:
        assert "in voxels where world units were taken" in text
    else:
        assert "No other reading fits far better" in text
        assert "mm, read as NIfTI" in text
    index = ("--field-frame", "index")
    right = ask("tre", tmp_path / "pairs.csv", tmp_path / "field.nii.gz", *options, *index)
    assert right["transforms"][0]["mean"] < 0.01
