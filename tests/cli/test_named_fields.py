"""Fields whose programs are known by a name in the header, and fields that can be read in two ways, at the terminal."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

import warpgauge as wg
from command_tools import ask, call
from warpgauge.io.transforms import write_transform

SIZE = (24, 20, 16)
AFFINE = np.diag([-2.0, 1.5, 2.5, 1.0])
AFFINE[:3, 3] = [30.0, -20.0, 8.0]
SHIFT_RAS = np.array([3.0, 0.0, 0.0])  # what every file of this module says


def _volume(path: Path, values: np.ndarray) -> Path:
    image = nibabel.Nifti1Image(values.astype(np.float32), AFFINE)
    image.header.set_xyzt_units("mm")
    nibabel.save(image, path)
    return path


def field(path: Path, values: np.ndarray, name: str = "", kind: float = 0.0, code: int = 1007) -> Path:
    """Write (X, Y, Z, 3) vectors as a NIfTI field of five dimensions."""
    image = nibabel.Nifti1Image(values[:, :, :, None].astype(np.float32), AFFINE)
    image.header.set_xyzt_units("mm")
    image.header["intent_code"], image.header["intent_name"], image.header["intent_p1"] = code, name, kind
    nibabel.save(image, path)
    return path


def nodes_ras() -> np.ndarray:
    index = np.stack(np.meshgrid(*(np.arange(n) for n in SIZE), indexing="ij"), axis=-1)
    return index @ AFFINE[:3, :3].T + AFFINE[:3, 3]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images with a space")
    rng = np.random.default_rng(3)
    for side in ("fixed", "moving"):
        _volume(folder / f"{side}.nii.gz", 1000 * gaussian_filter(rng.normal(0, 1, SIZE), 1.5))
    return folder


@pytest.fixture
def project(images: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "brain"
    points = np.random.default_rng(4).uniform(5, 11, (30, 3)) @ AFFINE[:3, :3].T + AFFINE[:3, 3]
    points *= [-1, -1, 1]  # the world of a project is LPS
    sides = {side: images / f"{side}.nii.gz" for side in ("fixed", "moving")}
    wg.Project.create(folder, **sides, candidates=points, targets=points).close()
    return folder


def annotate(project: Path, folder: Path) -> None:
    """Import twelve landmarks that follow the shift."""
    rng = np.random.default_rng(5)
    fixed = rng.uniform(4, 11, (12, 3)) @ AFFINE[:3, :3].T + AFFINE[:3, 3]
    rows = ["fixed_x,fixed_y,fixed_z,moving_x,moving_y,moving_z,frame"]
    moved = fixed + SHIFT_RAS + rng.normal(0, 0.05, (12, 3))
    rows += [",".join(map(str, [*a, *b, "RAS"])) for a, b in zip(fixed.tolist(), moved.tolist(), strict=True)]
    file = folder / "pairs.csv"
    file.write_text("\n".join(rows) + "\n")
    call("import", project, file, "--rater", "ann", "--force")


def coefficients() -> np.ndarray:
    return nodes_ras() + SHIFT_RAS


@pytest.mark.parametrize(
    ("file", "name", "kind", "positions"),
    [
        ("y_brain.nii", "Mapping", 0, True),
        ("deformation.nii.gz", "NREG_TRANS", 0, True),
        ("displacement.nii.gz", "NREG_TRANS", 1, False),
        ("grid.nii.gz", "NREG_TRANS", 2, True),
        ("linear_grid.nii.gz", "NREG_TRANS", 6, True),
    ],
)
def test_named_fields_are_read_as_their_programs_mean_them(
    project: Path, tmp_path: Path, file: str, name: str, kind: int, positions: bool
) -> None:
    """SPM and NiftyReg: the error at the landmarks is their noise, not the 39 and 5.9 mm of a misreading."""
    annotate(project, tmp_path)
    values = coefficients() if positions else np.broadcast_to(SHIFT_RAS, (*SIZE, 3))
    facts = ask("add-transform", project, "program", field(tmp_path / file, values, name, kind))
    assert facts["format"] == ("SPM" if name == "Mapping" else "NiftyReg")
    assert facts["mean error at the annotations"] < 0.15
    assert facts["mean error without any transform"] > 2.9


@pytest.mark.parametrize(
    ("file", "name", "kind", "said"),
    [
        ("u_flow.nii", "Flow Field", 0, "Util > Deformations"),
        ("odd.nii", "NREG_TRANS", 9, "reg_transform -def"),
        ("broken.nii", "NREG_TRANS", float("nan"), "reg_transform -def"),
        ("velocity.nii", "NREG_TRANS", 5, "reg_transform -def"),
    ],
)
def test_what_is_not_read_names_the_program_that_helps(
    project: Path, tmp_path: Path, file: str, name: str, kind: float, said: str
) -> None:
    assert said in call("add-transform", project, "program", field(tmp_path / file, coefficients(), name, kind), code=1)
    assert ask("info", project)["transforms"] == []


def unnamed(meaning: str) -> np.ndarray:
    """Vectors of one shift in a meaning that no header tells."""
    index = np.stack(np.meshgrid(*(np.arange(n, dtype=float) for n in SIZE), indexing="ij"), axis=-1)
    moved_index = index + SHIFT_RAS / np.diag(AFFINE)[:3]
    return {
        "positions in RAS": coefficients(),
        "positions in the world": coefficients() * [-1, -1, 1],
        "positions in voxels": moved_index,
        "positions from -1 to 1": 2 * moved_index / (np.array(SIZE) - 1) - 1,
        "positions from 0 to 1": moved_index / (np.array(SIZE) - 1),
        "displacements in shares of the image": (moved_index - index) * 2 / (np.array(SIZE) - 1),
    }[meaning]


@pytest.mark.parametrize(
    ("meaning", "options"),
    [
        ("positions in RAS", ("--convention", "position", "--frame", "RAS")),
        ("positions in the world", ("--convention", "position", "--frame", "LPS")),
        ("positions in voxels", ("--convention", "position", "--frame", "index")),
        ("positions from -1 to 1", ("--convention", "position", "--frame", "normalised")),
        ("positions from 0 to 1", ("--convention", "position", "--frame", "unit")),
        ("displacements in shares of the image", ("--convention", "displacement", "--frame", "normalised")),
    ],
)
@pytest.mark.parametrize("landmarks", [False, True])
def test_an_unnamed_field_that_fits_two_readings_is_refused(
    project: Path, tmp_path: Path, meaning: str, options: tuple[str, ...], landmarks: bool
) -> None:
    """Without a name, a field of positions or of shares is refused with both readings; the options named work."""
    if landmarks:
        annotate(project, tmp_path)
    path = field(tmp_path / "field.nii.gz", unnamed(meaning))
    said = call("add-transform", project, "field", path, code=1)
    assert "displacements (--convention displacement --frame LPS)" in said
    assert meaning in said
    assert " ".join(options) in said
    if landmarks:
        best = said.partition("mean error at the landmarks is ")[2]
        assert " ".join(options) in best.partition(";")[0]
        assert float(best.split()[0]) < 0.15
        assert "without any transform" in best
    facts = ask("add-transform", project, "field", path, *options)
    if landmarks:
        assert facts["mean error at the annotations"] < 0.15


def test_plain_displacements_and_own_files_are_read(images: Path, project: Path, tmp_path: Path) -> None:
    """Displacements of intent 1007 as ITK writes them, and what warpgauge itself writes, however small, are read."""
    annotate(project, tmp_path)
    lps = np.broadcast_to(SHIFT_RAS * [-1, -1, 1], (*SIZE, 3))
    facts = ask("add-transform", project, "itk", field(tmp_path / "itk.nii.gz", lps))
    assert facts["mean error at the annotations"] < 0.15
    small = field(tmp_path / "small.nii.gz", lps / 10)
    assert "displacements in shares" in call("add-transform", project, "small", small, code=1)
    ask("add-transform", project, "small", small, "--convention", "displacement")
    (tmp_path / "shift.txt").write_text("1 0 0 0.3\n0 1 0 0\n0 0 1 0\n0 0 0 1\n")
    grid = wg.read_image(images / "fixed.nii.gz").grid
    write_transform(wg.read_transform(tmp_path / "shift.txt", frame="LPS"), tmp_path / "own.nii.gz", grid=grid)
    ask("add-transform", project, "own", tmp_path / "own.nii.gz")


def test_an_array_is_asked_about_once(project: Path, tmp_path: Path) -> None:
    """An array of vectors is refused with one message about all that is open; with landmarks it names what fits."""
    voxels = SHIFT_RAS / np.diag(AFFINE)[:3]
    np.save(tmp_path / "field.npy", np.broadcast_to(voxels[::-1], (*SIZE[::-1], 3)))  # z, y, x, and so the components
    said = call("add-transform", project, "net", tmp_path / "field.npy", code=1)
    assert "(--convention displacement --axes zyx)" in said
    annotate(project, tmp_path)
    said = call("add-transform", project, "net", tmp_path / "field.npy", code=1)
    best = said.partition("mean error at the landmarks is ")[2].partition(";")[0]
    assert "--convention voxels --axes zyx" in best
    facts = ask("add-transform", project, "net", tmp_path / "field.npy", "--convention", "voxels")
    assert facts["mean error at the annotations"] < 0.15


def test_a_pixel_image_is_never_asked_for_lps(tmp_path: Path) -> None:
    """In 2D, with pixels for the world, only the convention and the axes are open."""
    rng = np.random.default_rng(2)
    for side in ("fixed", "moving"):
        Image.fromarray(rng.integers(0, 255, (40, 30), dtype=np.uint8)).save(tmp_path / f"{side}.png")
    points = rng.uniform(5, 25, (20, 2))
    sides = {side: tmp_path / f"{side}.png" for side in ("fixed", "moving")}
    wg.Project.create(tmp_path / "p", **sides, candidates=points, targets=points).close()
    np.save(tmp_path / "field.npy", np.ones((40, 30, 2)))
    said = call("add-transform", tmp_path / "p", "net", tmp_path / "field.npy", code=1)
    assert "--convention displacement or position or voxels or grid_sample, for instance" in said
    assert "LPS" not in said
    assert "--frame" not in said
    ask("add-transform", tmp_path / "p", "net", tmp_path / "field.npy", "--convention", "displacement")
