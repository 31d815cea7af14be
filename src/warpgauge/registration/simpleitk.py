"""Registrations by SimpleITK with stated settings: affine, B-spline and demons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from warpgauge.io.files import require

Metric = Literal["mattes", "correlation", "squares"]


def stop_when_metric_settles(method: Any, iterations: int) -> None:
    """Make LBFGS2 the optimiser of a SimpleITK registration; the search ends after about five iterations.

    Its rule compares the change of the metric, divided by the metric, with the tolerance: a metric below zero, as
    mutual information and correlation have here, always fulfils it. Longer searches were worse on pairs of stains (see
    the documentation). Gradients in world units are tiny for large images, so that they say little about the end.
    """
    method.SetOptimizerAsLBFGS2(
        solutionAccuracy=1e-12,
        numberOfIterations=iterations,
        deltaConvergenceDistance=5,
        deltaConvergenceTolerance=1e-4,
    )


@dataclass(frozen=True)
class SimpleItkSetting:
    """One way to register with SimpleITK.

    Parameters
    ----------
    name : str
        Name of the result.
    kind : {"affine", "bspline", "demons"}
        The last two start from the affine result.
    metric : {"mattes", "correlation", "squares"}
        Mattes mutual information, normalised correlation, mean squares; demons has its own.
    mesh : int
        B-spline cells along each axis.
    iterations : int
        For each resolution.
    share : float
        Share of the pixels that the metric samples.
    shrink : tuple of int
        How many times coarser the images are at each resolution of the B-spline.
    refine : tuple of int
        How many times finer the mesh is at each resolution than at the first; the last has ``mesh`` cells.
    seed : int
        Of that sampling.
    """

    name: str
    kind: Literal["affine", "bspline", "demons"]
    metric: Metric = "mattes"
    mesh: int = 6
    iterations: int = 50
    share: float = 0.15
    seed: int = 1
    shrink: tuple[int, ...] = (4, 2, 1)
    refine: tuple[int, ...] = (1, 1, 1)

    def run(self, fixed: Path, moving: Path, folder: Path) -> Path:
        """Register and write the transform, which maps fixed to moving points, as ITK's HDF5."""
        sitk = require("SimpleITK", "registration")
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

    def _method(self, sitk: Any, shrink: tuple[int, ...]) -> Any:
        method = sitk.ImageRegistrationMethod()
        if self.metric == "mattes":
            method.SetMetricAsMattesMutualInformation(32)
        elif self.metric == "correlation":
            method.SetMetricAsCorrelation()
        else:
            method.SetMetricAsMeanSquares()
        if self.share < 1:
            method.SetMetricSamplingStrategy(method.RANDOM)
            method.SetMetricSamplingPercentage(self.share, self.seed)
        method.SetInterpolator(sitk.sitkLinear)
        method.SetShrinkFactorsPerLevel(shrink)
        method.SetSmoothingSigmasPerLevel([one // 2 for one in shrink])
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
        method = self._method(sitk, (4, 2, 1))
        method.SetOptimizerAsRegularStepGradientDescent(1.0, 1e-4, 100, relaxationFactor=0.6)
        method.SetOptimizerScalesFromPhysicalShift()
        method.SetInitialTransform(affine, inPlace=True)
        method.Execute(fixed, moving)
        return affine

    def _bspline(self, sitk: Any, fixed: Any, moving: Any, affine: Any) -> Any:
        cells = self.mesh // max(self.refine)
        spline = sitk.BSplineTransformInitializer(fixed, [cells] * fixed.GetDimension(), order=3)
        method = self._method(sitk, self.shrink)
        method.SetMovingInitialTransform(affine)
        if max(self.refine) == 1:
            method.SetInitialTransform(spline, inPlace=True)
            method.SetOptimizerAsLBFGSB(numberOfIterations=self.iterations, gradientConvergenceTolerance=1e-6)
        else:  # LBFGSB cannot change the number of parameters
            method.SetInitialTransformAsBSpline(spline, inPlace=True, scaleFactors=self.refine)
            stop_when_metric_settles(method, self.iterations)
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


# All pixels of reduced images and a mesh that is refined on the way: better and quicker than a tenth of the pixels of
# the full images with the final mesh at once. Chosen by true errors and time on the pairs of the seeds 2 and 3 alone.
_REDUCED: dict[str, Any] = {"share": 1.0, "iterations": 40, "shrink": (8, 4), "refine": (1, 2)}

DEMO_SETTINGS: tuple[SimpleItkSetting, ...] = (
    SimpleItkSetting("affine", "affine", share=0.1),
    SimpleItkSetting("bspline-coarse", "bspline", mesh=4, **_REDUCED),
    SimpleItkSetting("bspline-medium", "bspline", mesh=6, **_REDUCED),
    SimpleItkSetting("bspline-fine", "bspline", mesh=8, **{**_REDUCED, "shrink": (8, 4, 2), "refine": (1, 2, 2)}),
    SimpleItkSetting("bspline-correlation", "bspline", "correlation", mesh=6, **_REDUCED),
    SimpleItkSetting("demons", "demons", share=0.1, iterations=50),
)
