"""Ten thousand damaged files through the readers of transforms: a transform or one of our errors, nothing else."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transform_tools import defined, valid_files
from warpgauge.errors import WarpgaugeError, WarpgaugeWarning
from warpgauge.io.transforms import read_transform

# 21 kinds of file at 500, random text and bytes at 1000 each, Zarr metadata at 200: more than ten thousand in all.
EACH, TEXTS, ZARR = 500, 1000, 200
NAMES = (
    "elastix_affine.txt",
    "elastix_bspline.txt",
    "elastix_kernel.txt",
    "elastix.toml",
    "itk_affine.tfm",
    "itk_composite.tfm",
    "matrix.txt",
    "points.csv",
    "outputpoints.txt",
    "itk.h5",
    "ants.mat",
    "field.nii",
    "fsl.nii",
    "learn2reg.nii",
    "field.nrrd",
    "packed.nrrd",
    "field.mha",
    "field.npy",
    "field.npz",
    "learn2reg.npz",
)
# What tends to break parsers, put in place of some bytes.
_TOKENS = (
    *(b"nan", b"inf", b"-1", b"0", b"1e999", b"99999999999999999999", b'"', b"(", b")", b"\n", b"\0", b"\xff\xfe"),
    *(b"=", b":", b",", b"none", b"\xc3\xa9", b"//", b"#", b"[", b"{", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b" "),
)
_WORDS = (
    '(Transform "AffineTransform") (TransformParameters 1 2 3) (FixedImageDimension 2) (MovingImageDimension 2) '
    "#Insight Transform File V1.0 Transform: AffineTransform_double_2_2 Parameters: FixedParameters: 0 1 -2.5 1e9 nan "
    "NDims = 3 NRRD0004 fixed_x,fixed_y,moving_x,moving_y 1,2,3,4 Point 0 ; InputPoint = [ 1 2 ] \n \n \n"
)
_HEADS = (
    *(b"", b"\x89HDF\r\n\x1a\n", b"NRRD0004\n", b"NDims = 3\n", b"PK\x03\x04", b"\x1f\x8b\x08"),
    b"\x93NUMPY\x01\x00",
)
Edit = tuple[str, int, int]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(("set", "token", "cut", "double", "end", "digit")),
        st.integers(0, 2**16),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, edits: list[Edit]) -> bytes:
    """Apply edits; three in four fall into the first 400 bytes, where the headers are."""
    for kind, where, value in edits:
        if not data:
            break
        place = where % len(data) if where % 4 == 0 else where % min(len(data), 400)
        before, after = data[:place], data[place:]
        if kind == "set":
            data = before + bytes([value]) + after[1:]
        elif kind == "token":
            data = before + _TOKENS[value % len(_TOKENS)] + after[value % 7 :]
        elif kind == "cut":
            data = before + after[value:]
        elif kind == "double":
            data = before + after[:value] + after
        elif kind == "end":
            data = before
        else:  # change the next digit
            digit = next((i for i, byte in enumerate(after) if 48 <= byte < 58), None)
            if digit is not None:
                data = before + after[:digit] + bytes([48 + value % 10]) + after[digit + 1 :]
    return data


def attempt(path: Path, options: dict[str, Any]) -> None:
    """Read and use a file; anything but a transform or an error of ours fails the test, warnings of others too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", WarpgaugeWarning)
        try:
            transform = read_transform(path, **options)
        except WarpgaugeError as error:
            sentence = str(error)
            problem = "\n" in sentence or not sentence.endswith(".") or len(sentence) > 700
            if problem:
                pytest.fail(f"not one sentence: {sentence!r}")
            return
        points = np.vstack([np.zeros((1, transform.d)), np.full((1, transform.d), 3.7)])
        mapped = transform.map(points)
        assert mapped.shape == points.shape
        np.testing.assert_array_equal(np.isfinite(mapped).all(axis=1), defined(transform, points))
        json.dumps(transform.description.to_dict())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bytes, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("fuzz")
    return {name: (path, path.read_bytes(), options) for name, (path, options) in valid_files(folder).items()}


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files(files: dict[str, tuple[Path, bytes, dict[str, Any]]], name: str) -> None:
    """Bytes set, cut, doubled or replaced by what breaks parsers."""
    path, whole, options = files[name]

    @settings(max_examples=EACH)
    @given(EDITS)
    def run(edits: list[Edit]) -> None:
        path.write_bytes(damaged(whole, edits))
        attempt(path, options)

    run()


def test_damaged_content_of_gzip(files: dict[str, tuple[Path, bytes, dict[str, Any]]]) -> None:
    """A sound gzip file around a damaged NIfTI, which the checksum does not catch."""
    path, whole, options = files["field.nii.gz"]
    inner = gzip.decompress(whole)

    @settings(max_examples=EACH)
    @given(EDITS)
    def run(edits: list[Edit]) -> None:
        path.write_bytes(gzip.compress(damaged(inner, edits), 1))
        attempt(path, options)

    run()


@pytest.mark.parametrize("asked", [None, "elastix", "itk", "matrix", "points"])
def test_random_text(tmp_path_factory: pytest.TempPathFactory, asked: str | None) -> None:
    """Lines made of the words of the formats, and any text at all."""
    path = tmp_path_factory.mktemp("text") / "t.txt"
    words = st.sampled_from(_WORDS.split(" "))
    lines = st.lists(words, max_size=30).map(" ".join)

    @settings(max_examples=TEXTS // 5)
    @given(st.one_of(lines, st.text(max_size=200)))
    def run(text: str) -> None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        attempt(path, {} if asked is None else {"format": asked})

    run()


@pytest.mark.parametrize("asked", [None, "ants", "nifti", "nrrd", "metaimage"])
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, asked: str | None) -> None:
    """Bytes with and without the signature of a format before them."""
    path = tmp_path_factory.mktemp("bytes") / "t.bin"

    @settings(max_examples=TEXTS // 5)
    @given(st.sampled_from(_HEADS), st.binary(max_size=600))
    def run(head: bytes, body: bytes) -> None:
        path.write_bytes(head + body)
        attempt(path, {} if asked is None else {"format": asked})

    run()
