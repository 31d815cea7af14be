"""Index, RAS and scaled coordinates become the same world points that SimpleITK and transformix give."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from transform_tools import need
from warpgauge import Grid
from warpgauge.errors import AmbiguousFileError, FileFormatError, InvalidInputError, SuspiciousDataWarning
from warpgauge.io.landmarks import read_landmarks, write_landmarks

SIZE, SPACING, ORIGIN = (21, 17, 13), (0.7, 1.3, 2.5), (-40.5, 12.25, 99.0)
ANGLE = 0.4
DIRECTION = np.array(
    [[np.cos(ANGLE), np.sin(ANGLE), 0.0], [-np.sin(ANGLE), np.cos(ANGLE), 0.0], [0.0, 0.0, -1.0]]
)  # oblique, and with a flipped z
GRID = Grid(SIZE, SPACING, ORIGIN, DIRECTION, units="mm")
INDICES = np.array([[0, 0, 0], [20, 16, 12], [3, 5, 7], [11, 2, 9], [6, 13, 1]])


def simpleitk_world(indices: np.ndarray) -> np.ndarray:
    sitk = pytest.importorskip("SimpleITK")
    image = sitk.Image(*SIZE, sitk.sitkUInt8)
    image.SetSpacing(SPACING)
    image.SetOrigin(ORIGIN)
    image.SetDirection(DIRECTION.ravel().tolist())
    return np.array([image.TransformIndexToPhysicalPoint([int(i) for i in index]) for index in indices])


def rows(points: np.ndarray, separator: str) -> str:
    return "".join(separator.join(str(x) for x in point) + "\n" for point in points)


FILES = {
    "a_xyz.txt": rows(INDICES + 1, "\t"),
    "index.txt": f"index\n{len(INDICES)}\n" + rows(INDICES, " "),
    "napari.csv": "index,axis-0,axis-1,axis-2\n" + rows(np.column_stack([range(5), INDICES[:, ::-1]]), ","),
    "plain.csv": "x,y,z,frame\n" + rows(INDICES, ",").replace("\n", ",index\n"),
}


@pytest.mark.parametrize("name", list(FILES))
def test_indices_become_the_world_of_simpleitk(tmp_path: Path, name: str) -> None:
    """Every format of indices agrees with SimpleITK on an oblique, flipped, anisotropic, non-cubic image."""
    (tmp_path / name).write_text(FILES[name])
    lm = read_landmarks(tmp_path / name, fixed_grid=GRID)
    np.testing.assert_allclose(lm.fixed_points, simpleitk_world(INDICES), rtol=0, atol=1e-10)


TRANSFORMIX = """
import sys, itk
parameters = itk.ParameterObject.New()
parameters.AddParameterMap(eval(sys.argv[1]))
for name in ("index", "point"):
    itk.transformix_filter(
        itk.imread("image.mha", itk.F),
        transform_parameter_object=parameters,
        fixed_point_set_file_name=name + ".txt",
        output_directory="out_" + name,
        log_to_console=False,
    )
"""


def test_transformix_reads_our_files_as_we_mean_them(tmp_path: Path) -> None:
    """itk-elastix, given our `index` and `point` files, reports the indices and points that were written."""
    sitk = pytest.importorskip("SimpleITK")
    need("itk")
    image = sitk.Image(*SIZE, sitk.sitkFloat32)
    image.SetSpacing(SPACING)
    image.SetOrigin(ORIGIN)
    image.SetDirection(DIRECTION.ravel().tolist())
    sitk.WriteImage(image, str(tmp_path / "image.mha"))
    (tmp_path / "a_xyz.txt").write_text(FILES["a_xyz.txt"])
    lm = read_landmarks(tmp_path / "a_xyz.txt", fixed_grid=GRID)
    write_landmarks(lm, tmp_path / "index.txt", format="transformix", frame="index", fixed_grid=GRID)
    write_landmarks(lm, tmp_path / "point.txt", format="transformix")
    for name in ("index", "point"):
        assert (tmp_path / f"{name}.txt").read_text().startswith(f"{name}\n5\n")
        (tmp_path / f"out_{name}").mkdir()
    # In its own process: ITK and SimpleITK do not live in one.
    command = [sys.executable, "-c", TRANSFORMIX, repr(identity_transform())]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    for name in ("index", "point"):
        text = (tmp_path / f"out_{name}" / "outputpoints.txt").read_text()
        np.testing.assert_array_equal(reported(text, "InputIndex"), INDICES)
        # its report has six decimals
        np.testing.assert_allclose(reported(text, "InputPoint"), lm.fixed_points, atol=1e-5)


def reported(text: str, key: str) -> np.ndarray:
    return np.array([[float(x) for x in m.split()] for m in re.findall(rf"; {key} = \[ ([^\]]*)\]", text)])


def identity_transform() -> dict[str, list[str]]:
    return {
        "Transform": ["TranslationTransform"],
        "NumberOfParameters": ["3"],
        "TransformParameters": ["0", "0", "0"],
        "InitialTransformParameterFileName": ["NoInitialTransform"],
        "HowToCombineTransforms": ["Compose"],
        "FixedImageDimension": ["3"],
        "MovingImageDimension": ["3"],
        "FixedInternalImagePixelType": ["float"],
        "MovingInternalImagePixelType": ["float"],
        "Size": [str(n) for n in SIZE],
        "Index": ["0", "0", "0"],
        "Spacing": [str(x) for x in SPACING],
        "Origin": [str(x) for x in ORIGIN],
        "Direction": [repr(float(x)) for x in DIRECTION.T.ravel()],  # elastix stores it by columns
        "UseDirectionCosines": ["true"],
        "ResampleInterpolator": ["FinalLinearInterpolator"],
        "Resampler": ["DefaultResampler"],
        "DefaultPixelValue": ["0"],
        "ResultImageFormat": ["mha"],
        "ResultImagePixelType": ["float"],
    }


def test_scaled_and_image_frames_of_bigwarp(tmp_path: Path) -> None:
    """BigWarp with an image that has an origin or a direction is ambiguous until the frame is said."""
    index = np.array([3.0, 5.0, 7.0])
    scaled = index * SPACING
    path = tmp_path / "l.csv"
    path.write_text('"a","true",' + ",".join(f'"{x}"' for x in [*scaled, *scaled]) + "\n")
    with pytest.raises(AmbiguousFileError, match="--frame scaled"):
        read_landmarks(path, fixed_grid=GRID, moving_grid=GRID)
    lm = read_landmarks(path, fixed_grid=GRID, moving_grid=GRID, frame="scaled")
    np.testing.assert_allclose(lm.moving_points, simpleitk_world(INDICES[2:3]), atol=1e-10)
    plain = Grid(SIZE, SPACING, units="um")
    lm = read_landmarks(path, fixed_grid=plain, moving_grid=plain)
    np.testing.assert_allclose(lm.fixed_points, [scaled])
    assert (lm.units, lm.frame) == ("um", "image")


def test_covariances_follow_their_points(tmp_path: Path) -> None:
    """A covariance in indices becomes the covariance of the world points: A C A^T, checked by sampling the map."""
    path = tmp_path / "p.csv"
    path.write_text(
        "fixed_x,fixed_y,fixed_z,moving_x,moving_y,moving_z,c_xx,c_xy,c_xz,c_yy,c_yz,c_zz,frame\n"
        "1,2,3,4,5,6,2,0.5,0.1,1,0.2,3,index\n"
    )
    lm = read_landmarks(path, fixed_grid=GRID, moving_grid=GRID)
    factor = np.linalg.cholesky([[2, 0.5, 0.1], [0.5, 1, 0.2], [0.1, 0.2, 3]])
    centre = np.array([4.0, 5.0, 6.0])
    moved = GRID.index_to_world(centre + factor.T) - GRID.index_to_world(centre)
    np.testing.assert_allclose(lm.covariances[0], moved.T @ moved, rtol=1e-12)


def test_scale_scales_covariances_by_its_square(tmp_path: Path) -> None:
    """Landmarks of an image ten times larger have variances a hundred times larger."""
    path = tmp_path / "p.csv"
    path.write_text("fixed_x,fixed_y,moving_x,moving_y,c_xx,c_xy,c_yy\n10,20,30,40,100,0,400\n")
    lm = read_landmarks(path, scale=0.1)
    np.testing.assert_allclose(lm.covariances[0], [[1, 0], [0, 4]])
    np.testing.assert_allclose(lm.moving_points, [[3, 4]])


def test_a_frame_that_contradicts_the_file_is_reported(tmp_path: Path) -> None:
    """The caller's frame wins over a mislabelled file, and is not silent about it."""
    path = tmp_path / "p.txt"
    path.write_text("point\n1\n1 2 3\n")
    with pytest.warns(SuspiciousDataWarning, match="says that its points are LPS"):
        lm = read_landmarks(path, frame="RAS")
    np.testing.assert_array_equal(lm.fixed_points, [[-1, -2, 3]])


@pytest.mark.parametrize(
    ("text", "arguments", "error", "message"),
    [
        ("x,y\n1,2\n", {"fixed_grid": GRID}, FileFormatError, "2D points, but 3D was expected"),
        ("x,y\n1,2\n", {"frame": "RAS"}, InvalidInputError, "no RAS frame"),
        ("x,y\n1,2\n", {"frame": "ras"}, InvalidInputError, "frame must be one of"),
        ("x,y\n1,2\n", {"frame": "scaled"}, InvalidInputError, "needs the grid"),
        ("x,y\n1,2\n", {"units": "inch"}, InvalidInputError, "units must be one of"),
        ("x,y,units\n1,2,um\n", {"units": "mm"}, InvalidInputError, "the units disagree"),
        ("x,y,units\n1,2,um\n", {"fixed_grid": Grid((9, 9))}, InvalidInputError, "fixed_grid says px"),
        ("x,y\n1,2\n", {"scale": 0.0}, InvalidInputError, "scale must be"),
        ("x,y\n1,2\n", {"scale": float("nan")}, InvalidInputError, "scale must be"),
        ("x,y\n1,2\n", {"dimension": 4}, InvalidInputError, "2 or 3 dimensions"),
        ("x,y\n1,2\n", {"dimension": 3, "fixed_grid": Grid((9, 9))}, InvalidInputError, "must agree"),
        ("x,y\n1,2\n", {"match": "label", "moving_path": "l.csv"}, InvalidInputError, "match must be"),
        ("x,y\n1,2\n", {"format": "excel"}, InvalidInputError, "not one of"),
        ("point\n1\n1 2 3\n", {"scale": 2.0}, InvalidInputError, "leave scale out"),
        (",X,Y\n1,2,3\n", {"units": "um"}, InvalidInputError, "only by the image's grid"),
        (
            ",X,Y\n1,2,3\n",
            {"moving_path": "l.csv", "fixed_grid": Grid((9, 9))},
            InvalidInputError,
            "not moving_grid",
        ),
        ("fixed_x,fixed_y,moving_x,moving_y\n1,2,3,4\n", {"moving_path": "l.csv"}, InvalidInputError, "both sides"),
    ],
)
def test_impossible_readings_are_one_error(
    tmp_path: Path, text: str, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    """Each impossible request to read is one clear error."""
    path = tmp_path / "l.csv"
    path.write_text(text)
    if "moving_path" in arguments:
        arguments = arguments | {"moving_path": path}
    with pytest.raises(error, match=message):
        read_landmarks(path, **arguments)
