"""Real landmark files against the figures that their authors published."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from warpgauge import Grid
from warpgauge.io.landmarks import Landmarks, read_landmarks, write_landmarks


def distances(lm: Landmarks) -> np.ndarray:
    assert lm.moving_points is not None
    return np.linalg.norm(lm.fixed_points - lm.moving_points, axis=1)


def test_dirlab_files_survive_a_round_trip_byte_for_byte(data_dir: Path, tmp_path: Path) -> None:
    """World and back gives the same whole indices, in the same text."""
    source = data_dir / "copdgene" / "copd1_300_iBH_xyz_r1.txt"
    grid = Grid((512, 512, 121), (0.625, 0.625, 2.5), (-160.3, 17.1, -3.3), units="mm")
    write_landmarks(read_landmarks(source, fixed_grid=grid), tmp_path / "a_xyz.txt", format="dirlab", fixed_grid=grid)
    assert (tmp_path / "a_xyz.txt").read_bytes() == source.read_bytes()


@pytest.mark.parametrize(("stain", "mean", "median"), [("He", 146.8, 73.0), ("proSPC-4", 37.4, 25.0)])
def test_second_rater_of_cima(data_dir: Path, stain: str, mean: float, median: float) -> None:
    """CIMA lung-lesion_3: rater JB against PS, in pixels at 50 %; a tenth of that with scale=0.1."""
    folder = data_dir / "cima" / "lung-lesion_3"
    ps, jb = (folder / f"user-{rater}_scale-50pc" / f"29-041-Izd2-w35-{stain}-les3.csv" for rater in ("PS", "JB"))
    lm = read_landmarks(ps, jb)
    assert (lm.format, lm.units, len(lm)) == ("anhir", "px", 80)
    assert distances(lm).mean() == pytest.approx(mean, abs=0.05)
    assert np.median(distances(lm)) == pytest.approx(median, abs=0.5)
    assert distances(read_landmarks(ps, jb, scale=0.1)).mean() == pytest.approx(mean / 10, abs=0.005)


def test_every_cima_file_is_read_within_its_image(data_dir: Path) -> None:
    """All 29 CSV are recognised; those of lung-lesion_1 lie inside their 10 % images, read without a warning."""
    files = sorted((data_dir / "cima").rglob("*.csv"))
    assert len(files) == 29
    sizes = {}
    image_module = pytest.importorskip("PIL.Image")
    for file in files:
        assert read_landmarks(file).format == "anhir"
        if file.parent.name == "lung-lesion_1":
            with image_module.open(file.with_suffix(".jpg")) as image:
                sizes[file] = Grid(image.size)
            read_landmarks(file, fixed_grid=sizes[file])
    assert len(sizes) == 5


def test_elastix_lung_points(data_dir: Path) -> None:
    """51 transformix points, the same numbers as numpy reads, inside the masks' volumes as SimpleITK sees them."""
    sitk = pytest.importorskip("SimpleITK")
    folder = data_dir / "elastix-lung"
    files = [folder / f"CT_3D_lung_{side}_point_set_corrected.txt" for side in ("fixed", "moving")]
    images = [sitk.ReadImage(str(folder / f"3DCT_lung_{time}_mask.mha")) for time in ("baseline", "followup")]
    directions = [np.reshape(image.GetDirection(), (3, 3)) for image in images]
    grids = [
        Grid(image.GetSize(), image.GetSpacing(), image.GetOrigin(), direction, units="mm")
        for image, direction in zip(images, directions, strict=True)
    ]
    lm = read_landmarks(*files, fixed_grid=grids[0], moving_grid=grids[1])  # a warning would be an error
    assert (lm.format, lm.frame, lm.units, len(lm)) == ("transformix", "LPS", "mm", 51)
    for points, file, image in zip((lm.fixed_points, lm.moving_points), files, images, strict=True):
        np.testing.assert_array_equal(points, np.loadtxt(file, skiprows=2))
        for point in points:
            image.TransformPhysicalPointToIndex(point.tolist())


def afids(data_dir: Path) -> list[dict[str, str]]:
    with (data_dir / "afids" / "afids_multirater_long.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def write_fcsv(path: Path, rows: list[dict[str, str]], frame: str) -> Path:
    lines = ["# Markups fiducial file version = 4.6", f"# CoordinateSystem = {frame}"]
    lines.append("# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID")
    for row in sorted(rows, key=lambda row: int(row["afid"])):
        numbers = ",".join(row[axis] for axis in ("x_mm", "y_mm", "z_mm"))
        lines.append(f"vtkMRMLMarkupsFiducialNode_{row['afid']},{numbers},0,0,0,1,1,1,0,{row['afid']},,")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_afids_raters_of_hcp(data_dir: Path, tmp_path: Path) -> None:
    """32 points, 30 subjects, 3 raters in RAS .fcsv: distance from the mean over raters 0.66 (SD 0.50) mm."""
    rows = [row for row in afids(data_dir) if row["dataset"] == "hcp"]
    found = []
    for subject in sorted({row["image"] for row in rows}):
        sets = []
        placements = {(row["rater"], row["session"]) for row in rows if row["image"] == subject}
        for who in sorted(placements):  # one subject has two sessions of one rater
            mine = [row for row in rows if row["image"] == subject and (row["rater"], row["session"]) == who]
            sets.append(read_landmarks(write_fcsv(tmp_path / "placement.fcsv", mine, "0")).fixed_points)
        found.append(np.linalg.norm(np.array(sets) - np.mean(sets, axis=0), axis=2))
    flat = np.concatenate([block.ravel() for block in found])
    assert flat.size == 30 * 3 * 32
    assert flat.mean() == pytest.approx(0.66, abs=0.005)
    assert flat.std() == pytest.approx(0.50, abs=0.005)


def test_afids_of_two_templates(data_dir: Path, tmp_path: Path) -> None:
    """Colin27 to MNI152 6Asym, mean over raters: initial error 4.31 (SD 2.81) mm, by .mrk.json written from RAS."""
    rows = afids(data_dir)
    names = sorted({row["dataset"] + "/" + row["image"] for row in rows if row["dataset"] != "hcp"})
    paths = []
    for name in names:
        dataset, image = name.split("/", 1)
        mine = [row for row in rows if (row["dataset"], row["image"]) == (dataset, image)]
        points = np.array(
            [
                np.mean([[float(r[a]) for a in ("x_mm", "y_mm", "z_mm")] for r in mine if int(r["afid"]) == k], axis=0)
                for k in range(1, 33)
            ]
        )
        lm = Landmarks(points * [-1, -1, 1], frame="LPS", units="mm", names=tuple(map(str, range(1, 33))))
        paths.append(tmp_path / f"{len(paths)}.mrk.json")
        write_landmarks(lm, paths[-1], frame="RAS")
    assert len(paths) == 2, names
    error = distances(read_landmarks(*paths))
    assert error.mean() == pytest.approx(4.31, abs=0.02)
    assert error.std() == pytest.approx(2.81, abs=0.06)
