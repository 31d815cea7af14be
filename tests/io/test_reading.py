"""Every readable kind of file is recognised and says what it holds, in the frame in which it holds it."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import corpus
import warpgauge as wg
from corpus import Specimen

EVERY = pytest.mark.parametrize("one", corpus.ALL, ids=attrgetter("name"))


@EVERY
def test_a_specimen_is_read_as_what_it_is(one: Specimen, tmp_path: Path) -> None:
    """Recognised by its content, without being told more than the file leaves open."""
    found = corpus.answer(one, one.make(tmp_path))
    np.testing.assert_allclose(found, one.expected, rtol=1e-6, atol=one.atol)


@EVERY
def test_reading_changes_nothing(one: Specimen, tmp_path: Path) -> None:
    """No file beside it, and the same bytes afterwards."""
    path = one.make(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    corpus.answer(one, path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("one", corpus.TRANSFORMS, ids=attrgetter("name"))
def test_outside_its_domain_a_transform_says_nothing(one: Specimen, tmp_path: Path) -> None:
    """Far from the nodes of a field, and at points that are not finite: NaN, never the identity and never a guess."""
    found = wg.read_transform(one.make(tmp_path), **one.options)
    points = np.full((2, found.d), [[np.nan], [1e7]])
    mapped = found.map(points)
    assert np.isnan(mapped[0]).all()
    everywhere = one.name.startswith(("affine", "composite", "itk", "ants", "matrix", "kernel", "bigwarp", "transform"))
    assert np.isfinite(mapped[1]).all() == everywhere


@pytest.mark.parametrize("one", corpus.TRANSFORMS, ids=attrgetter("name"))
def test_a_transform_read_backwards_is_its_inverse(one: Specimen, tmp_path: Path) -> None:
    """``direction`` tells that a file maps moving to fixed points."""
    found = wg.read_transform(one.make(tmp_path), **one.options, direction="moving_to_fixed")
    probes = corpus.FLAT_PROBES if found.d == 2 else corpus.PROBES
    np.testing.assert_allclose(found.map(corpus.true_map(probes)), probes, atol=1e-3)


@pytest.mark.parametrize("one", corpus.TRANSFORMS, ids=attrgetter("name"))
def test_a_transform_of_larger_images_is_scaled(one: Specimen, tmp_path: Path) -> None:
    """``scale`` multiplies all coordinates, fixed and moving."""
    if one.options:
        pytest.skip("a grid that was given says where it lies")
    found = wg.read_transform(one.make(tmp_path), scale=0.25)
    probes = corpus.FLAT_PROBES if found.d == 2 else corpus.PROBES
    np.testing.assert_allclose(found.map(probes * 0.25), one.expected * 0.25, atol=1e-4)
