"""Files written by hand as each format's documentation shows them, and what they mean."""

from __future__ import annotations

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import corpus
from warpgauge import Grid
from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, SuspiciousDataWarning
from warpgauge.io.landmarks import Landmarks, read_landmarks, write_landmarks


def save(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


BIGWARP_2D = (
    '"Pt-0","true","47.5","103.99999999999999","51.09375","195.28125"\n'
    '"Pt-1","false","162.5","42.90624999999999","120.09375","49.37499999999999"\n'
    '"Pt-2","true","Infinity","Infinity","125.84375","160.78125"\n'
    '"Pt-3","true","197.0","183.0625","120.09375","130.59375"\n'
)

FCSV = (
    "# Markups fiducial file version = 4.13\n"
    "# CoordinateSystem = {frame}\n"
    "# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n"
    "0,-19.9,13.9347,29.44,0,0,0,1,1,1,0,F-1,,\n"
    "1,-7.3939,-76.9,17.55,0,0,0,1,1,1,0,F-2,,\n"
)

MRK = (
    '{"@schema": "https://example.org/markups-schema-v1.0.0.json#",\n'
    '"markups": [{"type": "Fiducial", "coordinateSystem": "LPS", "controlPoints": [\n'
    '  { "label": "F-1", "position": [-53.388409961685827, -73.33572796934868, 0.0] },\n'
    '  { "label": "F-2", "position": [49.8682950191571, -88.58955938697324, 0.5] }\n'
    "]}]}"
)


def test_bigwarp_has_moving_first(tmp_path: Path) -> None:
    """In BigWarp's columns the moving point stands before the fixed one."""
    lm = read_landmarks(save(tmp_path, "landmarks.csv", BIGWARP_2D))
    assert lm.format == "bigwarp"
    np.testing.assert_array_equal(lm.moving_points[0], [47.5, 103.99999999999999])
    np.testing.assert_array_equal(lm.fixed_points[0], [51.09375, 195.28125])
    assert lm.names == ("Pt-0", "Pt-1", "Pt-3")


def test_bigwarp_marks_inactive_rows_and_leaves_unplaced_ones_out(tmp_path: Path) -> None:
    """An inactive row is kept and marked, a row at Infinity is left out with a note; neither is an annotation."""
    lm = read_landmarks(save(tmp_path, "landmarks.csv", BIGWARP_2D))
    np.testing.assert_array_equal(lm.active, [True, False, True])
    assert "1 row without a point in every image left out (3)." in lm.assumptions
    fixed, moving, covariances = lm.to_annotation_arrays(default_covariance=4.0)
    np.testing.assert_array_equal(fixed, [[51.09375, 195.28125], [120.09375, 130.59375]])
    np.testing.assert_array_equal(moving, [[47.5, 103.99999999999999], [197.0, 183.0625]])
    np.testing.assert_array_equal(covariances, [4.0 * np.eye(2)] * 2)


def test_bigwarp_is_written_as_bigwarp_writes_it(tmp_path: Path) -> None:
    """Reading and writing keeps rows, order and quotes."""
    lm = read_landmarks(save(tmp_path, "landmarks.csv", BIGWARP_2D))
    write_landmarks(lm, tmp_path / "again.csv", format="bigwarp")
    placed = "".join(line for line in BIGWARP_2D.splitlines(keepends=True) if "Infinity" not in line)
    assert (tmp_path / "again.csv").read_text().replace('"197"', '"197.0"') == placed


def test_bigwarp_in_three_dimensions(tmp_path: Path) -> None:
    """Eight fields are 3D."""
    lm = read_landmarks(save(tmp_path, "l.csv", '"a","true","1","2","3","4","5","6"\n'))
    np.testing.assert_array_equal(lm.moving_points, [[1, 2, 3]])
    np.testing.assert_array_equal(lm.fixed_points, [[4, 5, 6]])


@pytest.mark.parametrize(("word", "sign"), [("LPS", 1), ("RAS", -1), ("0", -1), ("1", 1)])
def test_fcsv_frames(tmp_path: Path, word: str, sign: int) -> None:
    """An .fcsv is LPS or RAS; the old codes are 0 for RAS and 1 for LPS."""
    lm = read_landmarks(save(tmp_path, "f.fcsv", FCSV.format(frame=word)))
    expected = [[-19.9 * sign, 13.9347 * sign, 29.44], [-7.3939 * sign, -76.9 * sign, 17.55]]
    np.testing.assert_allclose(lm.fixed_points, expected, rtol=1e-15)
    assert (lm.frame, lm.units, lm.names, lm.moving_points) == ("LPS", "mm", ("F-1", "F-2"), None)
    assert ("RAS coordinates were turned into LPS." in lm.assumptions) == (sign == -1)


def test_fcsv_without_a_frame_is_refused(tmp_path: Path) -> None:
    """A file that does not say LPS or RAS needs the caller to say it."""
    path = save(tmp_path, "f.fcsv", FCSV.replace("# CoordinateSystem = {frame}\n", ""))
    with pytest.raises(AmbiguousFileError, match="LPS or RAS"):
        read_landmarks(path)
    np.testing.assert_allclose(read_landmarks(path, frame="RAS").fixed_points[0], [19.9, -13.9347, 29.44])


def test_fcsv_of_newer_slicer_has_a_status_column(tmp_path: Path) -> None:
    """The two unnamed columns of Slicer 5 hold the status: 2 is placed, anything else is not."""
    text = FCSV.format(frame="LPS").replace("F-1,,\n", "F-1,,,2,0\n").replace("F-2,,\n", "F-2,,,0,0\n")
    lm = read_landmarks(save(tmp_path, "f.fcsv", text))
    assert lm.names == ("F-1",)
    assert "1 row without a point in every image left out (2)." in lm.assumptions


def test_mrk_json_as_in_slicers_manual(tmp_path: Path) -> None:
    """The example of Slicer's developer guide."""
    lm = read_landmarks(save(tmp_path, "f.mrk.json", MRK))
    np.testing.assert_array_equal(lm.fixed_points[1], [49.8682950191571, -88.58955938697324, 0.5])
    assert (lm.format, lm.frame, lm.names) == ("slicer-json", "LPS", ("F-1", "F-2"))


def test_mrk_json_ras_default_units_and_status(tmp_path: Path) -> None:
    """RAS is flipped, um is kept, an undefined control point is left out, and a missing frame is LPS and said."""
    content = json.loads(MRK)
    markup = content["markups"][0]
    markup["coordinateSystem"] = "RAS"
    markup["coordinateUnits"] = ["um", "UCUM", "micrometer"]
    markup["controlPoints"].append({"label": "F-3", "positionStatus": "undefined"})
    lm = read_landmarks(save(tmp_path, "a.mrk.json", json.dumps(content)))
    np.testing.assert_array_equal(lm.fixed_points[0], [53.388409961685827, 73.33572796934868, 0.0])
    assert (lm.units, lm.names) == ("um", ("F-1", "F-2"))
    del markup["coordinateSystem"]
    lm = read_landmarks(save(tmp_path, "b.mrk.json", json.dumps(content)))
    np.testing.assert_array_equal(lm.fixed_points[0], [-53.388409961685827, -73.33572796934868, 0.0])
    assert any("default is LPS" in sentence for sentence in lm.assumptions)


def test_mrk_json_of_several_lists_is_refused(tmp_path: Path) -> None:
    """Two point lists in one file leave open which is meant."""
    content = json.loads(MRK)
    content["markups"] *= 2
    with pytest.raises(FileFormatError, match="2 point lists"):
        read_landmarks(save(tmp_path, "f.mrk.json", json.dumps(content)))


def test_transformix_point_and_index(tmp_path: Path) -> None:
    """`point` is world; `index` and a missing keyword are voxels that need the grid."""
    grid = Grid((20, 30, 40), (0.5, 0.6, 2.0), (-10.0, 5.0, 7.0), np.diag([1.0, -1.0, -1.0]), units="mm")
    rows = "2\n1 2 3\n10 20 30\n"
    lm = read_landmarks(save(tmp_path, "p.txt", "point\n" + rows))
    np.testing.assert_array_equal(lm.fixed_points, [[1, 2, 3], [10, 20, 30]])
    for head in ("index\n", ""):
        path = save(tmp_path, "i.txt", head + rows)
        with pytest.raises(AmbiguousFileError, match="grid"):
            read_landmarks(path)
        lm = read_landmarks(path, fixed_grid=grid)
        # by hand: x = -10 + 0.5 i, y = 5 - 0.6 j, z = 7 - 2 k
        np.testing.assert_allclose(lm.fixed_points, [[-9.5, 3.8, 1.0], [-5.0, -7.0, -53.0]], rtol=1e-14)
        assert (lm.frame, lm.units) == ("LPS", "mm")
    assert any("neither 'point' nor 'index'" in sentence for sentence in lm.assumptions)


def test_transformix_in_two_dimensions(tmp_path: Path) -> None:
    """Two columns are 2D points in the world of the image."""
    lm = read_landmarks(save(tmp_path, "p.txt", "point\n1\n1.5 2.5\n"))
    np.testing.assert_array_equal(lm.fixed_points, [[1.5, 2.5]])
    assert (lm.frame, lm.units) == ("image", "px")


def test_ants_example_of_its_manual(tmp_path: Path) -> None:
    """The chicken of ANTs: four columns for 2D points, which only the caller or a grid can tell from 3D."""
    text = "x,y,z,t,label,comment\n82.5,116.5,0,0,1,this is the breast\n137.5,35.5,0,0,2,this is the beak\n"
    path = save(tmp_path, "chicken-3.csv", text)
    with pytest.raises(AmbiguousFileError, match="--dimension 2 or 3"):
        read_landmarks(path)
    lm = read_landmarks(path, dimension=2)
    np.testing.assert_array_equal(lm.fixed_points, [[82.5, 116.5], [137.5, 35.5]])
    assert (lm.format, lm.names) == ("ants", ("this is the breast", "this is the beak"))
    assert read_landmarks(path, fixed_grid=Grid((200, 200))).d == 2
    assert read_landmarks(path, dimension=3).fixed_points.shape == (2, 3)


def test_ants_output_has_nan_comments(tmp_path: Path) -> None:
    """ANTs writes nan into the comments; the labels then name the points."""
    path = save(tmp_path, "test.csv", "x,y,z,t,label,comment\n10.8,162.0,3,0,1,nan\n7.5,52.1,3,0,2,nan\n")
    lm = read_landmarks(path)
    assert (lm.names, lm.frame, lm.units) == (("1", "2"), "LPS", "mm")


def test_napari_is_in_array_order(tmp_path: Path) -> None:
    """napari's axis-0 is the slowest axis: y in 2D, z in 3D."""
    lm = read_landmarks(save(tmp_path, "p.csv", "index,axis-0,axis-1\n0.0,10.5,3.0\n1.0,20.0,4.25\n"))
    np.testing.assert_array_equal(lm.fixed_points, [[3.0, 10.5], [4.25, 20.0]])
    assert (lm.format, lm.frame, lm.units) == ("napari", "image", "px")
    lm = read_landmarks(save(tmp_path, "q.csv", "index,axis-0,axis-1,axis-2,quality\n0,1,2,3,0.5\n"))
    np.testing.assert_array_equal(lm.fixed_points, [[3, 2, 1]])
    assert any("quality" in sentence for sentence in lm.assumptions)


def test_napari_shapes_are_refused(tmp_path: Path) -> None:
    """A shapes layer has the same columns and another meaning."""
    path = save(tmp_path, "s.csv", "index,shape-type,vertex-index,axis-0,axis-1\n0,rectangle,0,1,2\n")
    with pytest.raises(FileFormatError, match="of a shapes layer"):
        read_landmarks(path)


def test_anhir_pairs_by_row(tmp_path: Path) -> None:
    """ANHIR and CIMA: `,X,Y` or ` ,X,Y`, pixels, one file an image; `scale` multiplies them."""
    fixed = save(tmp_path, "a.csv", ",X,Y\n1,119,144\n2,245,216\n3,10,20\n")
    moving = save(tmp_path, "b.csv", " ,X,Y\n0,120,150\n1,250,220\n2,15,20\n")
    lm = read_landmarks(fixed, moving, scale=0.1, rater="PS")
    np.testing.assert_allclose(lm.fixed_points, [[11.9, 14.4], [24.5, 21.6], [1, 2]], rtol=1e-14)
    np.testing.assert_allclose(lm.moving_points, [[12, 15], [25, 22], [1.5, 2]], rtol=1e-14)
    assert (lm.format, lm.units, lm.raters, lm.names) == ("anhir", "px", ("PS",) * 3, None)
    lm = read_landmarks(fixed, moving, scale=(1.0, 2.0), fixed_grid=Grid((300, 300)), moving_grid=Grid((600, 600)))
    np.testing.assert_array_equal(lm.moving_points[0], [240, 300])
    grid = Grid((300, 300), (0.5, 0.5), units="um")
    lm = read_landmarks(fixed, moving, fixed_grid=grid, moving_grid=grid)
    np.testing.assert_array_equal(lm.fixed_points[0], [59.5, 72.0])
    assert lm.units == "um"


def test_anhir_with_gaps_in_its_count(tmp_path: Path) -> None:
    """Files that lack different landmarks are not matched row by row unnoticed."""
    fixed = save(tmp_path, "a.csv", ",X,Y\n1,1,1\n2,2,2\n4,4,4\n")
    moving = save(tmp_path, "b.csv", ",X,Y\n1,1,1\n3,3,3\n2,2,2\n")
    with pytest.raises(AmbiguousFileError, match="--match name"):
        read_landmarks(fixed, moving)
    assert len(read_landmarks(fixed, moving, match="row")) == 3


def test_dirlab_counts_from_one(tmp_path: Path) -> None:
    """Voxel (1, 1, 1) of DIR-Lab is the first voxel; without a grid the file is refused."""
    path = save(tmp_path, "case9_300_T00_xyz.txt", "1\t1\t1\r\n188\t260\t4\r\n")
    grid = Grid((512, 512, 121), (0.625, 0.625, 2.5), (-160.0, -160.0, 10.0), units="mm")
    with pytest.raises(AmbiguousFileError, match="--fixed-image"):
        read_landmarks(path)
    lm = read_landmarks(path, fixed_grid=grid)
    np.testing.assert_array_equal(lm.fixed_points, [[-160, -160, 10], [-43.125, 1.875, 17.5]])
    np.testing.assert_array_equal(read_landmarks(path, units="px").fixed_points, [[0, 0, 0], [187, 259, 3]])


def test_bare_numbers_under_another_name_are_ambiguous(tmp_path: Path) -> None:
    """Three columns of numbers alone say nothing; DIR-Lab's own file names do."""
    path = save(tmp_path, "points.txt", "1 1 1\n188 260 4\n")
    with pytest.raises(AmbiguousFileError, match="--format dirlab"):
        read_landmarks(path)
    assert read_landmarks(path, format="dirlab", units="px").format == "dirlab"


def test_dirlab_with_a_zero_is_suspicious(tmp_path: Path) -> None:
    """An index 0 in a format that counts from 1 is reported, and can be read from 0."""
    path = save(tmp_path, "a_xyz.txt", "0 5 5\n3 4 5\n")
    with pytest.warns(SuspiciousDataWarning, match="voxel index 0"):
        read_landmarks(path, units="px")
    np.testing.assert_array_equal(read_landmarks(path, units="px", frame="index").fixed_points[0], [0, 5, 5])


def test_plain_csv_with_all_columns(tmp_path: Path) -> None:
    """Names, raters, covariances, inactive rows and skips; a row without its moving point is left out."""
    text = (
        "name,fixed_x,fixed_y,moving_x,moving_y,rater,c_xx,c_xy,c_yy,active,skip,units,remark\n"
        "a,1,2,3,4,PS,2.0,0.5,1.0,true,,um,x\n"
        '"b, c",5,6,7,8,JB,,,,false,,um,\n'
        "d,9,10,,,PS,,,,,torn tissue,um,\n"
        "e,11,12,,,PS,,,,,,um,\n"
    )
    lm = read_landmarks(save(tmp_path, "p.csv", text))
    assert (lm.names, lm.raters, lm.units, lm.frame) == (("a", "b, c"), ("PS", "JB"), "um", "image")
    np.testing.assert_array_equal(lm.covariances[0], [[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_array_equal(lm.has_covariance, [True, False])
    np.testing.assert_array_equal(lm.active, [True, False])
    ((point, reason, rater),) = lm.skips
    assert (point.tolist(), reason, rater) == ([9.0, 10.0], "torn tissue", "PS")
    assert "1 row without a point in every image left out (3)." in lm.assumptions
    assert any("remark" in sentence for sentence in lm.assumptions)


def test_plain_csv_of_points_makes_pairs_of_two_files(tmp_path: Path) -> None:
    """`x,y,z` is a set of points, LPS in mm; RAS has to be said."""
    fixed = save(tmp_path, "a.csv", "x,y,z\n1,2,3\n4,5,6\n")
    moving = save(tmp_path, "b.csv", "x,y,z\n1,2,4\n4,5,7\n")
    lm = read_landmarks(fixed, moving, frame="RAS")
    np.testing.assert_array_equal(lm.fixed_points, [[-1, -2, 3], [-4, -5, 6]])
    np.testing.assert_array_equal(lm.moving_points, [[-1, -2, 4], [-4, -5, 7]])
    assert (lm.frame, lm.units) == ("LPS", "mm")


def test_a_rater_is_selected_where_the_file_names_raters(tmp_path: Path) -> None:
    """`rater` picks rows from a file of several raters, and an unknown one is an error that lists them."""
    text = "fixed_x,fixed_y,moving_x,moving_y,rater\n1,1,1,2,PS\n2,2,2,3,JB\n3,3,3,4,PS\n"
    path = save(tmp_path, "p.csv", text)
    lm = read_landmarks(path, rater="PS")
    np.testing.assert_array_equal(lm.fixed_points, [[1, 1], [3, 3]])
    with pytest.raises(InvalidInputError, match="it has those of JB, PS"):
        read_landmarks(path, rater="XY")


def test_points_of_two_files_are_paired_by_name(tmp_path: Path) -> None:
    """Named points in another order are paired by name, which is said; by row only when asked."""
    fixed = save(tmp_path, "a.fcsv", FCSV.format(frame="LPS"))
    header, first, second = FCSV.format(frame="RAS").rsplit("\n", 3)[:3]
    moving = save(tmp_path, "b.fcsv", "\n".join([header, second, first, ""]))
    by_name, by_row = read_landmarks(fixed, moving), read_landmarks(fixed, moving, match="row")
    np.testing.assert_allclose(by_name.moving_points[0], [19.9, -13.9347, 29.44])
    np.testing.assert_array_equal(by_row.moving_points[1], by_name.moving_points[0])
    assert "Points of the two files were paired by name; 2 of 2 stand in another row." in by_name.assumptions
    assert "Row order was used to pair the points of the two files." in by_row.assumptions
    other = save(tmp_path, "c.fcsv", moving.read_text().replace("F-2", "G"))
    with pytest.raises(AmbiguousFileError, match="'F-1' is number 1"):
        read_landmarks(fixed, other)
    with pytest.raises(FileFormatError, match="no point 'F-2'"):
        read_landmarks(fixed, other, match="name")


def test_shuffled_rows_are_paired_by_their_index(tmp_path: Path) -> None:
    """ANHIR numbers its rows: a moving file in another order is put right, whatever the fixed file counts."""
    fixed = save(tmp_path, "a.csv", ",X,Y\n0,1,10\n1,2,20\n2,3,30\n")
    moving = save(tmp_path, "b.csv", ",X,Y\n2,103,30\n0,101,10\n1,102,20\n")
    found = read_landmarks(fixed, moving)
    np.testing.assert_array_equal(found.moving_points - found.fixed_points, [[100, 0]] * 3)
    assert any("paired by their index; 3 of 3 stand in another row" in one for one in found.assumptions)
    np.testing.assert_array_equal(read_landmarks(fixed, moving, match="row").moving_points[0], [103, 30])
    np.testing.assert_array_equal(read_landmarks(fixed, moving, match="index").moving_points[0], [101, 10])
    with pytest.raises(FileFormatError, match="does not give every point a name"):
        read_landmarks(fixed, moving, match="name")


def test_unequal_counts_name_both(tmp_path: Path) -> None:
    """Two files that do not hold the same number of points are an error with both numbers."""
    fixed = save(tmp_path, "a.csv", ",X,Y\n1,1,1\n2,2,2\n")
    moving = save(tmp_path, "b.csv", ",X,Y\n1,1,1\n")
    with pytest.raises(FileFormatError, match=r"'a.csv' \(fixed\) holds 2 points and 'b.csv' \(moving\) holds 1"):
        read_landmarks(fixed, moving)


def test_what_cannot_be_held_is_not_lost_silently(tmp_path: Path) -> None:
    """Writing to a poorer format is refused with a list of the losses, unless they are allowed."""
    lm = Landmarks(
        np.array([[1.0, 2.0], [3.0, 5.0]]),
        np.array([[1.0, 3.0], [3.0, 6.0]]),
        covariances=np.array([np.eye(2)] * 2),
        names=("a", "b"),
        raters=("PS", None),
        active=np.array([True, False]),
        units="um",
    )
    with pytest.raises(InvalidInputError, match="covariances, raters, the units um"):
        write_landmarks(lm, tmp_path / "l.csv", format="bigwarp")
    assert not (tmp_path / "l.csv").exists()
    lost = write_landmarks(lm, tmp_path / "l.csv", format="bigwarp", lossy=True)
    assert len(lost) == 3
    back = read_landmarks(tmp_path / "l.csv", units="um")
    np.testing.assert_array_equal(back.moving_points, lm.moving_points)
    assert write_landmarks(lm, tmp_path / "all.csv") == ()


def test_transformix_index_rounds_and_says_so(tmp_path: Path) -> None:
    """Points between voxels would be rounded by transformix, so writing them as indices is a loss."""
    lm = Landmarks(np.array([[1.0, 2.0], [3.5, 5.0]]))
    with pytest.raises(InvalidInputError, match="1 point between voxels"):
        write_landmarks(lm, tmp_path / "l.txt", format="transformix", frame="index")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "a.txt"}, "does not say which landmark format"),
        ({"path": "a.csv", "format": "excel"}, "not one of"),
        ({"path": "a.fcsv"}, "is only read"),
        ({"path": "a.mrk.json"}, "3D points, not 2D"),
        ({"path": "a.csv", "format": "anhir"}, "two files"),
        ({"path": "a.csv", "moving_path": "b.csv"}, "one file"),
        ({"path": "a.csv", "moving_path": "b.csv", "format": "napari", "fixed_grid": Grid((2, 2))}, "a grid is in px"),
        ({"path": "a.csv", "moving_path": "b.csv", "format": "napari"}, "pass --fixed-image"),
        ({"path": "a.csv", "moving_path": "b.csv", "format": "anhir", "frame": "RAS"}, "--frame RAS"),
        ({"path": "no/such/folder/a.csv"}, "cannot be written"),
    ],
)
def test_writing_refuses_with_a_reason(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    """Each impossible request to write is one clear error."""
    lm = Landmarks(np.array([[1.0, 2.0]]), np.array([[1.0, 2.0]]), units="um")
    if "fixed_grid" in arguments:
        arguments = arguments | {"moving_grid": arguments["fixed_grid"]}
    paths = {k: tmp_path / str(v) for k, v in arguments.items() if "path" in k}
    with pytest.raises(InvalidInputError, match=message):
        write_landmarks(lm, **(arguments | paths))


def test_landmarks_check_themselves() -> None:
    """A value that breaks its own rules cannot be made."""
    points = np.zeros((2, 2))
    bad = [
        {"fixed_points": np.zeros((2, 4))},
        {"fixed_points": np.full((2, 2), np.nan)},
        {"moving_points": np.zeros((3, 2))},
        {"moving_points": points, "covariances": np.zeros((2, 3, 3))},
        {"moving_points": points, "covariances": np.array([np.eye(2), -np.eye(2)])},
        {"names": ("a",)},
        {"names": ("a", "\x00")},
        {"active": np.ones(3, dtype=bool)},
        {"frame": "LPS"},
        {"units": "inch"},
    ]
    for members in bad:
        with pytest.raises(InvalidInputError):
            Landmarks(**({"fixed_points": points} | members))
    lm = Landmarks(points, points)
    with pytest.raises(InvalidInputError, match="2 of 2 landmarks have no covariance"):
        lm.to_annotation_arrays()
    with pytest.raises(InvalidInputError, match="default_covariance"):
        lm.to_annotation_arrays(-1.0)
    with pytest.raises(InvalidInputError, match="set of points"):
        Landmarks(points).to_annotation_arrays(1.0)
    assert lm.with_rater("PS").raters == ("PS", "PS")


def test_qupath_points_count_from_the_corner(tmp_path: Path) -> None:
    """The first pixel's centre is (0.5, 0.5) in QuPath and (0, 0) here; names pair the points of two images."""

    def point(x: float, y: float, name: str) -> str:
        return json.dumps(
            {"type": "Feature", "geometry": {"type": "Point", "coordinates": [x, y]}, "properties": {"name": name}}
        )

    fixed = save(tmp_path, "f.geojson", f"[{point(0.5, 0.5, 'a')}, {point(10.5, 20.5, 'b')}]\n")
    both = ",".join([point(12.5, 23.5, "b"), point(2.5, 3.5, "a")])
    moving = save(tmp_path, "m.geojson", '{"type": "FeatureCollection", "features": [' + both + "]}\n")
    found = read_landmarks(fixed, moving)
    assert (found.format, found.names, found.units) == ("qupath", ("a", "b"), "px")
    np.testing.assert_array_equal(found.fixed_points, [[0, 0], [10, 20]])
    np.testing.assert_array_equal(found.moving_points, [[2, 3], [12, 23]])
    several = {"type": "Feature", "geometry": {"type": "MultiPoint", "coordinates": [[1, 2], [3, 4]]}}
    many = save(tmp_path, "multi.geojson", json.dumps(several) + "\n")
    np.testing.assert_array_equal(read_landmarks(many).fixed_points, [[0.5, 1.5], [2.5, 3.5]])
    outline = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": []}}
    polygon = save(tmp_path, "p.geojson", json.dumps(outline) + "\n")
    with pytest.raises(FileFormatError, match="not a Point"):
        read_landmarks(polygon)


@pytest.mark.parametrize("mark", [";", "\t"])
def test_semicolons_and_tabs_are_read_and_said(tmp_path: Path, mark: str) -> None:
    """A table that a spreadsheet wrote elsewhere; a comma within a number could mean two things and is refused."""
    text = "name,fixed_x,fixed_y,moving_x,moving_y\na,1.5,2,3,4\n".replace(",", mark)
    lm = read_landmarks(save(tmp_path, "p.csv", text))
    np.testing.assert_array_equal(lm.fixed_points, [[1.5, 2]])
    assert any("separated by" in sentence for sentence in lm.assumptions)
    with pytest.raises(FileFormatError, match="line 2: '1,5' has a comma"):
        read_landmarks(save(tmp_path, "q.csv", text.replace("1.5", "1,5")))


def test_a_table_of_no_format_says_what_is_expected(tmp_path: Path) -> None:
    """Comma-separated, the header, and what stands there instead."""
    with pytest.raises(
        FileFormatError, match=r"begins with 'point,left,right'.*header fixed_x,fixed_y,moving_x,moving_y"
    ):
        read_landmarks(save(tmp_path, "p.csv", "point,left,right\n1,2,3\n"))


WRONG_NUMBERS = ("nan", "inf", "1e999", "1e300", "twelve", "\u0661\u0662", "1_000", "9" * 100_000, "")


@pytest.mark.parametrize("one", corpus.LANDMARKS, ids=attrgetter("name"))
def test_what_is_not_a_number_is_refused(one: corpus.Specimen, tmp_path: Path) -> None:
    """Python's float takes some of these; a landmark file has no use for them."""
    path = one.make(tmp_path)
    text = path.read_text()
    number = next(word for word in ("12.5", "13.0", "12.0", "13") if word in text)
    for word in WRONG_NUMBERS:
        path.write_text(text.replace(number, word, 1))
        with pytest.raises(corpus.Refused, match=path.name):
            corpus.answer(one, path)


@pytest.mark.parametrize(
    ("name", "text", "arguments", "message"),
    [
        ("a_xyz.txt", "1 2\n3 4\n", {"format": "dirlab"}, "this is no DIR-Lab"),
        ("p.txt", "point\n2\n1 2 3\n4 5\n", {}, "2 coordinates"),
        ("n.csv", "index,axis-0,axis-1,axis-2,axis-3\n0,1,2,3,4\n", {}, "axis-3"),
        ("b.csv", '"a","true","1","2","3","4"\n"b","true","1","2","3","4","5","6"\n', {}, "8 fields"),
        ("d.csv", "fixed_x,fixed_y,fixed_z,moving_x,moving_y\n1,2,3,4,5\n", {}, "no column 'moving_z'"),
        ("e.csv", ",X,Y\n1,2,3,4\n", {}, "4 fields, but the header has 3"),
        ("f.csv", "x,y,z,t\n1,2,3,0\n1,2,3,1\n", {}, "several times"),
        ("g.txt", "point\n3\n1 2 3\n", {}, "announces 3 points and holds 1"),
        ("h.csv", "x,x\n1,2\n", {"format": "csv"}, "stands twice"),
        ("i.csv", "fixed_x,fixed_y,moving_x,moving_y\n1,2,,4\n", {}, "'' is not a number"),
        ("j.csv", "fixed_x,fixed_y,moving_x,moving_y,name\n,,,,a\n", {}, "neither a fixed nor a moving point"),
        ("k.csv", "fixed_x,fixed_y,moving_x,moving_y,c_xx,c_xy,c_yy\n1,2,,,1,0,1\n", {}, "has a covariance"),
        ("c.csv", "fixed_x,fixed_y,moving_x,moving_y,c_xx,c_xy,c_yy\n1,2,3,4,1,2,1\n", {}, "negative eigenvalue"),
        ("l.csv", '"a","true","Infinity","2","3","4"\n', {}, "some coordinates at Infinity"),
        ("m.csv", "x,y,units\n1,2,um\n3,4,mm\n", {}, "throughout"),
        ("o.csv", 'x,y\n1,2\n"3,4\n', {}, "broken comma-separated text"),
        ("q.csv", "fixed_x,fixed_y,moving_x,moving_y,active\n1,2,3,4,maybe\n", {}, "not true or false"),
        ("r.csv", "fixed_x,fixed_y,moving_x,moving_y,skip\n1,2,3,4,torn\n", {}, "a skip that has a moving point"),
        ("s.json", '{"a": 1}', {}, "neither a point list of 3D Slicer nor GeoJSON"),
        ("t.csv", " \n\n", {}, "only blank lines"),
    ],
)
def test_broken_tables_are_refused(
    tmp_path: Path, name: str, text: str, arguments: dict[str, Any], message: str
) -> None:
    """Rows of another width, another dimension, contradictions: each is one sentence that names the file."""
    with pytest.raises(FileFormatError, match=message) as caught:
        read_landmarks(save(tmp_path, name, text), **arguments)
    assert name in str(caught.value)
