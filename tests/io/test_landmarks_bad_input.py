"""Whatever a file holds, the reader gives landmarks or one clear sentence, never another exception."""

from __future__ import annotations

import json
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpgauge import Grid
from warpgauge.errors import FileFormatError, InvalidInputError, SuspiciousDataWarning, WarpgaugeError
from warpgauge.io.landmarks import FORMAT_NAMES, Landmarks, read_landmarks

GRID = Grid((64, 48, 32), (0.5, 0.5, 2.0), (1.0, 2.0, 3.0), units="mm")

NATIVE = json.dumps(
    {
        "format": "warpgauge-landmarks",
        "version": 1,
        "dimension": 2,
        "frame": "image",
        "units": "um",
        "direction": "fixed_to_moving",
        "images": {"fixed": {"hash": "sha256:ab"}},
        "landmarks": [
            {"fixed": [1.0, 2.0], "moving": [1.5, 2.5], "name": "a", "rater": "PS", "covariance": [[1, 0], [0, 1]]},
            {
                "fixed": [9.0, 2.0],
                "moving": [9.0, 3.0],
                "ellipse": {"half_lengths": [3, 1], "axes": [[1, 0], [0, 1]], "alpha": 0.01},
            },
            {"fixed": [5.0, 2.0], "moving": None, "active": False},
        ],
        "skips": [{"fixed": [7.0, 7.0], "reason": "torn tissue", "rater": "PS"}],
    }
)
SAMPLES: dict[str, str] = {
    "warpgauge": NATIVE,
    "csv": "name,fixed_x,fixed_y,moving_x,moving_y,rater,c_xx,c_xy,c_yy,active,skip,units,frame\n"
    "a,1,2,3,4,PS,2.0,0.5,1.0,true,,um,image\nb,5,6,,,JB,,,,,torn,um,image\nc,5,7,9,9,JB,,,,0,,um,image\n",
    "anhir": ",X,Y\n1,119,144\n2,245.5,216\n3,1,2\n",
    "brats-reg": "Landmark,X,Y,Z\n1,119,-44,12.5\n2,45.5,-16,30\n3,1,-2,3\n",
    "learn2reg": "119,44,12.5\n45.5,16,30\n1,2,3\n",
    "mni-tag": 'MNI Tag Point File\nVolumes = 2;\n\nPoints =\n -5.5 7 1 2 3 4 "a"\n 8 9 10 11 12 13 "b";\n',
    "dirlab": "188\t260\t4\n179\t281\t7\n187\t253\t8\n",
    "bigwarp": '"Pt-0","true","47.5","1.25","51","195"\n"Pt-1","false","Infinity","Infinity","1","4"\n',
    "slicer-json": '{"@schema":"x","markups":[{"type":"Fiducial","coordinateSystem":"LPS","coordinateUnits":"mm",'
    '"controlPoints":[{"label":"F-1","position":[-5.5,-7.25,0.0],"positionStatus":"defined"},'
    '{"label":"F-2","position":[4.9,-8.5,0.5]}]}]}',
    "slicer-fcsv": "# Markups fiducial file version = 4.13\n# CoordinateSystem = LPS\n"
    "# columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n"
    "0,-19.9,13.9,29.4,0,0,0,1,1,1,0,F-1,,\n1,-7.3,-76.9,17.5,0,0,0,1,1,1,0,F-2,,,2,0\n",
    "transformix": "point\n3\n1.5 2 3\n4 5 6\n-7 8 9e1\n",
    "ants": "x,y,z,t,label,comment\n82.5,116.5,1,0,1,breast\n137.5,35.5,2,0,2,beak\n",
    "napari": "index,axis-0,axis-1,name\n0.0,10.5,3.0,a\n1.0,20.0,4.25,b\n",
    "qupath": '{"type": "FeatureCollection", "features": [\n'
    '{"type": "Feature", "geometry": {"type": "Point", "coordinates": [119.5, 144.25]}, "properties": {"name": "a"}},\n'
    '{"type": "Feature", "geometry": {"type": "Point", "coordinates": [20.5, 3]}, "properties": {"name": "b"}}]}\n',
}
HEADERLESS = ("warpgauge", "slicer-json", "dirlab", "learn2reg", "mni-tag", "bigwarp", "qupath")
NAMES = {
    "dirlab": "case_xyz.txt",
    "slicer-json": "f.mrk.json",
    "slicer-fcsv": "f.fcsv",
    "warpgauge": "l.json",
    "qupath": "f.geojson",
}


def attempt(path: Path, **arguments: object) -> Landmarks | str:
    """Read; give the landmarks or the sentence. Any exception or warning but warpgauge's own is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SuspiciousDataWarning)
        try:
            result: Landmarks | WarpgaugeError = read_landmarks(path, **arguments)
        except WarpgaugeError as error:
            result = error
    if isinstance(result, Landmarks):
        assert np.all(np.isfinite(result.fixed_points))
        return result
    assert isinstance(result, FileFormatError | InvalidInputError)
    sentence = str(result)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 700
    return sentence


def test_the_samples_are_read() -> None:
    """The seeds of this file are valid, so that its mutations start from something that is read."""
    assert set(SAMPLES) == set(FORMAT_NAMES)


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_samples(tmp_path: Path, name: str) -> None:
    """Each seed is recognised as its format."""
    path = tmp_path / NAMES.get(name, "file.csv")
    path.write_text(SAMPLES[name])
    lm = attempt(path, units="px" if name in ("dirlab", "learn2reg") else None)
    assert isinstance(lm, Landmarks), lm
    assert lm.format == name


def spoiled(name: str) -> dict[str, bytes]:
    text = SAMPLES[name]
    number = {
        "anhir": "119",
        "brats-reg": "119",
        "learn2reg": "119",
        "mni-tag": "-5.5",
        "dirlab": "188",
        "bigwarp": "47.5",
        "slicer-json": "-5.5",
        "slicer-fcsv": "-19.9",
    }
    token = {
        "transformix": "1.5",
        "ants": "82.5",
        "napari": "10.5",
        "qupath": "119.5",
        "csv": ",1,",
        "warpgauge": "1.5",
    } | number
    found = token[name]

    def put(value: str) -> bytes:
        return text.replace(found, f",{value}," if found == ",1," else value, 1).encode()

    return {
        "empty": b"",
        "blank": b" \n\r\n\t\n",
        "binary": bytes(range(256)) * 8,
        "zero bytes": b"\0" * 64,
        "latin-1": text.encode() + "é".encode("latin-1"),
        "utf-16": text.encode("utf-16"),
        "an image": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR",
        "nan": put("nan"),
        "infinity": put("inf"),
        "overflow": put("1e999"),
        "too large": put("1e300"),
        "a word": put("twelve"),
        "arabic digits": put("\u0661\u0662"),
        "underscore": put("1_000"),
        "long number": put("9" * 100_000),
        "huge header": b"x" * 5_000_000 + text.encode(),
        "another format": SAMPLES["dirlab" if name != "dirlab" else "ants"].encode(),
        "only a header": text.encode().split(b"\n")[0] if name not in HEADERLESS else b"\n",
        "deep": b"[" * 100_000,
        "deep object": b'{"format":' * 50_000,
    }


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_spoiled_files_get_one_sentence(tmp_path: Path, name: str) -> None:
    """Truncated, mislabelled, empty, NaN-filled, huge-header and binary files of every format are refused."""
    path = tmp_path / NAMES.get(name, "file.csv")
    for kind, data in spoiled(name).items():
        path.write_bytes(data)
        result = attempt(path, format=name, units="px" if name in ("dirlab", "learn2reg") else None)
        assert isinstance(result, str), f"{kind} was read as landmarks"
        assert path.name in result, kind
        attempt(path)  # and recognising the format by itself raises nothing else


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_truncation_anywhere(tmp_path: Path, name: str) -> None:
    """A file cut after any byte is refused, or its whole rows are read as they were.

    Only the very last number of text without an end marker can be cut unseen, and then the reader says so.
    """
    data = SAMPLES[name].encode()
    whole = attempt_bytes(tmp_path, name, data)
    assert isinstance(whole, Landmarks)
    for end in range(1, len(data)):
        result = attempt_bytes(tmp_path, name, data[:end])
        if isinstance(result, Landmarks):
            assert name not in ("warpgauge", "slicer-json")
            n = len(result)
            same = [np.array_equal(a, b) for a, b in zip(result.fixed_points, whole.fixed_points[:n], strict=True)]
            assert all(same[:-1])
            said = any("if it was cut" in sentence for sentence in result.assumptions)
            assert same[-1] or said


def attempt_bytes(folder: Path, name: str, data: bytes) -> Landmarks | str:
    path = folder / NAMES.get(name, "file.csv")
    path.write_bytes(data)
    return attempt(path, format=name, units="px" if name in ("dirlab", "learn2reg") else None)


def test_wrong_dimension(tmp_path: Path) -> None:
    """2D points for a 3D image, rows of another width, and a fourth axis are named."""
    cases = {
        "a_xyz.txt": ("1 2\n3 4\n", {"format": "dirlab"}, "2 columns"),
        "p.txt": ("point\n2\n1 2 3\n4 5\n", {}, "2 coordinates"),
        "n.csv": ("index,axis-0,axis-1,axis-2,axis-3\n0,1,2,3,4\n", {}, "axes are"),
        "b.csv": ('"a","true","1","2","3","4"\n"b","true","1","2","3","4","5","6"\n', {}, "8 fields"),
        "c.csv": ("x,y\n1,2\n", {"fixed_grid": GRID}, "2D points, but 3D"),
        "d.csv": ("fixed_x,fixed_y,fixed_z,moving_x,moving_y\n1,2,3,4,5\n", {}, "no column 'moving_z'"),
        "e.csv": (",X,Y\n1,2,3,4\n", {}, "4 fields, but the header has 3"),
        "f.csv": ("x,y,z,t\n1,2,3,0\n1,2,3,1\n", {}, "several times"),
        "g.txt": ("point\n3\n1 2 3\n", {}, "announces 3 points and holds 1"),
        "h.csv": ("x,x\n1,2\n", {"format": "csv"}, "stands twice"),
        "i.csv": ("fixed_x,fixed_y,moving_x,moving_y\n1,2,,4\n", {}, "'' is not a number"),
        "j.csv": ("fixed_x,fixed_y,moving_x,moving_y,name\n,,,,a\n", {}, "neither a fixed nor a moving point"),
        "k.csv": ("fixed_x,fixed_y,moving_x,moving_y,c_xx,c_xy,c_yy\n1,2,,,1,0,1\n", {}, "has a covariance"),
        "l.csv": ('"a","true","Infinity","2","3","4"\n', {}, "some coordinates at Infinity"),
        "m.csv": ("x,y,units\n1,2,um\n3,4,mm\n", {}, "throughout"),
        "o.csv": ('x,y\n1,2\n"3,4\n', {}, "broken comma-separated text"),
    }
    for name, (text, arguments, message) in cases.items():
        (tmp_path / name).write_text(text)
        result = attempt(tmp_path / name, **arguments)
        assert isinstance(result, str), name
        assert message in result, result


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    """A missing file and a folder are sentences as well."""
    assert "no landmark file" in str(attempt(tmp_path / "missing.csv"))
    assert "folder" in str(attempt(tmp_path))


NASTY = [
    "nan",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e-400",
    "1_0",
    "0x10",
    "",
    " ",
    '"',
    "true",
    "null",
    "[]",
    "{}",
    "-",
]
NASTY += [
    ",",
    "\n",
    "\r",
    "\t",
    "#",
    ";",
    "1e12",
    "-1e12",
    "9" * 30,
    "\ud7ff",
    "\u2028",
    "\x1c",
    "a" * 40,
    "[",
    "]",
    "}",
]
NASTY += ["1.0", "0", "-1", "2", "3", "RAS", "LPS", "0.0", "px", "mm", "index", "point", "x,y", "\\ud800", "1E5", "+.5"]


@st.composite
def mutated(draw: st.DrawFn, name: str) -> bytes:
    """A sample with a few pieces cut, replaced, repeated or spliced from another format; now and then pure noise."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=120))
    text = SAMPLES[name]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 0, 1, 1, 2, 4, 8, 30]))
        kind = draw(st.integers(0, 5))
        if kind <= 2:
            text = text[:start] + draw(st.sampled_from(NASTY)) + text[start + length :]
        elif kind == 3:
            text = text[:start] + text[start + length :]
        elif kind == 4:
            text = text[:start] + text[start : start + length] * 2 + text[start + length :]
        else:
            other = SAMPLES[draw(st.sampled_from(FORMAT_NAMES))]
            text = text[:start] + other[: draw(st.integers(0, len(other)))]
    return text.encode("utf-8", "surrogatepass")


def grid_of(name: str) -> Grid:
    flat = name in ("warpgauge", "csv", "anhir", "bigwarp", "napari")
    return Grid((64, 48), (0.5, 0.5), (1.0, 2.0), units="um") if flat else GRID


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_fuzz(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """A thousand spoiled files of each of ten formats, ten thousand in all, raise nothing but warpgauge's errors."""
    path = tmp_path_factory.mktemp("fuzz") / NAMES.get(name, "file.csv")
    tally = {"read": 0, "refused": 0}

    @settings(max_examples=1000, database=None)
    @given(mutated(name), st.booleans(), st.sampled_from([None, grid_of(name)]))
    def check(data: bytes, told: bool, grid: Grid | None) -> None:
        path.write_bytes(data)
        result = attempt(path, format=name if told else None, fixed_grid=grid, moving_grid=grid)
        tally["read" if isinstance(result, Landmarks) else "refused"] += 1

    check()
    assert sum(tally.values()) >= 1000
    assert tally["refused"] > 100
