"""Registrations of the studies: stated settings of SimpleITK, and the paper's grid of elastix settings."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from warpgauge import jobs
from warpgauge.candidates import to_gray
from warpgauge.errors import WarpgaugeError
from warpgauge.io import replace_text
from warpgauge.io.images import Image
from warpgauge.maps import write_map
from warpgauge.registration import RegistrationResult


def run_registrations(
    fixed: Path, moving: Path, settings: Sequence[RegistrationSetting], folder: Path, *, workers: int = 2
) -> list[RegistrationResult]:
    """Register two images in every setting, in other processes, and return the results in the order of the settings."""
    by_name = {setting.name: setting for setting in settings}
    results = {}
    for done in jobs.run(_register, by_name, (fixed.resolve(), moving.resolve(), folder.resolve()), workers=workers):
        problem = None if done.problem is None else str(done.problem)
        results[done.name] = RegistrationResult(done.name, done.value, 0.0, problem)
    return [results[name] for name in by_name]


def _register(shared: tuple[Path, Path, Path], setting: RegistrationSetting) -> Path:
    fixed, moving, folder = shared
    place = folder / setting.name
    place.mkdir(parents=True, exist_ok=True)
    try:
        return setting.run(fixed, moving, place)
    except Exception as error:
        replace_text(place / "error.log", traceback.format_exc())
        raise WarpgaugeError(f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}") from None


def write_input(image: Image, path: Path) -> Path:
    """Write an image as NRRD, colour turned to luma, with the spacing that the user gave where the source has none."""
    gray, _ = to_gray(image.read(), image.grid.d)
    return write_map(gray.astype(np.float32), image.grid, path)


@dataclass(frozen=True)
class SimpleItkSetting:
    """One way to register with SimpleITK; B-splines and demons start from the affine result.

    ``mesh`` is the number of B-spline cells along each axis, ``iterations`` are those for each resolution, and
    ``share`` is that of the pixels that the metric samples, by ``seed``.
    """

    name: str
    kind: Literal["affine", "bspline", "demons"]
    metric: Literal["mattes", "correlation"] = "mattes"
    mesh: int = 6
    iterations: int = 50
    share: float = 0.15
    seed: int = 1

    def run(self, fixed: Path, moving: Path, folder: Path) -> Path:
        """Register and write the transform, which maps fixed to moving points, as ITK's HDF5."""
        import SimpleITK as sitk  # noqa: N813  # its usual name

        sitk.ProcessObject.SetGlobalDefaultNumberOfThreads(1)
        first, second = (sitk.ReadImage(str(path), sitk.sitkFloat32) for path in (fixed, moving))
        affine = self._affine(sitk, first, second)
        composite = sitk.CompositeTransform([affine])
        if self.kind == "bspline":
            composite.AddTransform(self._bspline(sitk, first, second, affine))
        elif self.kind == "demons":
            composite.AddTransform(self._demons(sitk, first, second, affine))
        # The last transform that was added applies to points first.
        path = folder / "transform.h5"
        sitk.WriteTransform(composite, str(path))
        return path

    def _method(self, sitk: Any) -> Any:
        method = sitk.ImageRegistrationMethod()
        if self.metric == "mattes":
            method.SetMetricAsMattesMutualInformation(32)
        else:
            method.SetMetricAsCorrelation()
        if self.share < 1:
            method.SetMetricSamplingStrategy(method.RANDOM)
            method.SetMetricSamplingPercentage(self.share, self.seed)
        method.SetInterpolator(sitk.sitkLinear)
        method.SetShrinkFactorsPerLevel([4, 2, 1])
        method.SetSmoothingSigmasPerLevel([2, 1, 0])
        method.SmoothingSigmasAreSpecifiedInPhysicalUnitsOff()
        return method

    def _affine(self, sitk: Any, fixed: Any, moving: Any) -> Any:
        centred = sitk.CenteredTransformInitializer(
            fixed,
            moving,
            sitk.AffineTransform(fixed.GetDimension()),
            sitk.CenteredTransformInitializerFilter.GEOMETRY,
        )
        affine = sitk.AffineTransform(centred)
        method = self._method(sitk)
        method.SetOptimizerAsRegularStepGradientDescent(1.0, 1e-4, 100, relaxationFactor=0.6)
        method.SetOptimizerScalesFromPhysicalShift()
        method.SetInitialTransform(affine, inPlace=True)
        method.Execute(fixed, moving)
        return affine

    def _bspline(self, sitk: Any, fixed: Any, moving: Any, affine: Any) -> Any:
        spline = sitk.BSplineTransformInitializer(fixed, [self.mesh] * fixed.GetDimension(), order=3)
        method = self._method(sitk)
        method.SetMovingInitialTransform(affine)
        method.SetInitialTransform(spline, inPlace=True)
        method.SetOptimizerAsLBFGSB(numberOfIterations=self.iterations, gradientConvergenceTolerance=1e-6)
        method.Execute(fixed, moving)
        return spline

    def _demons(self, sitk: Any, fixed: Any, moving: Any, affine: Any) -> Any:
        moved = sitk.Resample(moving, fixed, affine, sitk.sitkLinear, 0.0, sitk.sitkFloat32)
        matched = sitk.HistogramMatching(moved, fixed, 256, 16)
        field = None
        for shrink in (4, 2, 1):
            small = [sitk.Shrink(sitk.SmoothingRecursiveGaussian(one, shrink / 2), [shrink] * one.GetDimension())
                     if shrink > 1 else one for one in (fixed, matched)]  # fmt: skip
            filter_ = sitk.FastSymmetricForcesDemonsRegistrationFilter()
            filter_.SetNumberOfIterations(self.iterations)
            filter_.SetStandardDeviations(2.0)
            if field is None:
                field = filter_.Execute(*small)
            else:
                field = filter_.Execute(*small, sitk.Resample(field, small[0]))
        return sitk.DisplacementFieldTransform(sitk.Cast(field, sitk.sitkVectorFloat64))


ElastixMetric = Literal["MI", "NMI", "NC"]

_METRICS: dict[str, str] = {
    "MI": "AdvancedMattesMutualInformation",
    "NMI": "NormalizedMutualInformation",
    "NC": "AdvancedNormalizedCorrelation",
}


@dataclass(frozen=True)
class ElastixSetting:
    """One setting of the paper's grid; ``resolutions`` are levels of the image pyramid, with ``iterations`` in each."""

    metric: ElastixMetric
    iterations: int
    resolutions: int

    @property
    def name(self) -> str:
        """Name of the result."""
        return f"elastix-{self.metric}-{self.iterations}it-{self.resolutions}res"

    def run(self, fixed: Path, moving: Path, folder: Path) -> Path:
        """Register and return the last TransformParameters file, which names the affine one before it."""
        import itk

        images = [itk.imread(str(path), itk.F) for path in (fixed, moving)]
        parameters = itk.ParameterObject.New()
        size = [n * s for n, s in zip(itk.size(images[0]), itk.spacing(images[0]), strict=True)]
        for kind in ("affine", "bspline"):
            # Only this map's own entries: the default B-spline map has a second metric, which can crash the process.
            entries = parameters.GetDefaultParameterMap(kind, self.resolutions)
            for key in [key for key in entries if key.startswith(("Metric", "GridSpacingSchedule"))]:
                del entries[key]
            entries["Registration"] = ("MultiResolutionRegistration",)
            entries["Metric"] = (_METRICS[self.metric],)
            entries["MaximumNumberOfIterations"] = (str(self.iterations),)
            entries["NumberOfSpatialSamples"] = ("2048",)
            entries["NewSamplesEveryIteration"] = ("true",)
            entries["ImageSampler"] = ("RandomCoordinate",)
            entries["RandomSeed"] = ("1",)
            entries["WriteResultImage"] = ("false",)
            entries["AutomaticTransformInitialization"] = ("true" if kind == "affine" else "false",)
            if kind == "bspline":
                entries["FinalGridSpacingInPhysicalUnits"] = (f"{max(size) / 16:g}",)
            parameters.AddParameterMap(entries)
        itk.elastix_registration_method(
            images[0],
            images[1],
            parameter_object=parameters,
            output_directory=str(folder),
            log_to_console=False,
            log_to_file=True,
            number_of_threads=1,
        )
        last = folder / "TransformParameters.1.txt"
        if not last.is_file():
            raise WarpgaugeError("elastix ended without writing its transform; see elastix.log in the result's folder.")
        return last


RegistrationSetting = SimpleItkSetting | ElastixSetting  # picklable, so that it can cross to another process


def paper_grid(*, quick: bool = False) -> list[ElastixSetting]:
    """Return the paper's 30 settings, or a subset that runs in minutes."""
    metrics: tuple[ElastixMetric, ...] = ("MI", "NMI", "NC")
    iterations, resolutions = ([100], [3, 4]) if quick else ([500, 1000], [4, 5, 6, 7, 8])
    return [ElastixSetting(m, i, r) for m, i, r in itertools.product(metrics, iterations, resolutions)]
