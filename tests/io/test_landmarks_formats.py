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


PLAIN = (
    "name,fixed_x,fixed_y,moving_x,moving_y,rater,c_xx,c_xy,c_yy,active,skip,units,remark\n"
    "a,1,2,3,4,PS,2.0,0.5,1.0,true,,um,x\n"
    '"b, c",5,6,7,8,JB,,,,false,,um,\n'
    "d,9,10,,,PS,,,,,torn tissue,um,\n"
    "e,11,12,,,PS,,,,,,um,\n"
)
CHICKEN = "x,y,z,t,label,comment\n82.5,116.5,0,0,1,this is the breast\n137.5,35.5,0,0,2,this is the beak\n"
STATUS = FCSV.format(frame="LPS").replace("F-1,,\n", "F-1,,,2,0\n").replace("F-2,,\n", "F-2,,,0,0\n")
UNDEFINED = MRK.replace("0.5] }", '0.5] }, {"label": "F-3", "positionStatus": "undefined"}')
GRID = Grid((20, 30, 40), (0.5, 0.6, 2.0), (-10.0, 5.0, 7.0), np.diag([1.0, -1.0, -1.0]), units="mm")
# By hand: x = -10 + 0.5 i, y = 5 - 0.6 j, z = 7 - 2 k.
VOXELS, ON_GRID = "2\n1 2 3\n10 20 30\n", [[-9.5, 3.8, 1.0], [-5.0, -7.0, -53.0]]
LEFT_OUT = "1 row without a point in every image left out ({})."
# What is read: the name of the file, its text, the options, and what the landmarks have to say.
READ: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "BigWarp has moving first, and rows that are not placed": (
        "l.csv", BIGWARP_2D, {},
        {"format": "bigwarp", "fixed_points": [[51.09375, 195.28125], [120.09375, 49.37499999999999],
         [120.09375, 130.59375]], "moving_points": [[47.5, 103.99999999999999], [162.5, 42.90624999999999],
         [197.0, 183.0625]], "names": ("Pt-0", "Pt-1", "Pt-3"), "active": [True, False, True],
         "says": LEFT_OUT.format(3)},
    ),
    "BigWarp in 3D": (
        "l.csv", '"a","true","1","2","3","4","5","6"\n', {},
        {"moving_points": [[1, 2, 3]], "fixed_points": [[4, 5, 6]]},
    ),
    **{
        f"fcsv with the frame {word}": (
            "f.fcsv", FCSV.format(frame=word), {},
            {"fixed_points": [[-19.9 * sign, 13.9347 * sign, 29.44], [-7.3939 * sign, -76.9 * sign, 17.55]],
             "frame": "LPS", "units": "mm", "names": ("F-1", "F-2"), "moving_points": None},
        )
        for word, sign in (("LPS", 1), ("RAS", -1), ("0", -1), ("1", 1))
    },
    "fcsv of Slicer 5 with a status": (
        "f.fcsv", STATUS, {}, {"names": ("F-1",), "says": LEFT_OUT.format(2)},
    ),
    "fcsv without a frame, which is said": (
        "f.fcsv", FCSV.replace("# CoordinateSystem = {frame}\n", ""), {"frame": "RAS"},
        {"fixed_points": [[19.9, -13.9347, 29.44], [7.3939, 76.9, 17.55]]},
    ),
    "the example of Slicer's manual": (
        "f.mrk.json", MRK, {},
        {"fixed_points": [[-53.388409961685827, -73.33572796934868, 0.0], [49.8682950191571, -88.58955938697324, 0.5]],
         "format": "slicer-json", "frame": "LPS", "names": ("F-1", "F-2")},
    ),
    "mrk.json in RAS and um, with a point that is not defined": (
        "f.mrk.json",
        UNDEFINED.replace('"LPS"', '"RAS", "coordinateUnits": ["um", "UCUM", "micrometer"]'), {},
        {"fixed_points": [[53.388409961685827, 73.33572796934868, 0.0], [-49.8682950191571, 88.58955938697324, 0.5]],
         "units": "um", "says": LEFT_OUT.format(3)},
    ),
    "mrk.json without a frame": (
        "f.mrk.json", MRK.replace('"coordinateSystem": "LPS", ', ""), {},
        {"names": ("F-1", "F-2"), "says": "The file does not name its coordinate system; Slicer's default is LPS."},
    ),
    "transformix points": ("p.txt", "point\n" + VOXELS, {}, {"fixed_points": [[1, 2, 3], [10, 20, 30]]}),
    "transformix indices": (
        "i.txt", "index\n" + VOXELS, {"fixed_grid": GRID}, {"fixed_points": ON_GRID, "frame": "LPS", "units": "mm"},
    ),
    "transformix without a keyword": (
        "i.txt", VOXELS, {"fixed_grid": GRID},
        {"fixed_points": ON_GRID,
         "says": "The file has neither 'point' nor 'index'; as transformix does, its numbers are indices."},
    ),
    "transformix in 2D": (
        "p.txt", "point\n1\n1.5 2.5\n", {}, {"fixed_points": [[1.5, 2.5]], "frame": "image", "units": "px"},
    ),
    "the example of ANTs' manual, said to be 2D": (
        "chicken-3.csv", CHICKEN, {"dimension": 2},
        {"fixed_points": [[82.5, 116.5], [137.5, 35.5]], "format": "ants",
         "names": ("this is the breast", "this is the beak")},
    ),
    "the same by its grid": (
        "chicken-3.csv", CHICKEN, {"fixed_grid": Grid((200, 200))}, {"fixed_points": [[82.5, 116.5], [137.5, 35.5]]},
    ),
    "ANTs' own output, whose comments are nan": (
        "test.csv", "x,y,z,t,label,comment\n10.8,162.0,3,0,1,nan\n7.5,52.1,3,0,2,nan\n", {},
        {"names": ("1", "2"), "frame": "LPS", "units": "mm"},
    ),
    "napari in array order": (
        "p.csv", "index,axis-0,axis-1\n0.0,10.5,3.0\n1.0,20.0,4.25\n", {},
        {"fixed_points": [[3.0, 10.5], [4.25, 20.0]], "format": "napari", "frame": "image", "units": "px"},
    ),
    "napari in 3D, with a property": (
        "q.csv", "index,axis-0,axis-1,axis-2,quality\n0,1,2,3,0.5\n", {},
        {"fixed_points": [[3, 2, 1]], "says": "Columns that mean nothing here were left out: quality."},
    ),
    "DIR-Lab counts from one": (
        "case9_300_T00_xyz.txt", "1\t1\t1\r\n188\t260\t4\r\n",
        {"fixed_grid": Grid((512, 512, 121), (0.625, 0.625, 2.5), (-160.0, -160.0, 10.0), units="mm")},
        {"fixed_points": [[-160, -160, 10], [-43.125, 1.875, 17.5]]},
    ),
    "DIR-Lab in voxels": (
        "a_xyz.txt", "1 1 1\n188 260 4\n", {"units": "px"}, {"fixed_points": [[0, 0, 0], [187, 259, 3]]},
    ),
    "DIR-Lab under another name": (
        "points.txt", "1 1 1\n188 260 4\n", {"format": "dirlab", "units": "px"}, {"format": "dirlab"},
    ),
    "plain CSV with all columns": (
        "p.csv", PLAIN, {},
        {"names": ("a", "b, c"), "raters": ("PS", "JB"), "units": "um", "frame": "image",
         "covariances": [[[2.0, 0.5], [0.5, 1.0]], [[np.nan] * 2] * 2], "active": [True, False],
         "says": LEFT_OUT.format(3)},
    ),
    "the rows of one rater": (
        "p.csv", "fixed_x,fixed_y,moving_x,moving_y,rater\n1,1,1,2,PS\n2,2,2,3,JB\n3,3,3,4,PS\n", {"rater": "PS"},
        {"fixed_points": [[1, 1], [3, 3]], "raters": ("PS", "PS")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_files_of_each_program_mean(tmp_path: Path, case: str) -> None:
    name, text, options, expected = READ[case]
    lm = read_landmarks(save(tmp_path, name, text), **options)
    for key, value in expected.items():
        if key == "says":
            assert value in lm.assumptions
        elif isinstance(value, list):
            np.testing.assert_allclose(getattr(lm, key), value, rtol=1e-14)
        else:
            assert getattr(lm, key) == value


def test_skips_of_a_plain_csv(tmp_path: Path) -> None:
    lm = read_landmarks(save(tmp_path, "p.csv", PLAIN))
    ((point, reason, rater),) = lm.skips
    assert (point.tolist(), reason, rater) == ([9.0, 10.0], "torn tissue", "PS")
    fixed, moving, covariances = lm.to_annotation_arrays(default_covariance=4.0)
    np.testing.assert_array_equal(np.hstack([fixed, moving]), [[1, 2, 3, 4]])
    np.testing.assert_array_equal(covariances, [[[2.0, 0.5], [0.5, 1.0]]])


def test_bigwarp_is_written_as_bigwarp_writes_it(tmp_path: Path) -> None:
    """Reading and writing keeps rows, order and quotes."""
    lm = read_landmarks(save(tmp_path, "landmarks.csv", BIGWARP_2D))
    write_landmarks(lm, tmp_path / "again.csv", format="bigwarp")
    placed = "".join(line for line in BIGWARP_2D.splitlines(keepends=True) if "Infinity" not in line)
    assert (tmp_path / "again.csv").read_text().replace('"197"', '"197.0"') == placed


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.fcsv", FCSV.replace("# CoordinateSystem = {frame}\n", ""), "LPS or RAS"),
        ("i.txt", VOXELS, "grid"),
        ("chicken-3.csv", CHICKEN, "--fixed-image"),
        ("case9_xyz.txt", "1 1 1\n188 260 4\n", "--fixed-image"),
        ("points.txt", "1 1 1\n188 260 4\n", "--frame index1"),
    ],
)
def test_what_a_file_leaves_open_is_asked_for(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(AmbiguousFileError, match=message):
        read_landmarks(save(tmp_path, name, text))


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


def test_dirlab_with_a_zero_is_suspicious(tmp_path: Path) -> None:
    """An index 0 in a format that counts from 1 is reported, and can be read from 0."""
    path = save(tmp_path, "a_xyz.txt", "0 5 5\n3 4 5\n")
    with pytest.warns(SuspiciousDataWarning, match="voxel index 0"):
        read_landmarks(path, units="px")
    np.testing.assert_array_equal(read_landmarks(path, units="px", frame="index").fixed_points[0], [0, 5, 5])


def test_plain_csv_of_points_makes_pairs_of_two_files(tmp_path: Path) -> None:
    """`x,y,z` is a set of points, LPS in mm; RAS has to be said."""
    fixed = save(tmp_path, "a.csv", "x,y,z\n1,2,3\n4,5,6\n")
    moving = save(tmp_path, "b.csv", "x,y,z\n1,2,4\n4,5,7\n")
    lm = read_landmarks(fixed, moving, frame="RAS")
    np.testing.assert_array_equal(lm.fixed_points, [[-1, -2, 3], [-4, -5, 6]])
    np.testing.assert_array_equal(lm.moving_points, [[-1, -2, 4], [-4, -5, 7]])
    assert (lm.frame, lm.units) == ("LPS", "mm")


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


@pytest.mark.parametrize("first", ["point,left,right", "# of the left lung"])
def test_a_table_of_no_format_says_what_is_expected(tmp_path: Path, first: str) -> None:
    """Comma-separated, the header, and what stands there instead."""
    with pytest.raises(FileFormatError, match=rf"begins with '{first}'.*header fixed_x,fixed_y,moving_x,moving_y"):
        read_landmarks(save(tmp_path, "p.csv", f"{first}\n1,2,3\n"))


@pytest.mark.parametrize("header", ["name,x,y,z", ",x,y,z", "x,y,z,name"])
def test_columns_of_points_stand_in_any_order(tmp_path: Path, header: str) -> None:
    row = ",".join({"x": "1", "y": "2", "z": "3"}.get(title, "a") for title in header.split(","))
    found = read_landmarks(save(tmp_path, "p.csv", f"{header}\n{row}\n"))
    np.testing.assert_array_equal(found.fixed_points, [[1, 2, 3]])


@pytest.mark.parametrize(("frame", "expected"), [("LPS", [[1, 2, 3], [4, 5, 6]]), ("index1", [[0, 1, 2], [3, 4, 5]])])
def test_the_frame_of_bare_numbers_can_be_said(tmp_path: Path, frame: str, expected: Any) -> None:
    """The option that the refusal names reads them, and nothing else is presumed of them."""
    units = "px" if frame == "index1" else None
    found = read_landmarks(save(tmp_path, "p.txt", "1 2 3\n4 5 6\n"), frame=frame, units=units)
    np.testing.assert_array_equal(found.fixed_points, expected)
    assert not any("voxel indices" in sentence for sentence in found.assumptions)


def test_a_frame_that_is_said_is_not_presumed_as_well(tmp_path: Path) -> None:
    found = read_landmarks(save(tmp_path, "p.csv", "x,y,z\n1,2,3\n"), frame="RAS")
    np.testing.assert_array_equal(found.fixed_points, [[-1, -2, 3]])
    assert not any("taken as 'LPS'" in sentence for sentence in found.assumptions)


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
        ("u.csv", "index,shape-type,vertex-index,axis-0,axis-1\n0,rectangle,0,1,2\n", {}, "of a shapes layer"),
        ("v.mrk.json", MRK.replace('"markups": [', '"markups": [{"type": "Fiducial"}, '), {}, "2 point lists"),
    ],
)
def test_broken_tables_are_refused(
    tmp_path: Path, name: str, text: str, arguments: dict[str, Any], message: str
) -> None:
    """Rows of another width, another dimension, contradictions: each is one sentence that names the file."""
    with pytest.raises(FileFormatError, match=message) as caught:
        read_landmarks(save(tmp_path, name, text), **arguments)
    assert name in str(caught.value)
