"""Landmark files of challenges and of MNI, and advice on files that were read wrongly, at the terminal."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, map_coordinates

import warpgauge as wg
from command_tools import ask, call

SIZE = (60, 48, 40)
AFFINE = np.diag([1.5, 1.5, 2.0, 1.0])  # RAS
AFFINE[:3, 3] = [-60.0, -20.0, -50.0]
LPS = np.array([-1.0, -1.0, 1.0])


def _bend(index: np.ndarray) -> np.ndarray:
    """Where the moving image shows what the fixed one has at an index."""
    x, y, z = index.T
    return index + np.column_stack([4 * np.sin(y / 9), 4 * np.cos(z / 8), 3 * np.sin(x / 10)])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray | Path]:
    """A volume, the same bent by a known map, a project of both, and 30 true landmarks (voxels of each side)."""
    folder = tmp_path_factory.mktemp("bent")
    rng = np.random.default_rng(1)
    moving = gaussian_filter(rng.normal(0, 1, SIZE), 1.6)
    grid = np.stack(np.meshgrid(*(np.arange(n, dtype=float) for n in SIZE), indexing="ij"), axis=-1).reshape(-1, 3)
    fixed = map_coordinates(moving, _bend(grid).T, order=3, mode="reflect").reshape(SIZE)
    for name, values in (("fixed", fixed), ("moving", moving)):
        image = nibabel.Nifti1Image((1000 * values).astype(np.float32), AFFINE)
        image.header.set_xyzt_units("mm")
        nibabel.save(image, folder / f"{name}.nii.gz")
    at = rng.permutation(np.unique(np.round(rng.uniform(8, np.array(SIZE) - 9, (34, 3))), axis=0))[:30]
    sides = {side: folder / f"{side}.nii.gz" for side in ("fixed", "moving")}
    points = _ras(at[:20]) * LPS
    wg.Project.create(folder / "p", **sides, candidates=points, targets=points).close()
    return {"folder": folder, "project": folder / "p", "fixed": at, "moving": _bend(at)}


def _ras(index: np.ndarray) -> np.ndarray:
    return np.asarray(index @ AFFINE[:3, :3].T + AFFINE[:3, 3])


def _table(path: Path, rows: np.ndarray, header: str = "", numbered: bool = False) -> Path:
    lines = [",".join([*([str(n + 1)] if numbered else []), *map(str, row)]) for n, row in enumerate(rows.tolist())]
    path.write_text("\n".join([*([header] if header else []), *lines]) + "\n")
    return path


def _files(pair: dict[str, np.ndarray | Path], kind: str, folder: Path) -> list[Path]:
    """Write the landmarks of a pair as a challenge or program has them."""
    fixed, moving = pair["fixed"], pair["moving"]
    if kind == "brats-reg":
        sides = {"fixed": _ras(fixed) * LPS, "moving": _ras(moving) * LPS}
        return [_table(folder / f"{name}.csv", one, "Landmark,X,Y,Z", True) for name, one in sides.items()]
    if kind == "learn2reg":
        return [_table(folder / f"{name}.csv", pair[name]) for name in ("fixed", "moving")]
    rows = np.hstack([_ras(fixed), _ras(moving)]).tolist()
    body = "\n".join(f' {" ".join(map(str, row))} "{n}"' for n, row in enumerate(rows, start=1))
    path = folder / "Case1.tag"
    path.write_text(f"MNI Tag Point File\nVolumes = 2;\n%a comment; with a semicolon\n\nPoints =\n{body};\n")
    return [path]


@pytest.mark.parametrize("kind", ["brats-reg", "learn2reg", "mni-tag"])
def test_landmarks_of_challenges_are_read(pair: dict[str, np.ndarray | Path], tmp_path: Path, kind: str) -> None:
    """BraTS-Reg, Learn2Reg and RESECT: recognised by their content, and at the true places of the world."""
    files = _files(pair, kind, tmp_path)
    facts = ask("import", pair["project"], *files, "--rater", kind)
    assert facts["read as"] == kind
    assert facts["placed"] == 30
    out = tmp_path / "out.csv"
    call("export", pair["project"], out, "--rater", kind)
    found = wg.read_landmarks(out)
    np.testing.assert_allclose(found.fixed_points, _ras(pair["fixed"]) * LPS, atol=1e-9)
    np.testing.assert_allclose(found.moving_points, _ras(pair["moving"]) * LPS, atol=1e-9)


@pytest.mark.parametrize("kind", ["brats-reg", "learn2reg"])
def test_landmarks_of_challenges_come_back_as_written(
    pair: dict[str, np.ndarray | Path], tmp_path: Path, kind: str
) -> None:
    grid = wg.read_image(pair["folder"] / "fixed.nii.gz").grid
    files = _files(pair, kind, tmp_path)
    found = wg.read_landmarks(*files, fixed_grid=grid, moving_grid=grid)
    outs = [tmp_path / f"again_{file.name}" for file in files]
    wg.io.landmarks.write_landmarks(found, *outs, format=kind, fixed_grid=grid, moving_grid=grid, lossy=True)
    again = wg.read_landmarks(*outs, fixed_grid=grid, moving_grid=grid)
    np.testing.assert_allclose(again.fixed_points, found.fixed_points, atol=1e-9)
    np.testing.assert_allclose(again.moving_points, found.moving_points, atol=1e-9)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("MNI Tag Point File\nVolumes = 2;\nPoints =\n 1 2 3 4 5 6", "no ';'"),
        ("MNI Tag Point File\nVolumes = 3;\nPoints =\n 1 2 3;\n", "tags of 3 volumes"),
        ("MNI Tag Point File\nVolumes = 2;\nPoints =\n 1 2 3 4 5;\n", "6 numbers"),
        ('MNI Tag Point File\nVolumes = 2;\nPoints =\n 1 2 3 4 5 6 "a;\n', "quote that does not end"),
        ("MNI Tag Point File\nPoints =\n 1 2 3;\n", "'Volumes = 1;'"),
        ("1,2,3\n4,5\n", "2 fields"),
        ("Landmark,X,Y,Z\n1,2,3\n", "3 fields"),
    ],
)
def test_damaged_files_are_refused(pair: dict[str, np.ndarray | Path], tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "file.tag").write_text(text)
    assert problem in call("import", pair["project"], tmp_path / "file.tag", code=1)


HEADER = "fixed_x,fixed_y,fixed_z,moving_x,moving_y,moving_z"


@pytest.mark.parametrize(
    ("mistake", "advice"),
    [
        ("RAS", "--frame RAS: "),
        ("index", "--frame index: "),
        ("index1", "--frame index1: "),
        ("exchanged", "fixed and moving exchanged"),
        ("RAS exchanged", "--frame RAS, fixed and moving exchanged"),
        ("axes", "x, y and z in the reverse order: "),
        ("four times", "--scale 0.25: "),
    ],
)
def test_the_advice_for_a_refused_file_was_tried(
    pair: dict[str, np.ndarray | Path], tmp_path: Path, mistake: str, advice: str
) -> None:
    """A plain CSV that is not LPS is refused with the reading that fits, its fit, and that of the best other."""
    fixed, moving = pair["fixed"], pair["moving"]
    world = 1.0 if "RAS" in mistake else LPS
    a, b = (fixed, moving) if mistake.startswith("index") else (_ras(fixed) * world, _ras(moving) * world)
    if mistake == "index1":
        a, b = a + 1, b + 1
    if "axes" in mistake:
        a, b = a[:, ::-1], b[:, ::-1]
    if mistake == "four times":
        a, b = 4 * a, 4 * b
    if "exchanged" in mistake:
        a, b = b, a
    file = _table(tmp_path / "pairs.csv", np.hstack([a, b]), HEADER)
    said = call("import", pair["project"], file, "--rater", "x", code=1)
    assert f"read with {advice}" in said
    assert " as given" in said
    option = advice.removesuffix(": ").split()
    if option[0].startswith("--") and "exchanged" not in advice:
        assert ask("import", pair["project"], file, *option, "--rater", mistake)["placed"] == 30


def test_landmarks_in_metres_are_told_by_lying_in_one_place(pair: dict[str, np.ndarray | Path], tmp_path: Path) -> None:
    """A thousandth of the numbers lies within a voxel or two, where every reading looks alike."""
    rows = np.hstack([_ras(pair["fixed"]) * LPS, _ras(pair["moving"]) * LPS]) / 1000
    said = call("import", pair["project"], _table(tmp_path / "pairs.csv", rows, HEADER), "--rater", "x", code=1)
    assert "all 30 moving points lie within" in said
    assert "with --scale 1000 they are spread over it" in said
