"""What the tests of transforms share: random grids, files written by hand, and the programs to compare with."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from warpgauge.geometry import Floats, Grid
from warpgauge.io.transforms import Transform

DIRECTIONS = ("straight", "flipped", "swapped", "oblique")


def need(module: str) -> None:
    """Skip where a program is missing, without importing it: itk ends a process whose warnings are errors."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not in this environment, but in that of make integrations")


def defined(transform: Transform, points: Floats) -> NDArray[np.bool_]:
    """Return at which points a transform is defined."""
    return np.asarray(np.isfinite(transform.map(points)).all(axis=1))


def numbers(values: Any) -> str:
    """Write numbers so that they read back the same."""
    return " ".join(repr(float(x)) for x in np.ravel(values))


def direction(rng: np.random.Generator, d: int, kind: str) -> Floats:
    if kind == "straight":
        return np.eye(d)
    if kind == "flipped":
        return np.diag([-1.0, 1.0, -1.0][:d])
    if kind == "swapped":
        return np.roll(np.eye(d), 1, axis=0)
    if d == 2:
        c, s = np.cos(0.7), np.sin(0.7)
        return np.array([[c, -s], [s, c]])
    return Rotation.random(random_state=rng.integers(2**31)).as_matrix()


def random_grid(rng: np.random.Generator, d: int, kind: str = "oblique", low: int = 6, high: int = 12) -> Grid:
    """A grid of no two equal sizes, spacing between 0.6 and 3, and an origin far from 0."""
    size = low + rng.permutation(high - low)[:d]
    spacing = rng.uniform(0.6, 3, d)
    return Grid(tuple(size.tolist()), spacing, rng.uniform(-300, 300, d), direction(rng, d, kind), "mm")


def points_within(rng: np.random.Generator, grid: Grid, count: int = 40, margin: float = 0.0) -> Floats:
    low, high = margin, np.asarray(grid.size) - 1 - margin
    return grid.index_to_world(rng.uniform(low, high, (count, grid.d)))


def elastix_text(  # a table of one file
    d: int,
    kind: str,
    parameters: Any,
    extra: str = "",
    initial: str = "NoInitialTransform",
    how: str = "Compose",
    key: str = "InitialTransformParameterFileName",
    cosines: str = "true",
) -> str:
    """Write a parameter file as elastix does, with all that transformix wants."""
    values = np.ravel(parameters)
    ones, zeros = numbers(np.ones(d)), " ".join(["0"] * d)
    return f"""(Transform "{kind}")
(NumberOfParameters {len(values)})
(TransformParameters {numbers(values)})
({key} "{initial}")
(HowToCombineTransforms "{how}")

// Image specific
(FixedImageDimension {d})
(MovingImageDimension {d})
(FixedInternalImagePixelType "float")
(MovingInternalImagePixelType "float")
(Size {" ".join(["9"] * d)})
(Index {zeros})
(Spacing {ones})
(Origin {zeros})
(Direction {numbers(np.eye(d))})
(UseDirectionCosines "{cosines}")

// {kind} specific
{extra}

(ResampleInterpolator "FinalBSplineInterpolator")
(FinalBSplineInterpolationOrder 3)
(Resampler "DefaultResampler")
(DefaultPixelValue 0)
(ResultImageFormat "mhd")
(ResultImagePixelType "float")
(CompressResultImage "false")
"""


def elastix_grid(grid: Grid, order: int, index: Any = None) -> str:
    """The control grid of a B-spline; the direction stands there by columns."""
    start = np.zeros(grid.d, int) if index is None else np.asarray(index)
    return f"""(GridSize {" ".join(map(str, grid.size))})
(GridIndex {" ".join(str(int(i)) for i in start)})
(GridSpacing {numbers(grid.spacing)})
(GridOrigin {numbers(grid.origin)})
(GridDirection {numbers(grid.direction.T)})
(BSplineTransformSplineOrder {order})
(UseCyclicTransform "false")"""


_TRANSFORMIX = """
import json, os, sys
import itk, numpy
jobs = json.load(open(sys.argv[1]))
for job in jobs:
    os.chdir(job["folder"])
    image = itk.image_from_array(numpy.zeros((4,) * job["d"], numpy.float32))
    parameters = itk.ParameterObject.New()
    parameters.ReadParameterFile(job["file"])
    transformix = itk.TransformixFilter.New(image, transform_parameter_object=parameters)
    transformix.SetFixedPointSetFileName(job["points"])
    transformix.SetOutputDirectory(job["output"])
    transformix.SetLogToFile(True)
    try:
        transformix.Update()
    except (RuntimeError, KeyError):
        sys.exit(job["file"] + open(job["output"] + "/transformix.log").read()[-1500:])
"""


def run_transformix(folder: Path, cases: dict[str, tuple[Path, Floats]]) -> dict[str, Floats]:
    """Map points with itk-elastix in another process: {name: (parameter file, points)} to {name: mapped points}."""
    jobs = []
    for name, (file, points) in cases.items():
        listed, output = folder / f"{name}.points", folder / f"{name}.out"
        output.mkdir()
        rows = "\n".join(numbers(point) for point in points)
        listed.write_text(f"point\n{len(points)}\n{rows}\n")
        jobs.append(
            {
                "d": points.shape[1],
                "file": str(file),
                "points": str(listed),
                "output": str(output),
                "folder": str(file.parent),
            }
        )
    listing = folder / "jobs.json"
    listing.write_text(json.dumps(jobs))
    done = subprocess.run(
        [sys.executable, "-c", _TRANSFORMIX, str(listing)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {name: output_points(folder / f"{name}.out" / "outputpoints.txt") for name in cases}


def run_python(folder: Path, script: str, content: Any) -> Any:
    """Run a script in another process, since itk and ANTsPy do not bear each other, nor warnings that are errors."""
    given, result = folder / "given.json", folder / "result.json"
    given.write_text(json.dumps(content))
    command = [sys.executable, "-c", script, str(given), str(result)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(result.read_text())


def output_points(file: Path) -> Floats:
    """Read the mapped points that transformix wrote, six decimals each."""
    found = re.findall(r"OutputPoint = \[([^\]]*)\]", file.read_text())
    return np.array([row.split() for row in found], dtype=np.float64)


def map_with_itk(transform: Any, points: Floats) -> Floats:
    """Map points one by one with a SimpleITK or ITK transform."""
    return np.array([list(transform.TransformPoint(point)) for point in points.tolist()])


def itk_entry(kind: str, d: int, parameters: Any, fixed: Any) -> str:
    return f"Transform: {kind}_double_{d}_{d}\nParameters: {numbers(parameters)}\nFixedParameters: {numbers(fixed)}\n"


def itk_text(kind: str, d: int, parameters: Any, fixed: Any) -> str:
    return f"#Insight Transform File V1.0\n#Transform 0\n{itk_entry(kind, d, parameters, fixed)}"


def valid_files(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """One small valid file of every format, with the options that it needs: {name: (path, options)}."""
    import gzip

    import h5py
    import nibabel
    import scipy.io

    rng = np.random.default_rng(1)
    grid = Grid((4, 5, 6), (1.0, 2.0, 1.5), (3.0, -4.0, 5.0), units="mm")
    vectors = rng.normal(size=(*grid.shape, 3))
    affine = [1.1, 0.1, 0, -0.1, 0.9, 0, 0, 0, 1, 5, 6, 7]
    texts = {
        "elastix_affine.txt": elastix_text(3, "AffineTransform", affine, "(CenterOfRotationPoint 1 2 3)"),
        "elastix_bspline.txt": elastix_text(2, "BSplineTransform", rng.normal(size=40), elastix_grid(Grid((4, 5)), 3)),
        "elastix_kernel.txt": elastix_text(
            2,
            "SplineKernelTransform",
            rng.normal(size=10),
            f'(SplineKernelType "ThinPlateSpline")\n(FixedImageLandmarks {numbers(rng.normal(size=10))})',
        ),
        "elastix.toml": 'Transform = "TranslationTransform"\nNumberOfParameters = 2\nTransformParameters = [1.5, 2]\n'
        "FixedImageDimension = 2\nMovingImageDimension = 2\n",
        "itk_affine.tfm": itk_text("AffineTransform", 3, affine, [1, 2, 3]),
        "itk_composite.tfm": "#Insight Transform File V1.0\n#Transform 0\nTransform: CompositeTransform_double_2_2\n"
        + itk_entry("Euler2DTransform", 2, [0.1, 2, 3], [4, 5])
        + itk_entry("BSplineTransform", 2, rng.normal(size=40), [4, 5, 0, 0, 1, 1, 1, 0, 0, 1]),
        "matrix.txt": "1 0 0 1\n0 1 0 2\n0 0 1 3\n0 0 0 1\n",
        "points.csv": "fixed_x,fixed_y,moving_x,moving_y\n1,2,3,4\n5,6,7,8.5\n9,1,9,2\n2,7,3,8\n",
        "outputpoints.txt": "Point\t0\t; InputPoint = [ 1.5 2.5 ]\t; OutputPoint = [ 3.5 4.5 ]\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    files: dict[str, tuple[Path, dict[str, Any]]] = {name: (folder / name, {}) for name in texts}

    def add(name: str, data: bytes, **options: Any) -> None:
        (folder / name).write_bytes(data)
        files[name] = (folder / name, options)

    with h5py.File(folder / "itk.h5", "w") as store:
        member = store.create_group("TransformGroup/0")
        member["TransformType"] = np.array(["AffineTransform_double_3_3"], dtype="S")
        member["TransformParameters"] = np.array(affine, dtype=float)
        member["TransformFixedParameters"] = np.array([1.0, 2.0, 3.0])
    files["itk.h5"] = (folder / "itk.h5", {})
    content = {"AffineTransform_double_3_3": np.array(affine)[:, None], "fixed": np.ones((3, 1))}
    scipy.io.savemat(folder / "ants.mat", content, format="4")
    files["ants.mat"] = (folder / "ants.mat", {})

    def nifti(shape: tuple[int, ...], intent: int) -> bytes:
        image = nibabel.Nifti1Image(vectors.transpose(2, 1, 0, 3).reshape(shape), np.diag([2.0, 3.0, 4.0, 1.0]))
        image.header["intent_code"] = intent
        image.set_sform(image.affine, 1)
        return bytes(image.to_bytes())

    five, four = nifti((4, 5, 6, 1, 3), 1007), nifti((4, 5, 6, 3), 2006)
    add("field.nii", five)
    add("field.nii.gz", gzip.compress(five))
    add("fsl.nii", four, format="fsl", convention="displacement", moving=grid)
    add("learn2reg.nii", four, convention="learn2reg", reference=grid)
    raw = vectors.astype("<f8").tobytes()
    nrrd = (
        "NRRD0004\ntype: double\ndimension: 4\nspace: left-posterior-superior\nsizes: 3 4 5 6\n"
        "space directions: none (1,0,0) (0,2,0) (0,0,1.5)\nkinds: vector domain domain domain\nendian: little\n"
        "encoding: {}\nspace origin: (3,-4,5)\n\n"
    )
    add("field.nrrd", nrrd.format("raw").encode() + raw)
    add("packed.nrrd", nrrd.format("gzip").encode() + gzip.compress(raw))
    meta = (
        "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\nCompressedData = False\n"
        "TransformMatrix = 1 0 0 0 1 0 0 0 1\nOffset = 3 -4 5\nElementSpacing = 1 2 1.5\nDimSize = 4 5 6\n"
        "ElementNumberOfChannels = 3\nElementType = MET_DOUBLE\nElementDataFile = LOCAL\n"
    )
    add("field.mha", meta.encode() + raw)
    told = {"reference": grid, "convention": "displacement", "axes": "zyx"}
    np.save(folder / "field.npy", vectors)
    files["field.npy"] = (folder / "field.npy", told)
    np.savez(folder / "field.npz", vectors)
    files["field.npz"] = (folder / "field.npz", told)
    np.savez_compressed(folder / "learn2reg.npz", vectors.transpose(3, 2, 1, 0).astype(np.float16))
    files["learn2reg.npz"] = (
        folder / "learn2reg.npz",
        {"convention": "learn2reg-2020", "reference": grid},
    )
    return files
