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
