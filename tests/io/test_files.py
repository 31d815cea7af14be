"""What all readers share: hashes of files and folders, text, and libraries that are not installed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from warpgauge import read_landmarks
from warpgauge.errors import FileFormatError, InvalidInputError, MissingExtraError
from warpgauge.io import content_hash
from warpgauge.io.files import require


def test_a_missing_library_is_named_with_its_command():
    assert require("hashlib", "images") is hashlib
    with pytest.raises(MissingExtraError, match=r'pip install "pydicom>='):
        require("a_library_that_nobody_has.part", "dicom")


def test_content_hash_of_a_file_is_its_sha256(tmp_path: Path):
    """The hash of a file is the one that sha256sum gives."""
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    # The published test vector of SHA-256 for "abc".
    assert content_hash(file) == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_content_hash_of_a_folder_ignores_its_place_but_not_its_names(tmp_path: Path):
    """A folder's hash depends on names and bytes of its files only, in the order of the names."""
    for folder, names in (("one", ("b", "a/c")), ("two", ("a/c", "b")), ("three", ("a/d", "b"))):
        for name in names:
            file = tmp_path / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"same" if name != "b" else b"other")
    by_hand = hashlib.sha256(b"a/c\x004\x00sameb\x005\x00other").hexdigest()
    assert content_hash(tmp_path / "one") == content_hash(tmp_path / "two") == f"sha256:{by_hand}"
    assert content_hash(tmp_path / "three") != content_hash(tmp_path / "two")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "'t.csv' is empty"),
        (b"x,y\n1,2\0\n", "not text"),
        (b"x,y,name\n1,2,\xb5m\n", "not UTF-8"),
        (b"x,y\n" + b" " * 2**26, "more than the"),
    ],
)
def test_text_is_utf8_of_bounded_length(tmp_path: Path, data: bytes, reason: str):
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(FileFormatError, match=reason):
        read_landmarks(tmp_path / "t.csv")


def test_a_byte_order_mark_is_dropped(tmp_path: Path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfx,y,name\n1,2,\xc2\xb5m\n")
    assert read_landmarks(tmp_path / "t.csv").names == ("µm",)


def test_paths_that_are_no_files(tmp_path: Path):
    for path, reason in ((tmp_path / "missing", "There is no"), (tmp_path, "is a folder"), ("nul\0byte", "file at")):
        with pytest.raises(InvalidInputError, match=reason):
            read_landmarks(path)
