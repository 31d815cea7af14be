"""Cut, changed, mislabelled or of an absurd size: a file is an answer or a refusal of one sentence, nothing else."""

from __future__ import annotations

import gzip
import os
import shutil
import time
import tracemalloc
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import corpus
from corpus import Refused, Specimen

SEED = int(os.environ["WARPGAUGE_SEED"])
EVERY = pytest.mark.parametrize("one", corpus.ALL, ids=attrgetter("name"))
# What tends to break parsers, put in place of some bytes.
WORDS = (
    b"\x00", b"\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f",
    b"\x00\x01\x00\x00", b"\xff\xfe", b"9", b"-", b"-1", b"0", b"nan", b"inf", b"1e999", b"1e300",
    b"99999999999999999999", b"\xc3\xa9", b"\xd9\xa1", b"1_0", b"\n", b"\r", b" ", b",", b'"', b"(", b")", b"[", b"]",
    b"{", b"}", b"=", b":", b"#", b"//", b"none", b"null", b"[]", b"{}", b"LIST", b"../x", b"NRRD0004\n",
    b"NDims = 3\n", b"\x89HDF\r\n\x1a\n", b"PK\x03\x04", b"\x1f\x8b\x08", b"9" * 40,
)  # fmt: skip


@EVERY
def test_cut_anywhere_it_is_refused_or_says_the_same(one: Specimen, tmp_path: Path) -> None:
    """What was lost is noticed; a table may have fewer rows, and only the last number of the last may lack digits."""
    path = one.make(tmp_path)
    harmed = one.harmed(path)
    whole = harmed.read_bytes()
    refusals = 0
    for length in np.unique(np.linspace(0, len(whole) - 1, 60).astype(int)):
        harmed.write_bytes(whole[:length])
        try:
            found = corpus.answer(one, path)
        except Refused:
            refusals += 1
            continue
        if one.rows and len(found) < len(one.expected) + 1:
            assert np.allclose(found[:-1], one.expected[: len(found) - 1]), f"cut after {length} of {len(whole)} bytes"
        elif not one.open_ended:
            assert corpus.same(one, found), f"cut after {length} of {len(whole)} bytes"
    assert refusals >= 2


@pytest.mark.parametrize("one", [one for one in corpus.ALL if not one.part.endswith(".raw")], ids=attrgetter("name"))
def test_other_content_under_its_name_is_refused(one: Specimen, tmp_path: Path) -> None:
    """Nothing, noise, zeros, the start of a picture, a web page, endless brackets: refused, with the file's name."""
    path = one.make(tmp_path)
    harmed = one.harmed(path)
    noise = np.random.default_rng(SEED).integers(0, 256, 3000, dtype=np.uint8).tobytes()
    page = b"<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n"
    contents = (
        b"",
        noise,
        bytes(2000),
        b"\x89PNG\r\n\x1a\n" + bytes(200),
        page,
        b"[" * 100_000,
        b'{"format":' * 50_000,
    )
    for content in (*contents, b"\xff\xfe" + page.decode().encode("utf-16-le"), b" \n\r\n\t\n"):
        harmed.write_bytes(content)
        with pytest.raises(Refused) as caught:
            corpus.answer(one, path)
        assert any(part.name in str(caught.value) for part in (path, harmed)), content[:20]


@pytest.mark.parametrize("one", [one for one in corpus.ALL if not one.part], ids=attrgetter("name"))
def test_under_the_ending_of_another_format_it_is_refused_or_says_the_same(one: Specimen, tmp_path: Path) -> None:
    """A name is a hint; it never turns a file into another answer."""
    path = one.make(tmp_path)
    endings = {"".join(Path(other.name).suffixes[-2:]) for other in corpus.ALL} - {""}
    for ending in sorted(endings):
        renamed = tmp_path / f"renamed{ending}"
        if path.is_dir():
            continue
        shutil.copyfile(path, renamed)
        try:
            found = corpus.answer(one, renamed)
        except Refused:
            continue
        assert corpus.same(one, found), ending


@pytest.mark.parametrize("one", [one for one in corpus.ALL if one.absurd], ids=attrgetter("name"))
def test_an_absurd_size_is_refused_before_memory_is_taken(one: Specimen, tmp_path: Path) -> None:
    """A header that announces more than any memory costs nothing: neither room nor time."""
    path = one.make(tmp_path)
    harmed = one.harmed(path)
    assert one.absurd is not None
    small, huge = one.absurd
    data = harmed.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    assert small in data
    data = data.replace(small, huge, 1)
    harmed.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    with pytest.raises(Refused):  # once before, so that what libraries load for the first time is not counted
        corpus.answer(one, path)
    started = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(Refused):
            corpus.answer(one, path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20e6
    assert time.monotonic() - started < 5


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[str, float, int, bytes]]:
    """A few changes: bytes set, words put in or over, pieces removed or doubled, an end cut off."""
    kind = st.sampled_from(["set", "word", "remove", "insert", "double", "cut"])
    change = st.tuples(kind, st.floats(0, 1, exclude_max=True, width=32), st.integers(0, 255), st.sampled_from(WORDS))
    return draw(st.lists(change, min_size=1, max_size=5))


def damaged(data: bytes, changes: list[tuple[str, float, int, bytes]]) -> bytes:
    """Apply the changes; half of them fall into the first bytes, where headers are."""
    for kind, place, value, word in changes:
        at = int(place * 2 * min(len(data), 400)) if place < 0.5 else int(place * len(data))
        if kind == "set":
            data = data[:at] + bytes([value]) + data[at + 1 :]
        elif kind == "word":
            data = data[:at] + word + data[at + len(word) :]
        elif kind == "remove":
            data = data[:at] + data[at + 1 + value % 16 :]
        elif kind == "insert":
            data = data[:at] + word + data[at:]
        elif kind == "double":
            data = data[: at + value] + data[at:]
        else:
            data = data[:at]
    return data


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bytes]]:
    """Every specimen in a folder of its own, with the bytes of the part that is damaged."""
    made = {}
    for one in corpus.ALL:
        path = one.make(tmp_path_factory.mktemp("whole"))
        made[one.name] = (path, one.harmed(path).read_bytes())
    return made


@seed(SEED)
@settings(max_examples=1000, deadline=None, derandomize=False, database=None, suppress_health_check=list(HealthCheck))
@given(one=st.sampled_from(corpus.ALL), changes=damages())
def test_damaged_it_is_an_answer_or_one_sentence(
    collection: dict[str, tuple[Path, bytes]], one: Specimen, changes: list[tuple[str, float, int, bytes]]
) -> None:
    """A thousand files that nobody damaged before: every run has a seed of its own, which stands in the first lines."""
    path, whole = collection[one.name]
    harmed = one.harmed(path)
    harmed.write_bytes(damaged(whole, changes))
    try:
        corpus.answer(one, path)
    except Refused:
        pass
    except Exception as error:
        raise AssertionError(f"{one.name}, with WARPGAUGE_SEED={SEED}: {error!r}") from error
    finally:
        harmed.write_bytes(whole)


@settings(parent=settings.get_profile("warpgauge"), max_examples=300, database=None, derandomize=False)
@seed(SEED)
@given(
    start=st.sampled_from(WORDS),
    rest=st.binary(max_size=400),
    one=st.sampled_from([x for x in corpus.ALL if not x.part]),
)
def test_random_bytes_are_refused_in_one_sentence(
    collection: dict[str, tuple[Path, bytes]], one: Specimen, start: bytes, rest: bytes
) -> None:
    """Random bytes after the mark of any format, under the name of any."""
    path, whole = collection[one.name]
    path.write_bytes(start + rest)
    try:
        with pytest.raises(Refused):
            corpus.answer(one, path)
    finally:
        path.write_bytes(whole)
