"""What a sentence about a wrong file says, and hostile files; cut, changed and mislabelled ones: `test_damage`."""

from __future__ import annotations

import re
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import corpus
from transform_tools import elastix_grid, elastix_text, itk_entry, itk_text
from warpgauge.errors import FileTooLargeError, WarpgaugeError
from warpgauge.geometry import Grid
from warpgauge.io.transforms import read_transform

Files = dict[str, tuple[Path, dict[str, Any]]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """One valid file of every kind, with the options that it needs."""
    return {one.name: (one.make(tmp_path), dict(one.options)) for one in corpus.TRANSFORMS}


def refused(path: Path, options: dict[str, Any]) -> str:
    """Read a file that must be refused, and give the sentence after checking that it is one."""
    with pytest.raises(WarpgaugeError) as caught:
        read_transform(path, **options)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    assert "Traceback" not in message
    assert len(message) < 500
    assert path.name in message
    return message


@pytest.mark.parametrize(
    "name",
    [
        "affine.txt", "bspline.txt", "kernel.txt", "affine.toml", "affine.tfm", "composite.tfm", "matrix.txt",
        "points.csv", "outputpoints.txt", "affine.lta", "affine.aff12.1D", "affine.xfm", "transform_1_2.json",
    ],
)  # fmt: skip
def test_nan_in_text_is_refused(files: Files, name: str) -> None:
    """The first number of a text file as nan or inf."""
    path, options = files[name]
    text = path.read_text()
    for bad in ("nan", "inf"):
        path.write_text(re.sub(r"(?<![V\d.])-?\d+\.\d+", bad, text, count=1))
        refused(path, options)


def test_nan_in_binary_parameters_is_refused(files: Files) -> None:
    """NaN among the parameters of HDF5 and .mat files."""
    path, options = files["itk.h5"]
    with h5py.File(path, "a") as store:
        store["TransformGroup/0/TransformParameters"][3] = np.nan
    assert "not finite" in refused(path, options)
    path, options = files["ants.mat"]
    path.write_bytes(path.read_bytes().replace(struct.pack("<d", corpus.MATRIX[1, 1]), struct.pack("<d", np.inf)))
    assert "not finite" in refused(path, options)


@pytest.mark.parametrize("name", ["field.nii", "field.nrrd", "field.mha", "field.npy", "fsl.nii"])
def test_fields_of_nan_are_refused(files: Files, name: str) -> None:
    """A field whose every vector is NaN maps nothing."""
    path, options = files[name]
    whole = path.read_bytes()
    path.write_bytes(whole[: -8 * 360] + np.full(360, np.nan).tobytes())
    assert "finite" in refused(path, options)


def _elastix(kind: str, values: Any, extra: str = "") -> str:
    return elastix_text(3, kind, values, extra)


def _shift(*changes: tuple[str, str]) -> str:
    """A translation with changes to its text."""
    text = _elastix("TranslationTransform", range(3))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def _control(*changes: tuple[str, str], order: int = 3) -> str:
    """A B-spline with changes to its text."""
    text = _elastix("BSplineTransform", range(192), elastix_grid(Grid((4, 4, 4)), order))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.txt", _elastix("AffineTransform", range(11), "(CenterOfRotationPoint 0 0 0)"), "has 12 parameters"),
        ("t.txt", _elastix("AffineTransform", range(12)), "no value of 'CenterOfRotationPoint'"),
        ("t.txt", _elastix("AffineTransform", range(12), "(CenterOfRotationPoint 0 0)"), "must be 3 numbers"),
        ("t.txt", _shift(("Parameters 3", "Parameters 4")), "promises 4"),
        ("t.txt", _elastix("BSplineTransform", range(9), elastix_grid(Grid((4, 4, 4)), 3)), "needs 192 parameters"),
        ("t.txt", _control(order=7), "order 1, 2 or 3"),
        ("t.txt", _elastix("BSplineTransform", range(24), elastix_grid(Grid((2, 2, 2)), 3)), "too few nodes"),
        ("t.txt", _control(("GridSpacing 1", "GridSpacing 0")), "spacing must be positive"),
        ("t.txt", _control(("GridDirection 1", "GridDirection 2")), "must be an orthonormal"),
        ("t.txt", _control(("GridSize 4", "GridSize 4.5")), "needs 216 parameters"),
        ("t.txt", _control(('UseCyclicTransform "false"', 'UseCyclicTransform "true"')), "cyclic"),
        ("t.txt", _control(('UseCyclicTransform "false"', 'UseCyclicTransform "maybe"')), 'must be "true" or "false"'),
        ("t.txt", _elastix("EulerStackTransform", range(3)), "which is not read; known are"),
        ("t.txt", _shift(("Dimension 3", "Dimension 4")), "both must be 2"),
        ("t.txt", _shift(("MovingImageDimension 3", "MovingImageDimension 2")), "both must be 2"),
        ("t.txt", _shift(("NoInitialTransform", "t0.txt")), "neither there"),
        ("t.txt", _shift(("NoInitialTransform", "0")), "by the number 0"),
        ("t.txt", _shift(("(Size 9", "Size 9")), "expected '(Key values)'"),
        ("t.txt", _shift() + "(Size 9 9 9)\n", "appears twice"),
        ("t.txt", _shift(('"float"', '"float')), "quotation mark"),
        ("t.txt", _shift(("Parameters 0.0", "Parameters x")), "not numbers"),
        ("t.txt", '(Transform "TranslationTransform")\n', "both must be 2"),
        ("t.toml", "Transform = [\n", "neither an elastix text nor a TOML file"),
        ("t.tfm", "#Insight Transform File V1.0\n", "holds no transform"),
        ("t.tfm", "#Insight Transform File V1.0\nTransform: Affine\n", "not of the form of ITK"),
        ("t.tfm", itk_text("AffineTransform", 4, range(20), range(4)), "from 4D to 4D"),
        ("t.tfm", "#Insight Transform File V1.0\nTransform: AffineTransform_double_3_2\n", "from 3D to 2D"),
        ("t.tfm", "#Insight Transform File V1.0\nParameters: 1 2 3\n", "before any"),
        ("t.tfm", "#Insight Transform File V1.0\nHello\n", "expected 'Key: values'"),
        ("t.tfm", "#Insight Transform File V1.0\nTransform: CompositeTransform_double_3_3\n", "without members"),
        (
            "t.tfm",
            "#Insight Transform File V1.0\nTransform: CompositeTransform_double_3_3\n"
            + itk_entry("TranslationTransform", 3, [1, 2, 3], [])
            + itk_entry("TranslationTransform", 2, [1, 2], []),
            "mixes 2D and 3D",
        ),
        ("t.tfm", itk_text("BSplineTransform", 2, range(8), [2, 2, 0, 0, 1, 1, 1, 0, 0, 1]), "too few nodes"),
        ("t.tfm", itk_text("BSplineTransform", 2, range(40), [4, 5, 0, 0, 1, 1, 1, 1, 0, 1]), "orthonormal"),
        ("t.tfm", itk_text("DisplacementFieldTransform", 2, range(9), [2, 2, 0, 0, 1, 1, 1, 0, 0, 1]), "needs 8"),
        ("t.tfm", itk_text("DisplacementFieldTransform", 2, [], [1e30, 1e30, 0, 0, 1, 1, 1, 0, 0, 1]), "parameters"),
        ("t.tfm", itk_text("Euler2DTransform", 3, [1, 2, 3], [0, 0]), "2D only"),
        ("m.txt", "1 2 3\n4 5\n", "not a matrix"),
        ("m.txt", "1 2 3 4 5\n" * 5, "5 x 5"),
        ("m.txt", "1 0 0\n0 1 0\n0 0 2\n", "last row"),
        ("p.csv", "fixed_x,fixed_y,moving_x,moving_y\n1,2,3\n", "fields"),
        ("p.csv", "x,y\n1,2\n3,4\n", "one set of points"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    """Counts, dimensions, kinds and grammar: the sentence says what is wrong."""
    (tmp_path / name).write_text(text)
    assert said in refused(tmp_path / name, {})


def test_a_field_of_absurd_size_in_hdf5_costs_no_memory(tmp_path: Path) -> None:
    """Parameters of terabytes, none of which are in the file, are refused before anything is allocated."""
    fixed = np.array([90000.0] * 3 + [0] * 3 + [1] * 3 + list(np.eye(3).ravel()))
    with h5py.File(tmp_path / "itk.h5", "w") as store:
        member = store.create_group("TransformGroup/0")
        member["TransformType"] = np.array(["DisplacementFieldTransform_double_3_3"], dtype="S")
        member["TransformFixedParameters"] = fixed
        member.create_dataset("TransformParameters", shape=(3 * 90000**3,), dtype="f8", chunks=(1000,))
    tracemalloc.start()
    try:
        refused(tmp_path / "itk.h5", {})
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


def test_several_arrays_in_one_file_are_refused(tmp_path: Path) -> None:
    """Which of them would it be?"""
    np.savez(tmp_path / "f.npz", a=np.zeros(3), b=np.zeros(3))
    options = {"reference": Grid((4, 5, 6)), "convention": "displacement", "axes": "zyx"}
    assert "must hold one array, but holds 2 (a, b)" in refused(tmp_path / "f.npz", options)


def test_scalar_images_are_no_fields(tmp_path: Path) -> None:
    """An image in place of a field is named as such."""
    sitk = pytest.importorskip("SimpleITK")
    image = sitk.GetImageFromArray(np.zeros((4, 5, 6), np.float32))
    for suffix in (".nii.gz", ".nrrd", ".mha"):
        sitk.WriteImage(image, str(tmp_path / f"i{suffix}"))
        refused(tmp_path / f"i{suffix}", {})


def test_hostile_text_takes_no_time(tmp_path: Path) -> None:
    """Text made to send a search back and forth, or to ask for a huge matrix, is refused at once."""
    many = 200_000
    landmarks = " ".join(["1"] * 3 * 20_000)
    kernel = f'(SplineKernelType "ThinPlateSpline")\n(FixedImageLandmarks {landmarks})'
    hostile = {
        "numbers.txt": "  #c\n" * 600 + "x",
        "quotes.txt": '(Transform "' + "//" * many + "\n",
        "slashes.txt": "//" * many + "\n(a)",
        "points.txt": "Point 0 ; " + "InputPoint = [" * many + "\n",
        "kernel.txt": _elastix("SplineKernelTransform", np.ones(60_000), kernel),
        "same.csv": "fixed_x,fixed_y,moving_x,moving_y\n" + "1,2,3,4\n" * 20_000,
    }
    for name, text in hostile.items():
        (tmp_path / name).write_text(text)
        refused(tmp_path / name, {})


def test_composites_of_absurdly_many_parts_are_refused_while_they_are_counted(tmp_path: Path):
    """100,000 parts of an ITK composite took 17 s; more than 1,000 are refused before they are read, in any format."""
    part = "#Transform {}\nTransform: TranslationTransform_double_2_2\nParameters: 1 0\nFixedParameters:\n"
    head = "#Insight Transform File V1.0\n#Transform 0\nTransform: CompositeTransform_double_2_2\n"
    (tmp_path / "many.tfm").write_text(head + "".join(part.format(n) for n in range(1, 100_001)))
    (tmp_path / "few.tfm").write_text(head + "".join(part.format(n) for n in range(1, 1001)))
    with pytest.raises(FileTooLargeError, match="more than 1000 transforms"):
        read_transform(tmp_path / "many.tfm")
    np.testing.assert_allclose(read_transform(tmp_path / "few.tfm").map(np.zeros((1, 2))), [[1000.0, 0.0]])
