"""Attacks by received files: each runs nothing, reaches nothing, and ends with a result or one sentence."""

from __future__ import annotations

import http.server
import io
import json
import os
import pickle
import shutil
import socket
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import tifffile
import zarr

from audit_tools import audited
from command_tools import call
from project.tools import grid_points, place, query, write_images
from study_tools import make_study
from warpgauge.errors import WarpgaugeError
from warpgauge.evaluation.certificate import read_certificate
from warpgauge.geometry import Grid
from warpgauge.io.images import read_image
from warpgauge.io.landmarks import read_landmarks
from warpgauge.io.transforms import AffineTransform, read_transform, write_transform
from warpgauge.project import Project
from warpgauge.project.errors import UntrustedProjectError
from warpgauge.project.integrity import verify_project
from warpgauge.study import new_study, read_study, run_study
from warpgauge.study.pairs import read_grid

INJECTED = [
    "{{7*7}}",
    "{% for x in y %}",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "${7*7}",
    "</title>",
]


def refused(call: Callable[[], object]) -> str:
    """Return the sentence with which something is refused."""
    with pytest.raises(WarpgaugeError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) <= 600
    return text


class Trap:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with its images, annotations and a transform."""
    fixed, moving = write_images(tmp_path / "pictures")
    write_transform(AffineTransform(np.eye(2), [1.0, 0.5]), tmp_path / "one.tfm")
    aim = tmp_path / "received" / "project"
    with Project.create(aim, fixed=fixed, moving=moving, candidates=grid_points(), copy=True) as made:
        for number, (x, y) in enumerate(grid_points(3, 3)):
            made.append(query(number, (x, y)), place(number, (x + 1, y)))
        made.add_transform("one", tmp_path / "one.tfm")
    return aim


def edited(folder: Path, change: Callable[[dict], object]) -> None:
    content = json.loads((folder / "project.json").read_text())
    change(content)
    (folder / "project.json").write_text(json.dumps(content))


# Code in data.


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.pt", "x.pkl", "x.nii.gz"])
def test_a_pickle_in_a_file_is_not_loaded(name: str, tmp_path: Path) -> None:
    """Object arrays in .npy and .npz, and pickles under any name, given as a transform."""
    trap, data = tmp_path / "sprung", io.BytesIO()
    objects = np.array([Trap(trap)], dtype=object)
    if name.endswith("npy"):
        np.save(data, objects, allow_pickle=True)
    elif name.endswith("npz"):
        np.savez(data, arr_0=objects)
    else:
        data.write(pickle.dumps(Trap(trap)))
    (tmp_path / name).write_bytes(data.getvalue())
    refused(lambda: read_transform(tmp_path / name, reference=Grid((5, 4))))
    assert not trap.exists()


def test_a_pickle_in_a_project_or_study_is_not_loaded(project: Path, tmp_path: Path) -> None:
    """Candidates of a project, its cache, and stored results of a study."""
    trap = tmp_path / "sprung"
    np.savez(project / "candidates.npz", points_world=np.array([Trap(trap)], dtype=object))
    with Project.open(project) as opened:
        refused(lambda: opened.candidates)
    folder = tmp_path / "study"
    folder.mkdir()
    study = make_study(folder, pairs=1)
    run_study(study, tmp_path / "results")
    (stored,) = (tmp_path / "results" / "pairs").iterdir()
    data = io.BytesIO()
    np.savez(data, about=np.array([Trap(trap)], dtype=object), draws=np.zeros(1), scores=np.zeros(1))
    stored.write_bytes(data.getvalue())
    assert list(run_study(study, tmp_path / "results").computed) == ["case0"]
    assert not trap.exists()


def test_members_of_an_archive_are_not_unpacked(tmp_path: Path) -> None:
    """Names such as ../../x in a .npz lead nowhere: members are read in memory."""
    inner = io.BytesIO()
    np.save(inner, np.zeros((4, 5, 2)))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("../../escaped.npy", "/tmp/escaped.npy", "arr_0.npy"):
            archive.writestr(name, inner.getvalue())
    before = sorted(tmp_path.parent.rglob("*"))
    with pytest.raises(WarpgaugeError):
        read_transform(tmp_path / "a.npz", reference=Grid((5, 4)))
    assert sorted(tmp_path.parent.rglob("*")) == before


# Other places.


@pytest.fixture
def listening() -> Iterator[tuple[int, list[str]]]:
    """A server of this machine that notes who asks."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815  # the name that the library calls

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], asked
    server.shutdown()
    server.server_close()


def test_an_address_in_a_received_project_is_not_asked(project: Path, listening: tuple[int, list[str]], tmp_path: Path):
    """http:// in place of an image is the path of a file that is not there: `verify` says so, and nobody is asked."""
    port, asked = listening
    edited(project, lambda c: c["images"]["fixed"].update(path=f"http://127.0.0.1:{port}/secret.zarr"))
    commands = ("verify", "info", "suggest", "evaluate", "report")
    found = audited([[name, str(project)] for name in commands], tmp_path / "own")
    code, told = found.outcomes[0]
    assert code == 1
    assert "The fixed image is not at" in told
    assert asked == []
    assert [one for one in found.forbidden if "socket" in one] == []


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user@127.0.0.1:1/x",
        "postgresql:///x?host=/tmp/evil",
        "postgresql://h/x?passfile=/etc/passwd",
        "postgresql://h/x?options=-c%20a",
        "postgresql://h/x?sslkey=/etc/passwd",
        "postgresql://h/x?service=evil",
        "postgresql://h/x;DROP TABLE warpgauge.events",
        "sqlite:////etc/passwd",
        "x'; DROP TABLE warpgauge.events; --",
    ],
)
def test_a_database_in_a_received_project_is_not_reached(project: Path, address: str) -> None:
    """Neither its host nor files that its address names, nor is anything of it taken for SQL."""
    connected: list[object] = []
    edited(project, lambda c: c.update(database=address))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", lambda *given: connected.append(given))
        patch.setattr("psycopg.connect", lambda **given: connected.append(given))
        refused(lambda: Project.open(project))
    assert connected == []


@pytest.mark.parametrize("what", ["separator", "transformer", "codec", "filter", "reference"])
def test_zarr_metadata_that_reach_out(what: str, tmp_path: Path) -> None:
    """Separators, transformers, codecs and reference files of Zarr that would lead elsewhere or run code."""
    version = 2 if what == "filter" else 3
    axes = [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    scale = [{"type": "scale", "scale": [1.0, 1.0]}]
    scales = {"version": "0.4", "axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
    described = {"multiscales": [scales]}
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    root.attrs.update(described if version == 2 else {"ome": {"version": "0.5", **described}})
    root.create_array("0", data=np.zeros((4, 5)), chunks=(2, 5))
    assert read_image(tmp_path / "a.zarr").grid.size == (5, 4)
    file = tmp_path / "a.zarr" / "0" / ("zarr.json" if version == 3 else ".zarray")
    meta = json.loads(file.read_text())
    if what == "separator":
        meta["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/../"}}
    elif what == "transformer":
        meta["storage_transformers"] = [{"name": "reference", "configuration": {"path": "/etc/passwd"}}]
    elif what == "codec":
        meta["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    elif what == "filter":
        meta["filters"] = [{"id": "pickle"}]
    else:
        shutil.rmtree(file.parent)
        file.parent.mkdir()
        references = {"version": 1, "refs": {".zarray": "{}", "0.0": ["file:///etc/passwd", 0, 100]}}
        (file.parent / "reference.json").write_text(json.dumps(references))
    if what != "reference":
        file.write_text(json.dumps(meta))
    refused(lambda: read_image(tmp_path / "a.zarr").read())


@pytest.mark.parametrize("kind", ["laughs", "file"])
def test_entities_in_ome_xml(kind: str, tmp_path: Path) -> None:
    """A billion laughs and an entity of a local file in the description of an OME-TIFF: neither unfolds nor is read."""
    (tmp_path / "secret.txt").write_text("the secret")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    entity = (
        f'<!ENTITY l0 "ha">{laughs}' if kind == "laughs" else f'<!ENTITY l11 SYSTEM "file://{tmp_path}/secret.txt">'
    )
    pixels = '<Pixels DimensionOrder="XYZCT" ID="P" SizeX="5" SizeY="4" SizeZ="1" SizeC="1" SizeT="1" Type="uint8"/>'
    text = (
        f'<?xml version="1.0"?><!DOCTYPE OME [{entity}]><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        f'<Image ID="I" Name="&l11;">{pixels}</Image></OME>'
    )
    tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((4, 5), np.uint8), description=text, metadata=None)
    try:
        image = read_image(tmp_path / "a.ome.tif")
        told = " ".join(image.assumptions)
    except WarpgaugeError as error:
        told = str(error)
    assert len(told) < 5000
    assert "the secret" not in told


@pytest.mark.parametrize("size", [16, 2**31 - 16, -16, 0])
def test_extensions_of_nifti(size: int, tmp_path: Path) -> None:
    """An extension (in which DICOM headers are kept) is neither quoted nor believed in its size."""
    image = nib.Nifti1Image(np.zeros((4, 5, 6), np.uint8), np.eye(4))
    image.header.extensions.append(nib.nifti1.Nifti1Extension(4, b"Doe^Jane secret".ljust(24)))
    nib.save(image, tmp_path / "a.nii")
    data = bytearray((tmp_path / "a.nii").read_bytes())
    data[352:356] = int(size).to_bytes(4, "little", signed=True)
    (tmp_path / "a.nii").write_bytes(data)
    try:
        told = " ".join(read_image(tmp_path / "a.nii").assumptions)
    except WarpgaugeError as error:
        told = str(error)
    assert "Jane" not in told


# Studies.


def test_a_study_that_is_nested_absurdly(tmp_path: Path) -> None:
    """TOML that is nested a hundred thousand times does not end in a RecursionError."""
    for text in ("a = " + "[" * 100_000 + "]" * 100_000, "a." * 100_000 + "b = 1", "a = " + "{b=" * 100_000 + "1"):
        (tmp_path / "study.toml").write_text(text)
        refused(lambda: read_study(tmp_path / "study.toml"))


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("read", ["certificate", "transform", "dataset", "grid", "landmarks"])
def test_json_that_is_nested_absurdly(read: str, tmp_path: Path) -> None:
    """Wherever JSON is read, a hundred thousand brackets are one sentence."""
    file = tmp_path / ("x.grid.json" if read == "grid" else "x.json")
    file.write_text(DEEP)
    readers: dict[str, Callable[[], object]] = {
        "certificate": lambda: read_certificate(file),
        "transform": lambda: read_transform(file, format="warpy"),
        "dataset": lambda: new_study(tmp_path / "s.toml", "learn2reg", file),
        "grid": lambda: read_grid(file),
        "landmarks": lambda: read_landmarks(file),
    }
    refused(readers[read])


def test_a_stored_result_of_another_kind_is_computed_anew(tmp_path: Path) -> None:
    """Results of a study that somebody sent along are used only where they are what they should be."""
    study = make_study(tmp_path, pairs=1)
    run_study(study, tmp_path / "results")
    (stored,) = (tmp_path / "results" / "pairs").iterdir()
    shapes = '{"draws": [1, 1], "scores": [1]}'
    heads = [
        f'{{"about": {about}, "shapes": {shapes}}}'
        for about in (DEEP, "7", '{"methods": 3}', '{"methods": [], "__class__": 1}', "null")
    ]
    heads += [DEEP, "7", "{}", '{"about": {}, "shapes": 3}', '{"about": {}, "shapes": {"draws": [-1], "scores": "x"}}']
    for head in heads:
        content = head.encode() + b"\n" + bytes(16)
        stored.write_bytes(zlib.crc32(content).to_bytes(4) + content)
        assert list(run_study(study, tmp_path / "results").computed) == ["case0"]


def test_names_that_differ_only_in_case_or_signs_do_not_share_files(project: Path, tmp_path: Path) -> None:
    """Transforms whose names become the same folder on some file system keep their own files."""
    with Project.open(project) as opened:
        for number, name in enumerate(("a/b", "a_b", "CON", "e\u0301", "..", "x" * 100)):
            write_transform(AffineTransform(np.eye(2), [float(number), 0.0]), tmp_path / "t.tfm")
            opened.add_transform(name, tmp_path / "t.tfm")
        found = {name: float(opened.transform(name).map(np.zeros((1, 2)))[0, 0]) for name in opened.transform_names()}
        folders = [record.files[0].split("/")[1].casefold() for record in opened.state.transforms.values()]
    assert list(found.values())[1:] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert len(set(folders)) == len(folders)


# Pages.


class Tags(HTMLParser):
    """All elements of a page with their attributes, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def harmless(file: Path) -> None:
    """Check that a page has no element, handler or value that a name made."""
    text = file.read_text()
    tags = Tags()
    tags.feed(text)
    assert not [tag for tag, given in tags.found if given.get("src") == "x" or "onerror" in given]
    assert "<script>alert" not in text
    assert ">49<" not in text
    assert len([tag for tag, _ in tags.found if tag == "title"]) <= 1 + text.count("<svg")


def test_names_in_report_and_leaderboard_are_text(project: Path, tmp_path: Path) -> None:
    """Templates, elements and handlers in names of transforms, raters, pairs and studies are shown, not run."""
    with Project.open(project) as opened:
        for number, name in enumerate(INJECTED):
            opened.add_transform(name, tmp_path / "one.tfm")
            opened.append(query(9 + number, (9.0 + number, 30.0), name), place(9 + number, (10.0, 31.0), name))
    call("report", project)
    harmless(project / "report" / "report.html")
    study = make_study(tmp_path, pairs=2)
    text = study.read_text().replace('name = "small"', f"name = {json.dumps(INJECTED[3])}")
    text = text.replace('name = "near"\ntransform = "{method}', f'name = {json.dumps(INJECTED[2])}\ntransform = "near')
    text = text.replace('name = "far"\ntransform = "{method}', f'name = {json.dumps(INJECTED[0])}\ntransform = "far')
    study.write_text(text)
    call("benchmark", study, "--leaderboard", tmp_path / "board.html", "--report", tmp_path / "study.html")
    harmless(tmp_path / "board.html")
    harmless(tmp_path / "study.html")


def test_untrusted_means_untouched(project: Path, tmp_path: Path) -> None:
    """A link that is put into a project between two commands asks again, whatever was opened before."""
    Project.open(project).close()
    (project / "maps" / "out").symlink_to(tmp_path)
    with pytest.raises(UntrustedProjectError):
        Project.open(project)


@pytest.mark.parametrize("folder", [False, True])
def test_a_hole_is_not_hashed(project: Path, folder: bool) -> None:
    """A transform that was exchanged for an empty file of 1 TB, or a folder with one, is a sentence of verify."""
    (file,) = (project / "transforms" / "one").iterdir()
    file.unlink()
    if folder:
        file.mkdir()
    with (file / "hole" if folder else file).open("wb") as stream:
        stream.truncate(2**40)
    (problem,) = verify_project(project).problems
    assert "is a hole" in problem
