"""Pairs with several transforms to compare, simulated answers of an annotator, and the true errors.

Registering takes minutes per pair, so the results are kept in the folder that the environment variable
``WARPGAUGE_REGISTRATIONS`` names, where there is one, and are computed again otherwise.
"""

from __future__ import annotations

import csv
import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import warpgauge as wg
from paper.curves import rng_for
from paper.datasets import (
    Floats,
    cima_stains,
    copdgene,
    elastix_lung,
    elastix_lung_registrations,
    looked_up,
)
from warpgauge.demo import make_pair
from warpgauge.errors import WarpgaugeError
from warpgauge.registration import (
    ElastixSetting,
    RegistrationSetting,
    SimpleItkSetting,
    paper_grid,
    run_registrations,
    write_input,
)
from warpgauge.simulate import EllipseAnnotator, ExpertPanel

POINTS, TARGETS, CANDIDATES = 4000, 800, 1000
KEPT_IN = "WARPGAUGE_REGISTRATIONS"
# Four settings of elastix; with those of SimpleITK eight registrations a simulated pair.
_ELASTIX = (
    ElastixSetting("MI", 100, 3),
    ElastixSetting("MI", 250, 4),
    ElastixSetting("NMI", 100, 3),
    ElastixSetting("NC", 100, 3),
)
SETTINGS: dict[int, tuple[RegistrationSetting, ...]] = {
    2: (
        SimpleItkSetting("affine", "affine", share=0.06, iterations=25),
        SimpleItkSetting("bspline-mattes-coarse", "bspline", "mattes", mesh=4, share=0.06, iterations=25),
        SimpleItkSetting("bspline-mattes-fine", "bspline", "mattes", mesh=10, share=0.06, iterations=25),
        SimpleItkSetting("demons", "demons", share=0.06, iterations=50),
        *_ELASTIX,
    ),
    3: (
        SimpleItkSetting("affine", "affine", share=0.02),
        SimpleItkSetting("bspline-mattes-coarse", "bspline", "mattes", mesh=4, share=0.03, iterations=12),
        SimpleItkSetting("bspline-mattes-fine", "bspline", "mattes", mesh=8, share=0.03, iterations=12),
        SimpleItkSetting("bspline-correlation-coarse", "bspline", "correlation", mesh=4, share=0.03, iterations=12),
        *_ELASTIX,
    ),
}
# Size (SD of the control velocities) and grain (distance of the control points) of simulated deformations: px, mm.
_DEFORMATIONS = {2: ((6.0, 16.0), (60.0, 130.0)), 3: ((3.0, 8.0), (30.0, 50.0))}
_STEP_3D = 3
# Standard deviation of a placement: 1 px, and about a third of a voxel of 3 mm.
_PLACED = {2: 1.0, 3: 1.05}
_BORDER = 8


@dataclass(frozen=True, eq=False)
class RegistrationSet:
    """Transforms, what can be annotated, and where they are compared.

    Attributes
    ----------
    names : list of str
    answers : Annotations
        What the annotator would say at every place that can be asked.
    at_answers : (K, m, d) array
        The transforms there.
    targets : (N, d) array
    mapped : (K, N, d) array
        The transforms there.
    truth : (N, d) array
        True matches of the targets, or what stands for them.
    pixel : float
    extent : (d,) array
        Sides of the image, world units.
    units : str
    """

    names: list[str]
    answers: wg.Annotations
    at_answers: Floats
    targets: Floats
    mapped: Floats
    truth: Floats
    pixel: float
    extent: Floats
    units: str

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.targets.shape[1])

    @property
    def transforms(self) -> dict[str, Any]:
        """The transforms as functions, known at the answers and the targets."""
        places = np.concatenate([self.answers.fixed_points, self.targets])
        joined = np.concatenate([self.at_answers, self.mapped], axis=1)
        return {name: looked_up(places, values) for name, values in zip(self.names, joined, strict=True)}

    def true_scores(self, p: float) -> Floats:
        """Return the true score of every transform."""
        return np.array([wg.displacement_norm(one - self.truth, p) for one in self.mapped])


def _kept(name: str, about: str, make: Any) -> dict[str, Any]:
    """Return arrays made before, or make and keep them."""
    place = os.environ.get(KEPT_IN)
    if not place:
        return dict(make())
    file = Path(place) / f"{name}-{hashlib.sha256(about.encode()).hexdigest()[:12]}.npz"
    if not file.is_file():
        found = make()
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".npz", delete=False) as aside:
            np.savez(aside, **found)
        Path(aside.name).replace(file)
    with np.load(file) as stored:
        return {key: stored[key] for key in stored.files}


def _registered(
    fixed: Path, moving: Path, settings: Sequence[RegistrationSetting], folder: Path, points: Floats
) -> dict[str, Any]:
    """Register in every setting and map points; what failed is left out."""
    results = run_registrations(fixed, moving, settings, folder, time_limit=1800)
    ended = [one for one in results if one.path is not None]
    if len(ended) < 2:
        raise WarpgaugeError(f"Fewer than two registrations finished: {results[0].problem}")
    mapped = np.stack([wg.read_transform(one.path).map(points) for one in ended if one.path is not None])
    return {"points": points, "mapped": mapped, "names": np.array([one.name for one in ended])}


def _simulated_arrays(d: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, d])
    amplitude, spacing = (float(rng.uniform(*limits)) for limits in _DEFORMATIONS[d])
    with tempfile.TemporaryDirectory() as place:
        pair = make_pair(d, Path(place), seed, amplitude=amplitude, spacing=spacing, step=_STEP_3D)
        points = pair.grid.index_to_world(_places(pair.grid, pair.mask, np.random.default_rng([seed, d, 7])))
        found = _registered(pair.fixed, pair.moving, SETTINGS[d], Path(place) / "registered", points)
        truth = pair.truth.map(points)
        kept = np.isfinite(truth).all(axis=1) & np.isfinite(found["mapped"]).all(axis=(0, 2))
        return {
            "points": points[kept],
            "truth": truth[kept],
            "mapped": found["mapped"][:, kept],
            "names": found["names"],
            "spacing": pair.grid.spacing,
            "size": np.asarray(pair.grid.size),
        }


def _places(grid: wg.Grid, mask: Path | None, rng: np.random.Generator) -> Floats:
    """Random places of the image away from its border, or of the mask, as indices x, y[, z]."""
    if mask is None:
        last = np.asarray(grid.size) - 1
        return rng.uniform(np.full(grid.d, _BORDER), last - _BORDER, (POINTS, grid.d))
    inside = np.argwhere(wg.read_image(mask).read() > 0.5)[:, ::-1]
    chosen = inside[rng.choice(len(inside), POINTS, replace=False)]
    return np.asarray(chosen + rng.uniform(-0.5, 0.5, (POINTS, grid.d)))


def simulated(d: int, seed: int) -> RegistrationSet:
    """Return eight real registrations of a simulated pair: two stains in 2D, T1 and a T2-like contrast in 3D."""
    about = repr((SETTINGS[d], _DEFORMATIONS[d], _STEP_3D, POINTS, _BORDER))
    kept = _kept(f"simulated-{d}d-{seed}", about, lambda: _simulated_arrays(d, seed))
    rng = rng_for(seed, d, 1)
    rows = rng.permutation(len(kept["points"]))
    ask, held = rows[:CANDIDATES], rows[-TARGETS:]
    placed = kept["truth"][ask] + rng.normal(0, _PLACED[d], (len(ask), d))
    return RegistrationSet(
        [str(name) for name in kept["names"]],
        wg.Annotations.isotropic(kept["points"][ask], placed, _PLACED[d]),
        kept["mapped"][:, ask],
        kept["points"][held],
        kept["mapped"][:, held],
        kept["truth"][held],
        float(np.prod(kept["spacing"]) ** (1 / d)),
        np.asarray(kept["spacing"] * kept["size"], dtype=np.float64),
        "px" if d == 2 else "mm",
    )


def _halves(
    contest: Mapping[str, Any], mapped: Floats, seed: int, answers: wg.Annotations, moving: Floats
) -> RegistrationSet:
    """Let half of the landmarks be annotated, and the others stand for the truth."""
    rows = rng_for(seed, 4).permutation(len(moving))
    ask, held = np.sort(rows[: len(rows) // 2]), np.sort(rows[len(rows) // 2 :])
    return RegistrationSet(
        answers=answers[ask],
        at_answers=mapped[:, ask],
        targets=answers.fixed_points[held],
        mapped=mapped[:, held],
        truth=moving[held],
        **contest,
    )


def lung(data: Path, seed: int) -> RegistrationSet:
    """Return elastix-lung's 14 real registrations; half of the 50 sound landmarks stand for the truth."""
    pair = elastix_lung(data)
    names, fixed, moving, mapped = elastix_lung_registrations(data)
    about = {"names": names, "pixel": pair.pixel, "extent": np.asarray(pair.extent), "units": pair.units}
    return _halves(about, mapped, seed, wg.Annotations.isotropic(fixed, moving, 0.5), moving)


def cima_choices(data: Path) -> list[tuple[str, str]]:
    """Return the pairs of lung-lesion_1, whose images are at hand at 10 % of their size, with H&E as fixed image."""
    stains = cima_stains(data, "lung-lesion_1")
    fixed = next(stain for stain in stains if stain.lower() == "he")
    return [(fixed, stain) for stain in sorted(stains) if stain != fixed]


def cima(data: Path, stains: tuple[str, str], seed: int, quick: bool) -> RegistrationSet:
    """Return elastix registrations of two stains, the paper's 30 settings or the quick six, and log-normal ellipses."""
    files = [cima_stains(data, "lung-lesion_1")[stain][0] for stain in stains]
    read = wg.read_landmarks(*files, units="px")
    fixed, moving = np.asarray(read.fixed_points), np.asarray(read.moving_points)
    images = [wg.read_image(file.with_suffix(".jpg")) for file in files]
    settings = paper_grid(quick=quick)

    def make() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as place:
            inputs = [write_input(one, Path(place) / f"{at}.nrrd") for at, one in enumerate(images)]
            return _registered(inputs[0], inputs[1], settings, Path(place) / "registered", fixed)

    kept = _kept(f"cima-{'-'.join(stains)}", repr((settings, fixed.tolist())), make)
    # Landmarks that some registration moves out of its own domain cannot be compared.
    sound = np.isfinite(kept["mapped"]).all(axis=(0, 2))
    grid = images[0].grid
    about = {
        "names": [str(name) for name in kept["names"]],
        "pixel": 1.0,
        "extent": grid.extent,
        "units": "px",
    }
    answers = EllipseAnnotator().annotate(fixed[sound], looked_up(fixed, moving), seed)
    return _halves(about, kept["mapped"][:, sound], seed, answers, moving[sound])


def copd(data: Path, case: int, seed: int) -> RegistrationSet:
    """Return transforms that were right at some landmarks and are smooth between them, and three fused experts.

    The CT volumes are not at hand, so nothing can be registered: each transform is the posterior mean given some of the
    landmarks, drawn for it alone, with one scale. Between those it errs as an interpolation of the real motion does.
    """
    pair = copdgene(data)[case]
    with (data / "copdgene" / "copd_cases.csv").open() as file:
        row = list(csv.DictReader(file))[case]
    panel = ExpertPanel.alike(3, float(row["observer_mean_mm"]), float(row["observer_sd_mm"]))
    rng = rng_for(seed, 5, case)
    # Half of the landmarks make the transforms; only the others are annotated or held out.
    seen, unseen = np.split(rng.permutation(len(pair)), 2)
    fixed, moving = pair.fixed[unseen], pair.moving[unseen]
    answers = panel.annotate(fixed, looked_up(fixed, moving), seed)
    names, mapped = [], []
    for scale in (80.0, 320.0):
        kernel = wg.KernelBundle("wendland", [scale], [100.0])
        prior = wg.TransformationPrior(kernel, mean="affine", center=pair.fixed.mean(axis=0))
        for count in (15, 30, 60, 120):
            rows = rng.choice(seen, count, replace=False)
            known = wg.Annotations.isotropic(pair.fixed[rows], pair.moving[rows], 1.0)
            names.append(f"{count}-landmarks-{scale:g}mm")
            mapped.append(prior.condition(known).mean(fixed))
    about = {"names": names, "pixel": pair.pixel, "extent": np.asarray(pair.extent), "units": pair.units}
    return _halves(about, np.stack(mapped), seed, answers, moving)


# To add a set, write how it is made and its entry here, and plan runs of it where it is studied.
_CONTESTS: dict[str, Callable[[Path, Mapping[str, Any]], RegistrationSet]] = {
    "simulated 2D": lambda data, given: simulated(2, int(given["seed"])),
    "simulated 3D": lambda data, given: simulated(3, int(given["seed"])),
    "cima": lambda data, given: cima(data, tuple(given["stains"]), int(given["seed"]), bool(given["quick"])),
    "elastix-lung": lambda data, given: lung(data, int(given["seed"])),
    "copdgene": lambda data, given: copd(data, int(given["case"]), int(given["seed"])),
}
_CONTESTS["cima, 30 settings"] = _CONTESTS["cima"]


def contest(data: Path, parameters: Mapping[str, Any]) -> RegistrationSet:
    """Return the set that the parameters of a run describe."""
    return _CONTESTS[str(parameters["dataset"])](data, parameters)
