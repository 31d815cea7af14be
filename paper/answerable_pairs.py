"""Pairs of images with a known match of every point, for the study of questions that have an answer.

The truth of a real pair is the spline through all its landmarks; simulated pairs are made with a known one. What is
visible in an image is judged here by a rule of its own, not by the foreground that a project finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.interpolate import RBFInterpolator

import warpgauge as wg
from paper.datasets import Floats, afids, cima_stains
from warpgauge.candidates import to_gray
from warpgauge.io.images import Image

Bools = NDArray[np.bool_]
REGIONS = ("lung-lesion_1", "lung-lesion_3")
BRAINS = {"colin27": "colin27_T1.nii.gz", "mni152": "mni152_6asym_T1.nii.gz"}
LABELS_REACH = 5.0  # mm around the AAL labels that count as brain
# A place shows tissue where so much of a square of this half-length (share of the diagonal) is below Otsu's threshold.
TISSUE_SHARE = 0.05
TISSUE_REACH = 0.015
# Overlap along x (share of the width), along y, and rotation in degrees.
SIMULATED = {
    "shift-20": (0.8, 1.0, 0.0),
    "overlap-60": (0.6, 1.0, 0.0),
    "overlap-60-corner": (0.6**0.5, 0.6**0.5, 0.0),
    "overlap-60-turned-30": (0.6, 1.0, 30.0),
    "turned-15": (1.0, 1.0, 15.0),
    "turned-45": (1.0, 1.0, 45.0),
    "turned-90": (1.0, 1.0, 90.0),
    "turned-180": (1.0, 1.0, 180.0),
}
_WINDOW = 800  # pixels, of a stain of about 1780 x 1470
_WAVES, _AMPLITUDE = (250.0, 420.0), 8.0  # wavelengths and amplitude of the simulated deformation, pixels


@dataclass(frozen=True)
class AnswerablePair:
    """A pair of images with its truth.

    ``truth`` maps fixed world points to their matches. ``answers`` says whether an expert has an answer, from fixed
    points and their matches, and ``tissue`` whether both show something. At ``points`` (n, d) with these ``matches``
    the error of the posterior mean is measured. ``noise`` is the standard deviation of a placement along each axis, in
    world units.
    """

    fixed: Path
    moving: Path
    truth: Callable[[Floats], Floats]
    answers: Callable[[Floats, Floats], Bools]
    tissue: Callable[[Floats, Floats], Bools]
    points: Floats
    matches: Floats
    noise: float


def spline(points: Floats, matches: Floats) -> Callable[[Floats], Floats]:
    """Return the thin-plate spline through landmarks; in 3D its radial function is r."""
    through = RBFInterpolator(
        points, matches, kernel="thin_plate_spline" if points.shape[1] == 2 else "linear", degree=1
    )
    return lambda at: np.asarray(through(at))


def visible_tissue(image: Image) -> Callable[[Floats], Bools]:
    """Return a function that tells where a picture shows tissue: enough of what is around is darker than glass."""
    gray = np.asarray(to_gray(image.read(), 2)[0], dtype=np.float64)
    dark = (gray < otsu(gray)).astype(np.float64)
    radius = max(2, round(TISSUE_REACH * float(np.hypot(*gray.shape))))
    share = ndimage.uniform_filter(dark, 2 * radius + 1, mode="nearest")
    return lambda points: _looked_up(share >= TISSUE_SHARE, image.grid, points)


def otsu(values: NDArray[Any]) -> float:
    """Return the threshold that separates the values into two classes of the least variance."""
    counts, edges = np.histogram(values, bins=256)
    centres = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)
    total = counts.sum()
    mean_below = np.cumsum(counts * centres)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (mean_below[-1] * below / total - mean_below) ** 2 / (below * (total - below))
    return float(centres[int(np.nanargmax(between[:-1]))])


def _looked_up(mask: Bools, grid: wg.Grid, points: Floats) -> Bools:
    inside = grid.contains(points)
    index = np.round(grid.world_to_index(np.where(inside[:, None], points, grid.origin))).astype(int)
    index = np.clip(index, 0, np.asarray(grid.size) - 1)
    return np.asarray(inside & mask[tuple(index.T[::-1])])


def cima_names(region: str) -> list[str]:
    """Name all ordered pairs of stains of a region."""
    stains = ("CD31", "Cc10", "He", "Ki67", "proSPC")
    return [f"{region}_{one}_{other}" for one, other in permutations(stains, 2)]


def cima_pair(data: Path, name: str) -> AnswerablePair:
    """Return a pair of stains: landmarks in pixels of the images that are at hand."""
    region, one, other = name.rsplit("_", 2)
    stains = cima_stains(data, region)
    images = {}
    small = data / "cima" / region / "images-5pc"
    percent = 5.0 if small.is_dir() else 10.0
    place = small if small.is_dir() else data / "cima" / region
    for stain in (one, other):
        images[stain] = next(iter(place.glob(f"{stains[stain][0].stem}*.jpg")))
    scale = (percent / stains[one][1], percent / stains[other][1])
    read = wg.read_landmarks(stains[one][0], stains[other][0], scale=scale, units="px")
    matches = np.asarray(read.moving_points)
    first, second = (wg.read_image(images[stain]) for stain in (one, other))
    here = visible_tissue(first)
    there = visible_tissue(second)
    return AnswerablePair(
        images[one],
        images[other],
        spline(read.fixed_points, matches),
        lambda _, mapped: second.grid.contains(mapped),
        lambda points, mapped: here(points) & there(mapped),
        read.fixed_points,
        matches,
        1.0,
    )


def brain_pair(data: Path, name: str) -> AnswerablePair:
    """Return the two brain templates; both are cut out of the head, so that what is not 0 is brain."""
    one, other = name.split("_")
    (pair,) = afids(data, templates=True)
    forward = "colin" in pair.name.lower().split("_tpl")[0]
    points = {"colin27": pair.fixed if forward else pair.moving, "mni152": pair.moving if forward else pair.fixed}
    first, second = (wg.read_image(data / "afids" / BRAINS[brain]) for brain in (one, other))
    masks = {"fixed": first.read() > 0, "moving": second.read() > 0}

    def tissue(at: Floats, mapped: Floats) -> Bools:
        return _looked_up(masks["fixed"], first.grid, at) & _looked_up(masks["moving"], second.grid, mapped)

    return AnswerablePair(
        data / "afids" / BRAINS[one],
        data / "afids" / BRAINS[other],
        spline(points[one], points[other]),
        tissue,
        tissue,
        points[one],
        points[other],
        1.0,
    )


def brain_labels(data: Path, name: str) -> Callable[[Floats, Floats], Bools]:
    """Return a second judge of brains: near a label of the AAL atlas, which lies on MNI152."""
    labels = wg.read_image(data / "afids" / "mni152_6asym_aal.nii.gz")
    near = ndimage.distance_transform_edt(labels.read() == 0, sampling=labels.grid.spacing[::-1]) <= LABELS_REACH
    mask = np.asarray(ndimage.binary_fill_holes(near))
    on_fixed = name.startswith("mni152")
    return lambda points, mapped: _looked_up(mask, labels.grid, points if on_fixed else mapped)


def simulated_pair(data: Path, condition: str, seed: int, folder: Path) -> AnswerablePair:
    """Make a pair out of one stain: two windows of it, one shifted, turned and bent; images go to a folder."""
    along_x, along_y, degrees = SIMULATED[condition]
    file = cima_stains(data, REGIONS[0])["He"][0].with_suffix(".jpg")
    source = wg.read_image(file).read()
    turn = np.deg2rad(degrees)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    middle = (np.array(source.shape[1::-1]) - 1) / 2
    half = (_WINDOW - 1) / 2
    apart = _WINDOW * np.array([1 - along_x, 1 - along_y])
    corner = middle - half - apart / 2  # of the fixed window, in the source
    rng = np.random.default_rng(seed)
    phases = rng.uniform(0, 2 * np.pi, (len(_WAVES), 2))

    def bend(points: Floats) -> Floats:
        waves = [
            _AMPLITUDE / 2 * np.sin(2 * np.pi * points[:, ::-1] / w + p) for w, p in zip(_WAVES, phases, strict=True)
        ]
        return np.asarray(np.sum(waves, axis=0))

    def truth(points: Floats) -> Floats:
        return np.asarray((points - half - apart) @ rotation.T + half + bend(points))

    def origin(mapped: Floats) -> Floats:
        points = mapped.copy()
        for _ in range(60):  # the bend changes by at most a fifth of a pixel per pixel
            points = (mapped - half - bend(points)) @ rotation + half + apart
        return points

    grid = wg.Grid((_WINDOW, _WINDOW))
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "fixed.png", folder / "moving.png"]
    for path, places in zip(paths, (grid.points(), origin(grid.points())), strict=True):
        at = (places + corner).T[::-1]
        channels = [ndimage.map_coordinates(source[..., c], at, order=1, mode="reflect") for c in range(3)]
        _write_picture(path, np.stack(channels, axis=-1).reshape(_WINDOW, _WINDOW, 3))
    here, there = (visible_tissue(wg.read_image(path)) for path in paths)
    lattice = grid.coarsened(20).points()
    inside = grid.contains(truth(lattice))
    return AnswerablePair(
        paths[0],
        paths[1],
        truth,
        lambda _, mapped: grid.contains(mapped),
        lambda points, mapped: here(points) & there(mapped),
        lattice[inside],
        truth(lattice[inside]),
        1.0,
    )


def _write_picture(path: Path, array: NDArray[Any]) -> None:
    from PIL import Image

    Image.fromarray(array.astype(np.uint8)).save(path)
