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
from scipy.spatial import cKDTree

import warpgauge as wg
from paper import datasets
from paper.curves import rng_for
from paper.datasets import (
    Floats,
    Ints,
    LandmarkPair,
    cima_stains,
    copdgene,
    dirlab4dct,
    elastix_lung,
    elastix_lung_registrations,
    looked_up,
)
from paper.registrations import (
    ElastixSetting,
    RegistrationSetting,
    SimpleItkSetting,
    paper_grid,
    run_registrations,
    write_input,
)
from warpgauge.core import Posterior
from warpgauge.demo import make_pair
from warpgauge.errors import WarpgaugeError
from warpgauge.simulate import EllipseAnnotator, ExpertPanel

POINTS = 4000
TARGETS = 800
CANDIDATES = 1000
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
SMALLEST_PX = {2: 10.0, 3: 4.0}  # smallest scale of the models


@dataclass(frozen=True, eq=False)
class RegistrationSet:
    """K transforms, what can be annotated, and where they are compared.

    ``answers`` are what the annotator would say at each of the m places that can be asked, and ``at_answers`` (K, m, d)
    the transforms there. ``mapped`` (K, N, d) are the transforms at the ``targets``, and ``truth`` (N, d) are the true
    matches of these, or what stands for them. ``extent`` are the sides of the image, in world units.
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

    def default_posterior(self, given: wg.Annotations) -> Posterior:
        """Return the model that a session has of some answers."""
        return wg.default_posterior(given, self.extent, smallest=SMALLEST_PX[self.d] * self.pixel)

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
    results = run_registrations(fixed, moving, settings, folder)
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
    ask = rows[:CANDIDATES]
    held = rows[-TARGETS:]
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


def _everywhere(contest: Mapping[str, Any], mapped: Floats, answers: wg.Annotations, truth: Floats) -> RegistrationSet:
    """Let every landmark be one that can be annotated, and a target where it is not."""
    return RegistrationSet(
        answers=answers, at_answers=mapped, targets=answers.fixed_points, mapped=mapped, truth=truth, **contest
    )


def _halves(
    contest: Mapping[str, Any], mapped: Floats, seed: int, answers: wg.Annotations, moving: Floats
) -> RegistrationSet:
    """Let half of the landmarks be annotated, and the others stand for the truth."""
    rows = rng_for(seed, 4).permutation(len(moving))
    ask = np.sort(rows[: len(rows) // 2])
    held = np.sort(rows[len(rows) // 2 :])
    return RegistrationSet(
        answers=answers[ask],
        at_answers=mapped[:, ask],
        targets=answers.fixed_points[held],
        mapped=mapped[:, held],
        truth=moving[held],
        **contest,
    )


def _about(pair: LandmarkPair, names: Sequence[str]) -> dict[str, Any]:
    return {"names": list(names), "pixel": pair.pixel, "extent": np.asarray(pair.extent), "units": pair.units}


def lung(data: Path, seed: int | None) -> RegistrationSet:
    """Return elastix-lung's 14 real registrations at 50 sound landmarks; with a seed, half of them are the truth."""
    names, fixed, moving, mapped = elastix_lung_registrations(data)
    about = _about(elastix_lung(data), names)
    answers = wg.Annotations.isotropic(fixed, moving, 0.5)
    return (
        _everywhere(about, mapped, answers, moving) if seed is None else _halves(about, mapped, seed, answers, moving)
    )


def cima_choices(data: Path) -> list[tuple[str, str]]:
    """Return the pairs of lung-lesion_1, whose images are at hand at 10 % of their size, with H&E as fixed image."""
    stains = cima_stains(data, "lung-lesion_1")
    fixed = next(stain for stain in stains if stain.lower() == "he")
    return [(fixed, stain) for stain in sorted(stains) if stain != fixed]


def cima(data: Path, stains: tuple[str, str], seed: int, quick: bool) -> RegistrationSet:
    """Return elastix registrations of two stains, the paper's 30 settings or the quick six, and log-normal ellipses."""
    files = [cima_stains(data, "lung-lesion_1")[stain][0] for stain in stains]
    read = wg.read_landmarks(*files, units="px")
    fixed = np.asarray(read.fixed_points)
    moving = np.asarray(read.moving_points)
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


def _made(
    pair: LandmarkPair,
    rows: Ints,
    counts: Sequence[int],
    scales: Sequence[float],
    at: Floats,
    rng: np.random.Generator,
) -> dict[str, Floats]:
    """Return transforms that were right at some landmarks and are smooth between them.

    Each is the posterior mean given some of the landmarks of these rows, drawn for it alone, with one scale. Between
    those it errs as an interpolation of the real motion does.
    """
    found = {}
    for scale in scales:
        kernel = wg.KernelBundle("wendland", [scale], [100.0])
        prior = wg.TransformationPrior(kernel, mean="affine", center=pair.fixed.mean(axis=0))
        for count in counts:
            own = rng.choice(rows, count, replace=False)
            known = wg.Annotations.isotropic(pair.fixed[own], pair.moving[own], 1.0)
            found[f"{count}-landmarks-{scale:g}{pair.units}"] = prior.condition(known).mean(at)
    return found


def _lungs(
    data: Path, pair: LandmarkPair, case: int, seed: int, table: str
) -> tuple[dict[str, Floats], wg.Annotations, Floats]:
    """Return transforms made from half of a case's landmarks, three fused experts at the others, and the truth there.

    The CT volumes are not at hand, so nothing can be registered.
    """
    with (data / table).open() as file:
        row = list(csv.DictReader(file))[case]
    observers = (float(row.get(f"observer_{one}_mm") or 1.0) for one in ("mean", "sd"))
    rng = rng_for(seed, 5, case)
    # Half of the landmarks make the transforms; only the others are annotated or held out.
    seen, unseen = np.split(rng.permutation(len(pair)), 2)
    fixed = pair.fixed[unseen]
    moving = pair.moving[unseen]
    answers = ExpertPanel.alike(3, *observers).annotate(fixed, looked_up(fixed, moving), seed)
    return _made(pair, seen, (15, 30, 60, 120), (80.0, 320.0), fixed, rng), answers, moving


def copd(data: Path, case: int, seed: int, *, whole: bool = False) -> RegistrationSet:
    """Return transforms made from landmarks of a COPDgene case; half of the others are the truth, or all."""
    pair = copdgene(data)[case]
    made, answers, moving = _lungs(data, pair, case, seed, "copdgene/copd_cases.csv")
    about = _about(pair, list(made))
    mapped = np.stack(list(made.values()))
    return _everywhere(about, mapped, answers, moving) if whole else _halves(about, mapped, seed, answers, moving)


def dct(data: Path, case: int, seed: int) -> RegistrationSet:
    """Return transforms made from landmarks of a DIR-Lab 4DCT case."""
    pair = dirlab4dct(data)[case]
    made, answers, moving = _lungs(data, pair, case, seed, "dirlab4dct/cases.csv")
    return _everywhere(_about(pair, list(made)), np.stack(list(made.values())), answers, moving)


def network(data: Path, case: int, seed: int) -> RegistrationSet:
    """Return a real network's result on a COPDgene case, smoothed in three degrees, among four made from landmarks.

    The network's result is known at keypoints: it is interpolated by 8, 100 and 800 neighbours, and by an affine map.
    """
    pair = copdgene(data)[case]
    made, answers, moving = _lungs(data, pair, case, seed, "copdgene/copd_cases.csv")
    with (data / "copdgene" / "copd_cases.csv").open() as file:
        row = list(csv.DictReader(file))[case]
    spacing = np.array([float(row[key]) for key in ("dx_mm", "dy_mm", "dz_mm")])
    table = np.loadtxt(data / "copdgene" / f"vxmpp_copd{case + 1}.csv", delimiter=",", skiprows=1)
    keys = (table[:, :3] - 1) * spacing
    moved = (table[:, 3:] - 1) * spacing
    at = answers.fixed_points
    found = dict(list(made.items())[::2])
    for count in (8, 100, 800):
        distances, rows = cKDTree(keys).query(at, count)
        weights = 1 / np.maximum(distances, 1e-6) ** 2
        steps = np.einsum("nk,nkd->nd", weights, (moved - keys)[rows]) / weights.sum(axis=1, keepdims=True)
        found[f"network-{count}"] = at + steps
    affine = np.linalg.lstsq(np.column_stack([np.ones(len(keys)), keys]), moved, rcond=None)[0]
    found["network-affine"] = np.column_stack([np.ones(len(at)), at]) @ affine
    return _everywhere(_about(pair, list(found)), np.stack(list(found.values())), answers, moving)


def histology(data: Path, pair: str, seed: int) -> RegistrationSet:
    """Return transforms made from a third of the landmarks of a CIMA pair, and log-normal ellipses at the others."""
    at, given = next((k, one) for k, one in enumerate(datasets.cima(data, ordered=False)) if one.name == pair)
    rng = rng_for(seed, 6, at)
    rows = rng.permutation(len(given))
    seen = rows[: len(rows) // 3]
    unseen = rows[len(rows) // 3 :]
    fixed = given.fixed[unseen]
    moving = given.moving[unseen]
    made = _made(given, seen, (6, 12, 24), (300.0, 1500.0), fixed, rng)
    answers = EllipseAnnotator().annotate(fixed, looked_up(fixed, moving), seed)
    return _everywhere(_about(given, list(made)), np.stack(list(made.values())), answers, moving)


# To add a set, write how it is made and its entry here, and plan runs of it where it is studied.
_CONTESTS: dict[str, Callable[[Path, Mapping[str, Any]], RegistrationSet]] = {
    "simulated 2D": lambda data, given: simulated(2, int(given["seed"])),
    "simulated 3D": lambda data, given: simulated(3, int(given["seed"])),
    "cima": lambda data, given: cima(data, tuple(given["stains"]), int(given["seed"]), bool(given["quick"])),
    "elastix-lung": lambda data, given: lung(data, None if given.get("whole") else int(given["seed"])),
    "copdgene": lambda data, given: copd(data, int(given["case"]), int(given["seed"]), whole=bool(given.get("whole"))),
    "dirlab4dct": lambda data, given: dct(data, int(given["case"]), int(given["seed"])),
    "network": lambda data, given: network(data, int(given["case"]), int(given["seed"])),
    "histology": lambda data, given: histology(data, str(given["case"]), int(given["seed"])),
}
_CONTESTS["cima, 30 settings"] = _CONTESTS["cima"]


def contest(data: Path, parameters: Mapping[str, Any]) -> RegistrationSet:
    """Return the set that the parameters of a run describe."""
    return _CONTESTS[str(parameters["dataset"])](data, parameters)
