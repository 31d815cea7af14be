"""Whether raters agree better where a place is distinctive.

Of every image at hand that several raters marked, the distance of a placement from the mean of the raters is compared
with how distinctive the place of the mean is, by rank. Nothing was chosen on these data: patch and reach are those of
the page's Nearby, which were set before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import warpgauge as wg
from paper.datasets import Floats, afids_placements
from paper.experiment import Experiment, Findings, Result, Run
from paper.raters import POINTS, cima_placements
from warpgauge.candidates import distinctiveness, to_gray

HALF = {2: 8, 3: 4}  # pixels from the middle of a patch to its side
REACH = 0.05  # of the image's diagonal: what lies within it may be taken for the place
IMAGES = {
    "colin27": ("tpl-MNIColin27", "afids/colin27_T1.nii.gz"),
    "mni152": ("tpl-MNI152NLin6Asym", "afids/mni152_6asym_T1.nii.gz"),
    "He": ("He", "cima/lung-lesion_3/images-5pc/29-041-Izd2-w35-He-les3.jpg"),
    "proSPC": ("proSPC", "cima/lung-lesion_3/images-5pc/29-041-Izd2-w35-proSPC-4-les3.jpg"),
}
_SHRUNK = 10  # CIMA's marks are at 50 % of the full size, the images at 5 %


def plan(data: Path, runs: int, seed: int, quick: bool) -> list[Run]:
    """Plan one run per image."""
    return [Run(name, {"image": name}) for name in IMAGES]


def compute(data: Path, run: Run) -> dict[str, Any]:
    """Compare scatter and distinctiveness at all points of an image."""
    key, file = IMAGES[run.parameters["image"]]
    image = wg.read_image(data / file)
    if image.grid.d == 2:
        placements = np.array(cima_placements(data, "lung-lesion_3", key)) / _SHRUNK
    else:
        by_rater = afids_placements(data)[key]
        placements = np.array([[points[point] for point in POINTS] for points in by_rater.values()])
    gray = np.asarray(to_gray(image.block(tuple(slice(0, n) for n in image.grid.shape)), image.grid.d)[0], dtype=float)
    mean = placements.mean(axis=0)
    places = np.rint(image.grid.array_coordinates(mean)).astype(int).T
    found = seen_from(gray, places, HALF[image.grid.d], int(REACH * image.grid.diagonal / image.grid.pixel))
    return summed(found, np.linalg.norm(placements - mean, axis=2).mean(axis=0))


def seen_from(gray: Floats, places: Any, half: int, reach: int) -> Floats:
    """Return the distinctiveness of each place within its own neighbourhood, NaN where its patch leaves the image."""
    found = np.full(len(places), np.nan)
    for k, place in enumerate(places):
        low = np.clip(place - reach - 2 * half, 0, None)
        part = gray[tuple(map(slice, low, np.minimum(place + reach + 2 * half + 1, gray.shape)))]
        at = place - low
        if np.all((at >= half) & (at < np.array(part.shape) - half)):
            found[k] = distinctiveness(part, at[None], half)[0]
    return found


def summed(found: Floats, scatter: Floats) -> dict[str, Any]:
    """Return the rank correlation, and the mean scatter of the least and the most distinctive third."""
    whole = np.isfinite(found)
    order = np.argsort(found[whole], kind="stable")
    ranked, third = scatter[whole][order], int(whole.sum()) // 3
    correlation = spearmanr(found[whole], scatter[whole])
    return {
        "points": int(whole.sum()),
        "rank correlation": float(correlation.statistic),
        "p": float(correlation.pvalue),
        "least distinctive": float(ranked[:third].mean()),
        "most distinctive": float(ranked[-third:].mean()),
    }


def report(results: Sequence[Result]) -> Findings:
    """Give the figures of each image."""
    numbers = {run.parameters["image"]: found for run, found in results}
    return Findings(
        numbers,
        {},
        [
            f"{name}, {one['points']} points: rank correlation of distinctiveness and scatter "
            f"{one['rank correlation']:+.2f} (p = {one['p']:.2g}); mean distance from the raters' mean "
            f"{one['least distinctive']:.2g} in the least, {one['most distinctive']:.2g} in the most distinctive third."
            for name, one in numbers.items()
        ],
    )


EXPERIMENT = Experiment(
    "distinctive", "do raters agree better where a place is distinctive?", 1, plan, compute, report, ("afids", "cima")
)
