"""Images at an address: the same numbers as from files, and the same rules for what is read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import models
import warpgauge as wg
from command_tools import ask, call
from remote_tools import BUCKET, file_server, s3_server, upload
from warpgauge.core.process import Posterior
from warpgauge.errors import FileFormatError, FileTooLargeError, InvalidInputError
from warpgauge.io.stores import RemotePath
from warpgauge.maps import standard_deviation_map, write_map

zarr = pytest.importorskip("zarr")

GRID = wg.Grid((300, 7, 5), [0.2, 6.0, 9.0], [1.0, 2.0, 3.0], units="um")


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    model = models.make(3, "wendland", isotropic=False, mean="affine")
    return model.prior.condition(model.annotations)


@pytest.fixture(scope="module")
def local(posterior: Posterior, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A map in a folder."""
    place = tmp_path_factory.mktemp("maps") / "sd.ome.zarr"
    write_map(standard_deviation_map(posterior, GRID), GRID, place)
    return place


@pytest.fixture(scope="module")
def web(local: Path) -> Iterator[str]:
    """The folder of the map, by http."""
    with file_server(local.parent) as address:
        yield address


def older(folder: Path, **further: object) -> np.ndarray:
    """Write an OME-Zarr 0.4 image on Zarr 2, by hand; ``further`` changes the description of its array."""
    values = np.arange(48, dtype="<u2").reshape(6, 8)
    (folder / "0").mkdir(parents=True)
    scale = [{"type": "scale", "scale": [0.5, 0.25]}]
    axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "yx"]
    multiscale = {"version": "0.4", "axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (folder / ".zattrs").write_text(json.dumps({"multiscales": [multiscale]}))
    array = {"zarr_format": 2, "shape": [6, 8], "chunks": [6, 8], "dtype": "<u2", "compressor": None, "filters": None,
             "fill_value": 0, "order": "C", "dimension_separator": "/"}  # fmt: skip
    (folder / "0" / ".zarray").write_text(json.dumps({**array, **further}))
    (folder / "0" / "0").mkdir()
    (folder / "0" / "0" / "0").write_bytes(values.tobytes())
    return values


def test_s3_and_http_give_what_the_folder_gives(s3: str, web: str, local: Path) -> None:
    """Every level, its frame, and parts of it; the hash of an S3 image changes with its content."""
    expected = wg.read_image(local)
    address = upload(local, "one/sd.ome.zarr")
    for url in (address, f"{web}/{local.name}"):
        image = wg.read_image(url)
        assert image.grid == GRID
        assert image.levels == expected.levels
        for level in range(image.levels):
            np.testing.assert_array_equal(image.read(level), expected.read(level))
        np.testing.assert_array_equal(image.plane(2, 3), expected.plane(2, 3))
        assert str(image.path) == url
    before = wg.read_image(address).content_hash
    assert before == wg.read_image(address).content_hash
    (local / "note").write_text("another object")
    upload(local, "one/sd.ome.zarr")
    (local / "note").unlink()
    assert wg.read_image(address).content_hash != before


def test_ome_zarr_0_4_is_read_by_address(s3: str, tmp_path: Path) -> None:
    values = older(tmp_path / "old.zarr")
    image = wg.read_image(upload(tmp_path / "old.zarr", "old.zarr"))
    np.testing.assert_array_equal(image.read(), values)
    assert image.grid.spacing.tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://elsewhere.example/a.zarr", "plain http"),
        ("ftp://elsewhere.example/a.zarr", "s3:// or https://"),
        ("file:///etc/a.zarr", "s3:// or https://"),
        ("https://me:secret@elsewhere.example/a.zarr", "without user"),
        ("https://elsewhere.example/a.zarr?token=1", "without user"),
    ],
)
def test_addresses_that_are_not_read(url: str, words: str) -> None:
    """Neither by the library nor by the command line, and without a connection."""
    with pytest.raises(InvalidInputError, match=words):
        wg.read_image(url)
    assert words in call("info", url, code=1)


def test_what_is_not_there_is_said(s3: str, web: str) -> None:
    for url in (f"s3://{BUCKET}/none.zarr", "s3://no-such-bucket/none.zarr", f"{web}/none.zarr"):
        with pytest.raises(InvalidInputError, match="no OME-Zarr image"):
            wg.read_image(url)


def test_the_rules_for_untrusted_files_hold_for_addresses(tmp_path: Path) -> None:
    """Codecs, types, sizes and damaged chunks of a remote store are refused as those of a folder."""
    older(tmp_path / "pickle.zarr", filters=[{"id": "pickle"}])
    older(tmp_path / "object.zarr", dtype="|O")
    older(tmp_path / "huge.zarr", shape=[2**30, 2**30], chunks=[2**20, 2**20])
    older(tmp_path / "bomb.zarr", compressor={"id": "zlib", "level": 1})
    import zlib

    (tmp_path / "bomb.zarr" / "0" / "0" / "0").write_bytes(zlib.compress(bytes(2**26)))
    (tmp_path / "long.zarr").mkdir()
    (tmp_path / "long.zarr" / "zarr.json").write_bytes(b" " * (2**22 + 1))
    with file_server(tmp_path) as address:
        with pytest.raises(FileFormatError, match="pickle"):
            wg.read_image(f"{address}/pickle.zarr")
        with pytest.raises(FileFormatError, match="integers and floats"):
            wg.read_image(f"{address}/object.zarr")
        with pytest.raises(FileTooLargeError):
            wg.read_image(f"{address}/huge.zarr")
        with pytest.raises(FileFormatError, match="unfold"):
            wg.read_image(f"{address}/bomb.zarr").read()
        with pytest.raises(FileTooLargeError, match="more than"):
            wg.read_image(f"{address}/long.zarr")


def test_remote_chunks_are_not_fetched_beyond_their_size(s3: str, tmp_path: Path, local: Path) -> None:
    """An object far longer than a chunk or a shard can be is refused by its size, not fetched, whole or in parts."""
    import obstore

    older(tmp_path / "long.zarr")
    address = upload(tmp_path / "long.zarr", "long.zarr")
    obstore.put(RemotePath(address).store, "0/0/0", bytes(2**23))
    with pytest.raises(FileTooLargeError, match=rf"'0/0' of 's3://.*/long.zarr/0' has {2**23} bytes"):
        wg.read_image(address).read()
    shards = RemotePath(upload(local, "shards.zarr"))
    name = next(name for name, _, _ in shards.objects() if "/c/" in name)
    content = (shards / name).read_bytes(2**24)
    obstore.put(shards.store, name, bytes(2**26) + content)  # the index of the chunks stands at the end
    level = int(name.split("/")[0])
    with pytest.raises(FileTooLargeError, match=rf"has {2**26 + len(content)} bytes"):
        wg.read_image(str(shards)).read(level)


def test_a_project_of_images_at_an_address(s3: str, tmp_path: Path) -> None:
    """Made, opened and described like any other; one from elsewhere is not opened until it is trusted."""
    rng = np.random.default_rng(0)
    texture = np.kron(rng.integers(0, 255, (16, 20)), np.ones((8, 8))).astype(np.uint8)
    for name in ("fixed", "moving"):
        write_map(texture, wg.Grid((160, 128), units="um"), tmp_path / f"{name}.zarr")
        upload(tmp_path / f"{name}.zarr", f"{name}.zarr")
    fixed, moving = (f"s3://{BUCKET}/{name}.zarr" for name in ("fixed", "moving"))
    ask("new", tmp_path / "project", "--fixed", fixed, "--moving", moving, "--candidates", 20)
    facts = ask("info", tmp_path / "project")
    assert facts["fixed image"] == fixed
    with wg.Project.open(tmp_path / "project") as project:
        np.testing.assert_array_equal(project.image("fixed").read(), texture)
    assert "cannot be copied" in call("new", tmp_path / "other", "--fixed", fixed, "--moving", moving, "--copy", code=1)
    document = tmp_path / "project" / "project.json"
    document.write_text(document.read_text().replace(moving, f"s3://{BUCKET}/elsewhere.zarr"))
    assert "elsewhere.zarr" in call("info", tmp_path / "project", code=1)
    upload(tmp_path / "moving.zarr", "elsewhere.zarr")
    assert "--trust" in call("info", tmp_path / "project", code=1)
