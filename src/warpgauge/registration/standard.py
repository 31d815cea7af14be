"""Standard registrations of histology and volumes without tuning, to compare others with; each in its own process.

They begin with the rough alignment of `warpgauge.registration.rough_alignment`. Everything after it compares edges (the
logarithm of the gradient magnitude), which stains and modalities share more than grey values: on two pairs of CIMA
stains, B-splines by mutual information of edges ended at 13 and 14 px from the landmarks, of grey values at 21 and 18.
All of it happens at a working size and in world units, so a result holds for the full images.
"""

from __future__ import annotations

import os
import subprocess  # nosec B404  # runs this module
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.candidates import to_gray
from warpgauge.core.parallel import thread_count
from warpgauge.errors import WarpgaugeError
from warpgauge.geometry import Grid, array_order
from warpgauge.io.files import require
from warpgauge.io.images import Image, read_image
from warpgauge.maps import write_map
from warpgauge.maps.warping import fitting_level
from warpgauge.registration.rough_alignment import align

PREFIX = "standard-"
# Cells of the B-splines along each axis; the other registrations have none.
MESHES = {f"{PREFIX}bspline-coarse": 4, f"{PREFIX}bspline": 8, f"{PREFIX}bspline-fine": 14}
SIMILARITY = f"{PREFIX}similarity"
AFFINE = f"{PREFIX}affine"
DEMONS = f"{PREFIX}demons"
NAMES = (SIMILARITY, AFFINE, *MESHES, DEMONS)
# Elements along the longest side of the images that are compared, and of those that the processes read.
WORKING = {2: 512, 3: 112}
REDUCED = {2: 1024, 3: 192}
TIME_LIMIT = 3600.0
_AFFINE_ITERATIONS = 60
_DEMONS_ITERATIONS = 80
# More iterations of the B-splines lower the metric and part the landmarks (docs/validation.md).
_BSPLINE_ITERATIONS = 5
_ONE_THREAD = dict.fromkeys(
    ("ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "WARPGAUGE_THREADS"), "1"
)


@dataclass(frozen=True)
class RegistrationResult:
    """Outcome of one registration: ``path`` on success, ``problem`` (a sentence) otherwise."""

    name: str
    path: Path | None
    seconds: float
    problem: str | None = None


def run_standard(
    fixed: Path,
    moving: Path,
    folder: Path,
    *,
    names: Sequence[str] = NAMES,
    jobs: int | None = None,
    time_limit: float = TIME_LIMIT,
    finished: Callable[[RegistrationResult], None] | None = None,
) -> list[RegistrationResult]:
    """Register two images in several ways and return the results in the order of their names.

    The images are such as `write_reduced` writes. ``NAME.h5`` in the folder is a transform of ITK that maps fixed to
    moving points; those that others start from are always made. ``jobs`` registrations run at a time, one for each
    processor by default, and each is ended after ``time_limit`` seconds and reported as failed. ``finished`` is called
    with each result as soon as it is there.
    """
    require("SimpleITK", "registration")  # else every process would say that it is missing
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / f"{name}.h5").unlink(missing_ok=True)  # of an earlier run
    results: dict[str, RegistrationResult] = {}

    def done(result: RegistrationResult) -> None:
        results[result.name] = result
        if finished is not None and result.name in names:
            finished(result)

    running: set[subprocess.Popen[str]] = set()
    threads = ThreadPoolExecutor(jobs or thread_count())
    try:
        # The two that others start from are made one after the other, the rest side by side.
        for stage in ([SIMILARITY], [AFFINE], [name for name in names if name not in (SIMILARITY, AFFINE)]):
            submitted = [threads.submit(_apart, name, fixed, moving, folder, time_limit, running) for name in stage]
            for future in as_completed(submitted):
                done(future.result())
    finally:
        for process in list(running):  # after Ctrl-C
            process.kill()
        threads.shutdown(cancel_futures=True)
    return [results[name] for name in names]


def _apart(
    name: str, fixed: Path, moving: Path, folder: Path, time_limit: float, running: set[subprocess.Popen[str]]
) -> RegistrationResult:
    """Make one registration in a process of its own: a crash or a hang ends that one only."""
    command = [sys.executable, "-m", __name__, name, *(str(path.resolve()) for path in (fixed, moving, folder))]
    file = folder / f"{name}.h5"
    started = time.monotonic()
    process = subprocess.Popen(  # nosec B603  # the program itself, with paths as arguments
        command, env={**os.environ, **_ONE_THREAD}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    running.add(process)
    try:
        _, said = process.communicate(timeout=time_limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return RegistrationResult(name, None, time_limit, f"not finished within {time_limit:g} s, and ended")
    finally:
        running.discard(process)
    seconds = time.monotonic() - started
    if process.returncode == 0 and file.is_file():
        return RegistrationResult(name, file, seconds)
    lines = said.strip().splitlines()
    problem = lines[-1] if lines else f"its process ended with {process.returncode}"
    return RegistrationResult(name, None, seconds, problem)


def write_reduced(image: Image, path: Path) -> Path:
    """Write an image as `run_standard` takes it: grey values, reduced, in the frame that the user gave."""
    return write_map(*reduced_gray(image, REDUCED[image.grid.d]), path)


def reduced_gray(image: Image, longest: int) -> tuple[NDArray[np.float32], Grid]:
    """Return an image as grey values with at most so many elements along its longest side, and their grid."""
    grid = image.grid
    coarse = grid.coarsened(max(1.0, max(grid.size) / longest))
    level = fitting_level(image, float(coarse.spacing.min()))
    gray, _ = to_gray(image.read(level), grid.d)
    frame = image.level_grid(level)
    ratio = coarse.spacing / frame.spacing
    if np.allclose(ratio, 1):
        return gray.astype(np.float32), frame
    smooth = ndimage.gaussian_filter(gray.astype(np.float32), 0.5 * array_order(ratio))
    at = frame.array_coordinates(coarse.points())
    values = ndimage.map_coordinates(smooth, at, order=1, mode="nearest").reshape(coarse.shape)
    return values.astype(np.float32), coarse


# In the process of one registration


def register(name: str, fixed: Path, moving: Path, folder: Path) -> Path:
    """Make one registration of `NAMES` in this process; what it starts from lies in the folder."""
    sitk = require("SimpleITK", "registration")
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    first, second = (
        _edges(sitk, _reduced(sitk, sitk.ReadImage(str(path), sitk.sitkFloat32))) for path in (fixed, moving)
    )
    if name == SIMILARITY:
        stages = [_similarity(sitk, fixed, moving, first, second)]
    elif name == AFFINE:
        stages = [_affine(sitk, first, second, _before(sitk, folder, SIMILARITY))]
    else:
        affine = _before(sitk, folder, AFFINE)
        if name == DEMONS:
            stages = [affine, _demons(sitk, first, second, affine)]
        else:
            stages = [affine, _bspline(sitk, first, second, affine, MESHES[name])]
    path = folder / f"{name}.h5"
    aside = folder / f"{name}-unfinished.h5"
    sitk.WriteTransform(sitk.CompositeTransform(stages), str(aside))  # the last stage applies to points first
    aside.replace(path)
    return path


def _before(sitk: Any, folder: Path, name: str) -> Any:
    path = folder / f"{name}.h5"
    if not path.is_file():
        raise WarpgaugeError(f"{name}, from which it starts, is missing")
    stored = sitk.CompositeTransform(sitk.ReadTransform(str(path)))
    return sitk.AffineTransform(stored.GetNthTransform(0))


def _similarity(sitk: Any, fixed: Path, moving: Path, fixed_edges: Any, moving_edges: Any) -> Any:
    """Return the rough alignment about the middle of the image, or the identity where that is no worse."""
    d = fixed_edges.GetDimension()
    found = align(read_image(fixed), read_image(moving))
    middle = [(n - 1) / 2 for n in fixed_edges.GetSize()]
    centre = np.array(fixed_edges.TransformContinuousIndexToPhysicalPoint(middle))
    similarity = sitk.AffineTransform(d)
    similarity.SetCenter(centre.tolist())
    still = sitk.AffineTransform(similarity)
    similarity.SetMatrix(found.matrix.ravel().tolist())
    similarity.SetTranslation((found.map(centre[None])[0] - centre).tolist())
    alike = _likeness(sitk, fixed_edges, moving_edges, similarity) > _likeness(sitk, fixed_edges, moving_edges, still)
    return similarity if alike else still


def _affine(sitk: Any, fixed: Any, moving: Any, start: Any) -> Any:
    affine = sitk.AffineTransform(start)
    method = _method(sitk)
    method.SetOptimizerAsRegularStepGradientDescent(2 * fixed.GetSpacing()[0], 1e-3, _AFFINE_ITERATIONS)
    method.SetOptimizerScalesFromPhysicalShift()
    method.SetInitialTransform(affine, inPlace=True)
    method.Execute(fixed, moving)
    # Mutual information can end where the images barely overlap; then their edges fit worse than at the start.
    return affine if _likeness(sitk, fixed, moving, affine) >= _likeness(sitk, fixed, moving, start) else start


def _bspline(sitk: Any, fixed: Any, moving: Any, affine: Any, mesh: int) -> Any:
    spline = sitk.BSplineTransformInitializer(fixed, [mesh // 2] * fixed.GetDimension(), order=3)
    method = _method(sitk)
    method.SetMovingInitialTransform(affine)
    method.SetInitialTransformAsBSpline(spline, inPlace=True, scaleFactors=[1, 2])
    method.SetOptimizerAsLBFGS2(solutionAccuracy=1e-12, numberOfIterations=_BSPLINE_ITERATIONS)
    method.Execute(fixed, moving)
    return spline


def _demons(sitk: Any, fixed: Any, moving: Any, affine: Any) -> Any:
    moved = sitk.Resample(moving, fixed, affine, sitk.sitkLinear, 0.0, sitk.sitkFloat32)
    matched = sitk.HistogramMatching(moved, fixed, 256, 16)
    field: Any = None
    for shrink in (4, 2):
        small = [
            sitk.Shrink(
                sitk.SmoothingRecursiveGaussian(one, shrink / 2 * one.GetSpacing()[0]), [shrink] * one.GetDimension()
            )
            for one in (fixed, matched)
        ]
        demons = sitk.FastSymmetricForcesDemonsRegistrationFilter()
        demons.SetNumberOfIterations(_DEMONS_ITERATIONS)
        demons.SetStandardDeviations(2.0)
        first = [] if field is None else [sitk.Resample(field, small[0])]
        field = demons.Execute(*small, *first)
    # On the working grid, so that the field reaches as far as the image.
    full = sitk.Resample(field, fixed, sitk.Transform(), sitk.sitkLinear, 0.0, field.GetPixelID(), True)
    return sitk.DisplacementFieldTransform(sitk.Cast(full, sitk.sitkVectorFloat64))


def _method(sitk: Any) -> Any:
    """Return a registration by mutual information, from coarse to fine."""
    method = sitk.ImageRegistrationMethod()
    method.SetInterpolator(sitk.sitkLinear)
    method.SetMetricAsMattesMutualInformation(32)
    method.SetShrinkFactorsPerLevel([4, 2])
    method.SetSmoothingSigmasPerLevel([2, 1])
    method.SmoothingSigmasAreSpecifiedInPhysicalUnitsOff()
    return method


def _likeness(sitk: Any, fixed: Any, moving: Any, transform: Any) -> float:
    """Return the correlation of two images where they overlap, -1 where they do not."""
    moved = sitk.GetArrayFromImage(sitk.Resample(moving, fixed, transform, sitk.sitkLinear, -1.0))
    inside = moved >= 0
    if np.count_nonzero(inside) < moved.size / 10:
        return -1.0
    return float(np.corrcoef(moved[inside], sitk.GetArrayFromImage(fixed)[inside])[0, 1])


def _edges(sitk: Any, image: Any) -> Any:
    """Return the logarithm of the gradient magnitude of the distance from the background, in 255ths of the range."""
    values = sitk.GetArrayFromImage(image)
    border = np.concatenate([values.take([0, -1], axis=axis).ravel() for axis in range(values.ndim)])
    # As wide as in 8-bit images, whatever the unit of the grey values: the logarithm of edges depends on it.
    low, high = np.percentile(values, [0.1, 99.9])
    unit = 255 / (high - low) if high > low else 1.0
    view = sitk.GetImageFromArray((np.abs(values - np.median(border)) * unit).astype(np.float32))
    view.CopyInformation(image)
    return sitk.Log(sitk.GradientMagnitudeRecursiveGaussian(view, 1.5 * view.GetSpacing()[0]) + 1.0)


def _reduced(sitk: Any, image: Any) -> Any:
    """Return an image of the working size over the same extent."""
    size = np.array(image.GetSize())
    spacing = np.array(image.GetSpacing())
    extent = size * spacing
    wanted = np.maximum(1, np.round(extent / (extent.max() / WORKING[len(size)])))
    target = np.minimum(size, wanted).astype(int)
    if (target == size).all():
        return image
    wide = extent / target
    smooth = sitk.SmoothingRecursiveGaussian(image, (0.5 * np.maximum(wide, spacing)).tolist())
    resample = sitk.ResampleImageFilter()
    resample.SetSize(target.tolist())
    resample.SetOutputSpacing(wide.tolist())
    resample.SetOutputOrigin(image.TransformContinuousIndexToPhysicalPoint(((wide / spacing - 1) / 2).tolist()))
    resample.SetOutputDirection(image.GetDirection())
    resample.SetInterpolator(sitk.sitkLinear)
    return resample.Execute(smooth)


if __name__ == "__main__":
    register(sys.argv[1], *map(Path, sys.argv[2:5]))
