"""What regions bring where tissue slides, and what they cost where it does not.

Simulated: lungs (the mask of a COPDgene case against the rest), the two hemispheres of a brain (AAL, odd and even
labels, and the rest) and deep brain structures (CoBrA Lab, against the rest), in 3D and in their middle slices. Of the
velocity's variance 80 % is each part's own, along its boundary (sliding) or in any direction (torn); or none is
(stationary), with the same labels. Random places are annotated with a standard deviation of half a pixel; the same
annotations serve the model with and without regions. Real: held-out landmarks of public sets with two regions that
mean nothing, the halves of the image.

Measured: mean error of the posterior mean, and coverage of its 95 % regions, near the boundary (within two length
scales, each 1/32 of the longest side, the smallest of the model) on either side of it, and elsewhere. The model's
grid and prior of the share were fixed before. Ranks: a slice of a brain (MNI152) whose hemispheres
slide or are torn apart is registered in four settings of SimpleITK, and the default judge ranks them with and without
the regions. How smooth the deformations are (control points half of the longest side apart) and the 80 % were set on
other seeds (101 to 104) of three of the sets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import distance_transform_edt, map_coordinates
from scipy.stats import kendalltau

import warpgauge as wg
from paper.curves import rng_for
from paper.datasets import DATASETS, Floats
from paper.experiment import Experiment, Findings, Result, Run
from paper.registration_sets import SETTINGS
from warpgauge.candidates import LabelRegions
from warpgauge.maps import write_map
from warpgauge.registration import run_registrations
from warpgauge.simulate import SlidingDeformation, random_sliding, warp_image

SETS = ("lungs 3D", "lungs 2D", "hemispheres 3D", "hemispheres 2D", "deep 3D", "deep 2D")
REAL = ("cima", "copdgene", "dirlab4dct", "afids")
KINDS = ("sliding", "torn", "stationary")
RANKED = "hemispheres 2D"  # the set whose image is there
RANKS = ("sliding ranks", "torn ranks")
COUNTS = (10, 20, 40)
_FILES = {
    "lungs": "copdgene/copd1_iBHCT_mask.nii.gz",
    "hemispheres": "afids/mni152_6asym_aal.nii.gz",
    "deep": "cobralab/brain0-labels.nii.gz",
}
_IMAGE = "afids/mni152_6asym_T1.nii.gz"
_SETTINGS = SETTINGS[2][:4]  # those of SimpleITK
_LONGEST = {"2D": 192, "3D": 56}  # elements along the longest side that deformations are simulated on
_LENGTHS = 32  # of the longest side make the smallest scale
_POINTS, _TARGETS = 3000, 800
_TEST = 40  # landmarks held out of real pairs, at least


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan ``runs`` deformations that slide, as many that do not, and draws of real landmarks."""
    made = [
        Run(f"{name.replace(' ', '-')}-{kind}-{seed + at}", {"dataset": name, "kind": kind, "seed": seed + at})
        for name in (SETS[1:2] if quick else SETS)
        for kind in KINDS
        for at in range(1 if quick else runs)
    ]
    real = [
        Run(f"{name}-landmarks-{seed + at}", {"dataset": name, "kind": "landmarks", "seed": seed + at})
        for name in (() if quick else REAL)
        for at in range(4 * runs)
    ]
    ranked = [
        Run(f"{kind.replace(' ', '-')}-{seed + at}", {"dataset": RANKED, "kind": kind, "seed": seed + at})
        for kind in (() if quick else RANKS)
        for at in range(runs)
    ]
    return made + ranked + real


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Compare the models with and without regions on one deformation, or one real pair."""
    name, kind, seed = (run.parameters[key] for key in ("dataset", "kind", "seed"))
    if kind in RANKS:
        return _ranked(data, kind.split()[0], seed)
    return _landmarks(data, name, seed) if kind == "landmarks" else _simulated(data, name, kind, seed)


def regions_of(data: Path, name: str) -> LabelRegions:
    """Return the parts of a simulated set on a coarse grid: the labels at the middles of its elements."""
    what, dimension = name.split()
    image = wg.read_image(data / _FILES[what])
    labels = np.asarray(image.read()).reshape(image.grid.shape)
    parts = np.where(labels > 0, 1 + labels % 2, 0) if what == "hemispheres" else labels > 0
    grid = image.grid
    if dimension == "2D":
        middle = grid.shape[0] // 2
        parts = parts[middle]
        grid = wg.Grid(grid.size[:2], grid.spacing[:2], np.zeros(2), np.eye(2), grid.units)
    coarse = grid.coarsened(max(1.0, float(grid.extent.max() / grid.spacing.min()) / _LONGEST[dimension]))
    at = grid.world_to_index(coarse.points())[:, ::-1].T
    sampled = map_coordinates(parts.astype(np.int64), at, order=0, mode="nearest").reshape(coarse.shape)
    return LabelRegions.of(sampled, coarse, name)


def _deformation(regions: LabelRegions, name: str, kind: str, seed: int) -> SlidingDeformation:
    longest = float(regions.grid.extent.max())
    return random_sliding(
        regions, 0.02 * longest, longest / 2, 1000 * seed + SETS.index(name),
        own=0.0 if kind == "stationary" else 0.8, tear=kind == "torn", allow_folding=True,
    )  # fmt: skip


def _ranked(data: Path, kind: str, seed: int) -> dict[str, Any]:
    """Register a slice whose halves slide, and compare how the judge ranks with and without the regions."""
    regions = regions_of(data, RANKED)
    grid, rng = regions.grid, rng_for(seed, len(SETS), KINDS.index(kind))
    truth = _deformation(regions, RANKED, kind, seed)
    brain = _slice(data, grid)
    with tempfile.TemporaryDirectory() as place:
        fixed = write_map(brain.astype(np.float32), grid, Path(place) / "fixed.nrrd")
        moving = write_map(warp_image(brain, grid, truth).astype(np.float32), grid, Path(place) / "moving.nrrd")
        done = run_registrations(fixed, moving, _SETTINGS, Path(place) / "registered", time_limit=600)
        transforms = {one.name: wg.read_transform(one.path) for one in done if one.path is not None}
        inside = np.argwhere(regions.labels > 0)[:, ::-1]
        points = grid.index_to_world(inside[rng.permutation(len(inside))[: _TARGETS + max(COUNTS)]].astype(np.float64))
        matches, noise = truth.map(points), 0.5 * grid.pixel
        targets, at_targets = points[max(COUNTS) :], matches[max(COUNTS) :]
        scores = {name: wg.displacement_norm(one.map(targets) - at_targets, 2) for name, one in transforms.items()}
        rows = {}
        for count in COUNTS:
            placed = matches[:count] + rng.normal(0, noise, (count, grid.d))
            given = wg.Annotations.isotropic(points[:count], placed, noise)
            rows[str(count)] = {
                model: _judged(given, grid, used, transforms, targets, scores)
                for model, used in (("stationary", None), ("regions", regions))
            }
        return rows


def _slice(data: Path, grid: wg.Grid) -> Floats:
    """Return the middle slice of the brain on a grid, as `regions_of` cuts its labels."""
    image = wg.read_image(data / _IMAGE)
    array = np.asarray(image.read(), dtype=np.float64)
    at = grid.points() / image.grid.spacing[:2]
    return np.asarray(
        map_coordinates(array[len(array) // 2], at[:, ::-1].T, order=1, mode="nearest").reshape(grid.shape)
    )


def _judged(
    given: wg.Annotations, grid: wg.Grid, regions: Any, transforms: dict[str, Any], targets: Floats,
    scores: dict[str, float],
) -> dict[str, Any]:  # fmt: skip
    """Return whether the true best is first, how well the order agrees, and how far the scores are off."""
    posterior = wg.default_posterior(
        given, grid.extent, float(grid.extent.max()) / _LENGTHS, center=grid.centre, regions=regions
    )
    found = wg.evaluate(wg.judge(posterior, transforms), transforms, targets, seed=0)
    names = sorted(scores)
    estimated = {name: found.scores[name].score["2"] for name in names}
    inside = [
        found.scores[name].interval["2"][0] <= scores[name] <= found.scores[name].interval["2"][1] for name in names
    ]
    return {
        "right": min(estimated, key=estimated.__getitem__) == min(scores, key=scores.__getitem__),
        "tau": float(kendalltau([scores[name] for name in names], [estimated[name] for name in names]).statistic),
        "off": float(np.mean([abs(np.log(estimated[name] / scores[name])) for name in names])),
        "held": float(np.mean(inside)),
    }


def _simulated(data: Path, name: str, kind: str, seed: int) -> dict[str, Any]:
    regions = regions_of(data, name)
    grid, rng = regions.grid, rng_for(seed, SETS.index(name), KINDS.index(kind))
    longest = float(grid.extent.max())
    truth = _deformation(regions, name, kind, seed)
    points = grid.index_to_world(rng.uniform(0, 1, (_POINTS + max(COUNTS), grid.d)) * (np.asarray(grid.size) - 1))
    matches = truth.map(points)
    near = _distances(regions, points) < 2 * longest / _LENGTHS
    side = regions(points) == regions.values[0]
    noise = 0.5 * grid.pixel
    tested, rows = slice(max(COUNTS), None), {}
    for count in COUNTS:
        moving = matches[:count] + rng.normal(0, noise, (count, grid.d))
        given = wg.Annotations.isotropic(points[:count], moving, noise)
        places = {"one side": near & side, "other side": near & ~side, "far": ~near, "near": near, "all": near | ~near}
        rows[str(count)] = {
            model: _measured(given, grid.extent, grid.centre, longest / _LENGTHS, used, points[tested],
                             matches[tested], {place: mask[tested] for place, mask in places.items()})
            for model, used in (("stationary", None), ("regions", regions))
        }  # fmt: skip
    return rows


def _distances(regions: LabelRegions, points: Floats) -> Floats:
    """Distance of each point from the nearest element with another label, to an element."""
    distance = np.zeros(regions.grid.shape)
    steps = regions.grid.spacing[::-1]
    for label in regions.values:
        inside = regions.labels == label
        distance[inside] = distance_transform_edt(inside, steps)[inside]
    return np.asarray(map_coordinates(distance, regions.grid.array_coordinates(points), order=1, mode="nearest"))


def _measured(
    given: wg.Annotations, extent: Floats, centre: Floats, smallest: float, regions: Any, points: Floats,
    matches: Floats, places: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    posterior = wg.default_posterior(given, extent, smallest, center=centre, regions=regions)
    errors = np.linalg.norm(posterior.mean(points) - matches, axis=1)
    held = posterior.squared_lengths(points, matches) <= posterior.squared_radius(0.95)
    return {
        "own": posterior.prior.kernel.own_share,
        **{
            place: {"error": float(errors[mask].mean()), "held": float(held[mask].mean()), "points": int(mask.sum())}
            for place, mask in places.items()
            if mask.any()
        },
    }


def _landmarks(data: Path, name: str, seed: int) -> dict[str, Any]:
    """Return held-out errors of a real pair with regions that mean nothing: the halves along its longest side."""
    rng, pairs = rng_for(seed, REAL.index(name)), DATASETS[name].all_pairs(data)
    pair = pairs[int(rng.integers(len(pairs)))]
    axis = int(np.argmax(pair.extent))
    middle = float(pair.middle[axis])

    def halves(points: Floats) -> Any:
        return (points[:, axis] > middle).astype(np.int64)

    order = rng.permutation(len(pair))
    rows = {}
    for count in COUNTS:
        if count + 12 > len(pair) or (count == max(COUNTS) and len(pair) < count + _TEST):
            continue
        kept, tested = order[:count], order[count:]
        given = wg.Annotations.isotropic(pair.fixed[kept], pair.moving[kept], pair.pixel)
        places = {"all": np.ones(len(tested), dtype=bool)}
        rows[str(count)] = {
            model: _measured(given, np.asarray(pair.extent), np.asarray(pair.middle), 10 * pair.pixel, used,
                             pair.fixed[tested], pair.moving[tested], places)
            for model, used in (("stationary", None), ("regions", halves))
        }  # fmt: skip
    return rows


def report(results: Sequence[Result]) -> Findings:
    """Sum up by set and number of annotations: ratios of mean errors, and coverages."""
    numbers: dict[str, Any] = {}
    sentences = []
    for kind in RANKS:
        for count in COUNTS:
            rows = [
                found[str(count)] for run, found in results if run.parameters["kind"] == kind and str(count) in found
            ]
            if not rows:
                continue
            told = {
                model: {
                    what: float(np.mean([row[model][what] for row in rows])) for what in ("right", "tau", "off", "held")
                }
                for model in ("stationary", "regions")
            }
            numbers[f"{kind} {RANKED} {count}"] = {"runs": len(rows), **told}
            each = "; ".join(
                f"{model}: the best is first in {one['right']:.0%}, tau {one['tau']:.2f}, scores off by a factor of "
                f"{np.exp(one['off']):.2f}, in their intervals {one['held']:.0%}"
                for model, one in told.items()
            )
            sentences.append(f"{RANKED}, {kind}, n = {count}, {len(rows)} runs: {each}.")
    for kind in (*KINDS, "landmarks"):
        for name in (*SETS, *REAL):
            own = [
                found for run, found in results if (run.parameters["dataset"], run.parameters["kind"]) == (name, kind)
            ]
            for count in COUNTS:
                rows = [one[str(count)] for one in own if str(count) in one]
                if not rows:
                    continue
                told = {place: _summed(rows, place) for place in ("near", "one side", "other side", "far", "all")}
                told = {place: row for place, row in told.items() if row}
                share = float(np.mean([row["regions"]["own"] for row in rows]))
                numbers[f"{kind} {name} {count}"] = {"runs": len(rows), "own": share, **told}
                places = "; ".join(_sentence(place, row) for place, row in told.items())
                sentences.append(f"{name}, {kind}, n = {count}, {len(rows)} runs, share {share:.2f}: {places}.")
    return Findings(numbers, {}, sentences)


def _sentence(place: str, row: dict[str, float]) -> str:
    return f"{place} {row['ratio']:.2f} x the error, held {row['held']:.0%} (without {row['held without']:.0%})"


def _summed(rows: list[dict[str, Any]], place: str) -> dict[str, float]:
    with_, without = ([row[model][place] for row in rows if place in row[model]] for model in ("regions", "stationary"))
    if not with_:
        return {}
    weights = [one["points"] for one in with_]

    def mean(parts: list[dict[str, Any]], what: str) -> float:
        return float(np.average([one[what] for one in parts], weights=weights))

    return {
        "ratio": mean(with_, "error") / mean(without, "error"),
        "held": mean(with_, "held"),
        "held without": mean(without, "held"),
    }


EXPERIMENT = Experiment(
    "sliding",
    "what do regions bring where tissue slides, and what do they cost where it does not?",
    5,
    plan,
    compute,
    report,
    ("afids", "cima", "cobralab", "copdgene", "dirlab4dct"),
)
