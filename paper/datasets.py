"""The public landmark sets that the studies use, each as a list of pairs in one form.

To add a set, write its reader here and its entry in `DATASETS`: the studies, their titles and units, the folders that
they need and the training pairs follow from that entry.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import warpgauge as wg
from warpgauge.errors import InvalidInputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Stains as the files name them, in lower case, and as the studies do: the same stain has the same name everywhere.
_STAINS = {"he": "He", "cd31": "CD31", "prospc": "proSPC", "pro-spc": "proSPC", "cc10": "Cc10", "ki67": "Ki67"}
_MAMMARY = {"36-cneu": "CNEU", "37-he": "HE37", "38-er": "ER", "39-he": "HE39", "40-pr": "PR"}
CIMA_PERCENT = 10.0
ELASTIX_LUNG_OUTLIER = 20


@dataclass(frozen=True, eq=False)
class LandmarkPair:
    """True correspondences between two images: world points (n, d), of which rows belong together.

    ``group`` is what must not be shared between training and test: region, case, or subject. ``pixel`` is the world
    length of a pixel (geometric mean of the spacing of the fixed image); ``extent`` and ``middle`` are those of the
    fixed image, or of the box around its landmarks where the image is not at hand (CIMA). ``dense`` are points for
    evaluation with their true matches, where truth is known everywhere.
    """

    dataset: str
    name: str
    group: str
    fixed: Floats
    moving: Floats
    units: str
    pixel: float
    extent: tuple[float, ...]
    middle: tuple[float, ...]
    dense: Floats | None = None
    dense_truth: Floats | None = None

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.fixed.shape[1])

    def __len__(self) -> int:
        return len(self.fixed)


def _box(points: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    low = points.min(axis=0)
    high = points.max(axis=0)
    return tuple((high - low).tolist()), tuple(((low + high) / 2).tolist())


def _frame(grid: wg.Grid) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Pixel, extent and middle of an image."""
    size = np.asarray(grid.size)
    middle = grid.index_to_world([(size - 1) / 2])[0]
    pixel = grid.pixel
    return pixel, tuple((grid.spacing * size).tolist()), tuple(middle.tolist())


def _folder(data: Path, name: str) -> Path:
    folder = data / name
    if not folder.is_dir():
        raise InvalidInputError(
            f"The data directory {str(data)!r} has no folder {name!r}; point --data to one that has."
        )
    return folder


def _stain(name: str) -> str:
    lower = name.lower()
    found = {stain for key, stain in {**_MAMMARY, **_STAINS}.items() if f"-{key}" in lower or f"_{key}" in lower}
    if any(key in lower for key in _MAMMARY):
        found &= set(_MAMMARY.values())
    if len(found) != 1:
        raise InvalidInputError(f"The file {name!r} does not name a known stain of the CIMA set.")
    return found.pop()


def cima_stains(data: Path, region: str, rater: str = "PS") -> dict[str, tuple[Path, float]]:
    """Return each stain's file of one CIMA region, and the percentage of the full size that it was annotated at."""
    folder = _folder(data, "cima") / region
    below = sorted(folder.glob(f"user-{rater}_scale-*pc"))
    place = below[0] if below else folder
    percent = float(place.name.partition("scale-")[2].removesuffix("pc")) if below else CIMA_PERCENT
    return {_stain(file.name): (file, percent) for file in sorted(place.glob("*.csv"))}


@lru_cache(maxsize=8)
def cima(data: Path, *, ordered: bool = True, percent: float = CIMA_PERCENT) -> tuple[LandmarkPair, ...]:
    """All pairs of stains of all regions, in pixels at one percentage of the full size.

    The regions were annotated at 10, 50 and 100 % of the full size; at 10 % their longer sides are 1000 to 3100 pixels,
    which the paper's nine scales from 10 pixels on reach.
    """
    pairs = []
    for folder in sorted(path for path in _folder(data, "cima").iterdir() if path.is_dir()):
        stains = cima_stains(data, folder.name)
        for one, other in (permutations if ordered else combinations)(sorted(stains), 2):
            (first, at) = stains[one]
            (second, also) = stains[other]
            read = wg.read_landmarks(first, second, scale=(percent / at, percent / also), units="px")
            pairs.append(_pair("cima", f"{folder.name}_{one}_{other}", folder.name, read, 1.0))
    return tuple(pairs)


def _pair(dataset: str, name: str, group: str, read: wg.Landmarks, pixel: float) -> LandmarkPair:
    if read.moving_points is None:
        raise InvalidInputError(f"The landmarks of {name!r} have no matches.")
    return LandmarkPair(
        dataset, name, group, read.fixed_points, read.moving_points, read.units, pixel, *_box(read.fixed_points)
    )


def _dirlab(folder: Path, dataset: str, table: str, names: tuple[str, str]) -> tuple[LandmarkPair, ...]:
    with (folder / table).open() as file:
        rows = list(csv.DictReader(file))
    pairs = []
    for row in rows:
        case = row["case"]
        size = tuple(int(row[key]) for key in ("nx", "ny", "nz"))
        grid = wg.Grid(size, np.array([float(row[key]) for key in ("dx_mm", "dy_mm", "dz_mm")]), units="mm")
        fixed, moving = (folder / name.format(case) for name in names)
        if not fixed.is_file():
            continue
        read = wg.read_landmarks(fixed, moving, format="dirlab", fixed_grid=grid, moving_grid=grid)
        if read.moving_points is None:
            raise InvalidInputError(f"The landmarks of case {case} have no matches.")
        pairs.append(
            LandmarkPair(
                dataset, f"case{case}", f"case{case}", read.fixed_points, read.moving_points, "mm", *_frame(grid)
            )
        )
    return tuple(pairs)


@lru_cache(maxsize=4)
def copdgene(data: Path) -> tuple[LandmarkPair, ...]:
    """DIR-Lab COPDgene: inhale as fixed, exhale as moving image, 300 landmarks per case, mm."""
    names = ("copd{}_300_iBH_xyz_r1.txt", "copd{}_300_eBH_xyz_r1.txt")
    return _dirlab(_folder(data, "copdgene"), "copdgene", "copd_cases.csv", names)


@lru_cache(maxsize=4)
def dirlab4dct(data: Path) -> tuple[LandmarkPair, ...]:
    """DIR-Lab 4DCT: phases T00 (fixed) and T50, 300 landmarks per case, mm."""
    names = ("Case{}_300_T00_xyz.txt", "Case{}_300_T50_xyz.txt")
    return _dirlab(_folder(data, "dirlab4dct"), "dirlab4dct", "cases.csv", names)


def afids_placements(data: Path) -> dict[str, dict[str, dict[int, Floats]]]:
    """Return every placement, by image, rater (mean of the rater's sessions) and point, LPS mm."""
    gathered: dict[tuple[str, str, int], list[Floats]] = defaultdict(list)
    with (_folder(data, "afids") / "afids_multirater_long.csv").open() as file:
        for row in csv.DictReader(file):
            ras = np.array([float(row[key]) for key in ("x_mm", "y_mm", "z_mm")])
            gathered[row["image"], row["rater"], int(row["afid"])].append(ras * [-1, -1, 1])
    placements: dict[str, dict[str, dict[int, Floats]]] = defaultdict(lambda: defaultdict(dict))
    for (image, rater, point), sessions in gathered.items():
        placements[image][rater][point] = np.mean(sessions, axis=0)
    return placements


@lru_cache(maxsize=4)
def afids(data: Path, *, templates: bool = False) -> tuple[LandmarkPair, ...]:
    """All unordered pairs of the 30 HCP subjects (with ``templates``, of the two templates), mean over raters, mm."""
    means = {
        image: np.array(
            [np.mean([by[point] for by in raters.values() if point in by], axis=0) for point in range(1, 33)]
        )
        for image, raters in afids_placements(data).items()
        if image.startswith("tpl-") == templates
    }
    pixel, extent, middle = _frame(wg.read_image(_folder(data, "afids") / "mni152_6asym_T1.nii.gz").grid)
    return tuple(
        LandmarkPair("afids", f"{one}_{other}", one, means[one], means[other], "mm", pixel, extent, middle)
        for one, other in combinations(sorted(means), 2)
    )


@lru_cache(maxsize=4)
def elastix_lung(data: Path) -> LandmarkPair:
    """Return the elastix example's lung CT pair with its 51 landmarks, mm."""
    folder = _folder(data, "elastix-lung")
    grid = wg.read_image(folder / "3DCT_lung_baseline_mask.mha").grid
    read = wg.read_landmarks(
        folder / "CT_3D_lung_fixed_point_set_corrected.txt",
        folder / "CT_3D_lung_moving_point_set_corrected.txt",
        fixed_grid=grid,
    )
    if read.moving_points is None:
        raise InvalidInputError("The landmarks of elastix-lung have no matches.")
    return LandmarkPair("elastix-lung", "lung", "lung", read.fixed_points, read.moving_points, "mm", *_frame(grid))


@lru_cache(maxsize=2)
def elastix_lung_registrations(data: Path) -> tuple[list[str], Floats, Floats, Floats]:
    """Return the names of the 14 registrations, the sound landmarks, their matches, and where each maps them.

    One landmark is left out: all registrations miss it by 10 mm and more, see docs/validation.md.
    """
    pair = elastix_lung(data)
    files = sorted((data / "elastix-lung" / "transforms").glob("TransformParameters_*.txt"))
    sound = np.arange(len(pair)) != ELASTIX_LUNG_OUTLIER
    mapped = np.stack([wg.read_transform(file).map(pair.fixed[sound]) for file in files])
    return [file.stem.partition("3DCT_lung.")[2] for file in files], pair.fixed[sound], pair.moving[sound], mapped


def looked_up(points: Floats, values: Floats) -> Callable[[Floats], Floats]:
    """Return a function that knows its values at some points only."""
    rows = {point.tobytes(): row for row, point in enumerate(points)}
    return lambda at: np.asarray(values[[rows[point.tobytes()] for point in at]]).reshape(at.shape)


def _stains_of(pair: LandmarkPair) -> str:
    return pair.name.removeprefix(pair.group)


def _same_stains(pair: LandmarkPair, other: LandmarkPair) -> bool:
    return _stains_of(pair) == _stains_of(other)


def _other_group(pair: LandmarkPair, other: LandmarkPair) -> bool:
    return pair.group != other.group


def _other_subjects(pair: LandmarkPair, other: LandmarkPair) -> bool:
    return not set(pair.name.split("_")) & set(other.name.split("_"))


@dataclass(frozen=True)
class Dataset:
    """All that the studies need to know of a landmark set.

    ``levels`` is the number of scales of the paper's kernel bundle, each twice the one before. ``pairs(data)`` returns
    all pairs; None where pairs are simulated one at a time. ``longest`` is the number of annotations of the longest
    error curve and ``counts`` are those of the studies of the model; without them such a study leaves the set out.
    ``apart(pair, other)`` says whether they share nothing that must not be in training and test, and ``alike`` whether
    the other is preferred for training.
    """

    title: str
    units: str
    levels: int
    pairs: Callable[[Path], tuple[LandmarkPair, ...]] | None = None
    longest: int = 0
    counts: tuple[int, ...] = ()
    folder: str | None = None
    apart: Callable[[LandmarkPair, LandmarkPair], bool] = _other_group
    alike: Callable[[LandmarkPair, LandmarkPair], bool] = lambda pair, other: True

    def training(self, pair: LandmarkPair, pairs: Sequence[LandmarkPair]) -> list[LandmarkPair]:
        """Return the pairs that the weights for a pair may be learned on."""
        return [other for other in pairs if self.apart(pair, other) and self.alike(pair, other)]

    def testable(self, data: Path) -> tuple[LandmarkPair, ...]:
        """Return the pairs for which another can train, in turn over the groups where there are several stains.

        CIMA's mammary gland has stains of its own, and the other gland is not at hand.
        """
        pairs = self.all_pairs(data)
        return tuple(sorted((pair for pair in pairs if self.training(pair, pairs)), key=_stains_of))

    def all_pairs(self, data: Path) -> tuple[LandmarkPair, ...]:
        """Return all pairs of the set."""
        if self.pairs is None:
            raise InvalidInputError(f"The pairs of {self.title!r} are simulated, not read.")
        return self.pairs(data)


_LUNG_COUNTS = (10, 15, 20, 30, 40, 60, 100)
# Numbers of annotations: 38 is half of the smallest CIMA set, 16 half of the AFIDs.
DATASETS = {
    "cima": Dataset(
        "CIMA", "px", 9, lambda data: cima(data, ordered=False), 60, (10, 15, 20, 30, 38), "cima", alike=_same_stains
    ),
    "copdgene": Dataset("COPDgene", "mm", 6, copdgene, 150, _LUNG_COUNTS, "copdgene"),
    "dirlab4dct": Dataset("DIR-Lab 4DCT", "mm", 5, dirlab4dct, 150, _LUNG_COUNTS, "dirlab4dct"),
    "brain": Dataset("Synthetic brain", "mm", 6, longest=150),
    "dense": Dataset("Dense set", "px", 8, longest=200),
    "afids": Dataset("AFIDs", "mm", 5, afids, 0, (10, 13, 16), "afids", apart=_other_subjects),
    "elastix-lung": Dataset("elastix-lung", "mm", 5, lambda data: (elastix_lung(data),), folder="elastix-lung"),
}


def folders(names: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of the data directory that some sets are in."""
    return tuple(folder for name in names if (folder := DATASETS[name].folder) is not None)
