"""What all images share: the caller's spacing and units, levels, planes, tiles, percentiles, hash, summary."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image as Pillow

from warpgauge.errors import FileFormatError, InvalidInputError, MissingExtraError
from warpgauge.geometry import Grid
from warpgauge.io.images import pyramid, read_image
from warpgauge.io.images.pyramid import halve, halved_grid

sitk = pytest.importorskip("SimpleITK")

RNG = np.random.default_rng(0)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A picture without a physical spacing."""
    Pillow.fromarray(RNG.integers(0, 256, (20, 30)).astype(np.uint8)).save(tmp_path / "x.png")
    return tmp_path / "x.png"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with an anisotropic spacing in mm."""
    image = sitk.GetImageFromArray(RNG.normal(size=(4, 5, 6)).astype(np.float32))
    image.SetSpacing((1.0, 2.0, 3.0))
    image.SetOrigin((7.0, 8.0, 9.0))
    image.SetDirection((0, 1, 0, -1, 0, 0, 0, 0, 1))
    sitk.WriteImage(image, str(tmp_path / "x.mha"))
    return tmp_path / "x.mha"


def test_the_caller_supplies_what_the_file_lacks(picture: Path):
    """A spacing with units makes a physical frame, and the image says whose it is."""
    image = read_image(picture, spacing=(0.5, 0.25), units="um")
    np.testing.assert_array_equal(image.grid.spacing, [0.5, 0.25])
    assert image.grid.units == "um"
    assert "The caller gave the spacing [0.5, 0.25] um; the file's is none." in image.assumptions
    np.testing.assert_array_equal(read_image(picture, spacing=10, units="px").grid.spacing, [10, 10])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"spacing": 0.5}, "needs --units um"),
        ({"units": "mm"}, "needs --spacing"),
        ({"spacing": (1, 2, 3), "units": "mm"}, "one or 2 positive numbers"),
        ({"spacing": -1, "units": "mm"}, "one or 2 positive numbers"),
        ({"spacing": float("nan"), "units": "mm"}, "one or 2 positive numbers"),
        ({"spacing": 1, "units": "inch"}, "one of px, um, mm"),
    ],
)
def test_half_a_statement_is_refused(picture: Path, arguments: dict[str, object], reason: str):
    """A number without unit, a unit without number, or nonsense is refused."""
    with pytest.raises(InvalidInputError, match=reason):
        read_image(picture, **arguments)  # type: ignore[arg-type]


def test_the_caller_overrides_the_file(volume: Path):
    """Spacing is replaced and the rest kept; units are relabelled, not converted; "px" asks for indices."""
    grid = read_image(volume, spacing=(4, 5, 6)).grid
    np.testing.assert_array_equal(grid.spacing, [4, 5, 6])
    np.testing.assert_array_equal(grid.origin, [7, 8, 9])
    np.testing.assert_array_equal(grid.direction, [[0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    assert grid.units == "mm"
    relabelled = read_image(volume, units="um")
    np.testing.assert_array_equal(relabelled.grid.spacing, [1, 2, 3])
    assert relabelled.grid.units == "um"
    assert any("not converted" in s for s in relabelled.assumptions)
    pixels = read_image(volume, units="px")
    np.testing.assert_array_equal(pixels.grid.affine, np.eye(4))
    assert any("asked for pixels" in s for s in pixels.assumptions)


def test_overridden_spacing_reaches_every_level(tmp_path: Path):
    """The levels of a pyramid keep their ratio under the caller's spacing."""
    Pillow.fromarray(np.zeros((600, 900), np.uint8)).save(tmp_path / "x.png")
    image = read_image(tmp_path / "x.png", spacing=(2, 3), units="um")
    assert [image.level_grid(i).size for i in range(image.levels)] == [(900, 600), (450, 300), (225, 150)]
    np.testing.assert_array_equal(image.level_grid(2).spacing, [8, 12])
    np.testing.assert_array_equal(image.level_grid(2).origin, [3, 4.5])  # centre of the first block of 4 x 4


@pytest.mark.parametrize("shape", [(7, 5), (8, 4), (1, 9), (5, 6, 7), (1, 4, 4), (3, 4, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "float32", "float64", "int32"])
def test_halving_is_the_mean_of_what_is_there(shape: tuple[int, ...], dtype: str):
    """Each element is the mean of the block of up to two along each axis, written out as a loop."""
    array = (
        (RNG.normal(size=shape) * 100).astype(dtype) if dtype[0] != "u" else RNG.integers(0, 255, shape).astype(dtype)
    )
    result = halve(array, len(shape))
    assert result.dtype == array.dtype
    assert result.shape == tuple(-(-n // 2) for n in shape)
    for corner in np.ndindex(*result.shape):
        block = array[tuple(slice(2 * i, 2 * i + 2) for i in corner)].astype(np.float64)
        mean = block.mean() if dtype[0] == "f" else np.rint(block.mean())
        assert result[corner] == pytest.approx(mean, rel=1e-6, abs=1e-6)


def test_halved_grid_keeps_the_world():
    """The centre of an element of the halved grid is the centre of its block, also for an axis of one."""
    grid = Grid((5, 8, 1), (1.0, 2.0, 3.0), (10, 20, 30), [[0, 1, 0], [-1, 0, 0], [0, 0, 1]], "mm")
    half = halved_grid(grid)
    assert half.size == (3, 4, 1)
    np.testing.assert_array_equal(half.spacing, [2, 4, 3])
    centre = grid.index_to_world([[2, 4, 0], [3, 5, 0]]).mean(axis=0)
    np.testing.assert_allclose(half.index_to_world([1, 2, 0]), centre)


# Reads the coarsest level of an image of which 300 kB count as large; prints how many blocks it reduced for it.
_READER = """
import sys
from pathlib import Path
from warpgauge.io.images import pyramid, read_image
pyramid._KEEP_BYTES, pyramid._BLOCK_BYTES, pyramid._BLOCK_ROWS = 300_000, 64 * 2048, 64
blocks, halve = [], pyramid.halve
pyramid.halve = lambda array, d: blocks.append(array.shape[1]) or halve(array, d)
image = read_image(sys.argv[1])
image.keep_overview(Path(sys.argv[2]))
image.read(image.levels - 1)
print(blocks.count(1024))
"""


def test_processes_make_one_overview(tmp_path: Path):
    """Of three processes at once one reduces the image; one that comes later, and after damage, has the same."""
    array = RNG.integers(0, 256, (1024, 1024)).astype(np.uint8)
    tifffile.imwrite(tmp_path / "x.tif", array)
    kept = tmp_path / "cache" / "overview.npy"
    command = [sys.executable, "-c", _READER, str(tmp_path / "x.tif"), str(kept)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = sorted(process.communicate()[0].strip() for process in running)
    assert told == ["0", "0", "8"]
    np.testing.assert_array_equal(np.load(kept), halve(array, 2))
    assert [file.name for file in sorted(kept.parent.iterdir())] == ["overview.lock", "overview.npy"]
    for damage in (b"", kept.read_bytes()[:-1], b"\x93NUMPY", _bytes_of(np.zeros((512, 511), np.uint8))):
        kept.write_bytes(damage)
        again = subprocess.run(command, capture_output=True, text=True, check=True)
        assert again.stdout.strip() == "8"
        np.testing.assert_array_equal(np.load(kept), halve(array, 2))


def _bytes_of(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_made_levels_agree_however_they_are_read(tmp_path: Path):
    """A tile of a made level equals that part of the whole, whether the level is kept or made by region."""
    array = RNG.integers(0, 65536, (1500, 1301)).astype(np.uint16)
    tifffile.imwrite(tmp_path / "x.tif", array, tile=(128, 128))
    expected = halve(halve(array, 2), 2)
    for keep in (True, False):
        image = read_image(tmp_path / "x.tif")
        if not keep:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(pyramid, "_KEEP_BYTES", 0)
                patch.setattr(pyramid, "_BLOCK_BYTES", 100_000)
                tile, whole = image.tile(2, 0, 2, 100, 200, 77, 33), image.read(2)
        else:
            tile, whole = image.tile(2, 0, 2, 100, 200, 77, 33), image.read(2)
        np.testing.assert_array_equal(whole, expected)
        np.testing.assert_array_equal(tile, expected[100:177, 200:233])


def test_what_is_read_is_the_callers_own(picture: Path):
    """Changing an array that was read does not change the image."""
    image = read_image(picture)
    before = image.read()
    image.read()[:] = 0
    image.plane(2, 0)[:] = 0
    np.testing.assert_array_equal(image.read(), before)


def test_what_does_not_exist_is_refused(picture: Path, volume: Path):
    """Levels, planes and tiles outside the image get a sentence with what there is."""
    flat, solid = read_image(picture), read_image(volume)
    with pytest.raises(InvalidInputError, match="levels 0 to 0, not 1"):
        flat.read(1)
    with pytest.raises(InvalidInputError, match=r"whole numbers, got 0\.5"):
        solid.plane(0, 0.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"whole numbers, got 1\.5"):
        flat.tile(2, 0, 0, 1.5, 0, 2, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="only the plane axis=2, index=0"):
        flat.plane(0, 0)
    with pytest.raises(InvalidInputError, match="planes 0 to 5 along x at level 0, not 6"):
        solid.plane(0, 6)
    with pytest.raises(InvalidInputError, match="0 \\(x\\), 1 \\(y\\) or 2 \\(z\\), not 3"):
        solid.plane(3, 0)
    with pytest.raises(InvalidInputError, match="rows 19:21 and columns 0:5 does not lie within the plane of 20 x 30"):
        flat.tile(2, 0, 0, 19, 0, 2, 5)
    with pytest.raises(InvalidInputError, match="does not lie within"):
        flat.tile(2, 0, 0, -1, 0, 2, 5)
    with pytest.raises(InvalidInputError, match="does not lie within"):
        flat.tile(2, 0, 0, 0, 0, 0, 5)


def test_percentiles_ignore_nan(tmp_path: Path):
    """Percentiles of a small image are numpy's of its finite samples."""
    array = RNG.normal(size=(40, 50)).astype(np.float32)
    array[3:7] = np.nan
    array[9, 9] = np.inf
    tifffile.imwrite(tmp_path / "x.tif", array)
    finite = array[np.isfinite(array)]
    image = read_image(tmp_path / "x.tif")
    np.testing.assert_allclose(image.percentiles((0, 1, 50, 99, 100)), np.percentile(finite, (0, 1, 50, 99, 100)))
    assert image.percentiles((1, 99)).tolist() == np.percentile(finite, (1, 99)).tolist()
    with pytest.raises(InvalidInputError, match="0 to 100"):
        image.percentiles((101,))
    with pytest.raises(InvalidInputError, match="0 to 100"):
        image.percentiles(())


def test_percentiles_of_a_large_image_are_of_a_bounded_sample(tmp_path: Path):
    """Those of 36 million elements are near to the truth, and always the same."""
    array = np.add.outer(np.arange(6000), np.arange(6000)).astype(np.uint16)  # a ramp from 0 to 11998
    tifffile.imwrite(tmp_path / "x.tif", array, tile=(256, 256))
    image = read_image(tmp_path / "x.tif")
    first = image.percentiles((1, 50, 99))
    np.testing.assert_allclose(first, [848, 5999, 11150], rtol=0.15)  # the ramp's: sums of two uniform numbers
    np.testing.assert_array_equal(read_image(tmp_path / "x.tif").percentiles((1, 50, 99)), first)


def test_a_volume_is_sampled_by_blocks(tmp_path: Path):
    """A large volume's sample is bounded too and spans all of it."""
    array = np.broadcast_to(np.arange(200, dtype=np.uint8)[:, None, None], (200, 180, 190))
    sitk.WriteImage(sitk.GetImageFromArray(array), str(tmp_path / "x.mha"))
    image = read_image(tmp_path / "x.mha")
    assert image.percentiles((0, 100)).tolist() == [4, 195]  # the middle 32 of each fifth of 40


def test_a_level_beyond_memory_is_refused_before_it_is_allocated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The sentence has both sizes and what to do; a tile still works."""
    tifffile.imwrite(tmp_path / "x.tif", np.zeros((600, 500), np.uint16))
    image = read_image(tmp_path / "x.tif")
    monkeypatch.setenv("WARPGAUGE_MEMORY", "100kB")
    with pytest.raises(InvalidInputError, match=r"needs 0\.0 GiB.*read a plane, a tile or a coarser level"):
        image.read()
    assert image.tile(2, 0, 0, 0, 0, 2, 2).tolist() == [[0, 0], [0, 0]]


def test_summary_is_json_and_says_what_was_assumed(volume: Path):
    """The summary survives JSON and has the frame, the percentiles and the sentences."""
    image = read_image(volume)
    summary = json.loads(json.dumps(image.summary(), allow_nan=False))
    assert summary["name"] == "x.mha"
    assert (summary["format"], summary["dimension"], summary["size"]) == ("MetaImage", 3, [6, 5, 4])
    assert (summary["spacing"], summary["origin"], summary["units"]) == ([1, 2, 3], [7, 8, 9], "mm")
    assert (summary["dtype"], summary["channels"]) == ("float32", 1)
    assert summary["percentiles"]["50"] == pytest.approx(np.median(image.read()))
    assert summary["content_hash"] == image.content_hash
    assert summary["assumptions"] == image.assumptions
    assert all(s.endswith(".") for s in image.assumptions)
    assert repr(image) == "<Image 'x.mha': MetaImage, size (6, 5, 4), spacing [1. 2. 3.] mm>"


def test_threads_may_share_an_image(tmp_path: Path):
    """Tiles read from many threads at once are right, made levels included."""
    array = RNG.integers(0, 256, (700, 700)).astype(np.uint8)
    tifffile.imwrite(tmp_path / "x.tif", array, tile=(64, 64), compression="zlib")
    image = read_image(tmp_path / "x.tif")
    half = halve(array, 2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(20):
            level = int(rng.integers(2))
            y, x = rng.integers(0, 300, 2)
            tile = image.tile(2, 0, level, int(y), int(x), 40, 50)
            if not np.array_equal(tile, (array, half)[level][y : y + 40, x : x + 50]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("library", "name", "package"),
    [
        ("PIL", "x.png", "pillow"),
        ("PIL", "x.jpg", "pillow"),
        ("tifffile", "x.tif", "tifffile"),
        ("zarr", "x.zarr", "zarr"),
        ("pydicom", "dicom", "pydicom"),
    ],
)
def test_a_missing_library_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, name: str, package: str
):
    """Without the optional library the error has the command that installs it."""
    import sys

    file = tmp_path / name
    if name == "x.zarr":
        (file / "0").mkdir(parents=True)
        scale = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}]}
        axes = [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
        multiscale = {"version": "0.4", "axes": axes, "datasets": [scale]}
        array = {"zarr_format": 2, "shape": [3, 3], "chunks": [3, 3], "dtype": "|u1", "compressor": None,
                 "fill_value": 0, "order": "C", "filters": None}  # fmt: skip
        (file / ".zgroup").write_text('{"zarr_format": 2}')
        (file / ".zattrs").write_text(json.dumps({"multiscales": [multiscale]}))
        (file / "0" / ".zarray").write_text(json.dumps(array))
    elif name == "dicom":
        file.mkdir()
    elif name == "x.tif":
        tifffile.imwrite(file, np.zeros((3, 3), np.uint8))
    else:
        Pillow.fromarray(np.zeros((3, 3), np.uint8)).save(file)
    for module in [m for m in sys.modules if m == library or m.startswith(library + ".")]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf'pip install .*"{package}>='):
        read_image(file)


def test_missing_path_and_unknown_content(tmp_path: Path):
    """No file, a folder of nothing and a file of something else get one sentence each."""
    with pytest.raises(InvalidInputError, match="There is no image at"):
        read_image(tmp_path / "gone.png")
    (tmp_path / "x.dat").write_bytes(b"nothing in particular")
    with pytest.raises(FileFormatError, match=r"'x\.dat' is not of a kind of image that is read: PNG, JPEG"):
        read_image(tmp_path / "x.dat")
    with pytest.raises(InvalidInputError, match=r"not a usable path|no image at|cannot be opened"):
        read_image("a\0b")
