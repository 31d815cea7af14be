"""Registrations that work on histology and MR without tuning: start by centre and rotation, then coarse to fine.

The start is found by the distance of grey values from the background's: tissue is bright and the background dark in
every stain and modality. Everything after it compares edges (the logarithm of the gradient magnitude), which stains and
modalities share more than grey values: on two pairs of CIMA stains, B-splines by mutual information of edges ended at
13 and 14 px from the landmarks, of grey values at 21 and 18 px. All of it happens at a working size and in world units,
so a result holds for the full images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from warpgauge.candidates import to_gray
from warpgauge.compute import report_progress
from warpgauge.geometry import Floats, Grid, array_order
from warpgauge.io.files import require
from warpgauge.io.images import Image
from warpgauge.maps import write_map
from warpgauge.maps.warping import fitting_level
from warpgauge.registration.simpleitk import stop_when_metric_settles

# Folder beside those of the settings, for what they share, and the name of its first stage.
STAGES = "stages"
_START = "start"

Kind = Literal["rigid", "affine", "bspline", "demons"]
# Elements along the longest side: of the search for a start, of its refinement, and of everything after it.
_SEARCH = {2: 96, 3: 48}
_REFINE = {2: 384, 3: 80}
WORKING = {2: 512, 3: 112}
_ANGLES = 8
_KEPT = 3
_APART = 0.3  # radians between starts that are followed further
# Shares of the work where each of two resolutions begins, and where the last ends; of the start, where it is refined.
_WORK = (0.0, 0.1, 1.0)
_FOUND = 0.3
_SETTLING = 5  # iterations of a search that ends when the metric settles: real pairs took about as many
# Processor seconds per million elements of the working images, measured on a pair of CIMA stains and on two brains of
# 1 mm; of B-splines with 4 cells, and the power of the cells by which they grow. In 3D, that power is from the ratio of
# 4 to 8 and 14 cells in one earlier run.
_SECONDS = {
    2: {"start": 8.6, "affine": 1.2, "bspline": 5.1, "demons": 2.8},
    3: {"start": 2.1, "affine": 1.7, "bspline": 16.8, "demons": 2.5},
}
_GROWTH = {2: 0.6, 3: 1.9}
_LOADING = 0.5  # seconds to load a program


@dataclass(frozen=True)
class PipelineSetting:
    """One way to register with SimpleITK, from a start that is searched for.

    Parameters
    ----------
    name : str
        Name of the result.
    kind : {"rigid", "affine", "bspline", "demons"}
        Each starts from the result of those before it.
    metric : {"mattes", "correlation"}
        Of affine and B-spline: Mattes mutual information, or normalised correlation.
    mesh : int
        B-spline cells along each axis at the end; half as many at first.
    iterations : int
        Most iterations for each resolution.
    """

    name: str
    kind: Kind
    metric: Literal["mattes", "correlation"] = "mattes"
    mesh: int = 8
    iterations: int = 60

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of what it starts from, in order: settings share a stage of the same name."""
        return (_START,) if self.kind == "rigid" else (_START, f"affine-{self.metric}-{self.iterations}")

    def prepare(self, stage: str, fixed: Path, moving: Path, folder: Path) -> Path:
        """Make one stage and write it; those before it are read from the folder, or made."""
        sitk, images = _read(fixed, moving)
        path = _stage_file(folder, stage)
        sitk.WriteTransform(self._prepared(sitk, images, folder, stage), str(path))
        return path

    def run(self, fixed: Path, moving: Path, folder: Path) -> Path:
        """Register and write the transform, which maps fixed to moving points, as ITK's HDF5.

        Stages that `run_registrations` has prepared beside the folder are not made again.
        """
        sitk, images = _read(fixed, moving)
        stages = [self._prepared(sitk, images, folder.parent / STAGES, self.stages[-1])]
        if self.kind in ("bspline", "demons"):
            small = [_edges(sitk, view) for view in _views(sitk, images, WORKING)]
            refine = self._bspline if self.kind == "bspline" else self._demons
            stages.append(refine(sitk, small[0], small[1], stages[0]))
        path = folder / "transform.h5"
        sitk.WriteTransform(sitk.CompositeTransform(stages), str(path))  # the last stage applies to points first
        return path

    def _prepared(self, sitk: Any, images: Sequence[Any], folder: Path, stage: str) -> Any:
        """Read a stage, or make it where it is not in the folder."""
        path = _stage_file(folder, stage)
        if path.exists():
            stored, flat = sitk.ReadTransform(str(path)), images[0].GetDimension() == 2
            rigid = sitk.Euler2DTransform if flat else sitk.Euler3DTransform
            return (rigid if stage == _START else sitk.AffineTransform)(stored)
        if stage == _START:
            return find_start(sitk, images)
        small = [_edges(sitk, view) for view in _views(sitk, images, WORKING)]
        return self._affine(sitk, small[0], small[1], self._prepared(sitk, images, folder, _START))

    def seconds(self, size: Sequence[int], stage: str | None = None) -> float:
        """Return about how many seconds of one idle core a stage takes for an image of this size, or all after them."""
        d = len(size)
        millions = float(np.prod(np.asarray(size) / max(1.0, max(size) / WORKING[d]))) / 1e6
        if stage is not None:
            return _LOADING + _SECONDS[d]["start" if stage == _START else "affine"] * millions
        cells = (self.mesh / 4) ** _GROWTH[d] if self.kind == "bspline" else 1.0
        own = _SECONDS[d][self.kind] if self.kind in ("bspline", "demons") else 0.0
        return _LOADING + own * cells * millions

    def _method(self, sitk: Any, metric: str) -> Any:
        method = sitk.ImageRegistrationMethod()
        method.SetInterpolator(sitk.sitkLinear)
        if metric == "mattes":
            method.SetMetricAsMattesMutualInformation(32)
        else:
            method.SetMetricAsCorrelation()
        return method

    def _affine(self, sitk: Any, fixed: Any, moving: Any, start: Any) -> Any:
        affine = sitk.AffineTransform(fixed.GetDimension())
        affine.SetMatrix(start.GetMatrix())
        affine.SetTranslation(start.GetTranslation())
        affine.SetCenter(start.GetCenter())
        method = self._method(sitk, self.metric)
        method.SetShrinkFactorsPerLevel([4, 2])
        method.SetSmoothingSigmasPerLevel([2, 1])
        method.SmoothingSigmasAreSpecifiedInPhysicalUnitsOff()
        method.SetOptimizerAsRegularStepGradientDescent(2 * fixed.GetSpacing()[0], 1e-3, self.iterations)
        method.SetOptimizerScalesFromPhysicalShift()
        method.SetInitialTransform(affine, inPlace=True)
        _execute(sitk, method, fixed, moving, self.iterations, _WORK)
        # Mutual information can end where the images barely overlap; then their edges fit worse than at the start.
        if _likeness(sitk, fixed, moving, affine) < _likeness(sitk, fixed, moving, start):
            affine.SetMatrix(start.GetMatrix())
            affine.SetTranslation(start.GetTranslation())
        return affine

    def _bspline(self, sitk: Any, fixed: Any, moving: Any, affine: Any) -> Any:
        d = fixed.GetDimension()
        spline = sitk.BSplineTransformInitializer(fixed, [max(2, self.mesh // 2)] * d, order=3)
        method = self._method(sitk, self.metric)
        method.SetShrinkFactorsPerLevel([4, 2])
        method.SetSmoothingSigmasPerLevel([2, 1])
        method.SmoothingSigmasAreSpecifiedInPhysicalUnitsOff()
        method.SetMovingInitialTransform(affine)
        method.SetInitialTransformAsBSpline(spline, inPlace=True, scaleFactors=[1, 2])
        stop_when_metric_settles(method, self.iterations)
        _execute(sitk, method, fixed, moving, None, _WORK)
        return spline

    def _demons(self, sitk: Any, fixed: Any, moving: Any, affine: Any) -> Any:
        moved = sitk.Resample(moving, fixed, affine, sitk.sitkLinear, 0.0, sitk.sitkFloat32)
        matched = sitk.HistogramMatching(moved, fixed, 256, 16)
        field: Any = None
        for level, shrink in enumerate((4, 2)):
            small = [
                sitk.Shrink(sitk.SmoothingRecursiveGaussian(one, shrink / 2 * one.GetSpacing()[0]),
                            [shrink] * one.GetDimension())
                for one in (fixed, matched)
            ]  # fmt: skip
            demons = sitk.FastSymmetricForcesDemonsRegistrationFilter()
            demons.SetNumberOfIterations(self.iterations)
            demons.SetStandardDeviations(2.0)
            first = [] if field is None else [sitk.Resample(field, small[0])]
            work = partial(tuple, _WORK[level : level + 2])
            with _reporting(sitk, demons, partial(_elapsed, demons, self.iterations), work):
                field = demons.Execute(*small, *first)
        # On the working grid, so that the field reaches as far as the image.
        full = sitk.Resample(field, fixed, sitk.Transform(), sitk.sitkLinear, 0.0, field.GetPixelID(), True)
        return sitk.DisplacementFieldTransform(sitk.Cast(full, sitk.sitkVectorFloat64))


def find_start(sitk: Any, images: Sequence[Any]) -> Any:
    """Return the rigid transform from which a pair is registered.

    Centres of mass are laid over each other. In 2D, where slides lie in any direction, eight rotations are tried, and
    the best that differ are refined at a higher resolution; of these the one is taken under which the edges of the
    images are most alike, since outlines alone often fit upside down as well. In 3D no rotation is tried.
    """
    d = images[0].GetDimension()
    fixed, moving = _views(sitk, images, _SEARCH)
    centres = [_centre_of_mass(sitk, view) for view in (fixed, moving)]
    found = []
    turns = _ANGLES if d == 2 else 1
    for turn in range(turns):
        rigid = _rigid(sitk, d, centres[0], centres[1] - centres[0])
        if d == 2:
            rigid.SetAngle(2 * np.pi * turn / _ANGLES)
        part = _FOUND * turn / turns, _FOUND * (turn + 1) / turns
        found.append((_settle(sitk, fixed, moving, rigid, 4.0, 40, part), rigid))
    fixed, moving = _views(sitk, images, _REFINE)
    edges = [_edges(sitk, view) for view in (fixed, moving)]
    still = _rigid(sitk, d, centres[0], np.zeros(d))  # doing nothing: a start is never worse than that
    best = [(_likeness(sitk, edges[0], edges[1], still), still)]
    kept = _differing(found)
    for i, rigid in enumerate(kept):
        part = _FOUND + (1 - _FOUND) * i / len(kept), _FOUND + (1 - _FOUND) * (i + 1) / len(kept)
        _settle(sitk, fixed, moving, rigid, 2.0, 60, part)
        best.append((_likeness(sitk, edges[0], edges[1], rigid), rigid))
    return max(best, key=lambda one: one[0])[1]


def _read(fixed: Path, moving: Path) -> tuple[Any, list[Any]]:
    """Return SimpleITK, kept to one thread, and both images."""
    sitk = require("SimpleITK", "registration")
    sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
    return sitk, [sitk.ReadImage(str(path), sitk.sitkFloat32) for path in (fixed, moving)]


def _stage_file(folder: Path, stage: str) -> Path:
    return folder / f"{stage}.h5"


def _rigid(sitk: Any, d: int, centre: Floats, translation: Floats) -> Any:
    rigid = sitk.Euler2DTransform() if d == 2 else sitk.Euler3DTransform()
    rigid.SetCenter(centre.tolist())
    rigid.SetTranslation(translation.tolist())
    return rigid


def _edges(sitk: Any, view: Any) -> Any:
    """Return the logarithm of the gradient magnitude, which stains and modalities share more than grey values."""
    return sitk.Log(sitk.GradientMagnitudeRecursiveGaussian(view, 1.5 * view.GetSpacing()[0]) + 1.0)


def _likeness(sitk: Any, fixed: Any, moving: Any, rigid: Any) -> float:
    """Correlation of two images where they overlap, -1 where they do not."""
    moved = sitk.GetArrayFromImage(sitk.Resample(moving, fixed, rigid, sitk.sitkLinear, -1.0))
    inside = moved >= 0
    if np.count_nonzero(inside) < moved.size / 10:
        return -1.0
    return float(np.corrcoef(moved[inside], sitk.GetArrayFromImage(fixed)[inside])[0, 1])


def _differing(found: list[tuple[float, Any]]) -> list[Any]:
    kept: list[Any] = []
    for _, rigid in sorted(found, key=lambda one: one[0]):
        angle = rigid.GetAngle() if hasattr(rigid, "GetAngle") else 0.0
        others = [other.GetAngle() if hasattr(other, "GetAngle") else 0.0 for other in kept]
        if all(abs(np.angle(np.exp(1j * (angle - other)))) > _APART for other in others):
            kept.append(rigid)
    return kept[:_KEPT]


def _elapsed(demons: Any, iterations: int) -> float:
    return float(demons.GetElapsedIterations() / iterations)


def _execute(sitk: Any, method: Any, fixed: Any, moving: Any, most: int | None, bounds: Sequence[float]) -> None:
    """Register and report progress: ``bounds`` are the shares where each resolution begins and where the last ends.

    Without the ``most`` iterations, how many come is unknown: half of them are taken as done after `_SETTLING`.
    """

    def done() -> float:
        iteration = method.GetOptimizerIteration()
        return float(iteration / (iteration + _SETTLING if most is None else most))

    with _reporting(sitk, method, done, lambda: bounds[method.GetCurrentLevel() :]):
        method.Execute(fixed, moving)


@contextmanager
def _reporting(
    sitk: Any, process: Any, done: Callable[[], float], part: Callable[[], Sequence[float]]
) -> Iterator[None]:
    """Report the share of the work that is done, from the first bound to the second, by a hundredth or more."""
    told = 0.0

    def tell() -> None:
        nonlocal told
        low, high, *_ = part()
        share = low + (high - low) * min(1.0, done())
        if share >= told + 0.01:
            told = share
            report_progress(share)

    process.AddCommand(sitk.sitkIterationEvent, tell)
    try:
        yield
    finally:
        process.RemoveAllCommands()  # or neither would ever be released: each holds the other


def _settle(
    sitk: Any, fixed: Any, moving: Any, rigid: Any, step: float, iterations: int, part: tuple[float, float]
) -> float:
    """Optimise a rigid transform in place; return the metric at the end, infinity where the images do not overlap."""
    method = sitk.ImageRegistrationMethod()
    method.SetMetricAsCorrelation()
    method.SetInterpolator(sitk.sitkLinear)
    method.SetOptimizerAsRegularStepGradientDescent(step * fixed.GetSpacing()[0], 1e-2, iterations)
    method.SetOptimizerScalesFromPhysicalShift()
    method.SetInitialTransform(rigid, inPlace=True)
    try:
        _execute(sitk, method, fixed, moving, iterations, part)
    except RuntimeError:
        return float("inf")
    return float(method.GetMetricValue())


def _views(sitk: Any, images: Sequence[Any], longest: dict[int, int]) -> list[Any]:
    return [_distance_from_background(sitk, _reduced(sitk, one, longest[one.GetDimension()])) for one in images]


def _reduced(sitk: Any, image: Any, longest: int) -> Any:
    """Return an image with at most so many elements along each axis, over the same extent."""
    size, spacing = np.array(image.GetSize()), np.array(image.GetSpacing())
    extent = size * spacing
    target = np.minimum(size, np.maximum(1, np.round(extent / (extent.max() / longest)))).astype(int)
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


def _distance_from_background(sitk: Any, image: Any) -> Any:
    """Return how far grey values are from the background's, in 255ths of the image's range."""
    values = sitk.GetArrayFromImage(image)
    border = np.concatenate([values.take([0, -1], axis=axis).ravel() for axis in range(values.ndim)])
    # As wide as in 8-bit images, whatever the unit of the grey values: the logarithm of edges depends on it.
    low, high = np.percentile(values, [0.1, 99.9])
    unit = 255 / (high - low) if high > low else 1.0
    view = sitk.GetImageFromArray((np.abs(values - np.median(border)) * unit).astype(np.float32))
    view.CopyInformation(image)
    return view


def _centre_of_mass(sitk: Any, view: Any) -> Floats:
    weight = sitk.GetArrayFromImage(view).astype(np.float64) + 1e-12
    index = [float(np.average(np.arange(n), weights=weight.sum(tuple(set(range(weight.ndim)) - {axis}))))
             for axis, n in enumerate(weight.shape)]  # fmt: skip
    return np.array(view.TransformContinuousIndexToPhysicalPoint(index[::-1]))


DEFAULT_SETTINGS: tuple[PipelineSetting, ...] = (
    PipelineSetting("rigid", "rigid"),
    PipelineSetting("affine", "affine"),
    PipelineSetting("bspline-coarse", "bspline", mesh=4),
    PipelineSetting("bspline", "bspline", mesh=8),
    PipelineSetting("bspline-fine", "bspline", mesh=14),
    PipelineSetting("demons", "demons", iterations=80),
)


# Elements along the longest side that are enough for registrations which work on reduced images.
REDUCED = {2: 1024, 3: 192}


def write_input(image: Image, path: Path) -> Path:
    """Write an image as NRRD, colour turned to luma, with the spacing that the user gave where the source has none."""
    gray, _ = to_gray(image.read(), image.grid.d)
    return write_map(gray.astype(np.float32), image.grid, path)


def reduced_gray(image: Image, longest: int | None = None) -> tuple[NDArray[np.float32], Grid]:
    """Return an image as grey values with at most so many elements along its longest side, and their grid."""
    d, grid = image.grid.d, image.grid
    coarse = grid.coarsened(max(1.0, max(grid.size) / (longest or REDUCED[d])))
    level = fitting_level(image, float(coarse.spacing.min()))
    gray, _ = to_gray(image.read(level), d)
    frame = image.level_grid(level)
    ratio = coarse.spacing / frame.spacing
    if np.allclose(ratio, 1):
        return gray.astype(np.float32), frame
    smooth = ndimage.gaussian_filter(gray.astype(np.float32), 0.5 * array_order(ratio))
    at = frame.array_coordinates(coarse.points())
    values = ndimage.map_coordinates(smooth, at, order=1, mode="nearest").reshape(coarse.shape)
    return values.astype(np.float32), coarse
