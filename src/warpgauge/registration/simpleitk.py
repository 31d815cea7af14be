"""Registrations by SimpleITK: affine, B-spline and demons, which are widely available."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from warpgauge.io.files import require

Metric = Literal["mattes", "correlation", "squares"]


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
        For each of the three resolutions.
    share : float
        Share of the pixels that the metric samples.
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

    def _method(self, sitk: Any, share: float) -> Any:
        method = sitk.ImageRegistrationMethod()
        if self.metric == "mattes":
            method.SetMetricAsMattesMutualInformation(32)
        elif self.metric == "correlation":
            method.SetMetricAsCorrelation()
        else:
            method.SetMetricAsMeanSquares()
        method.SetMetricSamplingStrategy(method.RANDOM)
        method.SetMetricSamplingPercentage(share, self.seed)
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
        method = self._method(sitk, self.share)
        method.SetOptimizerAsRegularStepGradientDescent(1.0, 1e-4, 100, relaxationFactor=0.6)
        method.SetOptimizerScalesFromPhysicalShift()
        method.SetInitialTransform(affine, inPlace=True)
        method.Execute(fixed, moving)
        return affine

    def _bspline(self, sitk: Any, fixed: Any, moving: Any, affine: Any) -> Any:
        spline = sitk.BSplineTransformInitializer(fixed, [self.mesh] * fixed.GetDimension(), order=3)
        method = self._method(sitk, self.share)
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


# Fewer samples and iterations than the defaults, for less than half of the time. On a pair of another seed the errors
# of the B-splines were 5.5 to 8.5 px, against 5.8 to 9.0 px by the defaults.
_QUICK: dict[str, Any] = {"share": 0.1, "iterations": 25}

DEMO_SETTINGS: tuple[SimpleItkSetting, ...] = (
    SimpleItkSetting("affine", "affine", **_QUICK),
    SimpleItkSetting("bspline-mattes-coarse", "bspline", "mattes", mesh=4, **_QUICK),
    SimpleItkSetting("bspline-mattes-fine", "bspline", "mattes", mesh=10, **_QUICK),
    SimpleItkSetting("bspline-correlation-coarse", "bspline", "correlation", mesh=4, **_QUICK),
    SimpleItkSetting("bspline-correlation-fine", "bspline", "correlation", mesh=10, **_QUICK),
    SimpleItkSetting("demons", "demons", share=0.1, iterations=50),
)
