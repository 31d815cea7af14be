"""The helpers that all readers share."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import pytest

from warpgauge.errors import FileFormatError, InvalidInputError, MissingExtraError
from warpgauge.io.files import (
    content_hash,
    existing_file,
    files_hash,
    foreign_decoder,
    neighbour,
    one_line,
    read_head,
    read_text,
    require,
)


def test_require_gives_the_module():
    """A library that is there is given back."""
    assert require("hashlib", "images") is hashlib


def test_require_names_the_extra():
    """A library that is missing gives an error with the command that installs it."""
    with pytest.raises(MissingExtraError, match=r'pip install "pydicom>='):
        require("a_library_that_nobody_has.part", "dicom")


def test_read_head_stops_at_n_and_at_the_end(tmp_path: Path):
    """The first n bytes come, or all of a shorter file."""
    file = tmp_path / "a"
    file.write_bytes(b"abcdef")
    assert read_head(file, 3) == b"abc"
    assert read_head(file, 99) == b"abcdef"


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
    assert files_hash([tmp_path / "one/b", tmp_path / "one/a/c"], tmp_path / "one") == f"sha256:{by_hand}"


def test_existing_file_says_what_is_wrong(tmp_path: Path):
    """Missing, empty and folder each get their own sentence, and a good file its path."""
    (tmp_path / "empty").touch()
    (tmp_path / "good").write_text("x")
    with pytest.raises(InvalidInputError, match="There is no image at"):
        existing_file(tmp_path / "missing", "image")
    with pytest.raises(FileFormatError, match="'empty' is empty"):
        existing_file(tmp_path / "empty", "image")
    with pytest.raises(InvalidInputError, match="is a folder"):
        existing_file(tmp_path, "image")
    with pytest.raises(InvalidInputError, match="image at"):
        existing_file("nul\0byte", "image")
    assert existing_file(str(tmp_path / "good"), "image") == tmp_path / "good"


def test_read_text_drops_the_mark_and_refuses_binary_long_and_latin(tmp_path: Path):
    """Text is UTF-8 with or without a byte order mark, of bounded length."""
    file = tmp_path / "t"
    file.write_bytes(b"\xef\xbb\xbfa,\xc2\xb5m\n")
    assert read_text(file, "table") == "a,µm\n"
    file.write_bytes(b"a\0b")
    with pytest.raises(FileFormatError, match="not text"):
        read_text(file, "table")
    file.write_bytes(b"\xb5m")
    with pytest.raises(FileFormatError, match="not UTF-8"):
        read_text(file, "table")
    file.write_bytes(b"abcdef")
    with pytest.raises(FileFormatError, match="6 bytes, more than the 5"):
        read_text(file, "table", limit=5)


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.raw", "a/x.raw", "..", "C:x.raw", "a\\x.raw", "", "  "])
def test_neighbour_refuses_names_that_leave_the_folder(tmp_path: Path, name: str):
    """A header cannot make us read a file that is not beside it."""
    with pytest.raises(FileFormatError, match="plain name of a file next to the header"):
        neighbour(tmp_path / "x.mhd", name)


def test_neighbour_finds_the_file_beside_the_header(tmp_path: Path):
    """A bare name beside the header is found, and its absence is said."""
    (tmp_path / "x.raw").write_bytes(b"1")
    assert neighbour(tmp_path / "x.mhd", " x.raw ") == tmp_path / "x.raw"
    with pytest.raises(FileFormatError, match="not next to it"):
        neighbour(tmp_path / "x.mhd", "y.raw")


def test_foreign_errors_become_one_sentence_and_warnings_stay_quiet():
    """Whatever a decoder raises becomes a FileFormatError with the file's name; our own errors pass unchanged."""

    def decode() -> None:
        with foreign_decoder("folder/x.tif", "TIFF"):
            warnings.warn("noise", UserWarning, stacklevel=1)
            raise IndexError("bad\n  tag.")

    with pytest.raises(FileFormatError, match=r"'x\.tif' cannot be read as TIFF: bad tag; it is damaged") as caught:
        decode()
    assert "\n" not in str(caught.value)
    with pytest.raises(MissingExtraError), foreign_decoder("x.tif", "TIFF"):
        require("a_library_that_nobody_has", "images")


def test_one_line_is_one_short_line():
    """A long or empty message of a library is made quotable."""
    assert one_line(ValueError("a\n b.")) == "a b"
    assert one_line(KeyError()) == "KeyError"
    assert len(one_line(ValueError("x" * 1000))) <= 160
