"""The paper's grid of elastix settings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from warpgauge.errors import WarpgaugeError
from warpgauge.io.files import require

ElastixMetric = Literal["MI", "NMI", "NC", "MSD"]

_METRICS: dict[str, str] = {
    "MI": "AdvancedMattesMutualInformation",
    "NMI": "NormalizedMutualInformation",
    "NC": "AdvancedNormalizedCorrelation",
    "MSD": "AdvancedMeanSquares",
}


@dataclass(frozen=True)
class ElastixSetting:
    """One setting of the paper's grid.

    Parameters
    ----------
    metric : {"MI", "NMI", "NC", "MSD"}
        Mattes mutual information, normalised mutual information, normalised correlation, mean squared difference.
    iterations : int
        In each resolution.
    resolutions : int
        Levels of the image pyramid.
    spacing : float, optional
        Final distance of the B-spline's control points in world units; a sixteenth of the image by default.
    """

    metric: ElastixMetric
    iterations: int
    resolutions: int
    spacing: float | None = None

    @property
    def name(self) -> str:
        """Name of the result."""
        return f"elastix-{self.metric}-{self.iterations}it-{self.resolutions}res"

    def run(self, fixed: Path, moving: Path, folder: Path) -> Path:
        """Register and return the last TransformParameters file, which names the affine one before it."""
        itk = require("itk", "elastix")
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
                spacing = max(size) / 16 if self.spacing is None else self.spacing
                entries["FinalGridSpacingInPhysicalUnits"] = (f"{spacing:g}",)
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


def paper_grid(*, one_modality: bool = False, quick: bool = False) -> list[ElastixSetting]:
    """Return the paper's 30 settings, 40 with mean squares for one modality, or a subset that runs in minutes."""
    metrics: list[ElastixMetric] = ["MI", "NMI", "NC"]
    if one_modality:
        metrics.append("MSD")
    iterations, resolutions = ([100], [3, 4]) if quick else ([500, 1000], [4, 5, 6, 7, 8])
    return [ElastixSetting(m, i, r) for m, i, r in itertools.product(metrics, iterations, resolutions)]
