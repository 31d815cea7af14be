"""Right files of real data, 2D and 3D: how many are refused or doubted.

Registration results of a lung CT pair (elastix), and splines through half of the landmarks of pairs of stains, are
written in every format; the other landmarks check them, as a project does.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import nibabel
import numpy as np
import pytest

import warpgauge as wg
from warpgauge.errors import FileFormatError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid
from warpgauge.io.misreadings import judge_reading
from warpgauge.io.transforms import DisplacementField, LandmarkSpline, Transform, write_transform

DATA = Path(os.environ.get("WARPGAUGE_DATA", "/nowhere"))
pytestmark = pytest.mark.skipif(not (DATA / "elastix-lung").is_dir(), reason="WARPGAUGE_DATA has no elastix-lung")
LPS = np.array([-1.0, -1.0, 1.0])


class Case:
    """A registration with its grid and the landmarks that it is checked by."""

    def __init__(self, transform: Transform, grid: Grid, fixed: Floats, moving: Floats) -> None:
        self.transform, self.grid, self.fixed, self.moving = transform, grid, fixed, moving
        self.nodes = grid.coarsened(max(1.0, max(grid.size) / (60 if grid.d == 2 else 40)))

    def vectors(self) -> Floats:
        """Displacements on the nodes, (n, d); 0 where the transform is not defined."""
        points = self.nodes.points(0, self.nodes.count)
        return np.nan_to_num(self.transform.map(points) - points)


@cache
def lung() -> list[Case]:
    folder = DATA / "elastix-lung"
    grid = wg.read_image(folder / "3DCT_lung_baseline_mask.mha").grid
    sides = (folder / f"CT_3D_lung_{side}_point_set_corrected.txt" for side in ("fixed", "moving"))
    read = wg.read_landmarks(*sides, fixed_grid=grid, moving_grid=grid)
    files = sorted((folder / "transforms").glob("TransformParameters_*.txt"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [Case(wg.read_transform(file), grid, read.fixed_points, read.moving_points) for file in files]


@cache
def stains() -> list[Case]:
    folder = DATA / "cima" / "lung-lesion_1"
    tables = sorted(folder.rglob("*.csv"))
    found = []
    for one in tables:
        for other in tables:
            if one == other:
                continue
            read = wg.read_landmarks(one, other, units="px")
            fixed, moving = read.fixed_points, read.moving_points
            size = tuple(int(n) for n in np.ceil(fixed.max(axis=0) * 1.1))
            spline = LandmarkSpline(fixed[::2], moving[::2], "ThinPlateR2LogRSpline", stiffness=100.0)
            found.append(Case(spline, Grid(size), fixed[1::2], moving[1::2]))
    return found


def written(path: Path, vectors: Floats, nodes: Grid) -> Path:
    """Write (n, d) vectors on nodes as an unnamed NIfTI field of intent 1007."""
    d = nodes.d
    data = vectors.reshape(*nodes.shape, d)
    data = data.transpose(*range(d - 1, -1, -1), d).reshape(*nodes.size, *((1,) * (4 - d)), d)
    affine = np.eye(4)
    affine[:d, :d], affine[:d, 3] = nodes.affine[:d, :d], nodes.origin
    image = nibabel.Nifti1Image(data, np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine)
    image.header.set_intent(1007)
    image.header.set_xyzt_units({"px": 0, "mm": 2}[nodes.units])
    image.set_sform(image.affine, 1)
    nibabel.save(image, path)
    return path


def word(path: Path, case: Case) -> str:
    """Read a file and check it as a project does: why it is refused, what it is warned of, or nothing."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            transform = wg.read_transform(path, reference=case.grid, moving=case.grid)
        except FileFormatError as error:
            return f"refused: {error}"
        mapped = transform.map(case.fixed)
        if np.mean([not np.isfinite(one).all() or not case.grid.contains(one[None]).all() for one in mapped]) > 0.5:
            return "most points are mapped outside"
        fit = judge_reading(transform, case.fixed, case.moving, case.grid, case.grid)
        if fit.kinds:
            return f"{fit.better:.3g} instead of {fit.given:.3g} {fit.words}"
        if fit.worse_than_nothing:
            return "worse than no transform"
    return "; ".join(str(one.message) for one in told if issubclass(one.category, SuspiciousDataWarning))


def _right_files(folder: Path) -> Iterator[tuple[Path, Case | None]]:
    """Yield files as they are meant: fields in each format that is written, and of programs; with their case."""
    for number, case in enumerate([*lung(), *stains()]):
        nodes, right = case.nodes, case.vectors()
        yield written(folder / "field.nii.gz", right, nodes), case
        if number % 3:
            continue
        field = DisplacementField(right.T.reshape(nodes.d, *nodes.shape), nodes)
        for suffix in (".nii.gz", ".nrrd"):
            write_transform(field, folder / f"{number}{suffix}")
            yield folder / f"{number}{suffix}", case
        for name, intent, start in (
            (("Mapping", 1006, 1), ("NREG_TRANS", 1007, 1), ("", 1006, 0)) if nodes.d == 3 else ()
        ):
            path = written(folder / "y_field.nii", (right + start * nodes.points(0, nodes.count)) * LPS, nodes)
            image = nibabel.Nifti1Image.from_bytes(path.read_bytes())
            image.header.set_intent(intent, name=name)
            nibabel.save(image, path)
            yield path, case
    for file in sorted((DATA / "elastix-lung" / "transforms").glob("*.txt")):
        yield file, None
    for file in sorted((DATA / "transform-samples").rglob("*.*")):
        yield file, None


def test_right_files_are_rarely_refused(tmp_path: Path) -> None:
    """Of fields in every format that is written, and of files of programs, at most one in twenty is doubted."""
    doubted, count = [], 0
    volume = lung()[0]
    for path, case in _right_files(tmp_path):
        count += 1
        if case is not None:
            said = word(path, case)
        else:
            try:
                wg.read_transform(path, reference=volume.grid, moving=volume.grid)
                said = ""
            except FileFormatError as error:
                said = f"refused: {error}"
        if said:
            doubted.append(f"{path.name} {said[:120]}")
    print(f"{count} right files, {len(doubted)} refused or doubted", *doubted, sep="\n")
    assert count > 120
    assert len(doubted) <= count / 20
